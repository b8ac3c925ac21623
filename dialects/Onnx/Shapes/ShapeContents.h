// Arithmetic on elements of small tensors, shared by the contents rules.
#ifndef TESSERA_DIALECTS_ONNX_SHAPES_SHAPECONTENTS_H
#define TESSERA_DIALECTS_ONNX_SHAPES_SHAPECONTENTS_H

#include "dialects/Onnx/Shapes/ShapeRules.h"

namespace tessera::onnx {

/// The quotient with common factors cancelled as far as they are seen.
Element makeElement(SymContext &ctx, Sym num, Sym den);

Element addElements(SymContext &ctx, Element a, Element b);
Element subElements(SymContext &ctx, Element a, Element b);
Element mulElements(SymContext &ctx, Element a, Element b);
/// Real division; Unknown where the divisor is 0.
Element divElements(SymContext &ctx, Element a, Element b);
Sym floorElement(SymContext &ctx, Element e);
Sym ceilElement(SymContext &ctx, Element e);

/// Sizes of a tensor whose dimensions are all numbers; Unknown otherwise.
llvm::SmallVector<int64_t, 4> staticDims(const OpShapes &s, mlir::Value v);
int64_t countOf(llvm::ArrayRef<int64_t> dims);

/// Calls `visit` with each index of a tensor in row-major order.
void forEachIndex(llvm::ArrayRef<int64_t> dims,
                  llvm::function_ref<void(llvm::ArrayRef<int64_t>)> visit);
int64_t flatIndex(llvm::ArrayRef<int64_t> dims, llvm::ArrayRef<int64_t> index);
/// The same, `index` being that of a tensor which `dims` broadcasts to.
int64_t broadcastIndex(llvm::ArrayRef<int64_t> dims, llvm::ArrayRef<int64_t> index);

/// Elementwise over all operands, broadcast to result 0.
Contents mapBroadcast(OpShapes &s, llvm::function_ref<Element(llvm::ArrayRef<Element>)> fn);

bool isIntegerTensor(mlir::Value v);

} // namespace tessera::onnx
#endif

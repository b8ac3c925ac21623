// The dialect, its types and the interface of its operators. Operators are in
// Ops<Category>.h (generated), all together in OnnxOps.h.
#ifndef TESSERA_DIALECTS_ONNX_IR_ONNXDIALECT_H
#define TESSERA_DIALECTS_ONNX_IR_ONNXDIALECT_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "dialects/Onnx/IR/OnnxDialect.h.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/Onnx/IR/OnnxTypes.h.inc"
#include "dialects/Onnx/IR/OnnxInterfaces.h.inc"

namespace tessera::onnx {

/// The textual form that all operators share.
mlir::ParseResult parseOp(mlir::OpAsmParser &parser, mlir::OperationState &state,
                          llvm::StringRef inputKinds, llvm::StringRef outputKinds);
void printOp(mlir::OpAsmPrinter &printer, mlir::Operation *op,
             llvm::StringRef inputKinds, llvm::StringRef outputKinds);

/// Registers the operators of one generated file.
template <typename... Ops> void insertOps(OnnxDialect &dialect) {
  (mlir::RegisteredOperationName::insert<Ops>(dialect), ...);
}

} // namespace tessera::onnx

#endif

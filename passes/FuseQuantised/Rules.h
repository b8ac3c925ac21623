// What the rewrites of quantised operators share.
#ifndef TESSERA_PASSES_FUSEQUANTISED_RULES_H
#define TESSERA_PASSES_FUSEQUANTISED_RULES_H

#include "passes/Canonicalise/Dequantised.h"
#include "passes/Canonicalise/OnnxBuilder.h"

namespace tessera {

/// A float32 tensor that is (integers - zero) * scale before it is rounded.
struct Quantised {
  mlir::Value integers, scale; ///< up to 32 bits; float32
  mlir::Value zero;            ///< may be null
  int64_t axis = -1; ///< of scale and zero, not negative; -1: one for all
  int64_t block = 0; ///< integers, scale and zero are constants then

  mlir::RankedTensorType type() const { return onnx::rankedType(integers); }
  unsigned bits() const {
    return type().getElementType().getIntOrFloatBitWidth();
  }
};

/// A DequantizeLinear, or a constant that was one.
std::optional<Quantised> readQuantised(onnx::OnnxBuilder &b, mlir::Value v);

/// integers - zero in floating point `element`, exactly.
mlir::Value differencesOf(onnx::OnnxBuilder &b, const Quantised &q,
                          mlir::Type element);
/// (integers - zero) * scale in double: exact up to 29 bits of difference. Null
/// where blocks are not constant.
mlir::Value realOf(onnx::OnnxBuilder &b, const Quantised &q);
/// A parameter of one axis shaped to broadcast against a tensor of `rank`.
mlir::Value alongAxis(onnx::OnnxBuilder &b, mlir::Value parameter, int64_t axis,
                      int64_t rank);

/// The attributes that the operator has by its schema.
llvm::SmallVector<mlir::NamedAttribute> schemaAttributes(mlir::Operation *op);
/// Whether the CPU computes `op`.
bool isServed(mlir::Operation *op);
/// Whether it is computed element by element.
bool isElementwise(mlir::Operation *op);
/// Whether IEEE 754 or plain choice fixes every bit of its float results.
bool isExactElementwise(mlir::Operation *op);
/// Erases what was built from `first` on up to `op`, and is not used.
void dropUnused(mlir::Operation *first, mlir::Operation *end);

// One rewrite each, of an operator outside of segments; false: nothing changed.

/// DequantizeLinear behind operators that only move elements.
bool moveDequantise(mlir::Operation *op, mlir::IRRewriter &r);
/// Relu and Clip before QuantizeLinear as bounds of integers.
bool clampIntegers(mlir::Operation *op, mlir::IRRewriter &r);
/// QuantizeLinear of a DequantizeLinear by the same parameters.
bool dropRequantise(mlir::Operation *op, mlir::IRRewriter &r);
/// Matrix products and convolutions of quantised operands.
bool fuseProduct(mlir::Operation *op, mlir::IRRewriter &r);
/// Whether a ConvInteger or MatMulInteger is worth being made, beside its
/// operands.
using SumsWanted = llvm::function_ref<bool(mlir::Operation *)>;
/// Products of 8-bit operands, where one that is wanted sums them.
bool exposeSums(mlir::Operation *op, mlir::IRRewriter &r, SumsWanted wanted);
/// Integer products with constant weights on signed bytes, without a zero point
/// from the run, where that is wanted; and back.
bool takeOutZeroPoint(mlir::Operation *op, mlir::IRRewriter &r,
                      SumsWanted wanted);
bool putZeroPointBack(mlir::Operation *op, mlir::IRRewriter &r);
/// QuantizeLinear of functions of one 8-bit tensor: a table.
bool tabulate(mlir::Operation *op, mlir::IRRewriter &r);
/// GlobalAveragePool of a quantised operand.
bool sumAverage(mlir::Operation *op, mlir::IRRewriter &r);
/// Sums and functions of dequantised operands, in double.
bool widen(mlir::Operation *op, mlir::IRRewriter &r);

/// What leads from integer sums to QuantizeLinear, in one operator.
bool fuseRequantise(mlir::Operation *op, mlir::IRRewriter &r);

} // namespace tessera
#endif

// What a constant was before DequantizeLinear made it floats.
//
// Folding a DequantizeLinear loses the integers, and floats do not tell them:
// (q - zero) * scale is rounded. The folded onnx.Weight carries the operands in
// a discardable attribute, so that integer products can be formed from it
// later. Whatever drops the attribute loses an opportunity and nothing else.
#ifndef TESSERA_PASSES_CANONICALISE_DEQUANTISED_H
#define TESSERA_PASSES_CANONICALISE_DEQUANTISED_H

#include "passes/Canonicalise/HostTensor.h"

#include "mlir/IR/Operation.h"
#include "mlir/IR/Value.h"

namespace tessera::onnx {

/// Whether `op`, which may be null, gives sums of products of bytes, in int32.
bool isIntegerSum(mlir::Operation *op);

struct Dequantised {
  HostTensor integers, scale;
  std::optional<HostTensor> zero;
  int64_t axis = -1; ///< of scale and zero point, not negative; -1: one for all
  int64_t block = 0; ///< their blocks along the axis; 0: none
};

/// The constant operands of a DequantizeLinear from integers by scales of
/// float32 or float16, which are the type of the result.
std::optional<Dequantised> readDequantise(mlir::Operation *op);
/// What `v` is made from, if it is a constant that was folded so.
std::optional<Dequantised> dequantisedConstant(mlir::Value v);
/// The integers' type and the blocks' length of such a constant, which is all
/// that costs depend on.
struct DequantisedForm {
  mlir::Type element;
  int64_t block = 0;
};
std::optional<DequantisedForm> dequantisedForm(mlir::Value v);
/// Notes at `weight`, an onnx.Weight, what it is made from.
void noteDequantised(mlir::Value weight, const Dequantised &from);
/// Copies the note of `from`'s constant operand to its folded result `weight`
/// where `from` only moves elements.
void keepDequantised(mlir::Operation *from, mlir::Value weight);

} // namespace tessera::onnx
#endif

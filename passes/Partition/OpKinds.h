// What the parts of the phase agree on about operators.
#ifndef TESSERA_PASSES_PARTITION_OPKINDS_H
#define TESSERA_PASSES_PARTITION_OPKINDS_H

#include "mlir/IR/Operation.h"

namespace tessera {

/// Whether `op` computes nothing: a constant, or what stands for an absent operand.
inline bool isConstantOp(mlir::Operation *op) {
  llvm::StringRef name = op->getName().getStringRef();
  return op->hasTrait<mlir::OpTrait::ConstantLike>() || name == "onnx.Constant" || name == "onnx.NoValue";
}

} // namespace tessera
#endif

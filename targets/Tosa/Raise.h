// TOSA back to onnx operators, for the CPU code generator.
#ifndef TESSERA_TARGETS_TOSA_RAISE_H
#define TESSERA_TARGETS_TOSA_RAISE_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"

namespace tessera::tosa {

/// Builds at `builder` the onnx operators of `func`, a function of tosa
/// operators, on `arguments` (of its parameters' types), and returns its
/// results. Tensors keep their element types: float16 is stored as float16, its
/// sums are of float32 as everywhere in this compiler; integers are exact.
/// Failures are diagnostics.
mlir::FailureOr<llvm::SmallVector<mlir::Value>> raiseToOnnx(mlir::func::FuncOp func, mlir::ValueRange arguments,
                                                            mlir::OpBuilder &builder);

} // namespace tessera::tosa
#endif

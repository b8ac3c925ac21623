// Operators in float16, for units that store tensors so.
#ifndef TESSERA_PASSES_PARTITION_HALFOPS_H
#define TESSERA_PASSES_PARTITION_HALFOPS_H

#include "mlir/IR/Operation.h"

#include <string>

namespace tessera {

/// Replaces `ops`, which lie in one block in their order, by operators at its
/// end that read and write float16 where those had float32, and sets `ops` to
/// them. `inHalf` gives the float16 form of a float32 value from outside,
/// `outOfHalf` the float32 form of a float16 result for readers outside;
/// constants are rounded here. What an operator's schema has in float32 alone
/// (scales of Resize), the result of a Cast to float32 and quantisers keep it,
/// with conversions around.
/// Fails, with a reason in `fault` and `ops` as they were, if a constant has no
/// finite float16.
mlir::LogicalResult
replaceInHalf(llvm::SmallVectorImpl<mlir::Operation *> &ops,
              llvm::function_ref<mlir::Value(mlir::Value)> inHalf,
              llvm::function_ref<mlir::Value(mlir::Value)> outOfHalf,
              std::string &fault);

} // namespace tessera
#endif

// Operators taken by themselves, to be lowered on trial.
#ifndef TESSERA_TARGETS_ISOLATE_H
#define TESSERA_TARGETS_ISOLATE_H

#include "mlir/IR/BuiltinOps.h"

namespace tessera {

/// A module whose function `main` computes copies of `ops`, which lie in one block
/// in their order, and sets `copies` to them. It has constants of its own; its
/// arguments are what else the operators read, its results what others read of
/// theirs and `isResult` holds for.
mlir::OwningOpRef<mlir::ModuleOp> isolate(llvm::ArrayRef<mlir::Operation *> ops,
                                          llvm::function_ref<bool(mlir::Value)> isResult,
                                          llvm::SmallVectorImpl<mlir::Operation *> &copies);

} // namespace tessera
#endif

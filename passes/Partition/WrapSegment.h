// From operators to a `tsr.segment` that holds them.
#ifndef TESSERA_PASSES_PARTITION_WRAPSEGMENT_H
#define TESSERA_PASSES_PARTITION_WRAPSEGMENT_H

#include "dialects/Tsr/IR/TsrDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tessera {

/// Moves `ops`, which lie in one block, into a new segment of `device`.
/// Constants that they read are cloned into it. Operators between them that
/// read a result of theirs move behind the segment. Fails, with a diagnostic
/// and nothing changed, if a path leaves the set and comes back, or if a type
/// at the border is no static tensor.
mlir::FailureOr<tsr::SegmentOp> wrapIntoSegment(llvm::ArrayRef<mlir::Operation *> ops, llvm::StringRef unit,
                                                int64_t device, bool zeroCopy);

/// For tests: each text is `UNIT=NODE,NODE,...` or `UNIT:zero-copy=NODE,...` and
/// makes one segment of the nodes so named. Devices are numbered by first
/// mention of their unit. Shapes must be static.
llvm::LogicalResult wrapNamedNodes(mlir::func::FuncOp func, llvm::ArrayRef<std::string> texts);

} // namespace tessera
#endif

// Quantised islands: operators between DequantizeLinear and QuantizeLinear.
//
// An integer unit computes such an island from integers to integers, so none of
// its float tensors may cross the border of what is placed. The CPU's fusion
// groups cut through islands; here the groups of one are joined to one operator
// of the partition problem.
#ifndef TESSERA_PASSES_PARTITION_ISLANDS_H
#define TESSERA_PASSES_PARTITION_ISLANDS_H

#include "targets/Target.h"
#include "mlir/IR/Operation.h"

#include <vector>

namespace tessera {

/// Moves each DequantizeLinear with one reader to its reader's group: the CPU fuses
/// it behind what it reads, where it would let a float cross the border. Then
/// joins groups that float tensors connect, where some unit of the target that
/// computes in integers takes all of their operators, no float tensor crosses
/// the border of the whole, and no path leaves it and comes back.
void mergeIslands(std::vector<llvm::SmallVector<mlir::Operation *>> &groups, const TargetDescription &target);

} // namespace tessera
#endif

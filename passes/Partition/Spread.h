// Work shared out so that devices run at the same time.
//
// The solver's answer costs least as if one thing ran after the other, and joins
// segments to save launches. So what could begin at once may wait behind what
// shares its segment, and branches queue for one device. Here segments are taken
// apart, and chains of operators moved, where the schedule then ends sooner by at
// least what that adds to the work (Rationale.md).
#ifndef TESSERA_PASSES_PARTITION_SPREAD_H
#define TESSERA_PASSES_PARTITION_SPREAD_H

#include "passes/Partition/Schedule.h"

namespace tessera {

/// What spreading changed.
struct Spread {
  partition::Cost work = 0; ///< added to the solution's cost, ns; it may be less than 0
  partition::Cost gain = 0; ///< by which the schedule ends sooner, ns
};

/// Changes `solution` to one that is legal, obeys `allowed`, has no greater
/// sensitivity, and costs `most` at most. Devices that are not in `movable` keep
/// their operators and segments.
Spread spread(const partition::Problem &problem, llvm::ArrayRef<PlacementDevice> devices,
              const partition::Allowed &allowed, const std::vector<char> &movable, partition::Cost most,
              partition::Solution &solution);

} // namespace tessera
#endif

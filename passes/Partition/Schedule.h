// What of a placement runs when, under the cost model, and who waits for whom.
//
// The CPU computes its groups one after the other and launches segments, which
// run beside it, those of one unit one after the other. A launch is made as soon
// as its inputs are there; what would have to wait for a segment comes after
// everything that need not; a fence waits for all that its unit has been given.
// The plan's commands are in this order, but that what reads a segment's results
// is put off until it is needed, even if the segment should have ended by then.
#ifndef TESSERA_PASSES_PARTITION_SCHEDULE_H
#define TESSERA_PASSES_PARTITION_SCHEDULE_H

#include "passes/Partition/BuildProblem.h"

namespace tessera {

/// A group on the CPU, or a segment.
struct ScheduleStep {
  int device = 0;                     ///< of the problem; 0: the CPU
  int segment = -1;                   ///< of the solution
  std::vector<int> ops;               ///< of the problem
  partition::Cost start = 0, end = 0; ///< ns; copies of the inputs included
  /// The step whose end is this one's start, or -1.
  int after = -1;
  /// The segment's step that the CPU waited for before this, or -1, and since when.
  int waitedFor = -1;
  partition::Cost waitedFrom = 0, waitedTo = 0;
};

struct Schedule {
  std::vector<ScheduleStep> steps; ///< in the order in which the CPU comes to them
  partition::Cost end = 0;         ///< of all of it, copies of results included
  std::vector<int> critical;       ///< steps of which each ends where the next begins, to the last
};

Schedule scheduleOf(const partition::Graph &graph, llvm::ArrayRef<PlacementDevice> devices,
                    const partition::Solution &solution);

} // namespace tessera
#endif

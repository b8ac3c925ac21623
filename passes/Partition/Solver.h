// Solves a partition problem: starting answers, bounds, search (Rationale.md).
// The work is limited by counts, never by a clock: the same problem has the
// same answer everywhere.
#ifndef TESSERA_PASSES_PARTITION_SOLVER_H
#define TESSERA_PASSES_PARTITION_SOLVER_H

#include "passes/Partition/Graph.h"

namespace tessera::partition {

struct SolverOptions {
  size_t width = 16384;         ///< most states of a layer
  uint64_t work = 40'000'000;   ///< steps of the search, over all its runs
};

struct SolverResult {
  std::optional<Solution> solution;
  bool proven = false; ///< without a solution: that there is none
  /// What simpler tools answer, with the best segments for their choice.
  /// They obey pins, but not the budget.
  std::optional<Solution> cpuOnly;         ///< everything on device 0
  std::optional<Solution> mostAccelerated; ///< the last device wherever it can
  std::optional<Solution> inOrder;         ///< each operator, in order, where it is cheapest now
  size_t peakStates = 0;
  uint64_t work = 0;
};

Allowed allowAll(const Problem &problem);
/// Restricts an operator to a device: "NAME=DEVICE", or "#INDEX=DEVICE".
llvm::Error pinOp(const Problem &problem, llvm::StringRef pin, Allowed &allowed);

SolverResult solve(const Problem &problem, const Allowed &allowed, const SolverOptions &options = {});

} // namespace tessera::partition
#endif

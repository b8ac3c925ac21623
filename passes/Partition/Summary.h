// A solution in words: what it costs, made of what, and against simpler answers.
#ifndef TESSERA_PASSES_PARTITION_SUMMARY_H
#define TESSERA_PASSES_PARTITION_SUMMARY_H

#include "passes/Partition/Solver.h"

namespace tessera::partition {

struct DeviceShare {
  int ops = 0, segments = 0;
  Cost cost = 0, launches = 0;
};

/// Operators, segments and time of each device.
std::vector<DeviceShare> sharesByDevice(const Problem &problem, const Solution &solution);

void printSummary(const Problem &problem, const SolverResult &result, llvm::raw_ostream &os);

} // namespace tessera::partition
#endif

// Small partition problems by the thousand, and their optimum by enumeration.
#ifndef TESSERA_TEST_UNIT_PARTITION_SMALLPROBLEMS_H
#define TESSERA_TEST_UNIT_PARTITION_SMALLPROBLEMS_H

#include "passes/Partition/Problem.h"

#include <random>

namespace tessera::partition::test {

/// Integers that are the same with every standard library.
class Dice {
public:
  explicit Dice(uint32_t seed) : engine(seed) {}
  int upTo(int most) { return int(engine() % uint32_t(most + 1)); }
  int between(int least, int most) { return least + upTo(most - least); }
  bool chance(int percent) { return upTo(99) < percent; }

private:
  std::mt19937 engine;
};

/// Up to 9 operators on 2 or 3 devices; some conversions and host options are
/// missing, some launches cost nothing, some are dear.
Problem smallProblem(uint32_t seed, bool budget);

/// The least cost over all choices and all divisions into segments, or nothing.
std::optional<Cost> enumerateOptimum(const Problem &problem);

std::string textOf(const Problem &problem);
std::string textOf(const Solution &solution);

} // namespace tessera::partition::test
#endif

// The arena planner: answers go through the validator, small ones are compared
// with brute force.
#include "compiler/Memory/MemoryProblem.h"
#include "compiler/Memory/PlanMemory.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <numeric>
#include <random>

using namespace tessera;

namespace {

MemoryProblem randomProblem(std::mt19937 &random, size_t count,
                            uint64_t maxSize, uint32_t moments,
                            uint32_t maxLength) {
  MemoryProblem problem;
  for (size_t i = 0; i < count; ++i) {
    uint32_t first = random() % moments;
    problem.buffers.push_back({random() % (maxSize + 1), first,
                               first + uint32_t(random() % maxLength)});
  }
  return problem;
}

/// The least arena: some order of lowest fits reaches it.
uint64_t bruteForce(const MemoryProblem &problem) {
  std::vector<size_t> order(problem.buffers.size());
  std::iota(order.begin(), order.end(), size_t(0));
  uint64_t best = UINT64_MAX;
  auto up = [](uint64_t v) { return (v + 63) / 64 * 64; };
  do {
    std::vector<uint64_t> at(order.size());
    uint64_t end = 0;
    for (size_t k = 0; k < order.size(); ++k) {
      const MemoryBuffer &b = problem.buffers[order[k]];
      for (bool moved = true; moved;) {
        moved = false;
        for (size_t j = 0; j < k; ++j) {
          const MemoryBuffer &o = problem.buffers[order[j]];
          uint64_t other = at[order[j]], mine = at[order[k]];
          if (o.first <= b.last && b.first <= o.last &&
              mine < other + up(o.size) && other < mine + up(b.size)) {
            at[order[k]] = other + up(o.size);
            moved = true;
          }
        }
      }
      end = std::max(end, at[order[k]] + up(b.size));
    }
    best = std::min(best, end);
  } while (std::next_permutation(order.begin(), order.end()));
  return best;
}

} // namespace

TEST_CASE("arenas of random problems are valid and close to the bound",
          "[memory]") {
  std::mt19937 random(11);
  double worst = 1;
  for (int i = 0; i < 12; ++i) {
    MemoryProblem problem =
        randomProblem(random, 20 + random() % 200, 100000, 200, 30);
    MemorySolution solution = solve(problem);
    auto fault = validate(problem, solution);
    INFO((fault ? *fault : ""));
    REQUIRE(!fault);
    REQUIRE(solution.bytes >= lowerBound(problem));
    worst =
        std::max(worst, double(solution.bytes) / double(lowerBound(problem)));
    CHECK(solve(problem).offsets == solution.offsets);
  }
  CHECK(worst < 1.2);
}

TEST_CASE("small arenas against brute force", "[memory]") {
  std::mt19937 random(5);
  unsigned optimal = 0, total = 60;
  for (unsigned i = 0; i < total; ++i) {
    MemoryProblem problem = randomProblem(random, 6, 8, 8, 4);
    for (MemoryBuffer &b : problem.buffers)
      b.size *= 64;
    MemorySolution solution = solve(problem);
    REQUIRE(!validate(problem, solution));
    uint64_t best = bruteForce(problem);
    REQUIRE(solution.bytes >= best);
    optimal += solution.bytes == best;
  }
  CHECK(optimal >= total * 9 / 10);
}

TEST_CASE("the validator sees every kind of fault", "[memory]") {
  MemoryProblem problem;
  problem.buffers = {{64, 0, 2}, {64, 2, 3}, {0, 0, 9}};
  MemorySolution good = {{0, 64, 0}, 128, ""};
  CHECK(!validate(problem, good));
  CHECK(validate(problem, {{0, 0, 0}, 128, ""}));
  CHECK(validate(problem, {{0, 32, 0}, 128, ""}));
  CHECK(validate(problem, {{0, 64, 0}, 100, ""}));
  CHECK(validate(problem, {{0, 64}, 128, ""}));
  problem.buffers[1].first = 3;
  CHECK(!validate(problem, {{0, 0, 0}, 64, ""}));
  problem.buffers[0].first = 5;
  CHECK(validate(problem, good));
}

TEST_CASE("a chain of layers needs two buffers", "[memory]") {
  MemoryProblem problem;
  for (uint32_t i = 0; i < 1000; ++i)
    problem.buffers.push_back({4096, i, i + 1});
  MemorySolution solution = solve(problem);
  CHECK(solution.bytes == 8192);
  CHECK(!validate(problem, solution));
}

TEST_CASE("lifetimes follow loops", "[memory]") {
  // 0: write a; 1: write c; 2 (head): branch to 7; 3: read a, write b;
  // 4: read b, write d; 5: write e; 6: jump 2; 7: read d
  Plan plan;
  plan.pools = {{"arena", 0, 0, 64, false}};
  plan.registers = 1;
  for (int i = 0; i < 5; ++i) {
    PlanBuffer buffer;
    buffer.sizeBytes = 64;
    plan.buffers.push_back(buffer);
  }
  auto touches = [&](std::vector<uint32_t> buffers) {
    PlanCommand c{.kind = CommandKind::Dispatch, .a = 0};
    c.b = plan.operands.size();
    c.c = buffers.size();
    c.d = c.e = 0;
    plan.operands.insert(plan.operands.end(), buffers.begin(), buffers.end());
    plan.commands.push_back(c);
  };
  touches({0});
  touches({2});
  plan.commands.push_back({.kind = CommandKind::BranchZero, .a = 0, .b = 7});
  touches({0, 1});
  touches({1, 3});
  touches({4});
  plan.commands.push_back({.kind = CommandKind::Jump, .a = 2});
  touches({3});
  computeLifetimes(plan);
  auto life = [&](int b) {
    return std::pair(plan.buffers[b].firstCommand, plan.buffers[b].lastCommand);
  };
  CHECK(life(0) == std::pair(0u, 6u)); // read again in every iteration
  CHECK(life(1) == std::pair(3u, 4u)); // inside one iteration
  CHECK(life(2) == std::pair(1u, 1u)); // not in the loop
  CHECK(life(3) == std::pair(2u, 7u)); // survives the rest of the loop
  CHECK(life(4) == std::pair(5u, 5u));
}

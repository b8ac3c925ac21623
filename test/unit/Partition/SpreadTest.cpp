#include "passes/Partition/Spread.h"

#include <catch2/catch_test_macros.hpp>

using namespace tessera;
using partition::Cost;

namespace {

/// A CPU, a GPU whose launch costs 5, and an NPU whose launch costs 2; copies
/// cost nothing. Operators have the options that a test gives them.
struct Model {
  partition::Problem problem;
  partition::Solution solution;
  std::vector<PlacementDevice> devices = {
      {0, Precision::F32}, {1, Precision::F32}, {2, Precision::F32}};
  std::vector<char> movable = {1, 1, 1};

  Model() {
    problem.devices = {{"cpu", 0, false}, {"gpu", 5, true}, {"npu", 2, true}};
    problem.states = {"cpu", "gpu", "npu"};
    problem.conversions.assign(
        3, std::vector<std::optional<partition::Conversion>>(
               3, partition::Conversion{}));
  }

  /// An operator that writes the tensor of its number; the option chosen is the
  /// first.
  void add(const char *name, std::vector<int> inputs,
           std::vector<std::pair<int, Cost>> options, int segment) {
    partition::Op op{name, std::move(inputs), {int(problem.ops.size())}, {}};
    for (auto [device, cost] : options)
      op.options.push_back({device, device, device, cost, 0});
    problem.ops.push_back(std::move(op));
    problem.elements.push_back(1);
    solution.choice.push_back(0);
    solution.segment.push_back(segment);
  }

  Spread run(const partition::Allowed *allowed = nullptr,
             Cost most = partition::impossible) {
    partition::Graph graph(problem);
    solution.cost =
        partition::priceOf(graph, solution.choice, solution.segment)->cost;
    Spread s = spread(problem, devices,
                      allowed ? *allowed : partition::allowAll(problem),
                      movable, most, solution);
    CHECK(partition::priceOf(graph, solution.choice, solution.segment)->cost ==
          solution.cost);
    return s;
  }
  int deviceOf(int op) const {
    return problem.ops[op].options[solution.choice[op]].device;
  }
};

/// x feeds a1, a2 and b1, b2; c reads both ends. All four are in one segment on
/// the NPU, 10 each; the GPU takes 12 for each of b1 and b2.
struct TwoChains : Model {
  TwoChains() {
    add("x", {}, {{0, 0}}, -1);
    add("a1", {0}, {{2, 10}}, 0);
    add("a2", {1}, {{2, 10}}, 0);
    add("b1", {0}, {{2, 10}, {1, 12}}, 1);
    add("b2", {3}, {{2, 10}, {1, 12}}, 1);
    add("c", {2, 4}, {{0, 1}}, -1);
  }
};

/// g1 and g2 share a segment of the GPU; g2 reads n, which the NPU works on
/// from 2 to 22.
struct LateInput : Model {
  LateInput() {
    add("x", {}, {{0, 0}}, -1);
    add("n", {0}, {{2, 20}}, 0);
    add("g1", {0}, {{1, 20}}, 1);
    add("g2", {1, 2}, {{1, 6}}, 1);
    add("c", {3}, {{0, 1}}, -1);
  }
};

} // namespace

TEST_CASE("a chain that queues for a device goes to another that is idle") {
  TwoChains m;
  // Before: 2 + 20 twice and 1, 45. After: 5 + 24 beside 2 + 20, and 1: 30.
  // More work are the chain's 4 and the launch's 5 in place of 2.
  Spread s = m.run();
  CHECK(s.gain == 15);
  CHECK(s.work == 7);
  CHECK(m.deviceOf(1) == 2);
  CHECK(m.deviceOf(2) == 2);
  CHECK(m.deviceOf(3) == 1);
  CHECK(m.deviceOf(4) == 1);
  CHECK(m.solution.segment[3] == m.solution.segment[4]);
}

TEST_CASE("what can begin is taken out of a segment that has to wait") {
  LateInput m;
  // Before: 22, then 5 + 26 and 1, 54. After: g1 ends at 25, g2 at 25 + 5 + 6,
  // c at 37, for one launch more.
  Spread s = m.run();
  CHECK(s.gain == 17);
  CHECK(s.work == 5);
  CHECK(m.solution.segment[2] != m.solution.segment[3]);
}

TEST_CASE("pins, other devices' segments and the limit of the cost are kept") {
  TwoChains pinned;
  partition::Allowed allowed = partition::allowAll(pinned.problem);
  allowed[4][1] = false; // b2 stays on the NPU
  pinned.run(&allowed);
  CHECK(pinned.deviceOf(4) == 2);

  TwoChains held;
  held.movable = {1, 1, 0};
  CHECK(held.run().gain == 0);

  TwoChains dear;
  CHECK(dear.run(nullptr, /*most=*/45 + 6).gain == 0);
}

TEST_CASE("a change that adds more work than it saves time is not made") {
  TwoChains m;
  m.problem.ops[3].options[1].cost = 19; // 7 + 7 + 3 more work,
  m.problem.ops[4].options[1].cost = 19; // for 45 - (5 + 38 + 1) = 1
  CHECK(m.run().gain == 0);
  LateInput l;
  // 22 + 21 + 26 + 1 = 70 before, 2 * 21 + 20 + 6 + 1 = 69 after, for a launch.
  l.problem.devices[1].launch = 21;
  CHECK(l.run().gain == 0);
}

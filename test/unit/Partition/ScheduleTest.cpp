#include "passes/Partition/Schedule.h"

#include <catch2/catch_test_macros.hpp>

using namespace tessera;

namespace {

/// x feeds a, b and n; a feeds g; c reads b, g and n. a, b, c are the CPU's, g
/// the GPU's, n the NPU's.
struct Branches {
  partition::Problem problem;
  partition::Solution solution;
  std::vector<PlacementDevice> devices = {
      {0, Precision::F32}, {1, Precision::F32}, {2, Precision::Int8}};

  explicit Branches(partition::Cost copy = 0) {
    problem.devices = {{"cpu", 0, false}, {"gpu", 5, true}, {"npu", 2, true}};
    problem.states = {"cpu", "gpu", "npu"};
    problem.conversions.assign(
        3, std::vector<std::optional<partition::Conversion>>(
               3, partition::Conversion{copy, 0}));
    for (int s = 0; s < 3; ++s)
      problem.conversions[s][s] = partition::Conversion{};
    problem.elements = {1, 1, 1, 1, 1, 1};
    add("x", {}, 0, 0, 0);
    add("a", {0}, 1, 0, 10);
    add("b", {0}, 2, 0, 12);
    add("g", {1}, 3, 1, 20);
    add("n", {0}, 4, 2, 6);
    add("c", {2, 3, 4}, 5, 0, 3);
    problem.ops.push_back({"outputs", {5}, {}, {{0, 0, 0, 0, 0}}});
    solution.choice.assign(problem.ops.size(), 0);
    solution.segment = {-1, -1, -1, 0, 1, -1, -1};
  }

  void add(const char *name, std::vector<int> inputs, int output, int device,
           partition::Cost cost) {
    problem.ops.push_back({name,
                           std::move(inputs),
                           {output},
                           {{device, device, device, cost, 0}}});
  }

  const ScheduleStep &step(const Schedule &schedule, int op) const {
    for (const ScheduleStep &s : schedule.steps)
      if (s.ops == std::vector{op})
        return s;
    FAIL("no step of operator " << op);
    return schedule.steps.front();
  }
};

} // namespace

TEST_CASE(
    "a launch comes before work, what leads to a launch before the rest") {
  Branches m;
  Schedule s = scheduleOf(partition::Graph(m.problem), m.devices, m.solution);
  // n is launched at once and works 2 + 6; a ends at 10, and the launch and
  // work of g take 5 + 20; b is computed beside g.
  CHECK(m.step(s, 4).end == 8);
  CHECK(m.step(s, 1).end == 10);
  CHECK(m.step(s, 3).start == 10);
  CHECK(m.step(s, 3).end == 35);
  CHECK(m.step(s, 2).start == 10);
  CHECK(m.step(s, 2).end == 22);
}

TEST_CASE("the CPU waits for the later of two segments, and the critical path "
          "says so") {
  Branches m;
  Schedule s = scheduleOf(partition::Graph(m.problem), m.devices, m.solution);
  const ScheduleStep &c = m.step(s, 5);
  REQUIRE(c.waitedFor >= 0);
  CHECK(s.steps[c.waitedFor].segment == 0);
  CHECK(c.waitedFrom == 22);
  CHECK(c.waitedTo == 35);
  CHECK(s.end == 38);
  std::vector<int> ops;
  for (int k : s.critical)
    if (s.steps[k].end > s.steps[k].start)
      ops.push_back(s.steps[k].ops.front());
  CHECK(ops == std::vector{1, 3, 5}); // a, g, c
}

TEST_CASE("copies are the CPU's work, once for each memory") {
  Branches m(/*copy=*/1);
  Schedule s = scheduleOf(partition::Graph(m.problem), m.devices, m.solution);
  // x to the NPU ends at 1, a at 11, its copy at 12, g at 37; b at 24; then the
  // results of g and n come back: 39, and c ends at 42.
  CHECK(m.step(s, 4).start == 1);
  CHECK(m.step(s, 3).start == 12);
  CHECK(m.step(s, 5).start == 39);
  CHECK(s.end == 42);
}

TEST_CASE("segments of one unit follow each other, in whatever precision") {
  Branches m;
  m.devices[2] = {1, Precision::F16}; // n is the GPU's, too
  Schedule s = scheduleOf(partition::Graph(m.problem), m.devices, m.solution);
  CHECK(m.step(s, 4).end == 8);
  CHECK(m.step(s, 3).start == 10);
  m.problem.ops[4].options[0].cost = 30; // n works until 32
  s = scheduleOf(partition::Graph(m.problem), m.devices, m.solution);
  CHECK(m.step(s, 3).start == 32);
  CHECK(s.steps[m.step(s, 3).after].segment == 1);
}

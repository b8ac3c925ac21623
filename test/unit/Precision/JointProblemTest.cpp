// Precision and device as one problem, on chains small enough to price by hand.
#include "passes/Precision/JointProblem.h"
#include "passes/Partition/Solver.h"
#include "passes/Precision/AccuracyLimit.h"
#include "passes/Precision/ChoosePrecision.h"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

using namespace tessera;
using partition::Conversion;

namespace {

/// input -> a -> b -> outputs, as float groups and as integer groups with a
/// QuantizeLinear of its own at the border. Devices: cpu, npu:f16, npu:int8.
struct Chain {
  JointSide floats, integers;
  std::vector<PlacementDevice> devices = {
      {0, Precision::F32}, {1, Precision::F16}, {1, Precision::Int8}};
  std::vector<JointUnit> units = {{{"a"}, 0.01}, {{"b"}, 0.02}};
  JointOptions options;

  explicit Chain(bool outputInIntegers) {
    auto &f = floats.problem;
    f.devices = {
        {"cpu", 0, false}, {"npu:f16", 5, true}, {"npu:int8", 5, true}};
    f.states = {"cpu", "npu:f16", "npu:int8"};
    Conversion copy{2, 0};
    f.conversions = {{Conversion{}, copy, copy},
                     {copy, Conversion{}, Conversion{4, 0}},
                     {copy, Conversion{4, 0}, Conversion{}}};
    f.elements = {8, 8, 8};
    f.ops = {{"x", {}, {0}, {{0, 0, 0, 0, 0}}},
             {"a", {0}, {1}, {{0, 0, 0, 100, 0}, {1, 1, 1, 50, 0}}},
             {"b", {1}, {2}, {{0, 0, 0, 100, 0}, {1, 1, 1, 50, 0}}},
             {"outputs", {2}, {}, {{0, 0, 0, 0, 0}}}};
    floats.nodes = {{}, {"a"}, {"b"}, {}};
    integers.problem = f;
    integers.problem.elements = {8, 8, 8, 8};
    integers.problem.ops = {
        {"x", {}, {0}, {{0, 0, 0, 0, 0}}},
        {"q", {0}, {1}, {{0, 0, 0, 7, 0}}},
        {"a", {1}, {2}, {{0, 0, 0, 90, 0}, {2, 2, 2, 20, 0}}},
        {"b", {2}, {3}, {{0, 0, 0, 90, 0}}},
        {"outputs", {3}, {}, {{0, 0, 0, 0, 0}}}};
    if (outputInIntegers)
      integers.problem.ops[3].options.push_back({2, 2, 2, 20, 0});
    integers.nodes = {{}, {"x_quantized_QuantizeLinear"}, {"a"}, {"b"}, {}};
    options.limit = 0.05;
    options.quantise = {7, 0};
  }

  JointProblem join() const {
    return joinProblems(floats, integers, devices, units, options);
  }
};

std::optional<partition::Solution> solved(const JointProblem &p) {
  return partition::solve(p.problem, p.allowed).solution;
}

} // namespace

TEST_CASE("Joint: within the limit the cheapest of all precisions is chosen, "
          "and the rest of the price is honest",
          "[precision]") {
  JointProblem p = Chain(false).join();
  auto s = solved(p);
  REQUIRE(s);
  // Nothing reads integers of `a` but an integer `b`, which only the CPU has:
  // quantise 7, in 2, launch 5, a 20, out 2, b 90 = 126. In float16: 2 + 5 +
  // 100 + 2.
  CHECK(s->cost == 109);
  CHECK(p.integersOf(*s).empty());
}

TEST_CASE("Joint: integers cannot be read as floats", "[precision]") {
  // `b` on the NPU in integers would be cheapest (7 + 2 + 5 + 40), but the
  // output reads the value itself.
  JointProblem p = Chain(true).join();
  auto s = solved(p);
  REQUIRE(s);
  CHECK(s->cost == 109);
  // Without float16 the integer `a` is worth it, before an integer `b` on the
  // CPU that writes floats.
  Chain slow(true);
  for (auto &op : slow.floats.problem.ops)
    for (auto &o : op.options)
      if (o.device == 1)
        o.cost = 1000;
  JointProblem q = slow.join();
  s = solved(q);
  REQUIRE(s);
  CHECK(s->cost == 126);
  CHECK(q.integersOf(*s) == std::set<int>{0, 1});
}

TEST_CASE("Joint: the budget is noise of units alone, added up",
          "[precision]") {
  Chain chain(false);
  for (auto &op : chain.floats.problem.ops)
    for (auto &o : op.options)
      if (o.device == 1)
        o.cost = 1000;
  chain.options.limit = 0.029; // not both
  JointProblem p = chain.join();
  auto s = solved(p);
  REQUIRE(s);
  // `b` alone in integers: 100 + 7 + 90; `a` alone, on the CPU since a float
  // reads it: 7 + 90 + 100; float: 200.
  CHECK(s->cost == 197);
  CHECK(p.integersOf(*s).size() == 1);
  p.allow(0.0099);
  s = solved(p);
  REQUIRE(s);
  CHECK(s->cost == 200);
  p.allow(0.031);
  s = solved(p);
  REQUIRE(s);
  CHECK(s->cost == 126);
}

TEST_CASE("Joint: units and groups that share nodes are chosen together",
          "[precision]") {
  Chain chain(false);
  chain.units = {{{"a", "b"}, 0.01}};
  JointProblem p = chain.join();
  CHECK(p.problem.ops.size() == 3);
  CHECK(p.units[1] == std::set<int>{0});
  // All its groups: float16 has both, the integer NPU lacks `b`.
  std::set<std::tuple<int, int, int, partition::Cost>> options;
  for (const partition::Option &o : p.problem.ops[1].options)
    options.insert({o.device, o.input, o.output, o.cost});
  CHECK(options ==
        std::set<std::tuple<int, int, int, partition::Cost>>{
            {0, 0, 0, 200}, {1, 1, 1, 100}, {0, 3, 3, 180}, {0, 3, 0, 180}});
}

TEST_CASE("Joint: what a merger would make cyclic is merged as well",
          "[precision]") {
  Chain chain(false);
  // a -> b -> c, and a unit of `a` and `c`.
  auto &f = chain.floats.problem;
  f.elements.push_back(8);
  f.ops.insert(f.ops.begin() + 3,
               partition::Op{"c", {2}, {3}, {{0, 0, 0, 100, 0}}});
  f.ops.back().inputs = {3};
  chain.floats.nodes = {{}, {"a"}, {"b"}, {"c"}, {}};
  chain.units = {{{"a", "c"}, 0.01}, {{"b"}, 0.01}};
  JointProblem p = chain.join();
  REQUIRE(p.problem.ops.size() == 3);
  CHECK(p.units[1] == std::set<int>{0, 1});
  CHECK(p.problem.ops[1].inputs == std::vector<int>{0});
  CHECK(p.problem.ops[1].outputs == std::vector<int>{3});
}

TEST_CASE("Joint: with an exit a float reader gets what was rounded",
          "[precision]") {
  Chain chain(true);
  chain.units.push_back({{}, 0.03, false, 1}); // behind `b`
  chain.options.limit = 0.07;
  JointProblem p = chain.join();
  auto s = solved(p);
  REQUIRE(s);
  // Quantise 7, in 2, launch 5, both 40, and out: copy 2, dequantise 7.
  CHECK(s->cost == 63);
  CHECK(p.integersOf(*s) == std::set<int>{0, 1, 2});
  // Its noise counts.
  p.allow(0.05);
  s = solved(p);
  REQUIRE(s);
  CHECK(s->cost == 109);
}

TEST_CASE("Joint: a unit that a recipe keeps in integers has no float option",
          "[precision]") {
  Chain chain(false);
  chain.units[1].forced = true;
  JointProblem p = chain.join();
  auto s = solved(p);
  REQUIRE(s);
  CHECK(p.integersOf(*s).count(1) == 1);
  CHECK(s->cost == 126);
}

TEST_CASE("Accuracy limits are a share of the signal's power or a ratio",
          "[precision]") {
  CHECK(parseAccuracyLimit("1%")->noise == Catch::Approx(0.01));
  CHECK(parseAccuracyLimit("1%")->decibel() == Catch::Approx(20));
  CHECK(parseAccuracyLimit("25dB")->noise ==
        Catch::Approx(0.0031623).epsilon(1e-4));
  CHECK(parseAccuracyLimit("0dB")->noise == Catch::Approx(1));
  for (const char *wrong : {"", "1", "%", "dB", "-1%", "0%", "101%", "nan%",
                            "inf%", "200dB", "-3dB", "1 %", "1%%", "25db"})
    CHECK_FALSE(parseAccuracyLimit(wrong));
  CHECK(worstShare({30, 20, 40}) == Catch::Approx(0.01));
  CHECK(worstShare({200}) == 0);
}

TEST_CASE("Plans that no other beats in time and noise, the cheapest first",
          "[precision]") {
  PrecisionChoice choice;
  auto add = [&](partition::Cost cost, double noise,
                 std::optional<double> verified = std::nullopt) {
    PrecisionPlan plan;
    plan.cost = cost;
    plan.noise = noise;
    plan.verified = verified;
    choice.plans.push_back(plan);
  };
  add(100, 0.1);
  add(200, 0.0, 0.02); // what was verified counts
  add(150, 0.05);
  add(160, 0.05); // beaten
  add(100, 0.2);  // beaten
  add(300, 0.0);
  CHECK(choice.pareto() == std::vector<size_t>{0, 2, 1, 5});
}

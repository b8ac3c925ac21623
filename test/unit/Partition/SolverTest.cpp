#include "SmallProblems.h"
#include "passes/Partition/Solver.h"
#include "passes/PartitionCheck/Check.h"

#include <catch2/catch_test_macros.hpp>

using namespace tessera;
using namespace tessera::partition;
using namespace tessera::partition::test;

namespace {

void compareWithEnumeration(uint32_t seed, bool budget) {
  Problem p = smallProblem(seed, budget);
  INFO("seed " << seed << (budget ? " with budget\n" : "\n") << textOf(p));
  std::optional<Cost> optimum = enumerateOptimum(p);
  SolverResult r = solve(p, allowAll(p));
  REQUIRE(r.solution.has_value() == optimum.has_value());
  CHECK(r.proven);
  if (!optimum)
    return;
  CHECK(r.solution->cost == *optimum);
  CHECK(r.solution->lowerBound == *optimum);
  partitioncheck::Verdict v = partitioncheck::check(textOf(p), textOf(*r.solution));
  INFO(v.reason);
  CHECK(v.outcome == partitioncheck::Outcome::Accepted);
  CHECK(v.cost == *optimum);
}

/// A chain on a host and one accelerator with one state each. Every operator
/// takes `host` or `accelerated`; a copy costs `copy`, a launch `launch`.
Problem chain(int ops, Cost host, Cost accelerated, Cost copy, Cost launch) {
  Problem p;
  p.devices = {{"cpu", 0, false}, {"npu", launch, true}};
  p.states = {"cpu", "npu"};
  p.conversions = {{Conversion{}, Conversion{copy, 0}}, {Conversion{copy, 0}, Conversion{}}};
  p.elements.assign(size_t(ops) + 1, 1);
  p.ops.push_back({"in", {}, {0}, {{0, 0, 0, 0, 0}}});
  for (int j = 0; j < ops; ++j)
    p.ops.push_back({"op" + std::to_string(j), {j}, {j + 1}, {{0, 0, 0, host, 0}, {1, 1, 1, accelerated, 2}}});
  p.ops.push_back({"out", {ops}, {}, {{0, 0, 0, 0, 0}}});
  return p;
}

} // namespace

TEST_CASE("partition: small problems equal enumeration", "[partition]") {
  for (uint32_t seed = 1; seed <= 1400; ++seed)
    compareWithEnumeration(seed, /*budget=*/false);
}

TEST_CASE("partition: small problems with a budget equal enumeration", "[partition]") {
  for (uint32_t seed = 10001; seed <= 10600; ++seed)
    compareWithEnumeration(seed, /*budget=*/true);
}

TEST_CASE("partition: an accelerator pays off when it saves more than copies and launch", "[partition]") {
  Problem worth = chain(10, 100, 10, 200, 300); // 1000 against 100 + 400 + 300
  SolverResult r = solve(worth, allowAll(worth));
  REQUIRE(r.solution);
  CHECK(r.solution->cost == 800);
  CHECK(r.cpuOnly->cost == 1000);
  CHECK(r.solution->segment[1] == 0);
  Problem dear = chain(10, 100, 10, 200, 501);
  r = solve(dear, allowAll(dear));
  CHECK(r.solution->cost == 1000);
  CHECK(r.mostAccelerated->cost == 1001);
  CHECK(r.proven);
}

TEST_CASE("partition: a budget limits what is accelerated", "[partition]") {
  Problem p = chain(10, 100, 10, 50, 50);
  p.budget = 9; // four operators of sensitivity 2
  SolverResult r = solve(p, allowAll(p));
  REQUIRE(r.solution);
  CHECK(r.solution->cost == 6 * 100 + 4 * 10 + 150);
  CHECK(r.solution->sensitivity == 8);
  CHECK(r.proven);
}

TEST_CASE("partition: pins hold and are refused when they cannot", "[partition]") {
  Problem p = chain(4, 100, 10, 1000, 1000);
  Allowed allowed = allowAll(p);
  REQUIRE(!pinOp(p, "op2=npu", allowed));
  SolverResult r = solve(p, allowed);
  REQUIRE(r.solution);
  CHECK(r.solution->cost == 10 * 4 + 3000); // when it pays the copies, all go along
  CHECK(!r.cpuOnly);
  auto why = [&](const char *pin) { return toString(pinOp(p, pin, allowed)); };
  CHECK(why("op9=npu") == "--pin op9=npu: no operator is called 'op9'");
  CHECK(why("op1=gpu") == "--pin op1=gpu: no device is called 'gpu'");
  CHECK(why("#77=npu") == "--pin #77=npu: there is no operator 77; the problem has 6");
  CHECK(why("in=npu") == "--pin in=npu: 'in' has no option on 'npu' (or is pinned elsewhere)");
  CHECK(why("op2=cpu") == "--pin op2=cpu: 'op2' has no option on 'cpu' (or is pinned elsewhere)");
  CHECK(why("op2") == "--pin op2: must be NAME=DEVICE");
}

TEST_CASE("partition: a tensor is copied once for all readers of a state", "[partition]") {
  Problem p = chain(1, 100, 1, 10, 0);
  // Two more readers of the first tensor, on the accelerator as well.
  for (int k = 0; k < 2; ++k) {
    p.elements.push_back(1);
    p.ops.push_back({"extra" + std::to_string(k), {0}, {int(p.elements.size()) - 1}, {{1, 1, 1, 1, 0}}});
  }
  SolverResult r = solve(p, allowAll(p));
  REQUIRE(r.solution);
  CHECK(r.solution->cost == 3 + 10 + 10);
}

TEST_CASE("partition: the same problem has the same answer", "[partition]") {
  for (uint32_t seed : {3u, 77u, 512u}) {
    Problem p = smallProblem(seed, false);
    SolverResult a = solve(p, allowAll(p)), b = solve(p, allowAll(p));
    REQUIRE(a.solution.has_value() == b.solution.has_value());
    if (a.solution)
      CHECK(textOf(*a.solution) == textOf(*b.solution));
  }
}

TEST_CASE("partition: little work still gives a legal answer and a true bound", "[partition]") {
  Problem p = chain(40, 100, 60, 150, 200);
  SolverOptions tight;
  tight.work = 1;
  tight.width = 1;
  SolverResult r = solve(p, allowAll(p), tight), full = solve(p, allowAll(p));
  REQUIRE(r.solution);
  CHECK(r.solution->cost <= r.cpuOnly->cost);
  CHECK(r.solution->lowerBound <= full.solution->cost);
  CHECK(full.solution->cost <= r.solution->cost);
}

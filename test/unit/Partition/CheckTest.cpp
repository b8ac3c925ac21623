#include "SmallProblems.h"
#include "passes/Partition/Solver.h"
#include "passes/PartitionCheck/Check.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>

using namespace tessera;
using namespace tessera::partition;
using namespace tessera::partition::test;
using partitioncheck::Outcome;

namespace {

partitioncheck::Verdict judge(const Problem &p, const Solution &s) {
  return partitioncheck::check(textOf(p), textOf(s));
}

std::string swapped(std::string text, const std::string &from, const std::string &to) {
  size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

/// Solutions that are wrong in one place each; every one must be refused.
std::vector<Solution> wrongSolutions(const Problem &p, const Solution &good, Dice &dice) {
  std::vector<Solution> wrong;
  auto mutate = [&](auto change) {
    wrong.push_back(good);
    change(wrong.back());
  };
  int j = dice.upTo(int(p.ops.size()) - 1);
  mutate([](Solution &s) { ++s.cost, ++s.lowerBound; });
  mutate([](Solution &s) { --s.cost, --s.lowerBound; });
  mutate([](Solution &s) { ++s.sensitivity; });
  mutate([](Solution &s) { s.lowerBound = s.cost + 1; });
  mutate([&](Solution &s) { s.choice[j] = int(p.ops[j].options.size()); });
  mutate([&](Solution &s) { s.choice[j] = -1; });
  mutate([](Solution &s) { s.choice.pop_back(); });
  mutate([](Solution &s) { s.segment.push_back(-1); });
  mutate([&](Solution &s) { s.segment[j] = s.segment[j] >= 0 ? -1 : 0; });
  mutate([&](Solution &s) { s.segment[j] = -2; });
  mutate([](Solution &s) { s.choice.clear(), s.segment.clear(); });
  // Another option at the old price, unless the price happens to be right.
  for (size_t k = 0; k < p.ops.size(); ++k)
    for (size_t x = 0; x < p.ops[k].options.size(); ++x) {
      const Option &a = p.ops[k].options[x], &b = p.ops[k].options[size_t(good.choice[k])];
      if (a.device == b.device && a.input == b.input && a.output == b.output && a.cost != b.cost)
        mutate([&](Solution &s) { s.choice[k] = int(x); });
    }
  // A launch less than was paid, or one more.
  for (size_t k = 0; k < p.ops.size(); ++k)
    if (good.segment[k] >= 0 && p.devices[p.ops[k].options[size_t(good.choice[k])].device].launch) {
      int other = good.segment[k];
      for (size_t i = 0; i < k; ++i)
        if (good.segment[i] >= 0 && good.segment[i] != other) {
          mutate([&](Solution &s) { std::replace(s.segment.begin(), s.segment.end(), other, good.segment[i]); });
          break;
        }
      if (std::count(good.segment.begin(), good.segment.end(), other) > 1)
        mutate([&](Solution &s) { s.segment[k] = 1000; });
    }
  return wrong;
}

/// in -> a(npu) -> b(cpu) -> c(npu), and a -> c directly.
Problem bypass() {
  Problem p;
  p.devices = {{"cpu", 0, false}, {"npu", 7, true}};
  p.states = {"shared"};
  p.conversions = {{Conversion{}}};
  p.elements = {1, 1, 1, 1};
  p.ops = {{"in", {}, {0}, {{0, 0, 0, 0, 0}}},
           {"a", {0}, {1}, {{1, 0, 0, 1, 0}}},
           {"b", {1}, {2}, {{0, 0, 0, 1, 0}}},
           {"c", {1, 2}, {3}, {{1, 0, 0, 1, 0}}}};
  return p;
}

} // namespace

TEST_CASE("partition check: every mutation of a solution is refused", "[partition]") {
  size_t mutations = 0;
  for (uint32_t seed = 1; seed <= 200; ++seed) {
    Problem p = smallProblem(seed, seed % 3 == 0);
    SolverResult r = solve(p, allowAll(p));
    if (!r.solution)
      continue;
    Dice dice(seed);
    INFO("seed " << seed << "\n" << textOf(p) << textOf(*r.solution));
    REQUIRE(judge(p, *r.solution).outcome == Outcome::Accepted);
    std::vector<Solution> wrong = wrongSolutions(p, *r.solution, dice);
    REQUIRE(wrong.size() >= 10);
    for (const Solution &s : wrong) {
      INFO("mutation " << (&s - wrong.data()) << ": " << textOf(s));
      REQUIRE(judge(p, s).outcome == Outcome::Refused);
      ++mutations;
    }
  }
  CHECK(mutations > 2000);
}

TEST_CASE("partition check: a segment that waits for itself is refused at any price", "[partition]") {
  Problem p = bypass();
  Solution two{{0, 0, 0, 0}, {-1, 0, -1, 1}, 17, 17, 0};
  CHECK(judge(p, two).outcome == Outcome::Accepted);
  Solution one{{0, 0, 0, 0}, {-1, 0, -1, 0}, 10, 10, 0};
  partitioncheck::Verdict v = judge(p, one);
  CHECK(v.outcome == Outcome::Refused);
  CHECK(v.reason.find("waits for its own results") != std::string::npos);
  SolverResult r = solve(p, allowAll(p));
  REQUIRE(r.solution);
  CHECK(r.solution->cost == 17);
}

TEST_CASE("partition check: a segment in two parts is refused at any price", "[partition]") {
  Problem p = bypass();
  p.ops[2].inputs = {0}; // a feeds neither b
  p.ops[3].inputs = {2}; // nor c
  Solution one{{0, 0, 0, 0}, {-1, 0, -1, 0}, 10, 10, 0};
  partitioncheck::Verdict v = judge(p, one);
  CHECK(v.outcome == Outcome::Refused);
  CHECK(v.reason == "segment 0 is not connected: operator 1 'a' reaches 1 of its 2 operators");
}

TEST_CASE("partition check: budget, missing conversions and status", "[partition]") {
  Problem p = bypass();
  Solution two{{0, 0, 0, 0}, {-1, 0, -1, 1}, 17, 17, 0};
  p.ops[1].options[0].sensitivity = 4;
  two.sensitivity = 4;
  p.budget = 3;
  CHECK(judge(p, two).reason == "the sensitivity 4 exceeds the budget 3");
  p.budget = 4;
  CHECK(judge(p, two).outcome == Outcome::Accepted);
  std::string text = textOf(two);
  CHECK(partitioncheck::check(textOf(p), swapped(text, "optimal", "feasible")).outcome == Outcome::Refused);
  CHECK(partitioncheck::check(textOf(p), swapped(text, "solution/1", "solution/2")).outcome == Outcome::Refused);
  CHECK(partitioncheck::check(textOf(p), swapped(text, "\"choice\"", "\"choices\"")).outcome == Outcome::Refused);
  CHECK(partitioncheck::check(textOf(p), text.substr(0, 40)).outcome == Outcome::Refused);
  p.states.push_back("other");
  p.conversions = {{Conversion{}, std::nullopt}, {std::nullopt, Conversion{}}};
  p.ops[2].options[0].input = 1;
  CHECK(judge(p, two).reason == "tensor 1: no way from state 0 to 1");
}

TEST_CASE("partition check: what is no problem is told from what is no solution", "[partition]") {
  Problem p = bypass();
  std::string solution = textOf(Solution{{0, 0, 0, 0}, {-1, 0, -1, 1}, 17, 17, 0});
  auto outcome = [&](const char *from, const char *to) {
    return partitioncheck::check(swapped(textOf(p), from, to), solution).outcome;
  };
  CHECK(outcome("\"launch\":7", "\"launch\":7") == Outcome::Accepted);
  CHECK(outcome("\"launch\":7", "\"launch\":-7") == Outcome::Unreadable);
  CHECK(outcome("\"launch\":7", "\"launch\":7.5") == Outcome::Unreadable);
  CHECK(outcome("problem/1", "problem/9") == Outcome::Unreadable);
  CHECK(outcome("\"in\":[]", "\"in\":[3]") == Outcome::Unreadable);
  CHECK(outcome("\"elems\":[1,", "\"elems\":[") == Outcome::Unreadable);
  CHECK(outcome("\n  [[0,0]]", "") == Outcome::Accepted); // no copy is asked for
}

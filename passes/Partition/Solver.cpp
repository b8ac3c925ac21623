#include "passes/Partition/Solver.h"
#include "passes/Partition/FrontierSearch.h"
#include "passes/Partition/StartingAnswers.h"
#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <stdexcept>

namespace tessera::partition {

namespace {

/// Lambda stays below this, so that weighted sums do.
constexpr Cost mostLambda = Cost(1) << 30;

class Solver {
public:
  Solver(const Problem &p, const Allowed &allowed, const SolverOptions &options)
      : g(p), allowed(allowed), options(options), used(allowed) {
    for (std::vector<char> &marks : used)
      std::fill(marks.begin(), marks.end(), 0);
  }

  SolverResult run();

private:
  struct Run {
    std::optional<Solution> solution; ///< priced
    Cost leastDropped = impossible;
  };

  Run search(const DualBound &bound, Cost lambda, SearchLimits limits);
  std::optional<Solution> answerWithin(const Allowed &choices, size_t width);
  std::optional<Solution> hostAnswer();
  void startingAnswers();
  bool offer(const std::optional<Solution> &answer);
  bool withinBudget(const Solution &s) const { return !g.problem.budget || s.sensitivity <= *g.problem.budget; }
  bool proven() const { return best && lower >= best->cost; }

  void conclude(const Run &run, Cost target, Cost discount);
  void noneBelow(Cost bound);
  bool ignoreBudget();
  Cost findLambda();
  bool probe(Cost lambda, Cost &chosen, bool &within);
  void widen(Cost lambda, std::optional<Cost> budget);
  bool attempt(size_t width, Cost parts, Cost lambda, std::optional<Cost> budget);

  Graph g;
  const Allowed &allowed;
  SolverOptions options;
  Allowed used; ///< options of any answer so far
  std::optional<Solution> best;
  Cost lower = 0;
  bool infeasible = false;
  SolverResult result;
};

} // namespace

Solver::Run Solver::search(const DualBound &bound, Cost lambda, SearchLimits limits) {
  uint64_t left = options.work > result.work ? options.work - result.work : 0;
  limits.work = left / 4 + 1;
  SearchResult found = searchFrontier(g, bound, lambda, limits);
  result.work += found.work;
  result.peakStates = std::max(result.peakStates, found.peak);
  Run run;
  run.leastDropped = found.leastDropped;
  if (found.solution) {
    joinSegments(g, *found.solution);
    std::optional<Price> price = priceOf(g, found.solution->choice, found.solution->segment);
    if (!price)
      throw std::logic_error("the partition search made an answer that is not legal");
    found.solution->cost = price->cost;
    found.solution->sensitivity = price->sensitivity;
    run.solution = std::move(found.solution);
  }
  return run;
}

/// Takes an answer over if it is better; a bound above it would be a fault.
bool Solver::offer(const std::optional<Solution> &answer) {
  if (!answer || !withinBudget(*answer))
    return false;
  for (size_t j = 0; j < g.size(); ++j)
    used[j][answer->choice[j]] = 1;
  if (answer->cost < lower)
    throw std::logic_error("the partition bound " + std::to_string(lower) + " is above an answer of cost " +
                           std::to_string(answer->cost));
  if (best && answer->cost >= best->cost)
    return false;
  best = answer;
  return true;
}

/// A good answer that uses `choices` only, without regard to the budget: once
/// with any launch cover, once with the cover that suits the first answer.
std::optional<Solution> Solver::answerWithin(const Allowed &choices, size_t width) {
  SearchLimits limits;
  limits.width = width;
  DualBound first(g, choices, coverByPaths(g), /*lambda=*/0);
  if (!first.ascend(3, impossible))
    return std::nullopt;
  std::optional<Solution> answer = search(first, 0, limits).solution;
  if (!answer)
    return std::nullopt;
  DualBound second(g, choices, coverFor(g, *answer), 0);
  limits.upper = answer->cost * weightScale;
  if (second.ascend(4, limits.upper))
    if (std::optional<Solution> better = search(second, 0, limits).solution; better && better->cost < answer->cost)
      return better;
  return answer;
}

void Solver::startingAnswers() {
  if (std::optional<Allowed> host = hostOnly(g, allowed)) {
    result.cpuOnly = answerWithin(*host, 32);
    offer(result.cpuOnly);
    if (g.problem.budget && result.cpuOnly && !withinBudget(*result.cpuOnly)) {
      SearchLimits limits;
      limits.budget = g.problem.budget;
      DualBound bound(g, *host, coverByPaths(g), 0);
      if (bound.ascend(3, impossible))
        offer(search(bound, 0, limits).solution);
    }
  }
  result.mostAccelerated = answerWithin(lastDeviceFirst(g, allowed), 32);
  offer(result.mostAccelerated);
  result.inOrder = answerWithin(cheapestInOrder(g, allowed), 32);
  offer(result.inOrder);
}

/// What a search for answers below `target` shows of all answers: none is below
/// the least of the target, what it found and what it cut off.
void Solver::conclude(const Run &run, Cost target, Cost discount) {
  bool offered = offer(run.solution);
  Cost bound = target;
  if (run.leastDropped < impossible)
    bound = std::min(bound, toCost(run.leastDropped - discount));
  if (run.solution && !offered)
    bound = std::min(bound, run.solution->cost);
  noneBelow(bound);
}

void Solver::noneBelow(Cost bound) {
  if (best)
    lower = std::max(lower, std::min(bound, best->cost));
  else if (bound >= impossible)
    infeasible = true;
  else
    lower = std::max(lower, bound);
}

/// The problem without its budget. True if that settles it.
bool Solver::ignoreBudget() {
  SearchLimits limits;
  limits.width = 48;
  limits.upper = best ? best->cost * weightScale : impossible;
  DualBound bound(g, allowed, coverByPaths(g), 0);
  if (!bound.ascend(6, limits.upper)) {
    noneBelow(best ? best->cost : impossible);
    return true;
  }
  noneBelow(toCost(bound.value()));
  Run run = search(bound, 0, limits);
  conclude(run, best ? best->cost : impossible, 0);
  if (infeasible || proven())
    return true;
  if (run.solution && !withinBudget(*run.solution))
    return false;
  if (best && !g.problem.budget)
    offer(answerWithin(used, 256));
  widen(/*lambda=*/0, /*budget=*/std::nullopt);
  return infeasible || proven() || !g.problem.budget;
}

/// Wider and wider searches until the answer is proven or the limits are met.
/// A search for answers close to the lower bound has far fewer states than one
/// for any better answer, and raises the bound if it finds none; so a width is
/// tried on a small part of the gap first.
void Solver::widen(Cost lambda, std::optional<Cost> budget) {
  for (size_t width = 256; width <= options.width;) {
    Cost before = best ? best->cost : impossible;
    for (Cost part : {64, 8, 1}) {
      if (!best && part > 1)
        continue;
      if (proven() || infeasible || result.work > options.work || !attempt(width, part, lambda, budget))
        return;
      if (best && best->cost < before)
        break;
    }
    width *= best && best->cost < before ? 2 : 8;
  }
}

/// Looks for an answer in the lowest of `parts` parts of the gap. False if what
/// it finds breaks the budget, which it did not regard.
bool Solver::attempt(size_t width, Cost parts, Cost lambda, std::optional<Cost> budget) {
  Cost discount = budget ? lambda * *budget : 0;
  Cost target = best ? lower + (best->cost - lower + parts - 1) / parts : impossible;
  SearchLimits limits;
  limits.upper = best ? target * weightScale + discount : impossible;
  limits.width = width;
  limits.budget = budget;
  DualBound bound(g, allowed, best ? coverFor(g, *best) : coverByPaths(g), lambda);
  if (!bound.ascend(10, limits.upper)) {
    noneBelow(target);
    return true;
  }
  noneBelow(toCost(bound.value() - discount));
  Run run = search(bound, lambda, limits);
  conclude(run, target, discount);
  return !run.solution || withinBudget(*run.solution);
}

/// A price on sensitivity at which cheap answers come near the budget, by
/// bisection on narrow searches. Each price gives a bound; the best one stays.
Cost Solver::findLambda() {
  Cost low = 0, high = weightScale, chosen = 0;
  bool within = false;
  while (high < mostLambda && probe(high, chosen, within) && !within) {
    low = high;
    high *= 4;
  }
  for (int k = 0; k < 16 && within && high - low > std::max<Cost>(1, high >> 8); ++k) {
    Cost middle = low + (high - low) / 2;
    bool here = false;
    if (!probe(middle, chosen, here))
      break;
    (here ? high : low) = middle;
  }
  return chosen ? chosen : std::min(high, mostLambda);
}

/// One price; false if there is no answer at all. `chosen` becomes this price if
/// its bound is the best so far.
bool Solver::probe(Cost lambda, Cost &chosen, bool &within) {
  DualBound bound(g, allowed, coverByPaths(g), lambda);
  if (!bound.ascend(4, impossible))
    return false;
  if (Cost here = toCost(bound.value() - lambda * *g.problem.budget); here > lower || !chosen) {
    noneBelow(here);
    chosen = lambda;
  }
  SearchLimits limits;
  limits.width = 32;
  std::optional<Solution> answer = search(bound, lambda, limits).solution;
  within = answer && withinBudget(*answer);
  offer(answer);
  return answer.has_value();
}

SolverResult Solver::run() {
  startingAnswers();
  if (!ignoreBudget())
    widen(findLambda(), g.problem.budget);
  if (best) {
    best->lowerBound = std::min(lower, best->cost);
    result.solution = best;
  }
  result.proven = best ? proven() : infeasible;
  return std::move(result);
}

SolverResult solve(const Problem &problem, const Allowed &allowed, const SolverOptions &options) {
  return Solver(problem, allowed, options).run();
}

} // namespace tessera::partition

#include "passes/Partition/DualBound.h"

#include <algorithm>

namespace tessera::partition {

DualBound::DualBound(const Graph &graph, const Allowed &allowed, LaunchCover cover, Cost lambda)
    : g(graph), launchCover(std::move(cover)), lambda(lambda) {
  dropBeaten(allowed);
  kept.resize(g.size());
  divisionLoss = 64;
  for (size_t j = 0; j < g.size(); ++j) {
    for (size_t x = 0; x < g.options(int(j)).size(); ++x) {
      const Device &d = g.deviceOf(g.options(int(j))[x]);
      Cost launch = launchCover.ops[j] && d.segments ? d.launch * weightScale : 0;
      kept[j].push_back(weight(int(j), int(x)) + launch);
    }
    divisionLoss += Cost(std::max(g.inputs[j].size(), g.outputs[j].size()));
  }
  shares.resize(g.producer.size());
  for (size_t t = 0; t < shares.size(); ++t) {
    if (g.producer[t] < 0)
      continue;
    shares[t].emplace_back(g.options(g.producer[t]).size(), 0);
    for (int j : g.consumers[t])
      shares[t].emplace_back(g.options(j).size(), 0);
  }
}

Cost DualBound::weight(int op, int option) const {
  const Option &o = g.options(op)[option];
  return o.cost * weightScale + lambda * o.sensitivity;
}

/// An option is beaten by one of the same device and states that is no worse.
/// Sensitivity counts whenever there is a budget, also while lambda is 0.
void DualBound::dropBeaten(const Allowed &allowed) {
  isAlive = allowed;
  bool budget = g.problem.budget.has_value();
  for (size_t j = 0; j < g.size(); ++j) {
    const std::vector<Option> &options = g.options(int(j));
    auto beats = [&](size_t b, size_t a) {
      const Option &x = options[a], &y = options[b];
      if (x.device != y.device || x.input != y.input || x.output != y.output)
        return false;
      if (y.cost > x.cost || (budget && y.sensitivity > x.sensitivity))
        return false;
      bool equal = y.cost == x.cost && (!budget || y.sensitivity == x.sensitivity);
      return !equal || b < a;
    };
    for (size_t a = 0; a < options.size(); ++a)
      for (size_t b = 0; b < options.size() && isAlive[j][a]; ++b)
        if (a != b && allowed[j][b] && beats(b, a))
          isAlive[j][a] = 0;
  }
}

Cost DualBound::leastKept(int op) const {
  Cost least = impossible;
  for (size_t x = 0; x < kept[op].size(); ++x)
    if (isAlive[op][x])
      least = std::min(least, kept[op][x]);
  return least;
}

Cost DualBound::compute() const {
  Cost sum = 0;
  for (size_t j = 0; j < g.size(); ++j) {
    Cost least = leastKept(int(j));
    for (size_t q = 0; q < g.outputs[j].size() && least < impossible; ++q) {
      Cost term = leastTerm(g.outputs[j][q]);
      least = term >= impossible ? impossible : least + term;
    }
    if (least >= impossible)
      return impossible;
    sum += least;
  }
  return sum;
}

/// Takes over the least of the tensor's term for each option of `op`. After it
/// the term's least is 0, whatever option `op` has.
void DualBound::absorb(int op, int tensor, size_t slot) {
  std::vector<Cost> least = slot ? consumerMarginals(tensor, slot - 1) : producerMarginals(tensor);
  for (size_t x = 0; x < least.size(); ++x) {
    if (!isAlive[op][x])
      continue;
    if (least[x] >= impossible) {
      isAlive[op][x] = 0;
      continue;
    }
    shares[tensor][slot][x] -= least[x];
    kept[op][x] += least[x];
  }
}

/// Spreads what `op` keeps over its inputs (backward) or its outputs.
void DualBound::giveAway(int op, bool backward) {
  std::vector<std::vector<Cost> *> takers;
  for (size_t k = 0; k < g.inputs[op].size() && backward; ++k)
    takers.push_back(&shares[g.inputs[op][k]][size_t(g.slots[op][k]) + 1]);
  for (size_t q = 0; q < g.outputs[op].size() && !backward; ++q)
    takers.push_back(&shares[g.outputs[op][q]][0]);
  for (size_t x = 0; x < kept[op].size() && !takers.empty(); ++x) {
    if (!isAlive[op][x])
      continue;
    Cost part = kept[op][x] / Cost(takers.size());
    for (std::vector<Cost> *share : takers)
      (*share)[x] += part;
    kept[op][x] -= part * Cost(takers.size());
  }
}

bool DualBound::sweep(bool backward, Cost upper) {
  for (size_t i = 0; i < g.size(); ++i) {
    int j = g.order[backward ? g.size() - 1 - i : i];
    for (int t : g.outputs[j])
      absorb(j, t, 0);
    for (size_t k = 0; k < g.inputs[j].size(); ++k)
      absorb(j, g.inputs[j][k], size_t(g.slots[j][k]) + 1);
    Cost least = leastKept(j);
    if (least >= impossible)
      return false;
    // With option x instead of the cheapest the bound is higher by the difference.
    for (size_t x = 0; x < kept[j].size(); ++x)
      if (isAlive[j][x] && bound - 2 * divisionLoss + kept[j][x] - least >= upper)
        isAlive[j][x] = 0;
    if (leastKept(j) >= impossible)
      return false;
    giveAway(j, backward);
  }
  return true;
}

bool DualBound::ascend(int rounds, Cost upper) {
  bound = compute(); // not 0: launch terms of edges are negative
  if (bound >= impossible || !sweep(/*backward=*/true, upper))
    return false;
  Cost best = bound = compute();
  for (int r = 0; r < rounds && bound < upper; ++r) {
    if (!sweep(/*backward=*/false, upper) || !sweep(/*backward=*/true, upper))
      return false;
    bound = compute();
    if (bound >= impossible)
      return false;
    Cost gain = bound - best;
    best = std::max(best, bound);
    if (gain <= best >> 14)
      break;
  }
  // The last sweep's shares are what the search reads; any earlier bound holds too.
  bound = best;
  return bound < upper;
}

} // namespace tessera::partition

#include "passes/Partition/Spread.h"

#include <algorithm>
#include <map>
#include <set>

using namespace llvm;

namespace tessera {

using partition::Cost;
using partition::Solution;

namespace {

using Ops = std::vector<int>; ///< in the graph's order

class Spreader {
public:
  Spreader(const partition::Problem &problem, ArrayRef<PlacementDevice> devices, const partition::Allowed &allowed,
           const std::vector<char> &movable, Cost most, Solution &best)
      : problem(problem), devices(devices), allowed(allowed), movable(movable), most(most), best(best), graph(problem),
        schedule(scheduleOf(graph, devices, best)),
        left(std::min(mostSchedules, squares / (problem.ops.size() * problem.ops.size() + 1))) {}
  Spread run();

private:
  bool improveStep(const ScheduleStep &step);
  void trySplits(const ScheduleStep &step);
  void tryMoves(const Ops &ops);
  void trySplit(const Ops &all, const std::set<int> &taken, bool downwards);
  void consider(Solution candidate);
  void considerJoined(const Solution &candidate, const Ops &moved);
  bool moveTo(int device, const Ops &ops, Solution &s) const;
  void split(Solution &s, int segment, const std::set<int> &apart) const;
  void number(Solution &s, const Ops &ops) const;
  std::set<int> reach(const Ops &within, std::set<int> from, bool downwards) const;
  Ops chainOf(int op) const;
  int onlyReader(int op) const;
  int onlyWriter(int op) const;
  int deviceOf(const Solution &s, int op) const { return problem.ops[op].options[s.choice[op]].device; }

  /// Schedules, each of which takes the square of the operators where many are
  /// ready at a time: about a second.
  static constexpr size_t mostSchedules = 5'000, squares = 200'000'000;

  /// What gains less than a hundredth of the run is not worth a dearer answer.
  static constexpr Cost leastPart = 100;

  const partition::Problem &problem;
  ArrayRef<PlacementDevice> devices;
  const partition::Allowed &allowed;
  const std::vector<char> &movable;
  Cost most;
  Solution &best;
  partition::Graph graph;
  Schedule schedule; ///< of `best`
  size_t left;       ///< schedules that may still be made

  std::optional<Solution> found; ///< the best of what a step's changes lead to
  Cost foundEnd = 0;
};

} // namespace

/// Operators of `within` that can be reached from some of them, these included.
std::set<int> Spreader::reach(const Ops &within, std::set<int> from, bool downwards) const {
  auto visit = [&](int j) {
    for (int t : downwards ? graph.inputs[j] : graph.outputs[j]) {
      if (downwards ? from.count(graph.producer[t]) != 0
                    : any_of(graph.consumers[t], [&](int k) { return from.count(k) != 0; }))
        from.insert(j);
    }
  };
  if (downwards)
    for_each(within, visit);
  else
    for_each(reverse(within), visit);
  return from;
}

int Spreader::onlyReader(int op) const {
  std::set<int> readers;
  for (int t : graph.outputs[op])
    readers.insert(graph.consumers[t].begin(), graph.consumers[t].end());
  return readers.size() == 1 ? *readers.begin() : -1;
}

int Spreader::onlyWriter(int op) const {
  std::set<int> writers;
  for (int t : graph.inputs[op])
    writers.insert(graph.producer[t]);
  return writers.size() == 1 ? *writers.begin() : -1;
}

/// The longest chain through an operator in which each is the only reader of the
/// one before and reads nothing else, on one device.
Ops Spreader::chainOf(int op) const {
  auto follows = [&](int a, int b) {
    return a >= 0 && b >= 0 && onlyReader(a) == b && onlyWriter(b) == a && deviceOf(best, a) == deviceOf(best, b);
  };
  while (follows(onlyWriter(op), op))
    op = onlyWriter(op);
  Ops chain{op};
  while (follows(op, onlyReader(op)))
    chain.push_back(op = onlyReader(op));
  return chain;
}

/// Puts each part of `ops` that hangs together into a segment of its own.
void Spreader::number(Solution &s, const Ops &ops) const {
  int next = 1 + *max_element(s.segment.begin(), s.segment.end());
  std::set<int> open(ops.begin(), ops.end());
  while (!open.empty()) {
    std::vector<int> stack{*open.begin()};
    open.erase(open.begin());
    while (!stack.empty()) {
      int j = stack.back();
      stack.pop_back();
      s.segment[j] = next;
      auto take = [&](int k) {
        if (open.erase(k))
          stack.push_back(k);
      };
      for (int t : graph.inputs[j])
        take(graph.producer[t]);
      for (int t : graph.outputs[j])
        for_each(graph.consumers[t], take);
    }
    ++next;
  }
}

/// Takes `apart`, and separately what is left, out of a segment.
void Spreader::split(Solution &s, int segment, const std::set<int> &apart) const {
  Ops one, other;
  for (int j : graph.order)
    if (s.segment[j] == segment)
      (apart.count(j) ? one : other).push_back(j);
  number(s, one);
  number(s, other);
}

/// Gives operators to a device, in segments of their own; what their old segment
/// has before and behind them is taken apart.
bool Spreader::moveTo(int device, const Ops &ops, Solution &s) const {
  const std::vector<int> before = s.segment;
  std::set<int> segments;
  for (int j : ops) {
    int cheapest = -1;
    const std::vector<partition::Option> &options = problem.ops[j].options;
    for (size_t x = 0; x < options.size(); ++x)
      if (allowed[j][x] && options[x].device == device && (cheapest < 0 || options[x].cost < options[cheapest].cost))
        cheapest = int(x);
    if (cheapest < 0)
      return false;
    s.choice[j] = cheapest;
    if (int segment = std::exchange(s.segment[j], -1); segment >= 0)
      segments.insert(segment);
  }
  for (int segment : segments) {
    Ops all;
    for (int j : graph.order)
      if (before[j] == segment)
        all.push_back(j);
    std::set<int> behind = reach(all, {ops.begin(), ops.end()}, true);
    for (int j : ops)
      behind.erase(j);
    split(s, segment, behind);
  }
  if (problem.devices[device].segments)
    number(s, ops);
  return true;
}

/// Keeps a candidate if it is the best so far.
void Spreader::consider(Solution s) {
  if (left == 0)
    return;
  --left;
  auto price = partition::priceOf(graph, s.choice, s.segment);
  if (!price || price->sensitivity > best.sensitivity || price->cost > most)
    return;
  s.cost = price->cost;
  s.sensitivity = price->sensitivity;
  Cost end = scheduleOf(graph, devices, s).end, gain = schedule.end - end;
  if (gain <= 0 || gain < s.cost - best.cost || (found && std::tie(end, s.cost) >= std::tie(foundEnd, found->cost)))
    return;
  found = std::move(s);
  foundEnd = end;
}

/// As it is, and with what was moved in segments that its new device has anyway.
void Spreader::considerJoined(const Solution &candidate, const Ops &moved) {
  consider(candidate);
  if (candidate.segment[moved.front()] < 0)
    return;
  std::set<int> beside;
  for (int j : moved) {
    auto look = [&](int k) {
      if (candidate.segment[k] >= 0 && candidate.segment[k] != candidate.segment[j] &&
          deviceOf(candidate, k) == deviceOf(candidate, j))
        beside.insert(candidate.segment[k]);
    };
    for (int t : graph.inputs[j])
      look(graph.producer[t]);
    for (int t : graph.outputs[j])
      for_each(graph.consumers[t], look);
  }
  for (int segment : beside) {
    Solution joined = candidate;
    for (int j : moved)
      joined.segment[j] = segment;
    consider(std::move(joined));
  }
}

/// A segment in two: what `taken` leads to, or comes from, and the rest; either may
/// go to another device.
void Spreader::trySplit(const Ops &all, const std::set<int> &taken, bool downwards) {
  if (left == 0)
    return;
  std::set<int> part = reach(all, taken, downwards);
  if (part.empty() || part.size() == all.size())
    return;
  Solution two = best;
  split(two, best.segment[all.front()], part);
  consider(two);
  Ops inside, outside;
  for (int j : all)
    (part.count(j) ? inside : outside).push_back(j);
  for (const Ops &ops : {inside, outside})
    for (size_t d = 0; d < problem.devices.size(); ++d)
      if (Solution moved = two; movable[d] && int(d) != deviceOf(best, ops.front()) && moveTo(d, ops, moved))
        considerJoined(moved, ops);
}

/// At each border to another step.
void Spreader::trySplits(const ScheduleStep &step) {
  std::map<int, std::set<int>> readers, writers; ///< by segment, or below 0: the CPU's operators
  std::set<int> own(step.ops.begin(), step.ops.end());
  auto keyOf = [&](int j) { return best.segment[j] >= 0 ? best.segment[j] : -1 - j; };
  for (int j : step.ops) {
    for (int t : graph.inputs[j])
      if (int p = graph.producer[t]; !own.count(p))
        readers[keyOf(p)].insert(j);
    for (int t : graph.outputs[j])
      for (int k : graph.consumers[t])
        if (!own.count(k))
          writers[keyOf(k)].insert(j);
  }
  for (const auto &[key, ops] : readers)
    trySplit(step.ops, ops, true);
  for (const auto &[key, ops] : writers)
    trySplit(step.ops, ops, false);
}

void Spreader::tryMoves(const Ops &ops) {
  for (size_t d = 0; d < problem.devices.size(); ++d)
    if (Solution moved = best; movable[d] && int(d) != deviceOf(best, ops.front()) && moveTo(d, ops, moved))
      considerJoined(moved, ops);
}

/// The best change of what a step of the critical path does.
bool Spreader::improveStep(const ScheduleStep &step) {
  if (!movable[step.device])
    return false;
  found.reset();
  if (step.segment >= 0)
    trySplits(step);
  std::set<int> seen;
  for (int j : step.ops)
    if (left > 0 && !seen.count(j)) {
      Ops chain = chainOf(j);
      seen.insert(chain.begin(), chain.end());
      tryMoves(chain);
    }
  if (!found)
    return false;
  found->lowerBound = best.lowerBound;
  best = std::move(*found);
  schedule = scheduleOf(graph, devices, best);
  return true;
}

Spread Spreader::run() {
  const Solution before = best;
  Cost end = schedule.end;
  for (bool changed = true; changed && left > 0;) {
    changed = false;
    std::vector<ScheduleStep> critical;
    for (int k : schedule.critical)
      critical.push_back(schedule.steps[k]);
    // Changed steps are others: the path is read anew.
    for (const ScheduleStep &step : critical)
      if ((changed = improveStep(step)))
        break;
  }
  Cost gain = end - schedule.end;
  if (gain * leastPart < end) {
    best = before;
    return {};
  }
  return {best.cost - before.cost, gain};
}

Spread spread(const partition::Problem &problem, ArrayRef<PlacementDevice> devices, const partition::Allowed &allowed,
              const std::vector<char> &movable, Cost most, Solution &solution) {
  if (none_of(solution.segment, [](int segment) { return segment >= 0; }))
    return {};
  return Spreader(problem, devices, allowed, movable, most, solution).run();
}

} // namespace tessera

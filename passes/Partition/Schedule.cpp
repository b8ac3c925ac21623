#include "passes/Partition/Schedule.h"

#include <map>
#include <set>

using namespace llvm;

namespace tessera {

using partition::Cost;

namespace {

class Scheduler {
public:
  Scheduler(const partition::Graph &graph, ArrayRef<PlacementDevice> devices, const partition::Solution &solution)
      : problem(graph.problem), devices(devices), solution(solution), graph(graph) {}
  Schedule run();

private:
  void makeSteps();
  void findTails();
  std::set<int> underWay(int step) const;
  int next() const;
  void fence(unsigned unit, ScheduleStep &step);
  void place(int step);
  Cost copiesFor(int step);
  const partition::Option &optionOf(int op) const { return problem.ops[op].options[solution.choice[op]]; }
  unsigned unitOf(const ScheduleStep &step) const { return devices[step.device].unit; }

  const partition::Problem &problem;
  ArrayRef<PlacementDevice> devices;
  const partition::Solution &solution;
  const partition::Graph &graph;

  std::vector<ScheduleStep> steps; ///< by first operator
  std::vector<int> stepOf;         ///< by operator
  std::vector<std::set<int>> needs, feeds;
  std::vector<Cost> cost, tail; ///< of the step; of the longest way from its start to a segment's end
  std::vector<size_t> open;     ///< of the step's needs, how many are not placed
  std::set<int> ready;          ///< to be placed
  std::vector<int> order;
  std::map<std::pair<int, int>, bool> copied; ///< tensors, states

  Cost cpuTime = 0;
  int cpuLast = -1;                            ///< the step that ended at cpuTime
  std::map<unsigned, std::vector<int>> flying; ///< by unit: launched and not waited for
  std::map<unsigned, int> lastOf;              ///< by unit
};

} // namespace

void Scheduler::makeSteps() {
  std::map<int, int> bySegment;
  stepOf.assign(problem.ops.size(), -1);
  for (int j : graph.order) {
    int segment = solution.segment[j];
    auto [it, fresh] = segment < 0 ? std::pair(bySegment.end(), true) : bySegment.try_emplace(segment, steps.size());
    if (fresh) {
      stepOf[j] = steps.size();
      steps.push_back({optionOf(j).device, segment, {}});
      cost.push_back(segment < 0 ? 0 : problem.devices[optionOf(j).device].launch);
    } else {
      stepOf[j] = it->second;
    }
    steps[stepOf[j]].ops.push_back(j);
    cost[stepOf[j]] += optionOf(j).cost;
  }
  needs.resize(steps.size());
  feeds.resize(steps.size());
  for (size_t j = 0; j < problem.ops.size(); ++j)
    for (int t : graph.inputs[j])
      if (int p = graph.producer[t]; p >= 0 && stepOf[p] != stepOf[j]) {
        needs[stepOf[j]].insert(stepOf[p]);
        feeds[stepOf[p]].insert(stepOf[j]);
      }
}

/// Steps without a segment behind them have none: they can wait for their turn.
void Scheduler::findTails() {
  tail.assign(steps.size(), 0);
  std::vector<size_t> behind(steps.size());
  std::vector<int> list;
  for (size_t s = 0; s < steps.size(); ++s)
    if ((behind[s] = feeds[s].size()) == 0)
      list.push_back(s);
  while (!list.empty()) {
    int s = list.back();
    list.pop_back();
    for (int f : feeds[s])
      tail[s] = std::max(tail[s], tail[f]);
    if (tail[s] > 0 || steps[s].segment >= 0)
      tail[s] += cost[s];
    for (int n : needs[s])
      if (--behind[n] == 0)
        list.push_back(n);
  }
}

/// Units whose segments the step reads and which still run.
std::set<int> Scheduler::underWay(int step) const {
  std::set<int> units;
  for (int n : needs[step])
    if (auto it = flying.find(unitOf(steps[n]));
        steps[n].segment >= 0 && it != flying.end() && is_contained(it->second, n))
      units.insert(it->first);
  return units;
}

/// A launch before work of the CPU, what leads to a launch before the rest, and
/// what has to wait last, for the unit that is done first.
int Scheduler::next() const {
  auto finished = [&](int step) {
    Cost last = 0;
    for (int unit : underWay(step))
      last = std::max(last, steps[flying.at(unit).back()].end);
    return last > cpuTime ? last : 0;
  };
  auto key = [&](int step) { return std::tuple(finished(step), steps[step].segment < 0, -tail[step], step); };
  assert(!ready.empty() && "placements are acyclic");
  return *min_element(ready, [&](int a, int b) { return key(a) < key(b); });
}

/// The CPU waits for all that the unit has been given.
void Scheduler::fence(unsigned unit, ScheduleStep &step) {
  int last = flying[unit].back();
  flying.erase(unit);
  if (steps[last].end <= cpuTime)
    return;
  if (step.waitedFor < 0)
    step.waitedFrom = cpuTime;
  step.waitedFor = last;
  step.waitedTo = cpuTime = steps[last].end;
  cpuLast = last;
}

/// What the CPU converts and copies for the step, once for each state.
Cost Scheduler::copiesFor(int step) {
  Cost sum = 0;
  for (int j : steps[step].ops)
    for (int t : graph.inputs[j]) {
      int producer = graph.producer[t];
      if (producer < 0)
        continue;
      int from = optionOf(producer).output, to = optionOf(j).input;
      if (from != to && !std::exchange(copied[{t, to}], true))
        sum += graph.copyCost(t, from, to);
    }
  return sum;
}

void Scheduler::place(int s) {
  ScheduleStep &step = steps[s];
  for (int unit : underWay(s))
    fence(unit, step);
  step.after = cpuLast;
  cpuTime += copiesFor(s);
  step.start = cpuTime;
  if (step.segment < 0) {
    step.end = cpuTime += cost[s];
    cpuLast = s;
  } else {
    unsigned unit = unitOf(step);
    if (auto last = lastOf.find(unit); last != lastOf.end() && steps[last->second].end > step.start) {
      step.start = steps[last->second].end;
      step.after = last->second;
    }
    step.end = step.start + cost[s];
    flying[unit].push_back(s);
    lastOf[unit] = s;
  }
  order.push_back(s);
  ready.erase(s);
  for (int f : feeds[s])
    if (--open[f] == 0)
      ready.insert(f);
}

Schedule Scheduler::run() {
  makeSteps();
  findTails();
  for (size_t s = 0; s < steps.size(); ++s) {
    open.push_back(needs[s].size());
    if (needs[s].empty())
      ready.insert(s);
  }
  for (size_t k = 0; k < steps.size(); ++k)
    place(next());
  Schedule schedule;
  std::vector<int> at(steps.size());
  for (auto [k, s] : enumerate(order))
    at[s] = k;
  int last = -1;
  for (int s : order) {
    ScheduleStep step = steps[s];
    step.after = step.after < 0 ? -1 : at[step.after];
    step.waitedFor = step.waitedFor < 0 ? -1 : at[step.waitedFor];
    schedule.steps.push_back(std::move(step));
    if (schedule.steps.back().end > schedule.end || last < 0) {
      schedule.end = schedule.steps.back().end;
      last = schedule.steps.size() - 1;
    }
  }
  for (; last >= 0; last = schedule.steps[last].after)
    schedule.critical.insert(schedule.critical.begin(), last);
  return schedule;
}

Schedule scheduleOf(const partition::Graph &graph, ArrayRef<PlacementDevice> devices,
                    const partition::Solution &solution) {
  return Scheduler(graph, devices, solution).run();
}

} // namespace tessera

#include "passes/Partition/FrontierSearch.h"
#include "passes/Partition/Frontier.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>

namespace tessera::partition {

/// An operator that reads from more open segments of its device than this tries
/// to join all of them or none; what it leaves out lowers the stated bound.
constexpr int mostJoinsTried = 6;

namespace {

/// How a state came about; what the way back needs.
struct Trace {
  int32_t parent;
  uint16_t option, joined;
};

class Search {
public:
  Search(const Graph &g, const DualBound &bound, Cost lambda, const SearchLimits &limits)
      : g(g), bound(bound), lambda(lambda), limits(limits), toGo(g, bound), stepper(g, bound, toGo),
        now(limits.budget.has_value()), next(limits.budget.has_value()), passed(g.producer.size(), 0) {}

  SearchResult run();

private:
  bool prepareRests();
  Step makeStep(size_t at);
  void expand(const Step &step, int32_t index);
  void tryOption(const Step &step, int32_t index, int option);
  void tryJoin(const Step &step, int32_t index, int option, uint16_t joined, Cost paid);
  size_t widthAfter(size_t at) const;
  std::optional<int32_t> bestLast() const;
  Solution replay(int32_t last);

  const Graph &g;
  const DualBound &bound;
  Cost lambda;
  SearchLimits limits;
  ToGo toGo;
  Stepper stepper;
  Layer now, next;
  std::vector<size_t> passed; ///< per tensor: readers processed
  std::vector<int> live;
  std::vector<Cost> rests, restSensitivities;
  std::vector<std::vector<Trace>> traces;
  Parent parent;
  Child child;
  uint64_t expanded = 0; ///< states stepped from
  SearchResult result;
};

/// Sums over the operators from each place on, and over the tensors they write.
bool Search::prepareRests() {
  rests.assign(g.size() + 1, 0);
  restSensitivities.assign(g.size() + 1, 0);
  for (size_t i = g.size(); i-- > 0;) {
    int j = g.order[i];
    Cost kept = bound.leastKept(j), sensitivity = impossible;
    for (size_t x = 0; x < g.options(j).size(); ++x)
      if (bound.alive(j, int(x)))
        sensitivity = std::min(sensitivity, g.options(j)[x].sensitivity);
    if (kept >= impossible)
      return false;
    for (int t : g.outputs[j]) {
      Cost term = bound.leastTerm(t);
      if (term >= impossible)
        return false;
      kept += term;
    }
    rests[i] = rests[i + 1] + kept;
    restSensitivities[i] = restSensitivities[i + 1] + sensitivity;
  }
  return true;
}

Step Search::makeStep(size_t at) {
  Step step;
  step.op = g.order[at];
  step.rest = rests[at + 1];
  step.restSensitivity = restSensitivities[at + 1];
  for (int t : g.inputs[step.op]) {
    step.inputAt.push_back(int(std::find(live.begin(), live.end(), t) - live.begin()));
    toGo.pass(t, ++passed[t]);
  }
  for (size_t k = 0; k < live.size(); ++k) {
    int t = live[k];
    if (passed[t] == g.consumers[t].size())
      continue;
    step.keptAt.push_back(int(k));
    step.keptInput.push_back(llvm::is_contained(g.inputs[step.op], t));
    step.live.push_back(t);
  }
  for (int t : g.outputs[step.op]) {
    step.live.push_back(t);
    toGo.pass(t, 0);
  }
  return step;
}

void Search::tryJoin(const Step &step, int32_t index, int option, uint16_t joined, Cost paid) {
  const Option &o = g.options(step.op)[option];
  result.work += 4 + step.live.size();
  if (!stepper.legal(step, parent, joined))
    return;
  stepper.apply(step, parent, o, joined, child);
  Node node;
  node.paid = paid;
  if (g.deviceOf(o).segments)
    node.paid += (1 - std::popcount(joined)) * g.deviceOf(o).launch * weightScale;
  node.sensitivity = now[size_t(index)].sensitivity + o.sensitivity;
  node.future = stepper.future(step, child);
  if (node.future >= impossible || node.bound() >= limits.upper)
    return;
  if (child.overflow) {
    result.leastDropped = std::min(result.leastDropped, node.bound());
    return;
  }
  node.parent = index;
  node.option = uint16_t(option);
  node.joined = joined;
  node.excess = child.excess;
  next.add(child.entries, node, lambda);
}

void Search::tryOption(const Step &step, int32_t index, int option) {
  const Option &o = g.options(step.op)[option];
  const Node &from = now[size_t(index)];
  if (limits.budget && from.sensitivity + o.sensitivity + step.restSensitivity > *limits.budget)
    return;
  Cost copies = stepper.copies(step, parent, o);
  if (copies >= impossible)
    return;
  Cost paid = from.paid + bound.weight(step.op, option) + copies;
  uint16_t adjacent = stepper.joinable(step, parent, o);
  if (!g.deviceOf(o).launch)
    adjacent = 0; // joining saves nothing and only takes freedom
  if (std::popcount(adjacent) > mostJoinsTried) {
    result.leastDropped = std::min(result.leastDropped, from.bound());
    tryJoin(step, index, option, adjacent, paid);
    tryJoin(step, index, option, 0, paid);
    return;
  }
  for (uint32_t joined = adjacent;; joined = (joined - 1) & adjacent) {
    tryJoin(step, index, option, uint16_t(joined), paid);
    if (!joined)
      break;
  }
}

void Search::expand(const Step &step, int32_t index) {
  parent.read(now.words(size_t(index)), live.size(), now[size_t(index)].excess);
  for (size_t x = 0; x < g.options(step.op).size(); ++x)
    if (bound.alive(step.op, int(x)))
      tryOption(step, index, int(x));
}

/// Spreads the work that is left evenly over the layers that are left.
size_t Search::widthAfter(size_t at) const {
  if (!limits.work || at + 1 == g.size())
    return limits.width;
  uint64_t perState = result.work / expanded + 1;
  uint64_t left = limits.work > result.work ? limits.work - result.work : 0;
  uint64_t affordable = left / (perState * (g.size() - at - 1));
  return std::clamp<size_t>(affordable, std::min(limits.narrow, limits.width), limits.width);
}

/// The cheapest complete answer.
std::optional<int32_t> Search::bestLast() const {
  std::optional<int32_t> best;
  auto cost = [&](int32_t i) { return now[size_t(i)].paid - lambda * now[size_t(i)].sensitivity; };
  for (size_t i = 0; i < now.size(); ++i)
    if (!best || cost(int32_t(i)) < cost(*best))
      best = int32_t(i);
  return best;
}

/// Steps along the way to `last` once more and notes which segments it joined.
Solution Search::replay(int32_t last) {
  std::vector<Trace> way(g.size());
  for (size_t i = g.size(); i-- > 0;) {
    way[i] = traces[i][size_t(last)];
    last = way[i].parent;
  }
  Solution solution;
  solution.choice.assign(g.size(), 0);
  solution.segment.assign(g.size(), -1);
  std::vector<int> group; // disjoint sets of segments, in order of opening
  auto find = [&](int x) {
    while (group[x] != x)
      x = group[x];
    return x;
  };
  std::fill(passed.begin(), passed.end(), 0);
  live.clear();
  std::vector<Entry> entries;
  std::vector<int> segmentOf; // per open segment: its set
  for (size_t i = 0; i < g.size(); ++i) {
    Step step = makeStep(i);
    std::vector<uint64_t> words;
    for (const Entry &e : entries)
      words.push_back(e.pack());
    parent.read(words.data(), words.size(), Excess{});
    const Option &o = g.options(step.op)[way[i].option];
    solution.choice[step.op] = way[i].option;
    stepper.apply(step, parent, o, way[i].joined, child);
    int own = -1;
    if (g.deviceOf(o).segments) {
      own = int(group.size());
      group.push_back(own);
      for (uint32_t rest = way[i].joined; rest; rest &= rest - 1)
        group[find(segmentOf[std::countr_zero(rest)])] = own;
      solution.segment[step.op] = own;
    }
    std::vector<int> after(maxOpen, -1);
    for (int s = 0; s <= maxOpen; ++s)
      if (child.number[s] >= 0)
        after[child.number[s]] = s == ownSegment ? own : segmentOf[s];
    segmentOf = after;
    entries = child.entries;
    live = step.live;
  }
  for (int &s : solution.segment)
    if (s >= 0)
      s = find(s);
  return solution;
}

SearchResult Search::run() {
  if (!prepareRests())
    return std::move(result);
  now.reset(0);
  now.add({}, Node{}, lambda);
  for (size_t i = 0; i < g.size(); ++i) {
    Step step = makeStep(i);
    next.reset(step.live.size());
    for (size_t k = 0; k < now.size(); ++k)
      expand(step, int32_t(k));
    expanded += now.size();
    Cost dropped = next.prune(limits.upper, widthAfter(i));
    result.leastDropped = std::min(result.leastDropped, dropped);
    result.peak = std::max(result.peak, next.size());
    traces.emplace_back();
    for (size_t k = 0; k < next.size(); ++k)
      traces.back().push_back({next[k].parent, next[k].option, next[k].joined});
    std::swap(now, next);
    live = step.live;
    if (!now.size())
      return std::move(result);
  }
  if (std::optional<int32_t> last = bestLast())
    result.solution = replay(*last);
  return std::move(result);
}

} // namespace

SearchResult searchFrontier(const Graph &graph, const DualBound &bound, Cost lambda, const SearchLimits &limits) {
  return Search(graph, bound, lambda, limits).run();
}

} // namespace tessera::partition

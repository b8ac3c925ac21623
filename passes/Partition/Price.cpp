// The price of an answer from its definition, and the joining of segments.
#include "passes/Partition/Graph.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace tessera::partition {

namespace {

/// Operators contracted to their segments.
struct Quotient {
  std::vector<int> node;                 ///< per operator
  std::vector<std::vector<int>> succs;   ///< per node, with repetitions
  std::vector<int> device;               ///< per node: device of the segment, or -1
};

class Sets {
public:
  explicit Sets(size_t n) : parent(n) { std::iota(parent.begin(), parent.end(), 0); }
  int find(int x) {
    while (parent[x] != x)
      x = parent[x] = parent[parent[x]];
    return x;
  }
  void join(int a, int b) { parent[find(a)] = find(b); }

private:
  std::vector<int> parent;
};

} // namespace

static Quotient contract(const Graph &g, const std::vector<int> &choice, const std::vector<int> &segment) {
  Quotient q;
  q.node.resize(g.size());
  std::map<int, int> ofSegment;
  for (size_t j = 0; j < g.size(); ++j) {
    int fresh = int(q.device.size());
    int node = segment[j] < 0 ? fresh : ofSegment.emplace(segment[j], fresh).first->second;
    if (node == fresh)
      q.device.push_back(segment[j] < 0 ? -1 : g.options(int(j))[choice[j]].device);
    q.node[j] = node;
  }
  q.succs.resize(q.device.size());
  for (size_t j = 0; j < g.size(); ++j)
    for (int t : g.inputs[j])
      if (int from = q.node[g.producer[t]]; from != q.node[j])
        q.succs[from].push_back(q.node[j]);
  return q;
}

static bool acyclic(const Quotient &q) {
  std::vector<int> missing(q.succs.size(), 0), ready;
  for (const std::vector<int> &succs : q.succs)
    for (int k : succs)
      ++missing[k];
  for (size_t i = 0; i < missing.size(); ++i)
    if (!missing[i])
      ready.push_back(int(i));
  for (size_t at = 0; at < ready.size(); ++at)
    for (int k : q.succs[ready[at]])
      if (--missing[k] == 0)
        ready.push_back(k);
  return ready.size() == missing.size();
}

static bool connected(const Graph &g, const std::vector<int> &segment) {
  Sets sets(g.size());
  for (size_t j = 0; j < g.size(); ++j)
    for (int t : g.inputs[j])
      if (segment[j] >= 0 && segment[g.producer[t]] == segment[j])
        sets.join(int(j), g.producer[t]);
  std::map<int, int> root;
  for (size_t j = 0; j < g.size(); ++j)
    if (segment[j] >= 0 && root.emplace(segment[j], sets.find(int(j))).first->second != sets.find(int(j)))
      return false;
  return true;
}

static bool addCopies(const Graph &g, const std::vector<int> &choice, Price &price) {
  for (size_t t = 0; t < g.producer.size(); ++t) {
    if (g.producer[t] < 0)
      continue;
    int from = g.options(g.producer[t])[choice[g.producer[t]]].output;
    std::set<int> wanted;
    for (int k : g.consumers[t])
      wanted.insert(g.options(k)[choice[k]].input);
    wanted.erase(from);
    for (int to : wanted) {
      Cost c = g.copyCost(int(t), from, to);
      if (c >= impossible)
        return false;
      price.copyCost += c;
      price.copiedElements += g.problem.elements[t];
      ++price.copies;
    }
  }
  return true;
}

std::optional<Price> priceOf(const Graph &g, const std::vector<int> &choice, const std::vector<int> &segment) {
  Price price;
  std::map<int, int> deviceOfSegment;
  for (size_t j = 0; j < g.size(); ++j) {
    const Option &o = g.options(int(j))[choice[j]];
    price.cost += o.cost;
    price.sensitivity += o.sensitivity;
    if (g.deviceOf(o).segments != (segment[j] >= 0))
      return std::nullopt;
    if (segment[j] < 0)
      continue;
    auto [it, first] = deviceOfSegment.emplace(segment[j], o.device);
    if (it->second != o.device)
      return std::nullopt;
    if (first)
      price.launchCost += g.deviceOf(o).launch;
  }
  price.segments = int(deviceOfSegment.size());
  if (!addCopies(g, choice, price) || !connected(g, segment) || !acyclic(contract(g, choice, segment)))
    return std::nullopt;
  price.cost += price.copyCost + price.launchCost;
  return price;
}

/// Whether a path of two or more edges leads from node `a` to node `b`: then the
/// two cannot be contracted.
static bool detour(const Quotient &q, int a, int b) {
  std::vector<char> seen(q.succs.size(), 0);
  std::vector<int> stack;
  for (int k : q.succs[a])
    if (k != b && !seen[k]) {
      seen[k] = 1;
      stack.push_back(k);
    }
  while (!stack.empty()) {
    int v = stack.back();
    stack.pop_back();
    if (v == b)
      return true;
    for (int k : q.succs[v])
      if (!seen[k]) {
        seen[k] = 1;
        stack.push_back(k);
      }
  }
  return false;
}

/// One walk over all edges; whether anything was joined.
static bool joinAlongEdges(const Graph &g, Solution &s) {
  bool joined = false;
  Quotient q = contract(g, s.choice, s.segment);
  for (int j : g.order)
    for (int t : g.inputs[j]) {
      int i = g.producer[t], a = q.node[i], b = q.node[j];
      if (a == b || q.device[a] < 0 || q.device[a] != q.device[b] || detour(q, a, b))
        continue;
      int from = s.segment[j], to = s.segment[i];
      std::replace(s.segment.begin(), s.segment.end(), from, to);
      q = contract(g, s.choice, s.segment);
      joined = true;
    }
  return joined;
}

void joinSegments(const Graph &g, Solution &s) {
  constexpr int walks = 3; // a join may make way for one more, rarely
  for (int k = 0; k < walks && joinAlongEdges(g, s); ++k) {
  }
  std::map<int, int> number;
  for (int &id : s.segment)
    if (id >= 0)
      id = number.emplace(id, int(number.size())).first->second;
}

} // namespace tessera::partition

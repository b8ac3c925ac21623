#include "passes/Partition/LaunchCover.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace tessera::partition {

namespace {

struct Edge {
  int from, to, tensor, slot;
  bool kept = true;
};

std::vector<Edge> edgesOf(const Graph &g) {
  std::vector<Edge> edges;
  for (int j : g.order)
    for (size_t k = 0; k < g.inputs[j].size(); ++k)
      edges.push_back({g.producer[g.inputs[j][k]], j, g.inputs[j][k], g.slots[j][k]});
  return edges;
}

LaunchCover emptyCover(const Graph &g) {
  LaunchCover cover;
  cover.ops.assign(g.size(), 0);
  for (const std::vector<int> &readers : g.consumers)
    cover.edges.emplace_back(readers.size(), 0);
  return cover;
}

/// Takes away the ears that an answer holds inside one segment.
class EarRemoval {
public:
  EarRemoval(const Graph &g, const Solution &answer) : g(g), answer(answer), edges(edgesOf(g)) {
    cover.ops.assign(g.size(), 1);
    in.resize(g.size());
    out.resize(g.size());
    seen.assign(g.size(), 0);
    for (size_t e = 0; e < edges.size(); ++e) {
      out[edges[e].from].push_back(int(e));
      in[edges[e].to].push_back(int(e));
    }
  }

  LaunchCover run() {
    bool changed = true;
    while (changed) {
      changed = false;
      for (int a : g.order)
        changed |= removeFrom(a);
    }
    LaunchCover result = emptyCover(g);
    result.ops = cover.ops;
    for (const Edge &e : edges)
      result.edges[e.tensor][e.slot] = e.kept;
    return result;
  }

private:
  bool passesThrough(int op) const { return in[op].size() == 1 && out[op].size() == 1; }

  bool removeFrom(int a) {
    if (!cover.ops[a] || passesThrough(a))
      return false;
    bool changed = false;
    for (size_t q = 0; q < out[a].size() && out[a].size() > 1;)
      if (removeEar(a, out[a][q]))
        changed = true;
      else
        ++q;
    return changed;
  }

  /// The ear that leaves `a` by edge `first`.
  bool removeEar(int a, int first) {
    std::vector<int> path{first}, inner;
    int b = edges[first].to;
    while (passesThrough(b)) {
      inner.push_back(b);
      path.push_back(out[b][0]);
      b = edges[out[b][0]].to;
    }
    if (in[b].size() < 2 || !closed(a, b, inner))
      return false;
    if (!reaches(a, b, first))
      return false;
    for (int v : inner) {
      cover.ops[v] = 0;
      in[v].clear();
      out[v].clear();
    }
    for (int e : path)
      edges[e].kept = false;
    out[a].erase(std::find(out[a].begin(), out[a].end(), first));
    in[b].erase(std::find(in[b].begin(), in[b].end(), path.back()));
    return true;
  }

  /// An ear of one edge goes always: it closes a cycle in every segment.
  bool closed(int a, int b, const std::vector<int> &inner) const {
    if (inner.empty())
      return true;
    int s = answer.segment[a];
    return s >= 0 && answer.segment[b] == s &&
           std::all_of(inner.begin(), inner.end(), [&](int v) { return answer.segment[v] == s; });
  }

  /// Whether `b` is reached from `a` without edge `without`.
  bool reaches(int a, int b, int without) {
    ++tick;
    std::vector<int> stack{a};
    while (!stack.empty()) {
      int v = stack.back();
      stack.pop_back();
      for (int e : out[v]) {
        int w = edges[e].to;
        if (e == without)
          continue;
        if (w == b)
          return true;
        if (g.position[w] < g.position[b] && seen[w] != tick) {
          seen[w] = tick;
          stack.push_back(w);
        }
      }
    }
    return false;
  }

  const Graph &g;
  const Solution &answer;
  LaunchCover cover;
  std::vector<Edge> edges;
  std::vector<std::vector<int>> in, out; ///< kept edges per operator
  std::vector<int> seen;
  int tick = 0;
};

} // namespace

LaunchCover coverByPaths(const Graph &g) {
  std::vector<Edge> edges = edgesOf(g);
  std::vector<int> length(g.size(), 1), arrival(g.size(), -1), part(g.size());
  std::iota(part.begin(), part.end(), 0);
  auto find = [&](int x) {
    while (part[x] != x)
      x = part[x] = part[part[x]];
    return x;
  };
  for (size_t e = 0; e < edges.size(); ++e) { // sorted by the order of `to`
    auto [from, to, tensor, slot, kept] = edges[e];
    part[find(from)] = find(to);
    if (length[from] + 1 > length[to]) {
      length[to] = length[from] + 1;
      arrival[to] = int(e);
    }
  }
  std::map<int, int> end; // of the longest path, per connected part
  for (size_t j = 0; j < g.size(); ++j) {
    int &best = end.emplace(find(int(j)), int(j)).first->second;
    if (length[j] > length[best])
      best = int(j);
  }
  LaunchCover cover = emptyCover(g);
  for (auto [root, last] : end)
    for (int j = last;; j = edges[arrival[j]].from) {
      cover.ops[j] = 1;
      if (arrival[j] < 0)
        break;
      cover.edges[edges[arrival[j]].tensor][edges[arrival[j]].slot] = 1;
    }
  return cover;
}

/// What the launch terms of a cover add up to at an answer.
static Cost valueAt(const Graph &g, const LaunchCover &cover, const Solution &answer) {
  auto launch = [&](int j) { return g.deviceOf(g.options(j)[answer.choice[j]]).launch; };
  auto device = [&](int j) { return g.options(j)[answer.choice[j]].device; };
  Cost value = 0;
  for (size_t j = 0; j < g.size(); ++j)
    if (answer.segment[j] >= 0 && cover.ops[j])
      value += launch(int(j));
  for (size_t t = 0; t < g.consumers.size(); ++t)
    for (size_t k = 0; k < g.consumers[t].size(); ++k) {
      int i = g.producer[t], j = g.consumers[t][k];
      if (cover.edges[t][k] && answer.segment[i] >= 0 && answer.segment[j] >= 0 && device(i) == device(j))
        value -= launch(i);
    }
  return value;
}

LaunchCover coverFor(const Graph &g, const Solution &answer) {
  LaunchCover paths = coverByPaths(g);
  LaunchCover ears = EarRemoval(g, answer).run();
  return valueAt(g, paths, answer) >= valueAt(g, ears, answer) ? paths : ears;
}

} // namespace tessera::partition

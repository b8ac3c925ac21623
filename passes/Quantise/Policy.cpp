#include "passes/Quantise/Policy.h"

#include <algorithm>
#include <cmath>

namespace tessera::quantise {

bool isTransformer(const Graph &g) {
  for (int i = 0; i < g.nodeCount(); ++i) {
    const NodeProto &n = g.node(i);
    const std::string &op = n.op_type();
    if (op == "LayerNormalization" || op == "RMSNormalization" ||
        op == "Attention" || op == "SimplifiedLayerNormalization")
      return true;
    // A product of two activations: attention.
    if (op == "MatMul" && n.domain().empty() && !g.isConstant(n.input(0)) &&
        !g.isConstant(n.input(1)))
      return true;
  }
  return false;
}

namespace {

/// Nodes from which no product is reachable.
std::vector<bool> tailNodes(const Graph &g) {
  std::vector<bool> reaches(size_t(g.nodeCount()), false);
  for (int i = g.nodeCount() - 1; i >= 0; --i) {
    bool reach = isProduct(g.node(i));
    for (auto &o : g.node(i).output())
      for (const Use &u : g.uses(o))
        reach |= reaches[u.node] || isProduct(g.node(u.node));
    reaches[i] = reach;
  }
  std::vector<bool> tail(reaches.size());
  for (size_t i = 0; i < tail.size(); ++i)
    tail[i] = !reaches[i];
  return tail;
}

} // namespace

void choose(const Graph &g, std::vector<Unit> &units,
            const std::set<int> &floating, const PolicyOptions &options) {
  bool all = options.coverage == Coverage::All ||
             (options.coverage == Coverage::Auto && !options.transformer);
  std::vector<bool> tail = tailNodes(g);
  for (Unit &u : units) {
    u.quantised = false;
    if (u.kind == UnitKind::Mac) {
      u.quantised = true;
      u.reason.clear();
    } else if (!all) {
      u.reason = "only products are quantised";
    } else if (std::any_of(u.nodes.begin(), u.nodes.end(),
                           [&](int n) { return floating.count(n) != 0; })) {
      u.reason = "hazard";
    } else if (tail[u.root]) {
      u.reason = "no product follows";
    } else {
      u.quantised = true;
      u.reason.clear();
    }
  }
}

std::vector<std::string> concatMembers(const Graph &g,
                                       const std::string &value) {
  std::string v = value;
  for (int depth = 0; depth < 32; ++depth) {
    int p = g.producer(v);
    if (p < 0)
      return {};
    const NodeProto &n = g.node(p);
    if (n.op_type() == "Concat" && n.domain().empty())
      return {n.input().begin(), n.input().end()};
    if (!isMove(n) || n.op_type() == "MaxPool")
      return {};
    v = n.input(0);
  }
  return {};
}

bool areUnlike(const std::vector<const Histogram *> &members) {
  float most = 0;
  for (auto *h : members)
    most = std::max({most, -h->seen().low, h->seen().high});
  for (auto *h : members) {
    float own = std::max(-h->seen().low, h->seen().high);
    if (own > 0 && own * 8 < most)
      return true;
  }
  return false;
}

static std::vector<const Histogram *> measured(const Unit &u, const Graph &g,
                                               const Ranges &ranges) {
  std::vector<const Histogram *> found;
  for (const Use &use : u.activations)
    if (auto it = ranges.find(g.node(use.node).input(use.input));
        it != ranges.end())
      found.push_back(&it->second);
  return found;
}

void separateUnlike(const Graph &g, std::vector<Unit> &units,
                    const Ranges &ranges) {
  for (Unit &u : units)
    if (u.quantised && !u.pinned && u.kind == UnitKind::Concat &&
        areUnlike(measured(u, g, ranges))) {
      u.quantised = false;
      u.reason = "members of unlike ranges";
    }
}

std::map<std::string, std::string> scaleGroups(const Graph &g,
                                               const std::vector<Unit> &units) {
  std::map<std::string, std::string> parent;
  std::function<std::string(const std::string &)> root =
      [&](const std::string &v) {
        auto it = parent.find(v);
        return it == parent.end() || it->second == v ? v : root(it->second);
      };
  for (const Unit &u : units) {
    if (!u.quantised ||
        (u.kind != UnitKind::Move && u.kind != UnitKind::Concat))
      continue;
    for (const Use &use : u.activations)
      for (auto &output : g.node(u.root).output()) {
        std::string a = root(g.node(use.node).input(use.input)),
                    b = root(output);
        if (a != b)
          parent[std::max(a, b)] = std::min(a, b);
      }
  }
  std::map<std::string, std::string> groups;
  for (auto &[v, p] : parent)
    groups[v] = root(v);
  return groups;
}

} // namespace tessera::quantise

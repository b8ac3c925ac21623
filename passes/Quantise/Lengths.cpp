#include "passes/Quantise/Lengths.h"

#include <algorithm>

namespace tessera::quantise {
namespace {

/// `value` and what moves make of it.
std::set<std::string> movedFrom(const Graph &g, const std::string &value) {
  std::set<std::string> seen = {value};
  std::vector<std::string> pending = {value};
  while (!pending.empty()) {
    std::string v = std::move(pending.back());
    pending.pop_back();
    for (const Use &use : g.uses(v))
      if (use.input == 0 && isMove(g.node(use.node)))
        for (auto &o : g.node(use.node).output())
          if (!o.empty() && seen.insert(o).second)
            pending.push_back(o);
  }
  return seen;
}

/// MatMul nodes whose left operand is one of the probabilities, or a move of
/// one.
std::set<int> meansBy(const Graph &g, const std::set<std::string> &open) {
  std::set<int> products;
  for (auto &p : open)
    for (auto &v : movedFrom(g, p))
      for (const Use &use : g.uses(v))
        if (use.input == 0 && g.node(use.node).op_type() == "MatMul" &&
            g.node(use.node).domain().empty())
          products.insert(use.node);
  return products;
}

} // namespace

std::set<std::string> openProbabilities(const Graph &g) {
  std::set<std::string> open;
  for (int i = 0; i < g.nodeCount(); ++i) {
    const NodeProto &n = g.node(i);
    if (n.op_type() != "Softmax" || !n.domain().empty() || !n.output_size())
      continue;
    auto dims = g.shape(n.output(0));
    int64_t axis = g.attribute(i, "axis", int64_t(-1));
    if (!dims || dims->empty())
      continue;
    axis += axis < 0 ? int64_t(dims->size()) : 0;
    if (axis >= 0 && axis < int64_t(dims->size()) && (*dims)[size_t(axis)] < 0)
      open.insert(n.output(0));
  }
  return open;
}

std::vector<Hazard> separateOpen(const Graph &g,
                                 const std::set<std::string> &open,
                                 std::vector<Unit> &units) {
  std::set<int> products = meansBy(g, open);
  Hazard h = {"open-softmax",
              {},
              "softmax over an axis of open length: probabilities reach 1 "
              "where it is short, whatever the samples show",
              "the products of probabilities stay float; their results get the "
              "range of what they are means of"};
  for (Unit &u : units)
    if (products.count(u.root) && u.quantised && !u.pinned &&
        u.type != TensorProto::INT16) {
      u.quantised = false;
      u.reason = "softmax over an axis of open length";
      h.nodes.push_back(u.name);
    }
  if (h.nodes.empty())
    return {};
  return {h};
}

void widenOpen(const Graph &g, const std::set<std::string> &open,
               Ranges &ranges) {
  auto known = [&](const std::string &v) {
    auto it = ranges.find(v);
    return it == ranges.end() || it->second.empty() ? nullptr : &it->second;
  };
  // Often enough that no method of ranges takes it for a stray value.
  for (auto &p : open)
    for (auto &v : movedFrom(g, p))
      if (Histogram *h = known(v)) {
        std::vector<float> ones(size_t(h->count() / 100 + 1), 1.0f);
        h->add(ones.data(), int64_t(ones.size()));
      }
  for (int product : meansBy(g, open)) {
    const Histogram *of = known(g.node(product).input(1));
    if (!of)
      continue;
    Histogram copy = *of;
    for (auto &v : movedFrom(g, g.node(product).output(0)))
      if (Histogram *h = known(v))
        h->merge(copy);
  }
}

} // namespace tessera::quantise

// The range lint: what in a model makes integers a risk, found in its structure
// (masks, decomposed normalisations, power spectra, comparisons) and in the
// measured ranges (unlike members of a Concat).
#include "passes/Quantise/Policy.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace tessera::quantise {
namespace {

bool isOp(const NodeProto &n, const std::set<std::string> &names) {
  return n.domain().empty() && names.count(n.op_type());
}

std::string number(double v) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g", v);
  return text;
}

class HazardFinder {
public:
  HazardFinder(const Graph &g, std::set<int> &floating)
      : g(g), floating(floating) {}

  std::vector<Hazard> run(int64_t originalOpset) {
    masks();
    roots();
    comparisons();
    if (originalOpset)
      found.push_back({"old-operator-set",
                       {},
                       "operator set " + std::to_string(originalOpset) +
                           " has no DequantizeLinear with one scale a channel",
                       "converted to 13"});
    return std::move(found);
  }

private:
  /// Constants of -1e4 and below that are chosen by Where or added.
  void masks() {
    for (int i = 0; i < g.nodeCount(); ++i) {
      if (!isOp(g.node(i), {"Where", "Add", "Sub", "Mul"}))
        continue;
      for (auto &v : g.node(i).input()) {
        auto t = v.empty() ? std::nullopt : g.floats(v);
        if (!t || t->values.empty())
          continue;
        float least = *std::min_element(t->values.begin(), t->values.end()),
              most = *std::max_element(t->values.begin(), t->values.end());
        bool mask =
            least <= -1e4f || (g.node(i).op_type() == "Sub" && most >= 1e4f);
        if (!mask)
          continue;
        found.push_back(
            {"mask",
             {g.nameOf(i)},
             "constant " + number(least <= -1e4f ? least : most) +
                 " is used as a mask: it would take the whole range",
             "the node and what it reaches without a product stay float"});
        std::set<int> seen;
        forward(i, seen, 64, [](const NodeProto &) { return true; });
        floating.insert(seen.begin(), seen.end());
        break;
      }
    }
  }

  /// Square roots of means and sums of squares.
  void roots() {
    for (int i = 0; i < g.nodeCount(); ++i) {
      const NodeProto &n = g.node(i);
      bool root = isOp(n, {"Sqrt"}) ||
                  (isOp(n, {"Pow"}) && hasExponent(n, 0.5f)) ||
                  (isOp(n, {"Pow"}) && hasExponent(n, -0.5f));
      if (!root)
        continue;
      std::set<int> before = {i};
      bool mean = false, square = false, add = false;
      backward(i, before, 12, mean, square, add);
      if (!square)
        continue;
      std::set<int> after;
      if (mean)
        forward(i, after, 5, [&](const NodeProto &m) {
          return isOp(m,
                      {"Div", "Mul", "Reciprocal", "Add", "Cast", "Identity"});
        });
      Hazard h;
      h.kind = mean ? "decomposed-normalisation" : "power-spectrum";
      for (int k : before)
        h.nodes.push_back(g.nameOf(k));
      h.text = mean
                   ? "mean of squares under a root: a normalisation written out"
                   : "sum of squares under a root: squares need twice the bits";
      h.remedy = "its nodes stay float";
      found.push_back(h);
      floating.insert(before.begin(), before.end());
      floating.insert(after.begin(), after.end());
    }
  }

  bool hasExponent(const NodeProto &n, float wanted) const {
    auto e = n.input_size() > 1 ? g.floats(n.input(1)) : std::nullopt;
    return e && e->values.size() == 1 && e->values[0] == wanted;
  }

  void backward(int from, std::set<int> &seen, int depth, bool &mean,
                bool &square, bool &add) const {
    if (!depth)
      return;
    for (auto &v : g.node(from).input()) {
      int p = v.empty() ? -1 : g.producer(v);
      if (p < 0 || seen.count(p) || g.isConstant(v))
        continue;
      const NodeProto &n = g.node(p);
      bool squares = (isOp(n, {"Mul"}) && n.input(0) == n.input(1)) ||
                     (isOp(n, {"Pow"}) && hasExponent(n, 2.0f)) ||
                     isOp(n, {"ReduceSumSquare"});
      mean |= isOp(n, {"ReduceMean", "ReduceSum", "ReduceSumSquare"});
      add |= isOp(n, {"Add"});
      square |= squares;
      if (squares || isOp(n, {"Add", "ReduceMean", "ReduceSum", "Sub", "Mul",
                              "Max", "Clip", "Div", "Identity", "Concat",
                              "Squeeze", "Unsqueeze", "Reshape", "Expand"})) {
        seen.insert(p);
        // What is squared is named: the difference from the mean.
        if (squares) {
          int d = g.producer(n.input(0));
          if (d >= 0 && isOp(g.node(d), {"Sub"}))
            seen.insert(d);
        } else {
          backward(p, seen, depth - 1, mean, square, add);
        }
      }
    }
  }

  template <typename Take>
  void forward(int from, std::set<int> &seen, int depth, Take take) const {
    if (!depth || seen.count(from))
      return;
    seen.insert(from);
    for (auto &o : g.node(from).output())
      for (const Use &u : g.uses(o))
        if (!isProduct(g.node(u.node)) && take(g.node(u.node)))
          forward(u.node, seen, depth - 1, take);
  }

  /// What decides by comparing: ties and order change with rounding.
  void comparisons() {
    static const std::set<std::string> ops = {
        "Equal",  "Greater", "GreaterOrEqual",   "Less", "LessOrEqual", "TopK",
        "ArgMax", "ArgMin",  "NonMaxSuppression"};
    for (int i = 0; i < g.nodeCount(); ++i) {
      if (!isOp(g.node(i), ops))
        continue;
      std::set<int> seen;
      bool any = false;
      for (auto &v : g.node(i).input())
        if (!v.empty() && g.isFloat(v) && !g.isConstant(v)) {
          any = true;
          before(g.producer(v), seen, 16);
        }
      if (!any)
        continue;
      floating.insert(seen.begin(), seen.end());
      found.push_back(
          {"comparison",
           {g.nameOf(i)},
           g.node(i).op_type() + " compares values: rounding makes ties",
           "its operands stay float back to the product they come from"});
    }
  }

  void before(int from, std::set<int> &seen, int depth) const {
    if (from < 0 || !depth || isProduct(g.node(from)) ||
        !seen.insert(from).second)
      return;
    for (auto &v : g.node(from).input())
      if (!v.empty() && g.isFloat(v) && !g.isConstant(v))
        before(g.producer(v), seen, depth - 1);
  }

  const Graph &g;
  std::set<int> &floating;
  std::vector<Hazard> found;
};

} // namespace

std::vector<Hazard> findHazards(const Graph &g, const PolicyOptions &options,
                                std::set<int> &floating) {
  return HazardFinder(g, floating).run(options.originalOpset);
}

std::vector<Hazard> findRangeHazards(const Graph &g,
                                     const std::vector<Unit> &units,
                                     const Ranges &ranges) {
  std::vector<Hazard> found;
  auto members = [&](const NodeProto &n, std::vector<const Histogram *> &out,
                     std::string &text) {
    for (auto &v : n.input())
      if (auto it = ranges.find(v); it != ranges.end()) {
        out.push_back(&it->second);
        text += (text.empty() ? "" : ", ") +
                ("'" + v + "' " + number(it->second.seen().low) + ".." +
                 number(it->second.seen().high));
      }
  };
  for (int i = 0; i < g.nodeCount(); ++i) {
    const NodeProto &n = g.node(i);
    if (!isOp(n, {"Concat"}) || !g.isFloat(n.output(0)))
      continue;
    std::vector<const Histogram *> parts;
    std::string text;
    members(n, parts, text);
    if (!areUnlike(parts))
      continue;
    bool output = false;
    std::function<void(const std::string &, int)> reach =
        [&](const std::string &v, int depth) {
          output |= g.isOutput(v);
          for (const Use &u : g.uses(v))
            if (depth && isMove(g.node(u.node)))
              reach(g.node(u.node).output(0), depth - 1);
        };
    reach(n.output(0), 16);
    found.push_back({output ? "unlike-output" : "unlike-concat",
                     {g.nameOf(i)},
                     "members of unlike ranges: " + text,
                     output ? "the output stays float"
                            : "no scale is shared; the Concat stays float"});
  }
  for (auto &[value, histogram] : ranges)
    if (histogram.notFinite())
      found.push_back({"not-finite",
                       {},
                       "value '" + value + "' has " +
                           std::to_string(histogram.notFinite()) +
                           " infinities or NaNs in calibration",
                       "they were left out of its range"});
  return found;
}

} // namespace tessera::quantise

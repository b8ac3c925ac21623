#include "passes/Quantise/Units.h"

#include <algorithm>

namespace tessera::quantise {

const char *unitKindName(UnitKind kind) {
  switch (kind) {
  case UnitKind::Mac:
    return "product";
  case UnitKind::Join:
    return "join";
  case UnitKind::Unary:
    return "table";
  case UnitKind::Move:
    return "move";
  case UnitKind::Pool:
    return "pool";
  case UnitKind::Concat:
    return "concat";
  }
  return "";
}

static bool isOneOf(const NodeProto &n, const std::set<std::string> &names) {
  return n.domain().empty() && names.count(n.op_type());
}

bool isProduct(const NodeProto &n) {
  return isOneOf(
      n, {"Conv", "ConvTranspose", "MatMul", "Gemm", "LSTM", "GRU", "RNN"});
}

bool isMove(const NodeProto &n) {
  return isOneOf(n,
                 {"MaxPool", "Transpose", "Reshape", "Flatten", "Squeeze",
                  "Unsqueeze", "Identity", "Slice", "Split", "Expand", "Gather",
                  "Tile", "DepthToSpace", "SpaceToDepth", "Dropout"});
}

bool isElementwise(const NodeProto &n) {
  return isOneOf(n, {"Relu",
                     "Clip",
                     "LeakyRelu",
                     "PRelu",
                     "HardSwish",
                     "HardSigmoid",
                     "Sigmoid",
                     "Tanh",
                     "Elu",
                     "Selu",
                     "Celu",
                     "Softplus",
                     "Softsign",
                     "Gelu",
                     "Mish",
                     "Swish",
                     "ThresholdedRelu",
                     "Erf",
                     "Abs",
                     "Neg",
                     "Add",
                     "Sub",
                     "Mul",
                     "Div",
                     "Min",
                     "Max",
                     "BatchNormalization"});
}

namespace {

/// Rows of a recurrent operator's weights in one direction.
double recurrentMacs(const Graph &g, int index, const std::vector<int64_t> &x,
                     const std::vector<int64_t> &w) {
  int64_t hidden = g.attribute(index, "hidden_size", int64_t(0));
  return double(w[0]) * double(x[0] * x[1]) * double(w[1]) *
         double(x[2] + hidden);
}

class UnitFinder {
public:
  explicit UnitFinder(const Graph &g)
      : g(g), taken(size_t(g.nodeCount()), false) {}

  std::vector<Unit> run() {
    for (int i = 0; i < g.nodeCount(); ++i)
      if (isProduct(g.node(i)))
        addProduct(i);
    // The others may end in elementwise nodes as well, after the products had
    // theirs.
    for (int i = 0; i < g.nodeCount(); ++i)
      if (!taken[i])
        addOther(i);
    std::sort(units.begin(), units.end(),
              [](const Unit &a, const Unit &b) { return a.root < b.root; });
    return std::move(units);
  }

private:
  void addProduct(int index) {
    const NodeProto &n = g.node(index);
    Unit u;
    u.kind = UnitKind::Mac;
    bool recurrent =
        n.op_type() == "LSTM" || n.op_type() == "GRU" || n.op_type() == "RNN";
    for (int k = 0; k < n.input_size(); ++k) {
      const std::string &v = n.input(k);
      if (v.empty() || !g.isFloat(v))
        continue;
      int last = recurrent ? 3 : 2;
      if (k == 2 && !recurrent) {
        if (g.tensor(v))
          u.bias = Use{index, k};
      } else if (k >= last) {
        continue; // states and biases of recurrent operators stay float
      } else if (!g.isConstant(v)) {
        u.activations.push_back({index, k});
      } else if (auto axis = weightAxis(index, k); axis && g.floats(v)) {
        u.weights.push_back({{index, k}, v, *axis});
      } else {
        return;
      }
    }
    if (u.activations.empty())
      return;
    u.macs =
        countMacs(g, index, [&](const std::string &v) { return g.shape(v); });
    add(std::move(u), index, n.output(0), !recurrent);
  }

  /// The axis of output channels; none for ranks the operator cannot have.
  std::optional<int64_t> weightAxis(int index, int input) const {
    const NodeProto &n = g.node(index);
    auto dims = g.shape(n.input(input));
    if (!dims || dims->empty())
      return std::nullopt;
    int64_t rank = int64_t(dims->size());
    if (n.op_type() == "Conv")
      return input == 1 ? std::optional<int64_t>(0) : std::nullopt;
    if (n.op_type() == "ConvTranspose") // with groups, one scale serves the
                                        // channel of each group
      return input == 1 ? std::optional<int64_t>(1) : std::nullopt;
    if (n.op_type() == "MatMul")
      return rank == 1 ? 0 : input == 1 ? rank - 1 : rank - 2;
    if (n.op_type() == "Gemm")
      return input == 1 ? (g.attribute(index, "transB", int64_t(0)) ? 0 : 1)
                        : (g.attribute(index, "transA", int64_t(0)) ? 1 : 0);
    return input == 0 ? std::nullopt : std::optional<int64_t>(1);
  }

  void addOther(int index) {
    const NodeProto &n = g.node(index);
    if (n.output_size() == 0 || !g.isFloat(n.output(0)) ||
        g.isConstant(n.output(0)))
      return;
    Unit u;
    if (isMove(n) && n.op_type() != "Dropout")
      u.kind = UnitKind::Move;
    else if (isOneOf(n, {"AveragePool", "GlobalAveragePool", "ReduceMean",
                         "Resize", "Pad", "GlobalMaxPool", "ReduceMax"}))
      u.kind = UnitKind::Pool;
    else if (isOneOf(n, {"Concat"}))
      u.kind = UnitKind::Concat;
    else if (isElementwise(n))
      u.kind = UnitKind::Join;
    else
      return;
    std::set<std::string> read;
    int most = u.kind == UnitKind::Move || u.kind == UnitKind::Pool
                   ? 1
                   : n.input_size();
    for (int k = 0; k < most; ++k)
      if (!n.input(k).empty() && g.isFloat(n.input(k)) &&
          !g.isConstant(n.input(k))) {
        u.activations.push_back({index, k});
        read.insert(n.input(k));
      }
    if (u.activations.empty())
      return;
    if (u.kind == UnitKind::Join && read.size() == 1) {
      // The longest closed chain over one value, from its first reader on.
      auto chain = closure(*read.begin(), index);
      if (chain.nodes.empty())
        chain = {{index}, n.output(0)};
      u.kind = UnitKind::Unary;
      u.activations.clear();
      for (int node : chain.nodes)
        for (int k = 0; k < g.node(node).input_size(); ++k)
          if (g.node(node).input(k) == *read.begin())
            u.activations.push_back({node, k});
      u.nodes = chain.nodes;
      finish(std::move(u), index, chain.output);
      return;
    }
    add(std::move(u), index, n.output(0), u.kind == UnitKind::Join);
  }

  struct Chain {
    std::vector<int> nodes;
    std::string output;
  };

  /// Whether all nodes that read a value are in `inside`, and nothing else
  /// does.
  bool isInner(const std::string &value, const std::set<int> &inside) const {
    if (g.isOutput(value) || g.isCaptured(value) || g.uses(value).empty())
      return false;
    return std::all_of(g.uses(value).begin(), g.uses(value).end(),
                       [&](const Use &u) { return inside.count(u.node) != 0; });
  }

  /// Elementwise nodes over `value` and constants with one result that leaves
  /// them: the smallest such set. `start` >= 0: other readers of `value` are
  /// allowed and `start` is in the set; else all readers must be inside.
  Chain closure(const std::string &value, int start) const {
    std::set<std::string> values = {value};
    std::set<int> inside;
    int first = start >= 0 ? start : INT32_MAX;
    if (start < 0)
      for (const Use &u : g.uses(value))
        first = std::min(first, u.node);
    for (int i = first;
         i < g.nodeCount() && inside.size() < 8 && i < first + 64; ++i) {
      const NodeProto &n = g.node(i);
      if (taken[i] || !isElementwise(n) || n.output_size() != 1 ||
          !g.isFloat(n.output(0)))
        continue;
      bool reads = false, all = true;
      for (auto &v : n.input())
        if (!v.empty()) {
          bool known = values.count(v) != 0;
          reads |= known;
          all &= known || g.isConstant(v);
        }
      if (!reads || !all)
        continue;
      inside.insert(i);
      values.insert(n.output(0));
      bool closed = start >= 0 || isInner(value, inside);
      for (auto &v : values)
        closed &= v == value || v == n.output(0) || isInner(v, inside);
      if (closed)
        return {{inside.begin(), inside.end()}, n.output(0)};
    }
    return {};
  }

  void add(Unit u, int root, const std::string &output, bool absorb) {
    u.nodes = {root};
    std::string value = output;
    taken[root] = true;
    while (absorb && !g.isOutput(value) && !g.isCaptured(value)) {
      Chain chain = closure(value, -1);
      if (chain.nodes.empty())
        break;
      for (int node : chain.nodes)
        taken[node] = true;
      u.nodes.insert(u.nodes.end(), chain.nodes.begin(), chain.nodes.end());
      value = chain.output;
    }
    finish(std::move(u), root, value);
  }

  void finish(Unit u, int root, const std::string &output) {
    u.root = root;
    u.output = output;
    u.name = g.nameOf(root);
    for (int node : u.nodes)
      taken[node] = true;
    units.push_back(std::move(u));
  }

  const Graph &g;
  std::vector<bool> taken;
  std::vector<Unit> units;
};

} // namespace

double countMacs(const Graph &g, int index, const ShapeOf &shapeOf) {
  const NodeProto &n = g.node(index);
  auto known = [](const std::optional<std::vector<int64_t>> &s) {
    return s &&
           std::all_of(s->begin(), s->end(), [](int64_t d) { return d >= 0; });
  };
  auto x = shapeOf(n.input(0)), w = shapeOf(n.input(1)),
       y = shapeOf(n.output_size() ? n.output(0) : "");
  if (!known(x) || !known(w))
    return 0;
  if (n.op_type() == "LSTM" || n.op_type() == "GRU" || n.op_type() == "RNN")
    return x->size() == 3 && w->size() == 3 ? recurrentMacs(g, index, *x, *w)
                                            : 0;
  if (n.op_type() == "ConvTranspose")
    return w->empty() ? 0
                      : double(elementsOf(*x)) * double(elementsOf(*w)) /
                            double((*w)[0]);
  if (!known(y))
    return 0;
  if (n.op_type() == "Conv")
    return w->empty() || !(*w)[0]
               ? 0
               : double(elementsOf(*y)) * double(elementsOf(*w)) /
                     double((*w)[0]);
  if (n.op_type() == "Gemm")
    return x->size() == 2
               ? double(elementsOf(*y)) *
                     double(
                         (*x)[g.attribute(index, "transA", int64_t(0)) ? 0 : 1])
               : 0;
  return x->empty() ? 0 : double(elementsOf(*y)) * double(x->back());
}

std::vector<Unit> findUnits(const Graph &graph) {
  return UnitFinder(graph).run();
}

} // namespace tessera::quantise

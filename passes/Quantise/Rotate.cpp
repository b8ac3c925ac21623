#include "passes/Quantise/Rotate.h"
#include "compiler/Import/Model.h"
#include "passes/Quantise/Splice.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace tessera::quantise {
namespace {

/// The product, or the part of one, that elementwise nodes alone made a value
/// from; empty if it is made of anything else or of two.
std::string originOf(const Graph &g, const std::string &value, int depth = 0) {
  int p = g.producer(value);
  if (p < 0 || depth > 16)
    return "";
  const NodeProto &n = g.node(p);
  if (isProduct(n))
    return value;
  if (n.op_type() == "Split" || n.op_type() == "Slice")
    return originOf(g, n.input(0), depth + 1).empty() ? "" : value;
  if (!isElementwise(n))
    return "";
  std::string origin;
  for (auto &v : n.input()) {
    if (v.empty() || g.isConstant(v))
      continue;
    std::string own = originOf(g, v, depth + 1);
    if (own.empty() || (!origin.empty() && own != origin))
      return "";
    origin = own;
  }
  return origin;
}

bool isGated(const Graph &g, const std::string &value) {
  int p = g.producer(value);
  if (p < 0 || g.node(p).op_type() != "Mul" || !g.node(p).domain().empty())
    return false;
  std::string a = originOf(g, g.node(p).input(0)),
              b = originOf(g, g.node(p).input(1));
  return !a.empty() && !b.empty() && a != b;
}

/// Rows of a Hadamard matrix, orthonormal and symmetric.
std::vector<float> hadamard(int64_t size) {
  std::vector<float> h(size_t(size * size));
  float norm = 1 / std::sqrt(float(size));
  for (int64_t i = 0; i < size; ++i)
    for (int64_t j = 0; j < size; ++j)
      h[i * size + j] = std::popcount(uint64_t(i & j)) % 2 ? -norm : norm;
  return h;
}

/// [k, n] weights with each block of rows multiplied by `h`.
FloatTensor rotatedRows(const FloatTensor &w, const std::vector<float> &h,
                        int64_t block) {
  FloatTensor out = {w.dims, std::vector<float>(w.values.size())};
  int64_t n = w.dims[1];
  for (int64_t r = 0; r < w.dims[0]; ++r) {
    int64_t from = r / block * block;
    for (int64_t c = 0; c < n; ++c) {
      double sum = 0;
      for (int64_t i = 0; i < block; ++i)
        sum += double(h[(r - from) * block + i]) * w.values[(from + i) * n + c];
      out.values[r * n + c] = float(sum);
    }
  }
  return out;
}

class Rotator {
public:
  Rotator(ModelProto &m, const Graph &g)
      : graph(*m.mutable_graph()), g(g), names(graph) {}

  std::optional<Rotation> rotate(const std::string &value) {
    std::vector<Use> uses;
    int64_t width = 0;
    for (const Use &use : g.uses(value)) {
      const NodeProto &n = g.node(use.node);
      auto w = n.op_type() == "MatMul" && n.domain().empty() && use.input == 0
                   ? g.floats(n.input(1))
                   : std::nullopt;
      if (!w || w->dims.size() != 2)
        continue;
      width = w->dims[0];
      uses.push_back(use);
    }
    auto shape = g.shape(value);
    // One panel of weights: a wider block gains little more.
    int64_t block = std::min<int64_t>(16, width & -width);
    if (uses.empty() || !shape || shape->size() < 2 || block < 4)
      return std::nullopt;
    Rotation r = {value, names.unique(value + "_rotated"), {}, block};
    std::vector<float> h = hadamard(block);
    addNodes(r, *shape, width, h);
    for (const Use &use : uses) {
      const std::string &name = g.node(use.node).input(1);
      std::string &weight = weights[{name, block}];
      if (weight.empty()) {
        FloatTensor w = rotatedRows(*g.floats(name), h, block);
        weight = names.unique(name + "_rotated");
        *graph.add_initializer() = makeFloats(weight, w.dims, w.values);
      }
      splice.reads[use] = r.rotated;
      splice.reads[{use.node, 1}] = weight;
    }
    return r;
  }

  void finish() {
    auto nodes = spliced(g, splice);
    graph.mutable_node()->Swap(&nodes);
  }

private:
  std::string shapeConstant(std::vector<int64_t> dims,
                            const std::string &stem) {
    std::string name = names.unique(stem);
    *graph.add_initializer() =
        makePacked(name, TensorProto::INT64, {int64_t(dims.size())}, dims);
    return name;
  }

  void addNodes(Rotation &r, const std::vector<int64_t> &shape, int64_t width,
                const std::vector<float> &h) {
    // Zeros take over the extents that are there.
    std::vector<int64_t> outer(shape.size() - 1, 0), blocks = outer;
    outer.push_back(width);
    blocks.insert(blocks.end(), {width / r.block, r.block});
    std::string split = names.unique(r.value + "_blocks"),
                turned = names.unique(r.value + "_turned"),
                matrix = names.unique(r.value + "_hadamard");
    *graph.add_initializer() = makeFloats(matrix, {r.block, r.block}, h);
    std::vector<NodeProto> &list = splice.after[r.value];
    list.push_back(makeNode(
        "Reshape", {r.value, shapeConstant(blocks, split + "_shape")}, split));
    list.push_back(makeNode("MatMul", {split, matrix}, turned));
    list.push_back(makeNode(
        "Reshape", {turned, shapeConstant(outer, r.rotated + "_shape")},
        r.rotated));
    for (const NodeProto &n : list)
      r.nodes.push_back(n.name());
  }

  GraphProto &graph;
  const Graph &g;
  onnx_import::NameSet names;
  Splice splice;
  std::map<std::pair<std::string, int64_t>, std::string> weights;
};

} // namespace

std::vector<Rotation> rotateGated(ModelProto &model,
                                  const std::set<std::string> &without) {
  Graph g(model);
  Rotator rotator(model, g);
  std::vector<Rotation> out;
  for (int i = 0; i < g.nodeCount(); ++i) {
    if (!g.node(i).output_size())
      continue;
    const std::string &v = g.node(i).output(0);
    if (!without.count(v) && isGated(g, v))
      if (auto r = rotator.rotate(v))
        out.push_back(*r);
  }
  if (!out.empty())
    rotator.finish();
  return out;
}

std::set<std::string> idleRotations(const std::vector<Rotation> &rotations,
                                    const Ranges &ranges) {
  auto errorOf = [&](const std::string &v) {
    auto it = ranges.find(v);
    if (it == ranges.end() || it->second.empty())
      return 0.0;
    const Histogram &h = it->second;
    return h.error(h.range(RangeMethod::Mse, 256, false), 256);
  };
  std::set<std::string> idle;
  for (const Rotation &r : rotations)
    if (!(errorOf(r.rotated) < 0.63 * errorOf(r.value)))
      idle.insert(r.value);
  return idle;
}

void separateRotations(const std::vector<Rotation> &rotations,
                       std::vector<Unit> &units) {
  for (Unit &u : units)
    for (const Rotation &r : rotations)
      if (u.kind == UnitKind::Mac &&
          std::find(r.nodes.begin(), r.nodes.end(), u.name) != r.nodes.end()) {
        u.quantised = false;
        u.reason = "rotates what a product reads";
      }
}

} // namespace tessera::quantise

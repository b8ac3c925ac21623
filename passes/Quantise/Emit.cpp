#include "passes/Quantise/Emit.h"
#include "compiler/Import/Model.h"
#include "passes/Quantise/Splice.h"

#include <algorithm>
#include <cstring>

namespace tessera::quantise {
namespace {

class Emitter {
public:
  Emitter(const Graph &g, const Decisions &d)
      : g(g), d(d), result{g.model()}, names(*result.model.mutable_graph()) {}

  EmitResult run() {
    for (const Unit &u : d.units)
      if (u.quantised)
        addUnit(u);
    auto nodes = spliced(g, splice);
    result.model.mutable_graph()->mutable_node()->Swap(&nodes);
    removeUnused(result.model);
    finishVersions();
    return std::move(result);
  }

private:
  GraphProto &graph() { return *result.model.mutable_graph(); }

  void addUnit(const Unit &u) {
    for (const Use &use : u.activations)
      splice.reads[use] = point({g.node(use.node).input(use.input), u.type});
    std::map<WeightUse, QuantisedWeights> weights =
        quantiseUnitWeights(g, u, d);
    for (auto &[use, q] : weights)
      splice.reads[use.use] = weight(use, q);
    if (u.bias)
      addBias(u, weights);
  }

  /// Q and DQ behind a value, once.
  std::string point(const PointKey &key) {
    if (auto it = points.find(key); it != points.end())
      return it->second;
    Params p = d.points.at(key);
    std::string scale = names.unique(key.value + "_scale"),
                zero = names.unique(key.value + "_zero_point");
    std::string integer = names.unique(key.value + "_quantized"),
                back = names.unique(key.value + "_dequantized");
    *graph().add_initializer() = makeFloats(scale, {}, {p.scale});
    if (key.type == TensorProto::UINT8)
      *graph().add_initializer() =
          makePacked(zero, key.type, {}, std::vector<uint8_t>{uint8_t(p.zero)});
    else if (key.type == TensorProto::INT16)
      *graph().add_initializer() =
          makePacked(zero, key.type, {}, std::vector<int16_t>{int16_t(p.zero)});
    else
      *graph().add_initializer() =
          makePacked(zero, key.type, {}, std::vector<int8_t>{int8_t(p.zero)});
    bool wide = key.type == TensorProto::INT16;
    splice.after[key.value].push_back(
        node("QuantizeLinear", {key.value, scale, zero}, integer, wide));
    splice.after[key.value].push_back(
        node("DequantizeLinear", {integer, scale, zero}, back, wide));
    return points[key] = back;
  }

  NodeProto node(const std::string &op, std::vector<std::string> inputs,
                 const std::string &output, bool wide) {
    NodeProto n = makeNode(op, inputs, output);
    if (wide && g.opset() < 21) {
      n.set_domain("com.microsoft");
      microsoft = true;
    }
    (op == "QuantizeLinear" ? result.quantizeNodes : result.dequantizeNodes)++;
    return n;
  }

  std::string weight(const WeightUse &use, const QuantisedWeights &q) {
    // Two units that share a weight share its integers where the scales are the
    // same.
    auto &seen = weights[{use.name, use.axis}];
    for (auto &[scales, name] : seen)
      if (scales == q.scales)
        return name;
    std::string integer = names.unique(use.name + "_quantized"),
                scale = names.unique(use.name + "_scale"),
                zero = names.unique(use.name + "_zero_point"),
                back = names.unique(use.name + "_dequantized");
    int64_t channels = int64_t(q.scales.size());
    *graph().add_initializer() =
        makePacked(integer, TensorProto::INT8, q.dims, q.values);
    *graph().add_initializer() = makeFloats(scale, {channels}, q.scales);
    *graph().add_initializer() =
        makePacked(zero, TensorProto::INT8, {channels},
                   std::vector<int8_t>(size_t(channels), 0));
    NodeProto n = node("DequantizeLinear", {integer, scale, zero}, back, false);
    addInt(n, "axis", use.axis);
    splice.before.push_back(n);
    seen.push_back({q.scales, back});
    return back;
  }

  void addBias(const Unit &u,
               const std::map<WeightUse, QuantisedWeights> &weights) {
    const NodeProto &n = g.node(u.root);
    auto bias = g.floats(n.input(u.bias->input));
    // Only the plain form: one activation, one weight, factors of one.
    bool plain =
        bias && bias->dims.size() == 1 && u.activations.size() == 1 &&
        weights.size() == 1 &&
        (n.op_type() != "Gemm" || (g.attribute(u.root, "alpha", 1.0f) == 1.0f &&
                                   g.attribute(u.root, "beta", 1.0f) == 1.0f));
    if (!plain)
      return;
    std::vector<float> scales = weights.begin()->second.scales;
    // The groups of a ConvTranspose share the scales along its weights' axis.
    size_t own = scales.size();
    if (n.op_type() == "ConvTranspose" && own)
      while (scales.size() < bias->values.size())
        scales.push_back(scales[scales.size() % own]);
    if (scales.size() != bias->values.size())
      return;
    bool shifted = false;
    if (auto it = d.biasShifts.find(int(&u - d.units.data()));
        it != d.biasShifts.end() && it->second.size() == scales.size())
      for (size_t c = 0; c < scales.size(); ++c) {
        bias->values[c] += it->second[c];
        shifted |= it->second[c] != 0;
      }
    float input =
        d.points
            .at({g.node(u.activations[0].node).input(u.activations[0].input),
                 u.type})
            .scale;
    for (float &s : scales)
      s *= input;
    auto integers = quantiseBias(bias->values, scales);
    const std::string &v = n.input(u.bias->input);
    if (!integers || *std::min_element(scales.begin(), scales.end()) < 1e-37f) {
      ++result.floatBiases;
      if (shifted) {
        std::string moved = names.unique(v + "_shifted");
        *graph().add_initializer() =
            makeFloats(moved, bias->dims, bias->values);
        splice.reads[*u.bias] = moved;
      }
      return;
    }
    std::string integer = names.unique(v + "_quantized"),
                scale = names.unique(v + "_scale"),
                zero = names.unique(v + "_zero_point"),
                back = names.unique(v + "_dequantized");
    int64_t channels = int64_t(scales.size());
    *graph().add_initializer() =
        makePacked(integer, TensorProto::INT32, {channels}, *integers);
    *graph().add_initializer() = makeFloats(scale, {channels}, scales);
    *graph().add_initializer() =
        makePacked(zero, TensorProto::INT32, {channels},
                   std::vector<int32_t>(size_t(channels), 0));
    NodeProto q = node("DequantizeLinear", {integer, scale, zero}, back, false);
    addInt(q, "axis", 0);
    splice.before.push_back(q);
    splice.reads[*u.bias] = back;
  }

  void finishVersions() {
    ModelProto &m = result.model;
    m.set_ir_version(
        std::max<int64_t>(m.ir_version(), g.opset() >= 21 ? 10 : 7));
    bool known = false;
    for (auto &import : m.opset_import())
      known |= import.domain() == "com.microsoft";
    if (microsoft && !known) {
      auto *import = m.add_opset_import();
      import->set_domain("com.microsoft");
      import->set_version(1);
    }
  }

  const Graph &g;
  const Decisions &d;
  EmitResult result;
  onnx_import::NameSet names;
  Splice splice;
  std::map<PointKey, std::string> points;
  std::map<std::pair<std::string, int64_t>,
           std::vector<std::pair<std::vector<float>, std::string>>>
      weights;
  bool microsoft = false;
};

} // namespace

void removeUnused(ModelProto &model) {
  GraphProto &graph = *model.mutable_graph();
  std::set<std::string> read, made;
  for (auto &o : graph.output())
    read.insert(o.name());
  for (auto &n : graph.node()) {
    std::vector<std::string> free;
    onnx_import::collectFreeNames(n, free);
    read.insert(free.begin(), free.end());
    read.insert(n.input().begin(), n.input().end());
  }
  google::protobuf::RepeatedPtrField<TensorProto> tensors;
  for (TensorProto &t : *graph.mutable_initializer())
    if (read.count(t.name()))
      tensors.Add()->Swap(&t);
  graph.mutable_initializer()->Swap(&tensors);
  google::protobuf::RepeatedPtrField<NodeProto> nodes;
  for (NodeProto &n : *graph.mutable_node())
    if (n.op_type() != "Constant" || read.count(n.output(0)))
      nodes.Add()->Swap(&n);
  graph.mutable_node()->Swap(&nodes);
  for (auto &n : graph.node())
    made.insert(n.output().begin(), n.output().end());
  google::protobuf::RepeatedPtrField<::onnx::ValueInfoProto> infos;
  for (auto &v : *graph.mutable_value_info())
    if (made.count(v.name()))
      infos.Add()->Swap(&v);
  graph.mutable_value_info()->Swap(&infos);
}

EmitResult emit(const Graph &graph, const Decisions &decisions) {
  return Emitter(graph, decisions).run();
}

} // namespace tessera::quantise

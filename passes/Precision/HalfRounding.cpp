#include "passes/Precision/HalfRounding.h"
#include "compiler/Import/Model.h"

namespace tessera {

namespace {

using quantise::NodeProto;
using quantise::TensorProto;

class Rounder {
public:
  Rounder(quantise::ModelProto &model, const quantise::Graph &graph,
          const std::set<std::string> &nodes)
      : model(model), graph(graph), nodes(nodes),
        names(*model.mutable_graph()) {}

  void run() {
    auto *graphProto = model.mutable_graph();
    for (const NodeProto &n : graphProto->node())
      if (nodes.count(onnx_import::locationName(n)))
        roundOne(n);
      else
        *out.Add() = n;
    graphProto->mutable_node()->Swap(&out);
  }

private:
  bool isFloat(const std::string &value) const {
    return !value.empty() && graph.isFloat(value);
  }

  /// Scales and regions say where elements lie; a device does not compute with
  /// them.
  static bool isData(const NodeProto &n, int input) {
    return input == 0 || (n.op_type() != "Resize" && n.op_type() != "Upsample");
  }

  void roundOne(const NodeProto &n) {
    NodeProto inner = n;
    for (int k = 0; k < n.input_size(); ++k)
      if (isData(n, k) && isFloat(n.input(k))) {
        auto [it, fresh] = read.try_emplace(n.input(k));
        if (fresh)
          it->second = cast(n.input(k), names.unique(n.input(k) + "_f16"));
        inner.set_input(k, it->second);
      }
    std::vector<std::pair<std::string, std::string>> written;
    for (int k = 0; k < n.output_size(); ++k)
      if (isFloat(n.output(k))) {
        written.push_back({names.unique(n.output(k) + "_f32"), n.output(k)});
        inner.set_output(k, written.back().first);
      }
    *out.Add() = inner;
    for (auto &[from, to] : written)
      cast(from, to);
  }

  /// There and back.
  std::string cast(const std::string &from, const std::string &to) {
    std::string half = names.unique(to + "_half");
    addCast(from, half, TensorProto::FLOAT16);
    addCast(half, to, TensorProto::FLOAT);
    return to;
  }

  void addCast(const std::string &from, const std::string &to, int32_t type) {
    NodeProto &n = *out.Add();
    n.set_op_type("Cast");
    n.set_name(to + "_Cast");
    n.add_input(from);
    n.add_output(to);
    auto &a = *n.add_attribute();
    a.set_name("to");
    a.set_type(quantise::AttributeProto::INT);
    a.set_i(type);
  }

  quantise::ModelProto &model;
  const quantise::Graph &graph;
  const std::set<std::string> &nodes;
  onnx_import::NameSet names;
  google::protobuf::RepeatedPtrField<NodeProto> out;
  std::map<std::string, std::string> read;
};

} // namespace

void roundToHalf(quantise::ModelProto &model, const quantise::Graph &graph,
                 const std::set<std::string> &nodes) {
  Rounder(model, graph, nodes).run();
}

void roundAllToHalf(quantise::ModelProto &model, const quantise::Graph &graph) {
  std::set<std::string> nodes;
  for (int n = 0; n < graph.nodeCount(); ++n)
    nodes.insert(graph.nameOf(n));
  roundToHalf(model, graph, nodes);
}

} // namespace tessera

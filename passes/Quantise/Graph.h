// The model as post-training quantisation sees it: the nodes of the main graph
// in topological order, who makes and who reads a value, and the constants.
//
// Quantisation works on the ONNX model itself, not on the dialect, so that what
// comes out is the model that went in with QuantizeLinear and DequantizeLinear
// in it. Bodies of If, Loop and Scan stay as they are: what they capture counts
// as read by the node that holds them.
#ifndef TESSERA_PASSES_QUANTISE_GRAPH_H
#define TESSERA_PASSES_QUANTISE_GRAPH_H

#include "onnx/onnx_pb.h"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

namespace tessera::quantise {

using ::onnx::AttributeProto;
using ::onnx::GraphProto;
using ::onnx::ModelProto;
using ::onnx::NodeProto;
using ::onnx::TensorProto;

/// The model, its data or the options are refused.
struct Refusal : std::runtime_error {
  Refusal(const std::string &message, std::vector<std::string> notes = {})
      : std::runtime_error(message), notes(std::move(notes)) {}
  std::vector<std::string> notes;
};

struct FloatTensor {
  std::vector<int64_t> dims;
  std::vector<float> values;
};

int64_t elementsOf(const std::vector<int64_t> &dims);
/// The elements of a FLOAT tensor.
FloatTensor readFloats(const TensorProto &tensor);
TensorProto makeFloats(const std::string &name,
                       const std::vector<int64_t> &dims,
                       const std::vector<float> &values);

/// One reading of a value: input `input` of node `node`.
struct Use {
  int node = 0;
  int input = 0;
  auto operator<=>(const Use &) const = default;
};

class Graph {
public:
  /// The model must be checked and sorted (loadOriginal).
  explicit Graph(const ModelProto &model);
  Graph(const Graph &) = delete;

  const ModelProto &model() const { return proto; }
  const GraphProto &graph() const { return proto.graph(); }
  int nodeCount() const { return graph().node_size(); }
  const NodeProto &node(int index) const { return graph().node(index); }
  /// "node name" or "Operator:output", as in all diagnostics.
  std::string nameOf(int index) const;

  /// Index of the node that makes a value, -1 for inputs and initialisers.
  int producer(const std::string &value) const;
  const std::vector<Use> &uses(const std::string &value) const;
  bool isOutput(const std::string &value) const {
    return outputs.count(value) != 0;
  }
  /// Whether a body reads the value.
  bool isCaptured(const std::string &value) const {
    return captured.count(value) != 0;
  }
  /// Whether the value is the same in every run.
  bool isConstant(const std::string &value) const {
    return fixed.count(value) != 0;
  }
  /// The tensor of an initialiser or Constant node; null for others.
  const TensorProto *tensor(const std::string &value) const;
  /// The elements of a constant of type FLOAT.
  std::optional<FloatTensor> floats(const std::string &value) const;
  /// Whether shape inference says that a value is a FLOAT tensor.
  bool isFloat(const std::string &value) const;
  /// Extents where known, -1 elsewhere; none if the rank is not known.
  std::optional<std::vector<int64_t>> shape(const std::string &value) const;
  /// Version of the default operator set.
  int64_t opset() const;

  int64_t attribute(int node, const char *name, int64_t otherwise) const;
  float attribute(int node, const char *name, float otherwise) const;
  std::vector<int64_t> list(int node, const char *name) const;

private:
  void findTypes();
  const AttributeProto *find(int node, const char *name) const;

  ModelProto proto;
  std::map<std::string, int> producers;
  std::map<std::string, std::vector<Use>> users;
  std::set<std::string> outputs, captured, fixed;
  std::map<std::string, const TensorProto *> tensors;
  std::map<std::string, int32_t> types;
  std::map<std::string, std::vector<int64_t>> shapes;
};

/// Version of the default operator set of a model.
int64_t opsetOf(const ModelProto &model);

} // namespace tessera::quantise
#endif

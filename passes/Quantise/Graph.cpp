#include "passes/Quantise/Graph.h"
#include "compiler/Import/Model.h"
#include "onnx/shape_inference/implementation.h"

#include <cstring>

namespace tessera::quantise {

int64_t elementsOf(const std::vector<int64_t> &dims) {
  int64_t count = 1;
  for (int64_t d : dims)
    count *= d;
  return count;
}

FloatTensor readFloats(const TensorProto &t) {
  FloatTensor out;
  out.dims.assign(t.dims().begin(), t.dims().end());
  out.values.resize(size_t(elementsOf(out.dims)));
  if (t.has_raw_data()) {
    if (t.raw_data().size() != out.values.size() * sizeof(float))
      throw Refusal("tensor '" + t.name() + "' has " +
                    std::to_string(t.raw_data().size()) +
                    " bytes, its shape needs " +
                    std::to_string(out.values.size() * sizeof(float)));
    std::memcpy(out.values.data(), t.raw_data().data(), t.raw_data().size());
  } else {
    for (size_t i = 0; i < out.values.size() && i < size_t(t.float_data_size());
         ++i)
      out.values[i] = t.float_data(int(i));
  }
  return out;
}

TensorProto makeFloats(const std::string &name,
                       const std::vector<int64_t> &dims,
                       const std::vector<float> &values) {
  TensorProto t;
  t.set_name(name);
  t.set_data_type(TensorProto::FLOAT);
  for (int64_t d : dims)
    t.add_dims(d);
  t.set_raw_data(values.data(), values.size() * sizeof(float));
  return t;
}

int64_t opsetOf(const ModelProto &model) {
  for (auto &import : model.opset_import())
    if (import.domain().empty() || import.domain() == "ai.onnx")
      return import.version();
  return 0;
}

Graph::Graph(const ModelProto &model) : proto(model) {
  std::set<std::string> inputs;
  for (auto &v : graph().input())
    inputs.insert(v.name());
  for (auto &v : graph().output())
    outputs.insert(v.name());
  for (auto &t : graph().initializer()) {
    tensors[t.name()] = &t;
    if (!inputs.count(t.name()))
      fixed.insert(t.name());
  }
  for (int i = 0; i < nodeCount(); ++i) {
    const NodeProto &n = node(i);
    bool constant = n.op_type().find("Random") == std::string::npos &&
                    n.op_type() != "Bernoulli";
    std::set<std::string> direct(n.input().begin(), n.input().end());
    std::vector<std::string> free;
    onnx_import::collectFreeNames(n, free);
    for (auto &name : free)
      if (!direct.count(name)) {
        captured.insert(name);
        constant &= fixed.count(name) != 0;
      }
    for (int k = 0; k < n.input_size(); ++k) {
      if (n.input(k).empty())
        continue;
      users[n.input(k)].push_back({i, k});
      constant &= fixed.count(n.input(k)) != 0;
    }
    for (auto &o : n.output()) {
      producers[o] = i;
      if (constant)
        fixed.insert(o);
    }
    if (n.op_type() == "Constant" && n.domain().empty() &&
        n.attribute_size() == 1 && n.attribute(0).has_t())
      tensors[n.output(0)] = &n.attribute(0).t();
  }
  findTypes();
}

void Graph::findTypes() {
  ModelProto copy = proto;
  try {
    ::onnx::ShapeInferenceOptions options(
        /*check_type=*/false, /*strict_mode=*/0, /*data_prop=*/true);
    ::onnx::shape_inference::InferShapes(
        copy, ::onnx::OpSchemaRegistry::Instance(), options);
  } catch (const std::exception &) {
    // What could not be inferred is not quantised.
  }
  auto note = [&](const ::onnx::ValueInfoProto &v) {
    if (!v.type().has_tensor_type())
      return;
    types[v.name()] = v.type().tensor_type().elem_type();
    if (!v.type().tensor_type().has_shape())
      return;
    std::vector<int64_t> dims;
    for (auto &d : v.type().tensor_type().shape().dim())
      dims.push_back(d.has_dim_value() ? d.dim_value() : -1);
    shapes[v.name()] = dims;
  };
  for (auto &v : copy.graph().value_info())
    note(v);
  for (auto &v : copy.graph().input())
    note(v);
  for (auto &v : copy.graph().output())
    note(v);
  for (auto &[name, t] : tensors) {
    types[name] = t->data_type();
    shapes[name].assign(t->dims().begin(), t->dims().end());
  }
}

std::string Graph::nameOf(int index) const {
  return onnx_import::locationName(node(index));
}

int Graph::producer(const std::string &value) const {
  auto it = producers.find(value);
  return it == producers.end() ? -1 : it->second;
}

const std::vector<Use> &Graph::uses(const std::string &value) const {
  static const std::vector<Use> none;
  auto it = users.find(value);
  return it == users.end() ? none : it->second;
}

const TensorProto *Graph::tensor(const std::string &value) const {
  auto it = tensors.find(value);
  return it == tensors.end() || !isConstant(value) ? nullptr : it->second;
}

std::optional<FloatTensor> Graph::floats(const std::string &value) const {
  const TensorProto *t = tensor(value);
  if (!t || t->data_type() != TensorProto::FLOAT)
    return std::nullopt;
  return readFloats(*t);
}

bool Graph::isFloat(const std::string &value) const {
  auto it = types.find(value);
  return it != types.end() && it->second == TensorProto::FLOAT;
}

std::optional<std::vector<int64_t>>
Graph::shape(const std::string &value) const {
  auto it = shapes.find(value);
  if (it == shapes.end())
    return std::nullopt;
  return it->second;
}

int64_t Graph::opset() const { return opsetOf(proto); }

const AttributeProto *Graph::find(int index, const char *name) const {
  for (auto &a : node(index).attribute())
    if (a.name() == name)
      return &a;
  return nullptr;
}

int64_t Graph::attribute(int index, const char *name, int64_t otherwise) const {
  const AttributeProto *a = find(index, name);
  return a ? a->i() : otherwise;
}

float Graph::attribute(int index, const char *name, float otherwise) const {
  const AttributeProto *a = find(index, name);
  return a ? a->f() : otherwise;
}

std::vector<int64_t> Graph::list(int index, const char *name) const {
  const AttributeProto *a = find(index, name);
  return a ? std::vector<int64_t>(a->ints().begin(), a->ints().end())
           : std::vector<int64_t>();
}

} // namespace tessera::quantise

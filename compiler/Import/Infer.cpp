// Types of all values, by ONNX's strict inference with data propagation. What
// the model says about values in between is not taken on trust: only results of
// operators that we know nothing of keep their declared type.
#include "compiler/Import/Model.h"
#include "onnx/defs/schema.h"
#include "onnx/shape_inference/implementation.h"

#include <unordered_map>
#include <unordered_set>

namespace tessera::onnx_import {

namespace {

std::string dimText(const ::onnx::TensorShapeProto::Dimension &dim) {
  return dim.has_dim_value()       ? std::to_string(dim.dim_value())
         : !dim.dim_param().empty() ? dim.dim_param()
                                    : "?";
}

std::string shapeText(const TypeProto &type) {
  if (!type.tensor_type().has_shape())
    return "any shape";
  std::string text;
  for (auto &dim : type.tensor_type().shape().dim())
    text += (text.empty() ? "" : ",") + dimText(dim);
  return "[" + text + "]";
}

bool contradict(const TypeProto &a, const TypeProto &b) {
  if (!a.tensor_type().has_shape() || !b.tensor_type().has_shape())
    return false;
  auto &x = a.tensor_type().shape(), &y = b.tensor_type().shape();
  if (x.dim_size() != y.dim_size())
    return true;
  for (int i = 0; i < x.dim_size(); ++i)
    if (x.dim(i).has_dim_value() && y.dim(i).has_dim_value() &&
        x.dim(i).dim_value() != y.dim(i).dim_value())
      return true;
  return false;
}

// "(op_type:Add, node name: a): [ShapeInferenceError] Incompatible dimensions"
[[noreturn]] void rethrow(llvm::StringRef text) {
  text.consume_front("[ShapeInferenceError] ");
  text.consume_front("Inference error(s): ");
  ImportError error("");
  llvm::SmallVector<llvm::StringRef> lines;
  text.split(lines, '\n', -1, /*KeepEmpty=*/false);
  std::vector<std::string> messages;
  for (llvm::StringRef line : lines) {
    std::string node;
    if (line.consume_front("(op_type:")) {
      auto [op, rest] = line.split(", node name: ");
      auto [name, message] = rest.split("): ");
      for (llvm::StringRef kind : {"[ShapeInferenceError] ", "[TypeInferenceError] "})
        message.consume_front(kind);
      node = name.str();
      messages.push_back("node '" + node + "' (" + op.str() + "): " + message.str());
    } else {
      messages.push_back(line.str());
    }
    if (error.node.empty())
      error.node = node;
  }
  ImportError result(messages.empty() ? "shape inference failed" : messages[0], error.node);
  for (size_t i = 1; i < messages.size() && i < 6; ++i)
    result.notes.push_back(messages[i]);
  throw result;
}

void prepareValueInfo(Model &model, GraphProto &g) {
  std::unordered_map<std::string, const ValueInfoProto *> declared;
  for (auto &v : g.value_info())
    declared.emplace(v.name(), &v);
  google::protobuf::RepeatedPtrField<ValueInfoProto> kept;
  for (auto &v : g.output())
    declared.emplace(v.name(), &v);
  for (auto &node : g.node()) {
    if (newestVersion(node.domain()))
      continue;
    for (auto &output : node.output()) {
      auto it = declared.find(output);
      bool isOutput = false;
      for (auto &v : g.output())
        isOutput |= v.name() == output && v.has_type();
      if (it != declared.end() && it->second->has_type() && !isOutput) {
        *kept.Add() = *it->second;
      } else if (!isOutput && !output.empty()) {
        model.warnings.push_back(describe(node) + ": nothing is known of this operator; result '" +
                                 output + "' is taken for float of unknown shape");
        ValueInfoProto &v = *kept.Add();
        v.set_name(output);
        v.mutable_type()->mutable_tensor_type()->set_elem_type(TensorProto::FLOAT);
      }
    }
  }
  g.mutable_value_info()->Swap(&kept);
}

// Declared shapes of what known operators compute.
void clearResultShapes(GraphProto &g) {
  std::unordered_set<std::string> computed;
  for (auto &node : g.node())
    if (newestVersion(node.domain()))
      computed.insert(node.output().begin(), node.output().end());
  for (ValueInfoProto &v : *g.mutable_output())
    if (v.type().has_tensor_type() && computed.contains(v.name()))
      v.mutable_type()->mutable_tensor_type()->clear_shape();
}

// Some operators do not look into their bodies; these see nothing from outside.
void inferDetachedBodies(Model &model) {
  std::unordered_map<std::string, int> opsets;
  for (auto &import : model.proto.opset_import())
    opsets[import.domain()] = (int)import.version();
  forEachGraph(*model.proto.mutable_graph(), [&](GraphProto &outer) {
    for (NodeProto &node : *outer.mutable_node())
      for (AttributeProto &a : *node.mutable_attribute()) {
        if (!a.has_g() || node.domain() != "ai.onnx.preview")
          continue;
        try {
          ::onnx::shape_inference::InferShapes(
              a.mutable_g(), opsets, ::onnx::OpSchemaRegistry::Instance(),
              ::onnx::ShapeInferenceOptions(/*check_type=*/true, /*strict=*/1));
        } catch (const std::exception &e) {
          rethrow(e.what());
        }
      }
  });
}

} // namespace

void inferTypes(Model &model) {
  GraphProto &graph = *model.proto.mutable_graph();
  forEachGraph(graph, [&](GraphProto &g) { prepareValueInfo(model, g); });
  // Declared result shapes are compared afterwards, for a message of our own.
  std::vector<TypeProto> declared;
  for (ValueInfoProto &v : *graph.mutable_output())
    declared.push_back(v.type());
  forEachGraph(graph, clearResultShapes);
  try {
    ::onnx::shape_inference::DataValueMap values;
    ::onnx::shape_inference::InferShapes(
        model.proto, ::onnx::OpSchemaRegistry::Instance(),
        ::onnx::ShapeInferenceOptions(/*check_type=*/true, /*strict=*/1, /*data_prop=*/true),
        &values);
  } catch (const std::exception &e) {
    rethrow(e.what());
  }
  inferDetachedBodies(model);
  for (auto [i, v] : llvm::enumerate(graph.output())) {
    if (!contradict(v.type(), declared[i]))
      continue;
    // Writers get this wrong, and nothing depends on it.
    model.warnings.push_back("output '" + v.name() + "': the model declares " +
                             shapeText(declared[i]) + ", its operators give " +
                             shapeText(v.type()));
  }
}

} // namespace tessera::onnx_import

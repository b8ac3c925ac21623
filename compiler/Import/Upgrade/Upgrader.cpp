#include "compiler/Import/Upgrade/Upgrader.h"
#include "compiler/Import/Preconditions.h"
#include "onnx/defs/schema.h"
#include "onnx/shape_inference/implementation.h"
#include "llvm/ADT/APFloat.h"

#include <cmath>
#include <cstring>

namespace tessera::onnx_import {

using T = TensorProto;

AttributeProto *findAttribute(NodeProto &node, const std::string &name) {
  for (AttributeProto &a : *node.mutable_attribute())
    if (a.name() == name)
      return &a;
  return nullptr;
}

int64_t intAttribute(NodeProto &node, const std::string &name,
                     int64_t fallback) {
  AttributeProto *a = findAttribute(node, name);
  return a ? a->i() : fallback;
}

std::string stringAttribute(NodeProto &node, const std::string &name,
                            const std::string &fallback) {
  AttributeProto *a = findAttribute(node, name);
  return a ? a->s() : fallback;
}

void removeAttribute(NodeProto &node, const std::string &name) {
  auto &list = *node.mutable_attribute();
  for (int i = 0; i < list.size(); ++i)
    if (list[i].name() == name) {
      list.DeleteSubrange(i, 1);
      return;
    }
}

static AttributeProto &newAttribute(NodeProto &node, const std::string &name,
                                    AttributeProto::AttributeType type) {
  removeAttribute(node, name);
  AttributeProto &a = *node.add_attribute();
  a.set_name(name);
  a.set_type(type);
  return a;
}

void setAttribute(NodeProto &node, const std::string &name, int64_t value) {
  newAttribute(node, name, AttributeProto::INT).set_i(value);
}

void setAttribute(NodeProto &node, const std::string &name, float value) {
  newAttribute(node, name, AttributeProto::FLOAT).set_f(value);
}

void setAttribute(NodeProto &node, const std::string &name,
                  const std::string &value) {
  newAttribute(node, name, AttributeProto::STRING).set_s(value);
}

void setInput(NodeProto &node, int index, const std::string &name) {
  while (node.input_size() <= index)
    node.add_input("");
  node.set_input(index, name);
}

T intTensor(const std::vector<int64_t> &values, bool scalar) {
  T t;
  t.set_data_type(T::INT64);
  if (!scalar)
    t.add_dims(values.size());
  for (int64_t v : values)
    t.add_int64_data(v);
  return t;
}

//===----------------------------------------------------------------------===//
// The run
//===----------------------------------------------------------------------===//

Upgrader::Upgrader(Model &model)
    : model(model), names(*model.proto.mutable_graph()) {}

void Upgrader::run() {
  GraphProto &graph = *model.proto.mutable_graph();
  collectUses(graph);
  forEachGraph(graph, [&](GraphProto &g) {
    for (auto &node : g.node())
      typed |= needsTypes(node);
  });
  if (typed)
    inferOldTypes();
  upgrade(graph);
  // Inference knows the deprecated tree operators up to version 4 only.
  bool newTrees = false;
  forEachGraph(graph, [&](GraphProto &g) {
    for (auto &node : g.node())
      newTrees |=
          node.domain() == "ai.onnx.ml" && node.op_type() == "TreeEnsemble";
  });
  for (auto &import : *model.proto.mutable_opset_import()) {
    int64_t newest = import.domain() == "ai.onnx.ml" && !newTrees
                         ? 4
                         : newestVersion(import.domain());
    if (newest)
      import.set_version(newest);
  }
  addImports(graph);
}

bool Upgrader::needsTypes(const NodeProto &node) const {
  const std::string &op = node.op_type();
  int64_t version = nodeVersion(model, node);
  if (!node.domain().empty())
    return node.domain() == "ai.onnx.ml" && op == "LabelEncoder" && version < 2;
  if (op == "Softmax" || op == "LogSoftmax" || op == "Hardmax")
    return version < 13;
  if (op == "Clip" || op == "Pad" || op == "OneHot")
    return version < 11;
  if (op == "Max" || op == "Min" || op == "Sum" || op == "Mean")
    return version < 8;
  if (op == "BatchNormalization")
    return version < 9;
  return version < 7 || (op == "GroupNormalization" && version < 21);
}

// Inlined functions may use domains that the model itself does not import.
void Upgrader::addImports(GraphProto &graph) {
  std::unordered_set<std::string> domains;
  for (auto &import : model.proto.opset_import())
    domains.insert(import.domain());
  forEachGraph(graph, [&](GraphProto &g) {
    for (auto &node : g.node())
      if (domains.insert(node.domain()).second) {
        auto *import = model.proto.add_opset_import();
        import->set_domain(node.domain());
        int64_t newest = newestVersion(node.domain());
        import->set_version(
            newest ? newest : std::max<int64_t>(1, nodeVersion(model, node)));
      }
  });
}

void Upgrader::noteConstant(const std::string &name, const T &value) {
  constants[name] = {value.dims().begin(), value.dims().end()};
  constexpr int64_t kSmall = 64;
  int64_t count = 1;
  for (int64_t d : value.dims())
    count = d < 0 || d > kSmall ? kSmall + 1 : count * d;
  if (count <= kSmall)
    smallConstants[name] = value;
}

void Upgrader::collectUses(GraphProto &graph) {
  forEachGraph(graph, [&](GraphProto &g) {
    for (auto &node : g.node())
      for (auto &input : node.input())
        used.insert(input);
    for (auto &v : g.output())
      used.insert(v.name());
    for (auto &t : g.initializer())
      noteConstant(t.name(), t);
    for (auto &node : g.node())
      if (node.op_type() == "Constant" && node.domain().empty() &&
          node.output_size())
        for (auto &a : node.attribute())
          if (a.has_t())
            noteConstant(node.output(0), a.t());
  });
}

// Types as far as lenient inference on a copy finds them. Values of equal name
// in different bodies must agree to count.
void Upgrader::inferOldTypes() {
  ModelProto copy = model.proto;
  try {
    CheckedSchemas schemas;
    ::onnx::shape_inference::InferShapes(
        copy, &schemas, ::onnx::ShapeInferenceOptions(false, 0, true));
  } catch (const std::exception &) {
  }
  auto note = [&](const std::string &name, const TypeProto &type) {
    auto [it, fresh] = types.try_emplace(name, type);
    if (!fresh && it->second.SerializeAsString() != type.SerializeAsString())
      it->second.Clear();
  };
  forEachGraph(*copy.mutable_graph(), [&](GraphProto &g) {
    for (auto *list : {&g.input(), &g.value_info(), &g.output()})
      for (auto &v : *list)
        note(v.name(), v.type());
    for (auto &t : g.initializer()) {
      TypeProto type;
      type.mutable_tensor_type()->set_elem_type(t.data_type());
      type.mutable_tensor_type()->mutable_shape();
      for (int64_t d : t.dims())
        type.mutable_tensor_type()->mutable_shape()->add_dim()->set_dim_value(
            d);
      note(t.name(), type);
    }
  });
}

// Many of the first versions have no inference, but their successors do. A
// value is defined before it is used, so what is said last about a name is what
// counts.
void Upgrader::infer(NodeProto &node) {
  const ::onnx::OpSchema *schema =
      newestVersion(node.domain()) ? newestSchema(node) : nullptr;
  if (schema)
    schema = CheckedSchemas().GetSchema(node.op_type(), schema->since_version(),
                                        node.domain());
  if (!schema || !schema->has_type_and_shape_inference_function())
    return;
  std::unordered_map<std::string, TypeProto *> inputs;
  std::unordered_map<std::string, const T *> values;
  for (const std::string &input : node.input()) {
    if (auto it = types.find(input);
        it != types.end() && it->second.value_case())
      inputs[input] = &it->second;
    if (auto it = smallConstants.find(input); it != smallConstants.end())
      values[input] = &it->second;
  }
  for (auto &a : node.attribute())
    if (a.has_g()) // its body needs all that is around it
      return;
  try {
    ::onnx::ShapeInferenceOptions options(false, 0, false);
    ::onnx::shape_inference::InferenceContextImpl context(node, inputs, values,
                                                          {}, options);
    schema->GetTypeAndShapeInferenceFunction()(context);
    for (int i = 0; i < node.output_size(); ++i) {
      if (node.output(i).empty())
        continue;
      const TypeProto *type = context.getOutputType(i);
      TypeProto &known = types[node.output(i)];
      if (type->tensor_type().has_shape() || !known.tensor_type().has_shape())
        known = *type;
    }
  } catch (const std::exception &) {
  }
}

// Absent outputs at the end go, but where their number counts (the parts of a
// Split, what a body gives) they get a name that nobody uses.
void Upgrader::trimOutputs(NodeProto &node) {
  const ::onnx::OpSchema *schema =
      newestVersion(node.domain()) ? newestSchema(node) : nullptr;
  if (schema && !schema->outputs().empty() &&
      schema->outputs().back().GetOption() == ::onnx::OpSchema::Variadic) {
    for (std::string &output : *node.mutable_output())
      if (output.empty())
        output = names.unique(locationName(node) + "/unused");
    return;
  }
  while (node.output_size() && node.output(node.output_size() - 1).empty())
    node.mutable_output()->RemoveLast();
}

// Inference runs on what the schema has checked.
void Upgrader::finish(NodeProto &node) {
  node.clear_metadata_props();
  verify(node);
  fillDefaults(node);
  if (typed)
    infer(node);
}

/// The adapters count on what the node's own version demands; the checker takes
/// an empty name for an input.
void Upgrader::checkCounts(const NodeProto &node) const {
  const ::onnx::OpSchema *schema = ::onnx::OpSchemaRegistry::Schema(
      node.op_type(), int(nodeVersion(model, node)), node.domain());
  if (schema && node.input_size() < schema->min_input())
    fail(node, std::to_string(node.input_size()) + " inputs, at least " +
                   std::to_string(schema->min_input()) + " are needed");
  if (schema && node.output_size() < schema->min_output())
    fail(node, std::to_string(node.output_size()) + " outputs, at least " +
                   std::to_string(schema->min_output()) + " are needed");
}

void Upgrader::upgrade(GraphProto &graph) {
  NodeList before;
  before.Swap(graph.mutable_node());
  NodeList *outer = out;
  out = graph.mutable_node();
  int finished = 0;
  for (NodeProto &node : before) {
    for (AttributeProto &a : *node.mutable_attribute()) {
      if (a.has_g())
        upgrade(*a.mutable_g());
      for (GraphProto &g : *a.mutable_graphs())
        upgrade(g);
    }
    trimOutputs(node);
    while (node.input_size() && node.input(node.input_size() - 1).empty())
      node.mutable_input()->RemoveLast();
    checkCounts(node);
    if (!adapt(node))
      append(node);
    for (; finished < out->size(); ++finished)
      finish(*out->Mutable(finished));
  }
  out = outer;
}

bool Upgrader::adapt(NodeProto &node) {
  int64_t version = nodeVersion(model, node);
  if (node.domain() == "ai.onnx.ml")
    return upgradeMl(*this, node, version);
  if (!node.domain().empty() || version < 1)
    return false;
  if (version < 6) // where the result may go, as if in place
    removeAttribute(node, "consumed_inputs");
  return upgradeElementwise(*this, node, version) ||
         upgradeNeural(*this, node, version) ||
         upgradeMovement(*this, node, version) ||
         upgradeIndexing(*this, node, version) ||
         upgradeControlFlow(*this, node, version);
}

void Upgrader::verify(const NodeProto &node) const {
  if (!newestVersion(node.domain()))
    return;
  const ::onnx::OpSchema *schema = newestSchema(node);
  if (!schema)
    fail(node, "the operator has no version in the newest operator set");
  try {
    schema->Verify(node);
  } catch (const std::exception &e) {
    llvm::StringRef text = e.what();
    fail(node, text.split("\n\n==> Context").first.trim().str());
  }
}

// Inference through the body of a schema function does not know its defaults.
void Upgrader::fillDefaults(NodeProto &node) const {
  const ::onnx::OpSchema *schema =
      newestVersion(node.domain()) ? newestSchema(node) : nullptr;
  if (!schema || !schema->HasFunction() ||
      schema->has_type_and_shape_inference_function())
    return;
  for (auto &[name, a] : schema->attributes())
    if (a.default_value.type() != AttributeProto::UNDEFINED &&
        !findAttribute(node, name)) {
      AttributeProto &added = *node.add_attribute();
      added = a.default_value;
      added.set_name(name);
    }
}

//===----------------------------------------------------------------------===//
// What adapters ask and append
//===----------------------------------------------------------------------===//

const ::onnx::TensorShapeProto *
Upgrader::shapeOf(const std::string &value) const {
  auto it = types.find(value);
  if (it == types.end() || !it->second.tensor_type().has_shape())
    return nullptr;
  return &it->second.tensor_type().shape();
}

int Upgrader::elementTypeOf(const std::string &value) const {
  auto it = types.find(value);
  return it == types.end() ? T::UNDEFINED
                           : it->second.tensor_type().elem_type();
}

const std::vector<int64_t> *
Upgrader::constantDims(const std::string &value) const {
  auto it = constants.find(value);
  return it == constants.end() ? nullptr : &it->second;
}

std::optional<double> Upgrader::constantNumber(const std::string &value) const {
  auto it = smallConstants.find(value);
  if (it == smallConstants.end() || elementCount(it->second, value) != 1)
    return std::nullopt;
  std::vector<char> storage;
  std::shared_ptr<const void> owner;
  llvm::ArrayRef<char> bytes = tensorBytes(model, it->second, storage, owner);
  auto read = [&](auto number) -> std::optional<double> {
    if (bytes.size() != sizeof(number))
      return std::nullopt;
    std::memcpy(&number, bytes.data(), sizeof(number));
    constexpr double kMost = 1e15; // beyond it, and for NaN, no count or axis
    double value = (double)number;
    return std::abs(value) < kMost ? std::optional(value) : std::nullopt;
  };
  switch (it->second.data_type()) {
  case T::FLOAT:
    return read(float());
  case T::DOUBLE:
    return read(double());
  case T::INT32:
    return read(int32_t());
  case T::INT64:
    return read(int64_t());
  default:
    return std::nullopt;
  }
}

std::string Upgrader::constant(const NodeProto &node, const std::string &what,
                               const T &value) {
  NodeProto &c = *out->Add();
  c.set_op_type("Constant");
  c.set_name(locationName(node) + "/" + what);
  AttributeProto *a = c.add_attribute();
  a->set_name("value");
  a->set_type(AttributeProto::TENSOR);
  *a->mutable_t() = value;
  *c.add_output() = names.unique(c.name());
  noteConstant(c.output(0), value);
  return c.output(0);
}

NodeProto &Upgrader::insert(const NodeProto &node, const std::string &op,
                            const std::string &what,
                            const std::vector<std::string> &inputs) {
  NodeProto &n = *out->Add();
  n.set_op_type(op);
  n.set_name(locationName(node) + "/" + what);
  for (auto &input : inputs)
    n.add_input(input);
  n.add_output(names.unique(n.name()));
  return n;
}

std::string Upgrader::scalarLike(const NodeProto &node, const std::string &what,
                                 float value, const std::string &like) {
  T t;
  int type = elementTypeOf(like);
  t.set_data_type(type);
  auto half = [&](const llvm::fltSemantics &semantics) {
    llvm::APFloat number(value);
    bool lossy;
    number.convert(semantics, llvm::APFloat::rmNearestTiesToEven, &lossy);
    t.add_int32_data((int32_t)number.bitcastToAPInt().getZExtValue());
  };
  switch (type) {
  case T::FLOAT:
    t.add_float_data(value);
    break;
  case T::DOUBLE:
    t.add_double_data(value);
    break;
  case T::FLOAT16:
    half(llvm::APFloat::IEEEhalf());
    break;
  case T::BFLOAT16:
    half(llvm::APFloat::BFloat());
    break;
  default:
    t.set_data_type(T::FLOAT);
    t.add_float_data(value);
    return insert(node, "CastLike", what + "_cast",
                  {constant(node, what, t), like})
        .output(0);
  }
  return constant(node, what, t);
}

void Upgrader::append(NodeProto &node) { out->Add()->Swap(&node); }

void Upgrader::intsToInput(NodeProto &node, const std::string &name,
                           int index) {
  AttributeProto *a = findAttribute(node, name);
  if (!a)
    return;
  std::vector<int64_t> values(a->ints().begin(), a->ints().end());
  removeAttribute(node, name);
  setInput(node, index, constant(node, name, intTensor(values)));
}

//===----------------------------------------------------------------------===//
// Versions
//===----------------------------------------------------------------------===//

int64_t newestVersion(const std::string &domain) {
  const auto &map =
      ::onnx::OpSchemaRegistry::DomainToVersionRange::Instance().Map();
  auto it = map.find(domain);
  return it == map.end() ? 0 : it->second.second;
}

const ::onnx::OpSchema *newestSchema(const NodeProto &node) {
  int64_t version = newestVersion(node.domain());
  const ::onnx::OpSchema *schema =
      ::onnx::OpSchemaRegistry::Schema(node.op_type(), version, node.domain());
  // ai.onnx.ml deprecated its tree operators in favour of one that few write.
  if (schema && schema->Deprecated() && node.domain() == "ai.onnx.ml")
    schema = ::onnx::OpSchemaRegistry::Schema(
        node.op_type(), schema->since_version() - 1, node.domain());
  return schema && !schema->Deprecated() ? schema : nullptr;
}

void upgradeModel(Model &model) { Upgrader(model).run(); }

} // namespace tessera::onnx_import

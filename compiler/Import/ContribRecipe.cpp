// What recipes are written with: reading the node, writing the body.
#include "compiler/Import/Contrib.h"

#include <cstring>

namespace tessera::onnx_import {

static AttributeProto attribute(const char *name,
                                AttributeProto::AttributeType type) {
  AttributeProto a;
  a.set_name(name);
  a.set_type(type);
  return a;
}

AttributeProto I(const char *name, int64_t value) {
  AttributeProto a = attribute(name, AttributeProto::INT);
  a.set_i(value);
  return a;
}
AttributeProto F(const char *name, float value) {
  AttributeProto a = attribute(name, AttributeProto::FLOAT);
  a.set_f(value);
  return a;
}
AttributeProto S(const char *name, const std::string &value) {
  AttributeProto a = attribute(name, AttributeProto::STRING);
  a.set_s(value);
  return a;
}
AttributeProto L(const char *name, const std::vector<int64_t> &values) {
  AttributeProto a = attribute(name, AttributeProto::INTS);
  for (int64_t v : values)
    a.add_ints(v);
  return a;
}

//===----------------------------------------------------------------------===//
// Reading the node
//===----------------------------------------------------------------------===//

Val Recipe::need(int i) const {
  if (!has(i))
    throw Unsupported{"the absence of input " + std::to_string(i)};
  return in(i);
}
void Recipe::refuseInput(int i, const char *name) const {
  if (has(i))
    throw Unsupported{"input '" + std::string(name) + "'"};
}
void Recipe::refuseOutput(int i, const char *name) const {
  if (wants(i))
    throw Unsupported{"output '" + std::string(name) + "'"};
}

const AttributeProto *Recipe::find(const std::string &name,
                                   AttributeProto::AttributeType type) const {
  auto it = call.attributes.find(name);
  if (it == call.attributes.end())
    return nullptr;
  if (it->second.type() == type)
    return &it->second;
  std::string why = "attribute '" + name + "' is of type " +
                    AttributeProto::AttributeType_Name(it->second.type()) +
                    ", expected " + AttributeProto::AttributeType_Name(type);
  if (call.node)
    fail(*call.node, why);
  throw Unsupported{why};
}
int64_t Recipe::integer(const std::string &name, int64_t fallback) const {
  const AttributeProto *a = find(name, AttributeProto::INT);
  return a ? a->i() : fallback;
}
float Recipe::number(const std::string &name, float fallback) const {
  const AttributeProto *a = find(name, AttributeProto::FLOAT);
  return a ? a->f() : fallback;
}
std::string Recipe::word(const std::string &name,
                         const std::string &fallback) const {
  const AttributeProto *a = find(name, AttributeProto::STRING);
  return a ? a->s() : fallback;
}
std::vector<int64_t> Recipe::integers(const std::string &name) const {
  const AttributeProto *a = find(name, AttributeProto::INTS);
  return a ? std::vector<int64_t>(a->ints().begin(), a->ints().end())
           : std::vector<int64_t>();
}
std::vector<float> Recipe::numbers(const std::string &name) const {
  const AttributeProto *a = find(name, AttributeProto::FLOATS);
  return a ? std::vector<float>(a->floats().begin(), a->floats().end())
           : std::vector<float>();
}
int64_t Recipe::positive(const std::string &name) const {
  int64_t v = integer(name, 0);
  if (v <= 0 || v > (int64_t(1) << 31))
    throw Unsupported{"attribute '" + name + "' of " + std::to_string(v)};
  return v;
}
void Recipe::onlyValue(const std::string &name, int64_t allowed) const {
  if (int64_t value = integer(name, allowed); value != allowed)
    throw Unsupported{"attribute '" + name + "' of " + std::to_string(value)};
}
std::vector<AttributeProto>
Recipe::copy(std::initializer_list<const char *> names) const {
  static const std::map<llvm::StringRef, AttributeProto::AttributeType> kinds =
      {{"activation_alpha", AttributeProto::FLOATS},
       {"activation_beta", AttributeProto::FLOATS},
       {"activations", AttributeProto::STRINGS},
       {"alpha", AttributeProto::FLOAT},
       {"auto_pad", AttributeProto::STRING},
       {"beta", AttributeProto::FLOAT},
       {"clip", AttributeProto::FLOAT},
       {"dilations", AttributeProto::INTS},
       {"direction", AttributeProto::STRING},
       {"kernel_shape", AttributeProto::INTS},
       {"output_padding", AttributeProto::INTS},
       {"pads", AttributeProto::INTS},
       {"strides", AttributeProto::INTS}};
  std::vector<AttributeProto> found;
  for (const char *name : names) {
    auto it = kinds.find(name);
    if (const AttributeProto *a =
            find(name, it == kinds.end() ? AttributeProto::INT : it->second))
      found.push_back(*a);
  }
  return found;
}

int Recipe::elementType(int i) const {
  const TypeProto *t = has(i) ? call.types[i] : nullptr;
  if (!t || !t->has_tensor_type() || !t->tensor_type().elem_type())
    throw Unsupported{"an unknown element type of input " + std::to_string(i)};
  return t->tensor_type().elem_type();
}
int Recipe::rank(int i) const {
  const TypeProto *t = has(i) ? call.types[i] : nullptr;
  if (!t || !t->has_tensor_type() || !t->tensor_type().has_shape())
    throw Unsupported{"an unknown rank of input " + std::to_string(i)};
  return t->tensor_type().shape().dim_size();
}
std::optional<int64_t> Recipe::size(int i, int axis) const {
  int n = rank(i);
  if (axis < 0)
    axis += n;
  if (axis < 0 || axis >= n)
    throw Unsupported{"rank " + std::to_string(n) + " of input " +
                      std::to_string(i)};
  auto &d = call.types[i]->tensor_type().shape().dim(axis);
  return d.has_dim_value() ? std::optional<int64_t>(d.dim_value())
                           : std::nullopt;
}
int64_t Recipe::knownSize(int i, int axis) const {
  std::optional<int64_t> n = size(i, axis);
  if (!n)
    throw Unsupported{"an unknown dimension " + std::to_string(axis) +
                      " of input " + std::to_string(i)};
  return *n;
}
bool Recipe::sameSize(int i, int axis, int j, int otherAxis) const {
  std::optional<int64_t> a = size(i, axis), b = size(j, otherAxis);
  if (a || b)
    return a && b && *a == *b;
  auto &x = call.types[i]->tensor_type().shape().dim(axis);
  auto &y = call.types[j]->tensor_type().shape().dim(otherAxis);
  return x.has_dim_param() && x.dim_param() == y.dim_param();
}

std::optional<std::vector<int64_t>> Recipe::constantIntegers(int i) const {
  const TensorProto *t = has(i) ? call.constants[i] : nullptr;
  if (!t || (t->data_type() != TensorProto::INT64 &&
             t->data_type() != TensorProto::INT32))
    return std::nullopt;
  std::vector<char> storage;
  std::shared_ptr<const void> owner;
  static const Model
      none; // the first inference sees no large payloads, and needs none
  llvm::ArrayRef<char> bytes;
  try {
    bytes = tensorBytes(call.model ? *call.model : none, *t, storage, owner);
  } catch (const std::out_of_range &) {
    return std::nullopt;
  }
  std::vector<int64_t> values;
  size_t width = t->data_type() == TensorProto::INT64 ? 8 : 4;
  for (size_t at = 0; at + width <= bytes.size(); at += width) {
    int64_t wide = 0;
    int32_t narrow = 0;
    if (width == 8)
      std::memcpy(&wide, bytes.data() + at, 8);
    else
      std::memcpy(&narrow, bytes.data() + at, 4);
    values.push_back(width == 8 ? wide : narrow);
  }
  return values;
}

//===----------------------------------------------------------------------===//
// Writing the body
//===----------------------------------------------------------------------===//

std::vector<Val> Recipe::ops(const char *name, const std::vector<Val> &in,
                             int results,
                             std::vector<AttributeProto> attributes) {
  NodeProto &node = *nodes->Add();
  node.set_op_type(name);
  std::vector<Val> out;
  for (int i = 0; i < results; ++i) {
    out.push_back("v" + std::to_string(values++));
    node.add_output(out.back());
  }
  node.set_name(out[0]);
  size_t used = in.size();
  while (used && in[used - 1].empty())
    --used;
  for (size_t i = 0; i < used; ++i)
    node.add_input(in[i]);
  for (AttributeProto &a : attributes)
    node.add_attribute()->Swap(&a);
  return out;
}
Val Recipe::op(const char *name, const std::vector<Val> &in,
               std::vector<AttributeProto> attributes) {
  return ops(name, in, 1, std::move(attributes))[0];
}

void Recipe::out(int i, const Val &value) {
  if (!wants(i))
    return;
  NodeProto &node = *nodes->Add();
  node.set_op_type("Identity");
  node.set_name("out" + std::to_string(i));
  node.add_input(value);
  node.add_output("o" + std::to_string(i));
}

Val Recipe::ints(const std::vector<int64_t> &values) {
  return op("Constant", {}, {L("value_ints", values)});
}
Val Recipe::intScalar(int64_t value) {
  return op("Constant", {}, {I("value_int", value)});
}
Val Recipe::floatScalar(float value) {
  return op("Constant", {}, {F("value_float", value)});
}
Val Recipe::stringList(const std::vector<std::string> &list) {
  AttributeProto a = attribute("value_strings", AttributeProto::STRINGS);
  for (const std::string &v : list)
    a.add_strings(v);
  return op("Constant", {}, {a});
}
Val Recipe::floatList(const std::vector<float> &list) {
  AttributeProto a = attribute("value_floats", AttributeProto::FLOATS);
  for (float v : list)
    a.add_floats(v);
  return op("Constant", {}, {a});
}
Val Recipe::transpose(const Val &x, const std::vector<int64_t> &perm) {
  return op("Transpose", {x}, {L("perm", perm)});
}
Val Recipe::count(const Val &length) {
  return op("Range", {intScalar(0), squeeze(length, {0}), intScalar(1)});
}

std::vector<Val> Recipe::loop(
    const Val &trips, const std::vector<Val> &state,
    llvm::function_ref<std::vector<Val>(const std::vector<Val> &)> body) {
  AttributeProto a = attribute("body", AttributeProto::GRAPH);
  GraphProto &graph = *a.mutable_g();
  std::string name = "loop" + std::to_string(values++);
  graph.set_name(name);
  std::vector<Val> carried;
  for (size_t i = 0; i < state.size() + 2; ++i) {
    graph.add_input()->set_name(name + "_in" + std::to_string(i));
    if (i >= 2)
      carried.push_back(graph.input((int)i).name());
  }
  NodeList *outer = std::exchange(nodes, graph.mutable_node());
  for (const Val &v : body(carried))
    graph.add_output()->set_name(v);
  nodes = outer;
  std::vector<Val> in = {trips, ""};
  in.insert(in.end(), state.begin(), state.end());
  return ops("Loop", in, (int)state.size(), {a});
}

Val splitHeads(Recipe &r, const Val &x, int64_t heads) {
  return r.transpose(r.reshape(x, {0, 0, heads, -1}), {0, 2, 1, 3});
}
Val joinHeads(Recipe &r, const Val &x) {
  return r.reshape(r.transpose(x, {0, 2, 1, 3}), {0, 0, -1});
}

} // namespace tessera::onnx_import

// Edits of models that keep them models: bytes alone rarely turn one operator
// into another with attributes of the right kinds, and then nothing behind the
// checker runs. An edit picks a node and gives it another operator of the
// registry (of any version), other attribute values, inputs of other types and
// ranks, or constants in their place. A quarter of all mutations are
// libFuzzer's own, of bytes.
#include "onnx/defs/schema.h"
#include "onnx/onnx_pb.h"

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <vector>

using namespace onnx;

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t maxSize);

namespace {

// Ends of ranges, and what overflows when multiplied, narrowed or negated.
constexpr int64_t kIntegers[] = {0,         1,
                                 -1,        2,
                                 3,         4,
                                 -2,        -3,
                                 5,         7,
                                 8,         16,
                                 64,        1000,
                                 -100,      INT32_MAX,
                                 INT32_MIN, INT64_MAX,
                                 INT64_MIN, 1LL << 31,
                                 1LL << 32, (1LL << 32) + 1,
                                 1LL << 62, 1LL << 40,
                                 65536};
constexpr float kFloats[] = {0,
                             1,
                             -1,
                             0.5f,
                             2,
                             1e-30f,
                             3.4e38f,
                             -3.4e38f,
                             __builtin_inff(),
                             __builtin_nanf(""),
                             1e10f};
// Words that operators know, and none of them.
constexpr const char *kWords[] = {"",
                                  "SAME_UPPER",
                                  "SAME_LOWER",
                                  "VALID",
                                  "NOTSET",
                                  "forward",
                                  "reverse",
                                  "bidirectional",
                                  "linear",
                                  "nearest",
                                  "cubic",
                                  "constant",
                                  "reflect",
                                  "edge",
                                  "wrap",
                                  "mean",
                                  "sum",
                                  "none",
                                  "add",
                                  "mul",
                                  "max",
                                  "min",
                                  "half_pixel",
                                  "asymmetric",
                                  "align_corners",
                                  "tf_crop_and_resize",
                                  "not_larger",
                                  "not_smaller",
                                  "stretch",
                                  "DCR",
                                  "CRD",
                                  "tanh",
                                  "Tanh",
                                  "Sigmoid",
                                  "Relu",
                                  "Affine",
                                  "ij,jk->ik",
                                  "...i,...j->",
                                  "i,i",
                                  "ii->i",
                                  "->",
                                  "...",
                                  "a...b",
                                  "TF",
                                  "IDF",
                                  "TFIDF",
                                  "LOWER",
                                  "UPPER",
                                  "NONE",
                                  "LEFT",
                                  "RIGHT",
                                  "BRANCH_LEQ",
                                  "LEAF",
                                  "SOFTMAX",
                                  "LOGISTIC",
                                  "PROBIT",
                                  "SUM",
                                  "AVERAGE",
                                  "RBF",
                                  "POLY",
                                  "MAX",
                                  "L1",
                                  "L2",
                                  "TO_FLOAT",
                                  "TO_STRING",
                                  "DENSE",
                                  "a",
                                  "\x03\x01",
                                  "en_US",
                                  "[a-z]+"};

class Editor {
public:
  Editor(ModelProto &model, unsigned seed)
      : model(model), graph(*model.mutable_graph()), random(seed) {}

  void run() {
    for (unsigned edits = 1 + below(3); edits; --edits)
      edit();
  }

private:
  unsigned below(size_t n) { return n ? (unsigned)(random() % n) : 0; }
  bool chance(unsigned percent) { return below(100) < percent; }
  template <typename List> auto &any(List &list) {
    return list[below(std::size(list))];
  }

  int64_t integer() {
    return chance(70) ? (int64_t)below(6) - 1 : any(kIntegers);
  }
  int elementType() {
    return chance(50) ? (chance(50) ? TensorProto::FLOAT : TensorProto::INT64)
                      : (int)below(28);
  }

  void edit() {
    NodeProto *node =
        graph.node_size()
            ? graph.mutable_node((int)below((size_t)graph.node_size()))
            : nullptr;
    switch (node ? below(9) : 8) {
    case 0:
    case 1:
      return replace(*node);
    case 2:
    case 3:
      if (node->attribute_size())
        fill(*node->mutable_attribute(
            (int)below((size_t)node->attribute_size())));
      return;
    case 4:
      return addAttribute(*node);
    case 5:
      if (node->input_size())
        retype(node->input((int)below((size_t)node->input_size())));
      return;
    case 6:
      if (node->input_size())
        freeze(node->input((int)below((size_t)node->input_size())));
      return;
    case 7:
      return rewire(*node);
    default:
      if (model.opset_import_size())
        model
            .mutable_opset_import((int)below((size_t)model.opset_import_size()))
            ->set_version(1 + below(29));
    }
  }

  static const std::vector<OpSchema> &schemas() {
    static const std::vector<OpSchema> all = [] {
      std::vector<OpSchema> list =
          OpSchemaRegistry::get_all_schemas_with_history();
      std::sort(list.begin(), list.end(),
                [](const OpSchema &a, const OpSchema &b) {
                  return std::tuple(a.domain(), a.Name(), a.since_version()) <
                         std::tuple(b.domain(), b.Name(), b.since_version());
                });
      return list;
    }();
    return all;
  }

  // Another operator, in a version of its own, with inputs and outputs as it
  // wants.
  void replace(NodeProto &node) {
    const OpSchema &schema = any(schemas());
    node.set_op_type(schema.Name());
    node.set_domain(schema.domain());
    import(schema.domain(),
           chance(60) ? schema.since_version() : newest(schema.domain()));
    node.clear_attribute();
    for (auto &[name, a] : schema.attributes())
      if (a.required || chance(40)) {
        AttributeProto &added = *node.add_attribute();
        added.set_name(name);
        added.set_type(a.type);
        fill(added);
      }
    int inputs =
        std::min(schema.min_input() +
                     (int)below((size_t)std::min(4, schema.max_input() -
                                                        schema.min_input()) +
                                1),
                 16);
    while (node.input_size() > inputs)
      node.mutable_input()->RemoveLast();
    while (node.input_size() < inputs)
      node.add_input(source());
    int outputs =
        std::min(schema.min_output() +
                     (int)below((size_t)std::min(3, schema.max_output() -
                                                        schema.min_output()) +
                                1),
                 8);
    while (node.output_size() > std::max(outputs, 1))
      node.mutable_output()->RemoveLast();
    while (node.output_size() < outputs)
      node.add_output(fresh());
    for (ValueInfoProto &v : *graph.mutable_output()) {
      v.clear_type();
      v.set_name(node.output_size() ? node.output(0) : fresh());
    }
    graph.clear_value_info();
  }

  static int newest(const std::string &domain) {
    auto &map = OpSchemaRegistry::DomainToVersionRange::Instance().Map();
    auto it = map.find(domain);
    return it == map.end() ? 1 : it->second.second;
  }

  void import(const std::string &domain, int version) {
    for (auto &import : *model.mutable_opset_import())
      if (import.domain() == domain)
        return import.set_version(version);
    auto &import = *model.add_opset_import();
    import.set_domain(domain);
    import.set_version(version);
  }

  std::string fresh() { return "v" + std::to_string(below(1u << 30)); }

  // A name to use as an input: any that there is, or a new input of the graph.
  std::string source() {
    if (chance(8))
      return "";
    if (graph.input_size() && chance(35))
      return graph.input((int)below((size_t)graph.input_size())).name();
    if (graph.initializer_size() && chance(35))
      return graph.initializer((int)below((size_t)graph.initializer_size()))
          .name();
    std::string name = fresh();
    if (chance(50)) {
      constant(name);
    } else {
      ValueInfoProto &v = *graph.add_input();
      v.set_name(name);
      type(*v.mutable_type());
    }
    return name;
  }

  void rewire(NodeProto &node) {
    if (node.input_size() && chance(60))
      node.set_input((int)below((size_t)node.input_size()), source());
    else if (chance(50))
      node.add_input(source());
    else if (chance(50))
      node.add_output(fresh());
    else if (node.input_size())
      node.mutable_input()->RemoveLast();
  }

  void type(TypeProto &t, int depth = 0) {
    t.Clear();
    if (depth < 2 && chance(8))
      return type(*t.mutable_sequence_type()->mutable_elem_type(), depth + 1);
    if (depth < 2 && chance(5))
      return type(*t.mutable_optional_type()->mutable_elem_type(), depth + 1);
    if (chance(2)) {
      t.mutable_map_type()->set_key_type(elementType());
      return type(*t.mutable_map_type()->mutable_value_type(), 2);
    }
    auto &tensor = *t.mutable_tensor_type();
    tensor.set_elem_type(elementType());
    if (chance(10))
      return;
    tensor.mutable_shape();
    for (unsigned rank = below(6); rank; --rank) {
      auto *dim = tensor.mutable_shape()->add_dim();
      if (chance(80))
        dim->set_dim_value(chance(85) ? 1 + below(5) : any(kIntegers));
      else if (chance(50))
        dim->set_dim_param("n");
    }
  }

  void retype(const std::string &name) {
    for (ValueInfoProto &v : *graph.mutable_input())
      if (v.name() == name)
        type(*v.mutable_type());
    for (TensorProto &t : *graph.mutable_initializer())
      if (t.name() == name)
        tensor(t);
  }

  // An input becomes a constant.
  void freeze(const std::string &name) {
    auto &inputs = *graph.mutable_input();
    for (int i = 0; i < inputs.size(); ++i)
      if (inputs[i].name() == name) {
        inputs.DeleteSubrange(i, 1);
        return constant(name);
      }
  }

  void constant(const std::string &name) {
    TensorProto &t = *graph.add_initializer();
    t.set_name(name);
    tensor(t);
  }

  void tensor(TensorProto &t) {
    std::string name = t.name();
    t.Clear();
    t.set_name(name);
    t.set_data_type(chance(60)   ? TensorProto::INT64
                    : chance(50) ? TensorProto::FLOAT
                                 : elementType());
    int64_t count = 1;
    for (unsigned rank = chance(70) ? 1 : below(4); rank; --rank) {
      t.add_dims(below(6));
      count *= t.dims(t.dims_size() - 1);
    }
    for (int64_t i = 0; i < count; ++i)
      switch (t.data_type()) {
      case TensorProto::FLOAT:
        t.add_float_data(any(kFloats));
        break;
      case TensorProto::DOUBLE:
        t.add_double_data(any(kFloats));
        break;
      case TensorProto::INT64:
        t.add_int64_data(integer());
        break;
      case TensorProto::UINT32:
      case TensorProto::UINT64:
        t.add_uint64_data((uint64_t)integer());
        break;
      case TensorProto::STRING:
        t.add_string_data(any(kWords));
        break;
      default:
        t.add_int32_data((int32_t)integer());
      }
  }

  void addAttribute(NodeProto &node) {
    const OpSchema *schema =
        OpSchemaRegistry::Schema(node.op_type(), node.domain());
    if (!schema || schema->attributes().empty())
      return;
    std::vector<std::string> names;
    for (auto &[name, a] : schema->attributes())
      names.push_back(name);
    std::sort(names.begin(), names.end());
    const std::string &name = any(names);
    for (AttributeProto &a : *node.mutable_attribute())
      if (a.name() == name)
        return fill(a);
    AttributeProto &added = *node.add_attribute();
    added.set_name(name);
    added.set_type(schema->attributes().at(name).type);
    fill(added);
  }

  // A new value, or a changed list, of the type that the attribute has.
  void fill(AttributeProto &a) {
    unsigned count = below(7);
    bool keep = chance(50);
    auto list = [&](auto *values, auto value) {
      if (keep && values->size()) {
        (*values)[(int)below((size_t)values->size())] = value();
        if (chance(30))
          values->RemoveLast();
        else if (chance(30))
          values->Add(value());
        return;
      }
      values->Clear();
      for (unsigned i = 0; i < count; ++i)
        values->Add(value());
    };
    switch (a.type()) {
    case AttributeProto::INT:
      return a.set_i(integer());
    case AttributeProto::FLOAT:
      return a.set_f(any(kFloats));
    case AttributeProto::STRING:
      return a.set_s(any(kWords));
    case AttributeProto::INTS:
      return list(a.mutable_ints(), [&] { return integer(); });
    case AttributeProto::FLOATS:
      return list(a.mutable_floats(), [&] { return any(kFloats); });
    case AttributeProto::STRINGS:
      return list(a.mutable_strings(),
                  [&] { return std::string(any(kWords)); });
    case AttributeProto::TENSOR:
      return tensor(*a.mutable_t());
    case AttributeProto::TYPE_PROTO:
      return type(*a.mutable_tp());
    case AttributeProto::GRAPH:
      return body(*a.mutable_g());
    default:
      return;
    }
  }

  // A body of some inputs that hands them out again.
  void body(GraphProto &g) {
    if (g.node_size() && chance(80))
      return;
    g.Clear();
    g.set_name("body");
    unsigned inputs = below(4), outputs = below(4);
    for (unsigned i = 0; i < inputs; ++i) {
      ValueInfoProto &v = *g.add_input();
      v.set_name(fresh());
      if (chance(70))
        type(*v.mutable_type());
    }
    for (unsigned i = 0; i < outputs; ++i) {
      NodeProto &node = *g.add_node();
      node.set_op_type("Identity");
      node.add_input(g.input_size()
                         ? g.input((int)below((size_t)g.input_size())).name()
                         : source());
      node.add_output(fresh());
      g.add_output()->set_name(node.output(0));
    }
  }

  ModelProto &model;
  GraphProto &graph;
  std::minstd_rand random;
};

} // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
                                          size_t maxSize, unsigned seed) {
  ModelProto model;
  if (seed % 4 == 0 || !model.ParseFromArray(data, (int)size) ||
      !model.has_graph())
    return LLVMFuzzerMutate(data, size, maxSize);
  Editor(model, seed).run();
  std::string bytes = model.SerializeAsString();
  if (bytes.empty() || bytes.size() > maxSize)
    return LLVMFuzzerMutate(data, size, maxSize);
  std::memcpy(data, bytes.data(), bytes.size());
  return bytes.size();
}

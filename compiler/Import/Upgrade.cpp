// Every node to the newest version of its operator.
//
// ONNX's version converter rebuilds the whole model (names and functions get
// lost, payloads are copied) and several of its adapters change the meaning:
// Resize 10 becomes half_pixel, Hardmax 12 changes its axis, Scan 8 loses its
// batch dimension, an anonymous output takes the place of absent inputs. Hence
// our own adapters from version 7 on; only what is older goes through ONNX's
// converter, up to 7. An operator without an adapter below has changed in ways
// that old nodes do not notice (more types, new attributes whose default is the
// old behaviour); the schema of the newest version checks the result.
#include "compiler/Import/Model.h"
#include "compiler/Import/Preconditions.h"
#include "llvm/ADT/APFloat.h"
#include "onnx/defs/schema.h"
#include "onnx/shape_inference/implementation.h"
#include "onnx/version_converter/convert.h"

#include <cstring>
#include <unordered_map>
#include <unordered_set>

namespace tessera::onnx_import {

namespace {

using T = TensorProto;

AttributeProto *findAttribute(NodeProto &node, const std::string &name) {
  for (AttributeProto &a : *node.mutable_attribute())
    if (a.name() == name)
      return &a;
  return nullptr;
}

int64_t intAttribute(NodeProto &node, const std::string &name, int64_t fallback) {
  AttributeProto *a = findAttribute(node, name);
  return a ? a->i() : fallback;
}

void removeAttribute(NodeProto &node, const std::string &name) {
  auto &list = *node.mutable_attribute();
  for (int i = 0; i < list.size(); ++i)
    if (list[i].name() == name) {
      list.DeleteSubrange(i, 1);
      return;
    }
}

void setAttribute(NodeProto &node, const std::string &name, int64_t value) {
  removeAttribute(node, name);
  AttributeProto *a = node.add_attribute();
  a->set_name(name);
  a->set_type(AttributeProto::INT);
  a->set_i(value);
}

void setAttribute(NodeProto &node, const std::string &name, const std::string &value) {
  removeAttribute(node, name);
  AttributeProto *a = node.add_attribute();
  a->set_name(name);
  a->set_type(AttributeProto::STRING);
  a->set_s(value);
}

void setInput(NodeProto &node, int index, const std::string &name) {
  while (node.input_size() <= index)
    node.add_input("");
  node.set_input(index, name);
}

T intTensor(const std::vector<int64_t> &values, bool scalar = false) {
  T t;
  t.set_data_type(T::INT64);
  if (!scalar)
    t.add_dims(values.size());
  for (int64_t v : values)
    t.add_int64_data(v);
  return t;
}

bool isReduction(llvm::StringRef op) {
  return op.starts_with("Reduce") && op != "ReduceSum";
}

class Upgrader {
public:
  /// `ancient`: the model was of an operator set before 7.
  Upgrader(Model &model, bool ancient)
      : model(model), names(*model.proto.mutable_graph()), ancient(ancient) {}

  void run() {
    GraphProto &graph = *model.proto.mutable_graph();
    collectUses(graph);
    bool typed = false;
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
        newTrees |= node.domain() == "ai.onnx.ml" && node.op_type() == "TreeEnsemble";
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

private:
  bool needsTypes(const NodeProto &node) {
    const std::string &op = node.op_type();
    int64_t version = nodeVersion(model, node);
    if (!node.domain().empty())
      return op == "LabelEncoder" && version < 2;
    if (op == "PRelu" && ancient)
      return true;
    return (op == "Softmax" || op == "LogSoftmax" || op == "Hardmax")      ? version < 13
           : (op == "Clip" || op == "Pad")                                 ? version < 11
                                         : op == "GroupNormalization" && version < 21;
  }

  // Inlined functions may use domains that the model itself does not import.
  void addImports(GraphProto &graph) {
    std::unordered_set<std::string> domains;
    for (auto &import : model.proto.opset_import())
      domains.insert(import.domain());
    forEachGraph(graph, [&](GraphProto &g) {
      for (auto &node : g.node())
        if (domains.insert(node.domain()).second) {
          auto *import = model.proto.add_opset_import();
          import->set_domain(node.domain());
          int64_t newest = newestVersion(node.domain());
          import->set_version(newest ? newest : std::max<int64_t>(1, nodeVersion(model, node)));
        }
    });
  }

  void collectUses(GraphProto &graph) {
    forEachGraph(graph, [&](GraphProto &g) {
      for (auto &node : g.node())
        for (auto &input : node.input())
          used.insert(input);
      for (auto &v : g.output())
        used.insert(v.name());
      for (auto &t : g.initializer())
        constants[t.name()] = {t.dims().begin(), t.dims().end()};
      for (auto &node : g.node())
        if (node.op_type() == "Constant" && node.domain().empty() && node.output_size())
          for (auto &a : node.attribute())
            if (a.has_t())
              constants[node.output(0)] = {a.t().dims().begin(), a.t().dims().end()};
    });
  }

  // Types as far as lenient inference on a copy finds them. Values of equal name
  // in different bodies must agree to count.
  void inferOldTypes() {
    ModelProto copy = model.proto;
    try {
      CheckedSchemas schemas;
      ::onnx::shape_inference::InferShapes(copy, &schemas,
                                           ::onnx::ShapeInferenceOptions(false, 0, true));
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
        for (int64_t d : t.dims())
          type.mutable_tensor_type()->mutable_shape()->add_dim()->set_dim_value(d);
        if (!t.dims_size())
          type.mutable_tensor_type()->mutable_shape();
        note(t.name(), type);
      }
    });
  }

  const ::onnx::TensorShapeProto *shapeOf(const std::string &value) {
    auto it = types.find(value);
    if (it == types.end() || !it->second.tensor_type().has_shape())
      return nullptr;
    return &it->second.tensor_type().shape();
  }
  int elementTypeOf(const std::string &value) {
    auto it = types.find(value);
    return it == types.end() ? T::UNDEFINED : it->second.tensor_type().elem_type();
  }

  // Absent outputs at the end go, but where their number counts (the parts of a
  // Split, what a body gives) they get a name that nobody uses.
  void trimOutputs(NodeProto &node) {
    const ::onnx::OpSchema *schema = newestVersion(node.domain()) ? newestSchema(node) : nullptr;
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

  void upgrade(GraphProto &graph) {
    NodeList before;
    before.Swap(graph.mutable_node());
    NodeList *outer = out;
    out = graph.mutable_node();
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
      if (!adapt(node))
        out->Add()->Swap(&node);
    }
    for (NodeProto &node : *out) {
      node.clear_metadata_props();
      verify(node);
      fillDefaults(node);
    }
    out = outer;
  }

  void verify(const NodeProto &node) {
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
  void fillDefaults(NodeProto &node) {
    const ::onnx::OpSchema *schema = newestVersion(node.domain()) ? newestSchema(node) : nullptr;
    if (!schema || !schema->HasFunction() || schema->has_type_and_shape_inference_function())
      return;
    for (auto &[name, a] : schema->attributes())
      if (a.default_value.type() != AttributeProto::UNDEFINED && !findAttribute(node, name)) {
        AttributeProto &added = *node.add_attribute();
        added = a.default_value;
        added.set_name(name);
      }
  }

  //===--------------------------------------------------------------------===//
  // Helpers that append nodes
  //===--------------------------------------------------------------------===//

  std::string constant(const NodeProto &node, const std::string &what, const T &value) {
    NodeProto &c = *out->Add();
    c.set_op_type("Constant");
    c.set_name(locationName(node) + "/" + what);
    AttributeProto *a = c.add_attribute();
    a->set_name("value");
    a->set_type(AttributeProto::TENSOR);
    *a->mutable_t() = value;
    *c.add_output() = names.unique(c.name());
    return c.output(0);
  }

  NodeProto &insert(const NodeProto &node, const std::string &op, const std::string &what,
                    const std::vector<std::string> &inputs) {
    NodeProto &n = *out->Add();
    n.set_op_type(op);
    n.set_name(locationName(node) + "/" + what);
    for (auto &input : inputs)
      n.add_input(input);
    n.add_output(names.unique(n.name()));
    return n;
  }

  // A scalar of the element type of `like`.
  std::string scalarLike(const NodeProto &node, const std::string &what, float value,
                         const std::string &like) {
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
      return insert(node, "CastLike", what + "_cast", {constant(node, what, t), like}).output(0);
    }
    return constant(node, what, t);
  }

  // An attribute of integers becomes input `index`.
  void intsToInput(NodeProto &node, const std::string &name, int index) {
    AttributeProto *a = findAttribute(node, name);
    if (!a)
      return;
    std::vector<int64_t> values(a->ints().begin(), a->ints().end());
    removeAttribute(node, name);
    setInput(node, index, constant(node, name, intTensor(values)));
  }

  //===--------------------------------------------------------------------===//
  // Adapters. True: the node has been appended already.
  //===--------------------------------------------------------------------===//

  bool adapt(NodeProto &node) {
    int64_t version = nodeVersion(model, node);
    if (node.domain() == "ai.onnx.ml") {
      if (node.op_type() == "LabelEncoder" && version < 2)
        labelEncoder(node);
      return false;
    }
    if (!node.domain().empty())
      return false;
    const std::string &op = node.op_type();
    if (version < 7)
      fail(node, "operator set " + std::to_string(version) + " is not supported here");
    if (op == "Resize")
      resize(node, version);
    if (version >= 21)
      return false;

    if (op == "BatchNormalization" && version < 14)
      batchNormalization(node);
    else if (op == "Clip" && version < 11)
      clip(node);
    else if (op == "DFT" && version < 20)
      dft(node);
    else if (op == "Dropout" && version < 12)
      dropout(node, version);
    else if (op == "GridSample" && version < 20)
      gridSample(node);
    else if (op == "GroupNormalization")
      groupNormalization(node);
    else if (op == "PRelu" && ancient)
      prelu(node);
    else if (op == "Pad" && version < 11)
      pad(node);
    else if (op == "ReduceSum" && version < 13)
      intsToInput(node, "axes", 1);
    else if (isReduction(op) && version < 18)
      intsToInput(node, "axes", 1);
    else if (op == "RoiAlign" && version < 16)
      setAttribute(node, "coordinate_transformation_mode", "output_half_pixel");
    else if (op == "Scan" && version < 9)
      return scan(node);
    else if (op == "Scatter")
      node.set_op_type("ScatterElements");
    else if (op == "Slice" && version < 10)
      slice(node);
    else if ((op == "Softmax" || op == "LogSoftmax" || op == "Hardmax") && version < 13)
      return softmax(node);
    else if (op == "Split" && version < 18)
      split(node);
    else if ((op == "Squeeze" || op == "Unsqueeze") && version < 13)
      intsToInput(node, "axes", 1);
    else if (op == "TopK" && version < 10)
      topK(node);
    else if (op == "Upsample")
      upsample(node);
    return false;
  }

  void batchNormalization(NodeProto &node) {
    if (intAttribute(node, "spatial", 1) != 1)
      fail(node, "attribute 'spatial' is 0: not supported");
    removeAttribute(node, "spatial");
    for (int i = 1; i < node.output_size(); ++i)
      if (used.contains(node.output(i)))
        fail(node, "output '" + node.output(i) + "' of training is used: not supported");
    while (node.output_size() > 1)
      node.mutable_output()->RemoveLast();
  }

  void clip(NodeProto &node) {
    for (auto [name, index] : {std::pair("min", 1), std::pair("max", 2)})
      if (AttributeProto *a = findAttribute(node, name)) {
        float value = a->f();
        removeAttribute(node, name);
        setInput(node, index, scalarLike(node, name, value, node.input(0)));
      }
  }

  void dft(NodeProto &node) {
    int64_t axis = intAttribute(node, "axis", 1);
    removeAttribute(node, "axis");
    setInput(node, 2, constant(node, "axis", intTensor({axis}, /*scalar=*/true)));
  }

  // Without training there is nothing to drop, and the ratio has no say.
  void dropout(NodeProto &node, int64_t version) {
    removeAttribute(node, "ratio");
    if (node.output_size() > 1 && version < 10) {
      if (used.contains(node.output(1)))
        fail(node, "output '" + node.output(1) + "' (mask) of an old version: not supported");
      node.mutable_output()->RemoveLast();
    }
  }

  // Before operator set 7 a slope of several elements was one a channel (axis 1),
  // not broadcast from the trailing side.
  void prelu(NodeProto &node) {
    const ::onnx::TensorShapeProto *slope = shapeOf(node.input(1));
    if (slope && (slope->dim_size() != 1 || slope->dim(0).dim_value() == 1))
      return;
    const ::onnx::TensorShapeProto *x = shapeOf(node.input(0));
    if (!slope || !x)
      fail(node, "cannot tell along which axis the slope lies: a shape is not known");
    std::vector<int64_t> axes;
    for (int i = 1; i + 1 < x->dim_size(); ++i)
      axes.push_back(i);
    if (axes.empty())
      return;
    std::string c = constant(node, "slope_axes", intTensor(axes));
    setInput(node, 1, insert(node, "Unsqueeze", "slope", {node.input(1), c}).output(0));
  }

  void gridSample(NodeProto &node) {
    AttributeProto *mode = findAttribute(node, "mode");
    if (mode && mode->s() == "bilinear")
      mode->set_s("linear");
    if (mode && mode->s() == "bicubic")
      mode->set_s("cubic");
  }

  // Scale and bias were given for a group, now for a channel: each is repeated
  // channels / groups times.
  void groupNormalization(NodeProto &node) {
    if (node.input_size() != 3) // the checker did not see it (see Check.cpp)
      fail(node, std::to_string(node.input_size()) + " inputs, expected 3");
    int64_t groups = intAttribute(node, "num_groups", 0);
    const ::onnx::TensorShapeProto *shape = shapeOf(node.input(0));
    std::string expand;
    if (groups > 0 && shape && shape->dim_size() > 1 && shape->dim(1).has_dim_value()) {
      expand = constant(node, "repeat", intTensor({1, shape->dim(1).dim_value() / groups}));
    } else {
      NodeProto &channels = insert(node, "Shape", "channels", {node.input(0)});
      setAttribute(channels, "start", 1);
      setAttribute(channels, "end", 2);
      std::string count = channels.output(0);
      std::string divisor = constant(node, "groups", intTensor({groups}));
      std::string each = insert(node, "Div", "channels_a_group", {count, divisor}).output(0);
      std::string one = constant(node, "one", intTensor({1}));
      NodeProto &concat = insert(node, "Concat", "repeat", {one, each});
      setAttribute(concat, "axis", (int64_t)0);
      expand = concat.output(0);
    }
    std::string column = constant(node, "column", intTensor({-1, 1}));
    std::string flat = constant(node, "flat", intTensor({-1}));
    for (int i = 1; i <= 2 && i < node.input_size(); ++i) {
      std::string what = i == 1 ? "scale" : "bias";
      std::string a = insert(node, "Reshape", what + "_column", {node.input(i), column}).output(0);
      std::string b = insert(node, "Expand", what + "_repeat", {a, expand}).output(0);
      node.set_input(i, insert(node, "Reshape", what, {b, flat}).output(0));
    }
  }

  void pad(NodeProto &node) {
    AttributeProto *value = findAttribute(node, "value");
    float number = value ? value->f() : 0;
    removeAttribute(node, "value");
    if (AttributeProto *paddings = findAttribute(node, "paddings")) // version 1
      paddings->set_name("pads");
    intsToInput(node, "pads", 1);
    if (number != 0)
      setInput(node, 2, scalarLike(node, "value", number, node.input(0)));
  }

  void resize(NodeProto &node, int64_t version) {
    if (version < 11) { // X, scales
      setInput(node, 2, node.input(1));
      node.set_input(1, "");
      setAttribute(node, "coordinate_transformation_mode", "asymmetric");
      setAttribute(node, "nearest_mode", "floor");
      return;
    }
    // Writers pass empty tensors for absent inputs.
    for (int i = 1; i < node.input_size(); ++i) {
      auto it = constants.find(node.input(i));
      if (it != constants.end() && it->second == std::vector<int64_t>{0})
        node.set_input(i, "");
    }
    while (node.input_size() && node.input(node.input_size() - 1).empty())
      node.mutable_input()->RemoveLast();
  }

  void upsample(NodeProto &node) {
    node.set_op_type("Resize");
    if (AttributeProto *scales = findAttribute(node, "scales")) {
      T t;
      t.set_data_type(T::FLOAT);
      t.add_dims(scales->floats_size());
      *t.mutable_float_data() = scales->floats();
      removeAttribute(node, "scales");
      setInput(node, 1, constant(node, "scales", t));
    }
    resize(node, 10);
  }

  void slice(NodeProto &node) {
    intsToInput(node, "starts", 1);
    intsToInput(node, "ends", 2);
    intsToInput(node, "axes", 3);
  }

  void split(NodeProto &node) {
    intsToInput(node, "split", 1);
    if (node.input_size() < 2)
      setAttribute(node, "num_outputs", node.output_size());
  }

  void topK(NodeProto &node) {
    int64_t k = intAttribute(node, "k", 0);
    removeAttribute(node, "k");
    setInput(node, 1, constant(node, "k", intTensor({k})));
  }

  // Up to version 12 the input counts as a matrix, cut at `axis`:
  //   Reshape(Softmax(Flatten(x, axis), -1), Shape(x))
  // which is Softmax(x, axis) when all later dimensions are 1 or there are none.
  bool softmax(NodeProto &node) {
    int64_t axis = intAttribute(node, "axis", 1);
    if (const ::onnx::TensorShapeProto *shape = shapeOf(node.input(0))) {
      int64_t rank = shape->dim_size(), first = axis < 0 ? axis + rank : axis;
      bool direct = first >= 0 && first < rank;
      for (int64_t i = first + 1; direct && i < rank; ++i)
        direct = shape->dim(i).has_dim_value() && shape->dim(i).dim_value() == 1;
      if (direct) {
        setAttribute(node, "axis", first);
        return false;
      }
    }
    std::string x = node.input(0), y = node.output(0);
    NodeProto &flatten = insert(node, "Flatten", "matrix", {x});
    setAttribute(flatten, "axis", axis);
    std::string matrix = flatten.output(0);
    std::string shape = insert(node, "Shape", "shape", {x}).output(0);
    node.set_input(0, matrix);
    node.set_output(0, names.unique(locationName(node) + "/rows"));
    setAttribute(node, "axis", (int64_t)-1);
    std::string rows = node.output(0);
    NodeProto &reshape = insert(node, "Reshape", "reshape", {rows, shape});
    reshape.set_output(0, y);
    // Reshape copies a dimension 0 from its input unless told otherwise.
    setAttribute(reshape, "allowzero", 1);
    // The node itself goes before its reshape.
    out->Add()->Swap(&node);
    out->SwapElements(out->size() - 1, out->size() - 2);
    return true;
  }

  // Version 8 scans a batch: all values have a leading batch dimension. A scan
  // over the batch, with states and scanned values cut alike, around today's.
  bool scan(NodeProto &node) {
    if (node.input_size() < 2)
      fail(node, "no value to scan");
    if (!node.input(0).empty())
      fail(node, "input 'sequence_lens': not supported");
    NodeProto inner = node;
    inner.set_name(locationName(node) + "/one");
    removeAttribute(inner, "directions");
    if (AttributeProto *d = findAttribute(node, "directions")) {
      AttributeProto *a = inner.add_attribute();
      *a = *d;
      a->set_name("scan_input_directions");
    }
    inner.clear_input();
    inner.clear_output();
    AttributeProto bodyAttribute;
    bodyAttribute.set_name("body");
    bodyAttribute.set_type(AttributeProto::GRAPH);
    GraphProto &body = *bodyAttribute.mutable_g();
    body.set_name(locationName(node) + "/batch");
    NodeProto outer;
    outer.set_op_type("Scan");
    outer.set_name(locationName(node));
    for (int i = 1; i < node.input_size(); ++i) {
      std::string name = names.unique(inner.name() + "/in");
      body.add_input()->set_name(name);
      inner.add_input(name);
      outer.add_input(node.input(i));
    }
    for (auto &output : node.output()) {
      std::string name = names.unique(inner.name() + "/out");
      inner.add_output(name);
      body.add_output()->set_name(name);
      outer.add_output(output.empty() ? names.unique(inner.name() + "/unused") : output);
    }
    setAttribute(outer, "num_scan_inputs", outer.input_size());
    body.add_node()->Swap(&inner);
    outer.add_attribute()->Swap(&bodyAttribute);
    out->Add()->Swap(&outer);
    return true;
  }

  // classes_strings maps both ways, as the type of the input says.
  void labelEncoder(NodeProto &node) {
    AttributeProto *classes = findAttribute(node, "classes_strings");
    if (!classes)
      return;
    int type = elementTypeOf(node.input(0));
    if (type != T::STRING && type != T::INT64)
      fail(node, "cannot tell whether input '" + node.input(0) + "' has strings or integers");
    AttributeProto *indices = nullptr;
    bool fromStrings = type == T::STRING;
    classes->set_name(fromStrings ? "keys_strings" : "values_strings");
    int count = classes->strings_size();
    indices = node.add_attribute();
    indices->set_name(fromStrings ? "values_int64s" : "keys_int64s");
    indices->set_type(AttributeProto::INTS);
    for (int i = 0; i < count; ++i)
      indices->add_ints(i);
  }

  Model &model;
  NameSet names;
  bool ancient;
  NodeList *out = nullptr;
  std::unordered_set<std::string> used;
  std::unordered_map<std::string, std::vector<int64_t>> constants;
  std::unordered_map<std::string, TypeProto> types;
};

// Up to operator set 6: ONNX's converter.
void upgradeAncient(Model &model) {
  GraphProto &graph = *model.proto.mutable_graph();
  forEachGraph(graph, [&](GraphProto &g) {
    for (auto &node : g.node())
      if (node.metadata_props_size() && nodeVersion(model, node) < 7)
        fail(node, "functions of operator sets before 7 are not supported");
  });
  // The converter drops the attribute, present or not: these are inference from 7 on.
  forEachGraph(graph, [&](GraphProto &g) {
    for (NodeProto &node : *g.mutable_node())
      if (node.domain().empty() && (node.op_type() == "BatchNormalization" || node.op_type() == "Dropout") &&
          !intAttribute(node, "is_test", 0))
        fail(node, "attribute 'is_test' is 0, as by default, which asks for training: not supported; set it to 1");
  });
  // An anonymous output would take the place of absent inputs.
  NameSet names(graph);
  std::unordered_set<std::string> anonymous;
  forEachGraph(graph, [&](GraphProto &g) {
    for (NodeProto &node : *g.mutable_node())
      for (std::string &output : *node.mutable_output())
        if (output.empty())
          anonymous.insert(output = names.unique("tessera/anonymous"));
  });
  GraphProto declared;
  *declared.mutable_input() = graph.input();
  *declared.mutable_output() = graph.output();
  try {
    // As ConvertVersion() does, but with checked schemas, and the tables of the
    // converter made once.
    static const ::onnx::version_conversion::DefaultVersionConverter converter;
    CheckedSchemas schemas;
    ::onnx::shape_inference::InferShapes(model.proto, &schemas);
    model.proto = converter.convert_version(model.proto, ::onnx::OpSetID(model.opsets[""]),
                                            ::onnx::OpSetID(7));
  } catch (const std::exception &e) {
    throw ImportError("operator set " + std::to_string(model.opsets[""]) +
                      " cannot be brought to 7: " + e.what());
  }
  GraphProto &converted = *model.proto.mutable_graph();
  *converted.mutable_input() = declared.input();
  *converted.mutable_output() = declared.output();
  forEachGraph(converted, [&](GraphProto &g) {
    for (NodeProto &node : *g.mutable_node())
      for (std::string &output : *node.mutable_output())
        if (anonymous.contains(output))
          output.clear();
  });
  model.opsets[""] = 7;
}

} // namespace

int64_t newestVersion(const std::string &domain) {
  const auto &map = ::onnx::OpSchemaRegistry::DomainToVersionRange::Instance().Map();
  auto it = map.find(domain);
  return it == map.end() ? 0 : it->second.second;
}

const ::onnx::OpSchema *newestSchema(const NodeProto &node) {
  int64_t version = newestVersion(node.domain());
  const ::onnx::OpSchema *schema =
      ::onnx::OpSchemaRegistry::Schema(node.op_type(), version, node.domain());
  // ai.onnx.ml deprecated its tree operators in favour of one that few write.
  if (schema && schema->Deprecated() && node.domain() == "ai.onnx.ml")
    schema = ::onnx::OpSchemaRegistry::Schema(node.op_type(), schema->since_version() - 1,
                                              node.domain());
  return schema && !schema->Deprecated() ? schema : nullptr;
}

void upgradeModel(Model &model) {
  auto it = model.opsets.find("");
  bool ancient = it != model.opsets.end() && it->second < 7;
  if (ancient)
    upgradeAncient(model);
  Upgrader(model, ancient).run();
}

} // namespace tessera::onnx_import

// Normalisations, pools, softmax and recurrent cells.
#include "compiler/Import/Upgrade/Upgrader.h"

#include <cmath>

namespace tessera::onnx_import {

namespace {

// Before version 7 a node had to be told that it is not training.
void refuseTraining(NodeProto &node) {
  if (!intAttribute(node, "is_test", 0))
    fail(node, "attribute 'is_test' is 0, as by default, which asks for "
               "training: not supported; "
               "set it to 1");
  removeAttribute(node, "is_test");
}

// Scale, bias, mean and variance for every element instead of every channel:
//   (X - mean) / Sqrt(var + epsilon) * scale + B
void normaliseElements(Upgrader &up, NodeProto &node) {
  AttributeProto *e = findAttribute(node, "epsilon");
  std::string epsilon =
      up.scalarLike(node, "epsilon", e ? e->f() : 1e-5f, node.input(0));
  std::string centred =
      up.insert(node, "Sub", "centred", {node.input(0), node.input(3)})
          .output(0);
  std::string sum =
      up.insert(node, "Add", "variance", {node.input(4), epsilon}).output(0);
  std::string root = up.insert(node, "Sqrt", "deviation", {sum}).output(0);
  std::string unit =
      up.insert(node, "Div", "normalised", {centred, root}).output(0);
  std::string scaled =
      up.insert(node, "Mul", "scaled", {unit, node.input(1)}).output(0);
  NodeProto last;
  last.set_op_type("Add");
  last.set_name(locationName(node));
  last.add_input(scaled);
  last.add_input(node.input(2));
  last.add_output(node.output(0));
  up.append(last);
}

bool batchNormalization(Upgrader &up, NodeProto &node, int64_t version) {
  if (version < 7)
    refuseTraining(node);
  for (int i = 1; i < node.output_size(); ++i)
    if (up.isUsed(node.output(i)))
      fail(node, "output '" + node.output(i) +
                     "' of training is used: not supported");
  while (node.output_size() > 1)
    node.mutable_output()->RemoveLast();
  bool spatial = intAttribute(node, "spatial", 1);
  removeAttribute(node, "spatial");
  if (spatial || node.input_size() < 5)
    return false;
  const ::onnx::TensorShapeProto *x = up.shapeOf(node.input(0)),
                                 *s = up.shapeOf(node.input(1));
  if (!x || !s)
    fail(node,
         "attribute 'spatial' is 0, and the rank of an input is not known");
  if (s->dim_size() != x->dim_size() - 1)
    fail(node, "attribute 'spatial' is 0, which wants a scale of rank " +
                   std::to_string(x->dim_size() - 1) + ", it has rank " +
                   std::to_string(s->dim_size()));
  if (s->dim_size() == 1)
    return false;
  normaliseElements(up, node);
  return true;
}

// Without training there is nothing to drop, and the ratio has no say. What the
// mask is then, no text before version 12 says, and runtimes differ.
void dropout(Upgrader &up, NodeProto &node, int64_t version) {
  if (version < 7)
    refuseTraining(node);
  removeAttribute(node, "ratio");
  if (node.output_size() < 2)
    return;
  if (up.isUsed(node.output(1)))
    fail(node, "output '" + node.output(1) +
                   "' (mask) of an old version: not supported");
  node.mutable_output()->RemoveLast();
}

// Scale and bias were given for a group, now for a channel: each is repeated
// channels / groups times.
void groupNormalization(Upgrader &up, NodeProto &node) {
  if (node.input_size() != 3) // the checker did not see it (see Check.cpp)
    fail(node, std::to_string(node.input_size()) + " inputs, expected 3");
  int64_t groups = intAttribute(node, "num_groups", 0);
  const ::onnx::TensorShapeProto *shape = up.shapeOf(node.input(0));
  std::string expand;
  if (groups > 0 && shape && shape->dim_size() > 1 &&
      shape->dim(1).has_dim_value()) {
    expand = up.constant(node, "repeat",
                         intTensor({1, shape->dim(1).dim_value() / groups}));
  } else {
    NodeProto &channels = up.insert(node, "Shape", "channels", {node.input(0)});
    setAttribute(channels, "start", (int64_t)1);
    setAttribute(channels, "end", (int64_t)2);
    std::string divisor = up.constant(node, "groups", intTensor({groups}));
    std::string each = up.insert(node, "Div", "channels_a_group",
                                 {channels.output(0), divisor})
                           .output(0);
    std::string one = up.constant(node, "one", intTensor({1}));
    NodeProto &concat = up.insert(node, "Concat", "repeat", {one, each});
    setAttribute(concat, "axis", (int64_t)0);
    expand = concat.output(0);
  }
  std::string column = up.constant(node, "column", intTensor({-1, 1}));
  std::string flat = up.constant(node, "flat", intTensor({-1}));
  for (int i = 1; i <= 2 && i < node.input_size(); ++i) {
    std::string what = i == 1 ? "scale" : "bias";
    std::string a =
        up.insert(node, "Reshape", what + "_column", {node.input(i), column})
            .output(0);
    std::string b =
        up.insert(node, "Expand", what + "_repeat", {a, expand}).output(0);
    node.set_input(i, up.insert(node, "Reshape", what, {b, flat}).output(0));
  }
}

// Up to version 12 the input counts as a matrix, cut at `axis`:
//   Reshape(Softmax(Flatten(x, axis), -1), Shape(x))
// which is Softmax(x, axis) when all later dimensions are 1 or there are none.
bool softmax(Upgrader &up, NodeProto &node) {
  int64_t axis = intAttribute(node, "axis", 1);
  if (const ::onnx::TensorShapeProto *shape = up.shapeOf(node.input(0))) {
    int64_t rank = shape->dim_size(), first = axis < 0 ? axis + rank : axis;
    bool direct = first >= 0 && first < rank;
    for (int64_t i = first + 1; direct && i < rank; ++i)
      direct = shape->dim(i).has_dim_value() && shape->dim(i).dim_value() == 1;
    if (direct) {
      setAttribute(node, "axis", first);
      return false;
    }
  }
  std::string x = node.input(0), y = node.output(0), where = locationName(node);
  NodeProto &flatten = up.insert(node, "Flatten", "matrix", {x});
  setAttribute(flatten, "axis", axis);
  std::string shape = up.insert(node, "Shape", "shape", {x}).output(0);
  std::string rows = up.unique(where + "/rows");
  node.set_input(0, flatten.output(0));
  node.set_output(0, rows);
  setAttribute(node, "axis", (int64_t)-1);
  up.append(node);
  NodeProto reshape;
  reshape.set_op_type("Reshape");
  reshape.set_name(where + "/reshape");
  reshape.add_input(rows);
  reshape.add_input(shape);
  reshape.add_output(y);
  // Reshape copies a dimension 0 from its input unless told otherwise.
  setAttribute(reshape, "allowzero", (int64_t)1);
  up.append(reshape);
  return true;
}

// The norm was a float.
void wholeNorm(NodeProto &node) {
  AttributeProto *p = findAttribute(node, "p");
  if (!p)
    return;
  float value = p->f();
  if (value != std::floor(value) || std::abs(value) > 1e6f)
    fail(node, "attribute 'p' is " + std::to_string(value) +
                   ": not supported, it must be whole");
  setAttribute(node, "p", (int64_t)value);
}

void gridSample(NodeProto &node) {
  AttributeProto *mode = findAttribute(node, "mode");
  if (mode && mode->s() == "bilinear")
    mode->set_s("linear");
  if (mode && mode->s() == "bicubic")
    mode->set_s("cubic");
}

} // namespace

bool upgradeNeural(Upgrader &up, NodeProto &node, int64_t version) {
  const std::string &op = node.op_type();
  if (version < 14 && op == "BatchNormalization")
    return batchNormalization(up, node, version);
  if (version < 13 &&
      (op == "Softmax" || op == "LogSoftmax" || op == "Hardmax"))
    return softmax(up, node);
  if (version < 12 && op == "Dropout")
    dropout(up, node, version);
  else if (version < 21 && op == "GroupNormalization")
    groupNormalization(up, node);
  else if (version < 2 && (op == "LpPool" || op == "GlobalLpPool"))
    wholeNorm(node);
  else if (version < 7 && (op == "RNN" || op == "GRU" || op == "LSTM"))
    removeAttribute(node,
                    "output_sequence"); // the outputs that have a name say it
  else if (version < 16 && op == "RoiAlign")
    setAttribute(node, "coordinate_transformation_mode",
                 std::string("output_half_pixel"));
  else if (version < 20 && op == "GridSample")
    gridSample(node);
  return false;
}

} // namespace tessera::onnx_import

// Operators that move elements: shapes, axes, lengths and scales that were
// attributes.
#include "compiler/Import/Upgrade/Upgrader.h"

namespace tessera::onnx_import {

namespace {

using T = TensorProto;

void reshape(Upgrader &up, NodeProto &node) {
  if (!findAttribute(node, "shape"))
    fail(node, "attribute 'shape' is missing");
  up.intsToInput(node, "shape", 1);
}

void split(Upgrader &up, NodeProto &node, int64_t version) {
  if (version < 2) {
    if (!findAttribute(node, "axis"))
      fail(node, "attribute 'axis' is missing, and this version has no "
                 "default; set it");
    if (node.input_size() > 1 && findAttribute(node, "split"))
      fail(node,
           "lengths are given twice, by attribute 'split' and by an input");
    if (node.input_size() > 1) { // lengths of the type of what is split
      NodeProto &cast = up.insert(node, "Cast", "split", {node.input(1)});
      setAttribute(cast, "to", (int64_t)T::INT64);
      node.set_input(1, cast.output(0));
    }
  }
  up.intsToInput(node, "split", 1);
  if (node.input_size() < 2)
    setAttribute(node, "num_outputs", (int64_t)node.output_size());
}

void slice(Upgrader &up, NodeProto &node) {
  up.intsToInput(node, "starts", 1);
  up.intsToInput(node, "ends", 2);
  up.intsToInput(node, "axes", 3);
}

void pad(Upgrader &up, NodeProto &node) {
  AttributeProto *value = findAttribute(node, "value");
  float number = value ? value->f() : 0;
  removeAttribute(node, "value");
  if (AttributeProto *paddings = findAttribute(node, "paddings")) // version 1
    paddings->set_name("pads");
  up.intsToInput(node, "pads", 1);
  if (number != 0)
    setInput(node, 2, up.scalarLike(node, "value", number, node.input(0)));
}

// Inputs were the number of copies and the axis along which they lie.
void tile(Upgrader &up, NodeProto &node) {
  const ::onnx::TensorShapeProto *x = up.shapeOf(node.input(0));
  std::optional<double> axis = up.constantNumber(node.input(2));
  if (!axis)
    fail(node,
         "input 'axis' of this version must be a constant of one element");
  if (!x)
    fail(node, "the rank of input '" + node.input(0) + "' is not known");
  int64_t rank = x->dim_size(), at = (int64_t)*axis;
  if (at < 0 || at >= rank)
    fail(node, "input 'axis' is " + std::to_string(at) + ", the rank is " +
                   std::to_string(rank));
  std::string repeats;
  if (std::optional<double> copies = up.constantNumber(node.input(1))) {
    std::vector<int64_t> values(rank, 1);
    values[at] = (int64_t)*copies;
    repeats = up.constant(node, "repeats", intTensor(values));
  } else {
    NodeProto &cast = up.insert(node, "Cast", "tiles", {node.input(1)});
    setAttribute(cast, "to", (int64_t)T::INT64);
    std::string one = up.constant(node, "one", intTensor({1}));
    std::string copy =
        up.insert(node, "Reshape", "copies", {cast.output(0), one}).output(0);
    std::vector<std::string> parts(rank, one);
    parts[at] = copy;
    NodeProto &concat = up.insert(node, "Concat", "repeats", parts);
    setAttribute(concat, "axis", (int64_t)0);
    repeats = concat.output(0);
  }
  node.mutable_input()->RemoveLast();
  node.set_input(1, repeats);
}

// (x + 0.5) / scale, which version 13 dropped, is half a pixel more than
// half_pixel. Rounded, that is a different rounding of half_pixel: floor(v +
// 0.5) prefers the upper of two, and v + 0.5 of which the lower is preferred is
// ceil(v).
void dropTfHalfPixel(NodeProto &node) {
  std::string mode = stringAttribute(node, "mode", "nearest");
  std::string rounding =
      stringAttribute(node, "nearest_mode", "round_prefer_floor");
  bool prefersFloor = rounding == "round_prefer_floor";
  if (mode != "nearest" || (rounding != "floor" && !prefersFloor))
    fail(node,
         "attribute 'coordinate_transformation_mode' is 'tf_half_pixel_for_nn' "
         "with mode '" +
             mode + "'" +
             (mode == "nearest" ? " and nearest_mode '" + rounding + "'" : "") +
             ": not supported");
  setAttribute(node, "coordinate_transformation_mode",
               std::string("half_pixel"));
  setAttribute(node, "nearest_mode",
               std::string(prefersFloor ? "ceil" : "round_prefer_ceil"));
}

void resize(Upgrader &up, NodeProto &node, int64_t version) {
  if (version < 11) { // X, scales
    setInput(node, 2, node.input(1));
    node.set_input(1, "");
    setAttribute(node, "coordinate_transformation_mode",
                 std::string("asymmetric"));
    setAttribute(node, "nearest_mode", std::string("floor"));
    return;
  }
  if (version < 13 && stringAttribute(node, "coordinate_transformation_mode",
                                      "") == "tf_half_pixel_for_nn")
    dropTfHalfPixel(node);
  // Writers pass empty tensors for absent inputs.
  for (int i = 1; i < node.input_size(); ++i)
    if (const auto *dims = up.constantDims(node.input(i));
        dims && *dims == std::vector<int64_t>{0})
      node.set_input(i, "");
  while (node.input_size() && node.input(node.input_size() - 1).empty())
    node.mutable_input()->RemoveLast();
}

// Scales were two attributes, then one, then an input.
void upsample(Upgrader &up, NodeProto &node, int64_t version) {
  node.set_op_type("Resize");
  T t;
  t.set_data_type(T::FLOAT);
  if (version < 7) {
    t.add_float_data(1);
    t.add_float_data(1);
    for (const char *name : {"height_scale", "width_scale"})
      if (AttributeProto *scale = findAttribute(node, name)) {
        t.add_float_data(scale->f());
        removeAttribute(node, name);
      }
  } else if (AttributeProto *scales = findAttribute(node, "scales")) {
    *t.mutable_float_data() = scales->floats();
    removeAttribute(node, "scales");
  }
  if (version < 9) {
    t.add_dims(t.float_data_size());
    setInput(node, 1, up.constant(node, "scales", t));
  }
  if (stringAttribute(node, "mode", "") == "bilinear")
    setAttribute(node, "mode", std::string("linear"));
  resize(up, node, 10);
}

} // namespace

bool upgradeMovement(Upgrader &up, NodeProto &node, int64_t version) {
  const std::string &op = node.op_type();
  if (version < 5 && op == "Reshape")
    reshape(up, node);
  else if (version < 4 && op == "Concat" && !findAttribute(node, "axis"))
    setAttribute(node, "axis", (int64_t)1);
  else if (version < 18 && op == "Split")
    split(up, node, version);
  else if (version < 10 && op == "Slice")
    slice(up, node);
  else if (version < 11 && op == "Pad")
    pad(up, node);
  else if (version < 6 && op == "Tile")
    tile(up, node);
  else if (version < 13 && (op == "Squeeze" || op == "Unsqueeze"))
    up.intsToInput(node, "axes", 1);
  else if (op == "Resize")
    resize(up, node, version);
  else if (op == "Upsample")
    upsample(up, node, version);
  return false;
}

} // namespace tessera::onnx_import

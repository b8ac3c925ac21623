// Elementwise operators: the broadcasting of the first versions, bounds and
// types that were attributes, defaults that got more digits.
#include "compiler/Import/Upgrade/Upgrader.h"

#include <limits>

namespace tessera::onnx_import {

namespace {

using Shape = ::onnx::TensorShapeProto;

std::string text(const Shape &shape) {
  std::string s;
  for (auto &dim : shape.dim())
    s += (s.empty() ? "" : ",") +
         (dim.has_dim_value() ? std::to_string(dim.dim_value()) : "?");
  return "[" + s + "]";
}

// Whether two shapes cannot be the same.
bool differ(const Shape &a, const Shape &b) {
  if (a.dim_size() != b.dim_size())
    return true;
  for (int i = 0; i < a.dim_size(); ++i)
    if (a.dim(i).has_dim_value() && b.dim(i).has_dim_value() &&
        a.dim(i).dim_value() != b.dim(i).dim_value())
      return true;
  return false;
}

bool isOneElement(const Shape &shape) {
  for (auto &dim : shape.dim())
    if (!dim.has_dim_value() || dim.dim_value() != 1)
      return false;
  return true;
}

bool isBinary(llvm::StringRef op) {
  static constexpr const char *kOps[] = {"Add",   "Sub",     "Mul", "Div",
                                         "Pow",   "And",     "Or",  "Xor",
                                         "Equal", "Greater", "Less"};
  return llvm::is_contained(kOps, op);
}

// Before version 7 the second operand had the first one's shape, or with
// `broadcast` a contiguous part of it: the last dimensions, or those from
// `axis` on, which are then followed by others:
//   Add<broadcast=1, axis=1>(A : 2x3x4x5, B : 3x4)  ->  Add(A, Unsqueeze(B,
//   [2]))
void limitedBroadcast(Upgrader &up, NodeProto &node) {
  bool broadcast = intAttribute(node, "broadcast", 0);
  AttributeProto *a = findAttribute(node, "axis");
  std::optional<int64_t> axis = a ? std::optional(a->i()) : std::nullopt;
  removeAttribute(node, "broadcast");
  removeAttribute(node, "axis");
  const Shape *first = up.shapeOf(node.input(0)),
              *second = up.shapeOf(node.input(1));
  if (!broadcast) {
    if (first && second && differ(*first, *second))
      fail(node, "operands of shapes " + text(*first) + " and " +
                     text(*second) +
                     " without attribute 'broadcast'; set it to 1");
    return;
  }
  if (second && isOneElement(*second) &&
      (!first || second->dim_size() <= first->dim_size()))
    return;
  if (first && second && second->dim_size() > first->dim_size())
    fail(node, "operand of shape " + text(*second) +
                   " cannot be broadcast to " + text(*first));
  if (!axis)
    return;
  if (!first || !second)
    fail(node, "cannot tell what attribute 'axis' = " + std::to_string(*axis) +
                   " means: the rank of an operand is not known");
  int64_t behind = first->dim_size() - *axis - second->dim_size();
  if (*axis < 0 || behind < 0)
    fail(node, "attribute 'axis' is " + std::to_string(*axis) +
                   ", but operands have shapes " + text(*first) + " and " +
                   text(*second));
  if (!behind)
    return;
  std::vector<int64_t> axes;
  for (int64_t i = 0; i < behind; ++i)
    axes.push_back(second->dim_size() + i);
  std::string list = up.constant(node, "axes", intTensor(axes));
  setInput(
      node, 1,
      up.insert(node, "Unsqueeze", "operand", {node.input(1), list}).output(0));
}

// Max, Min, Sum and Mean learned to broadcast in version 8.
void requireEqualShapes(Upgrader &up, NodeProto &node) {
  const Shape *first = up.shapeOf(node.input(0));
  for (int i = 1; i < node.input_size(); ++i)
    if (const Shape *other = up.shapeOf(node.input(i));
        first && other && differ(*first, *other))
      fail(node, "operands of shapes " + text(*first) + " and " + text(*other) +
                     ": this version wants one shape; operator set 8 or above "
                     "broadcasts");
}

// A missing C is of version 11, a C that has not the result's shape wants
// `broadcast`.
void gemm(Upgrader &up, NodeProto &node) {
  bool broadcast = intAttribute(node, "broadcast", 0);
  removeAttribute(node, "broadcast");
  const Shape *a = up.shapeOf(node.input(0)), *b = up.shapeOf(node.input(1));
  const Shape *c = node.input_size() > 2 ? up.shapeOf(node.input(2)) : nullptr;
  if (broadcast || !a || !b || !c || a->dim_size() != 2 || b->dim_size() != 2)
    return;
  Shape result;
  *result.add_dim() = a->dim(intAttribute(node, "transA", 0) ? 1 : 0);
  *result.add_dim() = b->dim(intAttribute(node, "transB", 0) ? 0 : 1);
  if (differ(result, *c))
    fail(node, "input C of shape " + text(*c) + ", the result has " +
                   text(result) +
                   ", without attribute 'broadcast'; set it to 1");
}

// Bounds were attributes, and a missing one stood for the range of a finite
// float.
void clip(Upgrader &up, NodeProto &node) {
  constexpr float kTop = std::numeric_limits<float>::max();
  int type = up.elementTypeOf(node.input(0));
  for (auto [name, index, fallback] :
       {std::tuple("min", 1, -kTop), std::tuple("max", 2, kTop)}) {
    AttributeProto *a = findAttribute(node, name);
    float value = a ? a->f() : fallback;
    removeAttribute(node, name);
    // Half precision has no such numbers.
    if (std::abs(value) == kTop &&
        (type == TensorProto::FLOAT16 || type == TensorProto::BFLOAT16))
      continue;
    setInput(node, index, up.scalarLike(node, name, value, node.input(0)));
  }
}

// Before version 7 a slope of several elements was one a channel (axis 1), not
// broadcast from the trailing side.
void prelu(Upgrader &up, NodeProto &node) {
  const Shape *slope = up.shapeOf(node.input(1));
  if (slope && (slope->dim_size() != 1 || slope->dim(0).dim_value() == 1))
    return;
  const Shape *x = up.shapeOf(node.input(0));
  if (!slope || !x)
    fail(node,
         "cannot tell along which axis the slope lies: a shape is not known");
  std::vector<int64_t> axes;
  for (int i = 1; i + 1 < x->dim_size(); ++i)
    axes.push_back(i);
  if (axes.empty())
    return;
  std::string list = up.constant(node, "slope_axes", intTensor(axes));
  setInput(
      node, 1,
      up.insert(node, "Unsqueeze", "slope", {node.input(1), list}).output(0));
}

// The type was a word.
void cast(NodeProto &node) {
  std::string word = stringAttribute(node, "to", "");
  TensorProto::DataType type;
  if (!TensorProto::DataType_Parse(word, &type) ||
      type == TensorProto::UNDEFINED)
    fail(node, "attribute 'to' is '" + word + "', which is no type");
  setAttribute(node, "to", (int64_t)type);
}

} // namespace

bool upgradeElementwise(Upgrader &up, NodeProto &node, int64_t version) {
  const std::string &op = node.op_type();
  if (version < 7 && isBinary(op))
    limitedBroadcast(up, node);
  else if (version < 8 &&
           (op == "Max" || op == "Min" || op == "Sum" || op == "Mean"))
    requireEqualShapes(up, node);
  else if (version < 7 && op == "Gemm")
    gemm(up, node);
  else if (version < 11 && op == "Clip")
    clip(up, node);
  else if (version < 7 && op == "PRelu")
    prelu(up, node);
  else if (version < 6 && op == "Cast")
    cast(node);
  else if (version < 6 && op == "Selu")
    for (auto [name, value] :
         {std::pair("alpha", 1.6732f), std::pair("gamma", 1.0507f)})
      if (!findAttribute(node, name))
        setAttribute(node, name, value);
  return false;
}

} // namespace tessera::onnx_import

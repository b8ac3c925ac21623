// Operators that reduce along axes or pick elements by index.
#include "compiler/Import/Upgrade/Upgrader.h"

namespace tessera::onnx_import {

namespace {

using T = TensorProto;

bool isUnsigned(int type) {
  return type == T::UINT8 || type == T::UINT16 || type == T::UINT32 ||
         type == T::UINT64;
}

// Before version 11 an index below 0 hit nothing, now it counts from the end.
// One that is `depth` hits nothing in every version:
//   OneHot(Where(indices < 0, depth, indices), depth, values)
void oneHot(Upgrader &up, NodeProto &node) {
  if (isUnsigned(up.elementTypeOf(node.input(0))))
    return;
  NodeProto &indices = up.insert(node, "Cast", "indices", {node.input(0)});
  setAttribute(indices, "to", (int64_t)T::INT64);
  NodeProto &depth = up.insert(node, "Cast", "depth", {node.input(1)});
  setAttribute(depth, "to", (int64_t)T::INT64);
  std::string none = up.constant(node, "no_dims", intTensor({}));
  std::string scalar =
      up.insert(node, "Reshape", "depth_scalar", {depth.output(0), none})
          .output(0);
  std::string zero = up.constant(node, "zero", intTensor({0}, /*scalar=*/true));
  std::string below =
      up.insert(node, "Less", "negative", {indices.output(0), zero}).output(0);
  node.set_input(
      0, up.insert(node, "Where", "hits", {below, scalar, indices.output(0)})
             .output(0));
}

void topK(Upgrader &up, NodeProto &node) {
  int64_t k = intAttribute(node, "k", 0);
  removeAttribute(node, "k");
  setInput(node, 1, up.constant(node, "k", intTensor({k})));
}

void dft(Upgrader &up, NodeProto &node) {
  int64_t axis = intAttribute(node, "axis", 1);
  removeAttribute(node, "axis");
  setInput(node, 2,
           up.constant(node, "axis", intTensor({axis}, /*scalar=*/true)));
}

} // namespace

bool upgradeIndexing(Upgrader &up, NodeProto &node, int64_t version) {
  const std::string &op = node.op_type();
  if (llvm::StringRef(op).starts_with("Reduce") &&
      version < (op == "ReduceSum" ? 13 : 18))
    up.intsToInput(node, "axes", 1);
  else if (version < 11 && op == "OneHot")
    oneHot(up, node);
  else if (version < 10 && op == "TopK")
    topK(up, node);
  else if (version < 20 && op == "DFT")
    dft(up, node);
  else if (op == "Scatter")
    node.set_op_type("ScatterElements");
  return false;
}

} // namespace tessera::onnx_import

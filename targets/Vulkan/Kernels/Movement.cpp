// Transposition, layout change, joining, cutting, repeating: boxes.
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "targets/Vulkan/Kernels/Boxes.h"

using namespace mlir;

namespace tessera::vulkan {
namespace {

SmallVector<BoxAxis> axesOf(ArrayRef<int64_t> sizes, ArrayRef<int64_t> to,
                            ArrayRef<int64_t> from) {
  SmallVector<BoxAxis> axes;
  for (unsigned k = 0; k < sizes.size(); ++k)
    axes.push_back({sizes[k], to[k], from[k]});
  return axes;
}

LogicalResult noOperand(Emitter &e) {
  return e.reasons.no() << "an operand that is embedded";
}

/// The same elements, perhaps in another layout.
LogicalResult emitIdentity(tsr::DispatchOp op, Emitter &e) {
  Buffer *from = rootBuffer(op, e, 0), *to = e.out[0].get();
  if (failed(requireAlone(op, e)))
    return failure();
  if (!from || from->element != to->element)
    return noOperand(e);
  Box box{to, from, {}};
  if (from->dims == to->dims)
    box.axes = axesOf(to->dims, to->strides, from->strides);
  else
    box.axes = {{to->count, 1, 1}};
  copyBoxes(e, box);
  return success();
}
Register identity({"onnx.Identity", "onnx.Reshape", "onnx.Flatten",
                   "onnx.Squeeze", "onnx.Unsqueeze"},
                  emitIdentity);

LogicalResult emitTranspose(tsr::DispatchOp op, Emitter &e) {
  Buffer *from = rootBuffer(op, e, 0), *to = e.out[0].get();
  if (failed(requireAlone(op, e)))
    return failure();
  if (!from)
    return noOperand(e);
  SmallVector<int64_t> perm = onnx::getInts(op.getRootOp(), "perm");
  if (perm.empty())
    for (int64_t k = from->rank(); k-- > 0;)
      perm.push_back(k);
  Box box{to, from, {}};
  for (unsigned k = 0; k < to->rank(); ++k)
    box.axes.push_back({to->dims[k], to->strides[k], from->strides[perm[k]]});
  copyBoxes(e, box);
  return success();
}
Register transpose({"onnx.Transpose"}, emitTranspose);

LogicalResult emitConcat(tsr::DispatchOp op, Emitter &e) {
  Operation *root = op.getRootOp();
  Buffer *to = e.out[0].get();
  if (failed(requireAlone(op, e)))
    return failure();
  int64_t axis = axisOf(root, "axis", 0, to->rank()), at = 0;
  SmallVector<Box> boxes;
  for (unsigned i = 0, n = onnx::getNumOperandPositions(root); i < n; ++i) {
    Buffer *from = rootBuffer(op, e, i);
    if (!from)
      return noOperand(e);
    if (from->count)
      boxes.push_back({to, from, axesOf(from->dims, to->strides, from->strides),
                       at * to->strides[axis], 0});
    at += from->dims[axis];
  }
  copyBoxes(e, boxes);
  return success();
}
Register concat({"onnx.Concat"}, emitConcat);

LogicalResult emitSplit(tsr::DispatchOp op, Emitter &e) {
  Operation *root = op.getRootOp();
  Buffer *from = rootBuffer(op, e, 0);
  if (!from)
    return noOperand(e);
  int64_t axis = axisOf(root, "axis", 0, from->rank()), at = 0;
  SmallVector<Box> boxes;
  // Every result of an operator with several is one of the dispatch.
  if (e.out.size() != onnx::getNumResultPositions(root) ||
      failed(requireAlone(op, e)))
    return e.reasons.no() << "a Split with results that nothing reads";
  for (auto &to : e.out) {
    if (to->count)
      boxes.push_back({to.get(), from,
                       axesOf(to->dims, to->strides, from->strides), 0,
                       at * from->strides[axis]});
    at += to->dims[axis];
  }
  copyBoxes(e, boxes);
  return success();
}
Register split({"onnx.Split"}, emitSplit);

LogicalResult emitSlice(tsr::DispatchOp op, Emitter &e) {
  Operation *root = op.getRootOp();
  Buffer *from = rootBuffer(op, e, 0), *to = e.out[0].get();
  if (failed(requireAlone(op, e)))
    return failure();
  if (!from)
    return noOperand(e);
  auto ints = [&](unsigned position) {
    ElementsAttr c = rootConstant(op, position);
    return c ? onnx::getInts(c) : std::nullopt;
  };
  auto starts = ints(1), axes = ints(3), steps = ints(4);
  bool hasAxes = static_cast<bool>(onnx::getOptionalOperand(root, 3));
  bool hasSteps = static_cast<bool>(onnx::getOptionalOperand(root, 4));
  if (!starts || (hasAxes && !axes) || (hasSteps && !steps))
    return e.reasons.no()
           << "a Slice whose starts, axes or steps only the run knows";
  Box box{to, from, axesOf(to->dims, to->strides, from->strides)};
  for (unsigned i = 0; i < starts->size(); ++i) {
    int64_t axis = hasAxes ? (*axes)[i] : i, step = hasSteps ? (*steps)[i] : 1;
    axis += axis < 0 ? from->rank() : 0;
    int64_t size = from->dims[axis], start = (*starts)[i];
    start = std::clamp<int64_t>(start < 0 ? start + size : start, 0,
                                step < 0 ? size - 1 : size);
    box.fromBase += start * from->strides[axis];
    box.axes[axis].from *= step;
  }
  copyBoxes(e, box);
  return success();
}
Register slice({"onnx.Slice"}, emitSlice);

LogicalResult emitExpand(tsr::DispatchOp op, Emitter &e) {
  Buffer *from = rootBuffer(op, e, 0), *to = e.out[0].get();
  if (failed(requireAlone(op, e)))
    return failure();
  if (!from)
    return noOperand(e);
  unsigned lead = to->rank() - from->rank();
  Box box{to, from, {}};
  for (unsigned k = 0; k < to->rank(); ++k)
    box.axes.push_back(
        {to->dims[k], to->strides[k],
         k < lead || from->dims[k - lead] == 1 ? 0 : from->strides[k - lead]});
  copyBoxes(e, box);
  return success();
}
Register expand({"onnx.Expand"}, emitExpand);

LogicalResult emitTile(tsr::DispatchOp op, Emitter &e) {
  Buffer *from = rootBuffer(op, e, 0), *to = e.out[0].get();
  if (failed(requireAlone(op, e)))
    return failure();
  if (!from)
    return noOperand(e);
  Box box{to, from, {}};
  for (unsigned k = 0; k < to->rank(); ++k) {
    int64_t size = from->dims[k];
    box.axes.push_back({to->dims[k] / size, size * to->strides[k], 0});
    box.axes.push_back({size, to->strides[k], from->strides[k]});
  }
  copyBoxes(e, box);
  return success();
}
Register tile({"onnx.Tile"}, emitTile);

/// The depth is (block row, block column, channel) for DCR and (channel, block
/// row, block column) for CRD.
LogicalResult emitBlocks(tsr::DispatchOp op, Emitter &e) {
  Operation *root = op.getRootOp();
  Buffer *from = rootBuffer(op, e, 0), *to = e.out[0].get();
  if (failed(requireAlone(op, e)))
    return failure();
  if (!from)
    return noOperand(e);
  bool toSpace = root->getName().getStringRef() == "onnx.DepthToSpace";
  bool dcr = onnx::getString(root, "mode", "DCR") == "DCR";
  int64_t block = onnx::getInt(root, "blocksize", 1);
  Buffer *deep = toSpace ? from : to, *wide = toSpace ? to : from;
  int64_t channels = wide->dims[1], ds = deep->strides[1];
  int64_t row = dcr ? ds * channels * block : ds * block,
          column = dcr ? ds * channels : ds;
  struct Part {
    int64_t size, deep, wide;
  } parts[] = {{wide->dims[0], deep->strides[0], wide->strides[0]},
               {channels, dcr ? ds : ds * block * block, wide->strides[1]},
               {deep->dims[2], deep->strides[2], wide->strides[2] * block},
               {block, row, wide->strides[2]},
               {deep->dims[3], deep->strides[3], wide->strides[3] * block},
               {block, column, wide->strides[3]}};
  Box box{to, from, {}};
  for (const Part &p : parts)
    box.axes.push_back(toSpace ? BoxAxis{p.size, p.wide, p.deep}
                               : BoxAxis{p.size, p.deep, p.wide});
  copyBoxes(e, box);
  return success();
}
Register blocks({"onnx.DepthToSpace", "onnx.SpaceToDepth"}, emitBlocks);

} // namespace
} // namespace tessera::vulkan

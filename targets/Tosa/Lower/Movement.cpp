// Operators that move values without computing: any element type. Under int8
// their results mean what their operands mean.
#include "targets/Tosa/Lower/Lowerer.h"

using namespace mlir;

namespace tessera::tosa {
namespace {

/// Any operator whose result has the same values in row-major order.
LogicalResult lowerReshape(Operation *op, Lowerer &l) {
  Value result = op->getResult(0);
  if (Lowerer::rankOf(op->getOperand(0)) == 0 || Lowerer::rankOf(result) == 0)
    return l.no() << "of rank 0";
  l.set(result, l.reshape(l.get(op->getOperand(0)), Lowerer::shapeOf(result)));
  return success();
}

/// No operator at all: the same tensor under other names of its axes.
LogicalResult lowerTranspose(Operation *op, Lowerer &l) {
  Value in = op->getOperand(0);
  int64_t rank = Lowerer::rankOf(in);
  SmallVector<int64_t> perm = onnx::getInts(op, "perm");
  if (perm.empty())
    for (int64_t i = rank - 1; i >= 0; --i)
      perm.push_back(i);
  Perm stored = l.order(in), inverse = inversePerm(perm), named;
  for (int64_t axis : stored)
    named.push_back(inverse[axis]);
  l.set(op->getResult(0), l.get(in, stored), named);
  return success();
}

LogicalResult lowerConcat(Operation *op, Lowerer &l) {
  Value result = op->getResult(0);
  int64_t rank = Lowerer::rankOf(result), axis = onnx::getInt(op, "axis");
  axis += axis < 0 ? rank : 0;
  auto [parts, perm] = l.align(llvm::to_vector(op->getOperands()), rank);
  if (llvm::is_contained(parts, Value()))
    return failure();
  for (Value v : parts)
    if (Lowerer::typeOf(v).getElementType() != Lowerer::typeOf(parts[0]).getElementType())
      return l.no() << "joins integers and a float constant";
  l.set(result, l.concat(parts, inversePerm(perm)[axis]), perm);
  return success();
}

/// Every step-th of `size` positions along an axis: the axis is folded to
/// [size, step] and the first column kept.
Value strided(Lowerer &l, Value x, int64_t axis, int64_t step, int64_t size) {
  SmallVector<int64_t> dims(Lowerer::shapeOf(x)), zero(dims.size(), 0), after(dims.size(), 0);
  after[axis] = size * step - dims[axis];
  x = l.pad(x, zero, after, 0);
  dims.insert(dims.begin() + axis + 1, step);
  dims[axis] = size;
  x = l.reshape(x, dims);
  dims[axis + 1] = 1;
  x = l.slice(x, SmallVector<int64_t>(dims.size(), 0), dims);
  dims.erase(dims.begin() + axis + 1);
  return l.reshape(x, dims);
}

/// [start, start + step, ...) of `count` positions on one axis of x.
FailureOr<Value> sliceAxis(Lowerer &l, Value x, int64_t axis, int64_t start, int64_t step, int64_t count) {
  int64_t size = Lowerer::shapeOf(x)[axis];
  if (step < 0) {
    x = l.op("reverse", x, Lowerer::typeOf(x), l.axis(axis));
    start = size - 1 - start;
    step = -step;
  }
  SmallVector<int64_t> from(Lowerer::rankOf(x), 0), dims(Lowerer::shapeOf(x));
  from[axis] = start;
  dims[axis] = (count - 1) * step + 1;
  x = l.slice(x, from, dims);
  if (step == 1 || count == 1)
    return x;
  if (Lowerer::rankOf(x) == 6)
    return LogicalResult(l.no() << "a step of " << step << " at rank 6");
  return strided(l, x, axis, step, count);
}

LogicalResult lowerSlice(Operation *op, Lowerer &l) {
  Value in = op->getOperand(0), result = op->getResult(0);
  int64_t rank = Lowerer::rankOf(in);
  auto starts = l.constantInts(op, 1);
  SmallVector<int64_t> axes = identityPerm(rank), steps(rank, 1);
  bool ok = starts.has_value();
  for (auto [position, list] : {std::pair(3u, &axes), std::pair(4u, &steps)})
    if (onnx::getOptionalOperand(op, position)) {
      auto given = l.constantInts(op, position);
      ok &= given.has_value();
      if (given)
        *list = *given;
    }
  if (!ok)
    return failure();
  Perm perm = l.order(in), where = inversePerm(perm);
  Value x = l.get(in, perm);
  for (size_t i = 0; i < starts->size(); ++i) {
    int64_t axis = axes[i] < 0 ? axes[i] + rank : axes[i], size = Lowerer::shapeOf(in)[axis], start = (*starts)[i];
    start = std::clamp<int64_t>(start < 0 ? start + size : start, 0, steps[i] < 0 ? size - 1 : size);
    auto y = sliceAxis(l, x, where[axis], start, steps[i], Lowerer::shapeOf(result)[axis]);
    if (failed(y))
      return failure();
    x = *y;
  }
  l.set(result, x, perm);
  return success();
}

LogicalResult lowerSplit(Operation *op, Lowerer &l) {
  Value in = op->getOperand(0);
  int64_t rank = Lowerer::rankOf(in), axis = onnx::getInt(op, "axis", 0);
  axis += axis < 0 ? rank : 0;
  Perm perm = l.order(in);
  int64_t at = inversePerm(perm)[axis];
  Value x = l.get(in, perm);
  SmallVector<int64_t> from(rank, 0), dims(Lowerer::shapeOf(x));
  for (Value result : op->getResults()) {
    dims[at] = Lowerer::shapeOf(result)[axis];
    l.set(result, l.slice(x, from, dims), perm);
    from[at] += dims[at];
  }
  return success();
}

LogicalResult lowerPad(Operation *op, Lowerer &l) {
  if (StringRef mode = onnx::getString(op, "mode", "constant"); mode != "constant")
    return l.no() << "mode is '" << mode << "'";
  Value in = op->getOperand(0), result = op->getResult(0);
  int64_t rank = Lowerer::rankOf(in);
  auto pads = l.constantInts(op, 1);
  SmallVector<int64_t> axes = identityPerm(rank);
  if (onnx::getOptionalOperand(op, 3)) {
    auto given = l.constantInts(op, 3);
    if (!given)
      return failure();
    axes = *given;
  }
  auto fill = l.constantScalar(op, 2, 0);
  if (!pads || !fill)
    return failure();
  if (isQuantised(l.precision)) { // the integer that means the fill
    auto it = l.scaled.find(in);
    if (it == l.scaled.end() || *fill != 0 || !it->second.plain())
      return l.no() << "of a quantised tensor with another value than 0";
    fill = (double)it->second.zeroPoint;
  }
  Perm perm = l.order(in), where = inversePerm(perm);
  Value x = l.get(in, perm);
  SmallVector<int64_t> before(rank, 0), after(rank, 0), from(rank, 0), dims(Lowerer::shapeOf(x));
  for (auto [i, a] : llvm::enumerate(axes)) {
    int64_t axis = where[a < 0 ? a + rank : a], first = (*pads)[i], last = (*pads)[axes.size() + i];
    from[axis] = std::max<int64_t>(-first, 0);
    dims[axis] -= from[axis] + std::max<int64_t>(-last, 0);
    before[axis] = std::max<int64_t>(first, 0);
    after[axis] = std::max<int64_t>(last, 0);
    if (dims[axis] <= 0)
      return l.no() << "crops all of axis " << a;
  }
  l.set(result, l.pad(l.slice(x, from, dims), before, after, *fill), perm);
  return success();
}

/// Along one axis: [outer, n, inner] by constant indices.
Value gatherAxis(Lowerer &l, Value x, int64_t axis, ArrayRef<int64_t> indices) {
  ArrayRef<int64_t> s = Lowerer::shapeOf(x);
  int64_t outer = onnx::elementCount(s.take_front(axis)), inner = onnx::elementCount(s.drop_front(axis + 1));
  int64_t n = s[axis], w = indices.size();
  HostTensor t(l.b.getI32Type(), {outer, w});
  t.mutableData();
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < w; ++i)
      t.setInteger(o * w + i, indices[i]);
  Value values = l.reshape(x, {outer, n, inner});
  return l.op("gather", {values, l.constant(t)}, Lowerer::typeOf(x).clone({outer, w, inner}));
}

LogicalResult lowerGather(Operation *op, Lowerer &l) {
  Value in = op->getOperand(0), result = op->getResult(0);
  int64_t rank = Lowerer::rankOf(in), axis = onnx::getInt(op, "axis", 0);
  axis += axis < 0 ? rank : 0;
  auto indices = l.constantInts(op, 1);
  if (!indices)
    return failure();
  if (Lowerer::rankOf(result) == 0)
    return l.no() << "result has rank 0";
  for (int64_t &i : *indices) {
    int64_t given = i, size = Lowerer::shapeOf(in)[axis];
    i += i < 0 ? size : 0;
    if (i < 0 || i >= size)
      return l.no() << "index " << given << " is outside of axis " << axis << " of size " << size;
  }
  Value x = l.get(in);
  bool consecutive = true;
  for (size_t i = 1; i < indices->size(); ++i)
    consecutive &= (*indices)[i] == (*indices)[i - 1] + 1;
  SmallVector<int64_t> from(rank, 0), dims(Lowerer::shapeOf(x));
  if (consecutive) {
    from[axis] = indices->front();
    dims[axis] = indices->size();
    x = l.slice(x, from, dims);
  } else if (Lowerer::typeOf(x).getElementType().isInteger(1)) {
    return l.no() << "of bool";
  } else {
    x = gatherAxis(l, x, axis, *indices);
  }
  l.set(result, l.reshape(x, Lowerer::shapeOf(result)));
  return success();
}

/// Expand and Tile: how often each axis repeats follows from the sizes.
LogicalResult lowerRepeat(Operation *op, Lowerer &l) {
  Value in = op->getOperand(0), result = op->getResult(0);
  int64_t rank = Lowerer::rankOf(result);
  auto [x, perm] = l.align({in}, rank);
  if (!x[0])
    return failure();
  RankedTensorType to = Lowerer::typeOf(result);
  SmallVector<int64_t> multiples;
  for (auto [i, d] : llvm::enumerate(Lowerer::shapeOf(x[0])))
    multiples.push_back(to.getDimSize(perm[i]) / d);
  l.set(result, l.tile(x[0], multiples), perm);
  return success();
}

LogicalResult lowerDepthToSpace(Operation *op, Lowerer &l) {
  int64_t k = onnx::getInt(op, "blocksize");
  StringRef mode = onnx::getString(op, "mode", "DCR");
  if (mode != "DCR" && mode != "CRD")
    return l.no() << "mode is '" << mode << "'";
  ArrayRef<int64_t> s = Lowerer::shapeOf(op->getOperand(0));
  Value x = l.get(op->getOperand(0));
  int64_t c = s[1] / (k * k);
  if (mode == "DCR")
    x = l.transpose(l.reshape(x, {s[0], k, k, c, s[2], s[3]}), {0, 3, 4, 1, 5, 2});
  else
    x = l.transpose(l.reshape(x, {s[0], c, k, k, s[2], s[3]}), {0, 1, 4, 2, 5, 3});
  l.set(op->getResult(0), l.reshape(x, Lowerer::shapeOf(op->getResult(0))));
  return success();
}

LogicalResult lowerSpaceToDepth(Operation *op, Lowerer &l) {
  int64_t k = onnx::getInt(op, "blocksize");
  if (StringRef mode = onnx::getString(op, "mode", "DCR"); mode != "DCR")
    return l.no() << "mode is '" << mode << "'";
  ArrayRef<int64_t> s = Lowerer::shapeOf(op->getOperand(0));
  Value x = l.reshape(l.get(op->getOperand(0)), {s[0], s[1], s[2] / k, k, s[3] / k, k});
  l.set(op->getResult(0), l.reshape(l.transpose(x, {0, 3, 5, 1, 2, 4}), Lowerer::shapeOf(op->getResult(0))));
  return success();
}

RegisterLowering reshapes({"Reshape", "Flatten", "Squeeze", "Unsqueeze"}, Domain::Both, Elements::Any,
                          {"allowzero", "axis"}, lowerReshape);
RegisterLowering transposes({"Transpose"}, Domain::Both, Elements::Any, {"perm"}, lowerTranspose);
RegisterLowering concats({"Concat"}, Domain::Float, Elements::Any, {"axis"}, lowerConcat);
RegisterLowering slices({"Slice"}, Domain::Both, Elements::Any, {}, lowerSlice);
RegisterLowering splits({"Split"}, Domain::Both, Elements::Any, {"axis", "num_outputs"}, lowerSplit);
RegisterLowering pads({"Pad"}, Domain::Both, Elements::Any, {"mode"}, lowerPad);
RegisterLowering gathers({"Gather"}, Domain::Both, Elements::Any, {"axis"}, lowerGather);
RegisterLowering repeats({"Expand", "Tile"}, Domain::Both, Elements::Any, {}, lowerRepeat);
RegisterLowering depthToSpace({"DepthToSpace"}, Domain::Both, Elements::Any, {"blocksize", "mode"},
                              lowerDepthToSpace);
RegisterLowering spaceToDepth({"SpaceToDepth"}, Domain::Both, Elements::Any, {"blocksize", "mode"},
                              lowerSpaceToDepth);

} // namespace
} // namespace tessera::tosa

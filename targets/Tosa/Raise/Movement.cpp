#include "targets/Tosa/Nearest.h"
#include "targets/Tosa/Raise/Raiser.h"

using namespace mlir;

namespace tessera::tosa {
namespace {

int64_t axisOf(Operation *op) { return op->getAttrOfType<IntegerAttr>("axis").getInt(); }

LogicalResult raiseReshape(Operation *op, Raiser &r) {
  Value result = op->getResult(0);
  Value x = r.get(op->getOperand(0));
  r.set(result, r.b.reshape(x, Raiser::shapeOf(result), result.getType()));
  return success();
}

/// Only another naming of the axes.
LogicalResult raiseTranspose(Operation *op, Raiser &r) {
  Value in = op->getOperand(0);
  Perm stored = r.order(in), named, perms;
  for (int32_t p : op->getAttrOfType<DenseI32ArrayAttr>("perms").asArrayRef())
    perms.push_back(p);
  Perm inverse = inversePerm(perms);
  for (int64_t axis : stored)
    named.push_back(inverse[axis]);
  r.set(op->getResult(0), r.get(in, stored), named);
  return success();
}

LogicalResult raiseConcat(Operation *op, Raiser &r) {
  Perm perm = r.order(op->getOperands());
  SmallVector<Value> parts;
  for (Value v : op->getOperands())
    parts.push_back(r.get(v, perm));
  Value result = op->getResult(0);
  r.set(result, r.b.op("Concat", parts, r.typeIn(result, perm), {r.b.i("axis", inversePerm(perm)[axisOf(op)])}), perm);
  return success();
}

LogicalResult raiseSlice(Operation *op, Raiser &r) {
  auto start = r.shapeValues(op->getOperand(1)), size = r.shapeValues(op->getOperand(2));
  if (!start || !size)
    return failure();
  Value in = op->getOperand(0), result = op->getResult(0);
  Perm perm = r.order(in);
  SmallVector<int64_t> starts, ends, axes;
  for (auto [i, p] : llvm::enumerate(perm))
    if ((*start)[p] != 0 || (*size)[p] != Raiser::shapeOf(in)[p]) {
      starts.push_back((*start)[p]);
      ends.push_back((*start)[p] + (*size)[p]);
      axes.push_back(i);
    }
  Value x = r.get(in, perm);
  if (!axes.empty())
    x = r.b.op("Slice", {x, r.b.ints(starts), r.b.ints(ends), r.b.ints(axes)}, r.typeIn(result, perm));
  r.set(result, x, perm);
  return success();
}

LogicalResult raisePad(Operation *op, Raiser &r) {
  auto pads = r.shapeValues(op->getOperand(1));
  auto fill = r.scalarOf(op->getOperand(2));
  if (!pads || !fill)
    return failure();
  Value in = op->getOperand(0), result = op->getResult(0);
  Perm perm = r.order(in);
  SmallVector<int64_t> front, back;
  for (int64_t p : perm) {
    front.push_back((*pads)[2 * p]);
    back.push_back((*pads)[2 * p + 1]);
  }
  front.append(back);
  Value value = r.b.scalar(Raiser::typeOf(in).getElementType(), *fill);
  r.set(result, r.b.op("Pad", {r.get(in, perm), r.b.ints(front), value}, r.typeIn(result, perm), {r.b.s("mode", "constant")}), perm);
  return success();
}

LogicalResult raiseTile(Operation *op, Raiser &r) {
  auto multiples = r.shapeValues(op->getOperand(1));
  if (!multiples)
    return failure();
  Value in = op->getOperand(0), result = op->getResult(0);
  Perm perm = r.order(in);
  SmallVector<int64_t> repeats;
  for (int64_t p : perm)
    repeats.push_back((*multiples)[p]);
  r.set(result, r.b.op("Tile", {r.get(in, perm), r.b.ints(repeats)}, r.typeIn(result, perm)), perm);
  return success();
}

LogicalResult raiseReverse(Operation *op, Raiser &r) {
  Value in = op->getOperand(0), result = op->getResult(0);
  Perm perm = r.order(in);
  Value x = r.get(in, perm);
  int64_t axis = inversePerm(perm)[axisOf(op)];
  r.set(result, r.b.op("Slice", {x, r.b.ints({-1}), r.b.ints({INT64_MIN}), r.b.ints({axis}), r.b.ints({-1})}, x.getType()), perm);
  return success();
}

/// Of indices that are the same for each batch.
LogicalResult raiseGather(Operation *op, Raiser &r) {
  Value in = op->getOperand(0), result = op->getResult(0);
  auto indices = r.constantOf(op->getOperand(1));
  if (!indices)
    return failure();
  int64_t n = indices->shape()[0], w = indices->shape()[1];
  SmallVector<int64_t> all = indices->integers(), row(all.begin(), all.begin() + w);
  for (int64_t i = 1; i < n; ++i)
    if (ArrayRef<int64_t>(all).slice(i * w, w) != ArrayRef<int64_t>(row))
      return failure();
  r.set(result, r.b.op("Gather", {r.get(in), r.b.ints(row)}, result.getType(), {r.b.i("axis", 1)}));
  return success();
}

LogicalResult raiseReduction(Operation *op, Raiser &r) {
  static const llvm::StringMap<StringRef> names = {{"reduce_sum", "ReduceSum"}, {"reduce_max", "ReduceMax"},
                                                   {"reduce_min", "ReduceMin"}, {"reduce_product", "ReduceProd"}};
  if (auto a = op->getAttrOfType<mlir::tosa::NanPropagationModeAttr>("nan_mode"))
    if (a.getValue() != mlir::tosa::NanPropagationMode::PROPAGATE)
      return failure();
  Value in = op->getOperand(0);
  Perm perm = r.order(in);
  int64_t axis = inversePerm(perm)[axisOf(op)];
  r.set(op->getResult(0), r.b.reduce(names.lookup(op->getName().stripDialect()), r.get(in, perm), {axis}, true), perm);
  return success();
}

LogicalResult raiseArgMax(Operation *op, Raiser &r) {
  Value in = op->getOperand(0), result = op->getResult(0);
  Type i64 = r.b.attrs().getI64Type();
  Value y = r.b.op("ArgMax", {r.get(in)}, Raiser::typeOf(result).clone(i64),
                   {r.b.i("axis", axisOf(op)), r.b.i("keepdims", 0)});
  r.set(result, r.b.cast(y, Raiser::typeOf(result).getElementType()));
  return success();
}

//===----------------------------------------------------------------------===//
// Resize
//===----------------------------------------------------------------------===//

struct Axis {
  int64_t in, out;
  Sampling at;
};

SmallVector<int64_t> positionsOf(const Axis &a) {
  SmallVector<int64_t> result;
  for (int64_t o = 0; o < a.out; ++o)
    result.push_back(nearestOf(a.at, o, a.in));
  return result;
}

bool isRepetition(ArrayRef<int64_t> positions, int64_t factor) {
  for (auto [o, i] : llvm::enumerate(positions))
    if (i != (int64_t)o / factor)
      return false;
  return true;
}

Value gatherAxis(Raiser &r, Value x, int64_t axis, ArrayRef<int64_t> positions) {
  SmallVector<int64_t> dims(Raiser::shapeOf(x));
  dims[axis] = positions.size();
  return r.b.op("Gather", {x, r.b.ints(positions)}, Raiser::typeOf(x).clone(dims), {r.b.i("axis", axis)});
}

/// ONNX's name for the positions (o * d + offset) / n; empty if it has none.
StringRef transformOf(const Axis &a) {
  auto [n, d, offset] = a.at;
  if (a.in == a.out && n == d && offset == 0)
    return "any";
  if (a.out * d == a.in * n)
    return 2 * offset == d - n ? "half_pixel" : offset == 0 ? "asymmetric" : "";
  return offset == 0 && (a.out - 1) * d == (a.in - 1) * n ? "align_corners" : "";
}

Value resizeOp(Raiser &r, Value x, RankedTensorType type, StringRef mode, StringRef transform) {
  HostTensor scales(r.b.attrs().getF32Type(), {4});
  scales.mutableData();
  for (int i = 0; i < 4; ++i)
    scales.setReal(i, (double)type.getDimSize(i) / Raiser::shapeOf(x)[i]);
  SmallVector<NamedAttribute> attrs{r.b.s("mode", mode), r.b.s("coordinate_transformation_mode", transform)};
  if (mode == "nearest")
    attrs.push_back(r.b.s("nearest_mode", "floor"));
  return r.b.op("Resize", {x, Value(), r.b.weight(scales)}, type, attrs);
}

LogicalResult raiseResize(Operation *op, Raiser &r) {
  auto scale = r.shapeValues(op->getOperand(1)), offset = r.shapeValues(op->getOperand(2));
  if (!scale || !offset)
    return failure();
  Value in = op->getOperand(0), result = op->getResult(0);
  Axis axes[2];
  for (int i = 0; i < 2; ++i)
    axes[i] = {Raiser::shapeOf(in)[i + 1], Raiser::shapeOf(result)[i + 1], {(*scale)[2 * i], (*scale)[2 * i + 1], (*offset)[i]}};
  Perm perm = channelsFirst(4);
  Value x = r.get(in, perm);
  RankedTensorType type = r.typeIn(result, perm);
  if (cast<mlir::tosa::ResizeOp>(op).getMode() == mlir::tosa::ResizeMode::NEAREST_NEIGHBOR) {
    SmallVector<int64_t> rows = positionsOf(axes[0]), columns = positionsOf(axes[1]);
    bool repeats = axes[0].out % axes[0].in == 0 && axes[1].out % axes[1].in == 0 &&
                   isRepetition(rows, axes[0].out / axes[0].in) && isRepetition(columns, axes[1].out / axes[1].in);
    r.set(result, repeats ? resizeOp(r, x, type, "nearest", "asymmetric")
                          : gatherAxis(r, gatherAxis(r, x, 2, rows), 3, columns), perm);
    return success();
  }
  StringRef p = transformOf(axes[0]), q = transformOf(axes[1]);
  if (p == "any")
    p = q == "any" ? "half_pixel" : q;
  if (q == "any")
    q = p;
  if (p.empty() || p != q || !isa<FloatType>(type.getElementType()))
    return failure();
  r.set(result, resizeOp(r, x, type, "linear", p), perm);
  return success();
}

RegisterRaise reshapes({"reshape"}, raiseReshape);
RegisterRaise transposes({"transpose"}, raiseTranspose);
RegisterRaise concats({"concat"}, raiseConcat);
RegisterRaise slices({"slice"}, raiseSlice);
RegisterRaise pads({"pad"}, raisePad);
RegisterRaise tiles({"tile"}, raiseTile);
RegisterRaise reverses({"reverse"}, raiseReverse);
RegisterRaise gathers({"gather"}, raiseGather);
RegisterRaise reductions({"reduce_sum", "reduce_max", "reduce_min", "reduce_product"}, raiseReduction);
RegisterRaise argMax({"argmax"}, raiseArgMax);
RegisterRaise resizes({"resize"}, raiseResize);

} // namespace
} // namespace tessera::tosa

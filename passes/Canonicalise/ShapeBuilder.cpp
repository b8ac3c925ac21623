// Operators over shapes that only a run knows, see Aggregates.h.
#include "passes/Canonicalise/Aggregates.h"

using namespace mlir;

namespace tessera::onnx {

RankedTensorType ShapeBuilder::open(int64_t rank, Type element) {
  return RankedTensorType::get(SmallVector<int64_t>(rank, ShapedType::kDynamic), element);
}

Value ShapeBuilder::shapeOf(Value x) {
  return op("Shape", {x}, RankedTensorType::get({rankedType(x).getRank()}, i64()));
}

Value ShapeBuilder::sizeOf(Value x, int64_t axis) {
  if (!rankedType(x).isDynamicDim(axis))
    return one(rankedType(x).getDimSize(axis));
  return op("Shape", {x}, RankedTensorType::get({1}, i64()), {i("start", axis), i("end", axis + 1)});
}

Value ShapeBuilder::flat(Value x) {
  RankedTensorType t = rankedType(x);
  if (t.getRank() == 1)
    return x;
  int64_t n = t.hasStaticShape() ? t.getNumElements() : ShapedType::kDynamic;
  return reshape(x, {-1}, t.clone(ArrayRef<int64_t>{n}));
}

Value ShapeBuilder::scalarOf(Value single) {
  return rankedType(single).getRank() == 0 ? single : reshape(single, {}, RankedTensorType::get({}, elementType(single)));
}

Value ShapeBuilder::vectorOf(Value single) {
  RankedTensorType t = rankedType(single);
  if (t.getRank() == 1 && t.getDimSize(0) == 1)
    return single;
  return reshape(single, {1}, RankedTensorType::get({1}, elementType(single)));
}

Value ShapeBuilder::slice(Value x, Value begin, Value end, int64_t axis) {
  SmallVector<int64_t> shape(rankedType(x).getShape());
  shape[axis] = ShapedType::kDynamic;
  return op("Slice", {x, begin, end, one(axis)}, rankedType(x).clone(shape));
}

Value ShapeBuilder::concat(ArrayRef<Value> list, int64_t axis) {
  if (list.size() == 1)
    return list[0];
  SmallVector<int64_t> shape(rankedType(list[0]).getShape());
  for (Value v : list.drop_front())
    for (auto [k, n] : llvm::enumerate(rankedType(v).getShape())) {
      bool open = ShapedType::isDynamic(n) || ShapedType::isDynamic(shape[k]);
      if ((int64_t)k == axis)
        shape[k] = open ? ShapedType::kDynamic : shape[k] + n;
      else if (ShapedType::isDynamic(shape[k]))
        shape[k] = n;
    }
  return op("Concat", list, rankedType(list[0]).clone(shape), {i("axis", axis)});
}

Value ShapeBuilder::gather(Value x, Value at, int64_t axis) {
  SmallVector<int64_t> shape(rankedType(x).getShape().take_front(axis));
  llvm::append_range(shape, rankedType(at).getShape());
  llvm::append_range(shape, rankedType(x).getShape().drop_front(axis + 1));
  return op("Gather", {x, at}, rankedType(x).clone(shape), {i("axis", axis)});
}

Value ShapeBuilder::reshapeTo(Value x, Value shape, int64_t rank) {
  return op("Reshape", {x, shape}, open(rank, elementType(x)), {i("allowzero", 1)});
}

Value ShapeBuilder::expandTo(Value x, Value shape, int64_t rank) {
  return op("Expand", {x, shape}, open(rank, elementType(x)));
}

Value ShapeBuilder::compare(StringRef name, Value x, Value y) {
  return op(name, {x, y}, broadcastType(x.getType(), y.getType(), i1()));
}

Value ShapeBuilder::where(Value condition, Value x, Value y) {
  RankedTensorType both = broadcastType(x.getType(), y.getType(), elementType(x));
  return op("Where", {condition, x, y}, broadcastType(condition.getType(), both, elementType(x)));
}

Value ShapeBuilder::range(Value count) {
  return op("Range", {ints({0}, true), scalarOf(count), ints({1}, true)}, open(1, i64()));
}

Value ShapeBuilder::exclusiveSums(Value v) {
  return op("CumSum", {v, ints({0}, true)}, v.getType(), {i("exclusive", 1)});
}

Value ShapeBuilder::demand(Value condition) {
  Value at = where(vectorOf(condition), one(0), one(1)); // 1 is out of range
  return gather(one(0), at);
}

} // namespace tessera::onnx

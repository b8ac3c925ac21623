// GatherND, and writes at computed places: ScatterElements, ScatterND,
// TensorScatter. An invocation computes one element of the result: it looks for
// the updates that are meant for it, in their order, so that duplicates give
// what the processor gives. An index out of range is nobody's.
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "targets/Cpu/Kernels/Combine.h"
#include "targets/Vulkan/Kernels/Boxes.h"

using namespace mlir;

namespace tessera::vulkan {
namespace {

/// Element `at` of an index tensor, counted from the end if it is negative. One
/// of 64 bits that 32 cannot hold is out of range.
Index wrapped(Emitter &e, Buffer &t, Index at, int64_t size) {
  Value v = e.load(t, at);
  if (v.getType().getIntOrFloatBitWidth() > 32) {
    Value low = arith::TruncIOp::create(e.b, e.loc, e.i32(), v);
    Value same =
        cpu::cmpI(e, arith::CmpIPredicate::eq, v,
                  arith::ExtSIOp::create(e.b, e.loc, v.getType(), low));
    v = e.pick(same, low, e.value(INT32_MAX));
  }
  return Index(e.pick(e.lt(Index(v), 0), e.value(e.add(Index(v), size)), v));
}

Value equals(Emitter &e, Index a, Index c) {
  return cpu::cmpI(e, arith::CmpIPredicate::eq, e.value(a), e.value(c));
}

std::optional<cpu::Combine> reductionOf(tsr::DispatchOp op, Emitter &e,
                                        Type element) {
  StringRef name = onnx::getString(op.getRootOp(), "reduction", "none");
  auto kind = llvm::StringSwitch<std::optional<cpu::Combine>>(name)
                  .Case("none", cpu::Combine::Replace)
                  .Case("add", cpu::Combine::Add)
                  .Case("mul", cpu::Combine::Mul)
                  .Case("max", cpu::Combine::Max)
                  .Case("min", cpu::Combine::Min)
                  .Default(std::nullopt);
  if (!kind)
    e.reasons.no() << "reduction " << name;
  return kind;
}

/// What an element becomes by an update that is read if it is `meant` for it.
Value updated(Emitter &e, cpu::Combine kind, Type element, Value old,
              Value meant, Value update) {
  Value v = update;
  if (kind != cpu::Combine::Replace) {
    v = cpu::combine(e, kind, element, old, update);
    if (isa<FloatType>(element))
      v = e.round(v, element);
  }
  return e.pick(meant, v, old);
}

LogicalResult emitScatterElements(tsr::DispatchOp op, Emitter &e) {
  Buffer *data = rootBuffer(op, e, 0), *indices = rootBuffer(op, e, 1),
         *updates = rootBuffer(op, e, 2), *out = e.out[0].get();
  if (failed(requireAlone(op, e)))
    return failure();
  if (!data || !indices || !updates)
    return e.reasons.no() << "a scatter with an embedded operand";
  int64_t axis = axisOf(op.getRootOp(), "axis", 0, data->rank());
  auto kind = reductionOf(op, e, data->element);
  if (!kind)
    return failure();
  for (unsigned k = 0; k < data->rank(); ++k)
    if ((k != axis && indices->dims[k] > data->dims[k]) ||
        indices->dims[k] > updates->dims[k])
      return e.reasons.no() << "more indices than places along axis " << k;
  e.gridLike(*out, out->dims, [&](Index, SmallVector<Index> at) {
    Value x = e.load(*data, e.offset(at, data->strides));
    Index to = e.offset(at, out->strides), own = at[axis];
    Value inside;
    for (unsigned k = 0; k < data->rank(); ++k)
      if (k != axis && indices->dims[k] < data->dims[k]) {
        inside = e.both(inside, e.lt(at[k], indices->dims[k]));
        at[k] = e.min(at[k], std::max<int64_t>(indices->dims[k] - 1, 0));
      }
    if (indices->count)
      x = e.loop(
          0, indices->dims[axis], 1, x, [&](Index i, ValueRange carried) {
            at[axis] = i;
            Index index = wrapped(e, *indices, e.offset(at, indices->strides),
                                  data->dims[axis]);
            Value update = e.load(*updates, e.offset(at, updates->strides));
            Value meant = e.both(inside, equals(e, index, own));
            return SmallVector<Value>{
                updated(e, *kind, out->element, carried[0], meant, update)};
          })[0];
    e.store(*out, to, x);
  });
  return success();
}
Register scatterElements({"onnx.ScatterElements", "onnx.Scatter"},
                         emitScatterElements);

LogicalResult emitScatterND(tsr::DispatchOp op, Emitter &e) {
  Buffer *data = rootBuffer(op, e, 0), *indices = rootBuffer(op, e, 1),
         *updates = rootBuffer(op, e, 2), *out = e.out[0].get();
  if (failed(requireAlone(op, e)))
    return failure();
  if (!data || !indices || !updates)
    return e.reasons.no() << "a scatter with an embedded operand";
  auto kind = reductionOf(op, e, data->element);
  if (!kind)
    return failure();
  unsigned lead = indices->rank() - 1;
  int64_t depth = indices->dims[lead], rows = 1;
  for (unsigned k = 0; k < lead; ++k)
    rows *= indices->dims[k];
  ArrayRef<int64_t> rowDims = ArrayRef(indices->dims).take_front(lead);
  e.gridLike(*out, out->dims, [&](Index, SmallVector<Index> at) {
    Value x = e.load(*data, e.offset(at, data->strides));
    // What of an update's position the element's own gives.
    Index inner = 0;
    for (unsigned k = depth; k < data->rank(); ++k)
      inner = e.add(inner, e.mul(at[k], updates->strides[lead + k - depth]));
    x = e.loop(0, rows, 1, x, [&](Index row, ValueRange carried) {
      SmallVector<Index> where = e.digits(row, rowDims);
      Index first =
          e.offset(where, ArrayRef(indices->strides).take_front(lead));
      Value meant = e.intConst(e.i1(), 1);
      for (int64_t d = 0; d < depth; ++d)
        meant = e.both(meant,
                       equals(e,
                              wrapped(e, *indices,
                                      e.add(first, d * indices->strides[lead]),
                                      data->dims[d]),
                              at[d]));
      Index from = e.add(
          e.offset(where, ArrayRef(updates->strides).take_front(lead)), inner);
      return SmallVector<Value>{updated(e, *kind, out->element, carried[0],
                                        meant, e.load(*updates, from))};
    })[0];
    e.store(*out, e.offset(at, out->strides), x);
  });
  return success();
}
Register scatterND({"onnx.ScatterND"}, emitScatterND);

/// Indices are clamped, as those of Gather.
LogicalResult emitGatherND(tsr::DispatchOp op, Emitter &e) {
  Buffer *data = rootBuffer(op, e, 0), *indices = rootBuffer(op, e, 1),
         *out = e.out[0].get();
  if (failed(requireAlone(op, e)))
    return failure();
  if (!data || !indices || data->count == 0)
    return e.reasons.no() << "a GatherND with an embedded or empty operand";
  unsigned batch = onnx::getInt(op.getRootOp(), "batch_dims", 0),
           lead = indices->rank() - 1;
  int64_t depth = indices->dims[lead];
  for (unsigned k = 0; k < batch; ++k)
    if (indices->dims[k] > data->dims[k])
      return e.reasons.no() << "more indices than places along axis " << k;
  e.gridLike(*out, out->dims, [&](Index, SmallVector<Index> at) {
    Index from = 0, first = 0;
    for (unsigned k = 0; k < lead; ++k)
      first = e.add(first, e.mul(at[k], indices->strides[k]));
    for (unsigned k = 0; k < batch; ++k)
      from = e.add(from, e.mul(at[k], data->strides[k]));
    for (int64_t d = 0; d < depth; ++d) {
      int64_t size = data->dims[batch + d];
      Index i =
          wrapped(e, *indices, e.add(first, d * indices->strides[lead]), size);
      i = e.min(e.max(i, 0), size - 1);
      from = e.add(from, e.mul(i, data->strides[batch + d]));
    }
    for (unsigned k = batch + depth; k < data->rank(); ++k)
      from = e.add(from, e.mul(at[lead + k - batch - depth], data->strides[k]));
    e.store(*out, e.offset(at, out->strides), e.load(*data, from));
  });
  return success();
}
Register gatherND({"onnx.GatherND"}, emitGatherND);

/// A cache with an update along an axis, at a position for each image.
LogicalResult emitTensorScatter(tsr::DispatchOp op, Emitter &e) {
  Operation *root = op.getRootOp();
  Buffer *past = rootBuffer(op, e, 0), *update = rootBuffer(op, e, 1),
         *where = rootBuffer(op, e, 2), *out = e.out[0].get();
  if (failed(requireAlone(op, e)))
    return failure();
  if (!past || !update || (onnx::getOptionalOperand(root, 2) && !where))
    return e.reasons.no() << "a TensorScatter with an embedded operand";
  int64_t axis = axisOf(root, "axis", -2, past->rank());
  bool circular = onnx::getString(root, "mode", "linear") == "circular";
  int64_t limit = past->dims[axis], count = update->dims[axis];
  for (unsigned k = 0; k < past->rank(); ++k)
    if (k != axis ? update->dims[k] != past->dims[k] : count > limit)
      return e.reasons.no() << "an update of " << update->dims[k] << " in "
                            << past->dims[k] << " places along axis " << k;
  if (where && where->count < past->dims[0])
    return e.reasons.no() << where->count << " positions for " << past->dims[0]
                          << " images";
  e.gridLike(*out, out->dims, [&](Index, SmallVector<Index> at) {
    Index to = e.offset(at, out->strides);
    Value x = e.load(*past, e.offset(at, past->strides));
    Index start = 0;
    if (where)
      start = e.max(wrapped(e, *where, e.mul(at[0], where->strides[0]), 0), 0);
    Index step = e.sub(at[axis], circular ? e.rem(start, limit) : start);
    if (circular)
      step = Index(
          e.pick(e.lt(step, 0), e.value(e.add(step, limit)), e.value(step)));
    Value meant = e.both(e.ge(step, 0), e.lt(step, count));
    at[axis] = e.min(e.max(step, 0), std::max<int64_t>(count - 1, 0));
    if (update->count)
      x = e.pick(meant, e.load(*update, e.offset(at, update->strides)), x);
    e.store(*out, to, x);
  });
  return success();
}
Register tensorScatter({"onnx.TensorScatter"}, emitTensorScatter);

} // namespace
} // namespace tessera::vulkan

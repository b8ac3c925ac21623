// Where along an axis the greatest or least element is: ArgMax, ArgMin,
// Hardmax. One invocation goes along a row.
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "targets/Cpu/Kernels/Combine.h"
#include "targets/Vulkan/Kernels/Boxes.h"

using namespace mlir;

namespace tessera::vulkan {
namespace {

/// Whether x takes the place of `best`, which stands before it. NaN is beyond
/// all numbers; the first of equals stays, but for `last`.
Value better(Emitter &e, Value x, Value best, Type element, bool isMax,
             bool last) {
  if (isa<FloatType>(x.getType())) {
    using P = arith::CmpFPredicate;
    P p = isMax ? (last ? P::OGE : P::OGT) : (last ? P::OLE : P::OLT);
    Value nan = e.cmpF(P::UNO, x, x);
    if (!last)
      nan = e.both(nan, e.cmpF(P::ORD, best, best));
    return arith::OrIOp::create(e.b, e.loc, e.cmpF(p, x, best), nan);
  }
  using P = arith::CmpIPredicate;
  bool isUnsigned =
      cpu::KernelEmitter::isUnsigned(element) || element.isInteger(1);
  P p =
      isMax
          ? (isUnsigned ? (last ? P::uge : P::ugt) : (last ? P::sge : P::sgt))
          : (isUnsigned ? (last ? P::ule : P::ult) : (last ? P::sle : P::slt));
  return cpu::cmpI(e, p, x, best);
}

/// Index, as i32, of the best element of the row of `t` through `at` along
/// `axis`.
Value bestOf(Emitter &e, Buffer &t, SmallVector<Index> at, int64_t axis,
             bool isMax, bool last) {
  at[axis] = 0;
  Index base = e.offset(at, t.strides);
  SmallVector<Value> best =
      e.loop(1, t.dims[axis], 1, {e.load(t, base), e.value(0)},
             [&](Index i, ValueRange carried) {
               Value x = e.load(t, e.add(base, e.mul(i, t.strides[axis])));
               Value takes = better(e, x, carried[0], t.element, isMax, last);
               return SmallVector<Value>{e.pick(takes, x, carried[0]),
                                         e.pick(takes, e.value(i), carried[1])};
             });
  return best[1];
}

LogicalResult emitArgument(tsr::DispatchOp op, Emitter &e) {
  Operation *root = op.getRootOp();
  Buffer *in = rootBuffer(op, e, 0), *out = e.out[0].get();
  if (failed(requireAlone(op, e)))
    return failure();
  if (!in || in->count == 0)
    return e.reasons.no() << "an operand that is embedded or empty";
  int64_t axis = axisOf(root, "axis", 0, in->rank());
  bool isMax = root->getName().stripDialect() == "ArgMax";
  bool last = onnx::getInt(root, "select_last_index", 0) != 0;
  bool kept = in->rank() == out->rank();
  e.gridLike(*out, out->dims, [&](Index, SmallVector<Index> at) {
    Index to = e.offset(at, out->strides);
    if (!kept)
      at.insert(at.begin() + axis, Index(0));
    Value i = bestOf(e, *in, at, axis, isMax, last);
    e.store(*out, to, arith::ExtSIOp::create(e.b, e.loc, e.i64(), i));
  });
  return success();
}
Register argument({"onnx.ArgMax", "onnx.ArgMin"}, emitArgument);

LogicalResult emitHardmax(tsr::DispatchOp op, Emitter &e) {
  Buffer *in = rootBuffer(op, e, 0), *out = e.out[0].get();
  if (failed(requireAlone(op, e)))
    return failure();
  if (!in)
    return e.reasons.no() << "an operand that is embedded";
  int64_t axis = axisOf(op.getRootOp(), "axis", -1, in->rank());
  Type scalar = cpu::KernelEmitter::valueType(out->element);
  SmallVector<int64_t> rows(out->dims);
  rows[axis] = 1;
  e.gridLike(*out, rows, [&](Index, SmallVector<Index> at) {
    Value best = bestOf(e, *in, at, axis, true, false);
    Index base = e.offset(at, out->strides);
    e.loop(0, out->dims[axis], 1, {}, [&](Index i, ValueRange) {
      Value here = cpu::cmpI(e, arith::CmpIPredicate::eq, e.value(i), best);
      e.store(*out, e.add(base, e.mul(i, out->strides[axis])),
              e.pick(here, e.floatConst(scalar, 1), e.floatConst(scalar, 0)));
      return SmallVector<Value>{};
    });
  });
  return success();
}
Register hardmax({"onnx.Hardmax"}, emitHardmax);

/// Whether a is greater than c; NaN is the greatest.
Value greater(Emitter &e, Value a, Value c, Type element) {
  if (isa<FloatType>(a.getType())) {
    using P = arith::CmpFPredicate;
    Value nan = e.both(e.cmpF(P::UNO, a, a), e.cmpF(P::ORD, c, c));
    return arith::OrIOp::create(e.b, e.loc, e.cmpF(P::OGT, a, c), nan);
  }
  bool isUnsigned =
      cpu::KernelEmitter::isUnsigned(element) || element.isInteger(1);
  return cpu::cmpI(
      e, isUnsigned ? arith::CmpIPredicate::ugt : arith::CmpIPredicate::sgt, a,
      c);
}

/// Every element of a row counts those that come before it in the result; who
/// has fewer than k before it knows its place.
LogicalResult emitTopK(tsr::DispatchOp op, Emitter &e) {
  Operation *root = op.getRootOp();
  Buffer *in = rootBuffer(op, e, 0);
  if (failed(requireAlone(op, e)))
    return failure();
  if (!in)
    return e.reasons.no() << "an operand that is embedded";
  Buffer *values = rootResult(op, e, 0), *places = rootResult(op, e, 1);
  int64_t axis = axisOf(root, "axis", -1, in->rank());
  int64_t n = in->dims[axis], k = e.out[0]->dims[axis];
  if (k > n)
    return e.reasons.no() << "the " << k << " first of " << n;
  bool isMax = onnx::getInt(root, "largest", 1) != 0;
  auto before = [&](Value a, Value c) {
    return greater(e, isMax ? a : c, isMax ? c : a, in->element);
  };
  e.gridLike(*in, in->dims, [&](Index, SmallVector<Index> at) {
    Index own = at[axis];
    Value x = e.load(*in, e.offset(at, in->strides));
    SmallVector<Index> row(at);
    row[axis] = 0;
    Index base = e.offset(row, in->strides);
    auto count = [&](Index i, ValueRange carried) {
      Value other = e.load(*in, e.add(base, e.mul(i, in->strides[axis])));
      Value earlier = e.both(e.logicalNot(before(x, other)), e.lt(i, own));
      Value first = arith::OrIOp::create(e.b, e.loc, before(other, x), earlier);
      return SmallVector<Value>{
          e.pick(first, e.value(e.add(Index(carried[0]), 1)), carried[0])};
    };
    Value place = e.loop(0, n, 1, e.value(0), count)[0];
    e.when(e.lt(Index(place), k), [&] {
      at[axis] = Index(place);
      if (values)
        e.store(*values, e.offset(at, values->strides), x);
      if (places)
        e.store(*places, e.offset(at, places->strides),
                arith::ExtSIOp::create(e.b, e.loc, e.i64(), e.value(own)));
    });
  });
  return success();
}
Register topK({"onnx.TopK"}, emitTopK);

} // namespace
} // namespace tessera::vulkan

// Softmax, LogSoftmax, Hardmax along one axis.
//
// The axis is contiguous: one row at a time in four vectors, three passes
// (maximum; exponentials and their sum; scaling). Another axis is contiguous:
// each lane is a row of its own. 16-bit floats are computed in f32 and rounded
// where ONNX's function body rounds: the exponentials, their sum, the quotient.
// Their exponentials are made twice rather than stored.
#include "targets/Cpu/Kernels/Combine.h"
#include "targets/Cpu/Kernels/Lanes.h"
#include "targets/Cpu/Kernels/RootView.h"
#include "targets/Cpu/Math.h"

using namespace mlir;

namespace tessera::cpu {
namespace {

class SoftmaxKernel final : public KernelBuilder {
public:
  tsr::KernelClass kernelClass(Operation *) const override { return tsr::KernelClass::Softmax; }
  bool acceptsChannelsLast(Operation *) const override { return true; }
  bool fusesPrologue(Operation *root, unsigned operand) const override {
    return operand == 0 && isSoftmax(root) && operandElement(root, 0).isF32();
  }
  LogicalResult match(Operation *root, Reasons &reasons) const override {
    if (!requireRanked(root, reasons))
      return failure();
    if (!isa<FloatType>(operandElement(root, 0)))
      return reasons.no() << "element type " << onnx::getTypeName(operandElement(root, 0));
    return success();
  }
  LogicalResult emit(tsr::DispatchOp op, KernelEmitter &e) const override;

private:
  static bool isSoftmax(Operation *root) {
    return root->getName().getStringRef() == "onnx.Softmax";
  }
};
TESSERA_KERNEL(SoftmaxKernel, "onnx.Softmax", "onnx.LogSoftmax", "onnx.Hardmax");

/// exp(x) for x <= 0 (or NaN): no overflow to care for, and what would be
/// subnormal is 0. Error 1 ULP.
///   n = round(x / ln 2), r = x - n ln 2, exp(x) = 2^n (1 + r + r^2 p(r))
/// The rounding adds 1.5 * 2^23, which leaves n in the low bits of the sum.
Value expOfNonPositive(KernelEmitter &e, Value x) {
  if (!KernelEmitter::scalarType(x.getType()).isF32())
    return math::exp(e, x);
  Type type = x.getType(), bits = KernelEmitter::sameShape(x, e.i32());
  auto c = [&](double k) { return e.floatConst(type, k); };
  auto pick = [&](Value cond, Value a, Value b) { return Value(arith::SelectOp::create(e.b, e.loc, cond, a, b)); };
  // Below the limit everything is nonsense until the last line.
  Value tiny = e.cmpF(arith::CmpFPredicate::OLT, x, c(-87.336544)), magic = c(12582912);
  Value z = e.fma(x, c(1.4426950408889634), magic), n = e.subF(z, magic);
  Value r = e.fma(n, c(-0.693145751953125), x);
  r = e.fma(n, c(-1.42860682030941723212e-6), r);
  Value p = c(1.9875691500e-4);
  for (double k : {1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1})
    p = e.fma(p, r, c(k));
  Value y = e.addF(e.fma(e.mulF(r, r), p, r), c(1));
  Value power = arith::ShLIOp::create(e.b, e.loc, arith::BitcastOp::create(e.b, e.loc, bits, z), e.intConst(bits, 23));
  power = arith::AddIOp::create(e.b, e.loc, power, e.intConst(bits, 0x3f800000));
  y = e.mulF(y, arith::BitcastOp::create(e.b, e.loc, type, power)); // a product, so that NaN stays NaN
  return pick(tiny, c(0), y);
}

/// A sum of exponentials as the storage type holds it. One beyond its range
/// (more than 65504 equal elements of float16) stays as it is: no row of zeros.
Value roundedSum(KernelEmitter &e, Value sum, Type element) {
  Value rounded = e.round(sum, element);
  if (rounded == sum)
    return sum;
  Value infinity = e.floatConst(sum.getType(), INFINITY);
  Value beyond = e.cmpF(arith::CmpFPredicate::OEQ, rounded, infinity);
  return arith::SelectOp::create(e.b, e.loc, beyond, sum, rounded);
}

/// All rows of one nest position: how to read, write and walk them.
struct Rows {
  KernelEmitter &e;
  const TensorRef &out;
  Value length, outBase, outStep;
  /// x at step i of the axis, for lanes along the axis (rows) or across it (columns).
  std::function<Value(Value i, Lanes, Value mask)> load;

  // A NaN never becomes the maximum, but makes the sum NaN.
  Value larger(Value x, Value best) const {
    return arith::SelectOp::create(e.b, e.loc, e.cmpF(arith::CmpFPredicate::OGT, x, best), x, best);
  }
  Value like(Value scalar, Value shape) const {
    auto type = dyn_cast<VectorType>(shape.getType());
    return type && !isa<VectorType>(scalar.getType())
               ? Value(vector::BroadcastOp::create(e.b, e.loc, type, scalar))
               : scalar;
  }
};

LogicalResult SoftmaxKernel::emit(tsr::DispatchOp op, KernelEmitter &e) const {
  RootView v(op, e);
  const TensorRef *in = v.in(0), *out = v.out(0);
  if (!out)
    return failure();
  StringRef name = v.root->getName().getStringRef();
  bool softmax = isSoftmax(v.root), hard = name == "onnx.Hardmax";
  unsigned rank = out->rank();
  int64_t axis = onnx::getInt(v.root, "axis", -1);
  axis += axis < 0 ? rank : 0;
  Type value = KernelEmitter::valueType(out->element);
  unsigned bits = value.getIntOrFloatBitWidth();
  // The output holds intermediate values only where it holds them exactly.
  bool keepInOutput = softmax && KernelEmitter::storageBits(out->element) == bits;
  bool ok = true;
  auto exponential = [&](Value shifted) {
    Value t = expOfNonPositive(e, shifted);
    return softmax ? e.round(t, out->element) : t;
  };

  int laneAxis = -1;
  for (unsigned k = 0; k < rank; ++k)
    if (KernelEmitter::constantOf(out->strides[k]) == 1 && KernelEmitter::constantOf(out->dims[k]) != 1 &&
        (!in || KernelEmitter::constantOf(in->strides[k]) == 1) &&
        KernelEmitter::storageBits(out->element) >= 8)
      laneAxis = k;

  SmallVector<Value> outerDims;
  for (unsigned k = 0; k < rank; ++k)
    outerDims.push_back(k == axis || static_cast<int>(k) == laneAxis ? e.idx(1) : out->dims[k]);
  Value length = out->dims[axis];

  auto loadAt = [&](ArrayRef<Value> index, Lanes lanes, Value mask) -> Value {
    if (in) {
      Value offset = e.offsetOf(*in, index);
      return laneAxis < 0 ? e.loadElement(*in, offset) : e.loadLanes(*in, offset, lanes, mask);
    }
    Point p;
    p.index.assign(index.begin(), index.end());
    p.dims = out->dims;
    p.laneAxis = lanes.isScalar() ? -1 : laneAxis;
    p.lanes = lanes;
    p.mask = mask;
    auto x = v.fusion.loadFused(0, p);
    if (failed(x)) {
      ok = false;
      return e.splat(e.floatConst(value, 0), lanes);
    }
    return e.splat(*x, lanes);
  };

  auto rowAlongLanes = [&](ArrayRef<Value> outer) {
    SmallVector<Value> index(outer);
    Value base = e.offsetOf(*out, index);
    auto load = [&](Value i, Lanes l, Value mask) {
      index[axis] = i;
      return loadAt(index, l, mask);
    };
    auto store = [&](Value i, Value x, Value mask) { e.storeLanes(*out, e.add(base, i), x, mask); };
    Rows rows{e, *out, length, base, e.idx(1), load};
    Value low = e.floatConst(value, -INFINITY), zero = e.floatConst(value, 0);
    LaneFold most(e, bits, 4, {low});
    bool spill = keepInOutput && !in; // the prologue is evaluated once
    auto flat = most.run(length, most.start(), [&](ArrayRef<Value> s, Value i, Lanes l, Value mask) -> Accs {
      Value x = load(i, l, mask);
      if (spill)
        store(i, x, mask);
      return {rows.larger(x, s[0])};
    });
    Value maximum = most.finish(
        flat, [&](ArrayRef<Value> a, ArrayRef<Value> c) -> Accs { return {rows.larger(a[0], c[0])}; },
        [&](ArrayRef<Value> a) -> Accs { return {e.reduceMax(a[0])}; })[0];
    if (hard) {
      // The first position of the maximum; a row without one (NaN) takes position 0.
      Value at = e.forLoop(e.idx(0), length, e.idx(1), ValueRange{length},
                           [&](Value i, ValueRange c) -> SmallVector<Value> {
        Value hit = e.logicalAnd(e.eq(c[0], length),
                                 e.cmpF(arith::CmpFPredicate::OEQ, load(i, e.scalarLanes(), {}), maximum));
        return {e.select(hit, i, c[0])};
      })[0];
      at = e.select(e.eq(at, length), e.idx(0), at);
      e.forLoop(length, [&](Value i) {
        store(i, e.select(e.eq(i, at), e.floatConst(value, 1), zero), {});
      });
      return;
    }
    LaneFold sums(e, bits, e.isa.vectorRegisters > 16 ? 4 : 2, {zero});
    flat = sums.run(length, sums.start(), [&](ArrayRef<Value> s, Value i, Lanes l, Value mask) -> Accs {
      Value x = spill ? e.loadLanes(*out, e.add(base, i), l, mask) : load(i, l, mask);
      Value t = exponential(e.subF(x, rows.like(maximum, x)));
      if (keepInOutput)
        store(i, t, mask);
      return {e.addF(s[0], t)};
    });
    Value sum = sums.finish(
        flat, [&](ArrayRef<Value> a, ArrayRef<Value> c) -> Accs { return {e.addF(a[0], c[0])}; },
        [&](ArrayRef<Value> a) -> Accs { return {e.reduceAdd(a[0])}; })[0];
    if (softmax)
      sum = roundedSum(e, sum, out->element);
    Value scale = keepInOutput ? e.divF(e.floatConst(value, 1), sum)
                  : softmax    ? sum
                               : e.addF(math::log(e, sum), zero);
    e.vectorLoop(length, bits, 4, [&](Value i, Lanes l, Value mask) {
      if (keepInOutput) {
        Value t = e.loadLanes(*out, e.add(base, i), l, mask);
        return store(i, e.mulF(t, rows.like(scale, t)), mask);
      }
      Value x = load(i, l, mask), shifted = e.subF(x, rows.like(maximum, x));
      Value y = softmax ? e.divF(exponential(shifted), rows.like(scale, x))
                        : e.subF(shifted, rows.like(scale, x));
      store(i, e.round(y, out->element), mask);
    });
  };

  auto rowsAcrossLanes = [&](ArrayRef<Value> outer, Value first, Lanes l, Value mask) {
    SmallVector<Value> index(outer);
    if (laneAxis >= 0)
      index[laneAxis] = first;
    Value base = e.offsetOf(*out, index), step = out->strides[axis];
    auto load = [&](Value i) {
      index[axis] = i;
      return loadAt(index, l, mask);
    };
    auto store = [&](Value i, Value x) {
      Value offset = e.add(base, e.mul(i, step));
      if (laneAxis < 0)
        e.storeElement(*out, offset, x);
      else
        e.storeLanes(*out, offset, x, mask);
    };
    Rows rows{e, *out, length, base, step, {}};
    Value low = e.splat(e.floatConst(value, -INFINITY), l), zero = e.splat(e.floatConst(value, 0), l);
    Value none = e.splat(e.idx(0), l);
    auto found = e.forLoop(e.idx(0), length, e.idx(1), hard ? ValueRange{low, none} : ValueRange{low},
                           [&](Value i, ValueRange c) -> SmallVector<Value> {
      Value x = load(i);
      Value more = e.cmpF(arith::CmpFPredicate::OGT, x, c[0]);
      SmallVector<Value> next{arith::SelectOp::create(e.b, e.loc, more, x, c[0])};
      if (hard)
        next.push_back(arith::SelectOp::create(e.b, e.loc, more, e.splat(i, l), c[1]));
      return next;
    });
    if (hard) {
      Value one = e.splat(e.floatConst(value, 1), l);
      e.forLoop(length, [&](Value i) {
        Value hit = cmpI(e, arith::CmpIPredicate::eq, e.splat(i, l), found[1]);
        store(i, arith::SelectOp::create(e.b, e.loc, hit, one, zero));
      });
      return;
    }
    Value sum = e.forLoop(e.idx(0), length, e.idx(1), ValueRange{zero},
                          [&](Value i, ValueRange c) -> SmallVector<Value> {
      Value t = exponential(e.subF(load(i), found[0]));
      if (keepInOutput)
        store(i, t);
      return {e.addF(c[0], t)};
    })[0];
    if (softmax)
      sum = roundedSum(e, sum, out->element);
    Value scale = keepInOutput ? e.divF(e.splat(e.floatConst(value, 1), l), sum)
                  : softmax    ? sum
                               : math::log(e, sum);
    e.forLoop(length, [&](Value i) {
      if (keepInOutput) {
        Value offset = e.add(base, e.mul(i, step));
        Value t = laneAxis < 0 ? e.loadElement(*out, offset) : e.loadLanes(*out, offset, l, mask);
        return store(i, e.mulF(t, scale));
      }
      Value shifted = e.subF(load(i), found[0]);
      Value y = softmax ? e.divF(exponential(shifted), scale) : e.subF(shifted, scale);
      store(i, e.round(y, out->element));
    });
  };

  e.forAll(outerDims, [&](ArrayRef<Value> outer) {
    if (laneAxis == axis)
      rowAlongLanes(outer);
    else if (laneAxis < 0)
      rowsAcrossLanes(outer, e.idx(0), e.scalarLanes(), {});
    else
      laneGroups(e, out->dims[laneAxis], e.isa.lanes(bits), 1,
                 [&](Value first, unsigned, Lanes l, Value mask) { rowsAcrossLanes(outer, first, l, mask); });
  });
  return success(ok);
}

} // namespace
} // namespace tessera::cpu

// DFT, STFT, MelWeightMatrix.
//
// Transforms of real data are sums over exact twiddles: cos and sin of 2 pi k / n
// are taken in double from a table of n entries, reduced to the first octant, so
// that multiples of 90 and 45 degrees are exact. Quadratic in the length.
// Transforms from complex to complex halve the length while it is even, in the
// arithmetic of the element type; only what is left is quadratic.
#include "targets/Cpu/Kernels/RootView.h"
#include "targets/Cpu/Kernels/StridedCopy.h"
#include "targets/Cpu/Math.h"

using namespace mlir;
using tessera::onnx::Sym;

namespace tessera::cpu {
namespace {

/// Scratch: cos table [n], sin table [n], one row real [n], imaginary [n], all f64.
class Transform {
public:
  Transform(KernelEmitter &e, Value n, bool inverse) : e(e), n(n), inverse(inverse) {}

  void makeTable() {
    e.forLoop(n, [&](Value k) {
      // Angle of k / n turns, folded to the first octant: 8 k = q n + r.
      Value eight = e.mul(k, 8), octant = e.divU(eight, n), rest = e.remU(eight, n);
      Value odd = e.remU(octant, e.idx(2));
      Value r = e.select(e.eq(odd, e.idx(1)), e.sub(n, rest), rest);
      Value angle = e.divF(e.mulF(toDouble(r), d(0.78539816339744830961)), toDouble(n));
      Value c = math::cos(e, angle), s = math::sin(e, angle);
      // Octants 1, 2, 5, 6 exchange sine and cosine.
      Value turned = e.add(octant, 1), swap = e.eq(e.remU(e.divU(turned, e.idx(2)), e.idx(2)), e.idx(1));
      Value x = e.select(swap, s, c), y = e.select(swap, c, s);
      Value left = e.logicalAnd(e.lt(e.idx(1), octant), e.lt(octant, e.idx(6)));
      Value below = e.lt(e.idx(3), octant);
      x = e.select(left, e.subF(d(0), x), x);
      y = e.select(below, e.subF(d(0), y), y);
      put(0, k, x);
      put(1, k, inverse ? y : e.subF(d(0), y));
    });
  }
  void set(Value i, Value re, Value im) {
    put(2, i, re);
    put(3, i, im);
  }
  /// Bin k of the row's first `count` elements (the others are zero).
  std::pair<Value, Value> bin(Value k, Value count) {
    auto sum = e.forLoop(e.idx(0), count, e.idx(1), ValueRange{d(0), d(0), e.idx(0)}, [&](Value i, ValueRange acc) -> SmallVector<Value> {
      Value re = get(2, i), im = get(3, i), c = get(0, acc[2]), s = get(1, acc[2]);
      Value next = e.add(acc[2], k);
      next = e.select(e.lt(next, n), next, e.sub(next, n));
      return {e.addF(acc[0], e.subF(e.mulF(re, c), e.mulF(im, s))), e.addF(acc[1], e.addF(e.mulF(re, s), e.mulF(im, c))), next};
    });
    return {sum[0], sum[1]};
  }
  /// The row's n elements become their transform, in the order that `place`
  /// undoes; all arithmetic in `type` (f32 or f64). Decimation in frequency:
  /// a block of even size s becomes one of sums (its even bins) and one of
  /// differences times twiddles (its odd bins).
  ///   returns the number of blocks and their odd size
  std::pair<Value, Value> halve(Type type) {
    Value blocks = e.idx(1), size = n;
    auto end = e.whileLoop({blocks, size}, [&](ValueRange s) { return e.eq(e.remU(s[1], e.idx(2)), e.idx(0)); },
                           [&](ValueRange s) -> SmallVector<Value> {
      Value half = e.divU(s[1], e.idx(2));
      e.forLoop(s[0], [&](Value block) {
        e.forLoop(half, [&](Value i) {
          Value p = e.add(e.mul(block, s[1]), i), q = e.add(p, half), turn = e.mul(i, s[0]);
          Value a = get(2, p, type), b = get(3, p, type), c = get(2, q, type), f = get(3, q, type);
          put(2, p, e.addF(a, c));
          put(3, p, e.addF(b, f));
          auto [re, im] = turned(e.subF(a, c), e.subF(b, f), turn, type);
          put(2, q, re);
          put(3, q, im);
        });
      });
      return {e.mul(s[0], 2), half};
    });
    return {end[0], end[1]};
  }
  /// Bin k after halve().
  std::pair<Value, Value> halvedBin(Value k, Value blocks, Value size, Type type) {
    // Bin k is bin k / blocks of the block whose number is k % blocks with its bits reversed.
    auto reversed = e.whileLoop({e.remU(k, blocks), e.idx(0), e.idx(1)}, [&](ValueRange s) { return e.lt(s[2], blocks); },
                                [&](ValueRange s) -> SmallVector<Value> {
      return {e.divU(s[0], e.idx(2)), e.add(e.mul(s[1], 2), e.remU(s[0], e.idx(2))), e.mul(s[2], 2)};
    });
    Value base = e.mul(reversed[1], size), bin = e.divU(k, blocks), zero = e.floatConst(type, 0);
    auto sum = e.forLoop(e.idx(0), size, e.idx(1), ValueRange{zero, zero, e.idx(0)}, [&](Value i, ValueRange acc) -> SmallVector<Value> {
      Value p = e.add(base, i), next = e.add(acc[2], bin);
      auto [re, im] = turned(get(2, p, type), get(3, p, type), e.mul(acc[2], blocks), type);
      next = e.select(e.lt(next, size), next, e.sub(next, size));
      return {e.addF(acc[0], re), e.addF(acc[1], im), next};
    });
    return {sum[0], sum[1]};
  }
  Value d(double x) { return e.floatConst(e.f64(), x); }
  Value toDouble(Value i) { return arith::SIToFPOp::create(e.b, e.loc, e.f64(), i); }

private:
  Value at(unsigned list, Value i) { return e.gep(e.scratch, e.f64(), e.add(e.mul(n, list), i)); }
  Value get(unsigned list, Value i) { return e.rawLoad(e.f64(), at(list, i)); }
  void put(unsigned list, Value i, Value x) {
    if (x.getType().isF32())
      x = arith::ExtFOp::create(e.b, e.loc, e.f64(), x);
    e.rawStore(x, at(list, i));
  }
  Value get(unsigned list, Value i, Type type) {
    Value x = get(list, i);
    return type.isF64() ? x : Value(arith::TruncFOp::create(e.b, e.loc, type, x));
  }
  /// (re + i im) times twiddle number `turn`.
  std::pair<Value, Value> turned(Value re, Value im, Value turn, Type type) {
    Value c = get(0, turn, type), s = get(1, turn, type);
    return {e.subF(e.mulF(re, c), e.mulF(im, s)), e.addF(e.mulF(re, s), e.mulF(im, c))};
  }

  KernelEmitter &e;
  Value n;
  bool inverse;
};

Value widen(KernelEmitter &e, Value x) {
  return x.getType().isF64() ? x : Value(arith::ExtFOp::create(e.b, e.loc, e.f64(), x));
}
Value narrow(KernelEmitter &e, Value x, Type element) {
  Type value = KernelEmitter::valueType(element);
  if (value != x.getType())
    x = arith::TruncFOp::create(e.b, e.loc, value, x);
  return e.round(x, element);
}

class SpectralKernel : public KernelBuilder {
public:
  tsr::KernelClass kernelClass(Operation *) const override { return tsr::KernelClass::Loops; }
  LogicalResult match(Operation *root, Reasons &reasons) const override {
    if (!requireNumeric(root, reasons))
      return failure();
    if (!isa<FloatType>(operandElement(root, 0)))
      return reasons.no() << "element type " << onnx::getTypeName(operandElement(root, 0));
    return success();
  }
};

class DftKernel final : public SpectralKernel {
public:
  bool embedsConstant(Operation *, unsigned operand) const override { return operand >= 1; }
  // The length is an operand's value or follows from the sizes on both sides.
  Sym scratchBytes(tsr::DispatchOp op, const DispatchSizes &sizes) const override {
    Operation *root = op.getRootOp();
    auto arg = cast<BlockArgument>(onnx::getOptionalOperand(root, 0));
    auto &in = sizes.operands[arg.getArgNumber()], &out = sizes.results[0];
    auto &c = sizes.ctx;
    Sym longest = c.constant(1);
    std::optional<int64_t> axis = axisOf(root, in.size());
    for (int64_t k = 0; k + 1 < static_cast<int64_t>(in.size()); ++k)
      if (!axis || *axis == k)
        longest = c.max(longest, c.max(in[k], out[k]));
    return c.mul(c.add(c.mul(c.constant(2), longest), c.constant(2)), c.constant(32));
  }
  LogicalResult emit(tsr::DispatchOp op, KernelEmitter &e) const override {
    RootView v(op, e);
    const TensorRef *in = v.in(0), *out = v.out(0);
    if (!in || !out || !e.scratch)
      return failure();
    unsigned rank = in->rank();
    auto fixed = axisOf(v.root, rank);
    Value axis = fixed ? e.idx(*fixed) : wrapIndex(e, v.scalarInt(2, 0), e.idx(rank));
    bool inverse = onnx::getInt(v.root, "inverse", 0), oneSided = onnx::getInt(v.root, "onesided", 0);
    Value have = e.idx(1), bins = e.idx(1), inStep = e.idx(0), outStep = e.idx(0);
    SmallVector<Value> outer(in->dims);
    for (unsigned k = 0; k + 1 < rank; ++k) {
      Value here = e.eq(axis, e.idx(k));
      have = e.select(here, in->dims[k], have);
      bins = e.select(here, out->dims[k], bins);
      inStep = e.select(here, in->strides[k], inStep);
      outStep = e.select(here, out->strides[k], outStep);
      outer[k] = e.select(here, e.idx(1), in->dims[k]);
    }
    outer[rank - 1] = e.idx(1);
    Value n = v.has(1) ? v.scalarInt(1, 0) : inverse && oneSided ? e.mul(e.sub(have, 1), 2) : have;
    Value parts = in->dims[rank - 1];
    bool toReal = inverse && oneSided;
    Value most = e.add(e.mul(e.maxS(have, bins), 2), 2);
    Value fits = e.logicalAnd(e.lt(e.idx(0), n), e.cmp(arith::CmpIPredicate::sle, n, most));
    fits = e.logicalAnd(fits, e.cmp(arith::CmpIPredicate::sle, bins, n));
    fits = e.logicalAnd(fits, e.lt(axis, e.idx(rank - 1))); // the last axis holds the parts
    for (unsigned k = 0; k + 1 < rank; ++k)
      fits = e.logicalAnd(fits, e.cmp(arith::CmpIPredicate::sle, outer[k], out->dims[k]));
    e.failIf(e.logicalNot(fits), TSR_KERNEL_BAD_VALUE);
    e.ifThen(fits, [&] {
      Transform t(e, n, inverse);
      t.makeTable();
      Value used = toReal ? e.minS(have, e.add(e.divU(n, e.idx(2)), 1)) : e.minS(have, n);
      Value scale = e.divF(t.d(1), t.toDouble(n));
      Value narrowScale = arith::TruncFOp::create(e.b, e.loc, e.f32(), scale);
      e.forAll(outer, [&](ArrayRef<Value> at) {
        Value from = e.offsetOf(*in, at), to = e.offsetOf(*out, at);
        Value second = e.lt(e.idx(1), parts);
        Value imaginary = e.select(second, in->strides[rank - 1], e.idx(0));
        e.forLoop(n, [&](Value i) { t.set(i, t.d(0), t.d(0)); });
        e.forLoop(used, [&](Value i) {
          Value place = e.add(from, e.mul(i, inStep));
          Value re = widen(e, e.loadElement(*in, place)), im = widen(e, e.loadElement(*in, e.add(place, imaginary)));
          im = e.select(second, im, t.d(0));
          if (toReal) { // imaginary parts of the real bins do not count
            Value real = e.logicalOr(e.eq(i, e.idx(0)), e.eq(e.mul(i, 2), n));
            im = e.select(real, t.d(0), im);
            Value mirror = e.sub(n, i);
            e.ifThen(e.logicalAnd(e.lt(e.idx(0), i), e.lt(mirror, n)), [&] { t.set(mirror, re, e.subF(t.d(0), im)); });
          }
          t.set(i, re, im);
        });
        Value count = toReal ? n : used;
        auto store = [&](Value k, Value re, Value im) {
          if (inverse && re.getType().isF64())
            re = e.mulF(re, scale), im = e.mulF(im, scale);
          else if (inverse)
            re = e.mulF(re, narrowScale), im = e.mulF(im, narrowScale);
          Value place = e.add(to, e.mul(k, outStep));
          e.storeElement(*out, place, narrow(e, re, out->element));
          e.ifThen(e.lt(e.idx(1), out->dims[rank - 1]), [&] {
            e.storeElement(*out, e.add(place, out->strides[rank - 1]), narrow(e, im, out->element));
          });
        };
        auto direct = [&] {
          e.forLoop(bins, [&](Value k) {
            auto [re, im] = t.bin(k, count);
            store(k, re, im);
          });
        };
        if (oneSided)
          return direct();
        e.ifThen(second, [&] {
          Type type = KernelEmitter::valueType(out->element);
          auto [blocks, size] = t.halve(type);
          Value number = blocks, odd = size;
          e.forLoop(bins, [&](Value k) {
            auto [re, im] = t.halvedBin(k, number, odd, type);
            store(k, re, im);
          });
        });
        e.ifThen(e.logicalNot(second), direct);
      });
    });
    return success();
  }

private:
  /// None where only the data tells.
  static std::optional<int64_t> axisOf(Operation *root, int64_t rank) {
    Value operand = onnx::getOptionalOperand(root, 2);
    auto values = onnx::getConstantInts(operand);
    if (operand && (!values || values->empty()))
      return std::nullopt;
    int64_t axis = operand ? values->front() : -2;
    return axis < 0 ? axis + rank : axis;
  }
};
TESSERA_KERNEL(DftKernel, "onnx.DFT");

class StftKernel final : public SpectralKernel {
public:
  bool embedsConstant(Operation *, unsigned operand) const override { return operand == 1 || operand == 3; }
  Sym scratchBytes(tsr::DispatchOp op, const DispatchSizes &sizes) const override {
    auto &c = sizes.ctx;
    Sym most = c.add(c.mul(c.constant(2), sizes.results[0][2]), c.constant(2));
    return c.mul(most, c.constant(32));
  }
  LogicalResult emit(tsr::DispatchOp op, KernelEmitter &e) const override {
    RootView v(op, e);
    const TensorRef *in = v.in(0), *window = v.in(2), *out = v.out(0);
    if (!in || !out || !e.scratch || (v.has(2) && !window))
      return failure();
    Value step = v.scalarInt(1, 1);
    Value n = v.has(3) ? v.scalarInt(3, 0) : window ? window->dims[0] : in->dims[1];
    Value bins = out->dims[2], frames = out->dims[1];
    Value fits = e.logicalAnd(e.lt(e.idx(0), n), e.cmp(arith::CmpIPredicate::sle, n, e.add(e.mul(bins, 2), 2)));
    fits = e.logicalAnd(fits, e.cmp(arith::CmpIPredicate::sle, bins, n));
    fits = e.logicalAnd(fits, e.lt(e.idx(0), step));
    if (window)
      fits = e.logicalAnd(fits, e.cmp(arith::CmpIPredicate::sge, n, window->dims[0]));
    e.failIf(e.logicalNot(fits), TSR_KERNEL_BAD_VALUE);
    e.ifThen(fits, [&] {
      Transform t(e, n, false);
      t.makeTable();
      Value size = window ? window->dims[0] : n, parts = rankThree(*in) ? in->dims[2] : e.idx(1);
      e.forAll({out->dims[0], frames}, [&](ArrayRef<Value> at) {
        Value begin = e.mul(at[1], step);
        e.forLoop(size, [&](Value i) {
          Value p = e.add(begin, i), inside = e.lt(p, in->dims[1]);
          p = e.select(inside, p, e.idx(0));
          Value base = e.add(e.mul(at[0], in->strides[0]), e.mul(p, in->strides[1]));
          Value w = window ? widen(e, e.load(*window, {i})) : t.d(1);
          Value re = e.mulF(widen(e, e.loadElement(*in, base)), w);
          Value second = e.lt(e.idx(1), parts);
          Value im = e.mulF(widen(e, e.loadElement(*in, e.add(base, e.select(second, e.idx(1), e.idx(0))))), w);
          t.set(i, e.select(inside, re, t.d(0)), e.select(e.logicalAnd(inside, second), im, t.d(0)));
        });
        e.forLoop(bins, [&](Value k) {
          auto [re, im] = t.bin(k, size);
          e.store(*out, {at[0], at[1], k, e.idx(0)}, narrow(e, re, out->element));
          e.store(*out, {at[0], at[1], k, e.idx(1)}, narrow(e, im, out->element));
        });
      });
    });
    return success();
  }

private:
  static bool rankThree(const TensorRef &t) { return t.rank() == 3; }
};
TESSERA_KERNEL(StftKernel, "onnx.STFT");

class MelWeightKernel final : public KernelBuilder {
public:
  tsr::KernelClass kernelClass(Operation *) const override { return tsr::KernelClass::Loops; }
  bool embedsConstant(Operation *, unsigned) const override { return true; }
  LogicalResult match(Operation *root, Reasons &reasons) const override {
    return success(requireNumeric(root, reasons));
  }
  LogicalResult emit(tsr::DispatchOp op, KernelEmitter &e) const override {
    RootView v(op, e);
    const TensorRef *out = v.out(0);
    if (!out)
      return failure();
    auto d = [&](double x) { return e.floatConst(e.f64(), x); };
    auto toDouble = [&](Value i) { return Value(arith::SIToFPOp::create(e.b, e.loc, e.f64(), i)); };
    Value bins = out->dims[1], rows = out->dims[0];
    Value length = v.scalarInt(1, 0), rate = v.scalarInt(2, 0);
    const double perTen = 2595 / std::log(10.0);
    auto mel = [&](Value hertz) { return e.mulF(d(perTen), math::log1p(e, e.divF(widen(e, hertz), d(700)))); };
    Value low = mel(v.scalar(3)), high = mel(v.scalar(4));
    Value step = e.divF(e.subF(high, low), toDouble(e.add(bins, 2)));
    auto edge = [&](Value i) {
      Value m = e.addF(e.mulF(toDouble(i), step), low);
      Value hertz = e.mulF(d(700), math::expm1(e, e.divF(m, d(perTen))));
      Value x = math::floor(e, e.divF(e.mulF(toDouble(e.add(length, 1)), hertz), toDouble(rate)));
      Value ok = e.cmpF(arith::CmpFPredicate::OLT, math::abs(e, x), d(1e9));
      return Value(arith::FPToSIOp::create(e.b, e.loc, e.i64(), e.select(ok, x, d(0))));
    };
    Type value = KernelEmitter::valueType(out->element);
    auto store = [&](Value row, Value column, Value x) {
      Value y = isa<FloatType>(value) ? narrow(e, x, out->element) : e.cast(x, e.f64(), out->element);
      e.store(*out, {row, column}, y);
    };
    e.forLoop(bins, [&](Value i) {
      Value left = edge(i), center = edge(e.add(i, 1)), right = edge(e.add(i, 2));
      e.forLoop(rows, [&](Value j) {
        Value rise = e.sub(center, left), fall = e.sub(right, center);
        Value up = e.divF(toDouble(e.sub(j, left)), toDouble(e.select(e.eq(rise, e.idx(0)), e.idx(1), rise)));
        Value down = e.divF(toDouble(e.sub(right, j)), toDouble(e.select(e.eq(fall, e.idx(0)), e.idx(1), fall)));
        auto le = arith::CmpIPredicate::sle;
        Value onRise = e.logicalAnd(e.cmp(le, left, j), e.cmp(le, j, center));
        Value x = e.select(e.eq(rise, e.idx(0)), e.select(e.eq(j, center), d(1), d(0)), e.select(onRise, up, d(0)));
        Value onFall = e.logicalAnd(e.lt(e.idx(0), fall), e.logicalAnd(e.cmp(le, center, j), e.lt(j, right)));
        store(j, i, e.select(onFall, down, x));
      });
    });
    return success();
  }
};
TESSERA_KERNEL(MelWeightKernel, "onnx.MelWeightMatrix");

} // namespace
} // namespace tessera::cpu

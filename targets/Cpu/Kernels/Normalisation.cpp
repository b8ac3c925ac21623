// Layer, RMS, group, instance, batch, Lp and local response normalisation.
//
// Statistics are taken in f32 (f64 for double) in two passes, mean and then
// centred squares, over rows that are contiguous in memory. Half-precision
// results are rounded after normalising and again after scaling, as the
// operators' definitions have it.
#include "targets/Cpu/Kernels/Combine.h"
#include "targets/Cpu/Kernels/Lanes.h"
#include "targets/Cpu/Kernels/RootView.h"
#include "targets/Cpu/Kernels/StridedCopy.h"
#include "targets/Cpu/Math.h"

using namespace mlir;

namespace tessera::cpu {
namespace {

class NormalisationKernel : public KernelBuilder {
public:
  tsr::KernelClass kernelClass(Operation *) const override {
    return tsr::KernelClass::Normalisation;
  }
  bool flushesDenormals(Operation *) const override { return true; }
  LogicalResult match(Operation *root, Reasons &reasons) const final {
    if (!requireNumeric(root, reasons))
      return failure();
    for (Value v : root->getOperands()) {
      Type t = cast<RankedTensorType>(v.getType()).getElementType();
      if (!isa<FloatType>(t) || KernelEmitter::storageBits(t) < 8)
        return reasons.no() << "element type " << onnx::getTypeName(t);
    }
    return matchMore(root, reasons);
  }
  virtual LogicalResult matchMore(Operation *, Reasons &) const { return success(); }
};

Value like(KernelEmitter &e, Value scalar, Value shape) {
  auto type = dyn_cast<VectorType>(shape.getType());
  return type && !isa<VectorType>(scalar.getType())
             ? Value(vector::BroadcastOp::create(e.b, e.loc, type, scalar))
             : scalar;
}

/// Sum of map(x) over `n` elements of `t` from `base` on.
Value rowSum(KernelEmitter &e, const TensorRef &t, Value base, Value n, function_ref<Value(Value)> map) {
  Type value = KernelEmitter::valueType(t.element);
  LaneFold fold(e, value.getIntOrFloatBitWidth(), 4, {e.floatConst(value, 0)});
  auto flat = fold.run(n, fold.start(), [&](ArrayRef<Value> s, Value i, Lanes l, Value mask) -> Accs {
    return {e.addF(s[0], map(e.loadLanes(t, e.add(base, i), l, mask)))};
  });
  return fold.finish(
      flat, [&](ArrayRef<Value> a, ArrayRef<Value> b) -> Accs { return {e.addF(a[0], b[0])}; },
      [&](ArrayRef<Value> a) -> Accs { return {e.reduceAdd(a[0])}; })[0];
}

Value toFloat(KernelEmitter &e, Value n, Type type) {
  return arith::SIToFPOp::create(e.b, e.loc, type, n);
}

struct Moments {
  Value mean, inverse; ///< 1 / sqrt(variance + epsilon)
};

/// Mean (null for `centred` false: RMS) and inverse deviation of a row.
Moments rowMoments(KernelEmitter &e, const TensorRef &t, Value base, Value n, double epsilon, bool centred) {
  Type value = KernelEmitter::valueType(t.element);
  Value count = toFloat(e, n, value);
  Moments m;
  if (centred)
    m.mean = e.divF(rowSum(e, t, base, n, [](Value x) { return x; }), count);
  Value squares = rowSum(e, t, base, n, [&](Value x) {
    Value d = centred ? e.subF(x, like(e, m.mean, x)) : x;
    return e.mulF(d, d);
  });
  Value deviation = math::sqrt(e, e.addF(e.divF(squares, count), e.floatConst(value, epsilon)));
  m.inverse = e.divF(e.floatConst(value, 1), deviation);
  return m;
}

class LayerNormKernel final : public NormalisationKernel {
public:
  LogicalResult matchMore(Operation *root, Reasons &reasons) const override {
    int64_t stash = onnx::getInt(root, "stash_type", 1);
    if (stash != 1 && stash != 10 && stash != 11 && stash != 16)
      return reasons.no() << "stash_type " << stash;
    return success();
  }
  LogicalResult emit(tsr::DispatchOp op, KernelEmitter &e) const override {
    RootView v(op, e);
    const TensorRef *in = v.in(0), *scale = v.in(1), *bias = v.in(2), *out = v.out(0);
    if (!in || !scale || (v.has(2) && !bias))
      return failure();
    bool centred = v.root->getName().getStringRef() == "onnx.LayerNormalization";
    unsigned rank = in->rank();
    int64_t axis = onnx::getInt(v.root, "axis", -1);
    axis += axis < 0 ? rank : 0;
    double epsilon = onnx::getFloat(v.root, "epsilon", 1e-5);
    const TensorRef *meanOut = centred ? v.out(1) : nullptr, *inverseOut = centred ? v.out(2) : nullptr;
    Type value = KernelEmitter::valueType(in->element);
    unsigned bits = value.getIntOrFloatBitWidth();
    SmallVector<Value> inner(in->dims.begin() + axis, in->dims.end());
    Value n = e.product(inner), rows = e.product(ArrayRef(in->dims).take_front(axis));
    bool flat = sameShape(*scale, inner) && (!bias || sameShape(*bias, inner));
    e.forLoop(rows, [&](Value r) {
      Value base = e.mul(r, n);
      Moments m = rowMoments(e, *in, base, n, epsilon, centred);
      // Of the type of stash_type, whatever the operand's is.
      for (auto [to, moment] : {std::pair(meanOut, m.mean), std::pair(inverseOut, m.inverse)})
        if (to)
          e.storeElement(*to, r, e.cast(moment, value, to->element));
      if (!out)
        return;
      auto finish = [&](Value x, Value s, Value c) {
        Value d = centred ? e.subF(x, like(e, m.mean, x)) : x;
        Value y = e.round(e.mulF(d, like(e, m.inverse, x)), out->element);
        if (out->element.isF32() || out->element.isF64())
          return c ? e.fma(y, s, c) : e.mulF(y, s);
        y = e.round(e.mulF(y, s), out->element);
        return c ? e.round(e.addF(y, c), out->element) : y;
      };
      if (flat) {
        e.vectorLoop(n, bits, 4, [&](Value i, Lanes l, Value mask) {
          Value at = e.add(base, i), x = e.loadLanes(*in, at, l, mask);
          Value s = parameter(e, *scale, i, l, mask, value);
          Value c = bias ? parameter(e, *bias, i, l, mask, value) : Value();
          e.storeLanes(*out, at, finish(x, s, c), mask);
        });
        return;
      }
      // Scale or bias broadcast in their own way: by index.
      SmallVector<Value> lead;
      Value rest = r;
      for (int64_t k = axis; k-- > 0;) {
        lead.insert(lead.begin(), k ? e.remU(rest, in->dims[k]) : rest);
        if (k)
          rest = e.divU(rest, in->dims[k]);
      }
      e.forAll(inner, [&](ArrayRef<Value> i) {
        Point p;
        p.index = lead;
        p.index.append(i.begin(), i.end());
        Value at = e.offsetOf(*in, p.index), x = e.loadElement(*in, at);
        Value s = e.cast(e.loadAt(*scale, p), scale->element, value);
        Value c = bias ? e.cast(e.loadAt(*bias, p), bias->element, value) : Value();
        e.storeElement(*out, at, finish(x, s, c));
      });
    });
    return success();
  }

private:
  static bool sameShape(const TensorRef &t, ArrayRef<Value> dims) {
    if (t.rank() != dims.size())
      return false;
    for (unsigned k = 0; k < dims.size(); ++k)
      if (!sameValue(t.dims[k], dims[k]))
        return false;
    return true;
  }
  static Value parameter(KernelEmitter &e, const TensorRef &t, Value i, Lanes l, Value mask, Type value) {
    Value x = e.loadLanes(t, i, l, mask);
    return KernelEmitter::scalarType(x.getType()) == value ? x : e.cast(x, t.element, value);
  }
};
TESSERA_KERNEL(LayerNormKernel, "onnx.LayerNormalization", "onnx.RMSNormalization");

/// Groups of channels; instance normalisation has one channel a group.
class GroupNormKernel final : public NormalisationKernel {
public:
  LogicalResult matchMore(Operation *root, Reasons &reasons) const override {
    int64_t stash = onnx::getInt(root, "stash_type", 1);
    if (stash != 1 && stash != 10 && stash != 11 && stash != 16)
      return reasons.no() << "stash_type " << stash;
    if (operandType(root, 0).getRank() < 2)
      return reasons.no() << "rank " << operandType(root, 0).getRank() << " is less than 2";
    return success();
  }
  LogicalResult emit(tsr::DispatchOp op, KernelEmitter &e) const override {
    RootView v(op, e);
    const TensorRef *in = v.in(0), *scale = v.in(1), *bias = v.in(2), *out = v.out(0);
    if (!in || !scale || !bias || !out || in->layout != tsr::Layout::RowMajor)
      return failure();
    bool instance = v.root->getName().getStringRef() == "onnx.InstanceNormalization";
    Value channels = in->dims[1], spatial = e.product(ArrayRef(in->dims).drop_front(2));
    Value groups = instance ? channels : e.idx(std::max<int64_t>(1, onnx::getInt(v.root, "num_groups", 1)));
    Value width = instance ? e.idx(1) : e.divU(channels, groups), n = e.mul(width, spatial);
    e.failIf(e.lt(scale->dims[0], channels), TSR_KERNEL_BAD_VALUE);
    e.failIf(e.lt(bias->dims[0], channels), TSR_KERNEL_BAD_VALUE);
    Value fits = e.logicalNot(e.logicalOr(e.lt(scale->dims[0], channels), e.lt(bias->dims[0], channels)));
    double epsilon = onnx::getFloat(v.root, "epsilon", 1e-5);
    Type value = KernelEmitter::valueType(in->element);
    bool exact = in->element.isF32() || in->element.isF64();
    e.ifThen(fits, [&] {
      e.forAll({in->dims[0], groups}, [&](ArrayRef<Value> at) {
        Value first = e.mul(at[1], width);
        Value base = e.mul(e.add(e.mul(at[0], channels), first), spatial);
        Moments m = rowMoments(e, *in, base, n, epsilon, true);
        e.forLoop(width, [&](Value w) {
          Value c = e.add(first, w), row = e.add(base, e.mul(w, spatial));
          Value s = e.load(*scale, {c}), b = e.load(*bias, {c});
          Value factor, offset;
          if (exact) {
            factor = e.mulF(s, m.inverse);
            offset = e.subF(b, e.mulF(m.mean, factor));
          }
          e.vectorLoop(spatial, value.getIntOrFloatBitWidth(), 4, [&](Value i, Lanes l, Value mask) {
            Value x = e.loadLanes(*in, e.add(row, i), l, mask), y;
            if (exact) {
              y = e.fma(x, like(e, factor, x), like(e, offset, x));
            } else {
              y = e.mulF(e.subF(x, like(e, m.mean, x)), like(e, m.inverse, x));
              y = e.round(e.mulF(e.round(y, out->element), like(e, s, x)), out->element);
              y = e.round(e.addF(y, like(e, b, x)), out->element);
            }
            e.storeLanes(*out, e.add(row, i), y, mask);
          });
        });
      });
    });
    return success();
  }
};
TESSERA_KERNEL(GroupNormKernel, "onnx.GroupNormalization", "onnx.InstanceNormalization");

class BatchNormKernel final : public NormalisationKernel {
public:
  bool acceptsChannelsLast(Operation *root) const override {
    return !onnx::getInt(root, "training_mode", 0);
  }
  LogicalResult emit(tsr::DispatchOp op, KernelEmitter &e) const override {
    RootView v(op, e);
    const TensorRef *in = v.in(0), *scale = v.in(1), *bias = v.in(2), *mean = v.in(3), *var = v.in(4);
    const TensorRef *out = v.out(0);
    if (!in || !scale || !bias || !mean || !var)
      return failure();
    Type value = KernelEmitter::valueType(in->element);
    unsigned bits = value.getIntOrFloatBitWidth(), rank = in->rank();
    Value channels = rank > 1 ? in->dims[1] : e.idx(1);
    Value fits = e.intConst(e.i1(), 1);
    for (const TensorRef *t : {scale, bias, mean, var})
      fits = e.logicalAnd(fits, e.cmp(arith::CmpIPredicate::sle, channels, t->dims[0]));
    e.failIf(e.logicalNot(fits), TSR_KERNEL_BAD_VALUE);
    bool train = onnx::getInt(v.root, "training_mode", 0);
    double epsilon = onnx::getFloat(v.root, "epsilon", 1e-5), momentum = onnx::getFloat(v.root, "momentum", 0.9);
    auto param = [&](const TensorRef &t, Value c, Lanes l, Value mask) {
      Value x = e.loadLanes(t, c, l, mask);
      return KernelEmitter::scalarType(x.getType()) == value ? x : e.cast(x, t.element, value);
    };
    auto line = [&](Value m, Value s, Value c, Lanes l, Value mask) {
      Value eps = e.floatConst(s.getType(), epsilon);
      Value factor = e.divF(param(*scale, c, l, mask), math::sqrt(e, e.addF(s, eps)));
      return std::pair(factor, e.subF(param(*bias, c, l, mask), e.mulF(m, factor)));
    };
    e.ifThen(fits, [&] {
      if (in->layout == tsr::Layout::ChannelsLast && out) {
        Value pixels = e.mul(in->dims[0], e.product(ArrayRef(in->dims).drop_front(2)));
        laneGroups(e, channels, e.isa.lanes(bits), 1, [&](Value c, unsigned, Lanes l, Value mask) {
          auto [factor, offset] = line(param(*mean, c, l, mask), param(*var, c, l, mask), c, l, mask);
          e.forLoop(pixels, [&](Value p) {
            Value at = e.add(e.mul(p, channels), c), x = e.loadLanes(*in, at, l, mask);
            e.storeLanes(*out, at, e.round(e.fma(x, factor, offset), out->element), mask);
          });
        });
        return;
      }
      Value spatial = rank > 2 ? e.product(ArrayRef(in->dims).drop_front(2)) : e.idx(1);
      Value batch = in->dims[0], image = e.mul(channels, spatial);
      if (!train && KernelEmitter::constantOf(spatial) == 1) {
        e.forLoop(batch, [&](Value b) {
          e.vectorLoop(channels, bits, 1, [&](Value c, Lanes l, Value mask) {
            auto [factor, offset] = line(param(*mean, c, l, mask), param(*var, c, l, mask), c, l, mask);
            Value at = e.add(e.mul(b, channels), c), x = e.loadLanes(*in, at, l, mask);
            e.storeLanes(*out, at, e.round(e.fma(x, factor, offset), out->element), mask);
          });
        });
        return;
      }
      e.forLoop(channels, [&](Value c) {
        Value m, s;
        Value base = e.mul(c, spatial);
        auto total = [&](function_ref<Value(Value)> map) {
          return e.forLoop(e.idx(0), batch, e.idx(1), ValueRange{e.floatConst(value, 0)},
                           [&](Value b, ValueRange acc) -> SmallVector<Value> {
            return {e.addF(acc[0], rowSum(e, *in, e.add(base, e.mul(b, image)), spatial, map))};
          })[0];
        };
        m = param(*mean, c, e.scalarLanes(), {});
        s = param(*var, c, e.scalarLanes(), {});
        if (train) {
          Value count = toFloat(e, e.mul(batch, spatial), value);
          Value oldMean = m, oldVar = s;
          m = e.divF(total([](Value x) { return x; }), count);
          s = e.divF(total([&](Value x) {
                       Value d = e.subF(x, like(e, m, x));
                       return e.mulF(d, d);
                     }), count);
          auto blend = [&](Value old, Value fresh) {
            return e.addF(e.mulF(old, e.floatConst(value, momentum)),
                          e.mulF(fresh, e.floatConst(value, 1 - momentum)));
          };
          auto put = [&](const TensorRef *t, Value x) {
            if (t)
              e.storeElement(*t, c, KernelEmitter::valueType(t->element) == value
                                        ? e.round(x, t->element)
                                        : e.cast(x, in->element, t->element));
          };
          put(v.out(1), blend(oldMean, m));
          put(v.out(2), blend(oldVar, s));
        }
        if (!out)
          return;
        auto [factor_, offset_] = line(m, s, c, e.scalarLanes(), {});
        Value factor = factor_, offset = offset_;
        e.forLoop(batch, [&](Value b) {
          Value row = e.add(base, e.mul(b, image));
          e.vectorLoop(spatial, bits, 4, [&](Value i, Lanes l, Value mask) {
            Value at = e.add(row, i), x = e.loadLanes(*in, at, l, mask);
            e.storeLanes(*out, at, e.round(e.fma(x, like(e, factor, x), like(e, offset, x)), out->element), mask);
          });
        });
      });
    });
    return success();
  }
};
TESSERA_KERNEL(BatchNormKernel, "onnx.BatchNormalization");

/// x / |x|_p along an axis; 0 where the norm is 0.
class LpNormKernel final : public NormalisationKernel {
public:
  LogicalResult matchMore(Operation *root, Reasons &reasons) const override {
    int64_t p = onnx::getInt(root, "p", 2);
    if (p != 1 && p != 2)
      return reasons.no() << "p " << p << " is neither 1 nor 2";
    return success();
  }
  LogicalResult emit(tsr::DispatchOp op, KernelEmitter &e) const override {
    RootView v(op, e);
    const TensorRef *in = v.in(0), *out = v.out(0);
    if (!in || !out)
      return failure();
    unsigned rank = in->rank();
    int64_t axis = onnx::getInt(v.root, "axis", -1);
    axis += axis < 0 ? rank : 0;
    bool square = onnx::getInt(v.root, "p", 2) == 2;
    Type value = KernelEmitter::valueType(in->element);
    unsigned bits = value.getIntOrFloatBitWidth();
    auto map = [&](Value x) { return square ? e.mulF(x, x) : math::abs(e, x); };
    auto scaled = [&](Value x, Value norm) {
      Value zero = e.floatConst(x.getType(), 0);
      norm = like(e, norm, x);
      Value none = e.cmpF(arith::CmpFPredicate::OEQ, norm, zero);
      return e.round(arith::SelectOp::create(e.b, e.loc, none, zero, e.divF(x, norm)), out->element);
    };
    SmallVector<Value> outer(in->dims);
    outer[axis] = e.idx(1);
    Value n = in->dims[axis];
    bool row = KernelEmitter::constantOf(in->strides[axis]) == 1 && KernelEmitter::constantOf(out->strides[axis]) == 1;
    bool lanes = !row && KernelEmitter::constantOf(in->strides[rank - 1]) == 1 &&
                 KernelEmitter::constantOf(out->strides[rank - 1]) == 1;
    if (lanes)
      outer[rank - 1] = e.idx(1);
    e.forAll(outer, [&](ArrayRef<Value> i) {
      Value src = e.offsetOf(*in, i), dst = e.offsetOf(*out, i);
      if (row) {
        Value norm = rowSum(e, *in, src, n, map);
        if (square)
          norm = math::sqrt(e, norm);
        e.vectorLoop(n, bits, 4, [&](Value k, Lanes l, Value mask) {
          e.storeLanes(*out, e.add(dst, k), scaled(e.loadLanes(*in, e.add(src, k), l, mask), norm), mask);
        });
        return;
      }
      auto column = [&](Value first, unsigned, Lanes l, Value mask) {
        auto at = [&](Value base, Value k, Value step) { return e.add(e.add(base, first), e.mul(k, step)); };
        Value norm = e.forLoop(e.idx(0), n, e.idx(1), ValueRange{e.splat(e.floatConst(value, 0), l)},
                               [&](Value k, ValueRange acc) -> SmallVector<Value> {
          return {e.addF(acc[0], map(e.loadLanes(*in, at(src, k, in->strides[axis]), l, mask)))};
        })[0];
        if (square)
          norm = math::sqrt(e, norm);
        e.forLoop(n, [&](Value k) {
          Value x = e.loadLanes(*in, at(src, k, in->strides[axis]), l, mask);
          e.storeLanes(*out, at(dst, k, out->strides[axis]), scaled(x, norm), mask);
        });
      };
      if (lanes)
        laneGroups(e, in->dims[rank - 1], e.isa.lanes(bits), 1, column);
      else
        column(e.idx(0), 1, e.scalarLanes(), {});
    });
    return success();
  }
};
TESSERA_KERNEL(LpNormKernel, "onnx.LpNormalization");

/// x / (bias + alpha / size * sum of squares of near channels) ^ beta.
class LrnKernel final : public NormalisationKernel {
public:
  LogicalResult matchMore(Operation *root, Reasons &reasons) const override {
    if (operandType(root, 0).getRank() < 2)
      return reasons.no() << "rank " << operandType(root, 0).getRank() << " is less than 2";
    return success();
  }
  LogicalResult emit(tsr::DispatchOp op, KernelEmitter &e) const override {
    RootView v(op, e);
    const TensorRef *in = v.in(0), *out = v.out(0);
    if (!in || !out || in->layout != tsr::Layout::RowMajor)
      return failure();
    int64_t size = onnx::getInt(v.root, "size", 1);
    double alpha = onnx::getFloat(v.root, "alpha", 1e-4), beta = onnx::getFloat(v.root, "beta", 0.75);
    double bias = onnx::getFloat(v.root, "bias", 1);
    Value channels = in->dims[1], spatial = e.product(ArrayRef(in->dims).drop_front(2));
    Type value = KernelEmitter::valueType(in->element);
    e.forAll({in->dims[0], channels}, [&](ArrayRef<Value> at) {
      Value c = at[1], image = e.mul(e.mul(at[0], channels), spatial);
      Value from = e.maxS(e.sub(c, (size - 1) / 2), e.idx(0));
      Value to = e.minS(e.add(c, size / 2 + 1), channels); // ceil((size - 1) / 2) + 1
      Value row = e.add(image, e.mul(c, spatial));
      e.vectorLoop(spatial, value.getIntOrFloatBitWidth(), 1, [&](Value i, Lanes l, Value mask) {
        Value zero = e.splat(e.floatConst(value, 0), l);
        Value sum = e.forLoop(from, to, e.idx(1), ValueRange{zero}, [&](Value k, ValueRange acc) -> SmallVector<Value> {
          Value x = e.loadLanes(*in, e.add(e.add(image, e.mul(k, spatial)), i), l, mask);
          return {e.fma(x, x, acc[0])};
        })[0];
        Value x = e.loadLanes(*in, e.add(row, i), l, mask);
        Type type = x.getType();
        Value base = e.fma(sum, e.floatConst(type, alpha / size), e.floatConst(type, bias));
        Value y = e.divF(x, math::pow(e, base, e.floatConst(type, beta)));
        e.storeLanes(*out, e.add(row, i), e.round(y, out->element), mask);
      });
    });
    return success();
  }
};
TESSERA_KERNEL(LrnKernel, "onnx.LRN");

} // namespace
} // namespace tessera::cpu

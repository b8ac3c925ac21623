// GridSample: the image at places that another tensor names. One invocation a
// result; the formulas are the CPU's.
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "targets/Cpu/Kernels/Combine.h"
#include "targets/Cpu/Math.h"
#include "targets/Vulkan/Kernels/Boxes.h"

using namespace mlir;

namespace tessera::vulkan {
namespace {

using P = arith::CmpFPredicate;

Value toFloat(Emitter &e, Index i) {
  if (i.known())
    return e.floatConst(e.f32(), static_cast<double>(i.c));
  return arith::SIToFPOp::create(e.b, e.loc, e.f32(), e.value(i));
}

/// Whole number of a float; NaN and what is far outside become 0.
Index toInteger(Emitter &e, Value x) {
  Value near = e.cmpF(P::OLT, cpu::math::abs(e, x), e.floatConst(e.f32(), 1e9));
  return Index(arith::FPToSIOp::create(
      e.b, e.loc, e.i32(), e.pick(near, x, e.floatConst(e.f32(), 0))));
}

/// Mirrors x at the borders until it is between them.
Value reflect(Emitter &e, Value x, Value lo, Value hi) {
  Value range = e.subF(hi, lo), zero = e.floatConst(e.f32(), 0);
  Value below = e.cmpF(P::OLT, x, lo), above = e.cmpF(P::OGT, x, hi);
  Value distance = e.pick(below, e.subF(lo, x), e.subF(x, hi));
  Value safe =
      e.pick(e.cmpF(P::OGT, range, zero), range, e.floatConst(e.f32(), 1));
  Value n = cpu::math::trunc(e, e.divF(distance, safe));
  Value rest = e.subF(distance, e.mulF(n, safe));
  Value half = e.mulF(n, e.floatConst(e.f32(), 0.5));
  Value even = e.cmpF(P::OEQ, cpu::math::floor(e, half), half);
  Value fromLow = e.addF(lo, rest), fromHigh = e.subF(hi, rest);
  Value y = e.pick(below, e.pick(even, fromLow, fromHigh),
                   e.pick(even, fromHigh, fromLow));
  return e.pick(arith::OrIOp::create(e.b, e.loc, below, above), y, x);
}

Value cubicWeight(Emitter &e, Value x) {
  constexpr double a = -0.75;
  auto polynomial = [&](double c3, double c2, double c1, double c0) {
    Value y = e.floatConst(e.f32(), c3);
    for (double c : {c2, c1, c0})
      y = e.addF(e.mulF(y, x), e.floatConst(e.f32(), c));
    return y;
  };
  return e.pick(e.cmpF(P::OLE, x, e.floatConst(e.f32(), 1)),
                polynomial(a + 2, -(a + 3), 0, 1),
                polynomial(a, -5 * a, 8 * a, -4 * a));
}

class GridSample {
public:
  GridSample(tsr::DispatchOp op, Emitter &e)
      : op(op), e(e), root(op.getRootOp()),
        mode(onnx::getString(root, "mode", "linear")),
        padding(onnx::getString(root, "padding_mode", "zeros")),
        align(onnx::getInt(root, "align_corners", 0) != 0) {}
  LogicalResult emit();

private:
  /// Of one axis: index (clamped), whether it is inside, weight.
  struct Tap {
    Index index;
    Value inside, weight;
  };
  SmallVector<Tap> tapsOf(Value coordinate, int64_t length);
  Value sum(unsigned axis, Index offset, Value inside);

  tsr::DispatchOp op;
  Emitter &e;
  Operation *root;
  StringRef mode, padding;
  bool align;
  Buffer *in = nullptr;
  SmallVector<SmallVector<Tap>> taps;
};

SmallVector<GridSample::Tap> GridSample::tapsOf(Value n, int64_t length) {
  auto c = [&](double k) { return e.floatConst(e.f32(), k); };
  double size = static_cast<double>(length);
  Value x =
      align ? e.mulF(e.mulF(e.addF(n, c(1)), c(0.5)), c(size - 1))
            : e.mulF(e.subF(e.mulF(e.addF(n, c(1)), c(size)), c(1)), c(0.5));
  bool nearest = mode == "nearest";
  if (nearest)
    x = cpu::math::roundEven(e, x);
  Value lo = c(align ? 0 : -0.5), hi = c(align ? size - 1 : size - 0.5);
  Value outside = arith::OrIOp::create(e.b, e.loc, e.cmpF(P::OLT, x, lo),
                                       e.cmpF(P::OGT, x, hi));
  if (padding == "border")
    x = e.pick(outside, e.minF(e.maxF(x, c(0)), c(size - 1)), x);
  else if (padding == "reflection")
    x = e.pick(outside, reflect(e, x, lo, hi), x);
  Value floor = nearest ? x : cpu::math::floor(e, x);
  Value ratio = e.subF(x, floor);
  Index base = toInteger(e, floor);
  SmallVector<Tap> found;
  auto tap = [&](int64_t shift, Value weight) {
    Index i = e.add(base, shift);
    Value inside = e.both(e.ge(i, 0), e.lt(i, length));
    auto clamp = [&](Index k) { return e.max(e.min(k, length - 1), 0); };
    Index index = clamp(i);
    if (padding == "reflection") {
      Index r = clamp(toInteger(e, reflect(e, toFloat(e, i), lo, hi)));
      index = Index(e.pick(inside, e.value(index), e.value(r)));
    }
    found.push_back({index, padding == "zeros" ? inside : Value(), weight});
  };
  if (nearest) {
    tap(0, {});
  } else if (!mode.ends_with("cubic")) {
    tap(0, e.subF(c(1), ratio));
    tap(1, ratio);
  } else {
    for (int64_t i = -1; i < 3; ++i)
      tap(i, cubicWeight(e, cpu::math::abs(e, e.subF(c(i), ratio))));
  }
  return found;
}

/// Over the taps of `axis` and those behind it.
Value GridSample::sum(unsigned axis, Index offset, Value inside) {
  if (axis == taps.size()) {
    Value x = e.load(*in, offset);
    Type type = x.getType();
    Value zero =
        isa<FloatType>(type) ? e.floatConst(type, 0) : e.intConst(type, 0);
    return inside ? e.pick(inside, x, zero) : x;
  }
  Value total;
  for (const Tap &t : taps[axis]) {
    Value part =
        sum(axis + 1, e.add(offset, e.mul(t.index, in->strides[axis + 2])),
            e.both(inside, t.inside));
    if (!t.weight)
      return part;
    total = e.fma(t.weight, part, total ? total : e.floatConst(e.f32(), 0));
  }
  return total;
}

LogicalResult GridSample::emit() {
  Buffer *grid = rootBuffer(op, e, 1), *out = e.out[0].get();
  in = rootBuffer(op, e, 0);
  if (failed(requireAlone(op, e)))
    return failure();
  if (!in || !grid || in->count == 0)
    return e.reasons.no() << "a GridSample with an embedded or empty operand";
  unsigned spatial = in->rank() - 2;
  e.gridLike(*out, out->dims, [&](Index, SmallVector<Index> at) {
    taps.clear();
    SmallVector<Index> from{at[0]};
    from.append(at.begin() + 2, at.end());
    from.push_back(0);
    for (unsigned k = 0; k < spatial; ++k) {
      from.back() = spatial - 1 - k; // coordinates come last axis first
      Value n = e.load(*grid, e.offset(from, grid->strides));
      taps.push_back(tapsOf(n, in->dims[k + 2]));
    }
    Index base =
        e.add(e.mul(at[0], in->strides[0]), e.mul(at[1], in->strides[1]));
    Value y = sum(0, base, {});
    if (isa<FloatType>(out->element))
      y = e.round(y, out->element);
    e.store(*out, e.offset(at, out->strides), y);
  });
  return success();
}

LogicalResult emitGridSample(tsr::DispatchOp op, Emitter &e) {
  for (auto &t : e.in)
    if (t->element.isF64())
      return e.reasons.no() << "GridSample of float64";
  return GridSample(op, e).emit();
}
Register gridSample({"onnx.GridSample"}, emitGridSample);

} // namespace
} // namespace tessera::vulkan

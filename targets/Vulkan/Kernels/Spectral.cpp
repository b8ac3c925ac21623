// DFT and STFT by their definition: one invocation a bin, which adds up the
// samples times roots of unity. The angle is reduced in integers.
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "targets/Vulkan/Kernels/Boxes.h"
#include "targets/Vulkan/SinglePrecision.h"

using namespace mlir;

namespace tessera::vulkan {
namespace {

constexpr int64_t longest = 1 << 14; // products of indices fit 32 bits

LogicalResult requireSignal(tsr::DispatchOp op, Emitter &e) {
  if (failed(requireAlone(op, e)))
    return failure();
  for (auto &t : e.in)
    if (isa<FloatType>(t->element) && !t->element.isF32() &&
        !t->element.isF16() && !t->element.isBF16())
      return e.reasons.no()
             << "a transform of " << onnx::getTypeName(t->element);
  return success();
}

struct Complex {
  Value re, im; ///< im null: 0
};

/// Sum over i < count of sample(i) e^(sign 2 pi i bin / n), times weight(i).
Complex transform(Emitter &e, int64_t count, int64_t n, Index bin, bool inverse,
                  llvm::function_ref<Complex(Index)> sample) {
  Value zero = e.floatConst(e.f32(), 0);
  SmallVector<Value> sum =
      e.loop(0, count, 1, {zero, zero}, [&](Index i, ValueRange carried) {
        auto [c, s] = unitRoot(e, e.rem(e.mul(i, bin), n), n);
        if (!inverse)
          s = e.subF(zero, s);
        Complex x = sample(i);
        Value re = e.fma(x.re, c, carried[0]), im = e.fma(x.re, s, carried[1]);
        if (x.im) {
          re = e.fma(e.subF(zero, x.im), s, re);
          im = e.fma(x.im, c, im);
        }
        return SmallVector<Value>{re, im};
      });
  return {sum[0], sum[1]};
}

LogicalResult emitDft(tsr::DispatchOp op, Emitter &e) {
  Operation *root = op.getRootOp();
  Buffer *in = rootBuffer(op, e, 0), *out = e.out[0].get();
  if (failed(requireSignal(op, e)))
    return failure();
  bool inverse = onnx::getInt(root, "inverse", 0) != 0,
       oneSided = onnx::getInt(root, "onesided", 0) != 0;
  auto axis = constantInt(op, e, 2, -2);
  if (!in || !axis)
    return e.reasons.no() << "a DFT of an embedded operand";
  *axis += *axis < 0 ? in->rank() : 0;
  int64_t have = in->dims[*axis], parts = in->dims.back();
  bool toReal = inverse && oneSided;
  if (inverse && !oneSided)
    return e.reasons.no()
           << "an inverse DFT of which all parts are kept: zeros "
              "come out with other rounding errors";
  auto length = constantInt(op, e, 1, toReal ? (have - 1) * 2 : have);
  if (!length)
    return failure();
  int64_t n = *length, last = in->rank() - 1;
  if (n < 1 || n > longest || *axis >= last || have == 0)
    return e.reasons.no() << "a DFT of length " << n;
  int64_t used = std::min(have, toReal ? n / 2 + 1 : n);
  SmallVector<int64_t> bins(out->dims);
  bins[last] = 1;
  e.gridLike(*out, bins, [&](Index, SmallVector<Index> at) {
    Index to = e.offset(at, out->strides), bin = at[*axis];
    auto sample = [&](Index i) {
      SmallVector<Index> from(at);
      from[*axis] = i;
      Index base = e.offset(from, in->strides);
      Complex x{e.load(*in, base), {}};
      if (parts > 1)
        x.im = e.load(*in, e.add(base, in->strides[last]));
      if (!toReal)
        return x;
      // A bin stands for its mirror image, too; the real ones have none.
      Value twice = e.both(e.ge(i, 1), e.lt(e.add(i, i), n));
      Value one = e.floatConst(e.f32(), 1), two = e.floatConst(e.f32(), 2);
      x.re = e.mulF(x.re, e.pick(twice, two, one));
      if (x.im)
        x.im = e.mulF(x.im, e.pick(twice, two, e.floatConst(e.f32(), 0)));
      return x;
    };
    Complex y = transform(e, used, n, bin, inverse, sample);
    if (inverse) {
      Value scale = e.floatConst(e.f32(), 1.0 / static_cast<double>(n));
      y = {e.mulF(y.re, scale), e.mulF(y.im, scale)};
    }
    e.store(*out, to, e.round(y.re, out->element));
    if (out->dims[last] > 1)
      e.store(*out, e.add(to, out->strides[last]), e.round(y.im, out->element));
  });
  return success();
}
Register dft({"onnx.DFT"}, emitDft);

LogicalResult emitStft(tsr::DispatchOp op, Emitter &e) {
  Operation *root = op.getRootOp();
  Buffer *in = rootBuffer(op, e, 0), *window = rootBuffer(op, e, 2),
         *out = e.out[0].get();
  if (failed(requireSignal(op, e)))
    return failure();
  if (!in || (onnx::getOptionalOperand(root, 2) && !window))
    return e.reasons.no() << "an STFT with an embedded operand";
  auto step = constantInt(op, e, 1, 1);
  auto length = constantInt(op, e, 3, window ? window->count : in->dims[1]);
  if (!step || !length)
    return failure();
  int64_t n = *length, size = window ? window->count : n;
  if (n < 1 || n > longest || size > n || *step < 1 || in->dims[1] == 0)
    return e.reasons.no() << "an STFT of frames of " << n;
  int64_t parts = in->rank() == 3 ? in->dims[2] : 1;
  SmallVector<int64_t> bins(out->dims);
  bins[3] = 1;
  e.gridLike(*out, bins, [&](Index, SmallVector<Index> at) {
    auto sample = [&](Index i) {
      Index p = e.add(e.mul(at[1], *step), i);
      Value inside = e.lt(p, in->dims[1]), zero = e.floatConst(e.f32(), 0);
      Index base = e.add(e.mul(at[0], in->strides[0]),
                         e.mul(e.min(p, in->dims[1] - 1), in->strides[1]));
      auto weighted = [&](Value x) {
        if (window)
          x = e.mulF(x, e.load(*window, i));
        return e.pick(inside, x, zero);
      };
      Complex x{weighted(e.load(*in, base)), {}};
      if (parts > 1)
        x.im = weighted(e.load(*in, e.add(base, in->strides[2])));
      return x;
    };
    Complex y = transform(e, size, n, at[2], false, sample);
    Index to = e.offset(at, out->strides);
    e.store(*out, to, e.round(y.re, out->element));
    e.store(*out, e.add(to, out->strides[3]), e.round(y.im, out->element));
  });
  return success();
}
Register stft({"onnx.STFT"}, emitStft);

} // namespace
} // namespace tessera::vulkan

// Layer, RMS, group and instance normalisation; batch normalisation with given
// statistics. Statistics in f32, in two passes.
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "targets/Cpu/Math.h"
#include "targets/Vulkan/Kernels/Boxes.h"
#include "targets/Vulkan/Kernels/Rows.h"

using namespace mlir;

namespace tessera::vulkan {
namespace {

LogicalResult requireFloats(tsr::DispatchOp op, Emitter &e) {
  if (failed(requireAlone(op, e)))
    return failure();
  for (auto &t : e.in)
    if (!t->element.isF32() && !t->element.isF16() && !t->element.isBF16())
      return e.reasons.no()
             << "normalisation of " << onnx::getTypeName(t->element);
  return success();
}

struct Moments {
  Value mean, inverse; ///< 1 / sqrt(variance + epsilon)
};

Moments momentsOf(Emitter &e, Rows &rows, double epsilon, bool centred) {
  auto add = [&](Value a, Value b) { return e.addF(a, b); };
  Value zero = e.floatConst(e.f32(), 0);
  auto over = [&](Value total) {
    return e.divF(
        total, e.floatConst(total.getType(), static_cast<double>(rows.length)));
  };
  Moments m;
  if (centred)
    m.mean = over(rows.reduce(zero, [](Value x, Index) { return x; }, add));
  Value variance = over(rows.reduce(
      zero,
      [&](Value x, Index) {
        Value d = centred ? e.subF(x, rows.spread(m.mean)) : x;
        return e.mulF(d, d);
      },
      add));
  Value deviation = cpu::math::sqrt(
      e, e.addF(variance, e.floatConst(variance.getType(), epsilon)));
  m.inverse = e.divF(e.floatConst(variance.getType(), 1), deviation);
  return m;
}

void put(Emitter &e, Rows &rows, Buffer &out, Index i, Value y) {
  Index to = rows.offsetOf(out.strides, i, rows.quads());
  if (rows.quads())
    e.storeQuad(out, to, y);
  else
    e.store(out, to, y);
}

/// An element or quad of a tensor that has its own strides along the operand's
/// axes.
Value parameter(Emitter &e, Rows &rows, Buffer &t, ArrayRef<int64_t> strides,
                Index i) {
  if (!rows.quads())
    return e.load(t, rows.offsetOf(strides, i, false));
  if (rows.fitsQuads(t, strides)) {
    t.useVectors();
    return e.loadQuad(t, rows.offsetOf(strides, i, true));
  }
  return e.quadSplat(e.load(t, rows.offsetOf(strides, i, false)));
}

LogicalResult emitLayer(tsr::DispatchOp op, Emitter &e) {
  Operation *root = op.getRootOp();
  Buffer *in = rootBuffer(op, e, 0), *scale = rootBuffer(op, e, 1),
         *bias = rootBuffer(op, e, 2);
  Buffer *out = rootResult(op, e, 0), *mean = rootResult(op, e, 1),
         *inverse = rootResult(op, e, 2);
  if (failed(requireFloats(op, e)))
    return failure();
  if (!in || !scale || (onnx::getOptionalOperand(root, 2) && !bias) || !out ||
      in->strides != out->strides)
    return e.reasons.no() << "a layer normalisation with an embedded operand, "
                             "another layout, or only its statistics read";
  bool centred = root->getName().getStringRef() == "onnx.LayerNormalization";
  int64_t axis = axisOf(root, "axis", -1, in->rank());
  SmallVector<int64_t> reduced;
  for (int64_t k = axis; k < in->rank(); ++k)
    reduced.push_back(k);
  auto alongRow = [&](Buffer &t) { // broadcast to the operand
    SmallVector<int64_t> strides(in->rank(), 0);
    for (unsigned i = 0; i < t.rank() && i < in->rank(); ++i) {
      unsigned from = t.rank() - 1 - i;
      strides[in->rank() - 1 - i] = t.dims[from] == 1 ? 0 : t.strides[from];
    }
    return strides;
  };
  Rows rows(e, *in, reduced);
  rows.allowQuads = false; // parameters vary along rows
  rows.forRows([&] {
    if (rows.quads())
      out->useVectors();
    Moments m =
        momentsOf(e, rows, onnx::getFloat(root, "epsilon", 1e-5), centred);
    e.when(rows.isFirst(), [&] { // statistics have the operand's rank
      if (mean)
        e.store(*mean, rows.offsetOf(mean->strides, 0, false), m.mean);
      if (inverse)
        e.store(*inverse, rows.offsetOf(inverse->strides, 0, false), m.inverse);
    });
    rows.each([&](Value x, Index i) {
      Value y = centred ? e.subF(x, rows.spread(m.mean)) : x;
      y = e.round(e.mulF(y, rows.spread(m.inverse)), out->element);
      y = e.round(e.mulF(y, parameter(e, rows, *scale, alongRow(*scale), i)),
                  out->element);
      if (bias)
        y = e.round(e.addF(y, parameter(e, rows, *bias, alongRow(*bias), i)),
                    out->element);
      put(e, rows, *out, i, y);
    });
  });
  return success();
}
Register layer({"onnx.LayerNormalization", "onnx.RMSNormalization"}, emitLayer);

/// Statistics over the space (and, for groups, some channels) of one image.
LogicalResult emitInstance(tsr::DispatchOp op, Emitter &e) {
  Operation *root = op.getRootOp();
  Buffer *in = rootBuffer(op, e, 0), *scale = rootBuffer(op, e, 1),
         *bias = rootBuffer(op, e, 2);
  Buffer *out = e.out[0].get();
  if (failed(requireFloats(op, e)))
    return failure();
  if (!in || !scale || !bias || in->strides != out->strides)
    return e.reasons.no() << "a form of instance normalisation that is fused";
  bool instance =
      root->getName().getStringRef() == "onnx.InstanceNormalization";
  int64_t groups = instance ? in->dims[1] : onnx::getInt(root, "num_groups", 1);
  if (scale->count < in->dims[1] || bias->count < in->dims[1])
    return e.reasons.no() << "scales for " << scale->count << " of "
                          << in->dims[1] << " channels";
  // The channel axis as two: groups and what is in one.
  const int64_t width = in->dims[1] / groups;
  auto split = [&](SmallVector<int64_t> &v, bool sizes) {
    int64_t whole = v[1];
    v[1] = sizes ? groups : whole * width;
    v.insert(v.begin() + 2, sizes ? width : whole);
  };
  split(in->dims, true);
  split(in->strides, false);
  split(out->dims, true);
  split(out->strides, false);
  SmallVector<int64_t> reduced, channel(in->rank(), 0);
  for (int64_t k = 2; k < in->rank(); ++k)
    reduced.push_back(k);
  channel[1] = in->dims[2];
  channel[2] = 1;
  Rows rows(e, *in, reduced);
  rows.allowQuads = false;
  rows.forRows([&] {
    if (rows.quads())
      out->useVectors();
    Moments m = momentsOf(e, rows, onnx::getFloat(root, "epsilon", 1e-5), true);
    rows.each([&](Value x, Index i) {
      Value y = e.round(
          e.mulF(e.subF(x, rows.spread(m.mean)), rows.spread(m.inverse)),
          out->element);
      y = e.round(e.mulF(y, parameter(e, rows, *scale, channel, i)),
                  out->element);
      y = e.round(e.addF(y, parameter(e, rows, *bias, channel, i)),
                  out->element);
      put(e, rows, *out, i, y);
    });
  });
  return success();
}
Register instance({"onnx.InstanceNormalization", "onnx.GroupNormalization"},
                  emitInstance);

LogicalResult emitBatch(tsr::DispatchOp op, Emitter &e) {
  Operation *root = op.getRootOp();
  Buffer *t[5];
  for (unsigned i = 0; i < 5; ++i)
    if (!(t[i] = rootBuffer(op, e, i)))
      return e.reasons.no() << "a batch normalisation with an embedded operand";
  if (onnx::getInt(root, "training_mode", 0))
    return e.reasons.no() << "batch normalisation in training mode";
  if (failed(requireFloats(op, e)))
    return failure();
  if (e.out.size() != 1 || t[0]->strides != e.out[0]->strides ||
      t[0]->rank() < 2)
    return e.reasons.no() << "a batch normalisation that changes its layout";
  Fusion fusion(op, e);
  int lanes = fusion.laneAxis();
  SmallVector<int64_t> sizes(fusion.dims());
  int64_t threads = 1;
  if (lanes >= 0)
    sizes[lanes] /= 4;
  for (int64_t d : sizes)
    threads *= d;
  fusion.useVectors(lanes);
  LogicalResult result = success();
  e.grid(threads, [&](Index id) {
    Point p{e.digits(id, sizes), lanes};
    auto channel = [&](Buffer &b) { return fusion.loadAlong(b, 1, p); };
    Value x = fusion.loadBroadcast(*t[0], p), mean = channel(*t[3]),
          variance = channel(*t[4]);
    Value epsilon =
        e.floatConst(variance.getType(), onnx::getFloat(root, "epsilon", 1e-5));
    Value factor =
        e.divF(channel(*t[1]), cpu::math::sqrt(e, e.addF(variance, epsilon)));
    Value offset = e.subF(channel(*t[2]), e.mulF(mean, factor));
    result =
        fusion.store(e.round(e.fma(x, factor, offset), e.out[0]->element), p);
  });
  return result;
}
Register batch({"onnx.BatchNormalization"}, emitBatch);

/// x / |x|_p along an axis; 0 where the norm is 0.
LogicalResult emitLpNorm(tsr::DispatchOp op, Emitter &e) {
  Operation *root = op.getRootOp();
  Buffer *in = rootBuffer(op, e, 0), *out = e.out[0].get();
  if (failed(requireFloats(op, e)))
    return failure();
  if (!in || in->strides != out->strides)
    return e.reasons.no() << "a normalisation with an embedded operand";
  bool square = onnx::getInt(root, "p", 2) == 2;
  Rows rows(e, *in, axisOf(root, "axis", -1, in->rank()));
  rows.forRows([&] {
    if (rows.quads())
      out->useVectors();
    Value norm = rows.reduce(
        e.floatConst(e.f32(), 0),
        [&](Value x, Index) {
          return square ? e.mulF(x, x) : cpu::math::abs(e, x);
        },
        [&](Value a, Value b) { return e.addF(a, b); });
    if (square)
      norm = cpu::math::sqrt(e, norm);
    rows.each([&](Value x, Index i) {
      Value n = rows.spread(norm), zero = e.floatConst(x.getType(), 0);
      Value none = e.cmpF(arith::CmpFPredicate::OEQ, n, zero);
      put(e, rows, *out, i,
          e.round(e.pick(none, zero, e.divF(x, n)), out->element));
    });
  });
  return success();
}
Register lpNorm({"onnx.LpNormalization"}, emitLpNorm);

/// x / (bias + alpha / size * sum of squares of near channels) ^ beta.
LogicalResult emitLrn(tsr::DispatchOp op, Emitter &e) {
  Operation *root = op.getRootOp();
  Buffer *in = rootBuffer(op, e, 0), *out = e.out[0].get();
  if (failed(requireFloats(op, e)))
    return failure();
  double alpha = onnx::getFloat(root, "alpha", 1e-4),
         beta = onnx::getFloat(root, "beta", 0.75),
         bias = onnx::getFloat(root, "bias", 1);
  if (!in || alpha < 0 || bias <= 0)
    return e.reasons.no()
           << "an LRN of an embedded operand, or of what may be negative";
  int64_t size = onnx::getInt(root, "size", 1), channels = in->dims[1];
  e.gridLike(*out, out->dims, [&](Index, SmallVector<Index> at) {
    Value x = e.load(*in, e.offset(at, in->strides));
    Index to = e.offset(at, out->strides), own = at[1];
    Value zero = e.floatConst(e.f32(), 0);
    Value sum = e.loop(0, size, 1, zero, [&](Index i, ValueRange carried) {
      Index c = e.add(e.sub(own, (size - 1) / 2), i);
      Value inside = e.both(e.ge(c, 0), e.lt(c, channels));
      at[1] = e.min(e.max(c, 0), channels - 1);
      Value y = e.load(*in, e.offset(at, in->strides));
      return SmallVector<Value>{
          e.pick(inside, e.fma(y, y, carried[0]), carried[0])};
    })[0];
    Value base = e.fma(sum, e.floatConst(e.f32(), alpha / size),
                       e.floatConst(e.f32(), bias));
    Value power = cpu::math::exp(
        e, e.mulF(cpu::math::log(e, base), e.floatConst(e.f32(), beta)));
    e.store(*out, to, e.round(e.divF(x, power), out->element));
  });
  return success();
}
Register lrn({"onnx.LRN"}, emitLrn);

} // namespace
} // namespace tessera::vulkan

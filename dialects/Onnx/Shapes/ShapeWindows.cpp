#include "dialects/Onnx/Shapes/ShapeWindows.h"

using namespace mlir;

namespace tessera::onnx {

Windows Windows::of(const OpShapes &s, size_t rank) {
  Windows w;
  w.strides = s.getInts("strides");
  w.dilations = s.getInts("dilations");
  SmallVector<int64_t> pads = s.getInts("pads");
  if (w.strides.empty())
    w.strides.assign(rank, 1);
  if (w.dilations.empty())
    w.dilations.assign(rank, 1);
  if (pads.empty())
    pads.assign(2 * rank, 0);
  w.autoPad = s.getString("auto_pad", "NOTSET");
  w.ceilMode = s.getInt("ceil_mode") != 0;
  if (w.strides.size() != rank || w.dilations.size() != rank || pads.size() != 2 * rank)
    s.contradict("strides, dilations or pads of " + describe(s.op) + " do not fit " + Twine(rank) +
                 " spatial axes");
  for (int64_t v : w.strides)
    if (v <= 0)
      s.contradict("a stride of " + describe(s.op) + " is " + Twine(v));
  for (int64_t v : w.dilations)
    if (v <= 0)
      s.contradict("a dilation of " + describe(s.op) + " is " + Twine(v));
  w.padsBegin.assign(pads.begin(), pads.begin() + rank);
  w.padsEnd.assign(pads.begin() + rank, pads.end());
  return w;
}

Sym Windows::effectiveKernel(SymContext &ctx, size_t axis, Sym kernel) const {
  return ctx.add(ctx.mul(ctx.sub(kernel, ctx.constant(1)), ctx.constant(dilations[axis])),
                 ctx.constant(1));
}

Sym Windows::count(SymContext &ctx, size_t axis, Sym size, Sym kernel) const {
  Sym stride = ctx.constant(strides[axis]), one = ctx.constant(1);
  if (autoPad == "SAME_UPPER" || autoPad == "SAME_LOWER")
    return ctx.ceilDiv(size, stride);
  Sym effective = effectiveKernel(ctx, axis, kernel);
  if (autoPad == "VALID")
    return ctx.add(ctx.floorDiv(ctx.sub(size, effective), stride), one);
  Sym begin = ctx.constant(padsBegin[axis]), end = ctx.constant(padsEnd[axis]);
  Sym room = ctx.sub(ctx.add(size, ctx.add(begin, end)), effective);
  if (!ceilMode)
    return ctx.add(ctx.floorDiv(room, stride), one);
  // A window must not start in the padding after the input.
  Sym ceil = ctx.add(ctx.ceilDiv(room, stride), one);
  if (ctx.provablyLessEqual(ctx.add(end, stride), effective))
    return ceil;
  return ctx.min(ceil, ctx.ceilDiv(ctx.add(size, begin), stride));
}

SymDims kernelShape(const OpShapes &s, size_t rank, ArrayRef<Sym> weights) {
  SymDims kernel;
  for (int64_t k : s.getInts("kernel_shape"))
    kernel.push_back(s.c(k));
  if (kernel.empty())
    kernel.assign(weights.begin(), weights.end());
  if (kernel.size() != rank)
    s.contradict("the kernel of " + describe(s.op) + " has " + Twine(kernel.size()) +
                 " axes for " + Twine(rank) + " spatial axes");
  return kernel;
}

static void expectImage(const OpShapes &s, ArrayRef<Sym> in) {
  if (in.size() < 3)
    s.contradict("the input of " + describe(s.op) + " has " + Twine(in.size()) +
                 " dimensions: no spatial axis");
}

static SymDims assemble(Sym batch, Sym channels, ArrayRef<Sym> spatial, bool channelsLast) {
  SymDims out{batch};
  if (!channelsLast)
    out.push_back(channels);
  llvm::append_range(out, spatial);
  if (channelsLast)
    out.push_back(channels);
  return out;
}

SymDims pooledDims(OpShapes &s, ArrayRef<Sym> in, bool channelsLast) {
  expectImage(s, in);
  size_t rank = in.size() - 2;
  auto spatial = in.slice(channelsLast ? 1 : 2, rank);
  Windows w = Windows::of(s, rank);
  SymDims kernel = kernelShape(s, rank), out;
  for (size_t i = 0; i < rank; ++i)
    out.push_back(w.count(s.ctx, i, spatial[i], kernel[i]));
  return assemble(in[0], channelsLast ? in.back() : in[1], out, channelsLast);
}

SymDims convolvedDims(OpShapes &s, ArrayRef<Sym> in, ArrayRef<Sym> weights, bool channelsLast) {
  expectImage(s, in);
  size_t rank = in.size() - 2;
  if (weights.size() != in.size())
    s.contradict("the weights of " + describe(s.op) + " have rank " + Twine(weights.size()) +
                 ", its input " + Twine(in.size()));
  auto spatial = in.slice(channelsLast ? 1 : 2, rank);
  s.unify(channelsLast ? in.back() : in[1], s.ctx.mul(weights[1], s.c(s.getInt("group", 1))),
          "input channels");
  Windows w = Windows::of(s, rank);
  SymDims kernel = kernelShape(s, rank, weights.drop_front(2)), out;
  for (size_t i = 0; i < rank; ++i) {
    if (kernel[i] != weights[2 + i])
      s.unify(kernel[i], weights[2 + i], "kernel_shape and weights");
    out.push_back(w.count(s.ctx, i, spatial[i], kernel[i]));
  }
  return assemble(in[0], weights[0], out, channelsLast);
}

} // namespace tessera::onnx

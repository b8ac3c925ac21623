// Conv in f32 and f16 (f32 accumulation), one to three spatial axes.
//
// Usually the pixels of an image are the rows of a product with the output
// channels as columns (PixelTile.h): for every tap a row's base moves, and a
// pixel outside the image counts as zeros. With one channel a group it is
// Depthwise.h.
// Shapes that are not made of quads are computed element by element.
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "targets/Vulkan/Kernels/Depthwise.h"
#include "targets/Vulkan/Kernels/PixelTile.h"

using namespace mlir;

namespace tessera::vulkan {
namespace {

class Convolution {
public:
  Convolution(tsr::DispatchOp op, Emitter &e)
      : op(op), e(e), root(op.getRootOp()), fusion(op, e) {}
  LogicalResult emit();

private:
  LogicalResult read();
  LogicalResult emitTile();
  LogicalResult emitDepthwise();
  LogicalResult emitDirect();
  bool isDepthwise() const;
  Buffer *packBias(int64_t rows, int64_t quads);
  SmallVector<Value> loadPixel(Index from, Value inside, Index group,
                               int64_t unit, int64_t step);
  Value round(Value v) {
    return e.round(
        v, cast<ShapedType>(root->getResult(0).getType()).getElementType());
  }
  ArrayRef<int64_t> spatialStrides() const {
    return ArrayRef(x->strides).drop_front(2);
  }

  tsr::DispatchOp op;
  Emitter &e;
  Operation *root;
  Fusion fusion;
  Windows s;
  Buffer *x = nullptr, *weight = nullptr, *bias = nullptr;
  ElementsAttr weights;                ///< if constant
  int64_t groups = 1, in = 0, out = 0; ///< channels a group
  int64_t taps = 1;
};

LogicalResult Convolution::read() {
  x = rootBuffer(op, e, 0);
  weight = rootBuffer(op, e, 1);
  bias = rootBuffer(op, e, 2);
  if (!x || !weight || (onnx::getOptionalOperand(root, 2) && !bias))
    return e.reasons.no() << "a convolution with an embedded operand";
  for (Buffer *t : {x, weight})
    if (!t->element.isF32() && !t->element.isF16())
      return e.reasons.no()
             << "a convolution of " << onnx::getTypeName(t->element);
  auto windows = Windows::read(root, ArrayRef(weight->dims).drop_front(2), *x,
                               fusion.dims(), e.reasons);
  if (failed(windows))
    return failure();
  s = *windows;
  groups = onnx::getInt(root, "group", 1);
  out = weight->dims[0] / groups;
  in = weight->dims[1];
  for (int64_t k : s.w.kernel)
    taps *= k;
  weights = rootConstant(op, 1);
  SmallVector<char> storage;
  if (weights && !onnx::getRawBytes(weights, storage))
    weights = {};
  return success();
}

unsigned numberOf(Operation *root, unsigned operand) {
  return cast<BlockArgument>(onnx::getOptionalOperand(root, operand))
      .getArgNumber();
}

/// The bias as `rows` of `quads` quads, or null if there is none or it is no
/// constant.
Buffer *Convolution::packBias(int64_t rows, int64_t quads) {
  ElementsAttr value = bias ? rootConstant(op, 2) : ElementsAttr{};
  auto floats = value ? onnx::getFloats(value) : std::nullopt;
  if (!floats)
    return nullptr;
  Buffer &t =
      e.pack(numberOf(root, 2), e.f32(), packFloats(*floats, rows, quads * 4));
  t.useVectors();
  return &t;
}

// --- pixels by channels
// ----------------------------------------------------------------

LogicalResult Convolution::emitTile() {
  PixelTile pixels(e, fusion, s, *x, out, /*skips=*/true);
  const RowTile &tile = pixels.tile();
  int64_t quads = tile.columnQuads;
  Buffer &b = e.pack(
      numberOf(root, 1), weight->element,
      packColumns(weights, {{groups, out * in * taps}, {taps, 1}, {in, taps}},
                  {out, in * taps}, quads * 4));
  b.useVectors();
  Buffer *packedBias = packBias(groups, quads);
  bool vectors = in % 4 == 0 && x->strides[1] == 1 &&
                 llvm::all_of(llvm::enumerate(x->strides), [](auto a) {
                   return a.index() == 1 || a.value() % 4 == 0;
                 });
  int64_t unit = vectors && x->useVectors() ? 4 : 1;
  int64_t step = in % 4 == 0 ? 4 : in < 4 ? in : 1;
  fusion.useVectors(1);
  Index image = 0, group = 0;
  pixels.begin(fusion.dims()[0] * groups, unit, [&] {
    image = e.div(e.groupId(2), groups);
    group = e.rem(e.groupId(2), groups);
    return e.add(e.mul(image, x->strides[0] / unit),
                 e.mul(group, in * x->strides[1] / unit));
  });
  SmallVector<Value> acc = zeroAccumulators(e, tile);
  for (int64_t j = 0; packedBias && j < tile.quads; ++j) {
    Index at = e.add(e.add(e.mul(group, quads), pixels.quad()), j);
    Value four = e.loadQuad(*packedBias, at);
    for (int64_t i = 0; i < tile.rows; ++i)
      acc[i * tile.quads + j] = four;
  }
  acc = pixels.forTaps(acc, [&](Index tap, ArrayRef<Index> from,
                                ArrayRef<Value> inside, ValueRange carried) {
    Index column =
        e.add(e.mul(e.add(e.mul(group, taps), tap), in * quads), pixels.quad());
    auto loadRow = [&](int64_t i, Index g) {
      return loadPixel(from[i], inside[i], g, unit, step);
    };
    auto loadColumns = [&](Index g, int64_t k, int64_t j) {
      return e.loadQuad(
          b, e.add(e.add(column, e.mul(g, step * quads)), k * quads + j));
    };
    return accumulate(e, tile, in / step, step, carried, loadRow, loadColumns);
  });
  return pixels.store(
      out, [&](int64_t i, int64_t j, Index channel, ArrayRef<Index> at) {
        Point p{{image, e.add(e.mul(group, out / 4), channel)}, 1};
        p.at.append(at.begin(), at.end());
        Value v = acc[i * tile.quads + j];
        if (bias && !packedBias) // a bias that the run computes
          v = e.addF(v, fusion.loadAlong(*bias, 1, p));
        return fusion.store(round(v), p);
      });
}

/// `step` channels of a pixel, each four times; zeros where it is not `inside`.
SmallVector<Value> Convolution::loadPixel(Index from, Value inside, Index group,
                                          int64_t unit, int64_t step) {
  auto masked = [&](Value v) {
    return inside ? e.pick(inside, v, e.floatConst(v.getType(), 0)) : v;
  };
  if (unit == 4)
    return splatLanes(e, masked(e.loadQuad(*x, e.add(from, group))));
  SmallVector<Value> values;
  Index first = e.add(from, e.mul(group, step * x->strides[1]));
  for (int64_t l = 0; l < step; ++l)
    values.push_back(
        e.quadSplat(masked(e.load(*x, e.add(first, l * x->strides[1])))));
  return values;
}

// --- depthwise
// ---------------------------------------------------------------------------

bool Convolution::isDepthwise() const {
  return groups > 1 && in == 1 && out == 1 && groups % 4 == 0 && weights &&
         hasChannelQuads(*x) && hasChannelQuads(*e.out[0]) &&
         (!bias || rootConstant(op, 2));
}

LogicalResult Convolution::emitDepthwise() {
  Buffer &w = e.pack(numberOf(root, 1), weight->element,
                     packColumns(weights, {{taps, 1}}, {groups, taps}, groups));
  w.useVectors();
  Buffer *packedBias = packBias(1, groups / 4);
  x->useVectors();
  fusion.useVectors(1);
  Value zero = e.floatConst(e.quadOf(e.f32()), 0);
  auto begin = [&](Index quad) {
    return packedBias ? e.loadQuad(*packedBias, quad) : zero;
  };
  auto input = [&](Index at) { return e.loadQuad(*x, at); };
  auto weightOf = [&](Index at) { return e.loadQuad(w, at); };
  auto add = [&](Value v, Value by, Value sum) { return e.fma(v, by, sum); };
  auto store = [&](Value sum, const Point &p) {
    return fusion.store(round(sum), p);
  };
  return vulkan::emitDepthwise(e, fusion, s, *x,
                               {zero, begin, input, weightOf, add, store, {}});
}

// --- element by element
// ------------------------------------------------------------------

LogicalResult Convolution::emitDirect() {
  SmallVector<int64_t> sizes(fusion.dims());
  int64_t threads = 1;
  for (int64_t d : sizes)
    threads *= d;
  LogicalResult result = success();
  e.grid(threads, [&](Index id) {
    SmallVector<Index> at = e.digits(id, sizes);
    Index channel = at[1], group = e.div(channel, out);
    SmallVector<Index> starts = s.starts(e, ArrayRef(at).drop_front(2));
    Index base = e.add(e.mul(at[0], x->strides[0]),
                       e.mul(e.mul(group, in), x->strides[1]));
    Value zero = e.floatConst(e.f32(), 0);
    SmallVector<Value> sum = forTaps(
        e, s.w.kernel, zero, [&](ArrayRef<Index> tap, ValueRange carried) {
          Value inside = s.inside(e, starts, tap);
          Index from = base, weightAt = e.mul(channel, weight->strides[0]);
          for (unsigned a = 0; a < tap.size(); ++a) {
            from = e.add(
                from, e.mul(e.add(starts[a], e.mul(tap[a], s.w.dilations[a])),
                            spatialStrides()[a]));
            weightAt = e.add(weightAt, e.mul(tap[a], weight->strides[a + 2]));
          }
          if (inside)
            from = Index(e.pick(inside, e.value(from), e.value(0)));
          return e.loop(0, in, 1, carried, [&](Index c, ValueRange values) {
            Value v = e.load(*x, e.add(from, e.mul(c, x->strides[1])));
            if (inside)
              v = e.pick(inside, v, zero);
            return SmallVector<Value>{e.fma(
                v,
                e.load(*weight, e.add(weightAt, e.mul(c, weight->strides[1]))),
                values[0])};
          });
        });
    Value v = sum[0];
    if (bias)
      v = e.addF(v, e.load(*bias, channel));
    result = fusion.store(round(v), {at, -1});
  });
  return result;
}

LogicalResult Convolution::emit() {
  if (failed(read()))
    return failure();
  if (isDepthwise())
    return emitDepthwise();
  if (weights && (groups == 1 || out % 4 == 0))
    return emitTile();
  return emitDirect();
}

LogicalResult emitConvolution(tsr::DispatchOp op, Emitter &e) {
  return Convolution(op, e).emit();
}
Register convolution({"onnx.Conv"}, emitConvolution);

} // namespace
} // namespace tessera::vulkan

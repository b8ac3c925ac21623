// ConvInteger with constant weights (Bytes.h): pixels by channels in register
// tiles, four input channels a dot product; depthwise in 32 bits.
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "targets/Vulkan/Kernels/ByteTile.h"
#include "targets/Vulkan/Kernels/Depthwise.h"
#include "targets/Vulkan/Kernels/PixelTile.h"

using namespace mlir;

namespace tessera::vulkan {
namespace {

class IntegerConvolution {
public:
  IntegerConvolution(tsr::DispatchOp op, Emitter &e)
      : op(op), e(e), root(op.getRootOp()), fusion(op, e), product(op, e) {}
  LogicalResult emit();

private:
  LogicalResult read();
  LogicalResult emitTile();
  LogicalResult emitDepthwise();
  int64_t chooseUnit();
  SmallVector<Value> loadPixel(Index from, Value inside, Index group);
  int64_t words() const { return (in + 3) / 4; }

  tsr::DispatchOp op;
  Emitter &e;
  Operation *root;
  Fusion fusion;
  ByteProduct product;
  Windows s;
  Buffer *x = nullptr;                 ///< bytes
  Buffer *lines = nullptr;             ///< x in words, where it is made of them
  int64_t groups = 1, in = 0, out = 0; ///< channels a group
  int64_t taps = 1, unit = 1, step = 1;
};

LogicalResult IntegerConvolution::read() {
  x = rootBuffer(op, e, 0);
  Buffer *weight = rootBuffer(op, e, 1);
  if (!x || !weight || weight->rank() < 3)
    return e.reasons.no() << "an integer convolution with an embedded operand";
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
  return product.read(weight->dims[0]);
}

/// Bytes of an entry that pixels are read in.
int64_t IntegerConvolution::chooseUnit() {
  auto madeOf = [&](int64_t n) {
    return in % n == 0 && x->count % n == 0 && x->strides[1] == 1 &&
           llvm::all_of(llvm::enumerate(x->strides), [&](auto a) {
             return a.index() == 1 || a.value() % n == 0;
           });
  };
  if (!madeOf(4))
    return 1;
  lines = &e.reinterpret(*x, e.i32());
  if (madeOf(16) && lines->useVectors())
    return 16;
  return 4;
}

/// `step` words of a pixel; the zero point where it is not `inside`.
SmallVector<Value> IntegerConvolution::loadPixel(Index from, Value inside,
                                                 Index group) {
  auto masked = [&](Value v) {
    if (!inside)
      return v;
    Value zero = product.zeroWord();
    return e.pick(inside, v,
                  isa<VectorType>(v.getType()) ? e.quadSplat(zero) : zero);
  };
  SmallVector<Value> values;
  if (unit == 16) {
    Value four =
        masked(product.signedWords(e.loadQuad(*lines, e.add(from, group))));
    for (unsigned i = 0; i < 4; ++i)
      values.push_back(e.lane(four, i));
    return values;
  }
  for (int64_t i = 0; i < step; ++i) {
    Index word = e.add(e.mul(group, step), i);
    if (unit == 4) {
      values.push_back(
          masked(product.signedWords(e.load(*lines, e.add(from, word)))));
      continue;
    }
    int64_t stride = x->strides[1];
    values.push_back(masked(
        product.gatherWord(e.add(from, e.mul(word, 4 * stride)), stride, in)));
  }
  return values;
}

LogicalResult IntegerConvolution::emitTile() {
  // What a zero point adds is known of all taps that come before a row of them.
  bool skips = s.w.axes() == 2 && s.w.dilations[0] == 1;
  PixelTile pixels(e, fusion, s, *x, out, skips, /*quads=*/1);
  const RowTile &tile = pixels.tile();
  int64_t quads = tile.columnQuads;
  if (failed(product.pack(groups, {{groups, out * in * taps}, {taps, 1}},
                          {in, taps}, {out, in * taps}, quads * 4,
                          pixels.skipsFirst() ? s.w.kernel[0] : 1)))
    return failure();
  if (product.needsRowSums() && in % 4)
    return e.reasons.no() << "an integer convolution of " << in
                          << " channels with zero points of its weights";
  unit = chooseUnit();
  step = unit == 1          ? 1
         : words() % 4 == 0 ? 4
         : words() % 3 == 0 ? 3
         : words() % 2 == 0 ? 2
                            : 1;
  fusion.useVectors(1);
  Index image = 0, group = 0;
  pixels.begin(fusion.dims()[0] * groups, unit, [&] {
    image = e.div(e.groupId(2), groups);
    group = e.rem(e.groupId(2), groups);
    return e.add(e.mul(image, x->strides[0] / unit),
                 e.mul(group, in * x->strides[1] / unit));
  });
  if (pixels.skipsFirst())
    product.onlySlices(pixels.firstTaps());
  ByteTile bytes(e, product, tile);
  Index first = e.add(e.mul(group, quads), pixels.quad());
  SmallVector<Value> sums = pixels.forTaps(
      bytes.begin(first), [&](Index tap, ArrayRef<Index> from,
                              ArrayRef<Value> inside, ValueRange carried) {
        Index column =
            e.add(e.mul(e.add(e.mul(group, taps), tap), words() * quads),
                  pixels.quad());
        return bytes.accumulate(words() / step, step, column, carried,
                                [&](int64_t i, Index g) {
                                  return loadPixel(from[i], inside[i], g);
                                });
      });
  Index groupChannel = e.mul(group, out / 4),
        last =
            quads * 4 == out ? Index(-1) : e.add(groupChannel, (out - 1) / 4);
  SmallVector<Value> results = bytes.finish(
      sums, first, fusion, 1, e.add(groupChannel, pixels.quad()), last);
  return pixels.store(
      out, [&](int64_t i, int64_t j, Index channel, ArrayRef<Index> at) {
        Point p{{image, e.add(groupChannel, channel)}, 1};
        p.at.append(at.begin(), at.end());
        return fusion.store(results[i * tile.quads + j], p);
      });
}

LogicalResult IntegerConvolution::emitDepthwise() {
  Buffer &w = product.packDifferences({taps, 1}, {groups, taps});
  x->useVectors();
  fusion.useVectors(1);
  Value zero = e.intConst(e.quadOf(e.i32()), 0);
  auto begin = [&](Index) { return zero; };
  auto input = [&](Index at) { return product.difference(e.loadQuad(*x, at)); };
  auto weight = [&](Index at) { return e.loadQuad(w, at); };
  auto add = [&](Value v, Value by, Value sum) -> Value {
    return arith::AddIOp::create(e.b, e.loc, sum,
                                 arith::MulIOp::create(e.b, e.loc, v, by));
  };
  auto store = [&](Value sum, const Point &p) { return fusion.store(sum, p); };
  auto finish = [&](ArrayRef<Value> sums, Index quad) {
    Point p{SmallVector<Index>(fusion.dims().size(), Index(0)), 1};
    p.at[1] = quad;
    fusion.requantiseTile(sums, p);
  };
  return vulkan::emitDepthwise(
      e, fusion, s, *x, {zero, begin, input, weight, add, store, finish});
}

LogicalResult IntegerConvolution::emit() {
  if (failed(read()))
    return failure();
  if (groups > 1 && in == 1 && out == 1 && groups % 4 == 0 &&
      hasChannelQuads(*x) && hasChannelQuads(*e.out[0]))
    return emitDepthwise();
  if (groups == 1 || out % 4 == 0)
    return emitTile();
  return e.reasons.no() << "an integer convolution of " << groups
                        << " groups of " << out << " channels";
}

LogicalResult emitIntegerConvolution(tsr::DispatchOp op, Emitter &e) {
  return IntegerConvolution(op, e).emit();
}
Register integerConvolution({"onnx.ConvInteger"}, emitIntegerConvolution);

} // namespace
} // namespace tessera::vulkan

// Conv in f32 and f16 (f32 accumulation), one to three spatial axes.
//
// Usually the pixels of an image are the rows of a product with the output
// channels as columns (RowTile.h): for every tap a row's base moves, and a
// pixel outside the image counts as zeros. With one channel a group (depthwise)
// each invocation has a quad of channels at some pixels in a row instead.
// Shapes that are not made of quads are computed element by element.
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "targets/Vulkan/Kernels/RowTile.h"
#include "targets/Vulkan/Kernels/Windows.h"

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
  Buffer *packBias(int64_t quads);
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
  std::optional<SmallVector<double>> weights; ///< if constant
  int64_t groups = 1, in = 0, out = 0;        ///< channels a group
  int64_t taps = 1, pixels = 1;
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
  for (int64_t d : s.out)
    pixels *= d;
  if (ElementsAttr value = rootConstant(op, 1))
    weights = onnx::getFloats(value, int64_t(1) << 31);
  return success();
}

unsigned numberOf(Operation *root, unsigned operand) {
  return cast<BlockArgument>(onnx::getOptionalOperand(root, operand))
      .getArgNumber();
}

/// The bias with `quads` quads, or null if there is none or it is no constant.
Buffer *Convolution::packBias(int64_t quads) {
  ElementsAttr value = bias ? rootConstant(op, 2) : ElementsAttr{};
  auto floats = value ? onnx::getFloats(value) : std::nullopt;
  if (!floats)
    return nullptr;
  Buffer &t = e.pack(
      numberOf(root, 2), e.f32(),
      packColumns(e.f32(), groups, out, quads, [&](int64_t g, int64_t n) {
        return (*floats)[g * out + n];
      }));
  t.useVectors();
  return &t;
}

// --- pixels by channels
// ----------------------------------------------------------------

LogicalResult Convolution::emitTile() {
  RowTile tile = RowTile::choose(pixels, out);
  int64_t quads = tile.columnQuads, steps = taps * in;
  Buffer &b = e.pack(
      numberOf(root, 1), weight->element,
      packColumns(weight->element, groups * steps, out, quads,
                  [&](int64_t k, int64_t n) {
                    int64_t g = k / steps, tap = k % steps / in, c = k % in;
                    return (*weights)[((g * out + n) * in + c) * taps + tap];
                  }));
  b.useVectors();
  Buffer *packedBias = packBias(quads);
  bool vectors = in % 4 == 0 && x->strides[1] == 1 &&
                 llvm::all_of(llvm::enumerate(x->strides), [](auto a) {
                   return a.index() == 1 || a.value() % 4 == 0;
                 });
  int64_t unit = vectors && x->useVectors() ? 4 : 1;
  int64_t step = in % 4 == 0 ? 4 : in < 4 ? in : 1;
  fusion.useVectors(1);
  tile.setGrid(e, pixels, fusion.dims()[0] * groups);
  Index image = e.div(e.groupId(2), groups),
        group = e.rem(e.groupId(2), groups);
  Index row = tile.firstRow(e), quad = tile.firstQuad(e);
  bool exact = e.kernel.groups[1] * tile.localY * tile.rows == pixels;

  SmallVector<SmallVector<Index>> at, starts;
  SmallVector<Index> bases, rows;
  Index imageBase = e.add(e.mul(image, x->strides[0] / unit),
                          e.mul(group, in * x->strides[1] / unit));
  for (int64_t i = 0; i < tile.rows; ++i) {
    rows.push_back(e.add(row, i));
    at.push_back(
        e.digits(exact ? rows.back() : e.min(rows.back(), pixels - 1), s.out));
    starts.push_back(s.starts(e, at.back()));
    Index base = imageBase;
    for (auto [start, stride] : llvm::zip(starts.back(), spatialStrides()))
      base = e.add(base, e.mul(start, stride / unit));
    bases.push_back(base);
  }
  SmallVector<Value> acc = zeroAccumulators(e, tile);
  if (packedBias)
    for (int64_t j = 0; j < tile.quads; ++j) {
      Value first =
          e.loadQuad(*packedBias, e.add(e.add(e.mul(group, quads), quad), j));
      for (int64_t i = 0; i < tile.rows; ++i)
        acc[i * tile.quads + j] = first;
    }
  Value zero = e.floatConst(e.quadOf(e.f32()), 0);
  acc =
      forTaps(e, s.w.kernel, acc, [&](ArrayRef<Index> tap, ValueRange carried) {
        Index moved = 0, flat = 0;
        for (unsigned a = 0; a < tap.size(); ++a) {
          moved = e.add(moved, e.mul(tap[a], s.w.dilations[a] *
                                                 spatialStrides()[a] / unit));
          flat = e.add(e.mul(flat, s.w.kernel[a]), tap[a]);
        }
        Index column =
            e.add(e.mul(e.add(e.mul(group, taps), flat), in * quads), quad);
        SmallVector<Value> inside;
        SmallVector<Index> from;
        for (int64_t i = 0; i < tile.rows; ++i) {
          inside.push_back(s.inside(e, starts[i], tap));
          Index base = e.add(bases[i], moved);
          from.push_back(
              inside.back()
                  ? Index(e.pick(inside.back(), e.value(base), e.value(0)))
                  : base);
        }
        auto loadRow = [&](int64_t i, Index g) {
          SmallVector<Value> values;
          if (unit == 4) {
            Value four = e.loadQuad(*x, e.add(from[i], g));
            if (inside[i])
              four = e.pick(inside[i], four, zero);
            for (unsigned l = 0; l < 4; ++l)
              values.push_back(e.lane(four, l));
            return values;
          }
          Index first = e.add(from[i], e.mul(g, step * x->strides[1]));
          for (int64_t l = 0; l < step; ++l) {
            Value v = e.load(*x, e.add(first, l * x->strides[1]));
            values.push_back(
                inside[i] ? e.pick(inside[i], v, e.floatConst(e.f32(), 0)) : v);
          }
          return values;
        };
        auto loadColumns = [&](Index g, int64_t k, int64_t j) {
          return e.loadQuad(
              b, e.add(e.add(column, e.mul(g, step * quads)), k * quads + j));
        };
        return accumulate(e, tile, in / step, step, carried, loadRow,
                          loadColumns);
      });

  LogicalResult result = success();
  for (int64_t i = 0; i < tile.rows; ++i)
    e.when(exact ? Value{} : e.lt(rows[i], pixels), [&] {
      for (int64_t j = 0; j < tile.quads; ++j) {
        Index channel = e.add(quad, j);
        e.when(quads * 4 == out ? Value{} : e.lt(channel, (out + 3) / 4), [&] {
          Point p{{image, e.add(e.mul(group, out / 4), channel)}, 1};
          p.at.append(at[i].begin(), at[i].end());
          Value v = acc[i * tile.quads + j];
          if (bias && !packedBias) // a bias that the run computes
            v = e.addF(v, fusion.loadAlong(*bias, 1, p));
          if (failed(fusion.store(round(v), p)))
            result = failure();
        });
      }
    });
  return result;
}

// --- depthwise
// ---------------------------------------------------------------------------

bool Convolution::isDepthwise() const {
  auto quads = [](const Buffer &t) {
    return t.count % 4 == 0 && t.strides[1] == 1 &&
           llvm::all_of(llvm::enumerate(t.strides), [](auto a) {
             return a.index() == 1 || a.value() % 4 == 0;
           });
  };
  return groups > 1 && in == 1 && out == 1 && groups % 4 == 0 && weights &&
         quads(*x) && quads(*e.out[0]) && (!bias || rootConstant(op, 2));
}

LogicalResult Convolution::emitDepthwise() {
  int64_t channels = groups, quads = channels / 4;
  unsigned last = s.w.axes() - 1;
  Buffer &w = e.pack(numberOf(root, 1), weight->element,
                     packColumns(weight->element, taps, channels, quads,
                                 [&](int64_t tap, int64_t c) {
                                   return (*weights)[c * taps + tap];
                                 }));
  w.useVectors();
  std::swap(groups, out); // the bias is one row of channels
  Buffer *packedBias = packBias(quads);
  std::swap(groups, out);
  x->useVectors();
  fusion.useVectors(1);
  // Some pixels in a row share what they load.
  int64_t wide = std::min<int64_t>(s.out[last], 4), stride = s.w.strides[last],
          dilation = s.w.dilations[last];
  SmallVector<int64_t> sizes{fusion.dims()[0]};
  sizes.append(s.out.begin(), s.out.end());
  sizes.back() = (s.out[last] + wide - 1) / wide;
  sizes.push_back(quads);
  int64_t threads = 1;
  for (int64_t d : sizes)
    threads *= d;
  LogicalResult result = success();
  e.grid(threads, [&](Index id) {
    SmallVector<Index> digits = e.digits(id, sizes);
    Index quad = digits.back(), image = digits.front();
    SmallVector<Index> at(digits.begin() + 1, digits.end() - 1);
    at[last] = e.mul(at[last], wide);
    SmallVector<Index> starts = s.starts(e, at);
    Value first = packedBias ? e.loadQuad(*packedBias, quad)
                             : e.floatConst(e.quadOf(e.f32()), 0);
    Value zero = e.floatConst(e.quadOf(e.f32()), 0);
    SmallVector<Value> acc(wide, first);
    Index base = e.add(e.mul(image, x->strides[0] / 4), quad);
    SmallVector<int64_t> outer(s.w.kernel.begin(), s.w.kernel.end() - 1);
    acc = forTaps(e, outer, acc, [&](ArrayRef<Index> tap, ValueRange carried) {
      SmallVector<Value> sums(carried.begin(), carried.end());
      Value insideRow;
      Index row = base, flat = 0;
      for (unsigned a = 0; a < tap.size(); ++a) {
        Index p = e.add(starts[a], e.mul(tap[a], s.w.dilations[a]));
        if (s.padded[a]) {
          insideRow = e.both(
              insideRow,
              arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::ult,
                                    e.value(p), e.value(s.in[a])));
          p = e.min(e.max(p, 0), s.in[a] - 1);
        }
        row = e.add(row, e.mul(p, spatialStrides()[a] / 4));
        flat = e.add(e.mul(flat, s.w.kernel[a]), tap[a]);
      }
      bool ragged = s.out[last] % wide != 0, checked = s.padded[last] || ragged;
      std::map<int64_t, Value>
          loaded; // by distance from the first window's start
      auto load = [&](int64_t distance) {
        Value &v = loaded[distance];
        if (v)
          return v;
        Index p = e.add(starts[last], distance);
        Value inside = insideRow;
        if (checked) {
          inside = e.both(inside, arith::CmpIOp::create(
                                      e.b, e.loc, arith::CmpIPredicate::ult,
                                      e.value(p), e.value(s.in[last])));
          p = e.min(e.max(p, 0), s.in[last] - 1);
        }
        v = e.loadQuad(*x, e.add(row, e.mul(p, spatialStrides()[last] / 4)));
        if (inside)
          v = e.pick(inside, v, zero);
        return v;
      };
      for (int64_t k = 0; k < s.w.kernel[last]; ++k) {
        Value tapWeight = e.loadQuad(
            w,
            e.add(e.mul(e.add(e.mul(flat, s.w.kernel[last]), k), quads), quad));
        for (int64_t i = 0; i < wide; ++i)
          sums[i] = e.fma(load(i * stride + k * dilation), tapWeight, sums[i]);
      }
      return sums;
    });
    for (int64_t i = 0; i < wide; ++i) {
      Index column = e.add(at[last], i);
      e.when(s.out[last] % wide ? e.lt(column, s.out[last]) : Value{}, [&] {
        Point p{{image, quad}, 1};
        p.at.append(at.begin(), at.end());
        p.at.back() = column;
        if (failed(fusion.store(round(acc[i]), p)))
          result = failure();
      });
    }
  });
  return result;
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

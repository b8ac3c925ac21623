// Means, transposed convolutions and interpolation of quantised images, as sums
// of products with small integers: the sums are exact, and what divides them is
// part of their meaning.
#include "mlir/Dialect/Tosa/IR/TosaOps.h"
#include "targets/Tosa/Lower/Quantised.h"
#include <numeric>

using namespace mlir;

namespace tessera::tosa {
namespace {

SmallVector<NamedAttribute> convAttributes(Lowerer &l, ArrayRef<int64_t> pad, ArrayRef<int64_t> stride,
                                           ArrayRef<int64_t> dilation, Type sum) {
  return {l.ints("pad", pad), l.ints("stride", stride), l.ints("dilation", dilation),
          l.attr("acc_type", TypeAttr::get(sum))};
}

/// Sums of products of each channel of `x`, an image, with one kernel for all.
Value filter(Lowerer &l, Value x, int64_t zero, ArrayRef<int64_t> rows, ArrayRef<int64_t> columns,
             ArrayRef<int64_t> pad, ArrayRef<int64_t> stride, ArrayRef<int64_t> dilation) {
  ArrayRef<int64_t> s = Lowerer::shapeOf(x);
  int64_t kh = rows.size(), kw = columns.size(), c = s[3];
  HostTensor k(l.b.getI8Type(), {kh, kw, c, 1});
  k.mutableData();
  for (int64_t i = 0; i < k.size(); ++i)
    k.setInteger(i, rows[i / (kw * c)] * columns[i / c % kw]);
  Type element = Lowerer::typeOf(x).getElementType(), sum = sumType(l, element);
  auto extent = [&](int a, int64_t taps) {
    return (s[1 + a] + pad[2 * a] + pad[2 * a + 1] - (taps - 1) * dilation[a] - 1) / stride[a] + 1;
  };
  Scaled nothing;
  Value bias = quantiseBias(l, Value(), c, nothing, sum);
  return l.op("depthwise_conv2d",
              {x, l.constant(k), bias, l.zeroPoint(element, zero), l.zeroPoint(l.b.getI8Type())},
              RankedTensorType::get({s[0], extent(0, kh), extent(1, kw), c}, sum),
              convAttributes(l, pad, stride, dilation, sum));
}

//===----------------------------------------------------------------------===//
// Average
//===----------------------------------------------------------------------===//

/// How many taps of the window at each position of an axis ONNX counts.
SmallVector<int64_t> countsOf(const Window &w, size_t i, int64_t in, int64_t out, bool padded, int64_t behind) {
  SmallVector<int64_t> counts;
  for (int64_t o = 0; o < out; ++o) {
    int64_t count = 0;
    for (int64_t t = 0; t < w.kernel[i]; ++t) {
      int64_t p = o * w.stride[i] - w.axes[i].before + t * w.dilation[i];
      count += padded ? p < in + behind : p >= 0 && p < in;
    }
    counts.push_back(count);
  }
  return counts;
}

/// 1 / counts[i] = factors[i] / common.
int64_t commonCount(SmallVectorImpl<int64_t> &counts) {
  int64_t common = 1;
  for (int64_t c : counts)
    common = std::lcm(common, std::max<int64_t>(c, 1));
  for (int64_t &c : counts)
    c = common / std::max<int64_t>(c, 1);
  return common;
}

LogicalResult lowerAveragePool(Operation *op, Lowerer &l) {
  Value in = op->getOperand(0), result = op->getResult(0);
  int64_t rank = Lowerer::rankOf(in);
  if (rank != 3 && rank != 4)
    return l.no() << "input has rank " << rank << ", 3 and 4 are served";
  auto m = plainOperand(op, l, 0);
  auto w = readWindow(op, l, onnx::getInts(op, "kernel_shape"));
  if (!m || !w)
    return failure();
  bool padded = onnx::getInt(op, "count_include_pad", 0), line = rank == 3;
  if (StringRef mode = onnx::getString(op, "auto_pad", "NOTSET"); padded && mode != "NOTSET" && mode != "VALID")
    return l.no() << "count_include_pad with auto_pad '" << mode << "'";
  SmallVector<int64_t> declared = onnx::getInts(op, "pads");
  declared.resize(2 * w->axes.size(), 0);
  SmallVector<int64_t> factors[2] = {{1}, {1}}, ones[2] = {{1}, {1}}, pad(line ? 2 : 0, 0), stride(line, 1),
                       dilation(line, 1);
  int64_t common = 1, most = 1;
  for (size_t i = 0; i < w->axes.size(); ++i) {
    int64_t behind = std::min(w->axes[i].after, declared[w->axes.size() + i]);
    size_t a = line ? 1 : i;
    factors[a] = countsOf(*w, i, Lowerer::shapeOf(in)[i + 2], Lowerer::shapeOf(result)[i + 2], padded, behind);
    common *= commonCount(factors[a]);
    most *= w->kernel[i] * *std::max_element(factors[a].begin(), factors[a].end());
    ones[a].assign(w->kernel[i], 1);
    pad.append({w->axes[i].before, w->axes[i].after});
    stride.push_back(w->stride[i]);
    dilation.push_back(w->dilation[i]);
  }
  Value x = asImage(l, cutToWindow(l, l.get(in, channelsLast(rank)), *w));
  Value y = filter(l, x, m->zeroPoint, ones[0], ones[1], pad, stride, dilation);
  Scaled meaning;
  meaning.scale = {m->scale[0] / (double)common};
  meaning.bound = m->bound * most;
  Type sum = Lowerer::typeOf(y).getElementType();
  if (failed(checkSum(l, meaning.bound, sum)))
    return failure();
  HostTensor weight(l.b.getI32Type(), {1, (int64_t)factors[0].size(), (int64_t)factors[1].size(), 1});
  weight.mutableData();
  for (int64_t i = 0; i < weight.size(); ++i)
    weight.setInteger(i, factors[0][i / factors[1].size()] * factors[1][i % factors[1].size()]);
  if (weight.isUniform()) {
    meaning.scale[0] *= (double)weight.integer(0);
    meaning.bound /= weight.integer(0);
  } else if (sum.isInteger(48)) {
    return l.no() << "of 16 bits, with windows that count different numbers of values";
  } else {
    y = l.mul(y, l.constant(weight));
  }
  l.set(result, fromImage(l, y, rank), channelsLast(rank));
  l.scaled[result] = meaning;
  return success();
}

//===----------------------------------------------------------------------===//
// Transposed convolution
//===----------------------------------------------------------------------===//

/// [n, h, w, c] with stride - 1 integers that mean 0 behind each position.
Value zeroInserted(Lowerer &l, Value x, ArrayRef<int64_t> stride, int64_t zero) {
  if (stride[0] == 1 && stride[1] == 1)
    return x;
  SmallVector<int64_t> s(Lowerer::shapeOf(x));
  x = l.reshape(x, {s[0], s[1], 1, s[2], 1, s[3]});
  x = l.pad(x, {0, 0, 0, 0, 0, 0}, {0, 0, stride[0] - 1, 0, stride[1] - 1, 0}, (double)zero);
  return l.reshape(x, {s[0], s[1] * stride[0], s[2] * stride[1], s[3]});
}

struct TransposedWindow {
  SmallVector<int64_t> kernel, stride, before, after; ///< of images; padding of ONNX, `after` as the result's size has it
};

std::optional<TransposedWindow> readTransposed(Operation *op, Lowerer &l) {
  Value in = op->getOperand(0), result = op->getResult(0);
  int64_t rank = Lowerer::rankOf(in);
  size_t before = l.reasons.all.size();
  if (rank != 3 && rank != 4)
    l.no() << "input has rank " << rank << ", 3 and 4 are served";
  if (StringRef mode = onnx::getString(op, "auto_pad", "NOTSET"); mode != "NOTSET")
    l.no() << "auto_pad is '" << mode << "'";
  if (!onnx::getInts(op, "output_shape").empty())
    l.no() << "output_shape is given";
  for (int64_t d : onnx::getInts(op, "dilations"))
    if (d != 1)
      l.no() << "dilation is " << d << ", only 1 is served";
  if (l.reasons.all.size() > before)
    return std::nullopt;
  size_t n = rank - 2;
  SmallVector<int64_t> pads = onnx::getInts(op, "pads"), strides = onnx::getInts(op, "strides");
  pads.resize(2 * n, 0);
  strides.resize(n, 1);
  TransposedWindow w;
  if (rank == 3)
    w = {{1}, {1}, {0}, {0}};
  for (size_t i = 0; i < n; ++i) {
    int64_t k = Lowerer::shapeOf(op->getOperand(1))[i + 2];
    w.kernel.push_back(k);
    w.stride.push_back(strides[i]);
    w.before.push_back(pads[i]);
    w.after.push_back((Lowerer::shapeOf(in)[i + 2] - 1) * strides[i] + k - pads[i] - Lowerer::shapeOf(result)[i + 2]);
    if (w.before.back() >= k || w.after.back() >= k) {
      l.no() << "padding " << w.before.back() << ", " << w.after.back() << " is not less than the kernel, " << k;
      return std::nullopt;
    }
  }
  return w;
}

/// An ordinary convolution of the image with zeros inserted: any stride, 16 bits,
/// one kernel a channel. `ohwi` has its space turned around already.
Value convolveInserted(Lowerer &l, Value x, int64_t zero, const TransposedWindow &w, Value weight, bool depthwise,
                       Value bias, ArrayRef<int64_t> out) {
  x = zeroInserted(l, x, w.stride, zero);
  SmallVector<int64_t> size(Lowerer::shapeOf(x)), pad;
  for (int i = 0; i < 2; ++i) {
    int64_t before = w.kernel[i] - 1 - w.before[i], after = w.kernel[i] - 1 - w.after[i] - (w.stride[i] - 1);
    size[1 + i] += std::min<int64_t>(after, 0);
    pad.append({before, std::max<int64_t>(after, 0)});
  }
  x = l.slice(x, {0, 0, 0, 0}, size);
  Type element = Lowerer::typeOf(x).getElementType(), sum = sumType(l, element);
  return l.op(depthwise ? "depthwise_conv2d" : "conv2d",
              {x, weight, bias, l.zeroPoint(element, zero), l.zeroPoint(l.b.getI8Type())},
              RankedTensorType::get(out, sum), convAttributes(l, pad, {1, 1}, {1, 1}, sum));
}

/// The weight's space turned around.
HostTensor flipped(const HostTensor &w) {
  int64_t space = onnx::elementCount(w.shape().drop_front(2));
  HostTensor t(w.element(), w.shape());
  t.mutableData();
  for (int64_t i = 0; i < w.size(); ++i)
    t.setInteger(i / space * space + (space - 1 - i % space), w.integer(i));
  return t;
}

LogicalResult lowerConvTranspose(Operation *op, Lowerer &l) {
  Value in = op->getOperand(0), result = op->getResult(0);
  int64_t rank = Lowerer::rankOf(in), channels = Lowerer::shapeOf(result)[1], group = onnx::getInt(op, "group", 1);
  auto m = plainOperand(op, l, 0);
  auto w = l.constantOf(op->getOperand(1));
  bool depthwise = group > 1 && group == Lowerer::shapeOf(in)[1] && w && w->shape()[1] == 1;
  if (!w)
    l.no() << "weight is not constant";
  else if (group != 1 && !depthwise)
    l.no() << "group is " << group << ", neither 1 nor one for each channel with one result";
  auto window = readTransposed(op, l);
  auto q = w && window && m && (group == 1 || depthwise) ? quantiseWeight(l, op->getOperand(1), depthwise ? 0 : 1) : std::nullopt;
  if (!q)
    return failure();
  Scaled meaning = meaningOfProducts(*m, *q);
  Value x = asImage(l, l.get(in, channelsLast(rank)));
  Type element = Lowerer::typeOf(x).getElementType(), sum = sumType(l, element);
  Value bias = quantiseBias(l, onnx::getOptionalOperand(op, 2), channels, meaning, sum);
  if (!bias || failed(checkSum(l, meaning.bound, sum)))
    return failure();
  SmallVector<int64_t> ws{w->shape()[0], w->shape()[1], window->kernel[0], window->kernel[1]};
  SmallVector<int64_t> out{Lowerer::shapeOf(x)[0], rank == 3 ? 1 : Lowerer::shapeOf(result)[2],
                           Lowerer::shapeOf(result)[rank - 1], channels};
  // The hardware's own repetition of its input is by 1 or 2.
  bool native = !depthwise && element.isInteger(8) && window->stride[0] == window->stride[1] && window->stride[0] <= 2;
  HostTensor integers = q->integers.reshaped(ws); // [in, out, kh, kw]
  Value y;
  if (native) {
    Value zx = l.zeroPoint(element, m->zeroPoint), zw = l.zeroPoint(element);
    SmallVector<int64_t> pad{-window->before[0], -window->after[0], -window->before[1], -window->after[1]};
    y = l.op("transpose_conv2d", {x, l.transpose(l.constant(integers), {1, 2, 3, 0}), bias, zx, zw},
             RankedTensorType::get(out, sum),
             {l.ints("out_pad", pad), l.ints("stride", window->stride), l.attr("acc_type", TypeAttr::get(sum))});
  } else {
    Value k = l.constant(flipped(integers));
    k = depthwise ? l.transpose(k, {2, 3, 0, 1}) : l.transpose(k, {1, 2, 3, 0});
    y = convolveInserted(l, x, m->zeroPoint, *window, k, depthwise, bias, out);
  }
  l.set(result, fromImage(l, y, rank), channelsLast(rank));
  l.scaled[result] = meaning;
  return success();
}

RegisterLowering averagePools({"AveragePool"}, Domain::Integer, Elements::Float,
                              {"auto_pad", "ceil_mode", "count_include_pad", "dilations", "kernel_shape", "pads",
                               "strides"},
                              lowerAveragePool);
RegisterLowering convTranspose({"ConvTranspose"}, Domain::Integer, Elements::Float,
                               {"auto_pad", "dilations", "group", "kernel_shape", "output_padding", "output_shape",
                                "pads", "strides"},
                               lowerConvTranspose);

} // namespace

//===----------------------------------------------------------------------===//
// Interpolation
//===----------------------------------------------------------------------===//

Value repeatPositions(Lowerer &l, Value x, int64_t rows, int64_t columns) {
  SmallVector<int64_t> s(Lowerer::shapeOf(x));
  SmallVector<int64_t> to{s[0], s[1] * rows, s[2] * columns, s[3]};
  if (rows == 1 && columns == 1)
    return x;
  auto repeats = [](int64_t f) { return f == 2 || f == 4 || f == 8; };
  if (s[0] == 1 && repeats(rows) && repeats(columns)) {
    auto mode = mlir::tosa::ResizeModeAttr::get(l.b.getContext(), mlir::tosa::ResizeMode::NEAREST_NEIGHBOR);
    return l.op("resize", {x, l.shape({2 * rows, 2, 2 * columns, 2}), l.shape({1 - rows, 1 - columns}),
                           l.shape({rows - 1, columns - 1})},
                Lowerer::typeOf(x).clone(to), l.attr("mode", mode));
  }
  x = l.tile(l.reshape(x, {s[0], s[1], 1, s[2], 1, s[3]}), {1, 1, rows, 1, columns, 1});
  return l.reshape(x, to);
}

/// The first and the last position of an axis once more, so often.
static Value edgesRepeated(Lowerer &l, Value x, int64_t axis, bool front, bool behind) {
  SmallVector<int64_t> start(4, 0), size(Lowerer::shapeOf(x));
  int64_t last = size[axis] - 1;
  size[axis] = 1;
  SmallVector<Value> parts;
  if (front)
    parts.push_back(l.slice(x, start, size));
  parts.push_back(x);
  start[axis] = last;
  if (behind)
    parts.push_back(l.slice(x, start, size));
  return l.concat(parts, axis);
}

std::optional<Interpolation> interpolationOf(StringRef transform, int64_t in, int64_t out) {
  Interpolation p;
  if (in == out && transform != "tf_crop_and_resize") { // which samples a region of the image
    p.taps = {1};
    return p;
  }
  bool corners = transform == "align_corners" && in > 1 && out > 1 && (out - 1) % (in - 1) == 0;
  bool halves = (transform == "half_pixel" || transform == "pytorch_half_pixel") && out % in == 0;
  if (!corners && !halves && !(transform == "asymmetric" && out % in == 0))
    return std::nullopt;
  int64_t f = p.factor = corners ? (out - 1) / (in - 1) : out / in;
  if (f > 32)
    return std::nullopt;
  p.divisor = f;
  p.taps.assign(f, 1);
  if (halves && f % 2 == 0) { // half of the first and of the last
    p.taps.assign(f + 1, 2);
    p.taps.front() = p.taps.back() = 1;
    p.divisor = 2 * f;
  }
  p.front = halves;
  p.behind = !corners;
  p.skip = halves ? f - f / 2 : 0;
  if (halves && f % 2)
    p.skip = f - (f - 1) / 2;
  return p;
}

LogicalResult interpolate(Operation *op, Lowerer &l, const Interpolation (&axes)[2], ArrayRef<int64_t> out) {
  Value in = op->getOperand(0), result = op->getResult(0);
  auto m = plainOperand(op, l, 0);
  if (!m)
    return failure();
  int64_t rank = Lowerer::rankOf(in);
  Value x = asImage(l, l.get(in, channelsLast(rank)));
  for (int i = 0; i < 2; ++i)
    x = edgesRepeated(l, x, 1 + i, axes[i].front, axes[i].behind);
  x = repeatPositions(l, x, axes[0].factor, axes[1].factor);
  SmallVector<int64_t> start(4, 0), size(Lowerer::shapeOf(x));
  for (int i = 0; i < 2; ++i) {
    start[1 + i] = axes[i].skip;
    size[1 + i] = out[i] + (int64_t)axes[i].taps.size() - 1;
  }
  x = l.slice(x, start, size);
  Value y = filter(l, x, m->zeroPoint, axes[0].taps, axes[1].taps, {0, 0, 0, 0}, {1, 1}, {1, 1});
  Scaled meaning;
  int64_t divisor = axes[0].divisor * axes[1].divisor;
  meaning.scale = {m->scale[0] / (double)divisor};
  meaning.bound = m->bound * divisor;
  if (failed(checkSum(l, meaning.bound, Lowerer::typeOf(y).getElementType())))
    return failure();
  l.set(result, fromImage(l, y, rank), channelsLast(rank));
  l.scaled[result] = meaning;
  return success();
}

} // namespace tessera::tosa

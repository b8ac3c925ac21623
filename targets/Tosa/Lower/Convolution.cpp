// Conv and ConvTranspose. Weights become OHWI; a depthwise convolution HWCM;
// other groups one convolution each over slices of the channels.
#include "targets/Tosa/Lower/Lowerer.h"

using namespace mlir;

namespace tessera::tosa {
namespace {

constexpr int64_t maxGroups = 32; // more convolutions than that are not worth a segment

Type accumulator(Lowerer &l, Type element) {
  return isa<FloatType>(element) ? Type(l.b.getF32Type()) : l.b.getIntegerType(element.isInteger(16) ? 48 : 32);
}

/// Attributes of all kinds of convolution, for images or volumes.
SmallVector<NamedAttribute> attributes(Lowerer &l, const Window &w, Type element) {
  bool line = w.kernel.size() == 1;
  SmallVector<int64_t> pad, stride(line, 1), dilation(line, 1);
  if (line)
    pad.append({0, 0});
  for (const WindowAxis &a : w.axes)
    pad.append({a.before, a.after});
  llvm::append_range(stride, w.stride);
  llvm::append_range(dilation, w.dilation);
  return {l.ints("pad", pad), l.ints("stride", stride), l.ints("dilation", dilation),
          l.attr("acc_type", TypeAttr::get(accumulator(l, element)))};
}

/// [n, out..., channels] of a convolution of `x` with result `result` in ONNX's order.
RankedTensorType convType(Value x, ArrayRef<int64_t> space, int64_t channels, Type element) {
  SmallVector<int64_t> dims{Lowerer::shapeOf(x)[0]};
  if (space.size() == 1)
    dims.push_back(1);
  dims.append(space.begin(), space.end());
  dims.push_back(channels);
  return RankedTensorType::get(dims, element);
}

Value channelSlice(Lowerer &l, Value x, int64_t axis, int64_t from, int64_t count) {
  SmallVector<int64_t> start(Lowerer::rankOf(x), 0), size(Lowerer::shapeOf(x));
  start[axis] = from;
  size[axis] = count;
  return l.slice(x, start, size);
}

/// A depthwise weight [c * m, 1, kh, kw] as [kh, kw, c, m].
Value depthwiseWeight(Lowerer &l, WeightIn weight, ArrayRef<int64_t> s, int64_t channels) {
  bool line = s.size() == 3;
  return l.reshape(weight(line ? Perm{1, 2, 0} : Perm{2, 3, 1, 0}), {line ? 1 : s[2], s.back(), channels, s[0] / channels});
}

} // namespace

FailureOr<Value> buildConvolution(Operation *op, Lowerer &l, Value x, int64_t zeroX, WeightIn weight, Value bias,
                                  Type result, int64_t zeroWeight) {
  ArrayRef<int64_t> ws = Lowerer::shapeOf(op->getOperand(1)), out = Lowerer::shapeOf(op->getResult(0));
  int64_t rank = ws.size(), group = onnx::getInt(op, "group", 1), inChannels = Lowerer::shapeOf(x).back();
  Type element = Lowerer::typeOf(x).getElementType();
  auto w = readWindow(op, l, ws.drop_front(2));
  if (!w)
    return failure();
  x = asImage(l, cutToWindow(l, x, *w));
  auto attrs = attributes(l, *w, element);
  Value zx = l.zeroPoint(element, zeroX);
  Value zw = l.zeroPoint(isa<FloatType>(element) ? element : Type(l.b.getI8Type()), zeroWeight);
  ArrayRef<int64_t> space = out.drop_front(2);
  Value y;
  if (group == inChannels && group > 1 && ws[1] == 1) {
    if (rank == 5)
      return LogicalResult(l.no() << "depthwise convolution of volumes");
    Value k = depthwiseWeight(l, weight, ws, inChannels);
    y = l.op("depthwise_conv2d", {x, k, bias, zx, zw}, convType(x, space, out[1], result), attrs);
    return fromImage(l, y, rank);
  }
  if (group > maxGroups)
    return LogicalResult(l.no() << "group " << group << " would be as many convolutions, limit " << maxGroups);
  Value ohwi = weight(channelsLast(rank));
  if (rank == 3)
    ohwi = l.reshape(ohwi, {ws[0], 1, ws[2], ws[1]});
  StringRef mnemonic = rank == 5 ? "conv3d" : "conv2d";
  int64_t outPer = ws[0] / group, axis = Lowerer::rankOf(x) - 1;
  SmallVector<Value> parts;
  for (int64_t g = 0; g < group; ++g)
    parts.push_back(l.op(mnemonic,
                         {channelSlice(l, x, axis, g * ws[1], ws[1]), channelSlice(l, ohwi, 0, g * outPer, outPer),
                          channelSlice(l, bias, 0, g * outPer, outPer), zx, zw},
                         convType(x, space, outPer, result), attrs));
  return fromImage(l, l.concat(parts, axis), rank);
}

namespace {

Value biasOf(Operation *op, Lowerer &l, unsigned position, int64_t channels, Type element) {
  if (Value v = onnx::getOptionalOperand(op, position))
    return l.get(v);
  return l.constant(HostTensor(element, {channels}));
}

LogicalResult checkRank(Operation *op, Lowerer &l, int64_t most) {
  int64_t rank = Lowerer::rankOf(op->getOperand(0));
  if (rank < 3 || rank > most)
    return l.no() << "input has rank " << rank << ", 3 to " << most << " are served";
  return success();
}

LogicalResult lowerConv(Operation *op, Lowerer &l) {
  if (failed(checkRank(op, l, 5)))
    return failure();
  int64_t rank = Lowerer::rankOf(op->getOperand(0));
  Value x = l.get(op->getOperand(0), channelsLast(rank));
  Type element = Lowerer::typeOf(x).getElementType();
  Value bias = biasOf(op, l, 2, Lowerer::shapeOf(op->getResult(0))[1], element);
  auto weight = [&](ArrayRef<int64_t> perm) { return l.get(op->getOperand(1), perm); };
  auto y = buildConvolution(op, l, x, 0, weight, bias, element);
  if (failed(y))
    return failure();
  l.set(op->getResult(0), *y, channelsLast(rank));
  return success();
}

/// TOSA's padding of the result is ONNX's with the sign turned.
LogicalResult lowerConvTranspose(Operation *op, Lowerer &l) {
  if (failed(checkRank(op, l, 4)))
    return failure();
  int64_t rank = Lowerer::rankOf(op->getOperand(0));
  ArrayRef<int64_t> in = Lowerer::shapeOf(op->getOperand(0)), ws = Lowerer::shapeOf(op->getOperand(1));
  ArrayRef<int64_t> out = Lowerer::shapeOf(op->getResult(0));
  if (int64_t group = onnx::getInt(op, "group", 1); group != 1)
    return l.no() << "group is " << group << ", only 1 is served";
  if (StringRef mode = onnx::getString(op, "auto_pad", "NOTSET"); mode != "NOTSET")
    return l.no() << "auto_pad is '" << mode << "'";
  if (!onnx::getInts(op, "output_shape").empty())
    return l.no() << "output_shape is given";
  for (int64_t d : onnx::getInts(op, "dilations"))
    if (d != 1)
      return l.no() << "dilation is " << d << ", only 1 is served";
  SmallVector<int64_t> pads = onnx::getInts(op, "pads"), strides = onnx::getInts(op, "strides");
  size_t n = rank - 2;
  pads.resize(2 * n, 0);
  strides.resize(n, 1);
  SmallVector<int64_t> outPad(rank == 3 ? 2 : 0, 0), stride(rank == 3 ? 1 : 0, 1);
  for (size_t i = 0; i < n; ++i) {
    int64_t k = ws[i + 2], before = -pads[i];
    int64_t after = out[i + 2] - ((in[i + 2] - 1) * strides[i] + k) - before;
    if (before <= -k || after <= -k)
      return l.no() << "padding " << pads[i] << " is not less than the kernel, " << k;
    outPad.append({before, after});
    stride.push_back(strides[i]);
  }
  Value x = asImage(l, l.get(op->getOperand(0), channelsLast(rank)));
  Type element = Lowerer::typeOf(x).getElementType();
  Perm perm = rank == 3 ? Perm{1, 2, 0} : Perm{1, 2, 3, 0};
  Value w = l.get(op->getOperand(1), perm), bias = biasOf(op, l, 2, ws[1], element);
  if (rank == 3)
    w = l.reshape(w, {ws[1], 1, ws[2], ws[0]});
  Value zero = l.zeroPoint(element);
  Value y = l.op("transpose_conv2d", {x, w, bias, zero, zero}, convType(x, out.drop_front(2), ws[1], element),
                 {l.ints("out_pad", outPad), l.ints("stride", stride),
                  l.attr("acc_type", TypeAttr::get(accumulator(l, element)))});
  l.set(op->getResult(0), fromImage(l, y, rank), channelsLast(rank));
  return success();
}

RegisterLowering conv({"Conv"}, Domain::Float, Elements::Float,
                      {"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"}, lowerConv);
RegisterLowering convTranspose({"ConvTranspose"}, Domain::Float, Elements::Float,
                               {"auto_pad", "dilations", "group", "kernel_shape", "output_padding", "output_shape",
                                "pads", "strides"},
                               lowerConvTranspose);

} // namespace
} // namespace tessera::tosa

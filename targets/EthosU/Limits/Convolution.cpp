// Convolutions. Vela checks strides, channels and what must be constant; it
// does not check kernels, weight sums and biases on its TOSA path, where
// registers and the records of scales silently take what fits.
//
// clang-format off
//                      U55, U65                      U85
//   kernel as executed 64 high, 4,096 taps           level 8K
//   stride             3; larger ones of CONV2D are  level 8K
//                      split if nothing is padded
//                      or dilated
//   sum of |weights|   127 * 65,536 a channel        the same for int8 inputs,
//                                                    32,512 * 65,536 for int16
//   bias               40 bits                       48 bits
//   weights, bias      constant                      constant for CONV3D and
//                                                    TRANSPOSE_CONV2D
// clang-format on
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "mlir/Dialect/Tosa/IR/TosaOps.h"
#include "targets/EthosU/Limits/Check.h"

using namespace mlir;

namespace tessera::ethosu {
namespace {

/// A window over height and width, the innermost two of a convolution's axes.
struct Window {
  SmallVector<int64_t> kernel, stride, dilation, pad;
  bool padded = false;
  bool dilated() const { return dilation[0] > 1 || dilation[1] > 1; }
};

SmallVector<int64_t> lastTwo(ArrayRef<int64_t> v) {
  return SmallVector<int64_t>(v.take_back(2));
}

Window windowOf(Check &c, ArrayRef<int64_t> kernel) {
  Window w{
      lastTwo(kernel), lastTwo(c.ints("stride")), {1, 1}, {0, 0, 0, 0}, false};
  if (c.op->hasAttr("dilation")) {
    w.dilation = lastTwo(c.ints("dilation"));
    w.pad = SmallVector<int64_t>(ArrayRef(c.ints("pad")).take_back(4));
  }
  ArrayRef<int64_t> result = c.resultShape().take_back(3);
  bool apart = false;
  for (int i = 0; i < 2; ++i) {
    if (w.kernel[i] == 1)
      w.dilation[i] = 1; // one tap has no distance to another
    if (result[i] == 1)
      w.stride[i] = 1; // no step is taken
    int64_t extent = (w.kernel[i] - 1) * w.dilation[i] + 1;
    w.padded |= w.pad[2 * i] > 0 || w.pad[2 * i + 1] > 0;
    apart |= w.pad[2 * i] >= extent || w.pad[2 * i + 1] >= extent;
  }
  w.padded &=
      !apart; // padding as wide as the kernel is an operation of its own
  return w;
}

void checkKernel(Check &c, const Window &w) {
  for (int i = 0; i < 2; ++i)
    c.atMost(i ? "kernel width" : "kernel height", w.kernel[i] * w.dilation[i],
             maxKernel);
  c.atMost("stride", std::max(w.stride[0], w.stride[1]), maxStride);
  if (c.isU85())
    return;
  // Dilation by more than 2 is taken apart into operations without it.
  bool apart = w.dilation[0] > 2 || w.dilation[1] > 2;
  int64_t size[2];
  for (int i = 0; i < 2; ++i)
    size[i] = apart ? w.kernel[i] : (w.kernel[i] - 1) * w.dilation[i] + 1;
  StringRef what = !apart && w.dilated() ? "dilated kernel" : "kernel";
  c.atMost(what + " height", size[0], 64);
  if (size[0] * size[1] > 4096)
    c.no(what + " of " + Twine(size[0]) + "x" + Twine(size[1]) + " has " +
         Twine(size[0] * size[1]) + " taps, more than 4096");
}

void checkStride(Check &c, const Window &w, bool splits) {
  int64_t largest = std::max(w.stride[0], w.stride[1]);
  if (c.isU85() || largest <= 3)
    return;
  if (!splits)
    c.atMost("stride", largest, 3);
  else if (w.padded || w.dilated())
    c.no("stride " + Twine(largest) +
         " exceeds 3, which is possible only without padding and dilation");
}

void checkWeightType(Check &c) {
  Type input = c.elementOf(c.op->getOperand(0)),
       weight = c.elementOf(c.op->getOperand(1));
  if (!weight.isInteger(8) && !(weight.isInteger(4) && input.isInteger(8)))
    c.no("weights of type " + Check::typeName(weight) + " on an input of type " +
         Check::typeName(input) + "; known are i8, and i4 on i8");
}

ElementsAttr constantOf(Value v) {
  auto constant = v.getDefiningOp<mlir::tosa::ConstOp>();
  return constant ? ElementsAttr(constant.getValues()) : ElementsAttr();
}

void checkConstants(Check &c, bool needed) {
  if (!needed)
    return;
  for (auto [i, what] : {std::pair(1u, "weights"), std::pair(2u, "bias")})
    if (!constantOf(c.op->getOperand(i)))
      c.no(Twine(what) + (i == 1 ? " are" : " is") + " not constant");
}

/// |weights| of each output channel, whose axis in the constant is
/// `channelAxis` (DEPTHWISE_CONV2D: the last two together).
void checkWeightSum(Check &c, bool depthwise) {
  ElementsAttr weights = constantOf(c.op->getOperand(1));
  bool narrow = c.elementOf(c.op->getOperand(0)).isInteger(8);
  const int64_t limit = (c.isU85() && !narrow ? 32512 : 127) * maxAxis;
  ArrayRef<int64_t> shape = c.operandShape(1);
  int64_t channels = depthwise ? shape[2] * shape[3] : shape[0];
  int64_t taps = weights ? weights.getNumElements() / channels : 0;
  if (taps * 128 <= limit)
    return; // whatever the weights are
  auto values = onnx::getInts(weights, weights.getNumElements());
  if (!values)
    return;
  int64_t worst = 0;
  for (int64_t channel = 0; channel < channels; ++channel) {
    int64_t sum = 0;
    for (int64_t t = 0; t < taps; ++t)
      sum += std::abs(
          (*values)[depthwise ? t * channels + channel : channel * taps + t]);
    worst = std::max(worst, sum);
  }
  c.atMost("sum of absolute weights of an output channel", worst, limit);
}

void checkBias(Check &c) {
  ElementsAttr bias = constantOf(c.op->getOperand(2));
  auto values =
      bias ? onnx::getInts(bias, bias.getNumElements()) : std::nullopt;
  if (!values)
    return;
  const unsigned bits = c.isU85() ? 48 : 40;
  for (int64_t v : *values)
    if (!llvm::isIntN(bits, v))
      return c.no("bias " + Twine(v) + " exceeds " + Twine(bits) + " bits");
}

void checkCommon(Check &c, const Window &w, bool depthwise, bool constants) {
  checkWeightType(c);
  checkConstants(c, constants);
  checkKernel(c, w);
  c.atMost("input channels", c.operandShape(0).back(), maxAxis);
  checkWeightSum(c, depthwise);
  checkBias(c);
}

} // namespace

void checkConv2d(Check &c) {
  ArrayRef<int64_t> weight = c.operandShape(1); // OHWI
  Window w = windowOf(c, {weight[1], weight[2]});
  checkStride(c, w, /*splits=*/true);
  checkCommon(c, w, /*depthwise=*/false, /*constants=*/!c.isU85());
}

void checkDepthwiseConv2d(Check &c) {
  ArrayRef<int64_t> weight = c.operandShape(1); // HWCM
  Window w = windowOf(c, {weight[0], weight[1]});
  // Many results of one channel are an ordinary convolution.
  checkStride(c, w, /*splits=*/weight[2] == 1 && weight[3] > 1);
  checkCommon(c, w, /*depthwise=*/true, /*constants=*/!c.isU85());
}

void checkConv3d(Check &c) {
  ArrayRef<int64_t> weight = c.operandShape(1); // ODHWI
  Window w = windowOf(c, {weight[2], weight[3]});
  if (!c.isU85())
    c.atMost("kernel depth", weight[1], 1);
  checkStride(c, w, /*splits=*/c.ints("stride").front() == 1);
  checkCommon(c, w, /*depthwise=*/false, /*constants=*/true);
}

void checkTransposeConv2d(Check &c) {
  ArrayRef<int64_t> input = c.operandShape(0), weight = c.operandShape(1);
  Window w = windowOf(c, {weight[1], weight[2]});
  checkCommon(c, w, /*depthwise=*/false, /*constants=*/true);
  if (c.isU85())
    return;
  if (c.elementOf(c.op->getOperand(0)).isInteger(16))
    c.no("an input of type i16");
  // The hardware repeats its input by 2 in both directions or in none; along an
  // axis of one element and one tap there is nothing to repeat.
  SmallVector<int64_t> stride = c.ints("stride");
  bool single[2];
  for (int i = 0; i < 2; ++i)
    single[i] = input[1 + i] == 1 && weight[1 + i] == 1;
  bool repeats = single[0] && single[1];
  for (int64_t s : {1, 2})
    repeats |= (single[0] || stride[0] == s) && (single[1] || stride[1] == s);
  if (!repeats)
    c.no("strides " + Twine(stride[0]) + "x" + Twine(stride[1]) +
         " are neither 1x1 nor 2x2");
}

} // namespace tessera::ethosu

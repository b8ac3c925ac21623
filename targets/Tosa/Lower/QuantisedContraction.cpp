// Convolutions and products of quantised tensors.
//
// Weights arrive as floats: DequantizeLinear of constants is folded long
// before, perhaps with a scaling after it. What it was folded from is noted with
// most. The integers of others come back from the floats: where all of a channel
// are multiples of one step, up to their own rounding, that step and the multiples
// are an exact account of the channel, whatever the model called them.
#include "mlir/Dialect/Tosa/IR/TosaOps.h"
#include "passes/Canonicalise/Dequantised.h"
#include "targets/Tosa/Lower/Quantised.h"

using namespace mlir;

namespace tessera::tosa {

/// The step of which all of `v` are multiples by an int8; 0 if there is none.
static double stepOf(ArrayRef<double> v) {
  double most = 0;
  for (double x : v)
    most = std::max(most, std::abs(x));
  if (llvm::all_of(v, [](double x) { return x == 0; }))
    return 1;
  constexpr double slack = 1.0 / (1 << 21); // a float32 is off by 2^-24 of itself, and each scaling of it by as much
  for (int k = 1; k <= 128; ++k) {
    double step = most / k;
    auto fits = [&](double x) {
      double q = std::nearbyint(x / step);
      return std::abs(x / step - q) <= slack * std::abs(q) && q <= 127;
    };
    if (llvm::all_of(v, fits))
      return step;
  }
  return 0;
}

/// The steps that the model gave the channels of `axis`; none if it is not known
/// to have multiplied int8 by them and nothing else.
static SmallVector<double> notedSteps(Value weight, int64_t axis, int64_t channels) {
  auto d = onnx::dequantisedConstant(weight);
  bool many = d && d->scale.size() > 1;
  if (!d || !d->scale.element().isF32() || !d->integers.element().isSignlessInteger(8) || (many && (d->axis != axis || d->block)))
    return {};
  for (int64_t i = 0; d->zero && i < d->zero->size(); ++i)
    if (d->zero->integer(i) != 0)
      return {};
  SmallVector<double> steps;
  for (int64_t c = 0; c < channels; ++c)
    steps.push_back(d->scale.real(many ? c : 0));
  return llvm::all_of(steps, [](double s) { return s > 0 && std::isfinite(s); }) ? steps : SmallVector<double>();
}

std::optional<QuantisedWeight> quantiseWeight(Lowerer &l, Value weight, int64_t axis) {
  HostTensor w = *l.constantOf(weight);
  if (!w.isFloat()) {
    l.no() << "weight is " << onnx::getTypeName(w.element());
    return std::nullopt;
  }
  QuantisedWeight q{HostTensor(l.b.getI8Type(), w.shape()), {}, 0, 0};
  q.integers.mutableData();
  int64_t channels = w.shape()[axis], inner = onnx::elementCount(w.shape().drop_front(axis + 1));
  q.scale = notedSteps(weight, axis, channels);
  std::vector<SmallVector<double>> values(q.scale.empty() ? channels : 0);
  for (int64_t i = 0; i < w.size() && !values.empty(); ++i)
    values[i / inner % channels].push_back(w.real(i));
  for (auto [c, of] : llvm::enumerate(values)) {
    double step = stepOf(of);
    if (step == 0) {
      l.no() << "channel " << c << " of the weight has no step of which all its values are multiples by an int8";
      return std::nullopt;
    }
    q.scale.push_back(step);
  }
  SmallVector<int64_t> sums(channels, 0);
  SmallVector<double> errors(channels, 0);
  for (int64_t i = 0; i < w.size(); ++i) {
    int64_t c = i / inner % channels, v = std::llround(w.real(i) / q.scale[c]);
    q.integers.setInteger(i, v);
    sums[c] += std::abs(v);
    errors[c] += std::abs(w.real(i) - (double)v * q.scale[c]);
  }
  q.error = *std::max_element(errors.begin(), errors.end());
  q.largestSum = *std::max_element(sums.begin(), sums.end());
  return q;
}

Scaled meaningOfProducts(const Scaled &x, const QuantisedWeight &w) {
  Scaled meaning;
  meaning.scale.clear();
  for (double s : w.scale)
    meaning.scale.push_back(s * x.scale[0]);
  meaning.bound = x.bound * w.largestSum;
  meaning.error = x.scale[0] * (double)x.bound * w.error;
  return meaning;
}

Type sumType(Lowerer &l, Type element) { return l.b.getIntegerType(element.isInteger(16) ? 48 : 32); }

LogicalResult checkSum(Lowerer &l, int64_t bound, Type sum) {
  unsigned bits = sum.getIntOrFloatBitWidth();
  if (bound >= int64_t(1) << (bits - 1))
    return l.no() << "sums reach " << bound << ", more than " << bits << " bits";
  return success();
}

/// HostTensor has no such elements.
static Value constant48(Lowerer &l, ArrayRef<int64_t> numbers) {
  auto type = RankedTensorType::get({(int64_t)numbers.size()}, l.b.getIntegerType(48));
  SmallVector<llvm::APInt> values;
  for (int64_t v : numbers)
    values.emplace_back(48, (uint64_t)v, /*isSigned=*/true);
  return l.op("const", {}, type, l.attr("values", DenseElementsAttr::get(type, values)));
}

Value quantiseBias(Lowerer &l, Value bias, int64_t channels, Scaled &meaning, Type sum) {
  HostTensor t(l.b.getI64Type(), {channels});
  t.mutableData();
  bool wide = sum.isInteger(48);
  auto made = [&] { return wide ? constant48(l, t.integers()) : l.constant(*t.cast(sum)); };
  if (!bias)
    return made();
  auto b = l.constantOf(bias);
  bool one = b && b->size() == 1;
  if (!b || !b->isFloat() || !(one || (b->size() == channels && b->shape().back() == channels))) {
    l.no() << "adds other than a constant of " << channels << " floats along the last axis: "
           << onnx::getTypeName(bias.getType());
    return {};
  }
  const double limit = wide ? 1e11 : 2147483647.0; // U55 adds 40 bits
  double off = 0;
  int64_t most = 0;
  for (int64_t c = 0; c < channels; ++c) {
    double s = meaning.scale[meaning.scale.size() == 1 ? 0 : c], v = b->real(one ? 0 : c) / s;
    if (!(std::abs(v) <= limit)) {
      l.no() << "bias is " << v << " steps of the sum, more than " << limit;
      return {};
    }
    int64_t rounded = std::llround(v);
    t.setInteger(c, rounded);
    off = std::max(off, std::abs(v - (double)rounded) * s);
    most = std::max(most, std::abs(rounded));
  }
  meaning.error += off;
  meaning.bound += most;
  return made();
}

std::optional<Scaled> plainOperand(Operation *op, Lowerer &l, unsigned position) {
  Value v = op->getOperand(position);
  auto it = l.scaled.find(v);
  if (it == l.scaled.end()) {
    l.no() << "input '" << onnx::getOperandName(op, position) << "' is not quantised";
    return std::nullopt;
  }
  if (isSum(l, v) || !it->second.plain() || it->second.scale.size() > 1) {
    l.no() << "input '" << onnx::getOperandName(op, position) << "' is not a plain integer tensor";
    return std::nullopt;
  }
  return it->second;
}

namespace {

LogicalResult lowerConv(Operation *op, Lowerer &l) {
  Value in = op->getOperand(0), result = op->getResult(0);
  int64_t rank = Lowerer::rankOf(in), channels = Lowerer::shapeOf(result)[1];
  if (rank != 3 && rank != 4)
    return l.no() << "input has rank " << rank << ", 3 and 4 are served";
  auto x = plainOperand(op, l, 0);
  bool constant = !!l.constantOf(op->getOperand(1));
  if (!constant)
    l.no() << "weight is not constant";
  auto q = constant ? quantiseWeight(l, op->getOperand(1), 0) : std::nullopt;
  if (!x || !q)
    return failure();
  Scaled meaning = meaningOfProducts(*x, *q);
  Value image = l.get(in, channelsLast(rank));
  Type sum = sumType(l, Lowerer::typeOf(image).getElementType());
  Value bias = quantiseBias(l, onnx::getOptionalOperand(op, 2), channels, meaning, sum);
  if (!bias || failed(checkSum(l, meaning.bound, sum)))
    return failure();
  auto weight = [&](ArrayRef<int64_t> perm) { return l.transpose(l.constant(q->integers), perm); };
  auto y = buildConvolution(op, l, image, x->zeroPoint, weight, bias, sum);
  if (failed(y))
    return failure();
  l.set(result, *y, channelsLast(rank));
  l.scaled[result] = meaning;
  return success();
}

/// The Add that only gives a product its bias, if there is one.
Operation *biasOf(Operation *op, unsigned &position) {
  Value result = op->getResult(0);
  Operation *add = result.hasOneUse() ? *result.user_begin() : nullptr;
  if (!add || add->getName().getStringRef() != "onnx.Add" || add->getResult(0).getType() != result.getType())
    return nullptr;
  position = add->getOperand(0) == result ? 1 : 0;
  auto type = dyn_cast<RankedTensorType>(add->getOperand(position).getType());
  bool row = type && onnx::getConstant(add->getOperand(position)) && type.getRank() > 0 &&
             type.getNumElements() == type.getShape().back();
  return row && type.getNumElements() == Lowerer::shapeOf(result).back() ? add : nullptr;
}

/// x [..., k] times a constant [k, n] is a convolution of one position, which
/// devices do better than a product, with a scale a column.
LogicalResult lowerLinear(Operation *op, Lowerer &l, const Scaled &x, bool transposed) {
  Value in = op->getOperand(0), w = op->getOperand(1), result = op->getResult(0);
  if (Lowerer::rankOf(w) != 2)
    return l.no() << "weight has rank " << Lowerer::rankOf(w) << ", only 2 is served";
  auto q = quantiseWeight(l, w, transposed ? 0 : 1);
  if (!q)
    return failure();
  Scaled meaning = meaningOfProducts(x, *q);
  meaning.axis = Lowerer::rankOf(result) - 1;
  int64_t k = Lowerer::shapeOf(in).back(), n = Lowerer::shapeOf(result).back();
  int64_t rows = Lowerer::typeOf(in).getNumElements() / k;
  unsigned position = 2;
  bool gemm = op->getName().stripDialect() == "Gemm";
  Value given = gemm ? onnx::getOptionalOperand(op, 2) : Value();
  if (Operation *add = given ? nullptr : biasOf(op, position)) {
    given = add->getOperand(position);
    l.merged.insert(add);
  }
  Value image = l.reshape(l.get(in), {1, 1, rows, k});
  Type element = Lowerer::typeOf(image).getElementType(), sum = sumType(l, element);
  Value bias = quantiseBias(l, given, n, meaning, sum);
  if (!bias || failed(checkSum(l, meaning.bound, sum)))
    return failure();
  Value weight = l.transpose(l.constant(q->integers), transposed ? Perm{0, 1} : Perm{1, 0});
  Value y = l.op("conv2d", {image, l.reshape(weight, {n, 1, 1, k}), bias, l.zeroPoint(element, x.zeroPoint),
                            l.zeroPoint(l.b.getI8Type())},
                 RankedTensorType::get({1, 1, rows, n}, sum),
                 {l.ints("pad", {0, 0, 0, 0}), l.ints("stride", {1, 1}), l.ints("dilation", {1, 1}),
                  l.attr("acc_type", TypeAttr::get(sum))});
  l.set(result, l.reshape(y, Lowerer::shapeOf(result)));
  l.scaled[result] = meaning;
  return success();
}

LogicalResult lowerProduct(Operation *op, Lowerer &l) {
  Value result = op->getResult(0), other = op->getOperand(1);
  bool gemm = op->getName().stripDialect() == "Gemm";
  if (Lowerer::rankOf(result) < 2 || Lowerer::rankOf(op->getOperand(0)) < 2 || Lowerer::rankOf(other) < 2)
    return l.no() << "of a vector";
  if (gemm && (onnx::getInt(op, "transA") || onnx::getFloat(op, "alpha", 1) != 1 || onnx::getFloat(op, "beta", 1) != 1))
    return l.no() << "transA, alpha or beta is given";
  auto x = plainOperand(op, l, 0);
  if (!x)
    return failure();
  bool transposed = gemm && onnx::getInt(op, "transB");
  if (l.constantOf(other))
    return lowerLinear(op, l, *x, transposed);
  auto y = plainOperand(op, l, 1);
  if (!y)
    return failure();
  if (transposed || (gemm && onnx::getOptionalOperand(op, 2)))
    return l.no() << "transB or 'C' with a second factor that is not constant";
  Type element = Lowerer::typeOf(l.get(op->getOperand(0))).getElementType();
  if (element != Lowerer::typeOf(l.get(other)).getElementType())
    return l.no() << "of integers of different widths";
  Scaled meaning;
  meaning.scale = {x->scale[0] * y->scale[0]};
  meaning.bound = x->bound * y->bound * Lowerer::shapeOf(op->getOperand(0)).back();
  if (failed(checkSum(l, meaning.bound, sumType(l, element))))
    return failure();
  l.set(result, buildProduct(op, l, l.get(other), x->zeroPoint, y->zeroPoint));
  l.scaled[result] = meaning;
  return success();
}

RegisterLowering conv({"Conv"}, Domain::Integer, Elements::Float,
                      {"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"}, lowerConv);
RegisterLowering products({"MatMul", "Gemm"}, Domain::Integer, Elements::Float,
                          {"alpha", "beta", "transA", "transB"}, lowerProduct);

} // namespace
} // namespace tessera::tosa

// Convolutions and products of quantised tensors.
//
// Weights arrive as floats: DequantizeLinear of constants is folded long
// before, perhaps with a scaling after it. The integers come back from them:
// where all floats of a channel are multiples of one step, up to their own
// rounding, that step and the multiples are an exact account of the channel,
// whatever the model called them.
#include "mlir/Dialect/Tosa/IR/TosaOps.h"
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

std::optional<QuantisedWeight> quantiseWeight(Lowerer &l, const HostTensor &w, int64_t axis) {
  if (!w.isFloat()) {
    l.no() << "weight is " << onnx::getTypeName(w.element());
    return std::nullopt;
  }
  QuantisedWeight q{HostTensor(l.b.getI8Type(), w.shape()), {}, 0, 0};
  q.integers.mutableData();
  int64_t channels = w.shape()[axis], inner = onnx::elementCount(w.shape().drop_front(axis + 1));
  std::vector<SmallVector<double>> values(channels);
  for (int64_t i = 0; i < w.size(); ++i)
    values[i / inner % channels].push_back(w.real(i));
  for (int64_t c = 0; c < channels; ++c) {
    double step = stepOf(values[c]);
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

std::optional<HostTensor> quantiseBias(Lowerer &l, Value bias, int64_t channels, Scaled &meaning) {
  HostTensor t(l.b.getI32Type(), {channels});
  t.mutableData();
  if (!bias)
    return t;
  auto b = l.constantOf(bias);
  bool one = b && b->size() == 1;
  if (!b || !b->isFloat() || !(one || (b->size() == channels && b->shape().back() == channels))) {
    l.no() << "adds other than a constant of " << channels << " floats along the last axis: "
           << onnx::getTypeName(bias.getType());
    return std::nullopt;
  }
  double off = 0;
  int64_t most = 0;
  for (int64_t c = 0; c < channels; ++c) {
    double s = meaning.scale[meaning.scale.size() == 1 ? 0 : c], v = b->real(one ? 0 : c) / s;
    if (!(std::abs(v) <= 1e9)) {
      l.no() << "bias is " << v << " steps of the accumulator, more than 1e9";
      return std::nullopt;
    }
    int64_t rounded = std::llround(v);
    t.setInteger(c, rounded);
    off = std::max(off, std::abs(v - (double)rounded) * s);
    most = std::max(most, std::abs(rounded));
  }
  meaning.error += off;
  meaning.bound += most;
  return t;
}

namespace {

/// The operand as an 8-bit tensor whose meaning needs nothing more.
std::optional<Scaled> plainOperand(Operation *op, Lowerer &l, unsigned position) {
  Value v = op->getOperand(position);
  auto it = l.scaled.find(v);
  if (it == l.scaled.end()) {
    l.no() << "input '" << onnx::getOperandName(op, position) << "' is not quantised";
    return std::nullopt;
  }
  bool bytes = Lowerer::typeOf(l.get(v, l.order(v))).getElementType().isInteger(8);
  if (!bytes || !it->second.plain() || it->second.scale.size() > 1) {
    l.no() << "input '" << onnx::getOperandName(op, position) << "' is not a plain int8 tensor";
    return std::nullopt;
  }
  return it->second;
}

LogicalResult checkSum(Lowerer &l, int64_t bound) {
  if (bound > INT32_MAX)
    return l.no() << "sums reach " << bound << ", more than 32 bits";
  return success();
}

LogicalResult lowerConv(Operation *op, Lowerer &l) {
  Value in = op->getOperand(0), result = op->getResult(0);
  int64_t rank = Lowerer::rankOf(in), channels = Lowerer::shapeOf(result)[1];
  if (rank != 3 && rank != 4)
    return l.no() << "input has rank " << rank << ", 3 and 4 are served";
  auto x = plainOperand(op, l, 0);
  auto w = l.constantOf(op->getOperand(1));
  if (!w)
    l.no() << "weight is not constant";
  auto q = w ? quantiseWeight(l, *w, 0) : std::nullopt;
  if (!x || !q)
    return failure();
  Scaled meaning;
  meaning.scale.clear();
  for (double s : q->scale)
    meaning.scale.push_back(s * x->scale[0]);
  meaning.bound = x->bound * q->largestSum;
  meaning.error = x->scale[0] * (double)x->bound * q->error;
  auto bias = quantiseBias(l, onnx::getOptionalOperand(op, 2), channels, meaning);
  if (!bias || failed(checkSum(l, meaning.bound)))
    return failure();
  auto weight = [&](ArrayRef<int64_t> perm) { return l.transpose(l.constant(q->integers), perm); };
  auto y = buildConvolution(op, l, l.get(in, channelsLast(rank)), x->zeroPoint, weight, l.constant(*bias),
                            l.b.getI32Type());
  if (failed(y))
    return failure();
  l.set(result, *y, channelsLast(rank));
  l.scaled[result] = meaning;
  return success();
}

/// Products with a constant second operand have a scale a column.
LogicalResult lowerProduct(Operation *op, Lowerer &l) {
  Value result = op->getResult(0), weight = op->getOperand(1);
  bool gemm = op->getName().stripDialect() == "Gemm";
  int64_t rank = Lowerer::rankOf(result), columns = Lowerer::shapeOf(result).back();
  if (rank < 2 || Lowerer::rankOf(op->getOperand(0)) < 2 || Lowerer::rankOf(weight) < 2)
    return l.no() << "of a vector";
  if (gemm && (onnx::getInt(op, "transA") || onnx::getFloat(op, "alpha", 1) != 1 || onnx::getFloat(op, "beta", 1) != 1))
    return l.no() << "transA, alpha or beta is given";
  auto x = plainOperand(op, l, 0);
  if (!x)
    return failure();
  Scaled meaning;
  meaning.axis = rank - 1;
  meaning.bound = 0;
  int64_t zeroY = 0;
  bool transposed = gemm && onnx::getInt(op, "transB");
  Value factor;
  if (auto w = l.constantOf(weight)) {
    if (w->rank() != 2)
      return l.no() << "weight has rank " << w->rank() << ", only 2 is served";
    auto q = quantiseWeight(l, *w, transposed ? 0 : 1);
    if (!q)
      return failure();
    meaning.scale.clear();
    for (double s : q->scale)
      meaning.scale.push_back(s * x->scale[0]);
    meaning.bound = x->bound * q->largestSum;
    meaning.error = x->scale[0] * (double)x->bound * q->error;
    factor = l.transpose(l.constant(q->integers), transposed ? Perm{1, 0} : Perm{0, 1});
  } else {
    auto y = plainOperand(op, l, 1);
    if (!y || transposed)
      return y ? l.no() << "transB of a tensor" : failure();
    meaning.scale = {x->scale[0] * y->scale[0]};
    meaning.bound = x->bound * y->bound * Lowerer::shapeOf(op->getOperand(0)).back();
    zeroY = y->zeroPoint;
    factor = l.get(weight);
  }
  auto bias = quantiseBias(l, gemm ? onnx::getOptionalOperand(op, 2) : Value(), columns, meaning);
  if (!bias || failed(checkSum(l, meaning.bound)))
    return failure();
  Value z = buildProduct(op, l, factor, x->zeroPoint, zeroY);
  if (!bias->isUniform() || bias->integer(0) != 0) {
    SmallVector<int64_t> dims(rank, 1);
    dims.back() = columns;
    z = l.add(z, l.constant(bias->reshaped(dims)));
  }
  l.set(result, z);
  l.scaled[result] = meaning;
  return success();
}

RegisterLowering conv({"Conv"}, Domain::Integer, Elements::Float,
                      {"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"}, lowerConv);
RegisterLowering products({"MatMul", "Gemm"}, Domain::Integer, Elements::Float,
                          {"alpha", "beta", "transA", "transB"}, lowerProduct);

} // namespace
} // namespace tessera::tosa

// Quantised regions in integers.
//
// DequantizeLinear makes a float tensor that is only an integer one's meaning
// (Scaled); operators compute on the integers and say what their results mean;
// QuantizeLinear turns a meaning into 8 bits by RESCALE. In between everything
// is exact, so the result differs from ONNX's by the rounding of RESCALE (half
// up, ONNX's is half to even), by the multiplier's 31 bits, and by what
// `Scaled::error` adds up (biases rounded to the accumulator's step, common
// scales). Two numbers less than 1 apart round to integers at most 1 apart: the
// sum of these errors is kept below half a step of the result, and what would
// exceed it is refused.
#include "mlir/Dialect/Tosa/IR/TosaOps.h"
#include "passes/Canonicalise/Evaluate.h"
#include "targets/Tosa/Lower/Quantised.h"

using namespace mlir;

namespace tessera::tosa {

std::optional<Quantisation> readQuantisation(Operation *op, Lowerer &l, unsigned scale, unsigned zero) {
  Quantisation q;
  auto s = l.constantOf(onnx::getOptionalOperand(op, scale));
  if (!s || s->size() != 1) {
    l.no() << "input '" << onnx::getOperandName(op, scale) << "' is not a constant scalar";
    return std::nullopt;
  }
  q.scale = s->real(0);
  if (Value v = onnx::getOptionalOperand(op, zero)) {
    auto z = l.constantOf(v);
    if (!z || z->size() != 1 || !z->element().isSignlessInteger(8)) {
      l.no() << "input '" << onnx::getOperandName(op, zero) << "' is not a constant int8 scalar";
      return std::nullopt;
    }
    q.zeroPoint = z->integer(0);
  }
  if (!(q.scale > 0) || !std::isfinite(q.scale)) {
    l.no() << "scale is " << q.scale;
    return std::nullopt;
  }
  return q;
}

bool multiplierOf(double factor, int64_t &multiplier, int64_t &shift) {
  int exponent;
  double fraction = std::frexp(factor, &exponent); // [0.5, 1)
  multiplier = std::llround(fraction * 2147483648.0);
  shift = 31 - exponent;
  if (multiplier == int64_t(1) << 31) {
    multiplier /= 2;
    --shift;
  }
  for (; shift > 62; --shift) // tiny factors: fewer bits
    multiplier /= 2;
  return shift >= 2 && multiplier > 0;
}

Value rescale(Lowerer &l, Value x, ArrayRef<double> factors, int64_t zeroIn, int64_t zeroOut, Type out) {
  Type in = Lowerer::typeOf(x).getElementType();
  int64_t n = factors.size();
  HostTensor m(l.b.getI32Type(), {n}), s(l.b.getI8Type(), {n});
  m.mutableData();
  s.mutableData();
  for (int64_t i = 0; i < n; ++i) {
    int64_t multiplier, shift;
    if (!multiplierOf(factors[i], multiplier, shift)) {
      l.no() << "a rescale by " << factors[i] << " is outside of 2^-62 to 2^29";
      return {};
    }
    m.setInteger(i, multiplier);
    s.setInteger(i, shift);
  }
  auto mode = mlir::tosa::RoundingModeAttr::get(l.b.getContext(), mlir::tosa::RoundingMode::SINGLE_ROUND);
  return l.op("rescale", {x, l.constant(m), l.constant(s), l.zeroPoint(in, zeroIn), l.zeroPoint(out, zeroOut)},
              Lowerer::typeOf(x).clone(out),
              {l.attr("scale32", l.b.getBoolAttr(true)), l.attr("rounding_mode", mode),
               l.attr("per_channel", l.b.getBoolAttr(n > 1)), l.attr("input_unsigned", l.b.getBoolAttr(false)),
               l.attr("output_unsigned", l.b.getBoolAttr(false))});
}

namespace {

LogicalResult lowerDequantize(Operation *op, Lowerer &l) {
  Value in = op->getOperand(0), result = op->getResult(0);
  if (onnx::getInt(op, "block_size", 0))
    return l.no() << "block_size is given";
  auto q = readQuantisation(op, l, 1, 2);
  if (!q)
    return failure();
  if (!Lowerer::typeOf(in).getElementType().isSignlessInteger(8) || !Lowerer::typeOf(result).getElementType().isF32())
    return l.no() << "from " << onnx::getTypeName(Lowerer::typeOf(in).getElementType());
  Perm perm = l.order(in);
  l.set(result, l.get(in, perm), perm);
  Scaled meaning;
  meaning.scale = {q->scale};
  meaning.zeroPoint = q->zeroPoint;
  meaning.bound = 128 + std::abs(q->zeroPoint);
  l.scaled[result] = meaning;
  return success();
}

/// Quantised value of a real number, no NaN, as QuantizeLinear gives it.
int64_t quantised(double v, const Quantisation &q) {
  double r = std::nearbyint(v / q.scale) + (double)q.zeroPoint;
  return (int64_t)std::clamp(r, -128.0, 127.0);
}

} // namespace

std::optional<HostTensor> meaningsOf(Lowerer &l, const Scaled &m) {
  HostTensor x(l.b.getF32Type(), {256});
  x.mutableData();
  for (int i = 0; i < 256; ++i)
    x.setReal(i, std::clamp(m.scale[0] * (double)(i - 128 - m.zeroPoint), m.low, m.high));
  for (Operation *op : m.pending) {
    StringRef name = op->getName().stripDialect();
    onnx::Evaluator evaluate = onnx::findEvaluator(op);
    SmallVector<std::optional<HostTensor>> operands(onnx::getNumOperandPositions(op));
    operands[0] = x;
    for (unsigned i = 1; i < operands.size(); ++i)
      operands[i] = l.constantOf(onnx::getOptionalOperand(op, i));
    auto y = evaluate ? evaluate(op, onnx::ConstantOperands(operands, INT64_MAX)) : std::nullopt;
    if (!y || (*y)[0].size() != 256) {
      l.no() << "the values of " << name << " cannot be tabulated";
      return std::nullopt;
    }
    for (int i = 0; i < 256; ++i)
      if (std::isnan((*y)[0].real(i))) {
        l.no() << name << " of " << x.real(i) << " is NaN, which no integer stands for";
        return std::nullopt;
      }
    x = (*y)[0];
  }
  return x;
}

namespace {

/// table[i] for every int8: what it means, quantised.
std::optional<HostTensor> tableOf(Lowerer &l, const Scaled &m, const Quantisation &q) {
  auto x = meaningsOf(l, m);
  if (!x)
    return std::nullopt;
  HostTensor table(l.b.getI8Type(), {256});
  table.mutableData();
  for (int i = 0; i < 256; ++i)
    table.setInteger(i, quantised(x->real(i), q));
  return table;
}

LogicalResult quantizeByTable(Operation *op, Lowerer &l, const Scaled &m, const Quantisation &q) {
  auto table = tableOf(l, m, q);
  if (!table)
    return failure();
  Perm perm = l.order(op->getOperand(0));
  Value x = l.get(op->getOperand(0), perm);
  l.set(op->getResult(0), l.op("table", {x, l.constant(*table)}, Lowerer::typeOf(x)), perm);
  return success();
}

/// Checks of the argument above, and that RESCALE's result fits 32 bits.
LogicalResult checkError(Lowerer &l, const Scaled &m, const Quantisation &q) {
  double widest = *std::max_element(m.scale.begin(), m.scale.end());
  double error = m.error / q.scale, range = widest / q.scale * (double)m.bound;
  if (error >= 0.25)
    return l.no() << "could be wrong by " << error << " of a step of the result, limit 0.25";
  if (range >= 2147483648.0)
    return l.no() << "reaches " << range << " steps of the result, more than 32 bits";
  return success();
}

LogicalResult lowerQuantize(Operation *op, Lowerer &l) {
  Value in = op->getOperand(0), result = op->getResult(0);
  if (onnx::getInt(op, "block_size", 0) || onnx::getInt(op, "precision", 0))
    return l.no() << "block_size or precision is given";
  auto q = readQuantisation(op, l, 1, 2);
  if (!q)
    return failure();
  if (!Lowerer::typeOf(result).getElementType().isSignlessInteger(8))
    return l.no() << "to " << onnx::getTypeName(Lowerer::typeOf(result).getElementType());
  auto it = l.scaled.find(in);
  if (it == l.scaled.end())
    return l.no() << "reads a float tensor that no DequantizeLinear of the region gives";
  const Scaled m = it->second;
  bool bytes = Lowerer::typeOf(l.get(in, l.order(in))).getElementType().isInteger(8);
  if (!m.pending.empty())
    return quantizeByTable(op, l, m, *q);
  if (failed(checkError(l, m, *q)))
    return failure();
  Perm perm = l.order(in);
  if (m.scale.size() > 1 && perm.back() != m.axis) { // RESCALE has its channels last
    perm.clear();
    for (int64_t a = 0; a < Lowerer::rankOf(in); ++a)
      if (a != m.axis)
        perm.push_back(a);
    perm.push_back(m.axis);
  }
  Value y = l.get(in, perm);
  if (!bytes || m.scale[0] != q->scale || m.zeroPoint != q->zeroPoint) {
    SmallVector<double> factors;
    for (double s : m.scale)
      factors.push_back(s / q->scale);
    // Zero points of 32-bit integers are 0 by construction.
    y = rescale(l, y, factors, bytes ? m.zeroPoint : 0, q->zeroPoint, l.b.getI8Type());
    if (!y)
      return failure();
  }
  // Rounding is monotone: bounds may be rounded instead.
  int64_t low = m.low == -INFINITY ? -128 : quantised(m.low, *q);
  int64_t high = m.high == INFINITY ? 127 : quantised(m.high, *q);
  if (low > -128 || high < 127)
    y = l.clamp(y, (double)low, (double)high);
  l.set(result, y, perm);
  return success();
}

/// Relu and Clip narrow the bounds of what is meant.
LogicalResult lowerBounds(Operation *op, Lowerer &l) {
  Value in = op->getOperand(0), result = op->getResult(0);
  auto bounds = clipBounds(op, l, op->getName().stripDialect() == "Relu" ? 0 : -INFINITY, INFINITY);
  if (!bounds)
    return failure();
  Scaled m = l.scaled.lookup(in);
  if (!m.pending.empty()) {
    m.pending.push_back(op);
  } else {
    m.low = std::clamp(m.low, bounds->first, bounds->second);
    m.high = std::clamp(m.high, bounds->first, bounds->second);
  }
  Perm perm = l.order(in);
  l.set(result, l.get(in, perm), perm);
  l.scaled[result] = m;
  return success();
}

/// Any function of one 8-bit number becomes a table.
LogicalResult lowerTabulated(Operation *op, Lowerer &l) {
  Value in = op->getOperand(0), result = op->getResult(0);
  Scaled m = l.scaled.lookup(in);
  Perm perm = l.order(in);
  Value x = l.get(in, perm);
  if (!Lowerer::typeOf(x).getElementType().isInteger(8) || m.scale.size() > 1)
    return l.no() << "of a value that is not 8 bits wide";
  m.pending.push_back(op);
  l.set(result, x, perm);
  l.scaled[result] = m;
  return success();
}

RegisterLowering dequantize({"DequantizeLinear"}, Domain::Integer, Elements::Any,
                            {"axis", "block_size", "output_dtype"}, lowerDequantize);
RegisterLowering quantize({"QuantizeLinear"}, Domain::Integer, Elements::Any,
                          {"axis", "block_size", "output_dtype", "precision", "saturate"}, lowerQuantize);
RegisterLowering bounds({"Relu", "Clip"}, Domain::Integer, Elements::Float, {}, lowerBounds);
RegisterLowering tabulated({"Sigmoid", "Tanh", "HardSigmoid", "HardSwish", "LeakyRelu", "Elu", "Swish", "Gelu",
                            "Erf", "Exp", "Softplus", "Mish", "Sqrt", "Abs", "Neg"},
                           Domain::Integer, Elements::Float, {"alpha", "beta", "approximate"}, lowerTabulated);

} // namespace
} // namespace tessera::tosa

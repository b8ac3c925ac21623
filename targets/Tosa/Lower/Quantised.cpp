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
// exceed it is refused. Results of 16 bits may be off by 1/16 of a step of 8: RESCALE of
// 48 bits has multipliers of 15, and tables interpolate.
#include "mlir/Dialect/Tosa/IR/TosaOps.h"
#include "targets/Tosa/Lower/Quantised.h"

using namespace mlir;

namespace tessera::tosa {

int64_t Quantisation::integerOf(double v) const {
  double r = std::nearbyint(v / scale) + (double)zeroPoint;
  return (int64_t)std::clamp(r, (double)low(), (double)high());
}

unsigned bitsOf(Lowerer &l, Value v) { return Lowerer::typeOf(l.get(v, l.order(v))).getElementTypeBitWidth(); }

Perm channelsAtEnd(Lowerer &l, Value v, const Scaled &m) {
  Perm perm = l.order(v);
  if (m.scale.size() == 1 || perm.back() == m.axis)
    return perm;
  perm.clear();
  for (int64_t a = 0; a < Lowerer::rankOf(v); ++a)
    if (a != m.axis)
      perm.push_back(a);
  perm.push_back(m.axis);
  return perm;
}

/// Whether a quantised tensor of the region may have these elements.
static bool isQuantisedElement(Lowerer &l, Type element) {
  return element.isSignlessInteger(8) || (l.precision == Precision::Int16 && element.isSignlessInteger(16));
}

std::optional<Quantisation> readQuantisation(Operation *op, Lowerer &l, unsigned scale, unsigned zero, Type element) {
  Quantisation q;
  if (!isQuantisedElement(l, element)) {
    l.no() << "integers are " << onnx::getTypeName(element);
    return std::nullopt;
  }
  q.bits = element.getIntOrFloatBitWidth();
  auto s = l.constantOf(onnx::getOptionalOperand(op, scale));
  if (!s || s->size() != 1) {
    l.no() << "input '" << onnx::getOperandName(op, scale) << "' is not a constant scalar";
    return std::nullopt;
  }
  q.scale = s->real(0);
  if (Value v = onnx::getOptionalOperand(op, zero)) {
    auto z = l.constantOf(v);
    if (!z || z->size() != 1 || z->element() != element) {
      l.no() << "input '" << onnx::getOperandName(op, zero) << "' is not a constant scalar of "
             << onnx::getTypeName(element);
      return std::nullopt;
    }
    q.zeroPoint = z->integer(0);
  }
  if (q.bits == 16 && q.zeroPoint != 0) {
    l.no() << "zero point is " << q.zeroPoint << ", 16 bits have only 0 in TOSA";
    return std::nullopt;
  }
  if (!(q.scale > 0) || !std::isfinite(q.scale)) {
    l.no() << "scale is " << q.scale;
    return std::nullopt;
  }
  return q;
}

bool multiplierOf(double factor, int64_t &multiplier, int64_t &shift, int bits) {
  int exponent;
  double fraction = std::frexp(factor, &exponent); // [0.5, 1)
  multiplier = std::llround(std::ldexp(fraction, bits));
  shift = bits - exponent;
  if (multiplier == int64_t(1) << bits) {
    multiplier /= 2;
    --shift;
  }
  for (; shift > 62; --shift) // tiny factors: fewer bits
    multiplier /= 2;
  return shift >= 2 && multiplier > 0;
}

Value rescale(Lowerer &l, Value x, ArrayRef<double> factors, int64_t zeroIn, int64_t zeroOut, Type out) {
  Type in = Lowerer::typeOf(x).getElementType();
  // 48 bits have no other shape than the one that they were summed in.
  if (auto shaped = x.getDefiningOp<mlir::tosa::ReshapeOp>(); shaped && in.isInteger(48)) {
    Value y = rescale(l, shaped.getInput1(), factors, zeroIn, zeroOut, out);
    return y ? l.reshape(y, Lowerer::shapeOf(x)) : y;
  }
  int64_t n = factors.size();
  bool wide = in.isInteger(48);
  HostTensor m(l.b.getIntegerType(wide ? 16 : 32), {n}), s(l.b.getI8Type(), {n});
  m.mutableData();
  s.mutableData();
  for (int64_t i = 0; i < n; ++i) {
    int64_t multiplier, shift;
    if (!multiplierOf(factors[i], multiplier, shift, wide ? 15 : 31)) {
      l.no() << "a rescale by " << factors[i] << " is outside of 2^-62 to 2^29";
      return {};
    }
    m.setInteger(i, multiplier);
    s.setInteger(i, shift);
  }
  auto mode = mlir::tosa::RoundingModeAttr::get(l.b.getContext(), mlir::tosa::RoundingMode::SINGLE_ROUND);
  return l.op("rescale", {x, l.constant(m), l.constant(s), l.zeroPoint(in, zeroIn), l.zeroPoint(out, zeroOut)},
              Lowerer::typeOf(x).clone(out),
              {l.attr("scale32", l.b.getBoolAttr(!wide)), l.attr("rounding_mode", mode),
               l.attr("per_channel", l.b.getBoolAttr(n > 1)), l.attr("input_unsigned", l.b.getBoolAttr(false)),
               l.attr("output_unsigned", l.b.getBoolAttr(false))});
}

namespace {

LogicalResult lowerDequantize(Operation *op, Lowerer &l) {
  Value in = op->getOperand(0), result = op->getResult(0);
  if (onnx::getInt(op, "block_size", 0))
    return l.no() << "block_size is given";
  auto q = readQuantisation(op, l, 1, 2, Lowerer::typeOf(in).getElementType());
  if (!q)
    return failure();
  if (!Lowerer::typeOf(result).getElementType().isF32())
    return l.no() << "to " << onnx::getTypeName(Lowerer::typeOf(result).getElementType());
  Perm perm = l.order(in);
  l.set(result, l.get(in, perm), perm);
  Scaled meaning;
  meaning.scale = {q->scale};
  meaning.zeroPoint = q->zeroPoint;
  meaning.bound = -q->low() + std::abs(q->zeroPoint);
  l.scaled[result] = meaning;
  return success();
}

/// Checks of the argument above, and that RESCALE's result fits 32 bits.
LogicalResult checkError(Lowerer &l, const Scaled &m, const Quantisation &q) {
  double widest = *std::max_element(m.scale.begin(), m.scale.end());
  double error = m.error / q.scale, range = widest / q.scale * (double)m.bound;
  if (error >= q.errorLimit())
    return l.no() << "could be wrong by " << error << " of a step of the result, limit " << q.errorLimit();
  if (range >= rescaleLimit)
    return l.no() << "reaches " << range << " steps of the result, more than 30 bits";
  return success();
}

} // namespace

std::optional<Ordered> quantise(Lowerer &l, Value in, const Scaled &m, const Quantisation &q) {
  if (!m.pending.empty())
    return quantiseByTable(l, in, m, q);
  if (failed(checkError(l, m, q)))
    return std::nullopt;
  unsigned bits = bitsOf(l, in);
  Perm perm = channelsAtEnd(l, in, m); // RESCALE has its channels last
  Value y = l.get(in, perm);
  if (bits != q.bits || m.scale.size() > 1 || m.scale[0] != q.scale || m.zeroPoint != q.zeroPoint) {
    SmallVector<double> factors;
    for (double s : m.scale)
      factors.push_back(s / q.scale);
    // Zero points of sums are 0 by construction.
    y = rescale(l, y, factors, bits == 8 ? m.zeroPoint : 0, q.zeroPoint, q.element(l));
    if (!y)
      return std::nullopt;
  }
  // Rounding is monotone: bounds may be rounded instead.
  int64_t low = m.low == -INFINITY ? q.low() : q.integerOf(m.low);
  int64_t high = m.high == INFINITY ? q.high() : q.integerOf(m.high);
  if (low > q.low() || high < q.high())
    y = l.clamp(y, (double)low, (double)high);
  return Ordered{y, perm};
}

namespace {

LogicalResult lowerQuantize(Operation *op, Lowerer &l) {
  Value in = op->getOperand(0), result = op->getResult(0);
  if (onnx::getInt(op, "block_size", 0) || onnx::getInt(op, "precision", 0))
    return l.no() << "block_size or precision is given";
  auto q = readQuantisation(op, l, 1, 2, Lowerer::typeOf(result).getElementType());
  if (!q)
    return failure();
  auto it = l.scaled.find(in);
  if (it == l.scaled.end())
    return l.no() << "reads a float tensor that no DequantizeLinear of the region gives";
  auto y = quantise(l, in, it->second, *q);
  if (!y)
    return failure();
  l.set(result, y->value, y->perm);
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

RegisterLowering dequantize({"DequantizeLinear"}, Domain::Integer, Elements::Any,
                            {"axis", "block_size", "output_dtype"}, lowerDequantize);
RegisterLowering quantize({"QuantizeLinear"}, Domain::Integer, Elements::Any,
                          {"axis", "block_size", "output_dtype", "precision", "saturate"}, lowerQuantize);
RegisterLowering bounds({"Relu", "Clip"}, Domain::Integer, Elements::Float, {}, lowerBounds);

} // namespace
} // namespace tessera::tosa

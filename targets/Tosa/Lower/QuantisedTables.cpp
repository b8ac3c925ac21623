// Functions of one number, as tables.
//
// Of an 8-bit tensor a TABLE has every value. Anything wider becomes 16 bits, by
// a RESCALE that saturates where the result does not change any more, and TABLE
// interpolates among 513 entries:
//
//   accumulator --RESCALE--> int16 --TABLE--> 23 bits --RESCALE--> result
//
// How far that is from the function is measured over the positions of the table
// and has to be within the limit of Quantised.cpp.
#include "mlir/Dialect/Tosa/IR/TosaOps.h"
#include "passes/Canonicalise/Evaluate.h"
#include "targets/Tosa/Lower/Quantised.h"

using namespace mlir;

namespace tessera::tosa {
namespace {

using Reals = std::vector<double>;

/// What numbers become under the bounds and the operators still to be applied.
std::optional<Reals> applied(Lowerer &l, const Scaled &m, const Reals &numbers) {
  HostTensor x(l.b.getF32Type(), {int64_t(numbers.size())});
  x.mutableData();
  for (auto [i, v] : llvm::enumerate(numbers))
    x.setReal(i, std::clamp(v, m.low, m.high));
  for (Operation *op : m.pending) {
    StringRef name = op->getName().stripDialect();
    if (name == "Softmax") {
      for (int64_t i = 0; i < x.size(); ++i)
        x.setReal(i, std::exp(x.real(i) - m.offset));
      continue;
    }
    onnx::Evaluator evaluate = onnx::findEvaluator(op);
    SmallVector<std::optional<HostTensor>> operands(onnx::getNumOperandPositions(op));
    for (unsigned i = 0; i < operands.size(); ++i) {
      Value v = onnx::getOptionalOperand(op, i);
      operands[i] = v && !onnx::getConstant(v) ? std::optional(x) : l.constantOf(v);
    }
    auto y = evaluate ? evaluate(op, onnx::ConstantOperands(operands, INT64_MAX)) : std::nullopt;
    if (!y || (*y)[0].size() != x.size()) {
      l.no() << "the values of " << name << " cannot be tabulated";
      return std::nullopt;
    }
    for (int64_t i = 0; i < x.size(); ++i)
      if (std::isnan((*y)[0].real(i))) {
        l.no() << name << " of " << x.real(i) << " is NaN, which no integer stands for";
        return std::nullopt;
      }
    x = (*y)[0].reshaped({x.size()});
  }
  Reals result;
  for (int64_t i = 0; i < x.size(); ++i)
    result.push_back(x.real(i));
  return result;
}

std::optional<Ordered> byBytes(Lowerer &l, Value v, const Scaled &m, const Quantisation &q) {
  auto x = meaningsOf(l, m);
  if (!x)
    return std::nullopt;
  HostTensor table(l.b.getI8Type(), {256});
  table.mutableData();
  for (int i = 0; i < 256; ++i)
    table.setInteger(i, q.integerOf(x->real(i)));
  Perm perm = l.order(v);
  Value in = l.get(v, perm);
  return Ordered{l.op("table", {in, l.constant(table)}, Lowerer::typeOf(in)), perm};
}

/// The function that a table of 513 entries stands for, on [-most, most].
struct WideTable {
  double most = 0;        ///< what 32,768 means
  double unit = 1;        ///< what a step of an entry means
  HostTensor entries;
  double error = 0;       ///< largest distance from the function, in steps of the result
  double steepest = 0;    ///< largest quotient of differences, in steps of the result
};

/// The least `most` beyond which the result stays what it is there, among
/// fractions of `bound` by powers of the fourth root of 2.
std::optional<double> rangeThatMatters(Lowerer &l, const Scaled &m, const Quantisation &q, double bound) {
  constexpr int samples = 64;
  double most = bound;
  while (most > bound / (1 << 13)) { // positions are within rescaleLimit
    double less = most * 0.8408964152537145;
    for (double sign : {-1.0, 1.0}) {
      Reals at;
      for (int i = 0; i <= samples; ++i)
        at.push_back(sign * (less + (most - less) * i / samples));
      auto y = applied(l, m, at);
      if (!y)
        return std::nullopt;
      for (double v : *y)
        if (q.integerOf(v) != q.integerOf(y->back()))
          return most;
    }
    most = less;
  }
  return most;
}

/// Every eighth position between entries, and the entries.
constexpr int fine = 16, positions = 512 * fine + 1;

std::optional<WideTable> wideTable(Lowerer &l, const Scaled &m, const Quantisation &q, double most) {
  Reals at;
  for (int i = 0; i < positions; ++i)
    at.push_back(most * (i - 256 * fine) / (256.0 * fine));
  auto y = applied(l, m, at);
  if (!y)
    return std::nullopt;
  // Entries reach beyond the result's range, so that where it saturates no entry
  // stands for a bend.
  double range = q.scale * (double)(int64_t(1) << q.bits), largest = 0;
  for (double &v : *y)
    largest = std::max(largest, std::abs(v = std::clamp(v, -2 * range, 2 * range)));
  WideTable t{most, std::max(largest, q.scale) / 32767, HostTensor(l.b.getI16Type(), {513}), 0, 0};
  t.entries.mutableData();
  for (int i = 0; i < 513; ++i)
    t.entries.setInteger(i, std::llround((*y)[i * fine] / t.unit));
  double low = q.realOf(q.low()), high = q.realOf(q.high());
  for (int i = 0; i + 1 < positions; ++i) {
    int64_t base = t.entries.integer(i / fine), next = t.entries.integer(i / fine + 1);
    if (std::abs(next - base) > INT16_MAX) {
      l.no() << "the table jumps from " << base << " to " << next << ", more than 16 bits";
      return std::nullopt;
    }
    double got = t.unit * ((double)base + (double)(next - base) * (i % fine) / fine);
    double a = std::clamp((*y)[i], low, high), b = std::clamp((*y)[i + 1], low, high);
    t.error = std::max(t.error, std::abs(std::clamp(got, low, high) - a) / q.scale);
    t.steepest = std::max(t.steepest, std::abs(b - a) / (at[i + 1] - at[i]) / q.scale);
  }
  return t;
}

std::optional<Ordered> byInterpolation(Lowerer &l, Value in, const Scaled &m, const Quantisation &q) {
  unsigned bits = bitsOf(l, in);
  bool stored = bits == 16 && m.scale.size() == 1;
  double widest = *std::max_element(m.scale.begin(), m.scale.end());
  std::optional<double> most = 32768 * m.scale[0];
  if (!stored)
    most = rangeThatMatters(l, m, q, widest * (double)m.bound);
  auto t = most ? wideTable(l, m, q, *most) : std::nullopt;
  if (!t)
    return std::nullopt;
  double step = t->most / 32768;
  double position = m.error + (stored ? 0 : bits == 48 ? step : step / 2);
  if (double error = t->error + t->steepest * position; error >= q.errorLimit()) {
    l.no() << "could be wrong by " << error << " of a step of the result, limit " << q.errorLimit();
    return std::nullopt;
  }
  Perm perm = channelsAtEnd(l, in, m);
  Value x = l.get(in, perm);
  if (!stored) {
    SmallVector<double> factors;
    for (double s : m.scale)
      factors.push_back(s / step);
    if (!(x = rescale(l, x, factors, bits == 8 ? m.zeroPoint : 0, 0, l.b.getI16Type())))
      return std::nullopt;
  }
  Value y = l.op("table", {x, l.constant(t->entries)}, Lowerer::typeOf(x).clone(l.b.getI32Type()));
  y = rescale(l, y, t->unit / 128 / q.scale, 0, q.zeroPoint, q.element(l));
  if (!y)
    return std::nullopt;
  return Ordered{y, perm};
}

/// Any function of one integer is a table.
LogicalResult lowerTabulated(Operation *op, Lowerer &l) {
  Value in = op->getOperand(0), result = op->getResult(0);
  for (Value v : op->getOperands())
    if (!onnx::getConstant(v) && !isa<NoneType>(v.getType()))
      in = v;
  Perm perm = l.order(in);
  Value x = l.get(in, perm);
  Scaled m = l.scaled.lookup(in);
  m.pending.push_back(op);
  l.set(result, x, perm);
  l.scaled[result] = m;
  return success();
}

RegisterLowering tabulated({"Sigmoid", "Tanh", "HardSigmoid", "HardSwish", "LeakyRelu", "Elu", "Swish", "Gelu",
                            "Erf", "Exp", "Softplus", "Mish", "Sqrt", "Abs", "Neg", "Reciprocal", "Log", "Sin", "Cos"},
                           Domain::Integer, Elements::Float, {"alpha", "beta", "approximate"}, lowerTabulated);

} // namespace

LogicalResult tabulate(Operation *op, Lowerer &l) { return lowerTabulated(op, l); }

std::optional<HostTensor> meaningsOf(Lowerer &l, const Scaled &m) {
  Reals at;
  for (int i = 0; i < 256; ++i)
    at.push_back(m.scale[0] * (double)(i - 128 - m.zeroPoint));
  auto y = applied(l, m, at);
  if (!y)
    return std::nullopt;
  HostTensor x(l.b.getF32Type(), {256});
  x.mutableData();
  for (int i = 0; i < 256; ++i)
    x.setReal(i, (*y)[i]);
  return x;
}

std::optional<Ordered> quantiseByTable(Lowerer &l, Value v, const Scaled &m, const Quantisation &q) {
  return bitsOf(l, v) == 8 && q.bits == 8 && m.scale.size() == 1 ? byBytes(l, v, m, q) : byInterpolation(l, v, m, q);
}

} // namespace tessera::tosa

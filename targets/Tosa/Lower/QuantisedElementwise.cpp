// Sums, products, extremes, means and joins of quantised tensors: 32-bit integers of a
// common scale.
#include "targets/Tosa/Lower/Quantised.h"

using namespace mlir;

namespace tessera::tosa {
namespace {

/// The meaning of an operand that needs nothing more.
const Scaled *meaningOf(Operation *op, Lowerer &l, unsigned position) {
  Value v = op->getOperand(position);
  auto it = l.scaled.find(v);
  if (it == l.scaled.end() || !it->second.plain()) {
    l.no() << "input " << position << " is not quantised, or still to be bounded or tabulated";
    return nullptr;
  }
  return &it->second;
}

/// The meaning of an operand of a sum: bounds may be left, and scales a channel of
/// an operand of the result's sizes.
const Scaled *termOf(Operation *op, Lowerer &l, unsigned position) {
  Value v = op->getOperand(position);
  auto it = l.scaled.find(v);
  if (it == l.scaled.end() || !it->second.pending.empty()) {
    l.no() << "input " << position << " is not quantised, or still to be tabulated";
    return nullptr;
  }
  if (bitsOf(l, v) == 48 ||
      (it->second.scale.size() > 1 && Lowerer::shapeOf(v) != Lowerer::shapeOf(op->getResult(0)))) {
    l.no() << "input " << position << " is a sum of 16-bit products, or of other sizes than the result";
    return nullptr;
  }
  const Scaled &m = it->second;
  double reach = *std::max_element(m.scale.begin(), m.scale.end()) * (double)m.bound;
  if (m.low > reach || m.high < -reach) { // the steps of a sum are for what is reached
    l.no() << "input " << position << " is bounded to " << m.low << " .. " << m.high << ", and reaches " << -reach
           << " .. " << reach;
    return nullptr;
  }
  return &m;
}

/// The order of axes in which operands with these meanings are added: with scales a
/// channel, the channels are last. Empty: as they come. None after a reason.
std::optional<Perm> orderOfSum(ArrayRef<const Scaled *> operands, ValueRange values, Lowerer &l) {
  const Scaled *first = nullptr;
  Perm perm;
  for (auto [m, v] : llvm::zip(operands, values)) {
    if (m->scale.size() == 1)
      continue;
    if (first && first->axis != m->axis) {
      l.no() << "operands have scales for each index of axis " << first->axis << ", and of axis " << m->axis;
      return std::nullopt;
    }
    if (!first)
      perm = channelsAtEnd(l, v, *m);
    first = m;
  }
  return perm;
}

/// An operand as 32-bit integers of the step `step`, which is small enough for its
/// own steps to be lost in it, within its bounds: one that is far outside is beyond
/// what it reaches (termOf).
Value atStep(Lowerer &l, Value x, const Scaled &m, double step) {
  bool sum = Lowerer::typeOf(x).getElementTypeBitWidth() > 16;
  SmallVector<double> factors;
  for (double s : m.scale)
    factors.push_back(s / step);
  x = rescale(l, x, factors, sum ? 0 : m.zeroPoint, 0, l.b.getI32Type());
  for (auto [mnemonic, bound] : {std::pair("maximum", m.low), std::pair("minimum", m.high)})
    if (x && std::isfinite(bound) && std::abs(bound) < step * 1073741824.0)
      x = l.binary(mnemonic, x, l.scalarLike(x, std::nearbyint(bound / step)));
  return x;
}

/// A step that keeps up to 20 bits below the coarsest of the operands, as many as
/// 32-bit sums allow, and what follows for the sum; `constant` is added to it.
std::optional<double> commonStep(Lowerer &l, ArrayRef<const Scaled *> operands, double constant, Scaled &meaning) {
  double coarsest = 0, most = constant;
  for (const Scaled *m : operands) {
    double widest = *std::max_element(m->scale.begin(), m->scale.end());
    coarsest = std::max(coarsest, widest);
    most += widest * (double)m->bound;
  }
  for (double finer = 1 << 20; finer >= 1; finer /= 2) {
    double step = coarsest / finer, sum = most / step + (double)operands.size() + 1;
    if (sum >= rescaleLimit)
      continue;
    for (const Scaled *m : operands)
      meaning.error += m->error + step; // half a step of RESCALE, and its multiplier's
    meaning.scale = {step};
    meaning.bound = (int64_t)sum + 1;
    return step;
  }
  l.no() << "sums reach " << most / coarsest << " steps of the coarsest operand, more than 30 bits";
  return std::nullopt;
}

/// A constant of any shape that broadcasts, in 32-bit integers of `step`.
HostTensor constantAtStep(const HostTensor &c, double step, double sign, Lowerer &l) {
  HostTensor t(l.b.getI32Type(), c.shape());
  t.mutableData();
  for (int64_t i = 0; i < c.size(); ++i)
    t.setInteger(i, std::llround(sign * c.real(i) / step));
  return t;
}

/// The last axes of a constant in the order and the rank of what it is added to.
Value placed(Lowerer &l, const HostTensor &t, int64_t rank, ArrayRef<int64_t> perm) {
  SmallVector<int64_t> dims(rank - t.rank(), 1);
  llvm::append_range(dims, t.shape());
  return l.transpose(l.constant(t.reshaped(dims)), perm);
}

/// x + c, x - c and c - x: in a step that is fine enough for the constant's rounding.
LogicalResult addConstant(Operation *op, Lowerer &l, unsigned tensor) {
  Value in = op->getOperand(tensor), result = op->getResult(0);
  if (l.merged.contains(op)) {
    l.set(result, l.get(in, l.order(in)), l.order(in));
    l.scaled[result] = l.scaled.lookup(in);
    return success();
  }
  auto c = l.constantOf(op->getOperand(1 - tensor));
  if (!c || !c->isFloat())
    return l.no() << "of a constant that is not float";
  if (c->size() == 1 && bitsOf(l, in) == 8)
    return tabulate(op, l);
  const Scaled *m = termOf(op, l, tensor);
  if (!m)
    return failure();
  double most = 0;
  for (int64_t i = 0; i < c->size(); ++i)
    most = std::max(most, std::abs(c->real(i)));
  if (!std::isfinite(most))
    return l.no() << "of a constant that is not finite";
  Scaled meaning;
  auto step = commonStep(l, {m}, most, meaning);
  if (!step)
    return failure();
  meaning.error += *step / 2;
  bool minus = op->getName().stripDialect() == "Sub";
  int64_t rank = Lowerer::rankOf(result);
  auto [x, perm] = l.align({in}, rank, *orderOfSum({m}, in, l));
  Value p = x[0] ? atStep(l, x[0], *m, *step) : Value();
  if (!p)
    return failure();
  Value k = placed(l, constantAtStep(*c, *step, minus && tensor == 0 ? -1 : 1, l), rank, perm);
  l.set(result, minus && tensor == 1 ? l.sub(k, p) : l.add(p, k), perm);
  l.scaled[result] = meaning;
  return success();
}

/// Two tensors by an operator of 32-bit integers of one step.
LogicalResult joinTwo(Operation *op, Lowerer &l, StringRef mnemonic) {
  const Scaled *x = termOf(op, l, 0), *y = termOf(op, l, 1);
  if (!x || !y)
    return failure();
  Scaled meaning;
  auto step = commonStep(l, {x, y}, 0, meaning);
  auto order = orderOfSum({x, y}, op->getOperands(), l);
  if (!step || !order)
    return failure();
  Value result = op->getResult(0);
  auto [in, perm] = l.align({op->getOperand(0), op->getOperand(1)}, Lowerer::rankOf(result), *order);
  Value p = atStep(l, in[0], *x, *step), q = atStep(l, in[1], *y, *step);
  if (!p || !q)
    return failure();
  l.set(result, l.binary(mnemonic, p, q), perm);
  l.scaled[result] = meaning;
  return success();
}

/// Max and Min of one number narrow the bounds of what is meant.
LogicalResult boundBy(Operation *op, Lowerer &l, unsigned tensor, double number) {
  Value in = op->getOperand(tensor), result = op->getResult(0);
  if (std::isnan(number) || Lowerer::shapeOf(in) != Lowerer::shapeOf(result))
    return l.no() << "of a NaN, or of a number of more axes";
  Scaled m = l.scaled.lookup(in);
  if (!m.pending.empty()) {
    m.pending.push_back(op);
  } else {
    bool lower = op->getName().stripDialect() == "Max";
    for (double *bound : {&m.low, &m.high})
      *bound = lower ? std::max(*bound, number) : std::min(*bound, number);
  }
  Perm perm = l.order(in);
  l.set(result, l.get(in, perm), perm);
  l.scaled[result] = m;
  return success();
}

/// Max and Min of two tensors: at a common step.
LogicalResult lowerExtreme(Operation *op, Lowerer &l) {
  if (op->getNumOperands() != 2)
    return l.no() << "of " << op->getNumOperands() << " operands";
  for (unsigned i : {0u, 1u})
    if (auto c = l.constantOf(op->getOperand(i)))
      return c->isFloat() && c->size() == 1 ? boundBy(op, l, 1 - i, c->real(0))
                                            : LogicalResult(l.no() << "of a constant that is not one number");
  return joinTwo(op, l, op->getName().stripDialect() == "Max" ? "maximum" : "minimum");
}

LogicalResult lowerSum(Operation *op, Lowerer &l) {
  for (unsigned i : {0u, 1u})
    if (onnx::getConstant(op->getOperand(i)))
      return addConstant(op, l, 1 - i);
  return joinTwo(op, l, op->getName().stripDialect() == "Add" ? "add" : "sub");
}

/// The axis of the result along which a constant differs; none if along more.
std::optional<int64_t> onlyAxis(const HostTensor &c, int64_t rank) {
  std::optional<int64_t> axis;
  for (int64_t a = 0; a < c.rank(); ++a)
    if (c.shape()[a] != 1) {
      if (axis)
        return std::nullopt;
      axis = rank - c.rank() + a;
    }
  return axis.value_or(rank - 1);
}

/// Positive factors are scales; others of one number are part of a table.
LogicalResult scaleBy(Operation *op, Lowerer &l, unsigned tensor) {
  Value in = op->getOperand(tensor), result = op->getResult(0);
  bool quotient = op->getName().stripDialect() == "Div";
  auto c = l.constantOf(op->getOperand(1 - tensor));
  if (!c || !c->isFloat() || (quotient && tensor == 1))
    return c && c->size() == 1 && c->isFloat() ? tabulate(op, l) : LogicalResult(l.no() << "of this constant");
  auto it = l.scaled.find(in);
  bool positive = true;
  for (int64_t i = 0; i < c->size(); ++i)
    positive &= c->real(i) > 0 && std::isfinite(c->real(i));
  if (c->size() == 1 && (!positive || (it != l.scaled.end() && !it->second.plain())))
    return tabulate(op, l);
  const Scaled *m = meaningOf(op, l, tensor);
  if (!m)
    return failure();
  int64_t rank = Lowerer::rankOf(result);
  auto axis = onlyAxis(*c, rank);
  if (!positive || !axis || Lowerer::shapeOf(in) != Lowerer::shapeOf(result) ||
      (m->scale.size() > 1 && c->size() > 1 && m->axis != *axis))
    return l.no() << "of a constant that is not one positive number for each index of one axis";
  Scaled meaning = *m;
  if (c->size() > 1)
    meaning.axis = *axis;
  meaning.scale.clear();
  double largest = 0;
  for (size_t i = 0; i < std::max<size_t>(m->scale.size(), c->size()); ++i) {
    double f = c->real(c->size() == 1 ? 0 : i);
    f = quotient ? 1 / f : f;
    largest = std::max(largest, f);
    meaning.scale.push_back(m->scale[m->scale.size() == 1 ? 0 : i] * f);
  }
  meaning.error *= largest;
  Perm perm = l.order(in);
  l.set(result, l.get(in, perm), perm);
  l.scaled[result] = meaning;
  return success();
}

/// (x - zx) (y - zy), exact in 32 bits.
LogicalResult lowerMul(Operation *op, Lowerer &l) {
  for (unsigned i : {0u, 1u})
    if (onnx::getConstant(op->getOperand(i)))
      return scaleBy(op, l, 1 - i);
  auto x = plainOperand(op, l, 0), y = plainOperand(op, l, 1);
  if (!x || !y)
    return failure();
  Value result = op->getResult(0);
  Scaled meaning;
  meaning.scale = {x->scale[0] * y->scale[0]};
  meaning.bound = x->bound * y->bound;
  auto [in, perm] = l.align({op->getOperand(0), op->getOperand(1)}, Lowerer::rankOf(result));
  Value a = rescale(l, in[0], 1.0, x->zeroPoint, 0, l.b.getI32Type());
  Value b = rescale(l, in[1], 1.0, y->zeroPoint, 0, l.b.getI32Type());
  l.set(result, l.mul(a, b), perm);
  l.scaled[result] = meaning;
  return success();
}

LogicalResult lowerDiv(Operation *op, Lowerer &l) {
  for (unsigned i : {1u, 0u})
    if (onnx::getConstant(op->getOperand(i)))
      return scaleBy(op, l, 1 - i);
  return l.no() << "of two tensors that are not constant";
}

/// The sum of all positions, whose scale is divided by their number.
LogicalResult lowerGlobalAveragePool(Operation *op, Lowerer &l) {
  Value in = op->getOperand(0), result = op->getResult(0);
  auto m = plainOperand(op, l, 0);
  if (!m)
    return failure();
  Scaled meaning;
  double count = 1;
  int64_t rank = Lowerer::rankOf(in);
  Value x = rescale(l, l.get(in, channelsLast(rank)), 1.0, m->zeroPoint, 0, l.b.getI32Type());
  for (int64_t a = 1; a < rank - 1; ++a) {
    count *= (double)Lowerer::shapeOf(x)[a];
    x = l.reduce("reduce_sum", x, a);
  }
  meaning.scale = {m->scale[0] / count};
  meaning.bound = m->bound * (int64_t)count;
  if (meaning.bound > INT32_MAX)
    return l.no() << "sums reach " << meaning.bound << ", more than 32 bits";
  l.set(result, x, channelsLast(rank));
  l.scaled[result] = meaning;
  return success();
}

/// A float constant, quantised.
Value quantisedConstant(Lowerer &l, const HostTensor &c, const Quantisation &q, ArrayRef<int64_t> perm) {
  HostTensor t(q.element(l), c.shape());
  t.mutableData();
  for (int64_t i = 0; i < c.size(); ++i)
    t.setInteger(i, q.integerOf(c.real(i)));
  return l.transpose(l.constant(t), perm);
}

/// Parts that are quantised before are the same as a whole that is quantised behind.
LogicalResult joinQuantised(Operation *op, Lowerer &l, const Quantisation &q, int64_t axis) {
  Value result = op->getResult(0);
  Perm perm = identityPerm(Lowerer::rankOf(result));
  int64_t largest = 0;
  for (Value v : op->getOperands())
    if (int64_t size = Lowerer::typeOf(v).getNumElements(); !onnx::getConstant(v) && size > largest) {
      largest = size;
      perm = l.order(v);
    }
  SmallVector<Value> parts;
  for (Value v : op->getOperands()) {
    auto c = l.constantOf(v);
    if (c && !c->isFloat())
      return l.no() << "joins integers and floats";
    auto it = l.scaled.find(v);
    if (!c && it == l.scaled.end())
      return l.no() << "joins what is not quantised";
    if (c) {
      parts.push_back(quantisedConstant(l, *c, q, perm));
      continue;
    }
    auto part = quantise(l, v, it->second, q);
    if (!part)
      return failure();
    parts.push_back(l.transpose(part->value, permBetween(part->perm, perm)));
  }
  l.set(result, l.concat(parts, inversePerm(perm)[axis]), perm);
  Scaled meaning;
  meaning.scale = {q.scale};
  meaning.zeroPoint = q.zeroPoint;
  meaning.bound = -q.low() + std::abs(q.zeroPoint);
  l.scaled[result] = meaning;
  return success();
}

/// Tensors of one meaning are joined as they are, others quantised first, or at a
/// common step.
LogicalResult lowerConcat(Operation *op, Lowerer &l) {
  Value result = op->getResult(0);
  int64_t rank = Lowerer::rankOf(result), axis = onnx::getInt(op, "axis");
  axis += axis < 0 ? rank : 0;
  if (isa<FloatType>(Lowerer::typeOf(result).getElementType()))
    if (auto q = readersQuantisation(result, l); q && rank > 1)
      return joinQuantised(op, l, *q, axis);
  SmallVector<const Scaled *> all;
  bool same = true;
  if (isa<FloatType>(Lowerer::typeOf(result).getElementType()))
    for (unsigned i = 0; i < op->getNumOperands(); ++i) {
      all.push_back(meaningOf(op, l, i));
      if (!all.back())
        return failure();
      same &= bitsOf(l, op->getOperand(i)) == bitsOf(l, op->getOperand(0)) && !isSum(l, op->getOperand(i)) &&
              all[i]->scale == all[0]->scale && all[i]->zeroPoint == all[0]->zeroPoint;
    }
  auto order = orderOfSum(all, op->getOperands(), l);
  if (!order)
    return failure();
  auto [parts, perm] = l.align(llvm::to_vector(op->getOperands()), rank, *order);
  if (llvm::is_contained(parts, Value()))
    return failure();
  if (!all.empty()) {
    Scaled meaning = *all[0];
    if (!same || meaning.scale.size() > 1) {
      meaning = Scaled();
      auto step = commonStep(l, all, 0, meaning);
      if (!step)
        return failure();
      for (unsigned i = 0; i < parts.size(); ++i)
        if (!(parts[i] = atStep(l, parts[i], *all[i], *step)))
          return failure();
    }
    l.scaled[result] = meaning;
  }
  l.set(result, l.concat(parts, inversePerm(perm)[axis]), perm);
  return success();
}

RegisterLowering sums({"Add", "Sub"}, Domain::Integer, Elements::Float, {}, lowerSum);
RegisterLowering extremes({"Max", "Min"}, Domain::Integer, Elements::Float, {}, lowerExtreme);
RegisterLowering mul({"Mul"}, Domain::Integer, Elements::Float, {}, lowerMul);
RegisterLowering quotients({"Div"}, Domain::Integer, Elements::Float, {}, lowerDiv);
RegisterLowering globalAveragePool({"GlobalAveragePool"}, Domain::Integer, Elements::Float, {},
                                   lowerGlobalAveragePool);
RegisterLowering concats({"Concat"}, Domain::Integer, Elements::Any, {"axis"}, lowerConcat);

} // namespace
} // namespace tessera::tosa

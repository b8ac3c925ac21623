// Sums, products, means and joins of quantised tensors: 32-bit integers of a
// common scale.
#include "targets/Tosa/Lower/Quantised.h"

using namespace mlir;

namespace tessera::tosa {
namespace {

bool isBytes(Lowerer &l, Value v) { return Lowerer::typeOf(l.get(v, l.order(v))).getElementType().isInteger(8); }

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

/// Operands of one rank as 32-bit integers of the step `step`, which is small
/// enough for their own steps to be lost in it.
Value atStep(Lowerer &l, Value x, const Scaled &m, bool bytes, double step) {
  return rescale(l, x, m.scale[0] / step, bytes ? m.zeroPoint : 0, 0, l.b.getI32Type());
}

/// A step that keeps 20 bits below the coarsest of the operands, and the bound
/// that follows for each.
std::optional<double> commonStep(Lowerer &l, ArrayRef<const Scaled *> operands, Scaled &meaning) {
  constexpr double finer = 1 << 20;
  double coarsest = 0, sum = 0;
  for (const Scaled *m : operands) {
    if (m->scale.size() > 1) {
      l.no() << "an operand has scales a channel";
      return std::nullopt;
    }
    coarsest = std::max(coarsest, m->scale[0]);
  }
  double step = coarsest / finer;
  for (const Scaled *m : operands) {
    sum += m->scale[0] / step * (double)m->bound + 1;
    meaning.error += m->error + step; // half a step of RESCALE, and its multiplier's
  }
  if (sum > INT32_MAX) {
    l.no() << "sums reach " << sum << " common steps, more than 32 bits";
    return std::nullopt;
  }
  meaning.scale = {step};
  meaning.bound = (int64_t)sum;
  return step;
}

/// accumulator + constant, in the accumulator's steps.
LogicalResult addConstant(Operation *op, Lowerer &l, unsigned tensor) {
  Value in = op->getOperand(tensor), result = op->getResult(0);
  const Scaled *m = meaningOf(op, l, tensor);
  if (!m)
    return failure();
  int64_t rank = Lowerer::rankOf(in), channels = Lowerer::shapeOf(in).empty() ? 1 : Lowerer::shapeOf(in).back();
  if (isBytes(l, in) || m->axis != rank - 1 || Lowerer::shapeOf(in) != Lowerer::shapeOf(result))
    return l.no() << "of a constant other than a bias of the last axis of a product";
  Scaled meaning = *m;
  auto t = quantiseBias(l, op->getOperand(1 - tensor), channels, meaning);
  if (!t)
    return failure();
  if (meaning.bound > INT32_MAX)
    return l.no() << "sums reach " << meaning.bound << ", more than 32 bits";
  SmallVector<int64_t> dims(rank, 1);
  dims.back() = channels;
  l.set(result, l.add(l.get(in), l.constant(t->reshaped(dims))));
  l.scaled[result] = meaning;
  return success();
}

LogicalResult lowerSum(Operation *op, Lowerer &l) {
  for (unsigned i : {0u, 1u})
    if (onnx::getConstant(op->getOperand(i)))
      return op->getName().stripDialect() == "Add" ? addConstant(op, l, 1 - i)
                                                   : LogicalResult(l.no() << "of a constant");
  const Scaled *x = meaningOf(op, l, 0), *y = meaningOf(op, l, 1);
  if (!x || !y)
    return failure();
  Scaled meaning;
  auto step = commonStep(l, {x, y}, meaning);
  if (!step)
    return failure();
  Value result = op->getResult(0);
  bool bytesX = isBytes(l, op->getOperand(0)), bytesY = isBytes(l, op->getOperand(1));
  auto [in, perm] = l.align({op->getOperand(0), op->getOperand(1)}, Lowerer::rankOf(result));
  Value p = atStep(l, in[0], *x, bytesX, *step), q = atStep(l, in[1], *y, bytesY, *step);
  if (!p || !q)
    return failure();
  l.set(result, l.binary(op->getName().stripDialect() == "Add" ? "add" : "sub", p, q), perm);
  l.scaled[result] = meaning;
  return success();
}

/// (x - zx) (y - zy), exact in 32 bits.
LogicalResult lowerMul(Operation *op, Lowerer &l) {
  const Scaled *x = meaningOf(op, l, 0), *y = meaningOf(op, l, 1);
  if (!x || !y)
    return failure();
  if (!isBytes(l, op->getOperand(0)) || !isBytes(l, op->getOperand(1)) || x->scale.size() + y->scale.size() > 2)
    return l.no() << "of values that are not 8 bits wide";
  Value result = op->getResult(0);
  Scaled meaning;
  meaning.scale = {x->scale[0] * y->scale[0]};
  meaning.bound = x->bound * y->bound;
  Scaled p = *x, q = *y;
  auto [in, perm] = l.align({op->getOperand(0), op->getOperand(1)}, Lowerer::rankOf(result));
  Value a = rescale(l, in[0], 1.0, p.zeroPoint, 0, l.b.getI32Type());
  Value b = rescale(l, in[1], 1.0, q.zeroPoint, 0, l.b.getI32Type());
  l.set(result, l.mul(a, b), perm);
  l.scaled[result] = meaning;
  return success();
}

/// The sum of all positions, whose scale is divided by their number.
LogicalResult lowerGlobalAveragePool(Operation *op, Lowerer &l) {
  Value in = op->getOperand(0), result = op->getResult(0);
  const Scaled *m = meaningOf(op, l, 0);
  if (!m || !isBytes(l, in))
    return m ? LogicalResult(l.no() << "of values that are not 8 bits wide") : failure();
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

/// 8-bit tensors of one meaning are joined as they are, others at a common step.
LogicalResult lowerConcat(Operation *op, Lowerer &l) {
  Value result = op->getResult(0);
  int64_t rank = Lowerer::rankOf(result), axis = onnx::getInt(op, "axis");
  axis += axis < 0 ? rank : 0;
  auto [parts, perm] = l.align(llvm::to_vector(op->getOperands()), rank);
  if (llvm::is_contained(parts, Value()))
    return failure();
  Scaled meaning;
  if (isa<FloatType>(Lowerer::typeOf(result).getElementType())) {
    SmallVector<const Scaled *> all;
    bool same = true;
    for (unsigned i = 0; i < op->getNumOperands(); ++i) {
      all.push_back(meaningOf(op, l, i));
      if (!all.back())
        return failure();
      same &= isBytes(l, op->getOperand(i)) && all[i]->scale == all[0]->scale && all[i]->zeroPoint == all[0]->zeroPoint;
    }
    meaning = *all[0];
    if (!same || meaning.scale.size() > 1) {
      meaning = Scaled();
      auto step = commonStep(l, all, meaning);
      if (!step)
        return failure();
      for (unsigned i = 0; i < parts.size(); ++i)
        if (!(parts[i] = atStep(l, parts[i], *all[i], isBytes(l, op->getOperand(i)), *step)))
          return failure();
    }
    l.scaled[result] = meaning;
  }
  l.set(result, l.concat(parts, inversePerm(perm)[axis]), perm);
  return success();
}

RegisterLowering sums({"Add", "Sub"}, Domain::Integer, Elements::Float, {}, lowerSum);
RegisterLowering mul({"Mul"}, Domain::Integer, Elements::Float, {}, lowerMul);
RegisterLowering globalAveragePool({"GlobalAveragePool"}, Domain::Integer, Elements::Float, {},
                                   lowerGlobalAveragePool);
RegisterLowering concats({"Concat"}, Domain::Integer, Elements::Any, {"axis"}, lowerConcat);

} // namespace
} // namespace tessera::tosa

// Reductions of quantised tensors: sums of integers, and the greatest of them.
#include "targets/Tosa/Lower/Quantised.h"

using namespace mlir;

namespace tessera::tosa {
namespace {

LogicalResult lowerMean(Operation *op, Lowerer &l) {
  Value in = op->getOperand(0), result = op->getResult(0);
  auto axes = reductionAxes(op, l);
  auto m = plainOperand(op, l, 0);
  if (!axes || !m)
    return failure();
  double count = 1;
  for (int64_t a : *axes)
    count *= (double)Lowerer::shapeOf(in)[a];
  Scaled meaning;
  meaning.scale = {op->getName().stripDialect() == "ReduceMean" ? m->scale[0] / count : m->scale[0]};
  meaning.bound = m->bound * (int64_t)count;
  if (failed(checkSum(l, meaning.bound, l.b.getI32Type())))
    return failure();
  Perm perm = l.order(in);
  Value x = rescale(l, l.get(in, perm), 1.0, m->zeroPoint, 0, l.b.getI32Type());
  finishReduction(op, l, reduceAxes(l, "reduce_sum", x, perm, *axes), perm);
  l.scaled[result] = meaning;
  return success();
}

LogicalResult lowerGreatest(Operation *op, Lowerer &l) {
  auto axes = reductionAxes(op, l);
  auto m = plainOperand(op, l, 0);
  if (!axes || !m)
    return failure();
  Perm perm = l.order(op->getOperand(0));
  StringRef mnemonic = op->getName().stripDialect() == "ReduceMax" ? "reduce_max" : "reduce_min";
  finishReduction(op, l, reduceAxes(l, mnemonic, l.get(op->getOperand(0), perm), perm, *axes), perm);
  l.scaled[op->getResult(0)] = *m;
  return success();
}

LogicalResult lowerGlobalMaxPool(Operation *op, Lowerer &l) {
  Value in = op->getOperand(0);
  auto m = plainOperand(op, l, 0);
  if (!m)
    return failure();
  Perm perm = l.order(in);
  SmallVector<int64_t> axes;
  for (int64_t a = 2; a < Lowerer::rankOf(in); ++a)
    axes.push_back(a);
  l.set(op->getResult(0), reduceAxes(l, "reduce_max", l.get(in, perm), perm, axes), perm);
  l.scaled[op->getResult(0)] = *m;
  return success();
}

LogicalResult lowerArgMax(Operation *op, Lowerer &l) {
  return plainOperand(op, l, 0) ? buildArgMax(op, l) : failure();
}

RegisterLowering means({"ReduceMean", "ReduceSum"}, Domain::Integer, Elements::Float,
                       {"keepdims", "noop_with_empty_axes"}, lowerMean);
RegisterLowering greatest({"ReduceMax", "ReduceMin"}, Domain::Integer, Elements::Float,
                          {"keepdims", "noop_with_empty_axes"}, lowerGreatest);
RegisterLowering globalMaxPool({"GlobalMaxPool"}, Domain::Integer, Elements::Float, {}, lowerGlobalMaxPool);
RegisterLowering argMax({"ArgMax"}, Domain::Integer, Elements::Float, {"axis", "keepdims", "select_last_index"},
                        lowerArgMax);

} // namespace
} // namespace tessera::tosa

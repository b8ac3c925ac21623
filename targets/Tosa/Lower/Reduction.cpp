// Reductions, and ArgMax.
#include "targets/Tosa/Lower/Lowerer.h"

using namespace mlir;

namespace tessera::tosa {

std::optional<SmallVector<int64_t>> reductionAxes(Operation *op, Lowerer &l) {
  int64_t rank = Lowerer::rankOf(op->getOperand(0));
  SmallVector<int64_t> axes;
  if (onnx::getOptionalOperand(op, 1)) {
    auto given = l.constantInts(op, 1);
    if (!given)
      return std::nullopt;
    axes = *given;
  }
  if (axes.empty() && !onnx::getInt(op, "noop_with_empty_axes", 0))
    axes.assign(identityPerm(rank).begin(), identityPerm(rank).end());
  for (int64_t &a : axes)
    a += a < 0 ? rank : 0;
  return axes;
}

Value reduceAxes(Lowerer &l, StringRef mnemonic, Value x, ArrayRef<int64_t> perm, ArrayRef<int64_t> axes) {
  Perm where = inversePerm(perm);
  for (int64_t a : axes)
    x = l.reduce(mnemonic, x, where[a]);
  return x;
}

void finishReduction(Operation *op, Lowerer &l, Value y, ArrayRef<int64_t> perm) {
  Value result = op->getResult(0);
  if (Lowerer::rankOf(result) == (int64_t)perm.size())
    l.set(result, y, perm);
  else
    l.set(result, l.reshape(l.transpose(y, permBetween(perm, identityPerm(perm.size()))), Lowerer::shapeOf(result)));
}

namespace {

LogicalResult lowerReduction(Operation *op, Lowerer &l) {
  auto axes = reductionAxes(op, l);
  if (!axes)
    return failure();
  StringRef name = op->getName().stripDialect();
  Perm perm = l.order(op->getOperand(0));
  Value x = l.get(op->getOperand(0), perm);
  bool isFloat = isa<FloatType>(Lowerer::typeOf(x).getElementType());
  if (!isFloat && (name == "ReduceMean" || Lowerer::typeOf(x).getElementType().isInteger(8)))
    return l.no() << "of " << onnx::getTypeName(Lowerer::typeOf(x).getElementType());
  if (axes->empty() && (name == "ReduceSumSquare" || name == "ReduceL1" || name == "ReduceL2"))
    return l.no() << "over no axis";
  double count = 1;
  for (int64_t a : *axes)
    count *= Lowerer::shapeOf(op->getOperand(0))[a];
  x = l.wide(x);
  if (name == "ReduceMax" || name == "ReduceMin") {
    x = reduceAxes(l, name == "ReduceMax" ? "reduce_max" : "reduce_min", x, perm, *axes);
  } else {
    if (name == "ReduceSumSquare" || name == "ReduceL2")
      x = l.mul(x, x);
    if (name == "ReduceL1")
      x = l.unary("abs", x);
    x = reduceAxes(l, "reduce_sum", x, perm, *axes);
    if (name == "ReduceMean")
      x = l.mul(x, 1 / count);
    if (name == "ReduceL2")
      x = l.unary("reciprocal", l.unary("rsqrt", x));
  }
  finishReduction(op, l, isFloat ? l.narrow(x) : x, perm);
  return success();
}

} // namespace

/// TOSA gives the first of equal values, and int32; a value that ends up inside
/// the region would have to be int64.
LogicalResult buildArgMax(Operation *op, Lowerer &l) {
  if (onnx::getInt(op, "select_last_index", 0))
    return l.no() << "select_last_index is set";
  Value in = op->getOperand(0), result = op->getResult(0);
  int64_t axis = onnx::getInt(op, "axis", 0), rank = Lowerer::rankOf(in);
  axis += axis < 0 ? rank : 0;
  Value x = l.get(in);
  if (Lowerer::typeOf(x).getElementType().isInteger(32))
    return l.no() << "of int32";
  SmallVector<int64_t> dims(Lowerer::shapeOf(x));
  dims.erase(dims.begin() + axis);
  if (dims.empty())
    return l.no() << "result has rank 0";
  Value y = l.op("argmax", x, RankedTensorType::get(dims, l.b.getI32Type()), l.axis(axis));
  l.set(result, l.reshape(y, Lowerer::shapeOf(result)));
  return success();
}

namespace {

RegisterLowering reductions({"ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceSumSquare", "ReduceL1",
                             "ReduceL2"},
                            Domain::Float, Elements::FloatOrInt, {"keepdims", "noop_with_empty_axes"},
                            lowerReduction);
RegisterLowering argMax({"ArgMax"}, Domain::Float, Elements::FloatOrInt, {"axis", "keepdims", "select_last_index"},
                        buildArgMax);

} // namespace
} // namespace tessera::tosa

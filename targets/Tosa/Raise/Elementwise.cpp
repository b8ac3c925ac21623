#include "targets/Tosa/Raise/Raiser.h"

using namespace mlir;

namespace tessera::tosa {
namespace {

/// Operands in the order of the largest; constants of one element as scalars.
SmallVector<Value> aligned(ValueRange operands, Raiser &r, ArrayRef<int64_t> perm) {
  SmallVector<Value> result;
  for (Value v : operands) {
    auto number = r.scalarOf(v);
    result.push_back(number ? r.b.scalar(Raiser::typeOf(v).getElementType(), *number) : r.get(v, perm));
  }
  return result;
}

LogicalResult raiseAs(StringRef name, Operation *op, ValueRange operands, Raiser &r) {
  Perm perm = r.order(operands);
  Value result = op->getResult(0);
  r.set(result, r.b.op(name, aligned(operands, r, perm), r.typeIn(result, perm)), perm);
  return success();
}

LogicalResult raiseNamed(Operation *op, Raiser &r) {
  static const llvm::StringMap<StringRef> names = {
      {"abs", "Abs"},     {"exp", "Exp"},           {"log", "Log"},         {"floor", "Floor"},
      {"ceil", "Ceil"},   {"erf", "Erf"},           {"tanh", "Tanh"},       {"sigmoid", "Sigmoid"},
      {"sin", "Sin"},     {"cos", "Cos"},           {"reciprocal", "Reciprocal"},
      {"add", "Add"},     {"sub", "Sub"},           {"pow", "Pow"},         {"maximum", "Max"},
      {"minimum", "Min"}, {"intdiv", "Div"},        {"logical_not", "Not"}, {"logical_and", "And"},
      {"logical_or", "Or"}, {"logical_xor", "Xor"}, {"equal", "Equal"},     {"greater", "Greater"},
      {"greater_equal", "GreaterOrEqual"}, {"select", "Where"}};
  if (auto a = op->getAttrOfType<mlir::tosa::NanPropagationModeAttr>("nan_mode"))
    if (a.getValue() != mlir::tosa::NanPropagationMode::PROPAGATE)
      return failure();
  return raiseAs(names.lookup(op->getName().stripDialect()), op, op->getOperands(), r);
}

LogicalResult raiseMul(Operation *op, Raiser &r) {
  return r.isZero(op->getOperand(2)) ? raiseAs("Mul", op, op->getOperands().take_front(2), r) : failure();
}

LogicalResult raiseNegate(Operation *op, Raiser &r) {
  bool plain = r.isZero(op->getOperand(1)) && r.isZero(op->getOperand(2));
  return plain ? raiseAs("Neg", op, op->getOperands().take_front(1), r) : failure();
}

LogicalResult raiseRsqrt(Operation *op, Raiser &r) {
  Perm perm = r.order(op->getOperand(0));
  r.set(op->getResult(0), r.b.unary("Reciprocal", r.b.unary("Sqrt", r.get(op->getOperand(0), perm))), perm);
  return success();
}

LogicalResult raiseClamp(Operation *op, Raiser &r) {
  auto clamp = cast<mlir::tosa::ClampOp>(op);
  if (clamp.getNanMode() != mlir::tosa::NanPropagationMode::PROPAGATE)
    return failure();
  Perm perm = r.order(op->getOperand(0));
  Value x = r.get(op->getOperand(0), perm);
  Type element = Raiser::typeOf(x).getElementType();
  auto number = [&](Attribute a) {
    if (auto f = dyn_cast<FloatAttr>(a))
      return f.getValueAsDouble();
    return (double)cast<IntegerAttr>(a).getValue().getSExtValue();
  };
  double low = number(clamp.getMinValAttr()), high = number(clamp.getMaxValAttr());
  Value y = low == 0 && high == INFINITY
                ? r.b.unary("Relu", x)
                : r.b.op("Clip", {x, r.b.scalar(element, low), r.b.scalar(element, high)}, x.getType());
  r.set(op->getResult(0), y, perm);
  return success();
}

/// TOSA rounds floats to nearest even and saturates; ours cuts and saturates.
LogicalResult raiseCast(Operation *op, Raiser &r) {
  Perm perm = r.order(op->getOperand(0));
  Value x = r.get(op->getOperand(0), perm);
  Type from = Raiser::typeOf(x).getElementType(), to = Raiser::typeOf(op->getResult(0)).getElementType();
  if (isa<FloatType>(from) && isa<IntegerType>(to) && !to.isInteger(1))
    x = r.b.unary("Round", x);
  r.set(op->getResult(0), r.b.cast(x, to), perm);
  return success();
}

LogicalResult raiseIdentity(Operation *op, Raiser &r) {
  Perm perm = r.order(op->getOperand(0));
  r.set(op->getResult(0), r.get(op->getOperand(0), perm), perm);
  return success();
}

/// table[x + 128] for int8; for int16 512 segments of 128 positions, 23 bits.
LogicalResult raiseTable(Operation *op, Raiser &r) {
  Value in = op->getOperand(0);
  Type from = Raiser::typeOf(in).getElementType(), to = Raiser::typeOf(op->getResult(0)).getElementType();
  Perm perm = r.order(in);
  Value x = r.get(in, perm);
  Type i64 = r.b.attrs().getI64Type();
  if (from.isInteger(8) && to.isInteger(8)) {
    Value index = r.b.add(r.b.cast(x, i64), r.integer(i64, 128));
    Value y = r.b.op("Gather", {r.get(op->getOperand(1)), index}, x.getType(), {r.b.i("axis", 0)});
    r.set(op->getResult(0), y, perm);
    return success();
  }
  auto table = r.constantOf(op->getOperand(1));
  if (!from.isInteger(16) || !to.isInteger(32) || !table || table->size() != 513)
    return failure();
  HostTensor base(to, {512}), slope(to, {512});
  base.mutableData();
  slope.mutableData();
  for (int64_t i = 0; i < 512; ++i) {
    base.setInteger(i, table->integer(i) * 128);
    slope.setInteger(i, table->integer(i + 1) - table->integer(i));
  }
  Value position = r.b.add(r.b.cast(x, i64), r.integer(i64, 32768));
  Value segment = r.b.div(position, r.integer(i64, 128));
  Value rest = r.b.cast(r.b.sub(position, r.b.mul(segment, r.integer(i64, 128))), to);
  auto pick = [&](const HostTensor &t) {
    return r.b.op("Gather", {r.b.weight(t), segment}, Raiser::typeOf(x).clone(to), {r.b.i("axis", 0)});
  };
  r.set(op->getResult(0), r.b.add(pick(base), r.b.mul(pick(slope), rest)), perm);
  return success();
}

RegisterRaise named({"abs", "exp", "log", "floor", "ceil", "erf", "tanh", "sigmoid", "sin", "cos", "reciprocal", "add",
                     "sub", "pow", "maximum", "minimum", "intdiv", "logical_not", "logical_and", "logical_or",
                     "logical_xor", "equal", "greater", "greater_equal", "select"},
                    raiseNamed);
RegisterRaise mul({"mul"}, raiseMul);
RegisterRaise negate({"negate"}, raiseNegate);
RegisterRaise rsqrt({"rsqrt"}, raiseRsqrt);
RegisterRaise clamp({"clamp"}, raiseClamp);
RegisterRaise conversion({"cast"}, raiseCast);
RegisterRaise identity({"identity"}, raiseIdentity);
RegisterRaise tables({"table"}, raiseTable);

} // namespace
} // namespace tessera::tosa

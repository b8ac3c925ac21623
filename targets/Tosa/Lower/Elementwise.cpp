// Arithmetic, comparisons, logic and conversions.
#include "targets/Tosa/Lower/Lowerer.h"

using namespace mlir;

namespace tessera::tosa {
namespace {

/// The mnemonic of an onnx operator that TOSA has under another name.
StringRef mnemonicOf(Operation *op) {
  static const llvm::StringMap<StringRef> names = {
      {"Add", "add"},         {"Sub", "sub"},           {"Mul", "mul"},           {"Max", "maximum"},
      {"Min", "minimum"},     {"Abs", "abs"},           {"Exp", "exp"},           {"Log", "log"},
      {"Floor", "floor"},     {"Ceil", "ceil"},         {"Erf", "erf"},           {"Tanh", "tanh"},
      {"Sigmoid", "sigmoid"}, {"Reciprocal", "reciprocal"}, {"Sin", "sin"},       {"Cos", "cos"},
      {"Not", "logical_not"}, {"And", "logical_and"},   {"Or", "logical_or"},     {"Xor", "logical_xor"},
      {"Equal", "equal"},     {"Greater", "greater"},   {"GreaterOrEqual", "greater_equal"},
      {"Less", "greater"},    {"LessOrEqual", "greater_equal"}};
  return names.lookup(op->getName().stripDialect());
}

LogicalResult lowerUnary(Operation *op, Lowerer &l) {
  Value in = op->getOperand(0);
  Perm perm = l.order(in);
  Value x = l.get(in, perm);
  if (!x)
    return failure();
  l.set(op->getResult(0), l.unary(mnemonicOf(op), x), perm);
  return success();
}

/// int8 arithmetic is not TOSA's (its ADD is of int32), int32 is.
LogicalResult refuseBytes(Value x, Lowerer &l) {
  if (Lowerer::typeOf(x).getElementType().isInteger(8))
    return l.no() << "arithmetic on int8 without a scale";
  return success();
}

LogicalResult lowerArithmetic(Operation *op, Lowerer &l) {
  Value result = op->getResult(0);
  auto [in, perm] = l.align(llvm::to_vector(op->getOperands()), Lowerer::rankOf(result));
  if (llvm::is_contained(in, Value()))
    return failure();
  StringRef mnemonic = mnemonicOf(op);
  if ((mnemonic == "add" || mnemonic == "sub" || mnemonic == "mul") && failed(refuseBytes(in[0], l)))
    return failure();
  Value acc = in[0];
  for (Value v : ArrayRef<Value>(in).drop_front())
    acc = l.binary(mnemonic, acc, v);
  l.set(result, acc, perm);
  return success();
}

/// Less and LessOrEqual are Greater and GreaterOrEqual the other way round.
LogicalResult lowerComparison(Operation *op, Lowerer &l) {
  Value result = op->getResult(0);
  auto [in, perm] = l.align({op->getOperand(0), op->getOperand(1)}, Lowerer::rankOf(result));
  if (!in[0] || !in[1])
    return failure();
  if (op->getName().stripDialect().starts_with("Less"))
    std::swap(in[0], in[1]);
  if (failed(refuseBytes(in[0], l)))
    return failure();
  if (Lowerer::typeOf(in[0]).getElementType().isInteger(1))
    return l.no() << "comparison of bool";
  l.set(result, l.binary(mnemonicOf(op), in[0], in[1], l.b.getI1Type()), perm);
  return success();
}

/// Division is by a reciprocal, in float32: float16 has none for large divisors.
LogicalResult lowerDiv(Operation *op, Lowerer &l) {
  Value result = op->getResult(0);
  auto [in, perm] = l.align({op->getOperand(0), op->getOperand(1)}, Lowerer::rankOf(result));
  if (!in[0] || !in[1] || failed(refuseBytes(in[0], l)))
    return failure();
  Value q;
  if (isa<IntegerType>(Lowerer::typeOf(in[0]).getElementType()))
    q = l.binary("intdiv", in[0], in[1]); // both truncate towards zero
  else
    q = l.narrow(l.mul(l.wide(in[0]), l.unary("reciprocal", l.wide(in[1]))));
  l.set(result, q, perm);
  return success();
}

LogicalResult lowerNeg(Operation *op, Lowerer &l) {
  Perm perm = l.order(op->getOperand(0));
  Value x = l.get(op->getOperand(0), perm);
  if (failed(refuseBytes(x, l)))
    return failure();
  l.set(op->getResult(0), l.negate(x), perm);
  return success();
}

/// 1 / (1 / sqrt x): right at 0 and infinity, NaN below 0.
LogicalResult lowerSqrt(Operation *op, Lowerer &l) {
  Perm perm = l.order(op->getOperand(0));
  Value x = l.wide(l.get(op->getOperand(0), perm));
  l.set(op->getResult(0), l.narrow(l.unary("reciprocal", l.unary("rsqrt", x))), perm);
  return success();
}

LogicalResult lowerPow(Operation *op, Lowerer &l) {
  Value result = op->getResult(0);
  auto exponent = l.constantOf(op->getOperand(1));
  bool one = exponent && exponent->size() == 1 && exponent->isFloat();
  if (isa<IntegerType>(Lowerer::typeOf(op->getOperand(0)).getElementType()))
    return l.no() << "base is an integer";
  if (exponent && !exponent->isFloat())
    return l.no() << "exponent is " << onnx::getTypeName(exponent->element());
  auto [in, perm] = l.align({op->getOperand(0), op->getOperand(1)}, Lowerer::rankOf(result));
  if (!in[0] || !in[1])
    return failure();
  Value x = l.wide(in[0]), y;
  if (one && exponent->real(0) == 2)
    y = l.mul(x, x);
  else if (one && exponent->real(0) == 0.5)
    y = l.unary("reciprocal", l.unary("rsqrt", x));
  else
    y = l.binary("pow", x, l.wide(in[1]));
  l.set(result, l.narrow(y), perm);
  return success();
}

LogicalResult lowerWhere(Operation *op, Lowerer &l) {
  Value result = op->getResult(0);
  auto [in, perm] = l.align(llvm::to_vector(op->getOperands()), Lowerer::rankOf(result));
  if (llvm::is_contained(in, Value()))
    return failure();
  l.set(result, l.select(in[0], in[1], in[2]), perm);
  return success();
}

LogicalResult lowerIdentity(Operation *op, Lowerer &l) {
  Perm perm = l.order(op->getOperand(0));
  l.set(op->getResult(0), l.get(op->getOperand(0), perm), perm);
  return success();
}

/// TOSA rounds a float to the nearest integer, ONNX cuts its fraction off.
Value towardsZero(Lowerer &l, Value x) {
  Value negative = l.binary("greater", l.scalarLike(x, 0), x, l.b.getI1Type());
  return l.select(negative, l.unary("ceil", x), l.unary("floor", x));
}

LogicalResult lowerCast(Operation *op, Lowerer &l) {
  Value result = op->getResult(0);
  Perm perm = l.order(op->getOperand(0));
  Value x = l.get(op->getOperand(0), perm);
  Type from = Lowerer::typeOf(x).getElementType(), to = l.device(Lowerer::typeOf(result).getElementType());
  for (Value v : {op->getOperand(0), result})
    if (Lowerer::typeOf(v).getElementType().isInteger(64))
      return l.no() << (v == result ? "to" : "from") << " int64, which TOSA has not";
  Value y;
  if (to.isInteger(1) && isa<FloatType>(from))
    y = l.unary("logical_not", l.binary("equal", x, l.scalarLike(x, 0), to));
  else if (isa<FloatType>(from) && isa<IntegerType>(to))
    y = l.cast(towardsZero(l, x), to);
  else if (from.isInteger(1) && isa<FloatType>(to)) // through int8: bool has no cast to float
    y = l.cast(l.cast(x, l.b.getI8Type()), to);
  else
    y = l.cast(x, to);
  l.set(result, y, perm);
  return success();
}

RegisterLowering unary({"Exp", "Log", "Floor", "Ceil", "Erf", "Tanh", "Sigmoid", "Reciprocal", "Sin", "Cos"},
                       Domain::Float, Elements::Float, {}, lowerUnary);
RegisterLowering absolute({"Abs"}, Domain::Float, Elements::FloatOrInt, {}, [](Operation *op, Lowerer &l) {
  return failed(refuseBytes(op->getOperand(0), l)) ? failure() : lowerUnary(op, l);
});
RegisterLowering logicalNot({"Not"}, Domain::Float, Elements::Bool, {}, lowerUnary);
RegisterLowering logical({"And", "Or", "Xor"}, Domain::Float, Elements::Bool, {}, lowerArithmetic);
RegisterLowering arithmetic({"Add", "Sub", "Mul", "Max", "Min"}, Domain::Float, Elements::FloatOrInt, {},
                            lowerArithmetic);
RegisterLowering comparison({"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"}, Domain::Float,
                            Elements::Any, {}, lowerComparison);
RegisterLowering division({"Div"}, Domain::Float, Elements::FloatOrInt, {}, lowerDiv);
RegisterLowering negation({"Neg"}, Domain::Float, Elements::FloatOrInt, {}, lowerNeg);
RegisterLowering squareRoot({"Sqrt"}, Domain::Float, Elements::Float, {}, lowerSqrt);
RegisterLowering power({"Pow"}, Domain::Float, Elements::Float, {}, lowerPow);
RegisterLowering where({"Where"}, Domain::Float, Elements::Any, {}, lowerWhere);
RegisterLowering identity({"Identity"}, Domain::Both, Elements::Any, {}, lowerIdentity);
RegisterLowering conversion({"Cast"}, Domain::Float, Elements::Any, {"to", "saturate", "round_mode"}, lowerCast);

} // namespace
} // namespace tessera::tosa

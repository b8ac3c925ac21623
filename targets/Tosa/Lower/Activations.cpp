// Activation functions by composition. What takes more than one rounding is
// computed in float32 and stored once.
#include "targets/Tosa/Lower/Lowerer.h"

using namespace mlir;

namespace tessera::tosa {
namespace {

/// y = f(x) in float32, in the order of x.
LogicalResult compose(Operation *op, Lowerer &l, llvm::function_ref<Value(Value)> f) {
  Perm perm = l.order(op->getOperand(0));
  Value x = l.get(op->getOperand(0), perm);
  l.set(op->getResult(0), l.narrow(f(l.wide(x))), perm);
  return success();
}

Value positive(Lowerer &l, Value x) { return l.binary("greater", x, l.scalarLike(x, 0), l.b.getI1Type()); }

} // namespace

std::optional<std::pair<double, double>> clipBounds(Operation *op, Lowerer &l, double lowest, double highest) {
  auto low = l.constantScalar(op, 1, lowest), high = l.constantScalar(op, 2, highest);
  if (!low || !high)
    return std::nullopt;
  if (std::isnan(*low) || std::isnan(*high)) {
    l.no() << "a bound is NaN";
    return std::nullopt;
  }
  return std::pair(std::min(*low, *high), *high);
}

namespace {

/// The numbers that an element type has; integers are int8, TOSA clamps no others.
std::pair<double, double> rangeOf(Type t) {
  return isa<FloatType>(t) ? std::pair(-INFINITY, INFINITY) : std::pair(-128.f, 127.f);
}

LogicalResult lowerClip(Operation *op, Lowerer &l) {
  Perm perm = l.order(op->getOperand(0));
  Value x = l.get(op->getOperand(0), perm);
  auto [lowest, highest] = rangeOf(Lowerer::typeOf(x).getElementType());
  auto bounds = clipBounds(op, l, lowest, highest);
  if (!bounds)
    return failure();
  l.set(op->getResult(0), l.clamp(x, bounds->first, bounds->second), perm);
  return success();
}

LogicalResult lowerRelu(Operation *op, Lowerer &l) {
  Perm perm = l.order(op->getOperand(0));
  Value x = l.get(op->getOperand(0), perm);
  l.set(op->getResult(0), l.clamp(x, 0, rangeOf(Lowerer::typeOf(x).getElementType()).second), perm);
  return success();
}

LogicalResult lowerLeakyRelu(Operation *op, Lowerer &l) {
  double alpha = onnx::getFloat(op, "alpha", 0.01);
  return compose(op, l, [&](Value x) { return l.select(positive(l, x), x, l.mul(x, alpha)); });
}

LogicalResult lowerPRelu(Operation *op, Lowerer &l) {
  auto [in, perm] = l.align({op->getOperand(0), op->getOperand(1)}, Lowerer::rankOf(op->getResult(0)));
  if (!in[0] || !in[1])
    return failure();
  l.set(op->getResult(0), l.select(positive(l, in[0]), in[0], l.mul(in[0], in[1])), perm);
  return success();
}

Value hardSigmoid(Lowerer &l, Value x, double alpha, double beta) {
  return l.clamp(l.add(l.mul(x, alpha), beta), 0, 1);
}

LogicalResult lowerHardSigmoid(Operation *op, Lowerer &l) {
  double alpha = onnx::getFloat(op, "alpha", 0.2), beta = onnx::getFloat(op, "beta", 0.5);
  return compose(op, l, [&](Value x) { return hardSigmoid(l, x, alpha, beta); });
}

LogicalResult lowerHardSwish(Operation *op, Lowerer &l) {
  return compose(op, l, [&](Value x) { return l.mul(x, hardSigmoid(l, x, 1.0 / 6, 0.5)); });
}

LogicalResult lowerSwish(Operation *op, Lowerer &l) {
  double alpha = onnx::getFloat(op, "alpha", 1);
  return compose(op, l, [&](Value x) { return l.mul(x, l.unary("sigmoid", alpha == 1 ? x : l.mul(x, alpha))); });
}

LogicalResult lowerGelu(Operation *op, Lowerer &l) {
  StringRef approximate = onnx::getString(op, "approximate", "none");
  if (approximate != "none" && approximate != "tanh")
    return l.no() << "approximate is '" << approximate << "'";
  return compose(op, l, [&](Value x) {
    Value inner;
    if (approximate == "none")
      inner = l.unary("erf", l.mul(x, M_SQRT1_2));
    else
      inner = l.unary("tanh", l.mul(l.add(x, l.mul(l.mul(l.mul(x, x), x), 0.044715)), std::sqrt(2 / M_PI)));
    return l.mul(l.mul(x, 0.5), l.add(inner, 1));
  });
}

LogicalResult lowerElu(Operation *op, Lowerer &l) {
  double alpha = onnx::getFloat(op, "alpha", 1);
  return compose(op, l, [&](Value x) {
    return l.select(positive(l, x), x, l.mul(l.add(l.unary("exp", x), -1), alpha));
  });
}

/// log(1 + e^x) without overflow: max(x, 0) + log(1 + e^-|x|).
Value softplus(Lowerer &l, Value x) {
  Value tail = l.unary("log", l.add(l.unary("exp", l.negate(l.unary("abs", x))), 1));
  return l.add(l.clamp(x, 0, INFINITY), tail);
}

LogicalResult lowerSoftplus(Operation *op, Lowerer &l) {
  return compose(op, l, [&](Value x) { return softplus(l, x); });
}

LogicalResult lowerMish(Operation *op, Lowerer &l) {
  return compose(op, l, [&](Value x) { return l.mul(x, l.unary("tanh", softplus(l, x))); });
}

RegisterLowering relu({"Relu"}, Domain::Float, Elements::FloatOrInt, {}, lowerRelu);
RegisterLowering clip({"Clip"}, Domain::Float, Elements::FloatOrInt, {}, lowerClip);
RegisterLowering leakyRelu({"LeakyRelu"}, Domain::Float, Elements::Float, {"alpha"}, lowerLeakyRelu);
RegisterLowering pRelu({"PRelu"}, Domain::Float, Elements::Float, {}, lowerPRelu);
RegisterLowering hardSigmoids({"HardSigmoid"}, Domain::Float, Elements::Float, {"alpha", "beta"}, lowerHardSigmoid);
RegisterLowering hardSwish({"HardSwish"}, Domain::Float, Elements::Float, {}, lowerHardSwish);
RegisterLowering swish({"Swish"}, Domain::Float, Elements::Float, {"alpha"}, lowerSwish);
RegisterLowering gelu({"Gelu"}, Domain::Float, Elements::Float, {"approximate"}, lowerGelu);
RegisterLowering elu({"Elu"}, Domain::Float, Elements::Float, {"alpha"}, lowerElu);
RegisterLowering softpluses({"Softplus"}, Domain::Float, Elements::Float, {}, lowerSoftplus);
RegisterLowering mish({"Mish"}, Domain::Float, Elements::Float, {}, lowerMish);

} // namespace
} // namespace tessera::tosa

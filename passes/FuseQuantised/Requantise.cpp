// Integer sums to quantised integers in one operator, which the kernels compute
// in float32 wherever that decides the same
// (targets/Cpu/ElementwiseRequantise.cpp).
//
//   BEFORE  Clip(QuantizeLinear(Cast(Cast(sums) * factor + bias), scale, zero),
//   low, high) AFTER   tessera.Requantise(sums, factor, bias, ...)          the
//   same bits
#include "dialects/Onnx/IR/OpsCore.h"
#include "passes/FuseQuantised/Rules.h"

#include <cmath>

using namespace mlir;
using tessera::onnx::HostTensor;
using tessera::onnx::OnnxBuilder;

namespace tessera {

namespace {

/// The operator `name` that defines `v` for its only user.
Operation *onlyFor(Value v, StringRef name) {
  return v.hasOneUse() ? onnx::definedBy(v, name) : nullptr;
}

struct Scaling {
  Value sums;
  HostTensor factor, bias;
  bool biasFirst;
};

/// Cast(Cast(sums) * factor + bias), or with the bias added first.
std::optional<Scaling> readScaling(Value x) {
  Operation *narrow = onlyFor(x, "Cast");
  if (!narrow)
    return std::nullopt;
  Value v = narrow->getOperand(0);
  if (!onnx::elementType(v).isF64() || !onnx::elementType(x).isF32())
    return std::nullopt;
  std::optional<HostTensor> factor, bias;
  SmallVector<Value> parameters;
  bool biasFirst = false;
  if (Operation *add = onlyFor(v, "Add")) {
    parameters.push_back(add->getOperand(1));
    bias = onnx::constantOf(add->getOperand(1));
    if (!bias)
      return std::nullopt;
    v = add->getOperand(0);
  }
  Operation *mul = onlyFor(v, "Mul");
  if (!mul || !(factor = onnx::constantOf(mul->getOperand(1))))
    return std::nullopt;
  parameters.push_back(mul->getOperand(1));
  v = mul->getOperand(0);
  if (Operation *add = bias ? nullptr : onlyFor(v, "Add")) {
    parameters.push_back(add->getOperand(1));
    bias = onnx::constantOf(add->getOperand(1));
    if (!bias)
      return std::nullopt;
    v = add->getOperand(0);
    biasFirst = true;
  }
  Operation *wide = onlyFor(v, "Cast");
  if (!wide || !onnx::elementType(wide->getOperand(0)).isSignlessInteger(32))
    return std::nullopt;
  for (Value parameter : parameters) // the operator has the shape of its sums
    if (!onnx::broadcastsInto(parameter, wide->getOperand(0)))
      return std::nullopt;
  if (!bias)
    bias = HostTensor(factor->element(), {});
  return Scaling{wide->getOperand(0), *factor, *bias, biasFirst};
}

/// A normal float32 far from both ends, or 0.
bool isTame(double v) {
  return v == 0 || (std::fabs(v) > 1e-25 && std::fabs(v) < 1e20);
}

/// Integer bounds that follow `op`, if its only reader is a Clip by constants.
Operation *boundsBehind(Operation *op, double &low, double &high) {
  Value y = op->getResult(0);
  Operation *clip = y.hasOneUse() ? *y.getUsers().begin() : nullptr;
  if (!clip || !onnx::isOp(clip, "Clip") || clip->getOperand(0) != y)
    return nullptr;
  auto least = onnx::scalarConstant(onnx::operand(clip, 1)),
       most = onnx::scalarConstant(onnx::operand(clip, 2));
  if (!least || !most || *least > *most)
    return nullptr;
  low = std::max(low, *least), high = std::min(high, *most);
  return clip;
}

std::optional<double> scalarOf(Value v) {
  auto c = onnx::constantOf(v);
  if (!c || c->size() != 1 || c->rank() > 1)
    return std::nullopt;
  return c->isFloat() ? c->real(0) : double(c->integer(0));
}

} // namespace

bool fuseRequantise(Operation *op, IRRewriter &r) {
  if (!onnx::isOp(op, "QuantizeLinear") ||
      onnx::getInt(op, "precision", 0) != 0)
    return false;
  auto element = dyn_cast<IntegerType>(onnx::elementType(op->getResult(0)));
  auto scaling = readScaling(op->getOperand(0));
  auto scale = scalarOf(onnx::operand(op, 1));
  Value zeroPoint = onnx::operand(op, 2);
  auto zero = zeroPoint ? scalarOf(zeroPoint) : std::optional<double>(0);
  if (!element || element.getWidth() < 8 || element.getWidth() > 16 ||
      !scaling || !scale || !zero || !(*scale > 1e-25 && *scale < 1e20) ||
      !onnx::elementType(onnx::operand(op, 1)).isF32())
    return false;
  const HostTensor &factor = scaling->factor, &bias = scaling->bias;
  if (factor.size() != 1 && bias.size() != 1 && factor.shape() != bias.shape())
    return false;
  const HostTensor &larger =
      scaling->biasFirst && factor.size() > bias.size() ? factor : bias;
  HostTensor nearFactor(r.getF32Type(), factor.shape()),
      nearBias(r.getF32Type(), larger.shape()),
      middle(r.getF32Type(), larger.shape());
  for (HostTensor *t : {&nearFactor, &nearBias, &middle})
    t->mutableData();
  auto at = [](const HostTensor &t, int64_t i) {
    return t.real(t.size() == 1 ? 0 : i);
  };
  for (int64_t i = 0; i < factor.size(); ++i) {
    nearFactor.setReal(i, factor.real(i) / *scale);
    if (!isTame(factor.real(i) / *scale) || !std::isfinite(factor.real(i)))
      return false;
  }
  for (int64_t i = 0; i < larger.size(); ++i) {
    double b = at(bias, i) * (scaling->biasFirst ? at(factor, i) : 1) / *scale;
    nearBias.setReal(i, b);
    middle.setReal(i,
                   0.5 - std::ldexp(std::fabs(b), -21) - std::ldexp(1.0, -20));
    if (!isTame(b))
      return false;
  }
  double range = std::ldexp(1.0, element.getWidth()),
         low = element.isUnsigned() ? 0 : -range / 2, high = low + range - 1;
  Operation *last = op;
  if (Operation *clip = boundsBehind(op, low, high))
    last = clip;
  OnnxBuilder b(r, op->getLoc());
  r.setInsertionPoint(last);
  auto number = [&](StringRef name, double v) {
    return r.getNamedAttr(name, r.getF64FloatAttr(v));
  };
  auto attrs = r.getDictionaryAttr(
      {number("scale", *scale), number("zero", *zero), number("low", low),
       number("high", high), number("bias_first", scaling->biasFirst)});
  SmallVector<Value> operands{scaling->sums,      b.weight(factor),
                              b.weight(bias),     b.weight(nearFactor),
                              b.weight(nearBias), b.weight(middle)};
  auto custom = onnx::CustomOp::create(
      r, op->getLoc(), TypeRange{last->getResult(0).getType()},
      r.getStringAttr("tessera"), r.getStringAttr("Requantise"), attrs,
      operands, 0);
  if (!isServed(custom)) {
    custom->erase();
    return false;
  }
  r.replaceAllUsesWith(last->getResult(0), custom->getResult(0));
  return true;
}

} // namespace tessera

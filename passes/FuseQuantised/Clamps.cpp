// Relu and Clip before QuantizeLinear are bounds of its integers.
//
//   BEFORE  QuantizeLinear(Clip(x, 0, 6))
//   AFTER   Clip(QuantizeLinear(x), q(0), q(6))      often the ends of the
//   range: nothing
//
// The same bits, as QuantizeLinear never falls where its operand rises. A NaN
// becomes the zero point either way, for 0 is inside the bounds.
#include "passes/FuseQuantised/Rules.h"

#include <cmath>

using namespace mlir;
using tessera::onnx::OnnxBuilder;

namespace tessera {

namespace {

struct Bounds {
  double low = -INFINITY, high = INFINITY;
};

/// The bounds that `op` puts on its first operand.
std::optional<Bounds> boundsOf(Operation *op) {
  if (onnx::isOp(op, "Relu"))
    return Bounds{0, INFINITY};
  if (!onnx::isOp(op, "Clip"))
    return std::nullopt;
  Bounds b;
  for (auto [position, bound] : {std::pair{1u, &b.low}, {2u, &b.high}})
    if (Value v = onnx::operand(op, position)) {
      auto c = onnx::scalarConstant(v);
      if (!c)
        return std::nullopt;
      *bound = *c;
    }
  return b;
}

bool isScalar(Value v) {
  return onnx::rankedType(v) && onnx::rankedType(v).getRank() <= 1 &&
         onnx::scalarConstant(v);
}

} // namespace

bool clampIntegers(Operation *op, IRRewriter &r) {
  if (!onnx::isOp(op, "QuantizeLinear"))
    return false;
  Operation *clamp = op->getOperand(0).getDefiningOp();
  auto bounds =
      clamp && op->getOperand(0).hasOneUse() ? boundsOf(clamp) : std::nullopt;
  Value scale = onnx::operand(op, 1), zero = onnx::operand(op, 2);
  auto element = dyn_cast<IntegerType>(onnx::elementType(op->getResult(0)));
  if (!bounds || !(bounds->low <= 0 && bounds->high >= 0) || !element ||
      element.getWidth() < 8 || element.getWidth() > 16 || !isScalar(scale) ||
      (zero && !isScalar(zero)) || !onnx::elementType(scale).isF32() ||
      !onnx::elementType(op->getOperand(0)).isF32() ||
      onnx::getInt(op, "precision", 0) != 0)
    return false;
  double step = *onnx::scalarConstant(scale),
         offset = zero ? *onnx::scalarConstant(zero) : 0;
  if (!(step > 0) || !std::isfinite(step))
    return false;
  double range = std::ldexp(1.0, element.getWidth()),
         least = element.isUnsigned() ? 0 : -range / 2,
         most = least + range - 1;
  auto quantised = [&](double v) {
    return std::clamp(double(std::nearbyint(float(v) / float(step))) + offset,
                      least, most);
  };
  double low = quantised(bounds->low), high = quantised(bounds->high);
  OnnxBuilder b(r, op->getLoc());
  Value y = b.op("QuantizeLinear", {clamp->getOperand(0), scale, zero},
                 op->getResult(0).getType(), schemaAttributes(op));
  Operation *inner = y.getDefiningOp();
  if (low > least || high < most) {
    y = b.op("Clip", {y, b.scalar(element, low), b.scalar(element, high)},
             y.getType());
    if (!isServed(y.getDefiningOp())) {
      dropUnused(inner, op);
      return false;
    }
  }
  r.replaceOp(op, y);
  r.eraseOp(clamp);
  r.setInsertionPoint(inner);
  clampIntegers(inner, r); // Relu and Clip
  return true;
}

} // namespace tessera

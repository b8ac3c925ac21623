// tessera.Requantise: sums of integers to quantised integers
// (passes/FuseQuantised/Requantise.cpp makes it).
//
// Exact is the double product with the scales, rounded to float32, divided by
// the scale of the result, rounded to an integer. Nearly always float32 tells
// that integer as well: with p = sum * (factor / scale) and the bias b / scale,
// s = p + b differs from the exact quotient by less than 2^-21 (|p| + |b|):
// four roundings of p, two of b, one of s, and two of the exact way, 2^-24
// each. If s is that far from the middle of two integers, both round alike; a
// vector with a lane that is not takes the exact way.
#include "targets/Cpu/ElementwiseSupport.h"

using namespace mlir;

namespace tessera::cpu {

namespace {

enum Operand : unsigned { Sum, Factor, Bias, NearFactor, NearBias, Middle };

double parameter(Operation *op, StringRef name) {
  return op->getAttrOfType<DictionaryAttr>("attrs")
      .getAs<FloatAttr>(name)
      .getValueAsDouble();
}

LogicalResult match(Operation *op, Reasons &reasons) {
  Type sum = operandElement(op, Sum);
  if (!sum || !sum.isSignlessInteger(32))
    return reasons.no() << "Requantise of another type than int32";
  return success();
}

FailureOr<Value> requantise(Operation *op, ArrayRef<Value> operands,
                            KernelEmitter &e) {
  Elementwise w{op, operands, e};
  double scale = parameter(op, "scale"), zero = parameter(op, "zero");
  double low = parameter(op, "low") - zero, high = parameter(op, "high") - zero;
  bool biasFirst = parameter(op, "bias_first") != 0;
  Expr sum = w[Sum];
  Type i32 = sum.type();
  auto clamp = [&](Expr r) {
    return maxSecond(r.k(low), minSecond(r.k(high), r));
  };
  auto integers = [&](Expr r) {
    Expr moved = zero == 0 ? r : r + zero;
    return Value(arith::FPToSIOp::create(e.b, e.loc, i32, moved.v));
  };

  Expr p = fromInt(sum, e.f32(), false) * w[NearFactor];
  Expr s = clamp(p + w[NearBias]);
  Expr near = roundEven(s);
  Expr distance(e, e.fma(abs(p), p.k(std::ldexp(1.0, -21)), abs(s - near)));
  Value doubt = distance >= w[Middle];
  if (isa<VectorType>(doubt.getType()))
    doubt = vector::ReductionOp::create(e.b, e.loc, vector::CombiningKind::OR,
                                        doubt);
  auto exact = [&]() -> SmallVector<Value> {
    Expr t = fromInt(sum, e.f64(), false);
    t = biasFirst ? (t + w[Bias]) * w[Factor] : t * w[Factor] + w[Bias];
    Expr x = toF32(t);
    return {integers(clamp(roundEven(x / scale)))};
  };
  SmallVector<Value> q =
      e.ifElse(doubt, TypeRange{i32}, exact,
               [&]() -> SmallVector<Value> { return {integers(near)}; });
  return intType(Expr(e, q[0]), resultElement(op).getIntOrFloatBitWidth(),
                 false)
      .v;
}

RegisterElementwise registration({"tessera.Requantise"}, match, requantise);

} // namespace

} // namespace tessera::cpu

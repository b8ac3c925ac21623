// sin, cos: x (2/pi) in fixed point, of which only the bits below 2^2 matter:
// 24 bits of x times the 96 bits of 2/pi that x's exponent selects (Payne and
// Hanek). Then polynomials on [-pi/4, pi/4]. Right for every x.
// asin, acos, atan, sinh: the argument reduced to where a short polynomial
// holds. asinh, acosh, atanh: by log1p, so that nothing cancels near zero (or
// one). x^y: e^(y log x), which loses |y log x| units of 2^-24. fmod: long
// division of the mantissas, eight bits of the quotient a step: exact.
#include "targets/Vulkan/SinglePrecision.h"
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "targets/Cpu/Convert.h"
#include "targets/Cpu/Expr.h"
#include "targets/Cpu/MathParts.h"

using namespace mlir;

namespace tessera::vulkan {
namespace {

using cpu::Expr;
using cpu::KernelEmitter;
using cpu::select, cpu::shl, cpu::shrU, cpu::shrS, cpu::ltU, cpu::fma, cpu::abs,
    cpu::sqrt, cpu::copysign, cpu::truncF, cpu::isNan;
using cpu::math::kInf, cpu::math::kNan, cpu::math::kPi2, cpu::math::kLn2;

Expr asInt(Expr x) {
  return {*x.e, arith::BitcastOp::create(x.e->b, x.e->loc, x.shaped(x.e->i32()),
                                         x.v)};
}
Expr asFloat(Expr x) {
  return {*x.e, arith::BitcastOp::create(x.e->b, x.e->loc, x.shaped(x.e->f32()),
                                         x.v)};
}
Expr toFloat(Expr i, bool isUnsigned = false) {
  Type type = i.shaped(i.e->f32());
  if (isUnsigned)
    return {*i.e, arith::UIToFPOp::create(i.e->b, i.e->loc, type, i.v)};
  return {*i.e, arith::SIToFPOp::create(i.e->b, i.e->loc, type, i.v)};
}
/// The two halves of a product of 32-bit numbers.
std::pair<Expr, Expr> wideProduct(Expr a, Expr c) {
  auto p = arith::MulUIExtendedOp::create(a.e->b, a.e->loc, a.v, c.v);
  return {Expr(*a.e, p.getHigh()), Expr(*a.e, p.getLow())};
}
/// c0 x^n + c1 x^(n-1) + ...
Expr polynomial(Expr x, std::initializer_list<double> coefficients) {
  Expr y = x.k(*coefficients.begin());
  for (double c : llvm::drop_begin(coefficients))
    y = fma(y, x, c);
  return y;
}

// --- trigonometry
// -------------------------------------------------------------------

struct Quadrant {
  Expr q, r; ///< x = q pi/2 + r, |r| <= pi/4 or so
};

Quadrant reduce(Expr x) {
  // 2/pi / 4 in words, the most significant first.
  static constexpr uint32_t words[] = {0,          0x28be60db, 0x9391054a,
                                       0x7f09d5f4, 0x7d4d3770, 0x36d8a566,
                                       0x4f10e410, 0x7f9458ea};
  Expr bits = asInt(x);
  Expr exponent = (shrU(bits, 23) & 0xff) - 126;
  Expr small = exponent < 0; // |x| < 1/2
  exponent = select(small, 0, exponent);
  Expr mantissa = shl(bits, 8) | int64_t(INT32_MIN);
  Expr word = shrU(exponent, 5), shift = exponent & 31;
  auto pick = [&](int64_t offset) { // words[word + offset]
    Expr v = word.ki(static_cast<int32_t>(words[offset]));
    for (int64_t k = 1; k < 5; ++k)
      if (k + offset < static_cast<int64_t>(std::size(words)))
        v = select(word == static_cast<double>(k),
                   v.ki(static_cast<int32_t>(words[k + offset])), v);
    return v;
  };
  Expr a = pick(0), b = pick(1), c = pick(2), d = pick(3);
  Expr none = shift == 0;
  Expr back = 32 - select(none, 1, shift); // a shift by 32 has no value
  auto joined = [&](Expr high, Expr low) {
    return shl(high, shift) | select(none, 0, shrU(low, back));
  };
  Expr high = joined(a, b), middle = joined(b, c), low = joined(c, d);
  Expr carry = wideProduct(mantissa, low).first;
  auto [p1, p0] = wideProduct(mantissa, middle);
  Expr sum = p0 + carry;
  Expr top = mantissa * high + p1 + select(ltU(sum, p0), sum.ki(1), 0);
  // Quarters of a turn above bit 30, rounded to the nearest.
  Expr q = shrU(top, 30), fraction = top & 0x3fffffff;
  Expr up = fraction >= 0x20000000;
  fraction = select(up, fraction - 0x40000000, fraction);
  q = select(up, q + 1, q);
  Expr r =
      fma(toFloat(fraction), 0x1p32, toFloat(sum, true)) * (kPi2 * 0x1p-62);
  Expr negative = bits < 0;
  r = select(negative, -r, r);
  q = select(negative, -q, q);
  return {select(small, 0, q), select(small, x, r)};
}

Expr sinOf(Expr r) {
  Expr z = r * r;
  Expr p = polynomial(z, {-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1});
  return fma(r * z, p, r);
}
Expr cosOf(Expr r) {
  Expr z = r * r;
  Expr p = polynomial(
      z, {2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2});
  return fma(z * z, p, fma(z, -0.5, 1.0));
}

Expr finite(Expr x, Expr y) { return select(abs(x) < kInf, y, kNan); }

Expr sine(Expr x, bool cosine) {
  Quadrant k = reduce(x);
  Expr s = sinOf(k.r), c = cosOf(k.r);
  Expr q = cosine ? k.q + 1 : k.q;
  Expr y = select((q & 1) == 0, s, c);
  return finite(x, select((q & 2) == 0, y, -y));
}

Expr tangent(Expr x) {
  Quadrant k = reduce(x);
  Expr s = sinOf(k.r), c = cosOf(k.r);
  return finite(x, select((k.q & 1) == 0, s / c, -(c / s)));
}

Expr arcTangent(Expr x) {
  Expr a = abs(x);
  Expr steep = a > 2.414213562373095, middle = a > 0.4142135623730950;
  Expr t =
      select(steep, -(a.k(1) / a), select(middle, (a - 1.0) / (a + 1.0), a));
  Expr base = select(steep, kPi2, select(middle, kPi2 / 2, a.k(0)));
  Expr z = t * t;
  Expr p = polynomial(z, {8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1,
                          -3.33329491539e-1});
  return copysign(base + fma(p * z, t, t), x);
}

/// Of 0 <= a <= 1/2.
Expr smallArcSine(Expr a) {
  Expr z = a * a;
  Expr p = polynomial(z, {4.2163199048e-2, 2.4181311049e-2, 4.5470025998e-2,
                          7.4953002686e-2, 1.6666752422e-1});
  return fma(p * z, a, a);
}

Expr arcSine(Expr x, bool cosine) {
  Expr a = abs(x), large = a > 0.5;
  Expr t = smallArcSine(
      select(large, sqrt((a.k(1) - a) * 0.5), a)); // pi/2 - 2 t if large
  Expr y;
  if (cosine) {
    Expr negative = x < 0.0;
    y = select(large, select(negative, 2 * kPi2 - t * 2.0, t * 2.0),
               kPi2 - select(negative, -t, t));
  } else {
    y = copysign(select(large, kPi2 - t * 2.0, t), x);
  }
  return select(a <= 1.0, y, kNan);
}

// --- hyperbolic functions
// --------------------------------------------------------------

/// e^|x| / 2 without overflow before its own.
Expr halfExp(Expr a) {
  Expr root = cpu::math::expScaled(a * 0.5, {}, 0);
  return root * (root * 0.5);
}

Expr hyperbolic(Expr x, bool cosine) {
  Expr a = abs(x), e = halfExp(a), rest = e.k(0.25) / e; // e^-|x| / 2
  if (cosine)
    return e + rest;
  Expr z = x * x;
  Expr p =
      polynomial(z, {2.03721912945e-4, 8.33028376239e-3, 1.66667160211e-1});
  return select(a <= 1.0, fma(p * z, x, x), copysign(e - rest, x));
}

Expr areaSine(Expr x) {
  Expr a = abs(x), huge = a > 1e9;
  Expr s = select(huge, 1.0, a);
  Expr small = cpu::math::log1p(s + s * s / (sqrt(fma(s, s, 1.0)) + 1.0));
  return copysign(select(huge, cpu::math::log(a) + kLn2, small), x);
}

Expr areaCosine(Expr x) {
  Expr huge = x > 1e9;
  Expr t = select(huge, 1.0, x - 1.0);
  Expr y = select(huge, cpu::math::log(x) + kLn2,
                  cpu::math::log1p(t + sqrt(t * (t + 2.0))));
  return select(x >= 1.0, y, kNan);
}

Expr areaTangent(Expr x) {
  Expr a = abs(x);
  Expr y = cpu::math::log1p(a * 2.0 / (a.k(1) - a)) * 0.5;
  y = select(a == 1.0, kInf, y);
  return select(a <= 1.0, copysign(y, x), kNan);
}

// --- power and remainder
// ---------------------------------------------------------------

/// `y` is the exponent; `odd` whether it is an odd integer, `whole` an integer.
Expr powerOf(Expr x, Expr y, Expr odd, Expr whole) {
  Expr a = abs(x);
  Expr r = cpu::math::expScaled(y * cpu::math::log(a), {}, 0);
  r = select(odd, copysign(r, x), r);
  r = select((x < 0.0) & (x > -kInf) & ~whole, kNan, r);
  r = select(isNan(x) | isNan(y), kNan, r);
  return select((y == 0.0) | (x == 1.0) | ((a == 1.0) & (abs(y) == kInf)), 1.0,
                r);
}

/// Exponents that need no logarithm, or null.
Value knownPower(Expr x, double c) {
  if (c == 0)
    return x.k(1);
  if (c == 1)
    return x;
  if (c == 2)
    return x * x;
  if (c == 3)
    return x * x * x;
  if (c == -1)
    return x.k(1) / x;
  if (c == 0.5) // sqrt but for -inf, and +0 for -0
    return select(x == -kInf, kInf, sqrt(x + 0.0));
  return {};
}

Value power(Operation *op, ArrayRef<Value> operands, Emitter &e) {
  Expr x(e, operands[0]), y(e, operands[1]);
  if (!x.isFloat()) { // it takes doubles
    e.reasons.no() << "a power of integers";
    return operands[0];
  }
  if (x.isF64() || (y.isFloat() && y.isF64()))
    return {};
  ElementsAttr constant = onnx::getConstant(op->getOperand(1));
  if (constant && constant.isSplat()) {
    double c;
    if (y.isFloat()) {
      APFloat f = constant.getSplatValue<APFloat>();
      c = f.convertToDouble();
    } else {
      APInt i = constant.getSplatValue<APInt>();
      c = constant.getElementType().isUnsignedInteger()
              ? i.roundToDouble()
              : i.signedRoundToDouble();
    }
    if (Value v = knownPower(x, c))
      return v;
  }
  if (y.isFloat()) {
    Expr whole = truncF(y) == y, half = y * 0.5;
    return powerOf(x, y, whole & (truncF(half) != half), whole);
  }
  Expr odd = (y & 1) != 0;
  Type type = cast<ShapedType>(op->getOperand(1).getType()).getElementType();
  return powerOf(x, toFloat(y, KernelEmitter::isUnsigned(type)), odd,
                 odd | ~odd);
}

/// C's fmod of the bit patterns, as floats.
Expr remainderOf(Emitter &e, Expr x, Expr y) {
  Expr xb = asInt(x) & 0x7fffffff, yb = asInt(y) & 0x7fffffff;
  auto mantissa = [](Expr b) {
    Expr m = b & 0x7fffff;
    return select(shrU(b, 23) == 0, m, m | 0x800000);
  };
  auto exponent = [](Expr b) {
    Expr k = shrU(b, 23);
    return select(k == 0, 1, k);
  };
  Expr my = mantissa(yb), ey = exponent(yb);
  my = select(my == 0, 1, my);
  auto rem = [&](Expr a) {
    return Expr(e, arith::RemUIOp::create(e.b, e.loc, a.v, my.v));
  };
  // 255 - 1 bits at most, eight a step.
  SmallVector<Value> out =
      e.loop(0, 32, 1, {rem(mantissa(xb)).v, (exponent(xb) - ey).v},
             [&](Index, ValueRange c) {
               Expr r(e, c[0]), d(e, c[1]);
               Expr step = select(d < 0, 0, select(d < 8, d, 8));
               return SmallVector<Value>{rem(shl(r, step)).v, (d - step).v};
             });
  // r 2^(ey - 150), exact in two factors.
  Expr k = ey - 150, k1 = shrS(k, 1), k2 = k - k1;
  auto powerOfTwo = [](Expr n) { return asFloat(shl(n + 127, 23)); };
  Expr r = toFloat(Expr(e, out[0])) * powerOfTwo(k1) * powerOfTwo(k2);
  r = select(abs(x) < abs(y), abs(x), r);
  Expr bad = isNan(x) | isNan(y) | (abs(x) == kInf) | (y == 0.0);
  return select(bad, kNan, copysign(r, x));
}

Value modulo(Operation *op, ArrayRef<Value> operands, Emitter &e) {
  Expr x(e, operands[0]), y(e, operands[1]);
  if (!x.isFloat() || x.isF64())
    return {};
  Expr r = remainderOf(e, x, y);
  if (onnx::getInt(op, "fmod"))
    return r;
  Expr other = (asInt(r) ^ asInt(y)) < 0;
  return select(r == 0.0, copysign(r, y), select(other, r + y, r));
}

using Unary = Expr (*)(Expr);
Unary unaryOf(StringRef name) {
  return llvm::StringSwitch<Unary>(name)
      .Case("Sin", [](Expr x) { return sine(x, false); })
      .Case("Cos", [](Expr x) { return sine(x, true); })
      .Case("Tan", tangent)
      .Case("Asin", [](Expr x) { return arcSine(x, false); })
      .Case("Acos", [](Expr x) { return arcSine(x, true); })
      .Case("Atan", arcTangent)
      .Case("Sinh", [](Expr x) { return hyperbolic(x, false); })
      .Case("Cosh", [](Expr x) { return hyperbolic(x, true); })
      .Case("Asinh", areaSine)
      .Case("Acosh", areaCosine)
      .Case("Atanh", areaTangent)
      .Default(nullptr);
}

} // namespace

Value emitInSingle(Operation *op, ArrayRef<Value> operands, Emitter &e) {
  if (e.device.has(Feature::Float64))
    return {};
  StringRef name = op->getName().stripDialect();
  Value v;
  if (Unary unary = unaryOf(name)) {
    Expr x(e, operands[0]);
    if (x.isFloat() && !x.isF64())
      v = unary(x);
  } else if (name == "Pow") {
    v = power(op, operands, e);
  } else if (name == "Mod") {
    v = modulo(op, operands, e);
  }
  if (!v)
    return {};
  return e.round(v,
                 cast<ShapedType>(op->getResult(0).getType()).getElementType());
}

std::pair<Value, Value> unitRoot(Emitter &e, Index j, int64_t n) {
  // 4 j = q n + rest, -n/2 <= rest < n/2
  Index quarters = e.mul(j, 4);
  Index q = e.div(e.add(e.mul(quarters, 2), n), 2 * n);
  Index rest = e.sub(quarters, e.mul(q, n));
  Expr r = toFloat(Expr(e, e.value(rest))) * (kPi2 / static_cast<double>(n));
  Expr s = sinOf(r), c = cosOf(r), k(e, e.value(q));
  Expr odd = (k & 1) == 1;
  Expr cosine = select(odd, s, c), sine = select(odd, c, s);
  cosine = select(((k + 1) & 2) == 0, cosine, -cosine);
  sine = select((k & 2) == 0, sine, -sine);
  return {cosine, sine};
}

} // namespace tessera::vulkan

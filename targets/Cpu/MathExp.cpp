// Exponential, logarithm, power.
//
// e^x      x = n ln 2 + r, |r| <= ln2 / 2; n by adding 1.5 * 2^mantissa, whose low
//          bits are then n as an integer (no conversion, no undefined result on
//          NaN); polynomial in r; 2^n in two factors, so that subnormal results
//          and the greatest finite ones come out right.
// log x    x = 2^n m, m in [sqrt(1/2), sqrt(2)), f = m - 1; f32: polynomial in f;
//          f64: log(1 + f) = 2 atanh(s), s = f / (2 + f), arranged so that f
//          is added last.
// x^y      f32: e^(y log x) in f64. f64: log as a sum of two numbers (relative
//          error 2^-66), multiplied by y exactly.
// Coefficients: tools/fit/fit.py.
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "targets/Cpu/MathParts.h"

#include <cmath>

using namespace mlir;

namespace tessera::cpu::math {

// (e^r - 1 - r) / r^2, |r| <= ln2 / 2; error 3.1e-9
static constexpr double expF32[] = {0.4999999337309525, 0.16666519524207057, 0.041668401078758834, 0.008368851058855546, 0.00138143209414645};
// the same, relative to e^r - 1; error 2.71e-10
static constexpr double expm1F32[] = {0.5000000053678185, 0.16666666905278069, 0.04166632433844187, 0.008333219109493969, 0.0013943420490179729, 0.00019962647972899725};
// (e^r - 1 - r) / r^2, |r| <= ln2 / 2; error 2.77e-18
static constexpr double expF64[] = {0.5000000000000001, 0.1666666666666667, 0.04166666666665207, 0.008333333333326044, 0.0013888888895674035, 0.0001984126987514937, 2.4801574440735802e-05, 2.7557254975036845e-06, 2.756796750293292e-07, 2.51053965180637e-08, 1.7687827624055678e-09};
// (log(1 + f) - f + f^2 / 2) / f^3, 1 + f in [sqrt(1/2), sqrt(2)]; error 7.49e-10
static constexpr double logF32[] = {0.3333331260429055, -0.250000095975627, 0.20002118641001426, -0.1666799592587642, 0.14219552745897587, -0.1240558811443238, 0.11888159038863627, -0.11675654553892556, 0.0674664978836376};
// (2 atanh(s) - 2 s) / s^3 in s^2, |s| <= 3 - sqrt(8); error 2.46e-18
static constexpr double logF64[] = {0.6666666666666734, 0.39999999999414676, 0.2857142874238778, 0.22222198573177263, 0.18183564326067939, 0.1531405056332274, 0.14795949502386863};
// ((2 atanh(s) - 2 s) / s^3 - 2 / 3) / s^2 in s^2; error 7.23e-23
static constexpr double powF64[] = {0.3999999999999998, 0.285714285714451, 0.22222222217539342, 0.18181818869961094, 0.15384556895139026, 0.1333631648958544, 0.11674837387754772, 0.11988855799544841};

namespace {

/// What depends on the type.
struct Shape {
  int mantissa, bias;
  double magic;      ///< 1.5 * 2^mantissa
  int64_t magicBits;
  double ln2High, ln2Low; ///< n * ln2High is exact
  double minNormal;
  int64_t sqrtHalfBits;
};

} // namespace

static const Shape &shapeOf(Expr x) {
  static const Shape f32{23, 127, 12582912.0, 0x4b400000, 0.693359375, -2.12194440054690583e-4,
                         0x1p-126, 0x3f3504f3};
  static const Shape f64{52, 1023, 6755399441055744.0, 0x4338000000000000, 0.6931471803691238,
                         1.9082149292705877e-10, 0x1p-1022, 0x3fe6a09e667f3bcd};
  return x.isF64() ? f64 : f32;
}

/// 2^n for integers n in the normal range.
static Expr powerOfTwo(Expr n) {
  int mantissa = n.width() == 64 ? 52 : 23, bias = n.width() == 64 ? 1023 : 127;
  return floatOf(shl(n + bias, mantissa));
}

namespace {
struct Reduced {
  Expr n;    ///< integer
  Expr r;
};
} // namespace

/// x = n ln 2 + r.
static Reduced reduceExp(Expr x) {
  const Shape &s = shapeOf(x);
  Expr t = fma(x, 1.4426950408889634, s.magic);
  Expr n = t - s.magic;
  Expr r = fma(n, -s.ln2High, x);
  r = fma(n, -s.ln2Low, r);
  return {bitsOf(t) - s.magicBits, r};
}

/// y 2^n for y near one and n of twice the exponent range. Two products, not an
/// addition to y's exponent: that would turn some NaNs into numbers.
static Expr scaleBy(Expr y, Expr n, int extra) {
  Expr half = shrS(n, 1);
  Expr rest = n - half;
  if (extra)
    rest = rest + extra;
  return y * powerOfTwo(half) * powerOfTwo(rest);
}

/// The same for n <= 0: one power of two, the other a constant.
static Expr scaleDownBy(Expr y, Expr n, int extra) {
  int lift = y.isF64() ? 512 : 64;
  return y * powerOfTwo(n + (lift + extra)) * std::ldexp(1.0, -lift);
}

Expr expScaled(Expr x, Expr low, int scale, Range range) {
  double lo = x.isF64() ? -746 : -105, hi = x.isF64() ? 711 : 90;
  if (range == Range::Any)
    x = minSecond(x.k(hi), x);
  if (range != Range::Normal)
    x = maxSecond(x.k(lo), x);
  Reduced q = reduceExp(x);
  if (low)
    q.r = q.r + low;
  Expr p = x.isF64() ? horner(q.r, expF64) : horner(q.r, expF32);
  Expr y = fma(q.r * q.r, p, q.r) + 1.0;
  if (range == Range::NonPositive)
    return scaleDownBy(y, q.n, scale);
  return range == Range::Normal && !scale ? y * powerOfTwo(q.n) : scaleBy(y, q.n, scale);
}

/// (e^x - 1) / 2 for x within the exponent range.
Expr halfExpm1(Expr x) {
  Reduced q = reduceExp(x);
  Expr p = x.isF64() ? horner(q.r, expF64) : horner(q.r, expm1F32);
  Expr m = fma(q.r * q.r, p, q.r); // e^r - 1
  Expr half = powerOfTwo(q.n - 1);
  return fma(half, m, half - 0.5);
}

Expr expm1(Expr x) {
  Expr z = x.isF64() ? clampKeepNan(x, -40, 711) : clampKeepNan(x, -20, 90);
  return copysign(halfExpm1(z) * 2.0, x);
}

namespace {
struct Decomposed {
  Expr n; ///< as a float
  Expr m; ///< in [sqrt(1/2), sqrt(2))
  Expr isOne; ///< n == 0
};
} // namespace

/// x = 2^n m for positive finite x; anything else gives nonsense.
static Decomposed decompose(Expr x, bool maybeSubnormal) {
  const Shape &s = shapeOf(x);
  Expr offset;
  if (maybeSubnormal) {
    Expr tiny = x < s.minNormal;
    x = select(tiny, x * std::ldexp(1.0, s.mantissa + 1), x);
    offset = select(tiny, bitsOf(x).ki(-(s.mantissa + 1)), bitsOf(x).ki(0));
  }
  Expr bits = bitsOf(x);
  Expr n = shrS(bits - s.sqrtHalfBits, s.mantissa);
  Expr m = floatOf(bits - shl(n, s.mantissa));
  if (offset)
    n = n + offset;
  return {floatOf(n + s.magicBits) - s.magic, m, n == 0};
}

/// n ln 2 + log(1 + f) + correction.
static Expr logOf(Expr n, Expr f, Expr correction) {
  const Shape &s = shapeOf(f);
  Expr low = n * s.ln2Low;
  if (correction)
    low = low + correction;
  if (!f.isF64()) {
    Expr z = f * f;
    Expr y = fma(z * f, horner(f, logF32), low);
    y = fma(z, -0.5, y);
    return fma(n, s.ln2High, f + y);
  }
  Expr q = f / (f + 2.0);
  Expr z = q * q;
  Expr series = z * horner(z, logF64); // (log(1 + f) - 2 s) / s
  Expr half = f * f * 0.5;
  Expr tail = fma(q, half + series, low);
  return n * s.ln2High - ((half - tail) - f);
}

Expr log(Expr x) {
  Decomposed d = decompose(x, true);
  Expr y = logOf(d.n, d.m - 1.0, {});
  Expr special = select(x == 0.0, -kInf, select(x < 0.0, kNan, x)); // +inf and NaN stay
  return select((x > 0.0) & (x < kInf), y, special);
}

Expr log1p(Expr x) {
  Expr u = x + 1.0;
  Decomposed d = decompose(u, false);
  Expr lost = select(x < 1.0, x - (u - 1.0), (x - u) + 1.0); // 1 + x = u + lost
  Expr f = select(d.isOne, x, d.m - 1.0);
  Expr c = select(d.isOne, 0.0, lost / u);
  Expr y = logOf(d.n, f, c);
  Expr special = select(x == -1.0, -kInf, select(x < -1.0, kNan, x));
  Expr normal = (x > -1.0) & (x < kInf) & (x != 0.0);
  return select(normal, y, special);
}

static Expr log2OfF64(Expr x) {
  Decomposed d = decompose(x, true);
  Expr l = logOf(d.n.k(0), d.m - 1.0, {});
  Expr y = fma(l, 1.4426950408889634, d.n);
  Expr special = select(x == 0.0, -kInf, select(x < 0.0, kNan, x));
  return select((x > 0.0) & (x < kInf), y, special);
}

static Expr exp2(Expr x) {
  const Shape &s = shapeOf(x);
  x = x.isF64() ? clampKeepNan(x, -1077, 1025) : clampKeepNan(x, -152, 129);
  Expr t = x + s.magic;
  Expr r = (x - (t - s.magic)) * kLn2;
  Expr p = x.isF64() ? horner(r, expF64) : horner(r, expF32);
  return scaleBy(fma(r * r, p, r) + 1.0, bitsOf(t) - s.magicBits, 0);
}

// --- power -----------------------------------------------------------------------

Sum twoProduct(Expr a, Expr c) {
  Expr p = a * c;
  if (a.e->isa.hasFma)
    return {p, fma(a, c, -p)};
  double split = a.isF64() ? 134217729.0 : 4097.0; // 2^27 + 1, 2^12 + 1
  auto halves = [&](Expr x) {
    Expr t = x * split;
    Expr h = t - (t - x);
    return Sum{h, x - h};
  };
  Sum x = halves(a), y = halves(c);
  return {p, x.low * y.low - (((p - x.high * y.high) - x.low * y.high) - x.high * y.low)};
}

/// log of positive finite x to 2^-66 or so.
static Sum logSum(Expr x) {
  const Shape &s = shapeOf(x);
  Decomposed d = decompose(x, true);
  Expr f = d.m - 1.0;
  // q = f / (2 + f) as high + low.
  Expr den = d.m + 1.0, denLow = d.m - (den - 1.0);
  Expr q = f / den;
  Sum back = twoProduct(q, den);
  Expr qLow = (((f - back.high) - back.low) - q * denLow) / den;
  Sum z = twoProduct(q, q);
  z.low = z.low + q * qLow * 2.0;
  // w = z (2/3 + z Q(z)), log(1 + f) = 2 q + q w.
  Sum w = twoProduct(z.high, z.high.k(0.6666666666666666));
  w.low = w.low + (z.low * 0.6666666666666666 + z.high * 3.700743415417188e-17);
  Sum w2 = quickTwoSum(w.high, z.high * z.high * horner(z.high, powF64));
  w2.low = w2.low + w.low;
  Sum p = twoProduct(q, w2.high);
  p.low = p.low + (q * w2.low + qLow * w2.high);
  Sum l = quickTwoSum(q * 2.0, p.high);
  l.low = l.low + (qLow * 2.0 + p.low);
  Sum r = quickTwoSum(d.n * s.ln2High, l.high);
  r.low = r.low + (d.n * s.ln2Low + l.low);
  return quickTwoSum(r.high, r.low);
}

/// C's pow without its speed traps: r is e^(y log |x|).
static Expr powSpecials(Expr x, Expr y, Expr r) {
  Expr absx = abs(x);
  Expr isInt = truncF(y) == y; // infinities count as even integers
  Expr half = y * 0.5;
  Expr odd = isInt & (truncF(half) != half);
  r = select(odd, copysign(r, x), r);
  r = select((x < 0.0) & (x > -kInf) & ~isInt, kNan, r);
  r = select(isNan(x) | isNan(y), kNan, r);
  r = select((y == 0.0) | (x == 1.0) | ((absx == 1.0) & (abs(y) == kInf)), 1.0, r);
  return r;
}

static std::optional<double> constantFloat(Value v) {
  while (auto cast = v.getDefiningOp<vector::BroadcastOp>())
    v = cast.getSource();
  Attribute attr;
  if (!matchPattern(v, m_Constant(&attr)))
    return std::nullopt;
  if (auto f = dyn_cast<FloatAttr>(attr))
    return f.getValueAsDouble();
  if (auto d = dyn_cast<SplatElementsAttr>(attr); d && isa<FloatType>(d.getElementType()))
    return d.getSplatValue<APFloat>().convertToDouble();
  return std::nullopt;
}

static Expr pow(Expr x, Expr y) {
  if (auto c = constantFloat(y)) {
    if (*c == 0)
      return x.k(1);
    if (*c == 1)
      return x;
    if (*c == 2)
      return x * x;
    if (*c == 3 && !x.isF64())
      return toF32(toF64(x) * toF64(x) * toF64(x));
    if (*c == -1)
      return x.k(1) / x;
    if (*c == 0.5) // sqrt but for -inf, and +0 for -0
      return select(x == -kInf, kInf, sqrt(x + 0.0));
  }
  if (!x.isF64()) {
    Expr l = log(abs(toF64(x)));
    return powSpecials(x, y, toF32(expScaled(toF64(y) * l, {}, 0)));
  }
  Expr absx = abs(x);
  Sum l = logSum(absx);
  Expr plain = (absx > 0.0) & (absx < kInf);
  Expr high = select(plain, l.high, select(absx == 0.0, -kInf, absx));
  Sum p = twoProduct(y, high);
  Expr inRange = plain & (abs(p.high) < 760.0) & (abs(y) < 0x1p970); // beyond, twoProduct may overflow
  Expr low = select(inRange, p.low + y * l.low, 0.0);
  return powSpecials(x, y, expScaled(p.high, low, 0));
}

// --- interface ---------------------------------------------------------------------

Value exp(KernelEmitter &e, Value x) { return expScaled({e, x}, {}, 0); }
Value expm1(KernelEmitter &e, Value x) { return expm1(Expr(e, x)); }
Value exp2(KernelEmitter &e, Value x) { return exp2(Expr(e, x)); }
Value log(KernelEmitter &e, Value x) { return log(Expr(e, x)); }
Value log1p(KernelEmitter &e, Value x) { return log1p(Expr(e, x)); }
Value log2(KernelEmitter &e, Value x) { return throughF64({e, x}, log2OfF64); }
Value pow(KernelEmitter &e, Value x, Value y) { return pow(Expr(e, x), Expr(e, y)); }

} // namespace tessera::cpu::math

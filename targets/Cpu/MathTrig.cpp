// Circular functions and their inverses.
//
// sin, cos, tan: x = q pi/2 + r, |r| <= pi/4.
//   f32      in f64 throughout; two-part pi/2, exact while |q| < 2^24.
//   f64      three-part pi/2 and r as a sum of two numbers, for |q| < 2^20.
//   beyond   lane by lane, in a branch that is not taken otherwise: mantissa times
//            the 192 bits of 2/pi that matter, in integers.
// asin, acos, atan: polynomial in f64 after halving or dividing the argument.
// Coefficients: tools/fit/fit.py.
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "targets/Cpu/MathParts.h"

using namespace mlir;

namespace tessera::cpu::math {

// (sin(r) - r) / r^3 in r^2, |r| <= pi / 4; error 5.16e-12
static constexpr double sinF32[] = {-0.1666666664079704, 0.008333329304840228, -0.00019839312268554642, 2.718121618653205e-06};
// (cos(r) - 1 + r^2 / 2) / r^4 in r^2; error 9.9e-14
static constexpr double cosF32[] = {0.04166666662282812, -0.0013888883753423156, 2.4799520013500696e-05, -2.7210238228018306e-07};
// (sin(r) - r) / r^3 in r^2, |r| <= pi / 4; error 3.62e-18
static constexpr double sinF64[] = {-0.1666666666666663, 0.008333333333322118, -0.00019841269829589558, 2.7557313621391465e-06, -2.5050747763627336e-08, 1.5896230195926255e-10};
// (cos(r) - 1 + r^2 / 2) / r^4 in r^2; error 4.66e-20
static constexpr double cosF64[] = {0.0416666666666666, -0.0013888888888874138, 2.4801587289491817e-05, -2.755731435523906e-07, 2.0875723684119064e-09, -1.1359669853626468e-11};
// (atan(x) - x) / x^3 in x^2, |x| <= tan(pi / 8); error 4.53e-20
static constexpr double atanF64[] = {-0.33333333333333326, 0.19999999999997695, -0.14285714285391068, 0.11111111088368883, -0.09090908151434511, 0.07692282915064717, -0.06666229070591967, 0.058770444847807454, -0.05218550653084841, 0.04504145096975233, -0.03348834682334878, 0.015209283162235842};
// (asin(x) - x) / x^3 in x^2, |x| <= 1 / 2; error 6.32e-20
static constexpr double asinF64[] = {0.1666666666666666, 0.07500000000002544, 0.0446428571396762, 0.03038194464527141, 0.0223721515852841, 0.017352945563450756, 0.013961871319809027, 0.011585984288458988, 0.009481993478143881, 0.01001908860877476, 0.0006513120648318968, 0.024893292445407195, -0.026235002068343612, 0.033692623577608445};

/// 2/pi, 64 bits a word, after one word of zeros (bits before the point).
static constexpr uint64_t twoOverPi[] = {0,
  0xa2f9836e4e441529ull, 0xfc2757d1f534ddc0ull, 0xdb6295993c439041ull, 0xfe5163abdebbc561ull,
  0xb7246e3a424dd2e0ull, 0x06492eea09d1921cull, 0xfe1deb1cb129a73eull, 0xe88235f52ebb4484ull,
  0xe99c7026b45f7e41ull, 0x3991d639835339f4ull, 0x9c845f8bbdf9283bull, 0x1ff897ffde05980full,
  0xef2f118b5a0a6d1full, 0x6d367ecf27cb09b7ull, 0x4f463f669e5fea2dull, 0x7527bac7ebe5f17bull,
  0x3d0739f78a5292eaull, 0x6bfb5fb11f8d5d08ull, 0x56033046fc7b6babull, 0xf0cfbc209af4361dull};

namespace {
struct Quadrant {
  Expr q;      ///< integer, its low two bits count
  Expr r, low; ///< low is null for f32
};
} // namespace

/// The product of two i64 as (high, low).
static std::pair<Expr, Expr> wideMul(Expr a, Expr c) {
  auto op = arith::MulUIExtendedOp::create(a.e->b, a.e->loc, a.v, c.v);
  return {Expr(*a.e, op.getHigh()), Expr(*a.e, op.getLow())};
}

/// q, r and low of one finite |x| >= 2^20, as f64 bit patterns for r and low.
static SmallVector<Value> reduceHuge(KernelEmitter &e, Value scalar) {
  Expr x(e, scalar);
  Expr bits = bitsOf(x);
  Expr m = (bits & 0xfffffffffffffll) | 0x10000000000000ll;
  // x = m 2^(E - 1075). Bits of 2/pi that give multiples of 4 are left out:
  // the window starts 1 + (E - 1075) - 2 bits after the point, 64 later in the table.
  Expr exponent = shrU(bits, 52) & 0x7ff;
  Expr start = exponent + (64 - 1075 - 2);
  start = select(start < 0, 0, start); // lanes that are not huge
  Expr word = shrU(start, 6), shift = start & 63;
  SmallVector<int64_t> table(std::begin(twoOverPi), std::end(twoOverPi));
  table.resize(24);
  auto type = VectorType::get({24}, e.i64());
  Value words = arith::ConstantOp::create(e.b, e.loc, DenseElementsAttr::get(type, ArrayRef(table)));
  auto load = [&](int i) {
    Expr at = word + i;
    at = select(ltU(at, 24), at, at.ki(23));
    Value index = arith::IndexCastOp::create(e.b, e.loc, e.b.getIndexType(), at.v);
    return Expr(e, vector::ExtractOp::create(e.b, e.loc, words, OpFoldResult(index)));
  };
  Expr w0 = load(0), w1 = load(1), w2 = load(2), w3 = load(3);
  auto funnel = [&](Expr high, Expr low) {
    Expr carried = shrU(shrU(low, 1), shift ^ 63); // low >> (64 - shift), also for 0
    return shl(high, shift) | carried;
  };
  Expr a2 = funnel(w0, w1), a1 = funnel(w1, w2), a0 = funnel(w2, w3);
  // m * (a2 : a1 : a0) mod 2^192, upper two words.
  auto [h1, l1] = wideMul(m, a1);
  Expr h0 = wideMul(m, a0).first;
  Expr mid = l1 + h0;
  Expr carry = select(ltU(mid, l1), mid.ki(1), mid.ki(0));
  Expr top = m * a2 + h1 + carry;
  // top : mid is x 2/pi mod 4 in units of 2^-126; round to the nearest quadrant.
  Expr q = shrU(top + (1ll << 61), 62);
  Expr fraction = shl(top, 2) | shrU(mid, 62); // signed, units of 2^-64
  Expr rest = shl(mid, 2);
  Expr f1 = fromInt(fraction, e.f64(), false);
  // 2^63 - something may round up to 2^63: the residual then wraps correctly.
  Expr f1i = Expr(e, arith::FPToSIOp::create(e.b, e.loc, e.i64(), select(f1 == 0x1p63, 0.0, f1).v));
  f1i = select(f1 == 0x1p63, f1i.ki(INT64_MIN), f1i);
  Expr f2 = fromInt(fraction - f1i, e.f64(), false) * 0x1p-64 + fromInt(rest, e.f64(), true) * 0x1p-128;
  Sum f = quickTwoSum(f1 * 0x1p-64, f2);
  Sum r = twoProduct(f.high, f.high.k(kPi2));
  r.low = r.low + (f.high * kPi2Low + f.low * kPi2);
  r = quickTwoSum(r.high, r.low);
  Expr negative = bits < 0;
  q = select(negative, q.ki(0) - q, q);
  return {q, bitsOf(select(negative, -r.high, r.high)), bitsOf(select(negative, -r.low, r.low))};
}

/// x in f64. If `single`, x came from f32 and r needs no low part.
static Quadrant reduceTrig(Expr x, bool single) {
  KernelEmitter &e = *x.e;
  constexpr double magic = 6755399441055744.0;
  Expr t = fma(x, 0.6366197723675814, magic);
  Expr n = t - magic;
  Quadrant k{bitsOf(t), {}, {}};
  if (single) {
    k.r = fma(n, -1.570796325802803, x);
    k.r = fma(n, -9.920935796805404e-10, k.r);
  } else {
    Sum a = twoSum(fma(n, -1.5707963267341256, x), n * -6.077100506303966e-11);
    Expr tail = fma(n, -2.0222662487959506e-21, a.low);
    Sum r = quickTwoSum(a.high, tail);
    k.r = r.high;
    k.low = r.low;
  }
  Expr huge = (abs(x) >= (single ? 0x1p24 : 0x1p20)) & (abs(x) < kInf);
  Value any = huge;
  if (isa<VectorType>(any.getType()))
    any = vector::ReductionOp::create(e.b, e.loc, vector::CombiningKind::OR, any);
  Value zero = e.idx(0);
  SmallVector<Type> types{k.q.type(), k.r.type(), k.r.type()};
  Expr low = k.low ? k.low : k.r.k(0);
  auto slow = [&]() -> SmallVector<Value> {
    Expr bits[3] = {k.q, bitsOf(k.r), bitsOf(low)};
    auto vec = dyn_cast<VectorType>(x.type());
    SmallVector<Value> out;
    if (!vec) {
      SmallVector<Value> s = reduceHuge(e, x);
      return {s[0], floatOf(Expr(e, s[1])), floatOf(Expr(e, s[2]))};
    }
    Value lanes = e.laneCount({static_cast<unsigned>(vec.getDimSize(0)), vec.isScalable()});
    out = e.forLoop(zero, lanes, e.idx(1), ValueRange{bits[0].v, bits[1].v, bits[2].v},
                    [&](Value i, ValueRange carried) {
                      Value at = arith::IndexCastOp::create(e.b, e.loc, e.b.getIndexType(), i);
                      Value lane = vector::ExtractOp::create(e.b, e.loc, x.v, OpFoldResult(at));
                      Value on = vector::ExtractOp::create(e.b, e.loc, huge.v, OpFoldResult(at));
                      SmallVector<Value> s = reduceHuge(e, lane), next;
                      for (unsigned j = 0; j < 3; ++j) {
                        Value old = vector::ExtractOp::create(e.b, e.loc, carried[j], OpFoldResult(at));
                        next.push_back(vector::InsertOp::create(e.b, e.loc, e.select(on, s[j], old),
                                                                carried[j], OpFoldResult(at)));
                      }
                      return next;
                    });
    return {out[0], floatOf(Expr(e, out[1])), floatOf(Expr(e, out[2]))};
  };
  SmallVector<Value> r = e.ifElse(any, types, slow, [&] { return SmallVector<Value>{k.q.v, k.r.v, low.v}; });
  k.q = {e, r[0]};
  k.r = {e, r[1]};
  if (k.low)
    k.low = {e, r[2]};
  return k;
}

namespace {
struct SinCos {
  Expr sin, cos; ///< of r
};
} // namespace

static SinCos sinCosOf(const Quadrant &k) {
  Expr r = k.r, z = r * r;
  if (!k.low)
    return {fma(r * z, horner(z, sinF32), r), fma(z * z, horner(z, cosF32), fma(z, -0.5, 1.0))};
  // sin(r + l) = r + (l + r^3 S - l z / 2); cos(r + l) = 1 - z/2 + (z^2 C - r l).
  Expr s = r + (fma(r * z, horner(z, sinF64), k.low) - k.low * z * 0.5);
  Expr half = z * 0.5, w = half.k(1) - half;
  Expr c = w + (((w.k(1) - w) - half) + (z * z * horner(z, cosF64) - r * k.low));
  return {s, c};
}

/// sin of x + quarter pi/2.
static Expr circular(Expr x, int quarter) {
  bool single = !x.isF64();
  Quadrant k = reduceTrig(toF64(x), single);
  SinCos v = sinCosOf(k);
  Expr q = quarter ? k.q + quarter : k.q;
  Expr y = select((q & 1) != 0, v.cos, v.sin);
  y = floatOf(bitsOf(y) ^ shl(q & 2, 62));
  if (single)
    y = toF32(y);
  if (quarter)
    return y;
  return select(abs(x) < (single ? 0x1p-13 : 0x1p-27), x, y); // and -0
}

static Expr tan(Expr x) {
  bool single = !x.isF64();
  Quadrant k = reduceTrig(toF64(x), single);
  SinCos v = sinCosOf(k);
  Expr odd = (k.q & 1) != 0;
  Expr y = select(odd, -v.cos, v.sin) / select(odd, v.sin, v.cos);
  if (single)
    y = toF32(y);
  return select(abs(x) < (single ? 0x1p-13 : 0x1p-27), x, y);
}

// --- inverses -------------------------------------------------------------------

namespace {
struct Arc {
  Expr p;   ///< asin of |x| if small, else of sqrt((1 - |x|) / 2)
  Expr big; ///< |x| > 1/2
};
} // namespace

static Arc arcOf(Expr x) {
  Expr a = abs(x);
  Expr big = a > 0.5;
  Expr half = (a.k(1) - a) * 0.5;
  Expr z = select(big, half, x * x);
  Expr t = select(big, sqrt(half), a);
  return {fma(t * z, horner(z, asinF64), t), big};
}

static Expr asin(Expr x) {
  Arc a = arcOf(x);
  return copysign(select(a.big, (a.p * -2.0 + kPi2Low) + kPi2, a.p), x);
}

static Expr acos(Expr x) {
  Arc a = arcOf(x);
  Expr twice = a.p * 2.0;
  Expr outer = select(x > 0.0, twice, (twice.k(2 * kPi2Low) - twice) + 2 * kPi2);
  Expr inner = (copysign(a.p, -x) + kPi2Low) + kPi2;
  return select(a.big, outer, inner);
}

static Expr atan(Expr x) {
  Expr a = abs(x);
  Expr big = a > 2.414213562373095, mid = a > 0.41421356237309503;
  Expr num = select(big, -1.0, select(mid, a - 1.0, a));
  Expr den = select(big, a, select(mid, a + 1.0, a.k(1)));
  Expr t = num / den, z = t * t;
  Expr base = select(big, kPi2, select(mid, a.k(kPi2 / 2), a.k(0)));
  Expr low = select(big, kPi2Low, select(mid, a.k(kPi2Low / 2), a.k(0)));
  Expr y = base + (fma(t * z, horner(z, atanF64), low) + t);
  return copysign(y, x);
}

static Expr atan2(Expr y, Expr x) {
  Expr ax = abs(x), ay = abs(y);
  Expr steep = ay > ax;
  Expr num = select(steep, ax, ay), den = select(steep, ay, ax);
  Expr ratio = num / den;
  ratio = select(den == 0.0, 0.0, ratio);
  ratio = select(num == kInf, 1.0, ratio);
  Expr r = atan(ratio);
  r = select(steep, (r.k(kPi2Low) - r) + kPi2, r);
  r = select(bitsOf(x) < 0, (r.k(2 * kPi2Low) - r) + 2 * kPi2, r);
  r = copysign(r, y);
  return select(isNan(x) | isNan(y), kNan, r);
}

// --- interface ---------------------------------------------------------------------

Value sin(KernelEmitter &e, Value x) { return circular({e, x}, 0); }
Value cos(KernelEmitter &e, Value x) { return circular({e, x}, 1); }
Value tan(KernelEmitter &e, Value x) { return tan(Expr(e, x)); }
Value asin(KernelEmitter &e, Value x) { return throughF64({e, x}, [](Expr v) { return asin(v); }); }
Value acos(KernelEmitter &e, Value x) { return throughF64({e, x}, [](Expr v) { return acos(v); }); }
Value atan(KernelEmitter &e, Value x) { return throughF64({e, x}, [](Expr v) { return atan(v); }); }
Value atan2(KernelEmitter &e, Value y, Value x) {
  Expr a(e, y), c(e, x);
  if (a.isF64())
    return atan2(a, c);
  return toF32(atan2(toF64(a), toF64(c)));
}

} // namespace tessera::cpu::math

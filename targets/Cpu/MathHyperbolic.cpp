// Hyperbolic functions, error function, sigmoid, normal distribution.
//
// tanh       u / (u + 1), u = (e^(2|x|) - 1) / 2: no cancellation anywhere
// sinh, cosh from e^|x| and e^|x| - 1, halved inside the exponent
// erf, erfc  |x| small: x + x P(x^2); else f32 e^(polynomial), f64 e^(-x^2) times a
//            polynomial in (x - 3) / (x + 3)
// Coefficients: tools/fit/fit.py.
#include "targets/Cpu/MathParts.h"

using namespace mlir;

namespace tessera::cpu::math {

// (erf(x) - x) / x in x^2, x <= 0.95; error 2.2e-8
static constexpr double erfSmallF32[] = {0.1283791423106927, -0.37612445930925653, 0.11281320653820939, -0.026748863340455984, 0.004967505739451051, -0.0005862077620431097};
// (log(erfc(t)) + t) / t, 0.9 <= t <= 4; error 7.95e-10
static constexpr double erfcLogF32[] = {-0.12864096349557813, -0.6351814995588773, -0.10618760840002012, 0.023720183955626733, -0.0036229177948400495, 0.00031805945164575534, -1.076315005850163e-05};
// log(erfc(t)) + t^2, 0.9 <= t <= 10.1; error 5.03e-9
static constexpr double erfcTailF32[] = {0.0002021460441721326, -1.1297956270349983, 0.36756187703731913, -0.10972311387797712, 0.02641801356911122, -0.004869541904426278, 0.0006598188940951457, -6.286301118441875e-05, 3.9539401213845095e-06, -1.4660086006281758e-07, 2.4176906319604783e-09};
// (erf(x) - x) / x in x^2, x <= 1; error 1.26e-19
static constexpr double erfSmallF64[] = {0.1283791670955126, -0.3761263890318375, 0.11283791670954885, -0.026866170645077868, 0.0052239776248283725, -0.0008548326981422798, 0.00012055331132874005, -1.4925595770586982e-05, 1.6461008457373994e-06, -1.6350396053685268e-07, 1.4660327863979565e-08, -1.1374953366400434e-09, 5.960682749646581e-11};
// e^(x^2) erfc(x) in t = (x - 3) / (x + 3), 1 <= x <= 28; error 2.17e-19
static constexpr double erfcLargeF64[] = {0.17900115118138996, -0.3262335600430372, 0.24560380171233084, -0.15011593650077706, 0.07166583719798038, -0.02439249931868175, 0.004269136332762246, 0.0007077464392584566, -0.0005970619473180286, 4.5255292390460245e-05, 6.405654746654432e-05, -1.286043361272371e-05, -7.978136927015886e-06, 2.119628553150653e-06, 1.252874801248577e-06, -2.927213826174005e-07, -2.3685364487715748e-07, 2.707424497760971e-08, 5.22416220988864e-08, -7.693873155115399e-10, -1.3304374241788594e-08, 3.506332446895508e-09};

static Expr tanh(Expr x) {
  Expr a = minSecond(x.k(x.isF64() ? 22 : 10), abs(x));
  Expr u = halfExpm1(a + a);
  return copysign(u / (u + 1.0), x);
}

static Expr sinh(Expr x) {
  Expr a = abs(x);
  Expr t = expm1(minSecond(a.k(30), a));
  Expr small = (t + t / (t + 1.0)) * 0.5;
  Expr y = select(a > 22.0, expScaled(a, {}, -1), small);
  return copysign(y, x);
}

static Expr cosh(Expr x) {
  Expr half = expScaled(abs(x), {}, -1);
  return half + half.k(0.25) / half;
}

static Expr asinh(Expr x) {
  Expr a = abs(x), z = a * a;
  Expr t = log1p(a + z / (sqrt(z + 1.0) + 1.0));
  Expr y = select(a > 0x1p28, log(a) + kLn2, t);
  return copysign(y, x);
}

static Expr acosh(Expr x) {
  Expr t = x - 1.0;
  Expr y = select(x > 0x1p28, log(x) + kLn2, log1p(t + sqrt(fma(t, t, t * 2.0))));
  return select(x < 1.0, kNan, y);
}

static Expr atanh(Expr x) {
  Expr a = abs(x);
  return copysign(log1p((a + a) / (a.k(1) - a)) * 0.5, x);
}

static Expr sigmoid(Expr x) {
  Expr z = expScaled(-abs(x), {}, 0, Range::NonPositive);
  return select(x < 0.0, z, z.k(1)) / (z + 1.0);
}

/// e^(-x^2) times a smooth factor: erfc of 1 <= x <= 28.
static Expr erfcLarge(Expr x) {
  Expr t = (x - 3.0) / (x + 3.0);
  Sum square = twoProduct(x, x);
  return expScaled(-square.high, -square.low, 0) * horner(t, erfcLargeF64);
}

static Expr erf(Expr x) {
  Expr a = abs(x);
  if (x.isF64()) {
    Expr small = fma(x, horner(x * x, erfSmallF64), x);
    Expr t = minSecond(a.k(6.5), maxSecond(a, a.k(1)));
    Expr large = copysign(a.k(1) - erfcLarge(t), x);
    return select(a > 1.0, large, small);
  }
  Expr small = fma(x, horner(x * x, erfSmallF32), x);
  Expr t = minSecond(a.k(4), a);
  Expr large = a.k(1) - expScaled(fma(t, horner(t, erfcLogF32), -t), {}, 0, Range::Normal);
  return select(a > 0.92, copysign(large, x), small);
}

Value normalCdf(KernelEmitter &e, Value v) {
  Expr x(e, v);
  Expr u = x * 0.7071067811865476;
  Expr a = abs(u);
  Expr tail, small;
  if (x.isF64()) {
    small = fma(u, horner(u * u, erfSmallF64), u);
    tail = erfcLarge(minSecond(a.k(28), maxSecond(a, a.k(1)))) * 0.5;
  } else {
    small = fma(u, horner(u * u, erfSmallF32), u);
    Expr t = minSecond(a.k(10.1), a);
    tail = expScaled(horner(t, erfcTailF32) - t * t, {}, -1, Range::NonPositive);
  }
  Expr large = select(x < 0.0, tail, tail.k(1) - tail);
  return select(a > (x.isF64() ? 1.0 : 0.92), large, fma(small, 0.5, 0.5));
}

// --- interface ---------------------------------------------------------------------

Value tanh(KernelEmitter &e, Value x) { return tanh(Expr(e, x)); }
Value sinh(KernelEmitter &e, Value x) { return throughF64({e, x}, [](Expr v) { return sinh(v); }); }
Value cosh(KernelEmitter &e, Value x) { return throughF64({e, x}, [](Expr v) { return cosh(v); }); }
Value asinh(KernelEmitter &e, Value x) { return throughF64({e, x}, [](Expr v) { return asinh(v); }); }
Value acosh(KernelEmitter &e, Value x) { return throughF64({e, x}, [](Expr v) { return acosh(v); }); }
Value atanh(KernelEmitter &e, Value x) { return throughF64({e, x}, [](Expr v) { return atanh(v); }); }
Value erf(KernelEmitter &e, Value x) { return erf(Expr(e, x)); }
Value sigmoid(KernelEmitter &e, Value x) { return sigmoid(Expr(e, x)); }

} // namespace tessera::cpu::math

// Conversions between element types, and between memory and value types.
//
// The small floats are described by a table and handled by one set of formulas
// over f32 bit patterns. With m mantissa bits, least normal N = 2^(1 - bias) and
// quantum Q = N / 2^m of the subnormals:
//   round   |x| >= N: add half of the last kept place (less one, plus that
//           place's bit: half to even) to the bits, clear the rest;
//           |x| < N: (|x| + C) - C with C = Q * 2^23 rounds to multiples of Q
//   code    |x| >= N: bits >> (23 - m), rebased exponent; else bits(|x| + C) - bits(C)
//   value   the reverse; subnormals as bits^-1(bits(C) + code) - C
// No step meets an f32 subnormal unless the type itself is that small, so
// flush-to-zero does not disturb them.
#include "targets/Cpu/Convert.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "targets/Cpu/Expr.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace tessera::cpu {

namespace {

/// What the codes beyond the finite numbers mean.
enum class Specials {
  Ieee,    ///< infinities and NaNs
  NanOnly, ///< all ones is NaN, no infinity
  Fnuz,    ///< the code of -0 is NaN
  None     ///< finite only; NaN is converted to -0
};

struct Format {
  unsigned bits, mantissa;
  int bias;
  Specials specials;
  double max;
  int64_t nanCode; ///< without sign
  double minNormal() const { return std::ldexp(1.0, 1 - bias); }
  double magic() const { return std::ldexp(1.0, 24 - bias - static_cast<int>(mantissa)); }
  int64_t magicBits() const { return (127ll + 24 - bias - mantissa) << 23; }
  int64_t rebase() const { return (127ll - bias) << 23; }
  int64_t infCode() const { return ((1ll << (bits - 1 - mantissa)) - 1) << mantissa; }
  unsigned shift() const { return 23 - mantissa; }
};

} // namespace

static std::optional<Format> formatOf(Type t) {
  using S = Specials;
  if (t.isF16())
    return Format{16, 10, 15, S::Ieee, 65504, 0x7e00};
  if (isa<Float8E4M3FNType>(t))
    return Format{8, 3, 7, S::NanOnly, 448, 0x7f};
  if (isa<Float8E4M3FNUZType>(t))
    return Format{8, 3, 8, S::Fnuz, 240, 0x80};
  if (isa<Float8E5M2Type>(t))
    return Format{8, 2, 15, S::Ieee, 57344, 0x7e};
  if (isa<Float8E5M2FNUZType>(t))
    return Format{8, 2, 16, S::Fnuz, 57344, 0x80};
  if (isa<Float6E2M3FNType>(t))
    return Format{6, 3, 1, S::None, 7.5, 0};
  if (isa<Float6E3M2FNType>(t))
    return Format{6, 2, 3, S::None, 28, 0};
  if (isa<Float4E2M1FNType>(t))
    return Format{4, 1, 1, S::None, 6, 0};
  return std::nullopt;
}

bool isConvertible(Type t) {
  if (auto i = dyn_cast<IntegerType>(t))
    return i.getWidth() <= 64;
  return t.isF32() || t.isF64() || t.isBF16() || isa<Float8E8M0FNUType>(t) || formatOf(t).has_value();
}

/// Converts between float formats natively where the ISA has it.
static bool nativeHalf(KernelEmitter &e, Type t) { return t.isF16() && e.isa.hasHalfConvert; }

static Expr nativeTruncHalf(Expr x) {
  Type half = Float16Type::get(x.e->b.getContext());
  return {*x.e, arith::TruncFOp::create(x.e->b, x.e->loc, x.shaped(half), x.v)};
}

// --- rounding ------------------------------------------------------------------

/// bits + what rounds them half to even at `shift`; low bits not yet cleared.
static Expr roundBits(Expr bits, unsigned shift) {
  Expr odd = shrU(bits, shift) & 1;
  return bits + odd + ((1ll << (shift - 1)) - 1);
}

/// f32 to what bfloat16 holds. The addition would carry a NaN into an infinity.
static Expr roundBf16(Expr x) {
  Expr r = floatOf(roundBits(bitsOf(x), 16) & ~0xffffll);
  return select(isNan(x), std::numeric_limits<double>::quiet_NaN(), r);
}

/// f32 to what `f` holds, infinities and NaN by the format.
static Expr roundTo(Expr x, const Format &f, bool saturate) {
  Expr bits = bitsOf(x);
  Expr sign = bits & 0x80000000ll;
  Expr mag = bits & 0x7fffffffll;
  Expr absx = floatOf(mag);
  Expr normal = floatOf(roundBits(mag, f.shift()) & ~((1ll << f.shift()) - 1));
  Expr subnormal = (absx + f.magic()) - f.magic();
  Expr r = select(absx < f.minNormal(), subnormal, normal);
  constexpr double inf = std::numeric_limits<double>::infinity();
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  bool toMax = f.specials == Specials::None || (saturate && f.bits < 16);
  double over = toMax ? f.max : f.specials == Specials::Ieee ? inf : nan;
  r = select(r > f.max, over, r);
  if (f.specials == Specials::Fnuz)
    sign = select(r == 0.0, 0, sign);
  r = floatOf(bitsOf(r) | sign);
  return select(isNan(x), f.specials == Specials::None ? -0.0 : nan, r);
}

Value roundE8M0(KernelEmitter &e, Value v, E8M0Round mode, bool saturate) {
  Expr bits = bitsOf(Expr(e, v));
  Expr exponent = shrU(bits, 23) & 0xff;
  Expr fraction = bits & 0x7fffff;
  // The greatest finite exponent becomes NaN (255) by rounding up unless saturated.
  if (mode != E8M0Round::Down) {
    Expr up = mode == E8M0Round::Up ? fraction != 0
                                    : (fraction > 0x400000) | ((fraction == 0x400000) & (exponent != 0));
    if (saturate)
      up = up & (exponent != 0xfe);
    Expr next = exponent + 1;
    exponent = select(up & (exponent != 0xff), next, exponent);
  }
  Expr value = shl(exponent, 23);
  value = select(exponent == 0, 0x400000, value); // 2^-127
  value = select(exponent == 0xff, 0x7fc00000, value);
  return floatOf(value);
}

Value KernelEmitter::round(Value v, Type element) {
  Expr x(*this, v);
  if (!::mlir::isa<FloatType>(element) || element.isF32() || element.isF64())
    return v;
  if (nativeHalf(*this, element))
    return arith::ExtFOp::create(b, loc, x.shaped(f32()), nativeTruncHalf(x).v);
  if (element.isBF16())
    return roundBf16(x);
  if (::mlir::isa<Float8E8M0FNUType>(element))
    return roundE8M0(*this, v, E8M0Round::Up, true);
  return roundTo(x, *formatOf(element), true);
}

// --- memory forms ----------------------------------------------------------------

Value widenStorage(KernelEmitter &e, Value raw, Type element) {
  if (element.isF32() || element.isF64())
    return raw;
  Expr x(e, raw);
  if (element.isInteger(1))
    return x != 0;
  if (auto i = dyn_cast<IntegerType>(element)) {
    if (i.getWidth() >= 8 || i.isUnsigned())
      return raw;
    return shrS(shl(x, 8 - i.getWidth()), 8 - i.getWidth());
  }
  if (nativeHalf(e, element)) {
    Expr half(e, arith::BitcastOp::create(e.b, e.loc, x.shaped(element), raw));
    return Expr(e, arith::ExtFOp::create(e.b, e.loc, x.shaped(e.f32()), half.v));
  }
  Expr c = intType(x, 32, true);
  if (element.isBF16())
    return floatOf(shl(c, 16));
  if (isa<Float8E8M0FNUType>(element)) {
    Expr value = select(c == 0, 0x400000, shl(c, 23));
    return floatOf(select(c == 0xff, 0x7fc00000, value));
  }
  Format f = *formatOf(element);
  Expr mag = c & ((1ll << (f.bits - 1)) - 1);
  Expr sign = shl(shrU(c, f.bits - 1), 31);
  Expr normal = shl(mag, f.shift()) + f.rebase();
  Expr subnormal = bitsOf(floatOf(mag + f.magicBits()) - f.magic());
  Expr value = select(mag < (1ll << f.mantissa), subnormal, normal);
  if (f.specials == Specials::Ieee)
    value = select(mag >= f.infCode(), shl(mag, f.shift()) | 0x7f800000, value);
  else if (f.specials == Specials::NanOnly)
    value = select(mag == f.nanCode, 0x7fc00000, value);
  value = value | sign;
  if (f.specials == Specials::Fnuz)
    value = select(c == f.nanCode, 0x7fc00000, value);
  return floatOf(value);
}

// Half-precision types are rounded here once more: a kernel that forgot `round`
// is then right all the same, and on a rounded value it changes nothing.
Value narrowStorage(KernelEmitter &e, Value value, Type element) {
  if (element.isF32() || element.isF64())
    return value;
  Expr x(e, value);
  if (element.isInteger(1))
    return intType(x, 8, true);
  if (isa<IntegerType>(element))
    return value;
  if (nativeHalf(e, element)) {
    Expr half = nativeTruncHalf(x);
    Type bits = IntegerType::get(e.b.getContext(), 16);
    return arith::BitcastOp::create(e.b, e.loc, x.shaped(bits), half.v);
  }
  if (element.isBF16())
    return intType(shrU(bitsOf(roundBf16(x)), 16), 16, true);
  if (isa<Float8E8M0FNUType>(element)) {
    Expr code = shrU(bitsOf(x), 23) & 0xff;
    return intType(code, 8, true);
  }
  Format f = *formatOf(element);
  Expr bits = bitsOf(x);
  Expr mag = bits & 0x7fffffffll;
  Expr absx = floatOf(mag);
  Expr normal = shrU((f.bits == 16 ? roundBits(mag, f.shift()) : mag) - f.rebase(), f.shift());
  Expr subnormal = bitsOf(absx + f.magic()) - f.magicBits();
  Expr code = select(absx < f.minNormal(), subnormal, normal);
  if (f.specials == Specials::Ieee)
    code = select(absx > f.max, f.infCode(), code);
  code = select(isNan(x), f.nanCode, code);
  Expr sign = shl(shrU(bits, 31), f.bits - 1);
  if (f.specials == Specials::Fnuz)
    sign = select(code == 0, 0, sign);
  return intType(code | sign, f.bits == 16 ? 16 : 8, true);
}

// --- casts -----------------------------------------------------------------------

/// f64 to f32 with the last bit set if inexact: a later rounding to fewer than
/// 23 bits is then a single one.
static Expr roundToOdd(Expr x) {
  Expr t = toF32(x);
  Expr back = toF64(t);
  Expr bits = bitsOf(t);
  Expr even = (bits & 1) == 0;
  // One place towards x, in units of the magnitude.
  Expr fix = select(abs(back) > abs(x), bits.ki(-1), bits.ki(1));
  Expr inexact = (back < x) | (back > x);
  return floatOf(select(inexact & even, bits + fix, bits));
}

/// Integer of `width` bits, saturated, NaN to 0.
static Expr floatToInt(Expr x, unsigned width, bool isUnsigned) {
  KernelEmitter &e = *x.e;
  Type t = x.shaped(IntegerType::get(e.b.getContext(), width));
  StringRef name = isUnsigned ? "llvm.fptoui.sat" : "llvm.fptosi.sat";
  return {e, LLVM::CallIntrinsicOp::create(e.b, e.loc, t, e.b.getStringAttr(name), ValueRange{x.v}).getResult(0)};
}

/// Keeps the low `width` bits of an i8, extended.
static Expr wrapNibble(Expr x, unsigned width, bool isUnsigned) {
  if (isUnsigned)
    return x & ((1ll << width) - 1);
  return shrS(shl(x, 8 - width), 8 - width);
}

/// An i64 or ui64 as f64 rounded to odd (see roundToOdd).
static Expr wideToF64(Expr x, bool isUnsigned) {
  Expr odd = (x & ~0x7ffll) | select((x & 0x7ff) != 0, x.ki(0x800), x.ki(0));
  Expr small = isUnsigned ? ltU(shrU(x, 53), 1) : ltU(shrS(x, 53) + 1, 2);
  return fromInt(select(small, x, odd), x.e->f64(), isUnsigned);
}

static Value intToFloat(KernelEmitter &e, Expr x, bool isUnsigned, Type to, bool saturate) {
  if (to.isF32() || to.isF64())
    return fromInt(x, to, isUnsigned);
  // Up to 16 bits f32 is exact; beyond, round once.
  Expr f = x.width() <= 16   ? fromInt(x, e.f32(), isUnsigned)
           : x.width() == 32 ? roundToOdd(fromInt(x, e.f64(), isUnsigned))
                             : roundToOdd(wideToF64(x, isUnsigned));
  if (auto format = formatOf(to); format && format->bits < 16)
    return roundTo(f, *format, saturate);
  return e.round(f, to);
}

Value KernelEmitter::cast(Value v, Type from, Type to, bool saturate) {
  Expr x(*this, v);
  bool fromFloat = isFloat(from), toFloat = isFloat(to);
  if (to.isInteger(1))
    return from.isInteger(1) ? v : Value(x != 0);
  if (from.isInteger(1)) {
    Type t = x.shaped(valueType(to));
    Expr zero(*this, toFloat ? floatConst(t, 0) : intConst(t, 0));
    return tessera::cpu::select(x, zero.ki(1) , zero);
  }
  unsigned toBits = toFloat ? 0 : to.getIntOrFloatBitWidth();
  if (!fromFloat && !toFloat) {
    Expr r = intType(x, std::max(8u, toBits), isUnsigned(from));
    return toBits < 8 ? wrapNibble(r, toBits, isUnsigned(to)) : r;
  }
  if (!fromFloat)
    return intToFloat(*this, x, isUnsigned(from), to, saturate);
  if (!toFloat) {
    if (toBits < 8)
      return wrapNibble(intType(floatToInt(x, 32, false), 8, false), toBits, isUnsigned(to));
    return floatToInt(x, toBits, isUnsigned(to));
  }
  if (to.isF64())
    return toF64(x);
  if (to.isF32())
    return toF32(x);
  if (::mlir::isa<Float8E8M0FNUType>(to))
    return roundE8M0(*this, toF32(x), E8M0Round::Up, saturate);
  if (x.isF64())
    x = roundToOdd(x);
  if (auto format = formatOf(to); format && format->bits < 16)
    return roundTo(x, *format, saturate);
  return round(x, to);
}

} // namespace tessera::cpu

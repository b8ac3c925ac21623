// Values as C++ expressions, for the formulas of Math*.cpp, Convert.cpp and
// Elementwise*.cpp: `p * r + 1.0` emits arith ops of the operand's type.
//
// An Expr holds a scalar or vector of float or signless integer. Numbers become
// constants of the other operand's type. Shifts, `udiv` and unsigned compares
// are named functions; `/` and `<` on integers are signed. Nothing is fused or
// reassociated behind the back: `fma` says where.
#ifndef TESSERA_TARGETS_CPU_EXPR_H
#define TESSERA_TARGETS_CPU_EXPR_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "targets/Cpu/KernelEmitter.h"

#include <concepts>
#include <type_traits>

namespace tessera::cpu {

struct Expr {
  KernelEmitter *e = nullptr;
  mlir::Value v;

  Expr() = default;
  Expr(KernelEmitter &e, mlir::Value v) : e(&e), v(v) {}
  explicit operator bool() const { return static_cast<bool>(v); }
  operator mlir::Value() const { return v; }

  mlir::Type type() const { return v.getType(); }
  mlir::Type scalar() const { return KernelEmitter::scalarType(v.getType()); }
  bool isFloat() const { return mlir::isa<mlir::FloatType>(scalar()); }
  bool isF64() const { return scalar().isF64(); }
  unsigned width() const { return scalar().getIntOrFloatBitWidth(); }
  /// A constant shaped and typed like this.
  Expr k(double c) const {
    return {*e, isFloat() ? e->floatConst(type(), c) : e->intConst(type(), static_cast<int64_t>(c))};
  }
  Expr ki(int64_t c) const {
    return {*e, isFloat() ? e->floatConst(type(), static_cast<double>(c)) : e->intConst(type(), c)};
  }
  template <typename T> Expr like(T c) const {
    if constexpr (std::is_integral_v<T>)
      return ki(static_cast<int64_t>(c));
    else
      return k(c);
  }
  /// Type of this shape with another element.
  mlir::Type shaped(mlir::Type scalarType) const { return KernelEmitter::sameShape(v, scalarType); }
};

template <typename T>
concept Number = std::is_arithmetic_v<T>;

namespace detail {
template <typename FloatOp, typename IntOp> Expr binary(Expr a, Expr c) {
  auto &b = a.e->b;
  if (a.isFloat())
    return {*a.e, FloatOp::create(b, a.e->loc, a.v, c.v)};
  return {*a.e, IntOp::create(b, a.e->loc, a.v, c.v)};
}
inline Expr compare(mlir::arith::CmpFPredicate f, mlir::arith::CmpIPredicate i, Expr a, Expr c) {
  auto &b = a.e->b;
  if (a.isFloat())
    return {*a.e, mlir::arith::CmpFOp::create(b, a.e->loc, f, a.v, c.v)};
  return {*a.e, mlir::arith::CmpIOp::create(b, a.e->loc, i, a.v, c.v)};
}
} // namespace detail

#define TESSERA_EXPR_BINARY(op, FloatOp, IntOp)                                                    \
  inline Expr operator op(Expr a, Expr c) { return detail::binary<FloatOp, IntOp>(a, c); }         \
  template <Number T> Expr operator op(Expr a, T c) { return a op a.like(c); }                     \
  template <Number T> Expr operator op(T a, Expr c) { return c.like(a) op c; }
TESSERA_EXPR_BINARY(+, mlir::arith::AddFOp, mlir::arith::AddIOp)
TESSERA_EXPR_BINARY(-, mlir::arith::SubFOp, mlir::arith::SubIOp)
TESSERA_EXPR_BINARY(*, mlir::arith::MulFOp, mlir::arith::MulIOp)
TESSERA_EXPR_BINARY(/, mlir::arith::DivFOp, mlir::arith::DivSIOp)
#undef TESSERA_EXPR_BINARY

/// Float compares are ordered (false on NaN), except `!=`.
#define TESSERA_EXPR_COMPARE(op, f, i)                                                             \
  inline Expr operator op(Expr a, Expr c) {                                                        \
    return detail::compare(mlir::arith::CmpFPredicate::f, mlir::arith::CmpIPredicate::i, a, c);    \
  }                                                                                                \
  template <Number T> Expr operator op(Expr a, T c) { return a op a.like(c); }
TESSERA_EXPR_COMPARE(<, OLT, slt)
TESSERA_EXPR_COMPARE(<=, OLE, sle)
TESSERA_EXPR_COMPARE(>, OGT, sgt)
TESSERA_EXPR_COMPARE(>=, OGE, sge)
TESSERA_EXPR_COMPARE(==, OEQ, eq)
TESSERA_EXPR_COMPARE(!=, UNE, ne)
#undef TESSERA_EXPR_COMPARE

inline Expr operator&(Expr a, Expr c) { return {*a.e, mlir::arith::AndIOp::create(a.e->b, a.e->loc, a.v, c.v)}; }
inline Expr operator|(Expr a, Expr c) { return {*a.e, mlir::arith::OrIOp::create(a.e->b, a.e->loc, a.v, c.v)}; }
inline Expr operator^(Expr a, Expr c) { return {*a.e, mlir::arith::XOrIOp::create(a.e->b, a.e->loc, a.v, c.v)}; }
inline Expr operator&(Expr a, int64_t c) { return a & a.ki(c); }
inline Expr operator|(Expr a, int64_t c) { return a | a.ki(c); }
inline Expr operator^(Expr a, int64_t c) { return a ^ a.ki(c); }
inline Expr operator~(Expr a) { return a ^ a.ki(-1); } ///< also "not" of i1
inline Expr operator-(Expr a) {
  if (a.isFloat())
    return {*a.e, mlir::arith::NegFOp::create(a.e->b, a.e->loc, a.v)};
  return a.ki(0) - a;
}

inline Expr shl(Expr a, Expr n) { return {*a.e, mlir::arith::ShLIOp::create(a.e->b, a.e->loc, a.v, n.v)}; }
inline Expr shrU(Expr a, Expr n) { return {*a.e, mlir::arith::ShRUIOp::create(a.e->b, a.e->loc, a.v, n.v)}; }
inline Expr shrS(Expr a, Expr n) { return {*a.e, mlir::arith::ShRSIOp::create(a.e->b, a.e->loc, a.v, n.v)}; }
inline Expr shl(Expr a, int64_t n) { return shl(a, a.ki(n)); }
inline Expr shrU(Expr a, int64_t n) { return shrU(a, a.ki(n)); }
inline Expr shrS(Expr a, int64_t n) { return shrS(a, a.ki(n)); }
inline Expr ltU(Expr a, Expr c) {
  return {*a.e, mlir::arith::CmpIOp::create(a.e->b, a.e->loc, mlir::arith::CmpIPredicate::ult, a.v, c.v)};
}
inline Expr ltU(Expr a, int64_t c) { return ltU(a, a.ki(c)); }
inline Expr isNan(Expr a) {
  return {*a.e, mlir::arith::CmpFOp::create(a.e->b, a.e->loc, mlir::arith::CmpFPredicate::UNO, a.v, a.v)};
}

inline Expr select(Expr c, Expr a, Expr d) {
  return {*a.e, mlir::arith::SelectOp::create(a.e->b, a.e->loc, c.v, a.v, d.v)};
}
template <Number T> Expr select(Expr c, Expr a, T d) { return select(c, a, a.like(d)); }
template <Number T> Expr select(Expr c, T a, Expr d) { return select(c, d.like(a), d); }

inline Expr fma(Expr a, Expr c, Expr d) { return {*a.e, a.e->fma(a.v, c.v, d.v)}; }
inline Expr fma(Expr a, double c, Expr d) { return fma(a, a.k(c), d); }
inline Expr fma(Expr a, Expr c, double d) { return fma(a, c, a.k(d)); }
inline Expr fma(Expr a, double c, double d) { return fma(a, a.k(c), a.k(d)); }

inline Expr abs(Expr a) { return {*a.e, mlir::math::AbsFOp::create(a.e->b, a.e->loc, a.v)}; }
inline Expr sqrt(Expr a) { return {*a.e, mlir::math::SqrtOp::create(a.e->b, a.e->loc, a.v)}; }
inline Expr floor(Expr a) { return {*a.e, mlir::math::FloorOp::create(a.e->b, a.e->loc, a.v)}; }
inline Expr ceil(Expr a) { return {*a.e, mlir::math::CeilOp::create(a.e->b, a.e->loc, a.v)}; }
inline Expr truncF(Expr a) { return {*a.e, mlir::math::TruncOp::create(a.e->b, a.e->loc, a.v)}; }
inline Expr roundEven(Expr a) { return {*a.e, mlir::math::RoundEvenOp::create(a.e->b, a.e->loc, a.v)}; }
inline Expr copysign(Expr a, Expr s) { return {*a.e, mlir::math::CopySignOp::create(a.e->b, a.e->loc, a.v, s.v)}; }

/// `a < c ? a : c`: one instruction on x86. c where either is NaN.
inline Expr minSecond(Expr a, Expr c) { return select(a < c, a, c); }
/// `a > c ? a : c`; c where either is NaN.
inline Expr maxSecond(Expr a, Expr c) { return select(a > c, a, c); }
/// x limited to [lo, hi]; NaN stays.
inline Expr clampKeepNan(Expr x, double lo, double hi) {
  return maxSecond(x.k(lo), minSecond(x.k(hi), x));
}

/// Same bits as integers, and back.
inline Expr bitsOf(Expr a) {
  mlir::Type t = mlir::IntegerType::get(a.e->b.getContext(), a.width());
  return {*a.e, mlir::arith::BitcastOp::create(a.e->b, a.e->loc, a.shaped(t), a.v)};
}
inline Expr floatOf(Expr a) {
  mlir::Type t = a.width() == 64 ? a.e->f64() : a.e->f32();
  return {*a.e, mlir::arith::BitcastOp::create(a.e->b, a.e->loc, a.shaped(t), a.v)};
}
inline Expr toF64(Expr a) {
  if (a.isF64())
    return a;
  return {*a.e, mlir::arith::ExtFOp::create(a.e->b, a.e->loc, a.shaped(a.e->f64()), a.v)};
}
inline Expr toF32(Expr a) {
  if (a.scalar().isF32())
    return a;
  if (a.width() < 32)
    return {*a.e, mlir::arith::ExtFOp::create(a.e->b, a.e->loc, a.shaped(a.e->f32()), a.v)};
  return {*a.e, mlir::arith::TruncFOp::create(a.e->b, a.e->loc, a.shaped(a.e->f32()), a.v)};
}
inline Expr intType(Expr a, unsigned bits, bool isUnsigned) {
  mlir::Type t = a.shaped(mlir::IntegerType::get(a.e->b.getContext(), bits));
  if (bits < a.width())
    return {*a.e, mlir::arith::TruncIOp::create(a.e->b, a.e->loc, t, a.v)};
  if (bits == a.width())
    return a;
  if (isUnsigned)
    return {*a.e, mlir::arith::ExtUIOp::create(a.e->b, a.e->loc, t, a.v)};
  return {*a.e, mlir::arith::ExtSIOp::create(a.e->b, a.e->loc, t, a.v)};
}
inline Expr fromInt(Expr a, mlir::Type floatScalar, bool isUnsigned) {
  if (isUnsigned)
    return {*a.e, mlir::arith::UIToFPOp::create(a.e->b, a.e->loc, a.shaped(floatScalar), a.v)};
  return {*a.e, mlir::arith::SIToFPOp::create(a.e->b, a.e->loc, a.shaped(floatScalar), a.v)};
}

/// c[0] + x (c[1] + x (c[2] + ...)).
inline Expr horner(Expr x, llvm::ArrayRef<double> c) {
  Expr p = x.k(c.back());
  for (double k : llvm::reverse(c.drop_back()))
    p = fma(p, x, k);
  return p;
}

} // namespace tessera::cpu
#endif

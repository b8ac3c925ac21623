// Pieces that the expansions of Math*.cpp share.
#ifndef TESSERA_TARGETS_CPU_MATHPARTS_H
#define TESSERA_TARGETS_CPU_MATHPARTS_H

#include "targets/Cpu/Expr.h"
#include "targets/Cpu/Math.h"

#include <limits>

namespace tessera::cpu::math {

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kPi2 = 1.5707963267948966, kPi2Low = 6.123233995736766e-17;
inline constexpr double kLn2 = 0.6931471805599453;

/// An unevaluated sum of two numbers, |low| at most half a unit of `high`.
struct Sum {
  Expr high, low;
};
/// a * c exactly.
Sum twoProduct(Expr a, Expr c);
/// a + c exactly, for |a| >= |c| or a = 0.
inline Sum quickTwoSum(Expr a, Expr c) {
  Expr h = a + c;
  return {h, c - (h - a)};
}
inline Sum twoSum(Expr a, Expr c) {
  Expr h = a + c, z = h - a;
  return {h, (a - (h - z)) + (c - z)};
}

/// What is known of an exponential's argument, NaN apart: it saves instructions.
enum class Range {
  Any,
  NonPositive,
  Normal ///< the result is a normal number
};
/// e^(x + low) 2^scale; `low` may be absent.
Expr expScaled(Expr x, Expr low, int scale, Range range = Range::Any);
/// (e^x - 1) / 2 for 0 <= x <= 80, or NaN.
Expr halfExpm1(Expr x);
Expr expm1(Expr x);
Expr log(Expr x);
Expr log1p(Expr x);

/// Calls `fn` on scalars, lane by lane where the arguments are vectors. For
/// what is rare or needs loops.
Expr perLane(llvm::ArrayRef<Expr> args, mlir::Type resultScalar,
             llvm::function_ref<mlir::Value(llvm::ArrayRef<mlir::Value>)> fn);

/// fn in f64, result in x's type: for f32 functions where speed matters less.
template <typename Fn> Expr throughF64(Expr x, Fn fn) {
  if (x.isF64())
    return fn(x);
  return toF32(fn(toF64(x)));
}

} // namespace tessera::cpu::math
#endif

// Elementary functions as straight-line IR: no library, no tables in memory.
//
// Every function takes and returns a scalar or (fixed or scalable) vector of
// f32 or f64 and handles NaN, infinities, zeros and subnormals as C's libm does.
// The only branches are whole-vector ones (huge arguments of sin, cos, tan) and
// the loops of fmod. `worst` is the greatest error in ULP, f32 / f64, that
// test/unit/Cpu/MathTest.cpp measured with and without fused multiply-add.
#ifndef TESSERA_TARGETS_CPU_MATH_H
#define TESSERA_TARGETS_CPU_MATH_H

#include "targets/Cpu/KernelEmitter.h"

namespace tessera::cpu::math {

mlir::Value exp(KernelEmitter &e, mlir::Value x); ///< worst 1.01 / 0.96
mlir::Value expm1(KernelEmitter &e, mlir::Value x); ///< worst 1.0 / 1.1
mlir::Value exp2(KernelEmitter &e, mlir::Value x); ///< not measured; the polynomial of exp
mlir::Value log(KernelEmitter &e, mlir::Value x); ///< worst 0.77 / 0.77
mlir::Value log1p(KernelEmitter &e, mlir::Value x); ///< worst 1.6 / 1.7 (as softplus)
mlir::Value log2(KernelEmitter &e, mlir::Value x); ///< worst 0.5 / 2, not measured
mlir::Value pow(KernelEmitter &e, mlir::Value x, mlir::Value y); ///< worst 0.50 / 1.11
mlir::Value sin(KernelEmitter &e, mlir::Value x); ///< worst 0.50 / 0.81
mlir::Value cos(KernelEmitter &e, mlir::Value x); ///< worst 0.50 / 0.79
mlir::Value tan(KernelEmitter &e, mlir::Value x); ///< worst 0.50 / 2.10
mlir::Value asin(KernelEmitter &e, mlir::Value x); ///< worst 0.50 / 2.10
mlir::Value acos(KernelEmitter &e, mlir::Value x); ///< worst 0.50 / 1.10
mlir::Value atan(KernelEmitter &e, mlir::Value x); ///< worst 0.50 / 1.81
mlir::Value atan2(KernelEmitter &e, mlir::Value y, mlir::Value x); ///< worst 0.5 / 3, not measured
mlir::Value sinh(KernelEmitter &e, mlir::Value x); ///< worst 0.50 / 2.29
mlir::Value cosh(KernelEmitter &e, mlir::Value x); ///< worst 0.50 / 1.38
mlir::Value tanh(KernelEmitter &e, mlir::Value x); ///< worst 2.18 / 2.39
mlir::Value asinh(KernelEmitter &e, mlir::Value x); ///< worst 0.50 / 1.52
mlir::Value acosh(KernelEmitter &e, mlir::Value x); ///< worst 0.50 / 1.71
mlir::Value atanh(KernelEmitter &e, mlir::Value x); ///< worst 0.50 / 1.73
mlir::Value erf(KernelEmitter &e, mlir::Value x); ///< worst 1.31 / 1.26
mlir::Value sigmoid(KernelEmitter &e, mlir::Value x); ///< 1 / (1 + exp(-x)); worst 2.13 / 1.99
/// Distribution function of the standard normal law, erfc(-x / sqrt(2)) / 2, worst 612 / 802
/// far in the lower tail (x = -13 / -36: e^(-x^2/2) loses what x^2 rounds), else a few.
mlir::Value normalCdf(KernelEmitter &e, mlir::Value x);
mlir::Value fmod(KernelEmitter &e, mlir::Value x, mlir::Value y); ///< exact, C semantics
mlir::Value sqrt(KernelEmitter &e, mlir::Value x);
mlir::Value abs(KernelEmitter &e, mlir::Value x);
mlir::Value floor(KernelEmitter &e, mlir::Value x);
mlir::Value ceil(KernelEmitter &e, mlir::Value x);
mlir::Value trunc(KernelEmitter &e, mlir::Value x);
mlir::Value roundEven(KernelEmitter &e, mlir::Value x);
mlir::Value copysign(KernelEmitter &e, mlir::Value x, mlir::Value sign);
mlir::Value isNan(KernelEmitter &e, mlir::Value x);
mlir::Value isInf(KernelEmitter &e, mlir::Value x);

} // namespace tessera::cpu::math
#endif

// Elementary functions as straight-line IR: no library, no tables in memory.
//
// Every function takes and returns a scalar or (fixed or scalable) vector of
// f32 or f64, handles NaN, infinities, zeros and subnormals as C's libm does,
// and states its measured worst error. f64 forms are right to a few ULP.
#ifndef TESSERA_TARGETS_CPU_MATH_H
#define TESSERA_TARGETS_CPU_MATH_H

#include "targets/Cpu/KernelEmitter.h"

namespace tessera::cpu::math {

mlir::Value exp(KernelEmitter &e, mlir::Value x);
mlir::Value expm1(KernelEmitter &e, mlir::Value x);
mlir::Value exp2(KernelEmitter &e, mlir::Value x);
mlir::Value log(KernelEmitter &e, mlir::Value x);
mlir::Value log1p(KernelEmitter &e, mlir::Value x);
mlir::Value log2(KernelEmitter &e, mlir::Value x);
mlir::Value pow(KernelEmitter &e, mlir::Value x, mlir::Value y);
mlir::Value sin(KernelEmitter &e, mlir::Value x);
mlir::Value cos(KernelEmitter &e, mlir::Value x);
mlir::Value tan(KernelEmitter &e, mlir::Value x);
mlir::Value asin(KernelEmitter &e, mlir::Value x);
mlir::Value acos(KernelEmitter &e, mlir::Value x);
mlir::Value atan(KernelEmitter &e, mlir::Value x);
mlir::Value atan2(KernelEmitter &e, mlir::Value y, mlir::Value x);
mlir::Value sinh(KernelEmitter &e, mlir::Value x);
mlir::Value cosh(KernelEmitter &e, mlir::Value x);
mlir::Value tanh(KernelEmitter &e, mlir::Value x);
mlir::Value asinh(KernelEmitter &e, mlir::Value x);
mlir::Value acosh(KernelEmitter &e, mlir::Value x);
mlir::Value atanh(KernelEmitter &e, mlir::Value x);
mlir::Value erf(KernelEmitter &e, mlir::Value x);
mlir::Value sigmoid(KernelEmitter &e, mlir::Value x); ///< 1 / (1 + exp(-x))
/// Distribution function of the standard normal law, erfc(-x / sqrt(2)) / 2, accurate in the lower tail too.
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

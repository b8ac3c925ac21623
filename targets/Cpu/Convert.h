// Storage forms of small types: between what lies in memory and value types.
#ifndef TESSERA_TARGETS_CPU_CONVERT_H
#define TESSERA_TARGETS_CPU_CONVERT_H

#include "targets/Cpu/KernelEmitter.h"

namespace tessera::cpu {

/// `raw` is what was loaded: f32/f64 as they are, every other type as a
/// signless integer of its storage width (bool and float8: i8, float16 and
/// bfloat16: i16, 4- and 2-bit types: their bits in the low end of an i8).
/// Scalar or vector; returns the value type of `element`.
mlir::Value widenStorage(KernelEmitter &e, mlir::Value raw, mlir::Type element);
/// Inverse of widenStorage; `value` must be representable (see round).
mlir::Value narrowStorage(KernelEmitter &e, mlir::Value value, mlir::Type element);

/// Whether the conversions here know the element type (not complex, string, ...).
bool isConvertible(mlir::Type element);

/// Cast to float8e8m0 has a rounding mode of its own: the exponent is taken
/// (infinity and NaN give NaN, the sign is dropped, 0 gives 2^-127) and raised
/// by the fraction as the mode says.
enum class E8M0Round { Up, Down, Nearest };
mlir::Value roundE8M0(KernelEmitter &e, mlir::Value f32, E8M0Round mode, bool saturate);

} // namespace tessera::cpu
#endif

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

} // namespace tessera::cpu
#endif

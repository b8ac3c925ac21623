// Products of 8-bit integers by pairs.
//
// Two neighbouring steps of the reduction, as 16-bit numbers with the zero
// points taken off, make one 32-bit word. A register tile then runs over words:
// the row's word is splat, a column vector holds one word a column, and
//
//     acc[lane] += a.low * b[lane].low + a.high * b[lane].high
//
// is one instruction and an addition on x86 (pmaddwd). No sum of two products
// overflows: |a|, |b| <= 255.
#ifndef TESSERA_TARGETS_CPU_KERNELS_INTEGERPAIRS_H
#define TESSERA_TARGETS_CPU_KERNELS_INTEGERPAIRS_H

#include "targets/Cpu/Kernels/RegisterTile.h"

namespace tessera::cpu {

/// acc + products of the pairs in `a` and `c` (scalars or fixed vectors of i32).
mlir::Value multiplyPairs(KernelEmitter &e, mlir::Value a, mlir::Value c, mlir::Value acc);

/// The first number of a pair, sign-extended.
mlir::Value lowHalf(KernelEmitter &e, mlir::Value v);

/// [groups][ceil(columns/kPanel)][words][kPanel] words from 8-bit weights of
/// type `element`; source(group, word, half, column) is an index into `value`
/// or -1 for a zero, zeroOf(group, column) the zero point.
Packed packPairs(mlir::ElementsAttr value, int64_t groups, int64_t words, int64_t columns,
                 llvm::function_ref<int64_t(int64_t group, int64_t word, int64_t half, int64_t column)> source,
                 llvm::function_ref<int64_t(int64_t group, int64_t column)> zeroOf);

/// Writes `count` 8-bit numbers of `from` (at `offset`, `stride` apart) less
/// `zero` (i16, may be null) as 16-bit numbers to `to`, element `at` on.
void emitWiden(KernelEmitter &e, const TensorRef &from, mlir::Value offset, mlir::Value stride, mlir::Value count,
               mlir::Value zero, mlir::Value to, mlir::Value at);
/// An 8-bit value as i16 by the signedness of `element`.
mlir::Value widenTo16(KernelEmitter &e, mlir::Value v, mlir::Type element);
/// Fills `count` 16-bit numbers from `to` on with zeros.
void emitClear16(KernelEmitter &e, mlir::Value to, mlir::Value count);

} // namespace tessera::cpu
#endif

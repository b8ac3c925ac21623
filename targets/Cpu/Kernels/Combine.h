// The binary operations of reductions and scatters on value types.
#ifndef TESSERA_TARGETS_CPU_KERNELS_COMBINE_H
#define TESSERA_TARGETS_CPU_KERNELS_COMBINE_H

#include "targets/Cpu/KernelEmitter.h"

namespace tessera::cpu {

enum class Combine : uint8_t { Replace, Add, Mul, Max, Min };

/// `element` tells the signedness; scalars or vectors of value type. Bools add
/// as "or" and multiply as "and". NaN propagates through Max and Min.
mlir::Value combine(KernelEmitter &e, Combine kind, mlir::Type element, mlir::Value a, mlir::Value b);
/// The neutral element (scalar of value type).
mlir::Value identityOf(KernelEmitter &e, Combine kind, mlir::Type element);

mlir::Value addI(KernelEmitter &e, mlir::Value a, mlir::Value b);
mlir::Value cmpI(KernelEmitter &e, mlir::arith::CmpIPredicate p, mlir::Value a, mlir::Value b);

/// A counter or accumulator in memory, for nests without carried values.
class Cell {
public:
  Cell(KernelEmitter &e, mlir::Value initial);
  mlir::Value get();
  void set(mlir::Value v);

private:
  KernelEmitter &e;
  mlir::Type type;
  mlir::Value ptr;
};

/// x != 0 as i1 (NaN counts as non-zero).
mlir::Value isNonZero(KernelEmitter &e, mlir::Value v);

} // namespace tessera::cpu
#endif

// Loops over one axis in vectors, for kernels that carry accumulators.
#ifndef TESSERA_TARGETS_CPU_KERNELS_LANES_H
#define TESSERA_TARGETS_CPU_KERNELS_LANES_H

#include "targets/Cpu/KernelEmitter.h"

namespace tessera::cpu {

/// Accumulators of a fold: values of any types.
using Accs = llvm::SmallVector<mlir::Value>;

/// One fold over a contiguous axis that several loops feed: `unroll` sets of
/// vector accumulators and, where there are no cheap masks, a scalar set for
/// the tails. All are carried as one flat list.
class LaneFold {
public:
  /// `initial`: scalar start values, one an accumulator of a set. They must be
  /// neutral: every set starts with them.
  LaneFold(KernelEmitter &e, unsigned elementBits, unsigned unroll, llvm::ArrayRef<mlir::Value> initial);
  llvm::SmallVector<mlir::Value> start();
  /// `step(set, offset, lanes, mask)` gives the next set; lanes that are off
  /// are kept by the fold itself.
  using Step = llvm::function_ref<Accs(llvm::ArrayRef<mlir::Value>, mlir::Value, Lanes, mlir::Value)>;
  llvm::SmallVector<mlir::Value> run(mlir::Value n, llvm::ArrayRef<mlir::Value> flat, Step step);
  /// Joins sets with `join` (elementwise on sets, vector or scalar), lanes with
  /// `across` (vector set to scalar set).
  Accs finish(llvm::ArrayRef<mlir::Value> flat,
              llvm::function_ref<Accs(llvm::ArrayRef<mlir::Value>, llvm::ArrayRef<mlir::Value>)> join,
              llvm::function_ref<Accs(llvm::ArrayRef<mlir::Value>)> across);

private:
  KernelEmitter &e;
  unsigned unroll;
  Lanes lanes;
  bool scalarTail;
  Accs initial;
};

/// Covers [0, n) of a lane axis in groups: body(offset, group, lanes, mask)
/// handles `group` vectors from `offset` on.
void laneGroups(KernelEmitter &e, mlir::Value n, Lanes lanes, unsigned group,
                llvm::function_ref<void(mlir::Value, unsigned, Lanes, mlir::Value)> body);

} // namespace tessera::cpu
#endif

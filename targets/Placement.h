// Whether one operator may run on a unit: the rules of its description and the
// backend's own lowering, asked in the same way by the audit and by the
// partitioner, so that a verdict is what a compile does.
#ifndef TESSERA_TARGETS_PLACEMENT_H
#define TESSERA_TARGETS_PLACEMENT_H

#include "targets/Rules.h"

#include <functional>
#include <map>
#include <vector>

namespace tessera {

/// Answers for one model, whose operators must neither change nor go while it
/// lives: what was lowered once is remembered.
class PlacementJudge {
public:
  /// Compiles operators for a GPU; what keeps them from it.
  using GpuCompiler =
      std::function<std::vector<std::string>(llvm::ArrayRef<mlir::Operation *>, const Unit &, Precision)>;
  /// What the vendor's compiler of the unit says against a region that lowers;
  /// empty if it takes it, or the unit has no such compiler.
  using Vendor = std::function<std::string(const Unit &, llvm::ArrayRef<mlir::Operation *>, Precision)>;
  /// `strict`: no precision that changes values, as under --fp-mode strict.
  /// Without `vendor` no compiler is asked.
  explicit PlacementJudge(bool strict = false, GpuCompiler compileForGpu = {}, Vendor vendor = {})
      : strict(strict), compileForGpu(std::move(compileForGpu)), vendor(std::move(vendor)) {}
  /// All that keeps `op` from running on the unit with tensors stored in
  /// `precision`; empty if it runs there. At int8 its quantisers are lowered
  /// with it. On a CPU its kernels are asked, but for what the plan does itself
  /// (views, bodies), which is always possible.
  llvm::SmallVector<std::string> faults(const TargetDescription &target, unsigned unit, mlir::Operation *op,
                                        Precision precision);

private:
  bool strict;
  GpuCompiler compileForGpu;
  Vendor vendor;
  const std::vector<std::string> &lower(const Unit &unit, mlir::Operation *op, Precision precision);
  /// By the device that was asked about, precision and operators.
  std::map<std::tuple<std::string, Precision, std::vector<mlir::Operation *>>, std::vector<std::string>> lowered;
};

} // namespace tessera
#endif

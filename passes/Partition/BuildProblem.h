// From a canonicalised model and a target to a partition problem.
//
// What is placed are the fusion groups that the CPU would form, so that fusing
// and placing do not fight; what the plan does without a kernel (views, sizes,
// control flow) is an operator of its own. Every group has an option on the
// CPU. It has one on another unit, for each precision, if every operator passes
// the target's rules and the group really lowers for the unit's backend.
//
// One unit is one device of the problem for each precision, since a segment has
// one precision; these devices share states. Device 0 is the CPU.
#ifndef TESSERA_PASSES_PARTITION_BUILDPROBLEM_H
#define TESSERA_PASSES_PARTITION_BUILDPROBLEM_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/Partition/Solver.h"
#include "passes/Partition/VendorTools.h"
#include "targets/Target.h"

namespace tessera {

/// What a device of the problem is.
struct PlacementDevice {
  unsigned unit = 0;
  Precision precision = Precision::F32; ///< of units other than the CPU
};

/// Why a group cannot be on a device.
struct PlacementRefusal {
  unsigned device = 0;
  std::vector<std::string> reasons;
};

/// One operator of the problem.
struct PlacementGroup {
  llvm::SmallVector<mlir::Operation *> ops; ///< in block order; empty: the model's inputs or outputs
  std::vector<PlacementRefusal> refusals;
};

struct ModelProblem {
  partition::Problem problem;
  std::vector<PlacementDevice> devices; ///< parallel to the problem's
  std::vector<PlacementGroup> groups;   ///< parallel to the problem's operators
  std::vector<mlir::Value> tensors;     ///< parallel to the problem's tensors
  bool assumedSizes = false;            ///< open dimensions were priced at their least value
};

struct BuildProblemOptions {
  bool strict = false; ///< no precision that changes values
  llvm::ArrayRef<std::string> pins; ///< "NODE=UNIT", "*=UNIT": a node that its group keeps from the unit leaves the group
  /// Asked about every group that lowers for a unit with a vendor's compiler, whose
  /// estimate is the group's cost there. Null: the cost model's is.
  VendorTools *vendors = nullptr;
  /// That float16 may be where float32 could be: what it adds to the noise is
  /// measured. Else that takes a pin.
  bool measured = false;
};

/// Fails, with a diagnostic, where the model cannot be compiled for the CPU.
/// Types in `func` are refined, and a shared DequantizeLinear becomes one for
/// each reader where a unit computes in integers.
mlir::FailureOr<ModelProblem> buildProblem(mlir::func::FuncOp func, const TargetDescription &target,
                                           const BuildProblemOptions &options);

/// How many elements of a device's own type one of `v` counts for where it is
/// copied: an int32 sum that leaves a unit of bytes is four.
int64_t copiesPerElement(mlir::Value v, const TargetDescription &target);

/// Applies a pin, "NODE=UNIT": the node's group is placed on the unit; or "*=UNIT":
/// so is every group that may still be.
llvm::Error pinNode(const ModelProblem &model, const TargetDescription &target, llvm::StringRef pin,
                    partition::Allowed &allowed);

} // namespace tessera
#endif

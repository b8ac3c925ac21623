// The phase `partition`: a model's groups onto the units of a target.
//
// Build the problem, solve it, have the answer judged by the validator from the
// two texts, and make it true in the model. A target with one unit has nothing
// to place.
#ifndef TESSERA_PASSES_PARTITION_PLACEMODEL_H
#define TESSERA_PASSES_PARTITION_PLACEMODEL_H

#include "passes/Partition/Spread.h"

namespace tessera {

struct PlaceOptions {
  bool strict = false;
  std::vector<std::string> pins; ///< "NODE=UNIT", "*=UNIT"
  VendorTools *vendors = nullptr; ///< for a target that has a unit with such
  bool measured = false;          ///< as BuildProblemOptions
};

/// What was decided, and against what. Stands on its own when the model is gone.
struct Placement {
  std::string target;
  partition::Problem problem;
  std::vector<PlacementDevice> devices; ///< parallel to the problem's
  partition::Allowed allowed;           ///< what the pins leave
  partition::SolverResult result;       ///< with a solution, after spreading
  Spread spread;
  std::string problemText, solutionText;
  std::vector<std::vector<std::string>> nodes; ///< per operator of the problem: the model's nodes in it
  std::vector<std::vector<PlacementRefusal>> refusals; ///< per operator of the problem
  std::vector<int64_t> tensorBytes;            ///< per tensor: on the CPU
  bool assumedSizes = false;

  /// Everything is on the CPU, and nothing was pinned elsewhere.
  bool cpuWins() const;
};

/// Solves and judges; the model is as buildProblem() leaves it.
mlir::FailureOr<Placement> decidePlacement(mlir::func::FuncOp func, const TargetDescription &target,
                                           const ModelProblem &model, const PlaceOptions &options);

/// Decides until the vendors' compilers take every segment, and by their prices of
/// whole segments; `model` loses options and changes costs to what was decided by.
mlir::FailureOr<Placement> choosePlacement(mlir::func::FuncOp func, const TargetDescription &target,
                                           ModelProblem &model, const PlaceOptions &options);

/// All of it. Failures are diagnostics.
mlir::FailureOr<Placement> placeModel(mlir::func::FuncOp func, const TargetDescription &target,
                                      const PlaceOptions &options);

} // namespace tessera
#endif

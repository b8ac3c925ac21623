// Which units of a model are integers, chosen together with the devices.
//
//   alone    the noise of each candidate when it alone is integers
//   plans    the model all float, all integers, and with what a float placement
//            puts on accelerators as integers: each is placed and priced
//   rounds   the joint problem (JointProblem.h) is solved with the limit as its
//            budget; the answer's model is placed, priced, and its noise
//            measured. Noises of units only nearly add, so the budget is moved
//            by bisection to where the measured noise meets the limit
//   verify   plans within the limit, the cheapest first: the model is run as it
//            would be written, values on float16 devices rounded
//
// A plan is cheaper than the three simple ones or equal to the best of them
// that keeps the limit. A target that has but a CPU offers no choice of device:
// there as few units as possible go back to float.
#ifndef TESSERA_PASSES_PRECISION_CHOOSEPRECISION_H
#define TESSERA_PASSES_PRECISION_CHOOSEPRECISION_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "passes/Partition/PlaceModel.h"
#include "passes/Precision/AccuracyLimit.h"
#include "passes/Precision/JointProblem.h"
#include "passes/Quantise/Quantise.h"

namespace tessera {

/// A choice that was looked at.
struct PrecisionPlan {
  std::string origin;       ///< how it was found
  std::set<int> integers;   ///< units
  bool withoutHalf = false; ///< no device computes in float16
  partition::Cost cost = 0;
  double noise = 0;               ///< of the integers, measured with switches
  std::optional<double> verified; ///< of the model as it would be written
  std::map<std::string, unsigned> deviceOf; ///< by node: device of the problem
  std::set<std::string> halfNodes; ///< on devices that compute in float16
};

struct PrecisionChoice {
  AccuracyLimit limit;
  std::vector<PrecisionPlan> plans;
  size_t chosen = 0;
  std::map<int, double> alone; ///< by unit: noise
  double halfNoise = 0; ///< with everything in float16; 0 if no device has it
  unsigned rounds = 0;
  bool onlyCpu = false;

  const PrecisionPlan &plan() const { return plans[chosen]; }
  /// Places in `plans` that no other beats in both cost and noise, cheapest
  /// first.
  std::vector<size_t> pareto() const;
};

/// No plan keeps the limit.
struct LimitBreached : quantise::Refusal {
  using Refusal::Refusal;
};

struct ChooseOptions {
  AccuracyLimit limit;
  const TargetDescription *target = nullptr;
  PlaceOptions place;
  mlir::MLIRContext *context = nullptr;
  /// Imports and canonicalises.
  std::function<mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>(
      quantise::ModelProto)>
      frontEnd;
  quantise::Progress progress;
};

/// Whether nodes may be placed on a device that computes in float16.
bool computesInHalf(const TargetDescription &target, const PlaceOptions &place);

/// Throws LimitBreached, or Refusal where the float model cannot be placed.
std::set<int> choosePrecision(quantise::ChoiceContext &model,
                              const ChooseOptions &options,
                              PrecisionChoice &choice);

} // namespace tessera
#endif

// `compile --quantize`: the model becomes integers before it is imported, with
// passes/Quantise as a library; precision is chosen together with the devices
// where an accuracy limit is given (passes/Precision).
#ifndef TESSERA_COMPILER_DRIVER_QUANTISEMODEL_H
#define TESSERA_COMPILER_DRIVER_QUANTISEMODEL_H

#include "compiler/Driver/Driver.h"
#include "passes/Precision/ChoosePrecision.h"
#include "passes/Quantise/WeightOnly.h"

namespace tessera {

/// Calibration data and what it is made of.
struct CalibrationData {
  quantise::SampleSource samples;
  std::string hash;
  std::vector<std::string> files;
};

struct QuantiseRequest {
  std::string scheme = "8x8"; ///< or 16x8; w4, w8, f16, bf16: weights alone
  std::string recipe;         ///< a file, or empty
  std::optional<AccuracyLimit> limit;
  quantise::QuantiseOptions options;   ///< of 8x8 and 16x8
  quantise::WeightOnlyOptions weights; ///< of the others
  std::function<CalibrationData(const quantise::ModelProto &)> openSamples;
  quantise::CompileFunction compile; ///< runs models on this machine
  std::function<void(const std::vector<quantise::Hazard> &)> lint;
  bool breached = false; ///< set when a build fails because of the limit

  bool weightsAlone() const { return scheme != "8x8" && scheme != "16x8"; }
};

/// What was made of the model, and why.
struct QuantisedModel {
  quantise::ModelProto proto;
  std::string scheme;
  std::vector<std::string> inputs; ///< files that were read, beside the model
  std::vector<std::string>
      provenance; ///< options, with hashes for the files that they name
  std::vector<quantise::Part> parts;
  std::vector<double> verified; ///< signal to noise of each part
  std::optional<quantise::QuantiseResult> result; ///< of 8x8 and 16x8
  std::optional<PrecisionChoice> choice;          ///< with a limit
  /// Devices may not compute in float16: the limit would not be kept.
  bool withoutHalf = false;
};

/// Failures are diagnostics. `place` is how the model will be placed.
mlir::FailureOr<std::shared_ptr<QuantisedModel>>
quantiseModel(const CompileOptions &options, const TargetDescription &target,
              const PlaceOptions &place, mlir::MLIRContext *context);

/// The phase `import` for a model in memory.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>>
importQuantised(const CompileOptions &options, quantise::ModelProto model,
                mlir::MLIRContext *context);

} // namespace tessera
#endif

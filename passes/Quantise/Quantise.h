// Post-training quantisation of an ONNX model: the phases in their order.
//
//   prepare    operator set, BatchNormalization, weights that nodes compute
//   calibrate  ranges of all values by running the compiled float model
//   lint       hazards in structure and ranges, reported before anything is
//   decided choose     which units are integers; their scales islands    the
//   few that cost most go back to float emit       QuantizeLinear and
//   DequantizeLinear in the model verify     the emitted model, compiled and
//   run on calibration samples
#ifndef TESSERA_PASSES_QUANTISE_QUANTISE_H
#define TESSERA_PASSES_QUANTISE_QUANTISE_H

#include "passes/Quantise/Calibrate.h"
#include "passes/Quantise/Decisions.h"
#include "passes/Quantise/Emit.h"
#include "passes/Quantise/Errors.h"
#include "passes/Quantise/Islands.h"
#include "passes/Quantise/Recipe.h"
#include "passes/Quantise/Rotate.h"

namespace tessera::quantise {

/// What a chooser of precisions may ask once the scales of all candidates are
/// decided. Candidates are the units that are quantised in `units`.
struct ChoiceContext {
  const Graph &graph;
  /// Candidates that end integers (Exits.h), and whose result they pass on.
  std::map<int, int> exits;
  const std::vector<Unit> &units;
  const std::vector<Part> &parts;
  SwitchModel &model;
  /// The model with only these candidates as integers; `final`: with weights
  /// rounded and biases corrected as in the result.
  std::function<ModelProto(const std::set<int> &, bool final)> emit;
  /// Signal to noise of each part of a model that emit() gave, or of one that
  /// was made from it.
  std::function<std::vector<double>(const ModelProto &)> verify;
  /// That biases may be corrected: a final model may be less noisy than `model`
  /// expects.
  bool corrects = false;
};

struct QuantiseOptions {
  int32_t activations = TensorProto::INT8; ///< INT8, UINT8 or INT16
  Coverage coverage = Coverage::Auto;
  std::optional<RangeMethod>
      ranges; ///< none: the best of all on calibration samples
  double percentile = 99.99;
  bool searchWeightError = false;
  bool feedback =
      true; ///< rounds the weights of matrix products with error feedback
  bool rotate = true; ///< what gates make, where Rotate.h says that it pays
  /// Kept where it helps on samples that it was not measured on; none: tried
  /// where its two compilations are little beside the runs.
  std::optional<bool> biasCorrection;
  bool layerErrors = false; ///< fills QuantiseResult::errors
  /// Cost of a model on the target; if set, fills QuantiseResult::frontier.
  std::function<double(const ModelProto &)> latency;
  IslandOptions islands;
  /// Chooses the units that are integers, instead of the search for islands.
  std::function<std::set<int>(ChoiceContext &)> choose;
  bool exits = false; ///< with `choose`: float nodes may read rounded values
  Recipe recipe;
  CalibrationOptions calibration;
  Progress progress;
};

struct NodeLabel {
  std::string name, op;
  bool added = false; ///< not in the model: an exit
};

/// A number of islands, in the order in which the search took them.
struct FrontierPoint {
  size_t islands = 0;
  double worst = 0; ///< signal to noise of the worst part, calibration samples
  double latency = 0; ///< by QuantiseOptions::latency
};

struct QuantiseResult {
  EmitResult emitted;
  Decisions decisions;
  std::vector<NodeLabel> nodes; ///< what the units' indices mean
  std::vector<Hazard> hazards;
  RangeMethod ranges = RangeMethod::MinMax;
  std::vector<Part> parts;
  IslandSearch islands;
  std::vector<double>
      verified; ///< signal to noise of the emitted model's parts
  std::map<int, UnitErrors> errors;    ///< by unit
  std::vector<FrontierPoint> frontier; ///< with each more island
  /// Worst part before and after the correction of biases, where it was asked
  /// for or kept; it was kept if the second is the higher.
  std::optional<std::pair<double, double>> corrected;
  int64_t originalOpset = 0; ///< before it was raised, or 0
  int foldedNorms = 0;
  std::vector<Rotation> rotations;
  double macs = 0, integerMacs = 0;
};

/// Throws Refusal: also where nothing would be quantised, or an output came out
/// dead. `lint` is called with the findings before anything is decided.
QuantiseResult
quantise(ModelProto original, const SampleSource &samples,
         const CompileFunction &compile, const QuantiseOptions &options,
         const std::function<void(const std::vector<Hazard> &)> &lint);

} // namespace tessera::quantise
#endif

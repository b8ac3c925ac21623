// Weight-only schemes: activations stay float.
//
//   w4, w8   matrix products by constant matrices in blocks of 32 along the
//   rows:
//            DequantizeLinear with block_size from operator set 21 on,
//            MatMulNBits of com.microsoft below; convolutions as int8 with a
//            scale a channel
//   f16, bf16  weights stored as float16 or bfloat16 behind Cast
#ifndef TESSERA_PASSES_QUANTISE_WEIGHTONLY_H
#define TESSERA_PASSES_QUANTISE_WEIGHTONLY_H

#include "passes/Quantise/Quantise.h"
#include "passes/Quantise/Rounding.h"

namespace tessera::quantise {

struct WeightOnlyOptions {
  WeightForm form = WeightForm::Int4;
  int64_t block = 32;
  bool symmetric = true;
  bool feedback = true; ///< error feedback by the inputs' second moments
  Recipe recipe;
  bool layerErrors = false; ///< fills WeightOnlyResult::errors
  /// What devices do to values of the model; if set, fills
  /// WeightOnlyResult::onDevices.
  std::function<void(ModelProto &, const Graph &)> onDevices;
  CalibrationOptions calibration;
};

struct WeightOnlyResult {
  ModelProto model;
  std::vector<Part> parts;
  std::vector<double> verified;
  std::vector<double> onDevices; ///< like `verified`
  int64_t originalOpset = 0;
  int weights = 0; ///< that were replaced
  std::vector<Unit>
      units; ///< `quantised` and `type` say what their weights are
  std::map<int, UnitErrors> errors;
  double macs = 0, covered = 0;
};

/// As a result of the other schemes, for reports.
QuantiseResult forReport(const WeightOnlyResult &result);

WeightOnlyResult quantiseWeightsOnly(ModelProto original,
                                     const SampleSource &samples,
                                     const CompileFunction &compile,
                                     const WeightOnlyOptions &options);

/// Signal to noise of each part on samples; refuses outputs that became all
/// zero.
std::vector<double> verifyModel(const Graph &graph, const ModelProto &emitted,
                                const std::vector<Part> &parts,
                                const std::vector<Sample> &samples,
                                const CompileFunction &compile);

} // namespace tessera::quantise
#endif

// Weight-only schemes: activations stay float.
//
//   w4, w8   matrix products by constant matrices in blocks of 32 along the
//   rows:
//            DequantizeLinear with block_size from operator set 21 on,
//            MatMulNBits of com.microsoft below; convolutions as int8 with a
//            scale a channel
//   f16      weights stored as float16 behind Cast
#ifndef TESSERA_PASSES_QUANTISE_WEIGHTONLY_H
#define TESSERA_PASSES_QUANTISE_WEIGHTONLY_H

#include "passes/Quantise/Quantise.h"
#include "passes/Quantise/Rounding.h"

namespace tessera::quantise {

struct WeightOnlyOptions {
  enum Form { Int4, Int8, Half } form = Int4;
  int64_t block = 32;
  bool symmetric = true;
  bool feedback = true; ///< error feedback by the inputs' second moments
  CalibrationOptions calibration;
};

struct WeightOnlyResult {
  ModelProto model;
  std::vector<Part> parts;
  std::vector<double> verified;
  int64_t originalOpset = 0;
  int weights = 0; ///< that were replaced
  double macs = 0, covered = 0;
};

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

// Scale arithmetic: from ranges to scales and zero points, weights to integers.
#ifndef TESSERA_PASSES_QUANTISE_SCALE_H
#define TESSERA_PASSES_QUANTISE_SCALE_H

#include "passes/Quantise/Graph.h"
#include "passes/Quantise/Histogram.h"

namespace tessera::quantise {

/// An integer type that activations have: int8, uint8, int16.
struct ActivationType {
  int32_t type = TensorProto::INT8;
  int64_t low = -128, high = 127;
  bool symmetric = false;
  int levels() const { return int(high - low + 1); }
};

struct Params {
  float scale = 1;
  int64_t zero = 0;
  auto operator<=>(const Params &) const = default;
};

/// Scale and zero point under which `range` (which contains zero) is
/// representable and zero is exact.
Params paramsFor(Range range, const ActivationType &type);

/// What quantising and dequantising makes of a value: rounds half to even,
/// saturates.
float fakeQuantise(float value, Params params, const ActivationType &type);

/// Weights of a product as int8 with one scale per index of `axis`.
struct QuantisedWeights {
  std::vector<int64_t> dims;
  int64_t axis = 0;
  std::vector<int8_t> values;
  std::vector<float> scales;
};

/// Symmetric, over [-127, 127]. With `searchError` each scale is the one of
/// least squared error among a few below that of the largest magnitude.
/// `floor`, if not empty, is the least scale of each channel.
QuantisedWeights quantiseWeights(const FloatTensor &weights, int64_t axis,
                                 bool searchError,
                                 const std::vector<float> &floor = {});
FloatTensor dequantise(const QuantisedWeights &weights);

/// Bias as int32 by the scales of the accumulator; none if one does not fit.
std::optional<std::vector<int32_t>>
quantiseBias(const std::vector<float> &bias, const std::vector<float> &scales);

} // namespace tessera::quantise
#endif

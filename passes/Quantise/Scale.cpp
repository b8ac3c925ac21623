#include "passes/Quantise/Scale.h"

#include <algorithm>
#include <cmath>

namespace tessera::quantise {

// Below this a scale's reciprocal overflows or the scale itself is subnormal.
constexpr float kLeastScale = 1e-36f;

Params paramsFor(Range range, const ActivationType &type) {
  double low = std::min(0.0f, range.low), high = std::max(0.0f, range.high);
  if (type.symmetric) {
    double most = std::max(-low, high);
    float scale = float(most / double(type.high));
    return {scale < kLeastScale ? 1.0f : scale, 0};
  }
  float scale = float((high - low) / double(type.high - type.low));
  if (scale < kLeastScale)
    return {1.0f, std::clamp<int64_t>(0, type.low, type.high)};
  int64_t zero = type.low + int64_t(std::nearbyint(-low / double(scale)));
  return {scale, std::clamp(zero, type.low, type.high)};
}

float fakeQuantise(float value, Params p, const ActivationType &type) {
  float q = std::nearbyint(value / p.scale) + float(p.zero);
  q = std::clamp(q, float(type.low), float(type.high));
  return (q - float(p.zero)) * p.scale;
}

namespace {

/// The elements of one index of the channel axis: `count` runs of `inner`.
struct Channel {
  int64_t first, stride, count, inner;
  template <typename Visit> void each(Visit visit) const {
    for (int64_t o = 0; o < count; ++o)
      for (int64_t i = 0; i < inner; ++i)
        visit(size_t(first + o * stride + i));
  }
};

double squaredError(const std::vector<float> &w, const Channel &c,
                    float scale) {
  double sum = 0;
  c.each([&](size_t i) {
    float q = std::clamp(std::nearbyint(w[i] / scale), -127.0f, 127.0f);
    double d = double(w[i]) - q * scale;
    sum += d * d;
  });
  return sum;
}

float leastErrorScale(const std::vector<float> &w, const Channel &c,
                      float scale) {
  float best = scale;
  double least = squaredError(w, c, scale);
  for (int k = 1; k <= 40; ++k) {
    float s = scale * (1 - 0.01f * float(k));
    double e = squaredError(w, c, s);
    if (e < least) {
      least = e;
      best = s;
    }
  }
  return best;
}

} // namespace

QuantisedWeights quantiseWeights(const FloatTensor &w, int64_t axis,
                                 bool searchError,
                                 const std::vector<float> &floor) {
  QuantisedWeights out;
  out.dims = w.dims;
  out.axis = axis;
  out.values.resize(w.values.size());
  int64_t channels = w.dims[axis], inner = 1, outer = 1;
  for (size_t d = 0; d < w.dims.size(); ++d)
    (int64_t(d) < axis ? outer : inner) *= int64_t(d) == axis ? 1 : w.dims[d];
  for (int64_t k = 0; k < channels; ++k) {
    Channel c = {k * inner, channels * inner, outer, inner};
    float most = 0;
    c.each([&](size_t i) { most = std::max(most, std::fabs(w.values[i])); });
    float scale = most / 127;
    if (scale < kLeastScale)
      scale = 1;
    else if (searchError)
      scale = leastErrorScale(w.values, c, scale);
    if (size_t(k) < floor.size())
      scale = std::max(scale, floor[k]);
    out.scales.push_back(scale);
    c.each([&](size_t i) {
      out.values[i] = int8_t(
          std::clamp(std::nearbyint(w.values[i] / scale), -127.0f, 127.0f));
    });
  }
  return out;
}

FloatTensor dequantise(const QuantisedWeights &q) {
  FloatTensor out;
  out.dims = q.dims;
  out.values.resize(q.values.size());
  int64_t inner = 1;
  for (size_t d = size_t(q.axis) + 1; d < q.dims.size(); ++d)
    inner *= q.dims[d];
  for (size_t i = 0; i < q.values.size(); ++i)
    out.values[i] =
        q.values[i] * q.scales[(int64_t(i) / inner) % q.dims[q.axis]];
  return out;
}

std::optional<std::vector<int32_t>>
quantiseBias(const std::vector<float> &bias, const std::vector<float> &scales) {
  std::vector<int32_t> out;
  for (size_t i = 0; i < bias.size(); ++i) {
    double q = std::nearbyint(double(bias[i]) /
                              double(scales[scales.size() == 1 ? 0 : i]));
    if (!(std::fabs(q) <= 2147483647.0))
      return std::nullopt;
    out.push_back(int32_t(q));
  }
  return out;
}

} // namespace tessera::quantise

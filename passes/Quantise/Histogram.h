// The distribution of a value over all calibration samples, in memory of a
// fixed size: a histogram over [-limit, limit) whose limit doubles, merging
// bins in pairs, when a value falls outside. Nothing of the samples is kept.
//
// Range estimators over it. All of them contain zero, so that zero (padding,
// ReLU) is exact:
//   min-max     what was seen
//   percentile  what remains when a share of the values, taken off the two ends
//               where they are rarest, is clipped
//   entropy     least Kullback-Leibler divergence of the quantised distribution
//   mse         least mean squared error of rounding and clipping together
//   between     half way from mse to min-max: rare values that mse clips may be
//               all that a rare sample is made of
#ifndef TESSERA_PASSES_QUANTISE_HISTOGRAM_H
#define TESSERA_PASSES_QUANTISE_HISTOGRAM_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tessera::quantise {

struct Range {
  float low = 0, high = 0;
  bool operator==(const Range &) const = default;
};

enum class RangeMethod { MinMax, Percentile, Entropy, Mse, Between };
std::optional<RangeMethod> parseRangeMethod(const std::string &word);
const char *rangeMethodName(RangeMethod method);

class Histogram {
public:
  static constexpr int kBins = 8192; ///< half of them below zero

  /// Values that are not finite are counted apart.
  void add(const float *values, int64_t count);
  void merge(const Histogram &other);

  bool empty() const { return total == 0; }
  uint64_t count() const { return total; }
  uint64_t notFinite() const { return bad; }
  /// What was seen, widened to contain zero.
  Range seen() const;
  float least() const { return low; }
  float most() const { return high; }

  /// The range to quantise `levels` steps over. `share` is of
  /// Percentile: 99.99.
  Range range(RangeMethod method, int levels, bool symmetric,
              double share = 99.99) const;

  /// Mean squared error of quantising to `levels` steps over a range.
  double error(Range range, int levels) const;

  /// For the cache of ranges.
  std::string save() const;
  static std::optional<Histogram> load(const std::string &text);

private:
  void grow(float magnitude);
  double width() const { return 2.0 * limit / kBins; }
  double centre(int bin) const { return (bin - kBins / 2 + 0.5) * width(); }
  Range percentile(double share) const;
  Range leastError(int levels, bool symmetric) const;
  Range leastDivergence(int levels) const;

  Range find(RangeMethod method, int levels, bool symmetric,
             double share) const;

  /// Ranges that were asked for, until more is added. One at a time may ask.
  struct Answer {
    RangeMethod method;
    int levels;
    bool symmetric;
    double share;
    Range range;
  };
  mutable std::vector<Answer> answers;
  std::vector<uint64_t> bins;
  double limit = 0;
  uint64_t total = 0, bad = 0;
  float low = 0, high = 0;
};

} // namespace tessera::quantise
#endif

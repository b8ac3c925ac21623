#include "passes/Precision/AccuracyLimit.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace tessera {

/// No noise at all, in the measure of passes/Quantise.
static constexpr double silence = 200;

double shareOfDecibel(double decibel) {
  return decibel >= silence ? 0 : std::pow(10, -decibel / 10);
}

double decibelOfShare(double share) {
  return share > 0 ? std::min(silence, -10 * std::log10(share)) : silence;
}

double worstShare(const std::vector<double> &decibels) {
  return decibels.empty() ? 0
                          : shareOfDecibel(*std::min_element(decibels.begin(),
                                                             decibels.end()));
}

double AccuracyLimit::decibel() const { return decibelOfShare(noise); }

std::optional<AccuracyLimit> parseAccuracyLimit(const std::string &text) {
  char *end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  std::string unit = end;
  if (end == text.c_str() || !std::isfinite(value))
    return std::nullopt;
  if (unit == "%" && value > 0 && value <= 100)
    return AccuracyLimit{value / 100, text};
  if (unit == "dB" && value >= 0 && value <= 190)
    return AccuracyLimit{shareOfDecibel(value), text};
  return std::nullopt;
}

} // namespace tessera

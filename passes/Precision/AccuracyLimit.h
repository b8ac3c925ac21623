// How much accuracy a build may lose: --accuracy-drop.
//
// The measure is noise power over signal power of an output on calibration
// samples (the median over them), of the worst part of the outputs
// (passes/Quantise/Switches.h). `1%` is one hundredth of the signal's power,
// `25dB` a signal-to-noise ratio; 20dB and 1% are the same. Noise powers of
// independent errors add, so that a share is what a budget can be made of.
#ifndef TESSERA_PASSES_PRECISION_ACCURACYLIMIT_H
#define TESSERA_PASSES_PRECISION_ACCURACYLIMIT_H

#include <optional>
#include <string>
#include <vector>

namespace tessera {

struct AccuracyLimit {
  double noise = 0; ///< most noise power over signal power
  std::string text; ///< as the user wrote it
  double decibel() const;
  bool keptBy(double share) const { return share <= noise * (1 + 1e-9); }
};

/// Reads `1%` or `25dB`; none if it is neither, or out of (0 %, 100 %], [0 dB,
/// 190 dB].
std::optional<AccuracyLimit> parseAccuracyLimit(const std::string &text);

double shareOfDecibel(double decibel);
double decibelOfShare(double share);
/// Share of the worst of some signal-to-noise ratios.
double worstShare(const std::vector<double> &decibels);

} // namespace tessera
#endif

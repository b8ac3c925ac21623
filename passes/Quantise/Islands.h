// Float islands: the few units that cost the most accuracy stay float.
//
// Ranked on calibration samples alone, over the switchable model: first every
// unit quantised by itself gives its noise in each part of the outputs; then,
// step by step, the units that add most to the worst part are tried in float
// and the best one stays. Some groups (a normalisation written out) pay off
// only together, so a few steps without gain are allowed, as long as the noise
// of the units that are left says that they could pay; the best set seen wins.
#ifndef TESSERA_PASSES_QUANTISE_ISLANDS_H
#define TESSERA_PASSES_QUANTISE_ISLANDS_H

#include "passes/Quantise/Switches.h"

namespace tessera::quantise {

struct IslandOptions {
  int most = -1; ///< number of units in float; -1: as many as pay off
  double floatMacs =
      0.05; ///< share of multiply-accumulates that may be float in all
  double leastGain = 0.3; ///< dB a unit, where `most` is -1
  double enough = 45;     ///< dB at which it stops, where `most` is -1
  size_t few = 4;         ///< samples that rank units
  Progress progress;
};

struct IslandStep {
  int unit = 0;
  std::vector<double>
      parts; ///< signal to noise of each part with all islands so far
  double worst = 0;
};

struct IslandSearch {
  std::vector<double> before; ///< parts with all candidates quantised
  std::map<int, std::vector<double>>
      solo;                      ///< parts with one unit quantised alone
  std::vector<IslandStep> steps; ///< those that were kept
  std::vector<IslandStep> tried; ///< and those that did not pay off after them
};

IslandSearch findIslands(SwitchModel &model, const std::vector<Unit> &units,
                         const IslandOptions &options);

} // namespace tessera::quantise
#endif

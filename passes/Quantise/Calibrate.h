// Measures the values of a model over samples, by running our own compiled
// float model with the values of interest as outputs.
#ifndef TESSERA_PASSES_QUANTISE_CALIBRATE_H
#define TESSERA_PASSES_QUANTISE_CALIBRATE_H

#include "passes/Quantise/Policy.h"
#include "passes/Quantise/Runner.h"

namespace tessera::quantise {

/// Where samples come from; one at a time, so that many need no memory.
struct SampleSource {
  size_t count = 0;
  std::function<Sample(size_t)> get;
};

struct CalibrationOptions {
  std::string cacheFile; ///< finished samples are kept there and not run again;
                         ///< or empty
  std::string key;       ///< of model and data: another key's file is ignored
  Progress progress;
};

/// The values whose ranges any choice may need: what units read, members of
/// Concats and float outputs.
std::vector<std::string> valuesOfInterest(const Graph &graph,
                                          const std::vector<Unit> &units);

/// Fills the work of units whose shapes inference could not tell, from one run.
void measureWork(const Graph &graph, std::vector<Unit> &units,
                 const Sample &sample, const CompileFunction &compile);

Ranges calibrate(const Graph &graph, const std::vector<std::string> &values,
                 const SampleSource &samples, const CompileFunction &compile,
                 const CalibrationOptions &options);

} // namespace tessera::quantise
#endif

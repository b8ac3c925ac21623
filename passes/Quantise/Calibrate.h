// Measures the values of a model over samples, by running our own compiled
// float model with the values of interest as outputs.
#ifndef TESSERA_PASSES_QUANTISE_CALIBRATE_H
#define TESSERA_PASSES_QUANTISE_CALIBRATE_H

#include "passes/Quantise/Policy.h"
#include "passes/Quantise/Runner.h"

namespace tessera::quantise {

/// The float model with all values that any phase reads as its outputs, so that
/// it is compiled once, when it is first run.
class FloatModel {
public:
  FloatModel(const Graph &graph, std::vector<std::string> values,
             const CompileFunction &compile);
  void run(const Sample &sample);
  /// A value of the last run, of an input as well; null if it is neither one of
  /// the given nor in the sample.
  const View *find(const std::string &value) const;

private:
  const Graph &graph;
  const CompileFunction &compile;
  std::vector<std::string> outputs;
  std::unique_ptr<Runner> runner;
  std::map<std::string, View> views;
  Sample current;
};

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

/// The largest magnitude of each value in each sample.
using Peaks = std::map<std::string, std::vector<float>>;

/// Fills the work of units whose shapes inference could not tell, from one run.
void measureWork(const Graph &graph, std::vector<Unit> &units,
                 const Sample &sample, const CompileFunction &compile);

Ranges calibrate(FloatModel &model, const std::vector<std::string> &values,
                 const SampleSource &samples, const CalibrationOptions &options,
                 Peaks &peaks);

/// The `count` samples in which `values` reach furthest, in order: those that
/// clipping costs the most.
std::vector<size_t> wildest(const Peaks &peaks,
                            const std::set<std::string> &values, size_t samples,
                            size_t count);

} // namespace tessera::quantise
#endif

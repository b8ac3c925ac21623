// A model in which everything that quantisation changes is an input, so that
// any choice is evaluated without compiling again:
//
//   x ---- Div s, Round, Clip lo..hi, Mul s ---- Where(enabled of the reading
//   unit) -> unit weights of products                          inputs: as they
//   are, or rounded
//
// All scales and bounds are elements of one input, all enables of another.
// Outputs are those of the model, and the members of an output that a Concat
// makes of unlike values, since the error of the small ones drowns in the large
// ones.
#ifndef TESSERA_PASSES_QUANTISE_SWITCHES_H
#define TESSERA_PASSES_QUANTISE_SWITCHES_H

#include "passes/Quantise/Decisions.h"
#include "passes/Quantise/Runner.h"

namespace tessera::quantise {

/// Something whose error is measured: a model output or a member of one.
/// Probabilities are measured as they are and by their logarithms, since
/// saturated ones hide errors.
struct Part {
  std::string name; ///< for reports
  std::string value;
  enum Form { Plain, Log, Logit } form = Plain;
};
std::vector<Part> findParts(const Graph &graph, const Ranges &ranges);

/// The values that parts are made of, once each.
std::vector<std::string> valuesOf(const std::vector<Part> &parts);

/// Outputs of a run in the form of each part.
using PartValues = std::vector<std::vector<float>>;
PartValues readParts(const std::vector<Part> &parts,
                     const std::vector<std::string> &outputs,
                     const std::vector<View> &views);

/// The same of one value; of the wrong type: nothing.
std::vector<float> readPart(const Part &part, const View *view);

/// Signal to noise in dB, between -99 and 200.
double signalToNoise(const std::vector<float> &reference,
                     const std::vector<float> &got);
double quantile(std::vector<double> values, double share);
inline double median(std::vector<double> values) {
  return quantile(std::move(values), 0.5);
}

/// The model with the values in `wanted` as its outputs, in that order.
ModelProto withOutputs(const Graph &graph,
                       const std::vector<std::string> &wanted);

class SwitchModel {
public:
  /// `decisions` says which units are candidates: those quantised in it.
  /// `references` are the float model's values by sample.
  SwitchModel(const Graph &graph, const Decisions &decisions,
              const std::vector<Part> &parts, const CompileFunction &compile,
              const std::vector<Sample> &samples,
              const std::vector<PartValues> &references);

  /// New scales for the same candidates; weights stay as they are rounded.
  void rescale(const Decisions &decisions);
  void enable(int unit, bool on);
  void enableOnly(const std::set<int> &units);
  /// Median over the samples of each part's signal to noise; `most` bounds
  /// their number, for comparisons that more samples decide again.
  std::vector<double> measure(size_t most = SIZE_MAX);
  /// Samples that count where clipping is judged, beside those that stand for
  /// all: as they are few, wild ones among the latter are chance.
  void addWild(std::vector<Sample> samples, std::vector<PartValues> references);
  /// The worst part, by the mean of its median over the samples and its lower
  /// tail over wild ones as well.
  /// Wild ones only lower it: they are not run where it is below `needed`
  /// without them.
  double robustWorst(size_t most = SIZE_MAX, double needed = -1000);
  const std::vector<int> &candidates() const { return order; }

private:
  void build();
  void setWeights(int unit);
  PartValues runOn(const Sample &sample);
  void measureOn(const Sample &sample, const PartValues &reference,
                 std::vector<std::vector<double>> &each);
  /// By part, then by sample.
  std::vector<std::vector<double>> measureEach(size_t most);

  const Graph &graph;
  Decisions decisions;
  std::vector<Part> parts;
  std::vector<std::string> outputs;
  const std::vector<Sample> &samples;
  std::vector<int> order;            ///< candidate units
  std::map<int, int> slot;           ///< unit -> place in `enables`
  std::map<PointKey, int> pointSlot; ///< -> first of three in `scales`
  std::vector<uint8_t> enables;
  std::vector<float> scales;
  ModelProto model;
  std::unique_ptr<Runner> runner;
  const std::vector<PartValues> &references;
  std::vector<Sample> wild;
  std::vector<PartValues> wildReferences;
  std::map<int, std::vector<Tensor>>
      rounded; ///< weights of units as they are when quantised
};

} // namespace tessera::quantise
#endif

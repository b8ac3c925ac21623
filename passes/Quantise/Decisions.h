// What was decided about a model: the units, a scale for every value that a
// quantised unit reads, and how weights become integers. The switchable model
// (Switches.h) evaluates it, Emit.h writes it.
#ifndef TESSERA_PASSES_QUANTISE_DECISIONS_H
#define TESSERA_PASSES_QUANTISE_DECISIONS_H

#include "passes/Quantise/Policy.h"
#include "passes/Quantise/Scale.h"

namespace tessera::quantise {

ActivationType activationType(int32_t type);

/// A value as it is read by units of one activation type.
struct PointKey {
  std::string value;
  int32_t type = TensorProto::INT8;
  auto operator<=>(const PointKey &) const = default;
};

struct Decisions {
  std::vector<Unit> units;
  std::map<PointKey, Params> points;
  bool searchWeightError =
      false; ///< scales of weights by least error, not by the largest
  /// Weights that were rounded with error feedback, instead of each to its
  /// nearest.
  std::map<WeightUse, QuantisedWeights> rounded;
  /// Added to the biases of units, by index: what quantisation loses on
  /// average.
  std::map<int, std::vector<float>> biasShifts;
};

/// The constant operands of quantised units become these integers, also in
/// Emit.
std::map<WeightUse, QuantisedWeights>
quantiseUnitWeights(const Graph &graph, const Unit &unit,
                    const Decisions &decisions);

/// Points that all quantised units together read, in order.
std::set<PointKey> pointsOf(const Graph &graph, const std::vector<Unit> &units);

/// Fills decisions.points: one range method for all values, or by `methods` by
/// value.
void decideScales(const Graph &graph, const Ranges &ranges, RangeMethod method,
                  double share,
                  const std::map<std::string, RangeMethod> &methods,
                  Decisions &decisions);

} // namespace tessera::quantise
#endif

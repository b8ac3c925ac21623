// Which units are quantised, and the hazards that decide it (the range lint).
#ifndef TESSERA_PASSES_QUANTISE_POLICY_H
#define TESSERA_PASSES_QUANTISE_POLICY_H

#include "passes/Quantise/Histogram.h"
#include "passes/Quantise/Units.h"

namespace tessera::quantise {

/// A finding of the lint: what in the model makes integers a risk.
struct Hazard {
  std::string kind;               ///< a fixed word, for reports and tests
  std::vector<std::string> nodes; ///< by name
  std::string text;               ///< what was seen, with figures
  std::string remedy;             ///< what was done about it
};

using Ranges = std::map<std::string, Histogram>;

enum class Coverage { Auto, Products, All };

struct PolicyOptions {
  Coverage coverage = Coverage::Auto;
  int64_t originalOpset = 0; ///< before it was raised, or 0
  bool transformer = false;  ///< what Auto means
};

/// Findings that need no ranges: masks, decomposed normalisations, power
/// spectra, comparisons, the operator set. `floating` gets the nodes that stay
/// float for them.
std::vector<Hazard> findHazards(const Graph &graph,
                                const PolicyOptions &options,
                                std::set<int> &floating);
/// Findings about measured ranges.
std::vector<Hazard> findRangeHazards(const Graph &graph,
                                     const std::vector<Unit> &units,
                                     const Ranges &ranges);

/// Whether the model is a transformer: attention, or normalisation over
/// features.
bool isTransformer(const Graph &graph);

/// Marks units as quantised, or says why not. Ranges may be empty: then nothing
/// is decided by them.
void choose(const Graph &graph, std::vector<Unit> &units,
            const std::set<int> &floating, const PolicyOptions &options);

/// Takes Concat units with members of unlike ranges back to float.
void separateUnlike(const Graph &graph, std::vector<Unit> &units,
                    const Ranges &ranges);

/// Values that share one scale, by the name of one of them: inputs and outputs
/// of quantised moves and Concats.
std::map<std::string, std::string> scaleGroups(const Graph &graph,
                                               const std::vector<Unit> &units);

/// The members of a Concat that a value comes from, through moves; empty if it
/// does not come from one.
std::vector<std::string> concatMembers(const Graph &graph,
                                       const std::string &value);
/// Whether one scale for all of them would take more than three bits from one.
bool areUnlike(const std::vector<const Histogram *> &members);

} // namespace tessera::quantise
#endif

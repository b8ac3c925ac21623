// Attention over an axis whose length the model leaves open, as a decoder with
// a cache has it. Samples show some lengths; over a short one the probabilities
// reach 1 and their product is as wide as the values, far beyond what long ones
// showed (the first steps of a decoder calibrated on later ones). What is known
// without samples is used instead: probabilities are at most 1, and a mean is
// nowhere wider than what it is taken of.
#ifndef TESSERA_PASSES_QUANTISE_LENGTHS_H
#define TESSERA_PASSES_QUANTISE_LENGTHS_H

#include "passes/Quantise/Policy.h"

namespace tessera::quantise {

/// Results of softmax over axes whose length is open; `declared` is the model
/// before its inputs are fixed.
std::set<std::string> openProbabilities(const Graph &declared);

/// Products of such probabilities stay float where 8 bits cannot hold both 1
/// and the small ones of a long axis; the search leaves them.
std::vector<Hazard> separateOpen(const Graph &graph,
                                 const std::set<std::string> &open,
                                 std::vector<Unit> &units);

/// Adds to ranges what shorter axes would show.
void widenOpen(const Graph &graph, const std::set<std::string> &open,
               Ranges &ranges);

} // namespace tessera::quantise
#endif

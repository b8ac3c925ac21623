// Where integers end: what reads a unit's result and stays float reads the
// value itself, so the unit has to write floats, which accelerators for
// integers cannot.
//
//   conv ---- v ---- Sigmoid          conv ---- v ---- Identity ---- Sigmoid
//
// As a unit of its own the Identity is a choice: quantised, it makes the float
// nodes read what was rounded, and the unit before it writes integers alone.
#ifndef TESSERA_PASSES_QUANTISE_EXITS_H
#define TESSERA_PASSES_QUANTISE_EXITS_H

#include "passes/Quantise/Policy.h"

namespace tessera::quantise {

/// Inserts an Identity behind each unit that the policy quantises and that has
/// float readers or is an output. Returns the names of these nodes.
std::set<std::string> insertExits(ModelProto &model,
                                  const PolicyOptions &policy);

/// Exits by unit: the unit whose result each of them passes on.
std::map<int, int> exitsOf(const Graph &graph, const std::vector<Unit> &units,
                           const std::set<std::string> &names);

} // namespace tessera::quantise
#endif

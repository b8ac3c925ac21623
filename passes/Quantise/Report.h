// What was decided and what it costs, for people and programs.
#ifndef TESSERA_PASSES_QUANTISE_REPORT_H
#define TESSERA_PASSES_QUANTISE_REPORT_H

#include "passes/Quantise/Quantise.h"

namespace tessera::quantise {

/// Hazards, units, scales, parts, islands.
std::string reportJson(const QuantiseResult &result);
/// A line a unit: its state and the signal to noise of the worst part when it
/// alone is quantised (empty where that was not measured).
std::string layersCsv(const QuantiseResult &result);
/// The error of each unit alone as bars, in the model's order.
std::string layersSvg(const QuantiseResult &result);

} // namespace tessera::quantise
#endif

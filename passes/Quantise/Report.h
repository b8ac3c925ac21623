// What was decided and what it costs, for people and programs.
#ifndef TESSERA_PASSES_QUANTISE_REPORT_H
#define TESSERA_PASSES_QUANTISE_REPORT_H

#include "passes/Quantise/Quantise.h"

namespace tessera::quantise {

/// Hazards, units, scales, parts, islands.
std::string reportJson(const QuantiseResult &result);
/// A line a unit: its state, the signal to noise of the worst part when it
/// alone is quantised (empty where that was not measured), and the errors at
/// its own output, isolated and accumulated.
std::string layersCsv(const QuantiseResult &result);
/// The same as a table for reading.
std::string layersText(const QuantiseResult &result);

/// The error of each unit in the model's order (Plots.cpp): bars for what it
/// costs alone, dots for what has accumulated at its output.
std::string layersSvg(const QuantiseResult &result);
/// Accuracy against latency with each more island; needs points.
std::string frontierSvg(const QuantiseResult &result);

} // namespace tessera::quantise
#endif

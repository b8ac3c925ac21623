// The error of each unit at its own output: isolated, with the float model's
// inputs, and accumulated, in the quantised model.
//
// The isolated errors of all units come from one model: the float nodes, and
// behind them each unit's nodes once more, which read quantised float values.
#ifndef TESSERA_PASSES_QUANTISE_ERRORS_H
#define TESSERA_PASSES_QUANTISE_ERRORS_H

#include "passes/Quantise/Runner.h"
#include "passes/Quantise/Units.h"

namespace tessera::quantise {

struct ErrorFigures {
  double snr = 0; ///< dB over all samples
  double cosine = 0, largest = 0;
};
struct UnitErrors {
  ErrorFigures isolated, accumulated;
};

/// Of units with a float output, by their index. `emitted` is the graph with
/// the quantised units in it.
std::map<int, UnitErrors> measureErrors(const Graph &graph,
                                        const ModelProto &emitted,
                                        const std::vector<Unit> &units,
                                        const std::vector<Sample> &samples,
                                        const CompileFunction &compile);

/// What quantised units with a bias lose on average in each channel of the
/// product, in isolation: float minus quantised.
std::map<int, std::vector<float>> meanErrors(const Graph &graph,
                                             const ModelProto &emitted,
                                             const std::vector<Unit> &units,
                                             const std::vector<Sample> &samples,
                                             const CompileFunction &compile);

/// The float model with isolated copies of the quantised units; `copies` gets
/// the names of their values.
ModelProto isolateUnits(const Graph &graph, const ModelProto &emitted,
                        const std::vector<Unit> &units,
                        std::map<std::string, std::string> &copies);

} // namespace tessera::quantise
#endif

// What a float16 device does to a model's values, for the runs that measure it:
// the named nodes read and write values that float16 holds, and compute in
// float32.
#ifndef TESSERA_PASSES_PRECISION_HALFROUNDING_H
#define TESSERA_PASSES_PRECISION_HALFROUNDING_H

#include "passes/Quantise/Graph.h"

namespace tessera {

/// Adds Casts around the nodes of `model` with these names. `graph` is the
/// model before quantisation and knows the types.
void roundToHalf(quantise::ModelProto &model, const quantise::Graph &graph,
                 const std::set<std::string> &nodes);

/// The same for all nodes of `graph`.
void roundAllToHalf(quantise::ModelProto &model, const quantise::Graph &graph);

} // namespace tessera
#endif

// Writes decisions into the model as standard QuantizeLinear and
// DequantizeLinear.
#ifndef TESSERA_PASSES_QUANTISE_EMIT_H
#define TESSERA_PASSES_QUANTISE_EMIT_H

#include "passes/Quantise/Decisions.h"

namespace tessera::quantise {

struct EmitResult {
  ModelProto model;
  int quantizeNodes = 0, dequantizeNodes = 0;
  int floatBiases = 0; ///< that did not fit int32
};

/// Every value that a quantised unit reads goes once through QuantizeLinear and
/// DequantizeLinear; weights become int8 initialisers behind DequantizeLinear;
/// biases int32 by the scale of the products. Nodes that stay float, and
/// outputs, read what they read before. int16 needs operator set 21 or, below,
/// the operators of com.microsoft.
EmitResult emit(const Graph &graph, const Decisions &decisions);

/// Drops initialisers and Constant nodes that nothing reads, and their value
/// infos.
void removeUnused(ModelProto &model);

} // namespace tessera::quantise
#endif

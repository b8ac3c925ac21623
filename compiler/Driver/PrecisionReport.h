// The precision audit: what was asked of each node, what it got, where and why;
// and the plans that were weighed against each other.
#ifndef TESSERA_COMPILER_DRIVER_PRECISIONREPORT_H
#define TESSERA_COMPILER_DRIVER_PRECISIONREPORT_H

#include "compiler/Driver/QuantiseModel.h"

namespace tessera {

/// A node of the model before it was quantised.
struct PrecisionRow {
  std::string node, op;
  std::string asked, got; ///< int8, int16, uint8, f16, f32
  std::string device; ///< of the plan; "folded" if nothing of the node is left
  std::string why;    ///< where `got` is not what was asked
};

/// Of a model quantised by 8x8 or 16x8, in the model's order. Without a
/// placement everything is on `cpu`.
std::vector<PrecisionRow>
auditPrecision(const QuantisedModel &model,
               const std::optional<Placement> &placement, llvm::StringRef cpu);

/// In words: the noise, and with a limit the plans.
void printPrecision(const QuantisedModel &model, llvm::raw_ostream &os);
/// Writes precision.json and quantized.onnx, the model that was compiled, into
/// a folder.
llvm::Error writePrecision(const QuantisedModel &model,
                           const std::optional<Placement> &placement,
                           llvm::StringRef cpu, llvm::StringRef folder);

} // namespace tessera
#endif

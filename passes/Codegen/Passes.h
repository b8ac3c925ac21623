// Passes between canonicalisation and the plan.
#ifndef TESSERA_PASSES_CODEGEN_PASSES_H
#define TESSERA_PASSES_CODEGEN_PASSES_H

namespace tessera {
/// Registers `tsr-lower` for tessera-opt.
void registerCodegenPasses();
} // namespace tessera
#endif

// Models compiled by our own compiler and run in this process, for
// quantisation.
#ifndef TESSERA_TOOLS_TESSERA_MODELRUNNER_H
#define TESSERA_TOOLS_TESSERA_MODELRUNNER_H

#include "passes/Quantise/Runner.h"

namespace tessera::tool {

/// Compiles a model for this machine and opens it. `dims` are texts of --dim,
/// `variant` is an ISA variant that this machine has; empty: its best.
quantise::CompileFunction makeCompileFunction(std::vector<std::string> dims,
                                              std::string variant = "");

} // namespace tessera::tool
#endif

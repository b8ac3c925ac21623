// The options of `compile` that quantise.
#ifndef TESSERA_TOOLS_TESSERA_QUANTISEOPTIONS_H
#define TESSERA_TOOLS_TESSERA_QUANTISEOPTIONS_H

#include "compiler/Driver/QuantiseModel.h"
#include "tools/tessera/Commands.h"

namespace tessera::tool {

/// Words of the command line.
struct QuantiseWords {
  std::string scheme, calib, limit, recipe, activations = "int8";
  size_t samples = 0;
  bool quiet = false;
};

void addQuantiseOptions(CLI::App &command, QuantiseWords &words);

/// Sets options.quantise if --quantize was given. A usage error, or 0.
int readQuantiseOptions(const CLI::App &command, const QuantiseWords &words,
                        CompileOptions &options);

} // namespace tessera::tool
#endif

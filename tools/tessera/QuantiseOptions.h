// The options of `compile` that quantise, and what `quantize` shares with it.
#ifndef TESSERA_TOOLS_TESSERA_QUANTISEOPTIONS_H
#define TESSERA_TOOLS_TESSERA_QUANTISEOPTIONS_H

#include "compiler/Driver/QuantiseModel.h"
#include "tools/tessera/Commands.h"
#include "llvm/ADT/StringRef.h"

namespace tessera::tool {

/// Words of the command line.
struct QuantiseWords {
  std::string scheme, calib, limit, recipe, activations = "int8";
  size_t samples = 0;
  bool quiet = false;
};

void addQuantiseOptions(CLI::App &command, QuantiseWords &words);

/// Words for the schemes, to choose from.
std::vector<std::string> schemeWords();
/// Element type of activations by --scheme and --activations.
int32_t typeOfActivations(llvm::StringRef scheme, llvm::StringRef activations);
/// A line on a terminal, nothing in a pipe.
quantise::Progress quantiseProgress();
void endQuantiseProgress();
/// Warnings, each with its first nodes.
void printHazards(const std::vector<quantise::Hazard> &hazards);

/// Sets options.quantise if --quantize was given. A usage error, or 0.
int readQuantiseOptions(const CLI::App &command, const QuantiseWords &words,
                        CompileOptions &options);

} // namespace tessera::tool
#endif

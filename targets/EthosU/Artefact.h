// The device segment of an Ethos-U in a bundle: the command stream with all
// that a driver needs to run it, and the TOSA file that it was made from, by
// which it can be checked or played. runtime-stub/format/FORMAT.md has the
// layout.
#ifndef TESSERA_TARGETS_ETHOSU_ARTEFACT_H
#define TESSERA_TARGETS_ETHOSU_ARTEFACT_H

#include "targets/EthosU/Vela.h"

namespace tessera::ethosu {

std::vector<uint8_t> writeArtefact(const VelaConfig &config,
                                   const VelaResult &result,
                                   llvm::ArrayRef<uint8_t> tosa);

struct Artefact {
  VelaConfig config;
  std::string velaVersion;
  uint64_t scratch = 0, scratchFast = 0;
  uint32_t weightsRegion = 0, scratchRegion = 0, scratchFastRegion = 0;
  std::vector<VelaTensor> inputs, outputs;
  llvm::ArrayRef<uint8_t> commands, weights,
      tosa; ///< inside of the bytes that were read
};

/// Whether the bytes begin like one.
bool isArtefact(llvm::ArrayRef<uint8_t> bytes);
/// Trusts nothing: every place and size is checked. Fails with field, found,
/// needed.
llvm::Expected<Artefact> readArtefact(llvm::ArrayRef<uint8_t> bytes);

} // namespace tessera::ethosu
#endif

// The Ethos-U configurations that Vela knows.
#ifndef TESSERA_TARGETS_ETHOSU_ACCELERATOR_H
#define TESSERA_TARGETS_ETHOSU_ACCELERATOR_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <optional>

namespace tessera::ethosu {

/// What the limits depend on: they are the same for every number of MACs.
enum class Family { U55, U65, U85 };
llvm::StringRef familyName(Family family); ///< "Ethos-U55"

struct Accelerator {
  llvm::StringRef config; ///< Vela's word, "ethos-u55-256"
  Family family;
  unsigned macs; ///< int8 MACs a cycle, of all cores
};

/// All of them, smallest first.
llvm::ArrayRef<Accelerator> allAccelerators();
/// Vela's word for it, "ethos-u55-256"; none if there is no such.
std::optional<Accelerator> findAccelerator(llvm::StringRef config);

/// The system configurations of Vela's Arm/vela.ini for a family, and the memory
/// modes that the family has.
llvm::ArrayRef<llvm::StringRef> systemConfigs(Family family);
llvm::ArrayRef<llvm::StringRef> memoryModes(Family family);

} // namespace tessera::ethosu
#endif

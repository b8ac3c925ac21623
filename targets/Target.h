// Target descriptions: what a chip is, as data.
#ifndef TESSERA_TARGETS_TARGET_H
#define TESSERA_TARGETS_TARGET_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace tessera {

struct TargetDescription {
  std::string name, summary;
  std::vector<std::string> cpuVariants; ///< ISA variants, best first
  std::string text;                     ///< the YAML it was read from
};

/// Built-in descriptions, sorted by name.
llvm::ArrayRef<TargetDescription> builtinTargets();
/// A built-in name, or the path of a YAML file.
llvm::Expected<TargetDescription> findTarget(llvm::StringRef nameOrPath);
/// Parses and checks one description; `origin` is named in errors.
llvm::Expected<TargetDescription> parseTarget(llvm::StringRef text, llvm::StringRef origin);

} // namespace tessera
#endif

// Bundles of models that `tessera run` compiled, by content.
//
// A bundle is a function of what is hashed into its name, so an entry is never
// out of date, only unused. $XDG_CACHE_HOME/tessera/run (or ~/.cache) holds
//
//   MODEL.files    the model's external files, one a line, below its folder
//   BUNDLE.tsr     the bundle
//
// MODEL hashes the compiler's build, the target, the options and the model's bytes;
// BUNDLE that and the bytes of the external files. A bundle is not kept if a file
// changed while it was made. What is found is checked as the
// loader would, before it is used; what does not pass is compiled again.
#ifndef TESSERA_TOOLS_TESSERA_BUNDLECACHE_H
#define TESSERA_TOOLS_TESSERA_BUNDLECACHE_H

#include "compiler/Driver/Driver.h"

#include <ctime>
#include <optional>
#include <string>

namespace tessera::tool {

class BundleCache {
public:
  /// None where there is no folder for it that is this user's alone, where the
  /// build cannot be told, where the model cannot be read, or with options that
  /// `tessera run` does not have.
  static std::optional<BundleCache> open(const CompileOptions &options);

  /// The bundle, if it is there and whole.
  std::optional<std::string> find() const;
  /// Where to compile to, before keep().
  std::string pendingPath() const;
  /// Takes `path`, made from the files `inputs`, in; gives its new path, or
  /// none if that failed and it stays where it is.
  std::optional<std::string> keep(const std::string &path, const std::vector<std::string> &inputs) const;

private:
  std::string bundlePath(const std::vector<std::string> &files) const;
  bool isWhole(const std::string &path) const;
  void removeOldest() const;

  std::string folder, modelFolder, modelKey, modelHash;
  timespec opened = {}; ///< on the clock of files
};

} // namespace tessera::tool
#endif

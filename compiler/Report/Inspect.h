// What is in a bundle, for people (text) and programs (JSON).
//
// Reads the file through FlatBuffers' own code, not through the loader, so that
// it also describes bundles that no machine at hand can run. The hash over
// header and manifest is checked; those of the segments are tsr-run's business.
#ifndef TESSERA_COMPILER_REPORT_INSPECT_H
#define TESSERA_COMPILER_REPORT_INSPECT_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>

namespace tessera {

enum class InspectFormat { Text, Json };

struct InspectOptions {
  InspectFormat format = InspectFormat::Text;
  bool kernels = true;  ///< list every kernel
  bool buffers = false; ///< list every buffer
};

llvm::Expected<std::string> inspectBundle(llvm::StringRef path,
                                          const InspectOptions &options = {});

/// Writes the bytes of one segment, whose hashes are checked, to a file.
llvm::Error extractSegment(llvm::StringRef path, uint32_t number,
                           llvm::StringRef output);

} // namespace tessera
#endif

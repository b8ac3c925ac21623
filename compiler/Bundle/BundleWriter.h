// Writes a plan as a bundle file.
//
// The result is a function of the plan alone: equal plans give equal bytes. The
// constants are streamed from where they lie (often the mapped model), hashed
// on the way and stored once per content; the file appears under its name only
// when it is complete.
//
// How constants are handed in: `plan.constants` holds the byte ranges;
// `plan.constantOf[buffer]` says which of them a Constant buffer shows. The
// writer sets no field of the plan: the place of each constant (offset in the
// data segment, 64-byte aligned, in order of first use) is decided here and
// goes into the manifest only. A constant that no buffer shows is not written.
#ifndef TESSERA_COMPILER_BUNDLE_BUNDLEWRITER_H
#define TESSERA_COMPILER_BUNDLE_BUNDLEWRITER_H

#include "compiler/Bundle/Plan.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace tessera {

/// What a written bundle consists of.
struct BundleStats {
  uint64_t fileBytes = 0;
  uint64_t manifestBytes = 0;
  uint64_t codeBytes = 0;     ///< all variants
  uint64_t dataBytes = 0;     ///< after deduplication, with padding
  uint64_t constantBytes = 0; ///< before deduplication
  uint32_t deduplicated = 0;  ///< constants that share another one's bytes
};

class PendingFile;

/// Writes `plan` to `path`. An existing regular file is replaced atomically.
/// `companion` (a depfile) is committed with it: a failure leaves neither.
llvm::Expected<BundleStats> writeBundle(const Plan &plan, llvm::StringRef path, PendingFile *companion = nullptr);

} // namespace tessera
#endif

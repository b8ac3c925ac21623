// `tessera-opt --tosa-read`: prints TOSA files, or what keeps them from an Ethos-U.
#ifndef TESSERA_TOOLS_TESSERA_OPT_TOSAFILES_H
#define TESSERA_TOOLS_TESSERA_OPT_TOSAFILES_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

/// Arguments after `--tosa-read`; returns the exit code: 1 if a file cannot be
/// read, 2 for wrong arguments. Refusals by an accelerator are output, no failure.
int readTosaFiles(llvm::ArrayRef<llvm::StringRef> args);

#endif

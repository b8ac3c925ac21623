// BLAKE3 as the words of provenance and cache keys have it.
#ifndef TESSERA_COMPILER_DRIVER_DIGEST_H
#define TESSERA_COMPILER_DRIVER_DIGEST_H

#include "llvm/ADT/StringRef.h"
#include <string>

namespace tessera {

/// 64 hexadecimal digits, in lower case.
std::string blake3Of(llvm::StringRef bytes);

} // namespace tessera
#endif

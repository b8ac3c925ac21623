// Which build of the compiler this is.
#ifndef TESSERA_COMPILER_DRIVER_BUILDID_H
#define TESSERA_COMPILER_DRIVER_BUILDID_H

#include <string>

namespace tessera {

/// What the linker made of the contents (NT_GNU_BUILD_ID) of the objects that make
/// code: the compiler library and those of LLVM and MLIR, as they are in memory;
/// empty where one has none.
std::string buildId();

} // namespace tessera
#endif

// Which build of the compiler this is.
#ifndef TESSERA_COMPILER_DRIVER_BUILDID_H
#define TESSERA_COMPILER_DRIVER_BUILDID_H

#include <string>

namespace tessera {

/// What the linker made of the compiler library's contents (NT_GNU_BUILD_ID),
/// as it is in memory; empty where there is none.
std::string buildId();

} // namespace tessera
#endif

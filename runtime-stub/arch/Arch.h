// What differs between processors: instruction cache, denormals.
#ifndef TESSERA_RUNTIME_ARCH_H
#define TESSERA_RUNTIME_ARCH_H

#include "runtime-stub/src/Core.h"

#if defined(__x86_64__)
#include "runtime-stub/arch/X86_64.h"
#elif defined(__aarch64__)
#include "runtime-stub/arch/AArch64.h"
#else
#error "the loader knows x86-64 and AArch64"
#endif

#endif

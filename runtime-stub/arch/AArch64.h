#ifndef TESSERA_RUNTIME_ARCH_AARCH64_H
#define TESSERA_RUNTIME_ARCH_AARCH64_H

#include <stdint.h>

namespace tsr::arch {

inline constexpr uint16_t kMachine = 183;

/// Data cache to the point of unification, then the instruction cache. The
/// line sizes are fields of CTR_EL0, which Linux lets programs read; its IDC
/// and DIC bits say when a step is needless.
inline void syncInstructions(void *begin, uint64_t bytes) {
  uint64_t ctr;
  asm volatile("mrs %0, ctr_el0" : "=r"(ctr));
  uint64_t first = reinterpret_cast<uint64_t>(begin), end = first + bytes;
  if (!(ctr >> 28 & 1)) {
    uint64_t line = uint64_t(4) << (ctr >> 16 & 15);
    for (uint64_t at = first & ~(line - 1); at < end; at += line)
      asm volatile("dc cvau, %0" ::"r"(at) : "memory");
  }
  asm volatile("dsb ish" ::: "memory");
  if (!(ctr >> 29 & 1)) {
    uint64_t line = uint64_t(4) << (ctr & 15);
    for (uint64_t at = first & ~(line - 1); at < end; at += line)
      asm volatile("ic ivau, %0" ::"r"(at) : "memory");
  }
  asm volatile("dsb ish\n\tisb" ::: "memory");
}

/// FPCR bit 24: flush denormal inputs and results of single and double.
using FloatMode = uint64_t;

inline FloatMode flushDenormals() {
  uint64_t old;
  asm volatile("mrs %0, fpcr" : "=r"(old));
  asm volatile("msr fpcr, %0" ::"r"(old | (uint64_t(1) << 24)));
  return old;
}

inline void restoreFloatMode(FloatMode old) {
  asm volatile("msr fpcr, %0" ::"r"(old));
}

} // namespace tsr::arch
#endif

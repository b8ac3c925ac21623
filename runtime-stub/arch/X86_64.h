#ifndef TESSERA_RUNTIME_ARCH_X86_64_H
#define TESSERA_RUNTIME_ARCH_X86_64_H

#include <stdint.h>

namespace tsr::arch {

inline constexpr uint16_t kMachine = 62;

/// Instruction fetch sees earlier stores of the same processor.
inline void syncInstructions(void *, uint64_t) {
  asm volatile("" ::: "memory");
}

/// MXCSR bits 15 (flush to zero) and 6 (denormals are zeros).
using FloatMode = uint32_t;

inline FloatMode flushDenormals() {
  uint32_t old;
  asm volatile("stmxcsr %0" : "=m"(old));
  uint32_t flushing = old | 0x8040;
  asm volatile("ldmxcsr %0" ::"m"(flushing));
  return old;
}

inline void restoreFloatMode(FloatMode old) {
  asm volatile("ldmxcsr %0" ::"m"(old));
}

} // namespace tsr::arch
#endif

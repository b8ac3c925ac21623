// Instruction-set variants that CPU kernels are compiled for.
#ifndef TESSERA_TARGETS_CPU_ISA_H
#define TESSERA_TARGETS_CPU_ISA_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <cstdint>

namespace tessera::cpu {

enum class Arch : uint8_t { X86_64, AArch64 };

/// How a variant's vectors are shaped: `n` lanes, times vscale if scalable.
struct Lanes {
  unsigned n = 1;
  bool scalable = false;
  bool isScalar() const { return n == 1 && !scalable; }
};

struct Isa {
  llvm::StringRef name;       ///< "x86-64-v3", "aarch64-sve2", ... as in the bundle
  Arch arch;
  llvm::StringRef triple;     ///< LLVM target triple
  llvm::StringRef cpu;        ///< LLVM CPU for selection and scheduling
  llvm::StringRef attributes; ///< LLVM feature string
  llvm::ArrayRef<llvm::StringRef> features; ///< what the loader must find (FORMAT.md)
  unsigned vectorBits;        ///< of one register (the granule of 128 if scalable)
  bool scalable;
  unsigned vectorRegisters;   ///< architectural vector registers
  bool hasFma;                ///< native fused multiply-add
  bool hasHalfConvert;        ///< native f16 <-> f32
  bool hasMaskedOps;          ///< cheap masked loads and stores
  bool hasVnni;               ///< x86 u8 x s8 dot product
  bool hasDot, hasI8mm, hasSme2;

  /// Lanes of one register for elements of `bits`.
  Lanes lanes(unsigned bits) const { return {vectorBits / bits, scalable}; }
};

/// All variants known, best first within an architecture.
llvm::ArrayRef<Isa> allIsas();
/// The variant of that name, or null.
const Isa *findIsa(llvm::StringRef name);

} // namespace tessera::cpu
#endif

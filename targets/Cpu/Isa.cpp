#include "targets/Cpu/Isa.h"

using namespace llvm;

namespace tessera::cpu {

static constexpr StringRef x86v2[] = {"sse3", "ssse3", "sse4.1", "sse4.2", "popcnt"};
static constexpr StringRef x86v3[] = {"sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "avx",
                                      "avx2", "fma", "f16c", "bmi", "bmi2", "lzcnt", "movbe"};
static constexpr StringRef x86v4[] = {"sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "avx",
                                      "avx2", "fma", "f16c", "bmi", "bmi2", "lzcnt", "movbe",
                                      "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl",
                                      "avx512vnni"};
static constexpr StringRef neon[] = {"asimd"};
static constexpr StringRef sve2[] = {"asimd", "sve", "sve2"};
static constexpr StringRef sme2[] = {"asimd", "sme", "sme2"};

static const Isa isas[] = {
    {"x86-64-v4", Arch::X86_64, "x86_64-unknown-linux-gnu", "x86-64-v4", "+avx512vnni", x86v4, 512, false,
     32, true, true, true, true, false, false, false},
    {"x86-64-v3", Arch::X86_64, "x86_64-unknown-linux-gnu", "x86-64-v3", "", x86v3, 256, false, 16,
     true, true, false, false, false, false, false},
    {"x86-64-v2", Arch::X86_64, "x86_64-unknown-linux-gnu", "x86-64-v2", "", x86v2, 128, false, 16,
     false, false, false, false, false, false, false},
    {"aarch64-sme2", Arch::AArch64, "aarch64-unknown-linux-gnu", "generic", "+neon,+sme2", sme2, 128,
     false, 32, true, true, false, false, false, false, true},
    {"aarch64-sve2", Arch::AArch64, "aarch64-unknown-linux-gnu", "generic", "+neon,+sve2", sve2, 128,
     true, 32, true, true, true, false, false, false, false},
    {"aarch64-neon", Arch::AArch64, "aarch64-unknown-linux-gnu", "cortex-a53", "+neon", neon, 128,
     false, 32, true, true, false, false, false, false, false},
};

ArrayRef<Isa> allIsas() { return isas; }

const Isa *findIsa(StringRef name) {
  for (const Isa &isa : isas)
    if (isa.name == name)
      return &isa;
  return nullptr;
}

} // namespace tessera::cpu

// What the processor can do and the operating system lets it do.
#include "runtime-stub/platform/posix/PosixHost.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace tsr::posix {
namespace {

class FeatureList {
public:
  void add(const char *name, bool present) {
    if (!present)
      return;
    if (!text.empty())
      text += ' ';
    text += name;
  }
  std::string text;
};

} // namespace

#if defined(__x86_64__)

std::string detectFeatures() {
  struct Leaf {
    unsigned a = 0, b = 0, c = 0, d = 0;
  };
  auto query = [](unsigned leaf, unsigned subleaf) {
    Leaf l;
    __get_cpuid_count(leaf, subleaf, &l.a, &l.b, &l.c, &l.d);
    return l;
  };
  auto bit = [](unsigned word, int n) { return (word >> n & 1) != 0; };
  Leaf l1 = query(1, 0), l7 = query(7, 0), l71, e1 = query(0x80000001, 0);
  if (l7.a >= 1)
    l71 = query(7, 1);
  // XCR0: the registers that the system saves. Bits 1, 2: SSE, AVX; 5, 6, 7:
  // mask registers and the upper parts of AVX-512.
  uint64_t saved = 0;
  if (bit(l1.c, 27)) {
    unsigned low, high;
    asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    saved = uint64_t(high) << 32 | low;
  }
  bool avx = (saved & 0x6) == 0x6 && bit(l1.c, 28);
  bool avx512 = avx && (saved & 0xe6) == 0xe6 && bit(l7.b, 16);

  FeatureList list;
  list.add("sse3", bit(l1.c, 0));
  list.add("ssse3", bit(l1.c, 9));
  list.add("cx16", bit(l1.c, 13));
  list.add("sse4.1", bit(l1.c, 19));
  list.add("sse4.2", bit(l1.c, 20));
  list.add("movbe", bit(l1.c, 22));
  list.add("popcnt", bit(l1.c, 23));
  list.add("sahf", bit(e1.c, 0));
  list.add("lzcnt", bit(e1.c, 5));
  list.add("bmi", bit(l7.b, 3));
  list.add("bmi2", bit(l7.b, 8));
  list.add("avx", avx);
  list.add("f16c", avx && bit(l1.c, 29));
  list.add("fma", avx && bit(l1.c, 12));
  list.add("avx2", avx && bit(l7.b, 5));
  list.add("avxvnni", avx && bit(l71.a, 4));
  list.add("avx512f", avx512);
  list.add("avx512dq", avx512 && bit(l7.b, 17));
  list.add("avx512cd", avx512 && bit(l7.b, 28));
  list.add("avx512bw", avx512 && bit(l7.b, 30));
  list.add("avx512vl", avx512 && bit(l7.b, 31));
  list.add("avx512vnni", avx512 && bit(l7.c, 11));
  list.add("avx512bf16", avx512 && bit(l71.a, 5));
  list.add("avx512fp16", avx512 && bit(l7.d, 23));
  bool v2 = bit(l1.c, 0) && bit(l1.c, 9) && bit(l1.c, 13) && bit(l1.c, 19) &&
            bit(l1.c, 20) && bit(l1.c, 23) && bit(e1.c, 0);
  bool v3 = v2 && avx && bit(l1.c, 29) && bit(l1.c, 12) && bit(l7.b, 5) &&
            bit(l7.b, 3) && bit(l7.b, 8) && bit(l1.c, 22) && bit(e1.c, 5);
  bool v4 = v3 && avx512 && bit(l7.b, 17) && bit(l7.b, 28) && bit(l7.b, 30) &&
            bit(l7.b, 31);
  list.add("x86-64-v2", v2);
  list.add("x86-64-v3", v3);
  list.add("x86-64-v4", v4);
  return list.text;
}

#elif defined(__aarch64__)

std::string detectFeatures() {
  // Bit numbers of Linux' <asm/hwcap.h>, spelt out since old headers lack them.
  uint64_t first = getauxval(AT_HWCAP), second = getauxval(AT_HWCAP2);
  auto bit = [](uint64_t word, int n) { return (word >> n & 1) != 0; };
  FeatureList list;
  list.add("fp-armv8", bit(first, 0));
  list.add("asimd", bit(first, 1)); // Linux and LLVM have two names for it
  list.add("neon", bit(first, 1));
  list.add("lse", bit(first, 8));
  list.add("fullfp16", bit(first, 9) && bit(first, 10));
  list.add("rdm", bit(first, 12));
  list.add("dotprod", bit(first, 20));
  list.add("fp16fml", bit(first, 23));
  list.add("sve", bit(first, 22));
  list.add("sve2", bit(second, 1));
  list.add("f32mm", bit(second, 10));
  list.add("f64mm", bit(second, 11));
  list.add("i8mm", bit(second, 13));
  list.add("bf16", bit(second, 14));
  list.add("sme", bit(second, 23));
  list.add("sme-i16i64", bit(second, 24));
  list.add("sme-f64f64", bit(second, 25));
  list.add("sme-fa64", bit(second, 30));
  list.add("sve2p1", bit(second, 36));
  list.add("sme2", bit(second, 37));
  list.add("sme2p1", bit(second, 38));
  return list.text;
}

#else
std::string detectFeatures() { return {}; }
#endif

} // namespace tsr::posix

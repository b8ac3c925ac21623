// BLAKE2b-256 (RFC 7693), unkeyed.
#ifndef TESSERA_RUNTIME_BLAKE2B_H
#define TESSERA_RUNTIME_BLAKE2B_H

#include "runtime-stub/src/Core.h"

namespace tsr {

struct Digest {
  u64 words[4];
  bool operator==(const Digest &other) const {
    u64 difference = 0;
    for (int i = 0; i < 4; ++i)
      difference |= words[i] ^ other.words[i];
    return difference == 0;
  }
};

class Blake2b {
public:
  Blake2b();
  void update(const void *data, u64 size);
  Digest finish();

private:
  void compress(const u8 *block, bool last);
  u64 h[8];
  u64 counted = 0; // inputs stay far below 2^64 bytes
  u32 filled = 0;
  u8 pending[128];
};

inline Digest hashOf(const void *data, u64 size) {
  Blake2b hash;
  hash.update(data, size);
  return hash.finish();
}

} // namespace tsr
#endif

#include "runtime-stub/src/Blake2b.h"

namespace tsr {
namespace {

constexpr u64 kInitial[8] = {0x6a09e667f3bcc908, 0xbb67ae8584caa73b,
                             0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
                             0x510e527fade682d1, 0x9b05688c2b3e6c1f,
                             0x1f83d9abfb41bd6b, 0x5be0cd19137e2179};

constexpr u8 kSigma[10][16] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
    {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
    {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
    {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
    {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0}};

[[gnu::always_inline]] inline u64 rotate(u64 x, int n) {
  return x >> n | x << (64 - n);
}

[[gnu::always_inline]] inline void mix(u64 &a, u64 &b, u64 &c, u64 &d, u64 x,
                                       u64 y) {
  a += b + x;
  d = rotate(d ^ a, 32);
  c += d;
  b = rotate(b ^ c, 24);
  a += b + y;
  d = rotate(d ^ a, 16);
  c += d;
  b = rotate(b ^ c, 63);
}

template <int R>
[[gnu::always_inline]] inline void round(u64 (&v)[16], const u64 (&m)[16]) {
  constexpr const u8(&s)[16] = kSigma[R % 10];
  mix(v[0], v[4], v[8], v[12], m[s[0]], m[s[1]]);
  mix(v[1], v[5], v[9], v[13], m[s[2]], m[s[3]]);
  mix(v[2], v[6], v[10], v[14], m[s[4]], m[s[5]]);
  mix(v[3], v[7], v[11], v[15], m[s[6]], m[s[7]]);
  mix(v[0], v[5], v[10], v[15], m[s[8]], m[s[9]]);
  mix(v[1], v[6], v[11], v[12], m[s[10]], m[s[11]]);
  mix(v[2], v[7], v[8], v[13], m[s[12]], m[s[13]]);
  mix(v[3], v[4], v[9], v[14], m[s[14]], m[s[15]]);
}

} // namespace

Blake2b::Blake2b() {
  for (int i = 0; i < 8; ++i)
    h[i] = kInitial[i];
  h[0] ^= 0x01010000 ^ 32; // no key, 32 bytes of digest
}

void Blake2b::compress(const u8 *block, bool last) {
  u64 m[16], v[16];
  for (int i = 0; i < 16; ++i)
    m[i] = load<u64>(block + 8 * i);
  for (int i = 0; i < 8; ++i) {
    v[i] = h[i];
    v[8 + i] = kInitial[i];
  }
  v[12] ^= counted;
  if (last)
    v[14] = ~v[14];
  round<0>(v, m);
  round<1>(v, m);
  round<2>(v, m);
  round<3>(v, m);
  round<4>(v, m);
  round<5>(v, m);
  round<6>(v, m);
  round<7>(v, m);
  round<8>(v, m);
  round<9>(v, m);
  round<10>(v, m);
  round<11>(v, m);
  for (int i = 0; i < 8; ++i)
    h[i] ^= v[i] ^ v[8 + i];
}

void Blake2b::update(const void *data, u64 size) {
  const u8 *in = static_cast<const u8 *>(data);
  // The last block is compressed by finish(), so a full one waits.
  while (size) {
    if (filled == sizeof(pending)) {
      counted += sizeof(pending);
      compress(pending, false);
      filled = 0;
    }
    if (filled == 0)
      while (size > sizeof(pending)) {
        counted += sizeof(pending);
        compress(in, false);
        in += sizeof(pending);
        size -= sizeof(pending);
      }
    u64 part = smaller<u64>(size, sizeof(pending) - filled);
    copyBytes(pending + filled, in, part);
    filled += u32(part);
    in += part;
    size -= part;
  }
}

Digest Blake2b::finish() {
  counted += filled;
  setBytes(pending + filled, 0, sizeof(pending) - filled);
  compress(pending, true);
  return {{h[0], h[1], h[2], h[3]}};
}

} // namespace tsr

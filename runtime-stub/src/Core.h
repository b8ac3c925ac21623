// What every file of the loader uses: integers, byte access, refusals.
#ifndef TESSERA_RUNTIME_CORE_H
#define TESSERA_RUNTIME_CORE_H

#include "runtime-stub/format/Header.h"
#include "runtime-stub/include/tessera/runtime.h"

#include <stddef.h>
#include <stdint.h>

// The compiler turns structure copies into calls of these four even in
// freestanding code. They are renamed here, so that the library neither needs a
// C library nor defines its names.
#if !defined(TSR_HOSTED)
asm(".set memcpy, tsr_internal_copy\n"
    ".set memset, tsr_internal_set\n"
    ".set memmove, tsr_internal_move\n");
#endif

namespace tsr {

namespace format = tessera::format;

using u8 = uint8_t;
using u16 = uint16_t;
using u32 = uint32_t;
using u64 = uint64_t;
using i32 = int32_t;
using i64 = int64_t;

inline constexpr u32 kNone = 0xffffffffu;
inline constexpr i64 kMaxI64 = 0x7fffffffffffffff;
inline constexpr i64 kMinI64 = -kMaxI64 - 1;

void copyBytes(void *to, const void *from, u64 size);
void moveBytes(void *to, const void *from, u64 size); // may overlap
void setBytes(void *to, u8 value, u64 size);
bool sameText(const char *a, const char *b);

template <typename T> inline T load(const void *at) {
  T value;
  __builtin_memcpy(&value, at, sizeof(T));
  return value;
}

template <typename T> inline T smaller(T a, T b) { return a < b ? a : b; }
template <typename T> inline T larger(T a, T b) { return a < b ? b : a; }

/// `alignment` is a power of two, `value` below format::kSizeLimit.
inline u64 alignUp(u64 value, u64 alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}

/// [offset, offset + size) lies in [0, limit), without a carry.
inline bool within(u64 offset, u64 size, u64 limit) {
  return offset <= limit && size <= limit - offset;
}

/// Appends text to a fixed buffer and keeps it terminated.
class Text {
public:
  Text(char *to, u32 capacity) : to(to), capacity(capacity) { to[0] = 0; }
  void put(char c) {
    if (used + 1 < capacity) {
      to[used++] = c;
      to[used] = 0;
    }
  }
  void put(const char *text) {
    while (*text)
      put(*text++);
  }
  void put(u64 value);

private:
  char *to;
  u32 capacity, used = 0;
};

/// Fills the error and returns TSR_REFUSED. The format has up to four parts,
/// separated by '|': field, found, needed, remedy. Of printf it knows %s, %u,
/// %d, %lu and %ld.
tsr_status_t refuse(tsr_error_t *error, tsr_error_code_t code,
                    const char *format, ...)
    __attribute__((format(printf, 3, 4)));

} // namespace tsr
#endif

#include "runtime-stub/src/Core.h"

#if !defined(TSR_HOSTED)
extern "C" __attribute__((visibility("hidden"))) void *
tsr_internal_copy(void *to, const void *from, size_t size) {
  tsr::copyBytes(to, from, size);
  return to;
}
extern "C" __attribute__((visibility("hidden"))) void *
tsr_internal_move(void *to, const void *from, size_t size) {
  tsr::moveBytes(to, from, size);
  return to;
}
extern "C" __attribute__((visibility("hidden"))) void *
tsr_internal_set(void *to, int value, size_t size) {
  tsr::setBytes(to, tsr::u8(value), size);
  return to;
}
#endif

namespace tsr {

// Words of 16 bytes where both ends allow unaligned access; the compiler makes
// vector moves of them. Built with -fno-builtin, so no loop becomes a call.
void copyBytes(void *to, const void *from, u64 size) {
  u8 *out = static_cast<u8 *>(to);
  const u8 *in = static_cast<const u8 *>(from);
  struct Block {
    u64 words[8];
  };
  for (; size >= sizeof(Block); size -= sizeof(Block)) {
    u64 words[8];
    for (int i = 0; i < 8; ++i)
      words[i] = load<u64>(in + 8 * i);
    for (int i = 0; i < 8; ++i)
      __builtin_memcpy(out + 8 * i, &words[i], 8);
    in += sizeof(Block);
    out += sizeof(Block);
  }
  for (; size; --size)
    *out++ = *in++;
}

void moveBytes(void *to, const void *from, u64 size) {
  u8 *out = static_cast<u8 *>(to);
  const u8 *in = static_cast<const u8 *>(from);
  if (out <= in || out >= in + size)
    return copyBytes(to, from, size);
  while (size >= 8) {
    size -= 8;
    u64 word = load<u64>(in + size);
    __builtin_memcpy(out + size, &word, 8);
  }
  while (size) {
    --size;
    out[size] = in[size];
  }
}

void setBytes(void *to, u8 value, u64 size) {
  u8 *out = static_cast<u8 *>(to);
  u64 word = value * 0x0101010101010101ull;
  for (; size >= 8; size -= 8, out += 8)
    __builtin_memcpy(out, &word, 8);
  for (; size; --size)
    *out++ = value;
}

bool sameText(const char *a, const char *b) {
  while (*a && *a == *b)
    ++a, ++b;
  return *a == *b;
}

void Text::put(u64 value) {
  char digits[20];
  int count = 0;
  do {
    digits[count++] = char('0' + value % 10);
    value /= 10;
  } while (value);
  while (count)
    put(digits[--count]);
}

tsr_status_t refuse(tsr_error_t *error, tsr_error_code_t code,
                    const char *format, ...) {
  if (!error)
    return TSR_REFUSED;
  setBytes(error, 0, sizeof(*error));
  error->code = code;
  Text parts[4] = {{error->field, sizeof(error->field)},
                   {error->found, sizeof(error->found)},
                   {error->needed, sizeof(error->needed)},
                   {error->remedy, sizeof(error->remedy)}};
  Text *part = parts;
  __builtin_va_list arguments;
  __builtin_va_start(arguments, format);
  for (; *format; ++format) {
    if (*format == '|') {
      ++part;
      continue;
    }
    if (*format != '%') {
      part->put(*format);
      continue;
    }
    bool wide = *++format == 'l';
    format += wide;
    if (*format == 's') {
      part->put(__builtin_va_arg(arguments, const char *));
    } else if (*format == 'u') {
      part->put(wide ? __builtin_va_arg(arguments, u64)
                     : __builtin_va_arg(arguments, u32));
    } else if (*format == 'd') {
      i64 value = wide ? __builtin_va_arg(arguments, i64)
                       : __builtin_va_arg(arguments, i32);
      if (value < 0)
        part->put('-');
      part->put(value < 0 ? u64(0) - u64(value) : u64(value));
    } else {
      part->put(*format);
    }
  }
  __builtin_va_end(arguments);
  Text text(error->text, sizeof(error->text));
  text.put(error->field);
  if (error->found[0]) {
    text.put(error->field[0] ? ": " : "");
    text.put(error->found);
  }
  if (error->needed[0]) {
    text.put(", needed: ");
    text.put(error->needed);
  }
  if (error->remedy[0]) {
    text.put("; ");
    text.put(error->remedy);
  }
  return TSR_REFUSED;
}

} // namespace tsr

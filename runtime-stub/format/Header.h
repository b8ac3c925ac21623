/* The fixed part of a bundle, shared by its writer and the loader.
 *
 *   offset size
 *      0    8   magic
 *      8    4   format version
 *     12    4   bytes of this header
 *     16    8   flags (none defined: every set bit is refused)
 *     24    8   bytes of the whole file
 *     32    8   offset of the manifest
 *     40    8   bytes of the manifest
 *     48   16   zero
 *     64   32   BLAKE2b-256 over this header, these 32 bytes taken as zero,
 *               followed by the manifest
 *     96   32   zero
 *
 * All integers are little-endian. FORMAT.md has the rules around it.
 */
#ifndef TESSERA_FORMAT_HEADER_H
#define TESSERA_FORMAT_HEADER_H

#include <stdint.h>

namespace tessera::format {

/* The first byte is no text, and the line ends break when a transfer rewrites
 * them. */
inline constexpr uint8_t kMagic[8] = {0x89, 'T', 'S', 'R', '\r', '\n', 0x1a, '\n'};
/* A bundle has the lowest version that has all it uses: 2 if it launches, or
 * if an input or output is no tensor. */
inline constexpr uint32_t kFormatVersion = 1;
inline constexpr uint32_t kFormatVersionParts = 2;

inline constexpr uint32_t kHeaderBytes = 128;
inline constexpr uint32_t kVersionAt = 8;
inline constexpr uint32_t kHeaderBytesAt = 12;
inline constexpr uint32_t kFlagsAt = 16;
inline constexpr uint32_t kFileBytesAt = 24;
inline constexpr uint32_t kManifestOffsetAt = 32;
inline constexpr uint32_t kManifestBytesAt = 40;
inline constexpr uint32_t kHashAt = 64;
inline constexpr uint32_t kHashBytes = 32;

inline constexpr uint64_t kSegmentAlignment = 64 * 1024;
inline constexpr uint64_t kChunkBytes = 256 * 1024;
inline constexpr uint64_t kConstantAlignment = 64;

/* Sizes at or above this are taken for damage: they leave room to add any two
 * of them without a carry. */
inline constexpr uint64_t kSizeLimit = uint64_t(1) << 47;

} // namespace tessera::format
#endif

// Reading the manifest: a FlatBuffer (format/bundle.fbs) in untrusted memory.
//
// verifyManifest() walks everything the schema knows once and proves that each
// offset stays inside; the views below may then be used without checks of
// bounds. They hold for little-endian machines, the only ones there are
// variants for. The numbers of fields are positions in the schema; a unit test
// compares them with the header that flatc makes.
#ifndef TESSERA_RUNTIME_MANIFEST_H
#define TESSERA_RUNTIME_MANIFEST_H

#include "runtime-stub/src/Core.h"

namespace tsr {

enum class BufferKind : u8 {
  Constant,
  Input,
  Output,
  Temporary,
  Dynamic,
  State,
  kCount
};
enum class ScalarOp : u8 {
  Constant,
  InputDim,
  Add,
  Sub,
  Mul,
  FloorDiv,
  CeilDiv,
  Mod,
  Min,
  Max,
  Equal,
  Less,
  Select,
  LoadInt,
  TruncDiv,
  kCount
};
enum class CommandKind : u8 {
  Dispatch,
  Scalars,
  Copy,
  Jump,
  BranchZero,
  Allocate,
  Release,
  Bind,
  Check,
  Fence,
  Fill,
  StoreInt,
  Launch,
  kCount
};
enum class SegmentKind : u8 { Code, Data, Device, kCount };

// The structs of the schema, byte for byte.
struct Scalar {
  i64 imm;
  u32 dst, a, b, c;
  ScalarOp op;
  u8 pad0;
  u16 pad1;
  u32 pad2;
};
struct Command {
  u32 a, b, c, d, e, f;
  CommandKind kind;
  u8 device;
  u16 flags;
};
inline constexpr u16 kFlushDenormals = 1;
struct Buffer {
  u64 sizeBytes, offset, aliasOffset;
  u32 sizeRegister, segment, aliasOf, firstCommand, lastCommand;
  u16 pool;
  BufferKind kind;
  u8 hasOffset;
  u32 pad0;
  u32 pad1;
};
struct Dim {
  i64 value, min, max, multiple;
  u32 reg, pad0;
};
static_assert(sizeof(Scalar) == 32 && sizeof(Command) == 28 &&
                  sizeof(Buffer) == 56 && sizeof(Dim) == 40,
              "layout differs from bundle.fbs");

/// A vector of scalars or structs.
template <typename T> struct Vector {
  const u8 *data = nullptr;
  u32 count = 0;
  T operator[](u32 i) const { return load<T>(data + u64(i) * sizeof(T)); }
  /// Structs in place; their alignment was checked.
  const T &at(u32 i) const { return reinterpret_cast<const T *>(data)[i]; }
};

struct Table;

/// A vector of tables or strings.
struct TableVector {
  const u8 *data = nullptr;
  u32 count = 0;
  Table operator[](u32 i) const;
  const char *text(u32 i) const {
    const u8 *slot = data + u64(i) * 4;
    return reinterpret_cast<const char *>(slot + load<u32>(slot) + 4);
  }
};

struct Table {
  const u8 *data = nullptr;

  const u8 *field(u32 id) const {
    if (!data)
      return nullptr;
    const u8 *vtable = data - load<i32>(data);
    u32 slot = 4 + 2 * id;
    if (slot + 2 > load<u16>(vtable))
      return nullptr;
    u16 offset = load<u16>(vtable + slot);
    return offset ? data + offset : nullptr;
  }
  template <typename T> T get(u32 id, T absent = 0) const {
    const u8 *at = field(id);
    return at ? load<T>(at) : absent;
  }
  const u8 *target(u32 id) const {
    const u8 *at = field(id);
    return at ? at + load<u32>(at) : nullptr;
  }
  const char *text(u32 id) const {
    const u8 *at = target(id);
    return at ? reinterpret_cast<const char *>(at + 4) : "";
  }
  Table table(u32 id) const { return {target(id)}; }
  template <typename T> Vector<T> vector(u32 id) const {
    const u8 *at = target(id);
    return at ? Vector<T>{at + 4, load<u32>(at)} : Vector<T>{};
  }
  TableVector tables(u32 id) const {
    const u8 *at = target(id);
    return at ? TableVector{at + 4, load<u32>(at)} : TableVector{};
  }
};

inline Table TableVector::operator[](u32 i) const {
  const u8 *slot = data + u64(i) * 4;
  return {slot + load<u32>(slot)};
}

namespace field {
enum Manifest : u32 {
  kAbiVersion,
  kRegisters,
  kEntries,
  kDevices,
  kPools,
  kBuffers,
  kScalars,
  kCommands,
  kOperands,
  kKernels,
  kVariants,
  kSegments,
  kStrings,
  kProvenance
};
enum Entry : u32 { kEntryName, kInputs, kOutputs, kPrepare, kEntryCommands };
enum TensorSpec : u32 {
  kTensorName,
  kElementType,
  kDims,
  kDimNames,
  kTensorBuffer,
  kOptional,
  kDefaultBuffer,
  kTensorKind,
  kDefaultDims
};
enum Pool : u32 { kPoolName, kPoolDevice, kStaticBytes, kAlignment, kGrowing };
enum Kernel : u32 { kKernelName, kKernelClass, kOrigin, kWorkgroups };
enum Variant : u32 {
  kVariantName,
  kMachine,
  kFeatures,
  kVariantSegment,
  kVariantEntries
};
enum Segment : u32 {
  kSegmentKind,
  kSegmentVariant,
  kSegmentOffset,
  kSegmentSize,
  kChunks
};
enum Provenance : u32 { kTool, kModelHash, kTarget, kOptions };
enum Device : u32 { kDeviceName, kDeviceKind };
} // namespace field

/// Proves the manifest well formed. Returns null, or what is wrong.
const char *verifyManifest(const u8 *bytes, u64 size);

/// The root table of a verified manifest.
inline Table manifestRoot(const u8 *bytes) {
  return {bytes + load<u32>(bytes)};
}

} // namespace tsr
#endif

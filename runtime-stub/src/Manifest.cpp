// The verifier is driven by a description of the schema. It demands all that
// FlatBuffers' own verifier demands, and more: fields inside their table's
// extent, vector contents aligned for their type, and a bound on the total work
// (offsets may be shared, so a small file could describe a huge tree).
#include "runtime-stub/src/Manifest.h"

namespace tsr {
namespace {

enum class Kind : u8 {
  Scalar,
  String,
  Table,
  Vector,
  TableVector,
  StringVector
};

struct FieldRule {
  Kind kind;
  u8 size; // of the scalar or element
  u8 align;
  u8 table; // index into kTables
};

constexpr FieldRule scalar(u8 size) { return {Kind::Scalar, size, size, 0}; }
constexpr FieldRule vectorOf(u8 size, u8 align) {
  return {Kind::Vector, size, align, 0};
}
constexpr FieldRule kString = {Kind::String, 1, 1, 0};
constexpr FieldRule kStringVector = {Kind::StringVector, 4, 4, 0};
constexpr FieldRule tables(u8 table) {
  return {Kind::TableVector, 4, 4, table};
}

enum : u8 {
  kManifest,
  kEntry,
  kTensor,
  kPool,
  kKernel,
  kVariant,
  kSegment,
  kProvenance,
  kDevice
};

struct TableRule {
  u8 count;
  FieldRule fields[14];
};

// In the order of the enumeration above; fields in the order of the schema.
constexpr TableRule kTables[] = {
    {14,
     {scalar(4),
      scalar(4),
      tables(kEntry),
      tables(kDevice),
      tables(kPool),
      vectorOf(sizeof(Buffer), 8),
      vectorOf(sizeof(Scalar), 8),
      vectorOf(sizeof(Command), 4),
      vectorOf(4, 4),
      tables(kKernel),
      tables(kVariant),
      tables(kSegment),
      kStringVector,
      {Kind::Table, 4, 4, kProvenance}}},
    {5,
     {kString, tables(kTensor), tables(kTensor), vectorOf(4, 4),
      vectorOf(4, 4)}},
    {9,
     {kString, scalar(4), vectorOf(sizeof(Dim), 8), kStringVector, scalar(4),
      scalar(1), scalar(4), scalar(1), vectorOf(8, 8)}},
    {5, {kString, scalar(1), scalar(8), scalar(4), scalar(1)}},
    {4, {kString, kString, kStringVector, scalar(4)}},
    {5, {kString, scalar(2), kStringVector, scalar(4), vectorOf(8, 8)}},
    {5, {scalar(1), kString, scalar(8), scalar(8), vectorOf(32, 8)}},
    {4, {kString, kString, kString, kStringVector}},
    {2, {kString, kString}},
};

class Verifier {
public:
  Verifier(const u8 *bytes, u64 size)
      : bytes(bytes), size(size), budget(8 * size + 4096) {}

  const char *run() {
    if (size < 16)
      return "is too short";
    if (size >= 0x7fffffff)
      return "is too long";
    if (load<u32>(bytes + 4) != 0x4d525354) // "TSRM"
      return "lacks its identifier";
    u64 root = 0;
    if (!follow(0, root) || !table(root, kManifest))
      return problem ? problem : "has a root outside of it";
    return nullptr;
  }

private:
  bool fail(const char *what) {
    if (!problem)
      problem = what;
    return false;
  }
  bool inside(u64 at, u64 length, u64 align) {
    return (at & (align - 1)) == 0 && within(at, length, size);
  }
  bool spend(u64 amount) {
    if (amount > budget)
      return fail("shares its parts beyond measure");
    budget -= amount;
    return true;
  }
  /// Reads the offset at `at` and returns its target.
  bool follow(u64 at, u64 &target) {
    if (!inside(at, 4, 4))
      return fail("has an offset outside of it");
    u32 offset = load<u32>(bytes + at);
    target = at + offset;
    if (offset == 0 || offset >= 0x7fffffff || !inside(target, 4, 4))
      return fail("has an offset that points outside");
    return true;
  }
  bool vector(u64 at, u64 elementSize, u64 align, u32 &count) {
    count = load<u32>(bytes + at);
    u64 length = u64(count) * elementSize;
    if (!within(at + 4, length, size))
      return fail("has a vector that ends outside");
    if (count && ((at + 4) & (align - 1)))
      return fail("has a misaligned vector");
    return spend(4 + length);
  }
  bool string(u64 at) {
    u32 count = 0;
    if (!vector(at, 1, 1, count))
      return false;
    if (!within(at + 4 + count, 1, size) || bytes[at + 4 + count])
      return fail("has an unterminated string");
    return true;
  }
  bool table(u64 at, u8 which) {
    const TableRule &rule = kTables[which];
    if (!spend(16))
      return false;
    // Signed distance back to the vtable.
    i64 vtable = i64(at) - load<i32>(bytes + at);
    if (vtable < 0 || !inside(u64(vtable), 4, 2))
      return fail("has a vtable outside of it");
    u32 vtableSize = load<u16>(bytes + vtable);
    u32 tableSize = load<u16>(bytes + vtable + 2);
    if (vtableSize < 4 || (vtableSize & 1) ||
        !within(u64(vtable), vtableSize, size))
      return fail("has a malformed vtable");
    if (tableSize < 4 || !within(at, tableSize, size))
      return fail("has a table that ends outside");
    for (u32 i = 0; i < rule.count && 6 + 2 * i <= vtableSize; ++i) {
      u32 offset = load<u16>(bytes + vtable + 4 + 2 * i);
      if (!offset)
        continue;
      const FieldRule &field = rule.fields[i];
      u64 slot = at + offset;
      u64 width = field.kind == Kind::Scalar ? field.size : 4;
      if (offset < 4 || !within(offset, width, tableSize) ||
          !inside(slot, width, width))
        return fail("has a misplaced field");
      if (field.kind != Kind::Scalar && !this->field(slot, field))
        return false;
    }
    return true;
  }
  bool field(u64 slot, const FieldRule &rule) {
    u64 target = 0;
    u32 count = 0;
    if (!follow(slot, target))
      return false;
    switch (rule.kind) {
    case Kind::Scalar:
      return true;
    case Kind::String:
      return string(target);
    case Kind::Table:
      return table(target, rule.table);
    case Kind::Vector:
      return vector(target, rule.size, rule.align, count);
    case Kind::TableVector:
    case Kind::StringVector:
      if (!vector(target, 4, 4, count))
        return false;
      for (u32 i = 0; i < count; ++i) {
        u64 element = 0;
        if (!follow(target + 4 + 4 * u64(i), element) ||
            !(rule.kind == Kind::StringVector ? string(element)
                                              : table(element, rule.table)))
          return false;
      }
      return true;
    }
    return false;
  }

  const u8 *bytes;
  u64 size;
  u64 budget;
  const char *problem = nullptr;
};

} // namespace

const char *verifyManifest(const u8 *bytes, u64 size) {
  return Verifier(bytes, size).run();
}

} // namespace tsr

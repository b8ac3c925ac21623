/* The device segment of a Vulkan device: SPIR-V modules and what to do with
 * them. FORMAT.md has the words around it.
 *
 * Read in place, in untrusted memory: check() proves that every place, size and
 * index stays inside; what the modules do inside of their bindings is not
 * looked at. Freestanding, for the loader's core; also used by what drives the
 * device and by the compiler.
 */
#ifndef TESSERA_FORMAT_VULKAN_H
#define TESSERA_FORMAT_VULKAN_H

#include <stdint.h>

namespace tessera::format::vulkan {

/* The word in devices[].kind. */
inline constexpr char kDeviceKind[] = "vulkan";
inline constexpr uint8_t kMagic[4] = {'T', 'S', 'V', 'K'};
inline constexpr uint32_t kLayout = 1;
inline constexpr uint32_t kSpirvMagic = 0x07230203;
inline constexpr uint32_t kSpirvNewest = 0x00010300; /* what Vulkan 1.1 takes */

/* Every device has these (Vulkan 1.1, limits, table of minimums). */
inline constexpr uint32_t kMaxGroups = 65535;
inline constexpr uint32_t kMaxPushBytes = 128;
inline constexpr uint64_t kRangeAlignment = 256; /* of every bound range */
inline constexpr uint32_t kMaxBindings = 64;     /* of a step */

/* What a module needs beyond Vulkan 1.1; bits of Module::features. */
enum Feature : uint64_t {
  kStorage16 = 1,      /* StorageBuffer16BitAccess */
  kStorage8 = 2,       /* StorageBuffer8BitAccess, UniformAndStorageBuffer8BitAccess */
  kFloat16 = 4,        /* Float16 */
  kInt8 = 8,           /* Int8 */
  kInt16 = 16,         /* Int16 */
  kInt64 = 32,         /* Int64 */
  kDot8 = 64,          /* DotProduct, DotProductInput4x8BitPacked */
  kSubgroups = 128,    /* GroupNonUniform, GroupNonUniformArithmetic */
  kFloat64 = 256,      /* Float64 */
  kShuffle = 512,      /* GroupNonUniformShuffle, ...ShuffleRelative */
  kAllFeatures = 1023
};

struct Head {
  uint8_t magic[4];
  uint32_t layout;
  uint64_t bytes; /* of all */
  uint32_t operands, modules, steps, bindings;
  uint64_t constantsAt, constantsBytes;
  uint64_t scratchBytes;
  uint32_t pushBytes; /* of all steps */
  uint32_t zero;
};
struct Module {
  uint64_t at, bytes;
  uint64_t features;
  uint32_t localSize[3];
  uint32_t sharedBytes;
  uint32_t subgroup; /* the size it is made for; 0: any */
  uint32_t zero;
  char entry[48]; /* zeros behind */
};
struct Step {
  uint32_t module;
  uint32_t groups[3];
  uint32_t firstBinding, bindings; /* bound as 0, 1, ... of set 0 */
  uint32_t pushAt, pushBytes;      /* in the push constants */
};
enum class From : uint32_t { Operand, Constant, Scratch };
enum Access : uint32_t { kReads = 1, kWrites = 2 };
struct Binding {
  From from;
  uint32_t operand; /* of From::Operand, else 0 */
  uint64_t offset, bytes;
  uint32_t access;
  uint32_t zero;
};
static_assert(sizeof(Head) == 64 && sizeof(Module) == 96 && sizeof(Step) == 32 && sizeof(Binding) == 32,
              "the layout is fixed");

/* A view of an artefact that was checked. */
struct Artefact {
  const uint8_t *data = nullptr;
  Head head = {};

  uint64_t operandsAt() const { return sizeof(Head); }
  uint64_t modulesAt() const { return (operandsAt() + 8 * uint64_t(head.operands) + 15) / 16 * 16; }
  uint64_t stepsAt() const { return modulesAt() + sizeof(Module) * uint64_t(head.modules); }
  uint64_t bindingsAt() const { return stepsAt() + sizeof(Step) * uint64_t(head.steps); }
  uint64_t pushAt() const { return bindingsAt() + sizeof(Binding) * uint64_t(head.bindings); }
  uint64_t partsAt() const { return pushAt() + head.pushBytes; }

  template <typename T> T load(uint64_t at) const {
    T value;
    __builtin_memcpy(&value, data + at, sizeof(T));
    return value;
  }
  /* Bytes that an operand has at least. */
  uint64_t operand(uint32_t i) const { return load<uint64_t>(operandsAt() + 8 * uint64_t(i)); }
  Module module(uint32_t i) const { return load<Module>(modulesAt() + sizeof(Module) * uint64_t(i)); }
  Step step(uint32_t i) const { return load<Step>(stepsAt() + sizeof(Step) * uint64_t(i)); }
  Binding binding(uint32_t i) const { return load<Binding>(bindingsAt() + sizeof(Binding) * uint64_t(i)); }
  const uint8_t *push() const { return data + pushAt(); }
  const uint8_t *constants() const { return data + head.constantsAt; }
};

/* What is wrong: "module 3: entry". */
struct Fault {
  const char *part = nullptr; /* null: nothing is */
  uint32_t index = 0;
  const char *what = "";
};

inline bool within(uint64_t at, uint64_t bytes, uint64_t limit) { return at <= limit && bytes <= limit - at; }

inline bool checkModule(const Artefact &a, const Module &m) {
  bool ends = false;
  for (char c : m.entry)
    ends |= c == 0;
  if (!ends || !m.entry[0] || m.features & ~uint64_t(kAllFeatures) || m.zero || m.at % 16 || m.bytes % 4 ||
      m.bytes < 20 || m.at < a.partsAt() || !within(m.at, m.bytes, a.head.bytes))
    return false;
  for (uint32_t size : m.localSize)
    if (!size || size > 1024)
      return false;
  uint32_t version = a.load<uint32_t>(m.at + 4);
  return a.load<uint32_t>(m.at) == kSpirvMagic && version >= 0x00010000 && version <= kSpirvNewest;
}

inline bool checkStep(const Artefact &a, const Step &s) {
  for (uint32_t groups : s.groups)
    if (!groups || groups > kMaxGroups)
      return false;
  return s.module < a.head.modules && s.bindings && s.bindings <= kMaxBindings &&
         within(s.firstBinding, s.bindings, a.head.bindings) && s.pushBytes <= kMaxPushBytes && s.pushBytes % 4 == 0 &&
         within(s.pushAt, s.pushBytes, a.head.pushBytes);
}

inline bool checkBinding(const Artefact &a, const Binding &b) {
  if (b.zero || b.offset % kRangeAlignment || !b.bytes || !b.access || b.access > (kReads | kWrites))
    return false;
  switch (b.from) {
  case From::Operand:
    return b.operand < a.head.operands && within(b.offset, b.bytes, a.operand(b.operand));
  case From::Constant:
    return !b.operand && b.access == kReads && within(b.offset, b.bytes, a.head.constantsBytes);
  case From::Scratch:
    return !b.operand && within(b.offset, b.bytes, a.head.scratchBytes);
  }
  return false;
}

/* Proves an artefact well formed; `out` may be used then. */
inline Fault check(const uint8_t *data, uint64_t size, Artefact &out) {
  if (size < sizeof(Head))
    return {"head", 0, "cut off"};
  out.data = data;
  out.head = out.load<Head>(0);
  const Head &h = out.head;
  bool isOurs = true;
  for (int i = 0; i < 4; ++i)
    isOurs &= h.magic[i] == kMagic[i];
  if (!isOurs || h.layout != kLayout)
    return {"head", 0, "not a segment of this layout"};
  constexpr uint32_t many = 1u << 24;
  if (h.bytes != size || h.zero || h.operands > many || h.modules > many || h.steps > many || h.bindings > many ||
      out.partsAt() > size)
    return {"head", 0, "tables that leave the segment"};
  if (h.constantsAt % 16 || h.constantsAt < out.partsAt() || !within(h.constantsAt, h.constantsBytes, size) ||
      h.scratchBytes >= uint64_t(1) << 47)
    return {"head", 0, "constants or scratch memory out of range"};
  for (uint32_t i = 0; i < h.modules; ++i)
    if (!checkModule(out, out.module(i)))
      return {"module", i, "a place, an entry, a size or a feature out of range"};
  for (uint32_t i = 0; i < h.steps; ++i)
    if (!checkStep(out, out.step(i)))
      return {"step", i, "a module, groups, bindings or push constants out of range"};
  for (uint32_t i = 0; i < h.bindings; ++i)
    if (!checkBinding(out, out.binding(i)))
      return {"binding", i, "a range outside of what it is a part of"};
  return {};
}

} // namespace tessera::format::vulkan
#endif

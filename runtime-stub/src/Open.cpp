// Opening: header, hashes, segments, then the manifest, the plan, the code.
#include "runtime-stub/src/Bundle.h"

#include "runtime-stub/include/tessera/kernel_abi.h"
#include "runtime-stub/src/Blake2b.h"

namespace tsr {
namespace {

constexpr const char *kDamaged =
    "the file was damaged or changed: write or copy it again";

struct HeaderView {
  const u8 *at;
  u64 fileBytes() const { return load<u64>(at + format::kFileBytesAt); }
  u64 manifestOffset() const {
    return load<u64>(at + format::kManifestOffsetAt);
  }
  u64 manifestBytes() const { return load<u64>(at + format::kManifestBytesAt); }
};

bool hasMagic(const u8 *header) {
  bool same = true;
  for (u32 i = 0; i < sizeof(format::kMagic); ++i)
    same &= header[i] == format::kMagic[i];
  return same;
}

bool allZero(const u8 *at, u64 size) {
  u8 any = 0;
  for (u64 i = 0; i < size; ++i)
    any |= at[i];
  return any == 0;
}

tsr_status_t checkHeader(const u8 *image, u64 size, tsr_error_t *error) {
  if (size < format::kHeaderBytes)
    return refuse(error, TSR_ERROR_SIZE,
                  "bundle size|%lu bytes|at least %lu|the file is no bundle or "
                  "was cut off",
                  size, u64(format::kHeaderBytes));
  if (!hasMagic(image))
    return refuse(error, TSR_ERROR_NOT_BUNDLE,
                  "magic|other bytes|a Tessera bundle|give a file written by "
                  "`tessera compile`");
  u32 version = load<u32>(image + format::kVersionAt);
  u32 headerBytes = load<u32>(image + format::kHeaderBytesAt);
  u64 flags = load<u64>(image + format::kFlagsAt);
  bool known = version == format::kFormatVersion ||
               version == format::kFormatVersionParts;
  if (!known || headerBytes != format::kHeaderBytes || flags)
    return refuse(error, TSR_ERROR_VERSION,
                  "bundle format|version %u, header of %u bytes, flags "
                  "%lu|version %u or %u, %lu bytes, no flags|compile the model with "
                  "the Tessera release this loader comes from",
                  version, headerBytes, flags, format::kFormatVersion,
                  format::kFormatVersionParts,
                  u64(format::kHeaderBytes));
  HeaderView header{image};
  if (header.fileBytes() != size)
    return refuse(error, TSR_ERROR_SIZE, "bundle size|%lu bytes|%lu|%s", size,
                  header.fileBytes(),
                  size < header.fileBytes()
                      ? "the file was cut off: copy it again"
                      : "something was appended: copy it again");
  if (header.manifestOffset() != format::kHeaderBytes ||
      !within(header.manifestOffset(), header.manifestBytes(), size))
    return refuse(
        error, TSR_ERROR_SIZE,
        "manifest place|%lu bytes at %lu|inside the %lu bytes of the bundle|%s",
        header.manifestBytes(), header.manifestOffset(), size, kDamaged);
  return TSR_OK;
}

tsr_status_t checkManifestHash(const u8 *image, tsr_error_t *error) {
  u8 header[format::kHeaderBytes];
  copyBytes(header, image, sizeof(header));
  setBytes(header + format::kHashAt, 0, format::kHashBytes);
  Blake2b hash;
  hash.update(header, sizeof(header));
  HeaderView view{image};
  hash.update(image + view.manifestOffset(), view.manifestBytes());
  if (hash.finish() == load<Digest>(image + format::kHashAt))
    return TSR_OK;
  return refuse(error, TSR_ERROR_HASH,
                "hash of header and manifest|another value|the recorded one|%s",
                kDamaged);
}

/// Segments lie in order, aligned, with zeros between, to the end of the file.
tsr_status_t checkSegmentPlaces(const tsr_bundle &bundle, TableVector segments,
                                tsr_error_t *error) {
  HeaderView header{bundle.image};
  u64 end = header.manifestOffset() + header.manifestBytes();
  for (u32 i = 0; i < segments.count; ++i) {
    Table segment = segments[i];
    u64 offset = segment.get<u64>(field::kSegmentOffset);
    u64 size = segment.get<u64>(field::kSegmentSize);
    Vector<Digest> chunks = segment.vector<Digest>(field::kChunks);
    u64 expected = size ? alignUp(end, format::kSegmentAlignment) : 0;
    if (segment.get<u8>(field::kSegmentKind) >= u8(SegmentKind::kCount) ||
        offset != expected || !within(offset, size, bundle.imageBytes) ||
        chunks.count != (size + format::kChunkBytes - 1) / format::kChunkBytes)
      return refuse(error, TSR_ERROR_STRUCTURE,
                    "segment %u|%lu bytes at %lu with %u hashes|a place at %lu "
                    "inside %lu bytes, one hash for 256 KiB|%s",
                    i, size, offset, chunks.count, expected, bundle.imageBytes,
                    kDamaged);
    if (!size)
      continue;
    if (!allZero(bundle.image + end, offset - end))
      return refuse(error, TSR_ERROR_HASH,
                    "padding before segment %u|other bytes|zeros|%s", i,
                    kDamaged);
    end = offset + size;
  }
  if (end != bundle.imageBytes)
    return refuse(error, TSR_ERROR_STRUCTURE,
                  "end of the last segment|%lu|%lu, the end of the file|%s",
                  end, bundle.imageBytes, kDamaged);
  return TSR_OK;
}

/// Chunks are numbered through all segments; the lowest bad one is kept, so
/// that the answer does not depend on the order of threads.
struct HashWork {
  const tsr_bundle *bundle;
  TableVector segments;
  u64 firstBad;

  static void run(void *argument, u64 index) {
    auto *work = static_cast<HashWork *>(argument);
    u64 rest = index;
    u32 s = 0;
    Vector<Digest> chunks = work->segments[0].vector<Digest>(field::kChunks);
    while (rest >= chunks.count) {
      rest -= chunks.count;
      chunks = work->segments[++s].vector<Digest>(field::kChunks);
    }
    Table segment = work->segments[s];
    u64 begin = rest * format::kChunkBytes;
    u64 size = smaller(segment.get<u64>(field::kSegmentSize) - begin,
                       format::kChunkBytes);
    const u8 *data =
        work->bundle->image + segment.get<u64>(field::kSegmentOffset) + begin;
    if (hashOf(data, size) == chunks[u32(rest)])
      return;
    u64 seen = __atomic_load_n(&work->firstBad, __ATOMIC_RELAXED);
    while (index < seen &&
           !__atomic_compare_exchange_n(&work->firstBad, &seen, index, false,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))
      ;
  }
};

tsr_status_t checkSegmentHashes(const tsr_bundle &bundle, TableVector segments,
                                tsr_error_t *error) {
  u64 count = 0;
  for (u32 i = 0; i < segments.count; ++i)
    count += segments[i].vector<Digest>(field::kChunks).count;
  HashWork work{&bundle, segments, ~u64(0)};
  if (bundle.host.parallel && count > 1)
    bundle.host.parallel(bundle.host.context, count, HashWork::run, &work);
  else
    for (u64 i = 0; i < count; ++i)
      HashWork::run(&work, i);
  u64 bad = __atomic_load_n(&work.firstBad, __ATOMIC_RELAXED);
  if (bad == ~u64(0))
    return TSR_OK;
  u32 s = 0;
  while (bad >= segments[s].vector<Digest>(field::kChunks).count)
    bad -= segments[s++].vector<Digest>(field::kChunks).count;
  return refuse(
      error, TSR_ERROR_HASH,
      "hash of segment %u chunk %lu|another value|the recorded one|%s", s, bad,
      kDamaged);
}

/// The first feature of the variant that the host lacks, or null.
const char *missingFeature(const tsr_bundle &bundle, Table variant) {
  if (variant.get<u16>(field::kMachine) != ownMachine())
    return "another processor family";
  TableVector features = variant.tables(field::kFeatures);
  for (u32 i = 0; i < features.count; ++i)
    if (!hasWord(bundle.host.features, features.text(i)))
      return features.text(i);
  return nullptr;
}

tsr_status_t chooseVariant(tsr_bundle &bundle, const char *wanted,
                           bool checkOnly, tsr_error_t *error) {
  bundle.variant = kNone;
  bool known = false;
  const char *lacking = "";
  const char *lackedBy = "";
  for (u32 i = 0; i < bundle.variants.count && bundle.variant == kNone; ++i) {
    Table variant = bundle.variants[i];
    const char *name = variant.text(field::kVariantName);
    if (wanted && !sameText(name, wanted))
      continue;
    known = true;
    const char *missing = missingFeature(bundle, variant);
    if (!missing) {
      bundle.variant = i;
    } else {
      lacking = missing;
      lackedBy = name;
    }
  }
  if (wanted && !known)
    return refuse(error, TSR_ERROR_FEATURES,
                  "ISA variant|'%s' asked for|one of the bundle's "
                  "variants|`tessera inspect` lists them",
                  wanted);
  if (bundle.variant != kNone || checkOnly || bundle.kernels.count == 0)
    return TSR_OK;
  return refuse(error, TSR_ERROR_FEATURES,
                "processor features|not available: %s|by variant '%s', "
                "%s|compile for a target that includes this processor",
                lacking, lackedBy,
                wanted ? "which was asked for"
                       : "the least demanding one of this bundle");
}

tsr_status_t checkVariants(tsr_bundle &bundle, tsr_error_t *error) {
  if (bundle.kernels.count && !bundle.variants.count)
    return refuse(error, TSR_ERROR_STRUCTURE,
                  "variants|none|code for %u kernels", bundle.kernels.count);
  for (u32 i = 0; i < bundle.variants.count; ++i) {
    Table variant = bundle.variants[i];
    const char *name = variant.text(field::kVariantName);
    u32 segment = variant.get<u32>(field::kVariantSegment);
    Vector<u64> entries = variant.vector<u64>(field::kVariantEntries);
    if (segment >= bundle.segments.count ||
        bundle.segments[segment].get<u8>(field::kSegmentKind) !=
            u8(SegmentKind::Code) ||
        entries.count != bundle.kernels.count)
      return refuse(
          error, TSR_ERROR_STRUCTURE,
          "variant '%s'|segment %u, %u entries|a code segment and %u entries",
          name, segment, entries.count, bundle.kernels.count);
    CodeImage image;
    if (checkCode(bundle.segmentData(segment),
                  bundle.segments[segment].get<u64>(field::kSegmentSize),
                  variant.get<u16>(field::kMachine), entries, name, image,
                  error) != TSR_OK)
      return TSR_REFUSED;
    if (i == bundle.variant) {
      bundle.code = image;
      bundle.codeEntries = entries;
    }
  }
  return TSR_OK;
}

u64 pageBytes(const tsr_bundle &bundle) {
  u32 page = bundle.host.page_size;
  return page ? page : 4096;
}

u64 codeBytes(const tsr_bundle &bundle) {
  if (bundle.variant == kNone)
    return 0;
  return alignUp(larger(bundle.code.span, bundle.code.fileBytes),
                 pageBytes(bundle));
}

/// Every device is one that the host drives, or is played by its commands.
tsr_status_t checkDeviceKinds(const tsr_bundle &bundle, tsr_error_t *error) {
  const char *known = bundle.host.device_kinds;
  for (u32 i = 1; i < bundle.devices.count; ++i) {
    const char *kind = bundle.devices[i].text(field::kDeviceKind);
    if (hasWord("segments", kind) || hasWord(known, "*") ||
        hasWord(known, kind))
      continue;
    return refuse(error, TSR_ERROR_FEATURES,
                  "device %u ('%s')|%s|one that the host drives: %s|run it on "
                  "that board, or let the host emulate it",
                  i, bundle.devices[i].text(field::kDeviceName), kind,
                  known && *known ? known : "none");
  }
  return TSR_OK;
}

} // namespace

bool hasWord(const char *list, const char *feature) {
  const char *at = list ? list : "";
  while (*at) {
    const char *f = feature;
    while (*f && *at == *f)
      ++at, ++f;
    if (!*f && (*at == ' ' || *at == 0))
      return true;
    while (*at && *at != ' ')
      ++at;
    while (*at == ' ')
      ++at;
  }
  return false;
}

} // namespace tsr

using namespace tsr;

extern "C" uint64_t tsr_bundle_bytes(const void *header, uint64_t size) {
  auto *bytes = static_cast<const u8 *>(header);
  if (!header || size < format::kHeaderBytes || !hasMagic(bytes))
    return 0;
  return HeaderView{bytes}.fileBytes();
}

extern "C" uint64_t tsr_bundle_state_bytes(void) { return sizeof(tsr_bundle); }

extern "C" tsr_status_t tsr_open(const void *image, uint64_t size,
                                 const tsr_host_t *host, const char *variant,
                                 int checkOnly, void *state,
                                 tsr_bundle_t **outBundle, tsr_error_t *error) {
  if (!image || !host || !state || !outBundle ||
      (reinterpret_cast<uintptr_t>(state) & 15) ||
      (reinterpret_cast<uintptr_t>(image) & 63) ||
      host->version != TSR_RUNTIME_VERSION ||
      (host->page_size & (host->page_size - 1)))
    return refuse(
        error, TSR_ERROR_ARGUMENT,
        "tsr_open|a null or misaligned argument, or a host table of another "
        "version|image aligned to 64, state to 16, host version %u",
        u32(TSR_RUNTIME_VERSION));
  auto &bundle = *static_cast<tsr_bundle *>(state);
  setBytes(&bundle, 0, sizeof(bundle));
  bundle.host = *host;
  bundle.image = static_cast<const u8 *>(image);
  bundle.imageBytes = size;
  if (checkHeader(bundle.image, size, error) != TSR_OK ||
      checkManifestHash(bundle.image, error) != TSR_OK)
    return TSR_REFUSED;
  HeaderView header{bundle.image};
  const u8 *manifest = bundle.image + header.manifestOffset();
  if (const char *problem = verifyManifest(manifest, header.manifestBytes()))
    return refuse(error, TSR_ERROR_STRUCTURE,
                  "manifest|%s|a well-formed one|%s", problem, kDamaged);
  bundle.manifest = manifestRoot(manifest);
  TableVector segments = bundle.manifest.tables(field::kSegments);
  if (u32 abi = bundle.manifest.get<u32>(field::kAbiVersion);
      abi != TSR_KERNEL_ABI_VERSION)
    return refuse(error, TSR_ERROR_VERSION,
                  "kernel ABI|version %u|version %u|compile the model with the "
                  "Tessera release this loader comes from",
                  abi, u32(TSR_KERNEL_ABI_VERSION));
  if (checkSegmentPlaces(bundle, segments, error) != TSR_OK ||
      checkSegmentHashes(bundle, segments, error) != TSR_OK ||
      checkPlan(bundle, error) != TSR_OK ||
      chooseVariant(bundle, variant, checkOnly, error) != TSR_OK ||
      checkVariants(bundle, error) != TSR_OK)
    return TSR_REFUSED;
  if (!checkOnly && checkDeviceKinds(bundle, error) != TSR_OK)
    return TSR_REFUSED;
  *outBundle = &bundle;
  return TSR_OK;
}

extern "C" tsr_status_t tsr_load_code(tsr_bundle_t *bundle, void *pages,
                                      uint64_t bytes, tsr_error_t *error) {
  if (!bundle)
    return refuse(error, TSR_ERROR_ARGUMENT, "tsr_load_code|no bundle");
  if (bundle->variant == kNone) {
    if (bundle->kernels.count == 0)
      return TSR_OK;
    return refuse(error, TSR_ERROR_FEATURES,
                  "ISA variant|none that this machine can run||the bundle was "
                  "opened only to be checked");
  }
  u64 needed = codeBytes(*bundle);
  u64 alignment = larger(bundle->code.alignment, pageBytes(*bundle));
  if (!pages || bytes < needed ||
      (reinterpret_cast<uintptr_t>(pages) & (alignment - 1)))
    return refuse(error, TSR_ERROR_MEMORY,
                  "code memory|%lu bytes|%lu bytes aligned to %lu", bytes,
                  needed, alignment);
  // The copy is hashed, not the original: nobody can change it in between.
  auto *base = static_cast<u8 *>(pages);
  Table variant = bundle->variants[bundle->variant];
  u32 index = variant.get<u32>(field::kVariantSegment);
  Vector<Digest> chunks =
      bundle->segments[index].vector<Digest>(field::kChunks);
  copyBytes(base, bundle->code.file, bundle->code.fileBytes);
  for (u32 i = 0; i < chunks.count; ++i) {
    u64 begin = i * format::kChunkBytes;
    u64 size = smaller(bundle->code.fileBytes - begin, format::kChunkBytes);
    if (!(hashOf(base + begin, size) == chunks[i]))
      return refuse(error, TSR_ERROR_HASH,
                    "hash of the code copy, chunk %u|another value|the "
                    "recorded one|the image changed while it was loaded",
                    i);
  }
  CodeImage image;
  u16 machine = variant.get<u16>(field::kMachine);
  if (checkCode(base, bundle->code.fileBytes, machine, bundle->codeEntries,
                variant.text(field::kVariantName), image, error) != TSR_OK ||
      placeCode(base, needed, image, machine, bundle->host, error) != TSR_OK)
    return TSR_REFUSED;
  bundle->codeBase = base;
  return TSR_OK;
}

extern "C" uint32_t tsr_variant_count(const tsr_bundle_t *bundle) {
  return bundle->variants.count;
}

extern "C" tsr_status_t tsr_variant_query(const tsr_bundle_t *bundle,
                                          uint32_t index,
                                          tsr_variant_info_t *out) {
  if (index >= bundle->variants.count)
    return TSR_REFUSED;
  Table variant = bundle->variants[index];
  const char *missing = missingFeature(*bundle, variant);
  out->name = variant.text(field::kVariantName);
  out->machine = variant.get<u16>(field::kMachine);
  out->runnable = missing == nullptr;
  out->chosen = index == bundle->variant;
  Text(out->missing, sizeof(out->missing)).put(missing ? missing : "");
  return TSR_OK;
}

namespace tsr {
u64 bundleCodeBytes(const tsr_bundle &bundle) { return codeBytes(bundle); }
u64 bundleCodeAlignment(const tsr_bundle &bundle) {
  return larger(bundle.code.alignment, pageBytes(bundle));
}
} // namespace tsr

// An opened bundle and its parts.
#ifndef TESSERA_RUNTIME_BUNDLE_H
#define TESSERA_RUNTIME_BUNDLE_H

#include "runtime-stub/src/Manifest.h"

namespace tsr {

/// What is known of a kernel image once its ELF headers were checked.
struct CodeImage {
  const u8 *file = nullptr;
  u64 fileBytes = 0;
  u64 span = 0;      // bytes of memory from address zero
  u64 alignment = 0; // of the base address
};

/// Checks a kernel image and the kernels' addresses in it. `name` is the
/// variant's, for the refusal.
tsr_status_t checkCode(const u8 *file, u64 size, u16 machine,
                       Vector<u64> entries, const char *name, CodeImage &out,
                       tsr_error_t *error);

/// Turns the file copy at `base` (at least max(file, span) bytes, hashed) into
/// the memory image, and has the host protect it.
tsr_status_t placeCode(u8 *base, u64 bytes, const CodeImage &image, u16 machine,
                       const tsr_host_t &host, tsr_error_t *error);

/// True if `list`, words between spaces or null, has the word.
bool hasWord(const char *list, const char *feature);

/// e_machine of this build.
u16 ownMachine();

} // namespace tsr

struct tsr_bundle {
  tsr_host_t host;
  const tsr::u8 *image;
  tsr::u64 imageBytes;

  tsr::Table manifest;
  tsr::u32 registers;
  tsr::Vector<tsr::Buffer> buffers;
  tsr::Vector<tsr::Scalar> scalars;
  tsr::Vector<tsr::Command> commands;
  tsr::Vector<tsr::u32> operands;
  tsr::TableVector pools, kernels, variants, segments, strings, devices;
  tsr::TableVector inputs, outputs;
  tsr::u32 prepareBegin, prepareEnd;
  tsr::u32 commandBegin, commandEnd;
  tsr::u32 maxOperands, maxScalars; // of any dispatch
  tsr::u32 inputAxes, outputAxes;   // sum of all ranks
  tsr::u32 deviceCount;             // the processor included
  tsr::u32 launches;

  tsr::u32 variant; // chosen, or kNone
  tsr::CodeImage code;
  tsr::u8 *codeBase; // null until tsr_load_code
  tsr::Vector<tsr::u64> codeEntries;

  const tsr::u8 *segmentData(tsr::u32 segment) const {
    return image + segments[segment].get<tsr::u64>(tsr::field::kSegmentOffset);
  }
};

namespace tsr {

/// Every index, span and size of the plan (Check.cpp). Fills the fields of
/// `bundle` from `registers` to `outputAxes`.
tsr_status_t checkPlan(tsr_bundle &bundle, tsr_error_t *error);

/// What runs on devices of their own: ranges, memory, fences (CheckDevices.cpp).
/// The plan's indices are checked. Sets `launches`.
tsr_status_t checkDevices(tsr_bundle &bundle, tsr_error_t *error);

/// Device segments of the kind "vulkan", against the buffers that they are given
/// (CheckVulkan.cpp). The plan is checked.
tsr_status_t checkVulkan(const tsr_bundle &bundle, tsr_error_t *error);

/// Bytes of `count` elements, or -1 for an unknown type or a size beyond
/// reason.
i64 elementBytes(i32 elementType, i64 count);

} // namespace tsr
#endif

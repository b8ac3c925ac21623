// Segments for Vulkan devices: every place in them, and that what they bind
// lies inside of the buffers that the plan gives. Whatever drives the device
// need not look again; that the modules keep to their bindings is the
// compiler's word.
#include "runtime-stub/format/Vulkan.h"
#include "runtime-stub/src/Bundle.h"

namespace tsr {
namespace {

namespace vk = format::vulkan;

tsr_status_t bad(tsr_error_t *error, u32 at, const char *part, u32 index,
                 const char *what) {
  return refuse(error, TSR_ERROR_STRUCTURE,
                "launch in command %u, %s %u of its segment|%s||the bundle was "
                "made by a faulty tool: compile the model again",
                at, part, index, what);
}

/// An operand has the bytes that the segment counts on, whatever the shapes.
bool holds(const tsr_bundle &b, u32 index, u64 bytes) {
  const Buffer &buffer = b.buffers.at(index);
  return buffer.sizeRegister == kNone && buffer.sizeBytes >= bytes;
}

bool isConstant(const tsr_bundle &b, u32 index) {
  const Buffer &buffer = b.buffers.at(index);
  const Buffer &root =
      buffer.aliasOf == kNone ? buffer : b.buffers.at(buffer.aliasOf);
  return root.kind == BufferKind::Constant;
}

tsr_status_t checkLaunch(const tsr_bundle &b, u32 at, const Command &c,
                         tsr_error_t *error) {
  vk::Artefact artefact;
  vk::Fault fault =
      vk::check(b.segmentData(c.c),
                b.segments[c.c].get<u64>(field::kSegmentSize), artefact);
  if (fault.part)
    return bad(error, at, fault.part, fault.index, fault.what);
  u32 count = c.f == kNone ? 0 : b.operands[c.f];
  if (count != artefact.head.operands)
    return bad(error, at, "operands", artefact.head.operands,
               "the plan gives it another number of buffers");
  for (u32 i = 0; i < count; ++i)
    if (!holds(b, b.operands[c.f + 1 + i], artefact.operand(i)))
      return bad(error, at, "operand", i,
                 "a buffer that is smaller, or whose size a run decides");
  for (u32 i = 0; i < artefact.head.bindings; ++i) {
    vk::Binding binding = artefact.binding(i);
    if (binding.from == vk::From::Operand && (binding.access & vk::kWrites) &&
        isConstant(b, b.operands[c.f + 1 + binding.operand]))
      return bad(error, at, "binding", i, "writes to a constant");
  }
  return TSR_OK;
}

} // namespace

tsr_status_t checkVulkan(const tsr_bundle &bundle, tsr_error_t *error) {
  for (u32 i = bundle.commandBegin; i < bundle.commandEnd; ++i) {
    const Command &c = bundle.commands.at(i);
    if (c.kind == CommandKind::Launch && c.c != kNone &&
        sameText(tsr_device_kind(&bundle, c.a), vk::kDeviceKind) &&
        checkLaunch(bundle, i, c, error) != TSR_OK)
      return TSR_REFUSED;
  }
  return TSR_OK;
}

} // namespace tsr

// What makes launches safe, proven once over the list. In its order:
//
// * a range holds dispatches and movement only, lies outside of other ranges,
//   and nothing jumps into it;
// * it touches buffers of its device's pools and constants, and reads registers
//   that no command writes (they are numbered below all that one does);
// * between a launch and the next fence of its device no other command touches
//   the device's pools, and no jump happens, so that what is under way at a
//   command does not depend on the path to it;
// * nothing is under way at the end;
// * what a launch's segment knows of the plan is its device's memory, or constant.
//
// The indices themselves were checked before.
#include "runtime-stub/src/Bundle.h"

namespace tsr {
namespace {

class DeviceChecker {
public:
  DeviceChecker(tsr_bundle &bundle, tsr_error_t *error)
      : b(bundle), error(error) {}

  bool run() {
    b.launches = 0;
    for (u32 i = b.commandBegin; i < b.commandEnd; ++i) {
      const Command &c = b.commands.at(i);
      bool inside = i < rangeEnd;
      device = inside ? device : 0;
      if (c.device != device)
        return bad(i, "the device of its range", "belongs to device", c.device);
      if (inside ? !inRange(i, c) : !onProcessor(i, c))
        return false;
    }
    return !inFlight || bad(b.commandEnd, "a fence before the end",
                            "still launched, as a set of devices", inFlight);
  }

private:
  bool bad(u32 at, const char *needed, const char *found, u32 value) {
    refuse(error, TSR_ERROR_STRUCTURE,
           "command %u|%s %u|%s|the bundle was made by a faulty tool: compile "
           "the model again",
           at, found, value, needed);
    return false;
  }
  static constexpr u32 kEverywhere = ~u32(0);
  /// The device in whose memory a buffer lies; constants lie everywhere.
  u32 homeOf(u32 index) const {
    const Buffer *buffer = &b.buffers.at(index);
    if (buffer->aliasOf != kNone)
      buffer = &b.buffers.at(buffer->aliasOf);
    return buffer->kind == BufferKind::Constant
               ? kEverywhere
               : b.pools[buffer->pool].get<u8>(field::kPoolDevice);
  }

  // --- on the processor ---
  bool onProcessor(u32 at, const Command &c) {
    switch (c.kind) {
    case CommandKind::Launch:
      if (c.e != b.launches)
        return bad(at, "launches numbered in order", "launch", c.e);
      if (!findWritten())
        return bad(at, "run-time instructions apart from the prepare program",
                   "the entry mixes them, as in launch", c.e);
      ++b.launches;
      device = c.a;
      for (u32 i = 0; c.f != kNone && i < b.operands[c.f]; ++i)
        if (!own(at, b.operands[c.f + 1 + i]))
          return false;
      rangeEnd = at + 1 + c.b;
      inFlight |= 1u << device;
      return true;
    case CommandKind::Fence:
      inFlight &= ~(1u << c.a);
      return true;
    case CommandKind::Jump:
      return jump(at, c.a);
    case CommandKind::BranchZero:
      return jump(at, c.b);
    case CommandKind::Dispatch:
      for (u32 i = 0; i < c.c; ++i)
        if (!touch(at, b.operands[c.b + i]))
          return false;
      return true;
    case CommandKind::Scalars:
      for (u32 i = c.a; inFlight && i < c.a + c.b; ++i)
        if (b.scalars.at(i).op == ScalarOp::LoadInt &&
            !touch(at, b.scalars.at(i).a))
          return false;
      return true;
    case CommandKind::Copy:
    case CommandKind::Bind:
      return touch(at, c.a) && touch(at, c.b);
    case CommandKind::Allocate:
    case CommandKind::Release:
    case CommandKind::Fill:
    case CommandKind::StoreInt:
      return touch(at, c.a);
    default:
      return true;
    }
  }
  bool touch(u32 at, u32 buffer) {
    u32 home = homeOf(buffer);
    return home == kEverywhere || !(inFlight >> home & 1) ||
           bad(at, "a fence before it", "touches what a device uses: buffer",
               buffer);
  }
  bool jump(u32 at, u32 to) {
    if (inFlight)
      return bad(at, "a fence before a jump", "goes, launched, to command", to);
    return to == b.commandEnd || b.commands.at(to).device == 0 ||
           bad(at, "a command outside of ranges", "jumps to command", to);
  }

  // --- on a device ---
  /// Finds the lowest register that a command writes. False if a command runs
  /// instructions of the prepare program, which would write others.
  bool findWritten() {
    if (firstWritten != kNone || runsPrepare)
      return !runsPrepare;
    firstWritten = b.registers;
    for (u32 i = b.commandBegin; i < b.commandEnd; ++i) {
      const Command &c = b.commands.at(i);
      runsPrepare |= c.kind == CommandKind::Scalars && c.b &&
                     c.a < b.prepareEnd && b.prepareBegin < c.a + c.b;
    }
    for (u32 i = 0; i < b.scalars.count; ++i)
      if (i < b.prepareBegin || i >= b.prepareEnd)
        firstWritten = smaller(firstWritten, b.scalars.at(i).dst);
    return !runsPrepare;
  }
  bool inRange(u32 at, const Command &c) {
    switch (c.kind) {
    case CommandKind::Dispatch:
      for (u32 i = 0; i < c.c; ++i)
        if (!own(at, b.operands[c.b + i]))
          return false;
      for (u32 i = 0; i < c.e; ++i)
        if (!fixed(at, b.operands[c.d + i]))
          return false;
      return fixed(at, c.f);
    case CommandKind::Copy:
      return own(at, c.a) && own(at, c.b) && fixed(at, c.c) &&
             fixed(at, c.d) && fixed(at, c.e);
    case CommandKind::Fill:
      return own(at, c.a) && fixed(at, c.c);
    case CommandKind::StoreInt:
      return own(at, c.a) && fixed(at, c.b);
    default:
      return bad(at, "dispatches and movement in a range", "kind", u32(c.kind));
    }
  }
  bool own(u32 at, u32 buffer) {
    u32 home = homeOf(buffer);
    return home == kEverywhere || home == device ||
           bad(at, "memory of its device and constants", "touches buffer",
               buffer);
  }
  bool fixed(u32 at, u32 reg) {
    return reg == kNone || reg < firstWritten ||
           bad(at, "registers that no command writes", "reads register", reg);
  }

  tsr_bundle &b;
  tsr_error_t *error;
  u32 rangeEnd = 0, device = 0, inFlight = 0;
  u32 firstWritten = kNone;
  bool runsPrepare = false;
};

} // namespace

tsr_status_t checkDevices(tsr_bundle &bundle, tsr_error_t *error) {
  if (!DeviceChecker(bundle, error).run())
    return TSR_REFUSED;
  return checkVulkan(bundle, error);
}

} // namespace tsr

// The judge of launches: replays the list against the places that the arena
// plan gave, knowing nothing of how fences were set or lifetimes were found.
#include "compiler/Memory/LaunchValidator.h"

#include <vector>

namespace tessera {
namespace {

struct Bytes {
  uint32_t buffer;
  uint32_t pool;
  uint64_t begin, end;
};

class Replay {
public:
  explicit Replay(const Plan &plan) : plan(plan), busy(plan.devices.size()) {}

  std::optional<std::string> run() {
    for (uint32_t at = 0; at < plan.commands.size() && !fault; ++at) {
      const PlanCommand &c = plan.commands[at];
      if (at < rangeEnd) {
        inRange(at, c);
        continue;
      }
      if (c.device != 0)
        fail(at, "belongs to a device outside of its range");
      if (c.kind == CommandKind::Launch)
        launch(at, c);
      else if (c.kind == CommandKind::Fence)
        busy[c.a].clear();
      else
        beside(at, c);
    }
    for (uint32_t d = 1; d < busy.size(); ++d)
      if (!fault && !busy[d].empty())
        fail(plan.commands.size(), "ends the plan while device " + std::to_string(d) + " is at work");
    return fault;
  }

private:
  void fail(size_t at, const std::string &what) {
    if (!fault)
      fault = "command " + std::to_string(at) + " " + what;
  }
  std::optional<Bytes> placeOf(uint32_t index) const {
    uint64_t offset = 0;
    uint32_t root = index;
    for (; plan.buffers[root].aliasOf != kNone; root = plan.buffers[root].aliasOf)
      offset += plan.buffers[root].aliasOffset;
    const PlanBuffer &b = plan.buffers[root];
    if (b.kind == BufferKind::Constant)
      return std::nullopt;
    // Without a place of its own anything of the pool may be meant.
    bool placed = b.hasOffset && b.sizeRegister == kNone;
    uint64_t begin = placed ? b.offset : 0, end = placed ? b.offset + b.sizeBytes : UINT64_MAX;
    return Bytes{index, b.pool, begin, end};
  }
  std::vector<uint32_t> touched(const PlanCommand &c) const {
    switch (c.kind) {
    case CommandKind::Dispatch:
      return {plan.operands.begin() + c.b, plan.operands.begin() + c.b + c.c};
    case CommandKind::Scalars: {
      std::vector<uint32_t> all;
      for (uint32_t i = c.a; i < c.a + c.b; ++i)
        if (plan.scalars[i].op == ScalarOp::LoadInt)
          all.push_back(plan.scalars[i].a);
      return all;
    }
    case CommandKind::Copy:
    case CommandKind::Bind: return {c.a, c.b};
    case CommandKind::Allocate:
    case CommandKind::Release:
    case CommandKind::Fill:
    case CommandKind::StoreInt: return {c.a};
    case CommandKind::Jump:
    case CommandKind::BranchZero:
    case CommandKind::Check:
    case CommandKind::Fence:
    case CommandKind::Launch: return {};
    }
    return {};
  }

  void launch(uint32_t at, const PlanCommand &c) {
    if (c.a == 0 || c.a >= plan.devices.size() || c.b == 0 || c.b >= plan.commands.size() - at)
      return fail(at, "launches what is no range of a device");
    rangeEnd = at + 1 + c.b;
    device = c.a;
  }
  void inRange(uint32_t at, const PlanCommand &c) {
    if (c.device != device)
      fail(at, "belongs to another device than its range");
    if (c.kind != CommandKind::Dispatch && c.kind != CommandKind::Copy && c.kind != CommandKind::Fill &&
        c.kind != CommandKind::StoreInt)
      fail(at, "is not for devices");
    for (uint32_t index : touched(c))
      if (auto bytes = placeOf(index)) {
        if (plan.pools[bytes->pool].device != device)
          fail(at, "reaches into memory of another device: buffer " + std::to_string(index));
        busy[device].push_back(*bytes);
      }
  }
  /// A command of the CPU, which must stay clear of every byte in use elsewhere.
  void beside(uint32_t at, const PlanCommand &c) {
    bool jumps = c.kind == CommandKind::Jump || c.kind == CommandKind::BranchZero;
    for (const auto &held : busy) {
      if (jumps && !held.empty())
        fail(at, "jumps while a device is at work");
      for (uint32_t index : touched(c)) {
        auto mine = placeOf(index);
        for (const Bytes &other : held)
          if (mine && mine->pool == other.pool && mine->begin < other.end && other.begin < mine->end &&
              mine->begin != mine->end && other.begin != other.end)
            return fail(at, "touches buffer " + std::to_string(index) + " while a device uses buffer " +
                                std::to_string(other.buffer) + " in the same place");
      }
    }
  }

  const Plan &plan;
  std::vector<std::vector<Bytes>> busy; ///< by device: what its launched ranges touch
  std::optional<std::string> fault;
  uint32_t rangeEnd = 0, device = 0;
};

} // namespace

std::optional<std::string> validateLaunches(const Plan &plan) { return Replay(plan).run(); }

} // namespace tessera

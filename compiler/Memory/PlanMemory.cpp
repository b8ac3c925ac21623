#include "compiler/Memory/PlanMemory.h"

#include "compiler/Memory/LaunchValidator.h"
#include "compiler/Memory/MemoryProblem.h"

#include <algorithm>

namespace tessera {
namespace {

class Lifetimes {
public:
  explicit Lifetimes(Plan &plan) : plan(plan), seen(plan.buffers.size(), 0) {}

  void run() {
    // One beyond the last command: the host reads outputs when all is done.
    end = uint32_t(plan.commands.size());
    for (uint32_t at = 0; at < plan.commands.size(); ++at)
      command(at, plan.commands[at]);
    for (const PlanTensor &input : plan.inputs)
      touch(input.buffer, 0);
    for (const PlanTensor &output : plan.outputs)
      touch(output.buffer, end);
    for (uint32_t i = 0; i < plan.buffers.size(); ++i) {
      PlanBuffer &buffer = plan.buffers[i];
      if (!seen[i])
        buffer.firstCommand = buffer.lastCommand = 0;
      if (buffer.kind == BufferKind::State) {
        buffer.firstCommand = 0;
        buffer.lastCommand = end;
      }
    }
    extendOverLoops();
  }

private:
  uint32_t rootOf(uint32_t buffer) const {
    while (plan.buffers[buffer].aliasOf != kNone)
      buffer = plan.buffers[buffer].aliasOf;
    return buffer;
  }
  void touch(uint32_t index, uint32_t at) {
    if (index >= plan.buffers.size())
      return;
    uint32_t root = rootOf(index);
    PlanBuffer &buffer = plan.buffers[root];
    buffer.firstCommand = seen[root] ? std::min(buffer.firstCommand, at) : at;
    buffer.lastCommand = seen[root] ? std::max(buffer.lastCommand, at) : at;
    seen[root] = 1;
  }
  void command(uint32_t at, const PlanCommand &c) {
    switch (c.kind) {
    case CommandKind::Dispatch:
      for (uint32_t i = 0; i < c.c; ++i)
        touch(plan.operands[c.b + i], at);
      break;
    case CommandKind::Scalars:
      for (uint32_t i = 0; i < c.b; ++i)
        if (plan.scalars[c.a + i].op == ScalarOp::LoadInt)
          touch(plan.scalars[c.a + i].a, at);
      break;
    case CommandKind::Copy:
    case CommandKind::Bind:
      touch(c.a, at);
      touch(c.b, at);
      break;
    case CommandKind::Allocate:
    case CommandKind::Fill:
    case CommandKind::StoreInt:
      touch(c.a, at);
      break;
    case CommandKind::Jump:
      if (c.a <= at)
        loops.push_back({c.a, at});
      break;
    case CommandKind::BranchZero:
      if (c.b <= at)
        loops.push_back({c.b, at});
      break;
    case CommandKind::Release:
    case CommandKind::Check:
    case CommandKind::Fence:
    case CommandKind::Launch:
      break;
    }
    // Places of the planned pool are exchanged for the rest of the run.
    if (c.kind == CommandKind::Bind &&
        !plan.pools[plan.buffers[c.a].pool].growing)
      exchanged.push_back({c.a, c.b});
  }
  void extendOverLoops() {
    bool changed = true;
    while (changed) {
      changed = false;
      for (auto [a, b] : exchanged) {
        PlanBuffer &x = plan.buffers[rootOf(a)], &y = plan.buffers[rootOf(b)];
        uint32_t first = std::min(x.firstCommand, y.firstCommand);
        uint32_t last = std::max(x.lastCommand, y.lastCommand);
        changed |= set(x, first, last);
        changed |= set(y, first, last);
      }
      for (auto [head, back] : loops)
        for (PlanBuffer &buffer : plan.buffers) {
          uint32_t first = buffer.firstCommand, last = buffer.lastCommand;
          if (first > back || last < head)
            continue;
          if (first < head)
            last = std::max(last, back);
          else if (last > back)
            first = head; // read after the loop, if only by the host
          changed |= set(buffer, first, last);
        }
    }
  }
  static bool set(PlanBuffer &buffer, uint32_t first, uint32_t last) {
    if (buffer.firstCommand == first && buffer.lastCommand == last)
      return false;
    buffer.firstCommand = first;
    buffer.lastCommand = last;
    return true;
  }

  Plan &plan;
  std::vector<char> seen;
  std::vector<std::pair<uint32_t, uint32_t>> loops, exchanged;
  uint32_t end = 0;
};

} // namespace

void computeLifetimes(Plan &plan) { Lifetimes(plan).run(); }

llvm::Expected<MemoryReport> planMemory(Plan &plan) {
  computeLifetimes(plan);
  MemoryReport report;
  for (uint32_t p = 0; p < plan.pools.size(); ++p) {
    PlanPool &pool = plan.pools[p];
    PoolReport row;
    row.pool = pool.name;
    MemoryProblem problem;
    problem.alignment = std::max<uint64_t>(pool.alignment, 64);
    std::vector<uint32_t> members;
    row.isStatic = !pool.growing;
    for (uint32_t i = 0; i < plan.buffers.size(); ++i) {
      const PlanBuffer &b = plan.buffers[i];
      if (b.pool != p || b.aliasOf != kNone || b.kind == BufferKind::Constant)
        continue;
      row.isStatic &= b.sizeRegister == kNone;
      row.withoutReuse += b.sizeBytes;
      members.push_back(i);
      problem.buffers.push_back({b.sizeBytes, b.firstCommand, b.lastCommand});
    }
    row.buffers = members.size();
    if (row.isStatic) {
      MemorySolution solution = solve(problem);
      if (auto fault = validate(problem, solution))
        return llvm::createStringError(
            "internal: the arena plan is invalid: %s", fault->c_str());
      for (size_t k = 0; k < members.size(); ++k) {
        plan.buffers[members[k]].offset = solution.offsets[k];
        plan.buffers[members[k]].hasOffset = true;
      }
      pool.staticBytes = row.bytes = solution.bytes;
      row.lowerBound = lowerBound(problem);
      row.method = solution.method;
    }
    report.pools.push_back(std::move(row));
  }
  if (auto fault = validateLaunches(plan))
    return llvm::createStringError("internal: the plan's launches are invalid: %s", fault->c_str());
  return report;
}

} // namespace tessera

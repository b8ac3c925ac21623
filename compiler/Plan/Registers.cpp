#include "compiler/Plan/PlanBuilderImpl.h"

namespace tessera {

namespace {
class Renumbering {
public:
  explicit Renumbering(Plan &plan) : plan(plan), numbers(plan.registers, kNone) {
    for (const PlanScalar &s : plan.scalars) // those of the prepare program come first
      number(s.dst);
    for (uint32_t r = 0; r < plan.registers; ++r)
      number(r);
  }

  void run() {
    for (PlanScalar &s : plan.scalars)
      scalar(s);
    for (PlanBuffer &b : plan.buffers)
      map(b.sizeRegister);
    for (auto *tensors : {&plan.inputs, &plan.outputs})
      for (PlanTensor &t : *tensors)
        for (PlanDim &d : t.dims)
          map(d.reg);
    for (PlanCommand &c : plan.commands)
      command(c);
  }

private:
  void number(uint32_t r) {
    if (numbers[r] == kNone)
      numbers[r] = next++;
  }
  void map(uint32_t &r) {
    if (r != kNone)
      r = numbers[r];
  }
  void scalar(PlanScalar &s) {
    map(s.dst);
    if (s.op == ScalarOp::Constant || s.op == ScalarOp::InputDim || s.op == ScalarOp::LoadInt)
      return; // their operands are no registers
    map(s.a);
    map(s.b);
    map(s.c);
  }
  void command(PlanCommand &c) {
    switch (c.kind) {
    case CommandKind::Dispatch:
      for (uint32_t i = 0; i < c.e; ++i)
        map(plan.operands[c.d + i]);
      map(c.f);
      break;
    case CommandKind::Copy:
      map(c.c);
      map(c.d);
      map(c.e);
      break;
    case CommandKind::BranchZero:
    case CommandKind::Check: map(c.a); break;
    case CommandKind::Allocate:
    case CommandKind::StoreInt: map(c.b); break;
    case CommandKind::Fill: map(c.c); break;
    case CommandKind::Scalars:
    case CommandKind::Jump:
    case CommandKind::Release:
    case CommandKind::Bind:
    case CommandKind::Fence:
    case CommandKind::Launch: break;
    }
  }

  Plan &plan;
  std::vector<uint32_t> numbers;
  uint32_t next = 0;
};
} // namespace

void sortRegisters(Plan &plan) { Renumbering(plan).run(); }

} // namespace tessera

#include "compiler/Report/PlanText.h"

namespace tessera {

static const char *name(ScalarOp op) {
  static const char *const names[] = {"constant", "input_dim", "add", "sub", "mul", "floordiv", "ceildiv", "mod",
                                      "min", "max", "equal", "less", "select", "load", "truncdiv"};
  return names[static_cast<unsigned>(op)];
}

static const char *name(CommandKind kind) {
  static const char *const names[] = {"dispatch", "scalars", "copy", "jump", "branch_zero", "allocate",
                                      "release", "bind", "check", "fence", "fill", "store_int", "launch"};
  return names[static_cast<unsigned>(kind)];
}

static const char *name(BufferKind kind) {
  static const char *const names[] = {"constant", "input", "output", "temporary", "dynamic", "state"};
  return names[static_cast<unsigned>(kind)];
}

static void field(llvm::raw_ostream &os, const char *label, uint32_t v) {
  if (v != kNone)
    os << " " << label << v;
}

static void printScalar(const PlanScalar &s, llvm::raw_ostream &os) {
  os << "    r" << s.dst << " = " << name(s.op);
  switch (s.op) {
  case ScalarOp::Constant: os << " " << s.imm; break;
  case ScalarOp::InputDim: os << " input " << s.a << " axis " << s.b; break;
  case ScalarOp::LoadInt: os << " b" << s.a << "[" << s.imm << "] type " << s.b; break;
  default:
    field(os, "r", s.a);
    field(os, "r", s.b);
    field(os, "r", s.c);
  }
  os << "\n";
}

static uint32_t rootOf(const Plan &plan, uint32_t buffer) {
  while (plan.buffers[buffer].aliasOf != kNone)
    buffer = plan.buffers[buffer].aliasOf;
  return buffer;
}

/// Whose memory a buffer lies in.
static const std::string &memoryOf(const Plan &plan, uint32_t buffer) {
  return plan.devices[plan.pools[plan.buffers[rootOf(plan, buffer)].pool].device].name;
}

/// The number in a register that the prepare program sets once, or the register.
static void printSize(const Plan &plan, uint32_t reg, llvm::raw_ostream &os) {
  for (uint32_t i = 0; i < plan.prepareEnd; ++i)
    if (plan.scalars[i].dst == reg && plan.scalars[i].op == ScalarOp::Constant) {
      os << plan.scalars[i].imm;
      return;
    }
  os << "r" << reg;
}

static void printCopy(const Plan &plan, const PlanCommand &c, llvm::raw_ostream &os) {
  os << " b" << c.a << " to b" << c.b << " bytes ";
  printSize(plan, c.c, os);
  field(os, "at r", c.d);
  field(os, "from r", c.e);
  if (plan.devices.size() > 1)
    os << " (" << memoryOf(plan, c.a) << " to " << memoryOf(plan, c.b) << ")";
  os << "\n";
}

static void printDevices(const Plan &plan, llvm::raw_ostream &os) {
  os << "devices\n";
  for (size_t i = 0; i < plan.devices.size(); ++i)
    os << "  " << i << ": " << plan.devices[i].name << "\n";
  os << "pools\n";
  for (size_t i = 0; i < plan.pools.size(); ++i) {
    os << "  " << i << ": " << plan.pools[i].name << " of " << plan.devices[plan.pools[i].device].name;
    if (plan.pools[i].staticBytes)
      os << " bytes " << plan.pools[i].staticBytes;
    os << "\n";
  }
}

void printPlan(const Plan &plan, llvm::raw_ostream &os) {
  if (plan.devices.size() > 1)
    printDevices(plan, os);
  os << "prepare\n";
  for (uint32_t i = 0; i < plan.prepareEnd; ++i)
    printScalar(plan.scalars[i], os);
  os << "buffers\n";
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    const PlanBuffer &b = plan.buffers[i];
    os << "  b" << i << " " << name(b.kind);
    if (b.aliasOf != kNone)
      os << " alias of b" << b.aliasOf;
    if (b.sizeRegister != kNone)
      os << " bytes r" << b.sizeRegister;
    else
      os << " bytes " << b.sizeBytes;
    if (b.hasOffset)
      os << " at " << b.offset;
    if (b.pool > 1)
      os << " in " << plan.pools[b.pool].name;
    os << " live [" << b.firstCommand << ", " << b.lastCommand << "] " << b.name << "\n";
  }
  os << "commands\n";
  for (size_t i = 0; i < plan.commands.size(); ++i) {
    const PlanCommand &c = plan.commands[i];
    os << "  " << i << ": ";
    if (c.device)
      os << "[" << plan.devices[c.device].name << "] ";
    os << name(c.kind);
    switch (c.kind) {
    case CommandKind::Dispatch:
      os << " k" << c.a << " " << plan.kernels[c.a].name << " (";
      for (uint32_t k = 0; k < c.c; ++k)
        os << (k ? ", b" : "b") << plan.operands[c.b + k];
      os << ") [";
      for (uint32_t k = 0; k < c.e; ++k)
        os << (k ? ", r" : "r") << plan.operands[c.d + k];
      os << "]";
      // Conversions and changes of layout are movement, too: the bytes they write.
      if (const PlanKernel &k = plan.kernels[c.a]; k.name == "Cast" || k.kernelClass == "movement")
        if (c.c > 1 && plan.buffers[plan.operands[c.b + c.c - 2]].sizeRegister == kNone)
          os << " bytes " << plan.buffers[plan.operands[c.b + c.c - 2]].sizeBytes;
      os << (c.flushDenormals ? " flush\n" : "\n");
      break;
    case CommandKind::Scalars:
      os << "\n";
      for (uint32_t k = 0; k < c.b; ++k)
        printScalar(plan.scalars[c.a + k], os);
      break;
    case CommandKind::Check: os << " r" << c.a << " '" << plan.strings[c.b] << "'\n"; break;
    case CommandKind::Copy: printCopy(plan, c, os); break;
    case CommandKind::Fence: os << " " << plan.devices[c.a].name << "\n"; break;
    case CommandKind::Launch:
      os << " " << plan.devices[c.a].name << " '" << plan.strings[c.d] << "' commands " << i + 1 << " to " << i + c.b;
      if (c.c != kNone)
        os << ", artefact of " << plan.artefacts[c.c].size << " bytes";
      os << "\n";
      break;
    default:
      field(os, "", c.a);
      field(os, "", c.b);
      field(os, "", c.c);
      field(os, "", c.d);
      os << "\n";
    }
  }
}

} // namespace tessera

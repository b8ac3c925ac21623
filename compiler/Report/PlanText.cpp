#include "compiler/Report/PlanText.h"

namespace tessera {

static const char *name(ScalarOp op) {
  static const char *const names[] = {"constant", "input_dim", "add", "sub", "mul", "floordiv", "ceildiv", "mod",
                                      "min", "max", "equal", "less", "select", "load", "truncdiv"};
  return names[static_cast<unsigned>(op)];
}

static const char *name(CommandKind kind) {
  static const char *const names[] = {"dispatch", "scalars", "copy", "jump", "branch_zero", "allocate",
                                      "release", "bind", "check", "fence", "fill", "store_int"};
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

void printPlan(const Plan &plan, llvm::raw_ostream &os) {
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
    os << " live [" << b.firstCommand << ", " << b.lastCommand << "] " << b.name << "\n";
  }
  os << "commands\n";
  for (size_t i = 0; i < plan.commands.size(); ++i) {
    const PlanCommand &c = plan.commands[i];
    os << "  " << i << ": " << name(c.kind);
    switch (c.kind) {
    case CommandKind::Dispatch:
      os << " k" << c.a << " " << plan.kernels[c.a].name << " (";
      for (uint32_t k = 0; k < c.c; ++k)
        os << (k ? ", b" : "b") << plan.operands[c.b + k];
      os << ") [";
      for (uint32_t k = 0; k < c.e; ++k)
        os << (k ? ", r" : "r") << plan.operands[c.d + k];
      os << "]\n";
      break;
    case CommandKind::Scalars:
      os << "\n";
      for (uint32_t k = 0; k < c.b; ++k)
        printScalar(plan.scalars[c.a + k], os);
      break;
    case CommandKind::Check: os << " r" << c.a << " '" << plan.strings[c.b] << "'\n"; break;
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

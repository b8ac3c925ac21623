#include "targets/Placement.h"
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "mlir/IR/IRMapping.h"
#include "targets/Cpu/KernelBuilder.h"
#include "targets/EthosU/Limits.h"
#include "targets/Isolate.h"
#include "targets/Tosa/Lowering.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;

namespace tessera {

static llvm::SmallVector<std::string> cpuFaults(Operation *op) {
  cpu::Reasons reasons;
  bool ok =
      cpu::isElementwise(op) ? succeeded(cpu::matchElementwise(op, reasons)) : cpu::findKernel(op, reasons) != nullptr;
  llvm::SmallVector<std::string> faults(reasons.all.begin(), reasons.all.end());
  if (!ok && faults.empty())
    faults.push_back("no kernel of the CPU serves it");
  return faults;
}

// --- int8: an operator with its quantisers
// ------------------------------------

static bool isFloat(Value v) {
  auto type = dyn_cast<ShapedType>(v.getType());
  return type && isa<FloatType>(type.getElementType());
}

static bool is(Operation *op, llvm::StringRef name) { return op->getName().stripDialect() == name; }

/// What has to be lowered with `op` for no float tensor to cross the border:
/// the DequantizeLinear operators before it, the QuantizeLinear operators after
/// it, and what stands between. The rules have seen that there are such.
static std::vector<Operation *> quantisedNeighbourhood(Operation *op) {
  llvm::SetVector<Operation *> found;
  found.insert(op);
  for (size_t i = 0; i < found.size(); ++i) {
    Operation *member = found[i];
    if (!is(member, "DequantizeLinear"))
      for (Value v : member->getOperands())
        if (Operation *def = v.getDefiningOp(); def && isFloat(v) && !onnx::getConstant(v))
          found.insert(def);
    if (!is(member, "QuantizeLinear") && (!is(member, "DequantizeLinear") || member == op))
      for (Value r : member->getResults())
        if (isFloat(r))
          found.insert(r.getUsers().begin(), r.getUsers().end());
  }
  std::vector<Operation *> ops(found.begin(), found.end());
  llvm::erase_if(ops, [&](Operation *o) { return o->getBlock() != op->getBlock(); });
  llvm::sort(ops, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  return ops;
}

/// Whether the sum of a channel's weights may be more than an Ethos-U adds up,
/// whatever they are.
static bool sumsMatter(llvm::ArrayRef<Operation *> ops) {
  for (Operation *op : ops)
    for (Value v : op->getOperands()) {
      auto type = dyn_cast<RankedTensorType>(v.getType());
      if (!type || type.getRank() < 2 || !type.hasStaticShape() || !isConstantOperand(v, Precision::Int8))
        continue;
      int64_t channels = std::max<int64_t>(std::min(type.getDimSize(0), type.getDimSize(1)), 1);
      if (type.getNumElements() / channels > ethosu::alwaysSummable)
        return true;
    }
  return false;
}

static void lowerFor(const Unit &unit, llvm::ArrayRef<Operation *> ops, Precision precision, cpu::Reasons &reasons) {
  auto accelerator = ethosu::findAccelerator(unit.accelerator);
  if (unit.backend != "ethos-u" || !accelerator)
    return (void)tosa::canLower(ops, precision, reasons);
  auto device = [&](Operation *op) { return ethosu::violations(op, *accelerator); };
  (void)tosa::canLower(ops, precision, device, sumsMatter(ops), reasons);
}

/// What of the unit decides how operators lower for it.
static std::string deviceOf(const Unit &unit) {
  if (unit.backend != "vulkan")
    return unit.deviceKind();
  const vulkan::Device &d = unit.gpu;
  std::string text = "vulkan";
  for (uint64_t limit : {uint64_t(d.features), uint64_t(d.maxInvocations), uint64_t(d.sharedBytes), d.maxBufferRange})
    text += " " + std::to_string(limit);
  return text;
}

const std::vector<std::string> &PlacementJudge::lower(const Unit &unit, Operation *op, Precision precision) {
  std::vector<Operation *> together{op};
  if (isQuantised(precision))
    together = quantisedNeighbourhood(op);
  auto [it, isNew] = lowered.try_emplace({deviceOf(unit), precision, together});
  if (!isNew)
    return it->second;
  if (unit.backend == "vulkan") {
    assert(compileForGpu && "whoever judges GPUs brings their compiler");
    return it->second = compileForGpu(together, unit, precision);
  }
  cpu::Reasons reasons;
  auto ask = [&](llvm::ArrayRef<Operation *> ops) {
    lowerFor(unit, ops, precision, reasons);
    if (!vendor || !reasons.all.empty())
      return;
    if (std::string why = vendor(unit, ops, precision); !why.empty())
      reasons.no() << why;
  };
  if (!isQuantised(precision)) {
    ask(together);
  } else {
    // A DequantizeLinear that others read as well is copied to each place that it
    // is read from, as a compile does; so no float is a result.
    llvm::SmallVector<Operation *> ops;
    OwningOpRef<ModuleOp> copy = isolate(together, [](Value r) { return !isFloat(r); }, ops);
    ask(ops);
  }
  it->second = std::move(reasons.all);
  return it->second;
}

llvm::SmallVector<std::string> PlacementJudge::faults(const TargetDescription &target, unsigned unit, Operation *op,
                                                      Precision precision) {
  if (target.units[unit].backend == "cpu")
    return cpuFaults(op);
  llvm::SmallVector<std::string> faults = failingRules(target, unit, op, precision);
  if (strict && precision == Precision::F16)
    faults.push_back("float16 changes values, which --fp-mode strict does not allow");
  // The CPU decides which body runs, and when.
  if (Operation *owner = op->getParentOp(); owner && owner->getName().getStringRef().starts_with("onnx."))
    faults.push_back(("it is in a body of " + owner->getName().stripDialect() + " '" + onnx::getNodeName(owner) +
                      "', which the CPU runs")
                         .str());
  if (faults.empty()) {
    const std::vector<std::string> &reasons = lower(target.units[unit], op, precision);
    faults.assign(reasons.begin(), reasons.end());
  }
  return faults;
}

} // namespace tessera

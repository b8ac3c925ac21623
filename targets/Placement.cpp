#include "targets/Placement.h"
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "targets/Cpu/KernelBuilder.h"

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

llvm::SmallVector<std::string> placementFaults(const TargetDescription &target, unsigned unit, Operation *op,
                                               Precision precision) {
  if (target.units[unit].backend == "cpu")
    return cpuFaults(op);
  llvm::SmallVector<std::string> faults = failingRules(target, unit, op, precision);
  // The CPU decides which body runs, and when.
  if (Operation *owner = op->getParentOp(); owner && owner->getName().getStringRef().starts_with("onnx."))
    faults.push_back(("it is in a body of " + owner->getName().stripDialect() + " '" + onnx::getNodeName(owner) +
                      "', which the CPU runs")
                         .str());
  return faults;
}

} // namespace tessera

// What a Vulkan device is given of a segment: a compute shader for each of its
// dispatches, over the same buffers as the processor's kernels have.
//
// The dispatches stay in the launch's range as well: they are what the
// processor runs where there is no such device. Packed weights differ between
// both and are in the bundle twice; those of the GPU lie in the artefact.
#include "compiler/Bundle/VulkanArtefact.h"
#include "compiler/Plan/PlanBuilderImpl.h"
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "targets/Vulkan/Compile.h"

using namespace mlir;

namespace tessera {

namespace vk = format::vulkan;

static uint64_t formatFeature(vulkan::Feature feature) {
  switch (feature) {
  case vulkan::Feature::Float16:
    return vk::kFloat16;
  case vulkan::Feature::Float64:
    return vk::kFloat64;
  case vulkan::Feature::Int8:
    return vk::kInt8;
  case vulkan::Feature::Int16:
    return vk::kInt16;
  case vulkan::Feature::Int64:
    return vk::kInt64;
  case vulkan::Feature::Storage8:
    return vk::kStorage8;
  case vulkan::Feature::Storage16:
    return vk::kStorage16;
  case vulkan::Feature::DotProduct:
    return vk::kDot8;
  }
  llvm_unreachable("every feature has a bit");
}

static VulkanModule moduleOf(const vulkan::Kernel &kernel) {
  VulkanModule module;
  module.words = kernel.words;
  module.entry = kernel.entry;
  for (vulkan::Feature f : kernel.features)
    module.features |= formatFeature(f);
  module.localSize = kernel.local;
  return module;
}

namespace {
/// The buffers that an artefact knows, in the order of their first use.
class Operands {
public:
  Operands(Plan &plan, VulkanProgram &program) : plan(plan), program(program) {}
  uint32_t of(uint32_t buffer) {
    auto [it, isNew] = positions.try_emplace(buffer, list.size());
    if (isNew) {
      list.push_back(buffer);
      program.addOperand(plan.buffers[buffer].sizeBytes);
    }
    return it->second;
  }
  /// Appends them to the plan's operands: their number, then they.
  uint32_t write() {
    uint32_t at = plan.operands.size();
    plan.operands.push_back(list.size());
    plan.operands.insert(plan.operands.end(), list.begin(), list.end());
    return at;
  }

private:
  Plan &plan;
  VulkanProgram &program;
  std::map<uint32_t, uint32_t> positions;
  std::vector<uint32_t> list;
};
} // namespace

bool PlanBuilder::isVulkan(uint32_t ofDevice) const {
  return plan.devices[ofDevice].kind == vk::kDeviceKind;
}

/// Compiles the segment's dispatches and gives them to the launch at `at`.
LogicalResult PlanBuilder::addShaders(tsr::SegmentOp op, uint32_t at) {
  std::optional<unsigned> unit =
      target ? target->findUnit(op.getUnit()) : std::nullopt;
  assert(unit && "a unit of the target has placed it");
  vulkan::loadDialects(op.getContext());
  VulkanProgram program;
  Operands operands(plan, program);
  for (auto dispatch : op.getBodyBlock()->getOps<tsr::DispatchOp>()) {
    vulkan::Reasons reasons;
    auto kernel =
        vulkan::compileDispatch(dispatch, target->units[*unit].gpu, reasons);
    if (failed(kernel)) {
      InFlightDiagnostic diag =
          dispatch.emitError("internal: the GPU '")
          << op.getUnit()
          << "' was to run this, but its code generator does not take it";
      for (const std::string &reason : reasons.all)
        diag.attachNote() << reason;
      return diag;
    }
    if (kernel->words.empty())
      continue; // nothing to do
    std::vector<vk::Binding> bindings;
    for (const vulkan::Binding &b : kernel->bindings) {
      if (b.kind == vulkan::BindingKind::Packed) {
        bindings.push_back({vk::From::Constant, 0,
                            program.addConstant(b.packed), b.bytes, vk::kReads,
                            0});
        continue;
      }
      bool isInput = b.kind == vulkan::BindingKind::Input;
      uint32_t buffer = isInput ? residence(dispatch.getInputs()[b.index])
                                : buffers[dispatch.getResult(b.index)];
      if (plan.buffers[buffer].sizeBytes < b.bytes)
        return dispatch.emitError("internal: a shader binds ")
               << b.bytes << " bytes of a buffer of "
               << plan.buffers[buffer].sizeBytes;
      bindings.push_back(
          {vk::From::Operand, operands.of(buffer), 0, b.bytes,
           uint32_t(isInput ? vk::kReads : vk::kReads | vk::kWrites), 0});
    }
    program.addStep(program.addModule(moduleOf(*kernel)), kernel->groups,
                    bindings);
  }
  auto bytes = std::make_shared<std::vector<uint8_t>>(program.write());
  plan.commands[at].c = plan.artefacts.size();
  plan.commands[at].f = operands.write();
  plan.artefacts.push_back({plan.strings[plan.commands[at].d],
                            reinterpret_cast<const char *>(bytes->data()),
                            bytes->size(), bytes});
  return success();
}

} // namespace tessera

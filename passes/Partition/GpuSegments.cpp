#include "passes/Partition/GpuSegments.h"
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "passes/Canonicalise/OnnxBuilder.h"
#include "passes/Codegen/Lowering.h"
#include "passes/FuseQuantised/FuseQuantised.h"
#include "passes/Partition/HalfOps.h"
#include "passes/Partition/OpKinds.h"
#include "passes/Partition/WrapSegment.h"
#include "targets/Isolate.h"
#include "targets/Vulkan/Compile.h"

using namespace mlir;

namespace tessera {

bool isGpu(const Unit &unit) { return unit.backend == "vulkan"; }

namespace {

/// Faults, each once. What is added while `at` is not empty concerns these
/// operators alone.
struct Faults {
  std::vector<GpuFault> all;
  SmallVector<size_t> at;
  void add(const Twine &text) {
    GpuFault fault{at, text.str()};
    if (llvm::none_of(all, [&](const GpuFault &f) {
          return f.reason == fault.reason && f.ops == fault.ops;
        }))
      all.push_back(std::move(fault));
  }
};

bool isStatic(Value v) {
  auto type = dyn_cast<RankedTensorType>(v.getType());
  return type && type.hasStaticShape();
}

/// Nodes whose shapes are not all known: nothing of a segment may be sized by a
/// run.
void checkShapes(ArrayRef<Operation *> ops, Faults &faults) {
  for (auto [i, op] : llvm::enumerate(ops)) {
    faults.at = {i};
    for (ValueRange values :
         {ValueRange(op->getOperands()), ValueRange(op->getResults())})
      for (Value v : values)
        if (!isa<NoneType>(v.getType()) && !isStatic(v))
          faults.add("node '" + onnx::getNodeName(op) + "' has " +
                     onnx::getTypeName(v.getType()) +
                     " where a static tensor is needed; fix the dimensions "
                     "with --dim");
  }
  faults.at.clear();
}

bool makeHalf(SmallVectorImpl<Operation *> &ops, std::string &fault) {
  auto form = [&](Value v, Type element) {
    OpBuilder b(v.getParentBlock()->getTerminator());
    return onnx::OnnxBuilder(b, v.getLoc()).cast(v, element);
  };
  Builder types(ops.front()->getContext());
  return succeeded(replaceInHalf(
      ops, [&](Value v) { return form(v, types.getF16Type()); },
      [&](Value v) { return form(v, types.getF32Type()); }, fault));
}

/// Which of the operators asked about this is a copy of, or was made from.
std::optional<size_t> originOf(Operation *op) {
  auto fused = dyn_cast<FusedLoc>(op->getLoc());
  auto number =
      fused ? dyn_cast_or_null<IntegerAttr>(fused.getMetadata()) : nullptr;
  return number ? std::optional<size_t>(number.getInt()) : std::nullopt;
}

/// What a dispatch computes; of a change of layout those whose result it reads,
/// or who read its own.
SmallVector<size_t> membersOf(tsr::DispatchOp dispatch) {
  SmallVector<size_t> members;
  auto add = [&](Operation *op) {
    if (auto d = dyn_cast_or_null<tsr::DispatchOp>(op))
      for (Operation &inner : *d.getBodyBlock())
        if (auto i = originOf(&inner))
          members.push_back(*i);
  };
  add(dispatch);
  if (members.empty())
    for (Value v : dispatch.getInputs())
      add(v.getDefiningOp());
  if (members.empty())
    for (Operation *user : dispatch->getUsers())
      add(user);
  return members;
}

/// Compiles what a lowered segment does.
void compileBody(Lowering &l, tsr::SegmentOp segment,
                 const vulkan::Device &device, Faults &faults) {
  for (Operation &op : *segment.getBodyBlock()) {
    if (auto dispatch = dyn_cast<tsr::DispatchOp>(op)) {
      faults.at = membersOf(dispatch);
      vulkan::Reasons reasons;
      if (failed(vulkan::compileDispatch(dispatch, device, reasons)) &&
          reasons.all.empty())
        faults.add("the GPU's code generator does not take it");
      for (const std::string &reason : reasons.all)
        faults.add(reason);
      continue;
    }
    if (!l.live.contains(&op) || op.hasTrait<OpTrait::IsTerminator>() ||
        isConstantOp(&op) || isa<tsr::UndefinedOp>(op) ||
        (isView(&op) && !l.isWritten(&op)))
      continue;
    faults.at.clear();
    if (auto i = originOf(&op))
      faults.at.push_back(*i);
    faults.add("node '" + onnx::getNodeName(&op) +
               "' is done by the plan, not by a kernel");
  }
}

} // namespace

/// What the GPU does not take of a segment of `ops`; with `quantised`, of its
/// form in integers.
static std::vector<GpuFault> faultsOf(ArrayRef<Operation *> ops,
                                      const Unit &unit, Precision precision,
                                      bool quantised) {
  Faults faults;
  MLIRContext *context = ops.front()->getContext();
  vulkan::loadDialects(context);
  ScopedDiagnosticHandler handler(context, [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
      faults.add(diagnostic.str());
    return success();
  });
  SmallVector<Operation *> copies;
  OwningOpRef<ModuleOp> module =
      isolate(ops, [](Value) { return true; }, copies);
  Builder b(context);
  for (auto [i, op] : llvm::enumerate(copies)) // for originOf
    op->setLoc(FusedLoc::get(context, op->getLoc(), b.getI64IntegerAttr(i)));
  if (std::string fault;
      precision == Precision::F16 && !makeHalf(copies, fault)) {
    faults.add(fault);
    return faults.all;
  }
  auto segment = wrapIntoSegment(copies, unit.name, 1, /*zeroCopy=*/true);
  if (failed(segment))
    return faults.all;
  if (quantised)
    fuseQuantised(*segment);
  auto lowering = lowerToDispatches(module->lookupSymbol<func::FuncOp>("main"));
  if (succeeded(lowering))
    compileBody(**lowering, *segment, unit.gpu, faults);
  else if (faults.all.empty())
    faults.add("it does not lower to kernels");
  return faults.all;
}

std::vector<std::string> gpuFaults(ArrayRef<Operation *> ops, const Unit &unit,
                                   Precision precision) {
  std::vector<std::string> reasons;
  for (GpuFault &fault : findGpuFaults(ops, unit, precision))
    if (!llvm::is_contained(reasons, fault.reason))
      reasons.push_back(std::move(fault.reason));
  return reasons;
}

std::vector<GpuFault> findGpuFaults(ArrayRef<Operation *> ops, const Unit &unit,
                                    Precision precision) {
  Faults faults;
  checkShapes(ops, faults);
  return faults.all.empty() ? faultsOf(ops, unit, precision, false)
                            : faults.all;
}

void fuseForGpu(tsr::SegmentOp segment, const Unit &unit) {
  SmallVector<Operation *> ops;
  bool quantised = false;
  for (Operation &op : segment.getBodyBlock()->without_terminator())
    if (!isConstantOp(&op)) {
      ops.push_back(&op);
      quantised |= op.getName().getStringRef() == "onnx.DequantizeLinear";
    }
  if (quantised && faultsOf(ops, unit, Precision::F32, true).empty())
    fuseQuantised(segment);
}

} // namespace tessera

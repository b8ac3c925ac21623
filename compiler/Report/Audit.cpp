#include "compiler/Report/Audit.h"
#include "compiler/Plan/PlanBuilder.h"
#include "compiler/Report/Originals.h"
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "passes/Codegen/Lowering.h"
#include "passes/Partition/GpuSegments.h"
#include "targets/CostModel.h"
#include "passes/Partition/VendorTools.h"
#include "targets/Placement.h"

using namespace mlir;

namespace tessera {

bool AuditRow::runsAnywhere() const {
  return llvm::any_of(units, [](const UnitVerdict &v) { return v.yes; });
}

unsigned TargetAudit::placed(unsigned unit) const {
  return llvm::count_if(rows, [&](const AuditRow &r) { return r.units[unit].yes; });
}

unsigned TargetAudit::refused() const {
  return llvm::count_if(rows, [](const AuditRow &r) { return !r.runsAnywhere(); });
}

bool AuditReport::refused() const {
  return llvm::any_of(targets, [](const TargetAudit &t) { return t.refused() > 0; });
}

namespace {

using Failures = std::vector<std::pair<std::string, std::string>>; // node, message

/// Verdicts on the canonicalised operators, shared by the targets where they do
/// not depend on them.
class Auditor {
public:
  /// Without `vendors` no vendor's compiler is asked.
  Auditor(ModuleOp module, const Originals &originals, bool strict, VendorTools *vendors)
      : module(module), originals(originals), judge(strict, gpuFaults, vendors ? askedOf(*vendors) : PlacementJudge::Vendor()) {}
  void prepare();
  TargetAudit run(const TargetDescription &target);
  /// What was wrong with a vendor's compiler; empty if nothing was.
  const std::string &toolFault() const { return fault; }

private:
  PlacementJudge::Vendor askedOf(VendorTools &vendors);
  UnitVerdict onCpu(Operation *op);
  UnitVerdict onUnit(Operation *op, const TargetDescription &target, unsigned index);
  AuditRow rowOf(const Originals::Node &node, const Originals::Fate &fate, const TargetDescription &target,
                 const Sizes &sizes);
  void addUnnamed(TargetAudit &audit, const TargetDescription &target, const Sizes &sizes);
  const Failures &prove(const TargetDescription &target);
  void charge(TargetAudit &audit, const TargetDescription &target);

  ModuleOp module;
  const Originals &originals;
  std::vector<Originals::Fate> fates;
  std::unique_ptr<onnx::ShapeAnalysis> shapes;
  std::map<std::string, Failures> proofs; ///< by ISA
  std::string fault;
  PlacementJudge judge;
};

} // namespace

PlacementJudge::Vendor Auditor::askedOf(VendorTools &vendors) {
  return [&](const Unit &unit, ArrayRef<Operation *> ops, Precision precision) -> std::string {
    if (!VendorTools::serves(unit) || !fault.empty())
      return "";
    auto why = vendors.refusal(unit, ops, precision);
    if (why)
      return *why;
    fault = "the compiler of unit '" + unit.name + "' is out of order: " + toString(why.takeError());
    return "";
  };
}

/// Collects errors with the names of the nodes they are about.
static ScopedDiagnosticHandler collectInto(MLIRContext *context, Failures &failures) {
  return ScopedDiagnosticHandler(context, [&failures](Diagnostic &d) {
    if (d.getSeverity() != DiagnosticSeverity::Error)
      return success();
    std::string node;
    d.getLocation()->walk([&](Location l) {
      if (auto name = dyn_cast<NameLoc>(l)) {
        node = name.getName().str();
        return WalkResult::interrupt();
      }
      return WalkResult::advance();
    });
    std::string text = d.str();
    for (Diagnostic &note : d.getNotes())
      text += "; " + note.str();
    failures.push_back({node, text});
    return success();
  });
}

/// Refines types and replaces decided branches, as a compile does. What fails
/// here fails in the proof too, which reports it.
void Auditor::prepare() {
  Failures ignored;
  {
    ScopedDiagnosticHandler handler = collectInto(module.getContext(), ignored);
    OwningOpRef<ModuleOp> copy = module.clone();
    auto trial = onnx::ShapeAnalysis::run(copy->lookupSymbol<func::FuncOp>("main"));
    if (succeeded(trial)) {
      trial->reset(); // it refers to the copy
      auto found = onnx::ShapeAnalysis::run(module.lookupSymbol<func::FuncOp>("main"));
      if (succeeded(found))
        shapes = std::move(*found);
    }
  }
  fates = originals.trace(module);
}

/// Views and operators with bodies are the plan's own.
UnitVerdict Auditor::onCpu(Operation *op) {
  UnitVerdict v;
  if (isControlFlow(op) || (op->getNumOperands() && isView(op)))
    return v;
  static const TargetDescription anyCpu = [] {
    TargetDescription t;
    t.units.emplace_back();
    t.units[0].backend = "cpu";
    return t;
  }();
  auto faults = judge.faults(anyCpu, 0, op, Precision::F32);
  v.reasons.assign(faults.begin(), faults.end());
  v.yes = v.reasons.empty();
  return v;
}

/// The reasons are those of the precision that is nearest to running: one that the
/// unit has a rule for, then the one with fewer.
UnitVerdict Auditor::onUnit(Operation *op, const TargetDescription &target, unsigned index) {
  const Unit &unit = target.units[index];
  if (unit.kind == UnitKind::Cpu)
    return onCpu(op);
  UnitVerdict v;
  std::pair<bool, size_t> nearest{true, SIZE_MAX};
  for (Precision p : unit.precisions) {
    if (p == Precision::Int16 && llvm::is_contained(v.precisions, Precision::Int8))
      continue; // nothing of it has 16 bits
    auto faults = judge.faults(target, index, op, p);
    if (faults.empty())
      v.precisions.push_back(p);
    std::pair<bool, size_t> distance{findRule(unit, op, p) == nullptr, faults.size()};
    if (distance < nearest) {
      nearest = distance;
      v.reasons.assign(faults.begin(), faults.end());
    }
  }
  v.yes = !v.precisions.empty();
  if (v.yes)
    v.reasons.clear();
  return v;
}

AuditRow Auditor::rowOf(const Originals::Node &node, const Originals::Fate &fate, const TargetDescription &target,
                        const Sizes &sizes) {
  AuditRow row{node.name, node.op, fate.rewrite, 0, {}};
  for (Operation *op : fate.into) // each operator's time once: bodies have rows of their own
    if (!fate.merged && !isControlFlow(op))
      row.cpuNs += groupCostNs(target, 0, cpuPrecision(op), op, sizes);
  for (unsigned unit = 0; unit < target.units.size(); ++unit) {
    UnitVerdict all;
    for (Operation *op : fate.into) {
      UnitVerdict one = onUnit(op, target, unit);
      all.yes &= one.yes;
      for (std::string &reason : one.reasons)
        if (!llvm::is_contained(all.reasons, reason))
          all.reasons.push_back(std::move(reason));
      bool first = op == fate.into.front();
      if (first)
        all.precisions = one.precisions;
      else // a node runs in what all of its parts run in
        llvm::erase_if(all.precisions, [&](Precision p) { return !llvm::is_contained(one.precisions, p); });
    }
    row.units.push_back(std::move(all));
  }
  return row;
}

/// Operators whose name no node of the model has get rows of their own: nothing
/// that would have to run is left out.
void Auditor::addUnnamed(TargetAudit &audit, const TargetDescription &target, const Sizes &sizes) {
  llvm::DenseSet<Operation *> known;
  for (const Originals::Fate &fate : fates)
    known.insert(fate.into.begin(), fate.into.end());
  module->walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (isNode(op) && !known.contains(op))
      audit.rows.push_back(
          rowOf({onnx::getNodeName(op).str(), operatorName(op), {}, {}, true}, {"", {op}, false}, target, sizes));
  });
}

/// Lowers a copy of everything for the target's plainest CPU.
const Failures &Auditor::prove(const TargetDescription &target) {
  const cpu::Isa *isa = cpu::findIsa(target.cpuVariants.back());
  auto [it, isNew] = proofs.try_emplace(isa->name.str());
  if (!isNew)
    return it->second;
  ScopedDiagnosticHandler handler = collectInto(module.getContext(), it->second);
  OwningOpRef<ModuleOp> copy = module.clone();
  auto lowering = lowerToDispatches(copy->lookupSymbol<func::FuncOp>("main"));
  if (failed(lowering))
    return it->second;
  auto built = buildPlan(**lowering, isa->arch);
  if (failed(built))
    return it->second;
  for (auto [i, source] : llvm::enumerate(built->sources)) {
    OwningOpRef<ModuleOp> kernels = ModuleOp::create(UnknownLoc::get(module.getContext()));
    (void)cpu::emitKernel(source, "k", *isa, *kernels);
  }
  return it->second;
}

void Auditor::charge(TargetAudit &audit, const TargetDescription &target) {
  for (auto &[node, text] : prove(target)) {
    auto row = llvm::find_if(audit.rows, [&, &name = node](const AuditRow &r) { return r.node == name; });
    if (row == audit.rows.end()) {
      audit.rows.push_back({node, "", "", 0, std::vector<UnitVerdict>(target.units.size())});
      row = std::prev(audit.rows.end());
    }
    row->units[0].yes = false;
    row->units[0].reasons.push_back(text);
  }
}

TargetAudit Auditor::run(const TargetDescription &target) {
  TargetAudit audit;
  audit.target = target.name;
  for (const Unit &unit : target.units)
    audit.units.push_back(unit.name);
  Sizes sizes;
  if (shapes)
    sizes = Sizes(*shapes);
  for (auto [node, fate] : llvm::zip(originals.nodes, fates))
    audit.rows.push_back(rowOf(node, fate, target, sizes));
  addUnnamed(audit, target, sizes);
  audit.assumedSizes = sizes.assumed;
  if (audit.placed(0) == audit.rows.size())
    charge(audit, target);
  return audit;
}

/// Whether a vendor's compiler makes code for some unit.
static bool hasVendor(const TargetDescription &target) {
  return llvm::any_of(target.units, [](const Unit &u) { return VendorTools::serves(u) || VendorTools::isAbsent(u); });
}

FailureOr<AuditReport> audit(const CompileOptions &options, ArrayRef<std::string> names, bool askVendors,
                             MLIRContext *context) {
  std::vector<TargetDescription> targets;
  std::vector<std::string> wanted(names.begin(), names.end());
  if (wanted.empty())
    wanted.push_back(options.target);
  for (const std::string &name : wanted) {
    auto target = findTarget(name);
    if (!target)
      return emitError(UnknownLoc::get(context), toString(target.takeError()));
    targets.push_back(std::move(*target));
  }
  auto module = importModel(options, context);
  if (failed(module))
    return failure();
  ModelGraph graph(**module);
  Originals originals(**module);
  if (failed(canonicalise(options, **module, targets)))
    return failure();
  VendorTools vendors({"", options.vendorSeconds}, /*fallback=*/false);
  Auditor auditor(**module, originals, options.strict, askVendors ? &vendors : nullptr);
  auditor.prepare();
  AuditReport report;
  report.model = options.model;
  report.graph = std::move(graph);
  for (const TargetDescription &target : targets) {
    report.targets.push_back(auditor.run(target));
    report.targets.back().limitsAlone =
        hasVendor(target) && (!askVendors || llvm::any_of(target.units, VendorTools::isAbsent));
    if (!auditor.toolFault().empty())
      return emitError(UnknownLoc::get(context), auditor.toolFault())
             << "; --vendor skip audits by the limits of the device alone";
  }
  return report;
}

} // namespace tessera

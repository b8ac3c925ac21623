#include "compiler/Report/Audit.h"
#include "compiler/Plan/PlanBuilder.h"
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "llvm/Support/JSON.h"
#include "passes/Codegen/Lowering.h"
#include "targets/Target.h"

using namespace mlir;

namespace tessera {

unsigned AuditReport::refused() const {
  return llvm::count_if(rows, [](const AuditRow &r) { return !r.yes; });
}

static std::string operatorName(Operation *op) {
  if (auto type = op->getAttrOfType<StringAttr>("op_type"); type && op->getName().stripDialect() == "Custom")
    return (op->getAttrOfType<StringAttr>("domain").getValue() + "." + type.getValue()).str();
  return op->getName().stripDialect().str();
}

/// Verdicts by the constraints of each operator's own kernel.
static void judge(Operation *op, AuditReport &report) {
  if (op->hasTrait<OpTrait::IsTerminator>() || op->hasTrait<OpTrait::ConstantLike>() ||
      !op->getName().getStringRef().starts_with("onnx.") || op->getName().stripDialect() == "NoValue")
    return;
  AuditRow row;
  row.node = onnx::getNodeName(op).str();
  row.op = operatorName(op);
  bool structural = isControlFlow(op) || (op->getNumOperands() && isView(op));
  if (!structural) {
    cpu::Reasons reasons;
    bool ok = cpu::isElementwise(op) ? succeeded(cpu::matchElementwise(op, reasons))
                                     : cpu::findKernel(op, reasons) != nullptr;
    row.yes = ok && reasons.empty();
    row.reasons = reasons.all;
  }
  report.rows.push_back(std::move(row));
}

/// Lowers everything; what fails is charged to the nodes named in the location.
static void prove(ModuleOp module, const TargetDescription &target, AuditReport &report) {
  std::vector<std::pair<std::string, std::string>> failures; // node, message
  ScopedDiagnosticHandler handler(module.getContext(), [&](Diagnostic &d) {
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
  auto func = module.lookupSymbol<func::FuncOp>("main");
  auto lowering = lowerToDispatches(func);
  const cpu::Isa *isa = cpu::findIsa(target.cpuVariants.back());
  if (succeeded(lowering)) {
    auto built = buildPlan(**lowering, isa->arch);
    if (succeeded(built))
      for (auto [i, source] : llvm::enumerate(built->sources)) {
        OwningOpRef<ModuleOp> kernels = ModuleOp::create(UnknownLoc::get(module.getContext()));
        (void)cpu::emitKernel(source, "k", *isa, *kernels);
      }
  }
  for (auto &[node, text] : failures) {
    auto row = llvm::find_if(report.rows, [&](const AuditRow &r) { return r.node == node; });
    if (row == report.rows.end()) {
      report.rows.push_back({node, "", false, {text}});
      continue;
    }
    row->yes = false;
    row->reasons.push_back(text);
  }
}

FailureOr<AuditReport> audit(const CompileOptions &options, MLIRContext *context) {
  auto target = findTarget(options.target);
  if (!target)
    return emitError(UnknownLoc::get(context), toString(target.takeError()));
  auto module = frontEnd(options, context);
  if (failed(module))
    return failure();
  AuditReport report;
  report.model = options.model;
  report.target = target->name;
  (*module)->walk<WalkOrder::PreOrder>([&](Operation *op) { judge(op, report); });
  if (report.refused() == 0)
    prove(**module, *target, report);
  return report;
}

void printText(const AuditReport &report, llvm::raw_ostream &os) {
  unsigned no = report.refused();
  os << report.model << " on " << report.target << ": " << report.rows.size() - no << " of " << report.rows.size()
     << " operators run on the CPU\n";
  std::map<std::string, std::vector<const AuditRow *>> byReason;
  for (const AuditRow &row : report.rows)
    for (const std::string &reason : row.reasons)
      byReason[reason].push_back(&row);
  for (auto &[reason, rows] : byReason) {
    os << "\nno: " << reason << "\n";
    for (const AuditRow *row : rows)
      os << "  " << row->node << " (" << row->op << ")\n";
  }
}

void printJson(const AuditReport &report, llvm::raw_ostream &os) {
  llvm::json::OStream json(os, 1);
  json.object([&] {
    json.attribute("schema", "tessera.audit/1");
    json.attribute("model", report.model);
    json.attribute("target", report.target);
    json.attribute("operators", static_cast<int64_t>(report.rows.size()));
    json.attribute("refused", static_cast<int64_t>(report.refused()));
    json.attributeArray("nodes", [&] {
      for (const AuditRow &row : report.rows)
        json.object([&] {
          json.attribute("node", llvm::json::fixUTF8(row.node));
          json.attribute("operator", row.op);
          json.attributeObject("cpu", [&] {
            json.attribute("verdict", row.yes ? "yes" : "no");
            json.attributeArray("reasons", [&] {
              for (const std::string &r : row.reasons)
                json.value(llvm::json::fixUTF8(r));
            });
          });
        });
    });
  });
  os << "\n";
}

} // namespace tessera

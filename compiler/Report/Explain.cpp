// One node's alternatives. The cost of another place is that of the best plan
// with the node's group there, so that copies and launches it brings, and what
// would then move along, are in it.
#include "compiler/Report/PlacementReport.h"
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "llvm/Support/Format.h"

using namespace mlir;

namespace tessera {

using partition::Cost;

static std::optional<size_t> groupOf(const ModelProblem &model, StringRef node) {
  for (size_t j = 0; j < model.groups.size(); ++j)
    if (llvm::any_of(model.groups[j].ops, [&](Operation *op) { return onnx::getNodeName(op) == node; }))
      return j;
  return std::nullopt;
}

/// Operators that this one shares a kernel with.
static void printGroup(const PlacementGroup &group, StringRef node, llvm::raw_ostream &os) {
  os << "node '" << node << "'";
  for (Operation *op : group.ops)
    if (onnx::getNodeName(op) == node) {
      os << " (" << op->getName().stripDialect() << ")";
      break;
    }
  if (group.ops.size() > 1) {
    os << ", one group with";
    for (Operation *op : group.ops)
      if (onnx::getNodeName(op) != node)
        os << " '" << onnx::getNodeName(op) << "' (" << op->getName().stripDialect() << ")";
  }
  os << "\n";
}

static std::string ms(Cost ns) {
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format("%.3f ms", double(ns) / 1e6);
  return text;
}

/// The best plan with group `j` on `device` and the other groups where they are pinned.
static std::optional<Cost> planWith(const ModelProblem &model, const Placement &p, size_t j, int device) {
  partition::Allowed allowed = p.allowed;
  for (size_t x = 0; x < allowed[j].size(); ++x)
    allowed[j][x] = model.problem.ops[j].options[x].device == device;
  partition::SolverResult r = partition::solve(model.problem, allowed);
  return r.solution ? std::optional<Cost>(r.solution->cost) : std::nullopt;
}

llvm::Error explainNode(const ModelProblem &model, const Placement &p, StringRef node, llvm::raw_ostream &os) {
  std::optional<size_t> j = groupOf(model, node);
  if (!j)
    return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                   "no node '" + node + "' is left after canonicalisation");
  const partition::Op &op = model.problem.ops[*j];
  const partition::Solution &s = *p.result.solution;
  int chosen = op.options[s.choice[*j]].device;
  Cost base = s.cost - p.spread.work; // what else is possible is not spread either
  printGroup(model.groups[*j], node, os);
  os << "target " << p.target << ", plan " << ms(s.cost) << "\n";
  for (const partition::Option &o : op.options) {
    const std::string &name = model.problem.devices[o.device].name;
    os << "  " << name << ": group " << ms(o.cost);
    if (o.device == chosen) {
      os << ", chosen";
      if (s.segment[*j] >= 0)
        os << ", segment " << s.segment[*j];
      os << "\n";
      continue;
    }
    std::optional<Cost> plan = planWith(model, p, *j, o.device);
    if (!plan) {
      os << ", no legal plan\n";
      continue;
    }
    os << ", best plan with it here " << ms(*plan);
    if (p.spread.gain && *plan == base)
      os << ", as cheap, but it would end later\n";
    else if (*plan < base) // only a pin keeps it from there
      os << ", " << ms(base - *plan) << " less than with the pin\n";
    else
      os << " (+" << ms(*plan - base) << "): it pays only if the group or its copies and launches become "
         << ms(*plan - base) << " cheaper\n";
  }
  for (const PlacementRefusal &r : model.groups[*j].refusals) {
    os << "  " << model.problem.devices[r.device].name << ": impossible; all of this would have to change:\n";
    for (const std::string &reason : r.reasons)
      os << "    " << reason << "\n";
  }
  return llvm::Error::success();
}

} // namespace tessera

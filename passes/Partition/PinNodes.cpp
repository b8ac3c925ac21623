// Pins of a model's nodes, "NODE=UNIT" and "*=UNIT", on its placement problem.
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "passes/Partition/BuildProblem.h"

using namespace mlir;

namespace tessera {

static llvm::Error refuse(StringRef pin, const Twine &why) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), "--pin " + pin + ": " + why);
}

/// Groups that have no option left on the devices meant keep theirs.
static void pinAll(const ModelProblem &model, llvm::function_ref<bool(unsigned)> isMeant,
                   partition::Allowed &allowed) {
  for (size_t j = 0; j < model.groups.size(); ++j) {
    if (model.groups[j].ops.empty())
      continue; // the model's inputs or outputs
    partition::Allowed::value_type there = allowed[j];
    for (size_t x = 0; x < there.size(); ++x)
      there[x] &= isMeant(model.problem.ops[j].options[x].device);
    if (llvm::is_contained(there, 1))
      allowed[j] = std::move(there);
  }
}

llvm::Error pinNode(const ModelProblem &model, const TargetDescription &target, StringRef pin,
                    partition::Allowed &allowed) {
  auto [name, unitName] = pin.rsplit('=');
  if (name.empty() || unitName.empty())
    return refuse(pin, "must be NODE=UNIT or NODE=UNIT:PRECISION");
  std::optional<unsigned> unit = target.findUnit(unitName);
  auto isMeant = [&, word = unitName](unsigned d) {
    return unit ? model.devices[d].unit == *unit : model.problem.devices[d].name == word;
  };
  if (llvm::none_of(llvm::seq<unsigned>(model.devices.size()), isMeant))
    return refuse(pin, "target " + target.name + " has no unit '" + unitName + "', or not in that precision");
  if (name == "*") {
    pinAll(model, isMeant, allowed);
    return llvm::Error::success();
  }
  bool found = false;
  for (size_t j = 0; j < model.groups.size(); ++j) {
    const PlacementGroup &group = model.groups[j];
    if (!llvm::any_of(group.ops, [&, n = name](Operation *op) { return onnx::getNodeName(op) == n; }))
      continue;
    found = true;
    bool possible = false, exists = false;
    for (size_t x = 0; x < allowed[j].size(); ++x) {
      bool there = isMeant(model.problem.ops[j].options[x].device);
      exists |= there;
      allowed[j][x] &= there;
      possible |= allowed[j][x];
    }
    if (possible)
      continue;
    if (exists)
      return refuse(pin, "the node's group is pinned to another unit already");
    std::string why = "the node cannot run on '" + unitName.str() + "'";
    for (const PlacementRefusal &r : group.refusals)
      if (isMeant(r.device))
        for (const std::string &reason : r.reasons)
          why += "\n  " + model.problem.devices[r.device].name + ": " + reason;
    return refuse(pin, why);
  }
  if (!found)
    return refuse(pin, "no node of that name is left after canonicalisation");
  return llvm::Error::success();
}


} // namespace tessera

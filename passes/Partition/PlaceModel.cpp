#include "passes/Partition/PlaceModel.h"
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "passes/Partition/Materialise.h"
#include "passes/PartitionCheck/Check.h"

using namespace mlir;

namespace tessera {

bool Placement::cpuWins() const {
  const partition::Solution &s = *result.solution;
  for (size_t j = 0; j < problem.ops.size(); ++j)
    if (problem.ops[j].options[s.choice[j]].device != 0)
      return false;
  return true;
}

template <typename T> static std::string textOf(const T &value, void (*write)(const T &, llvm::raw_ostream &)) {
  std::string text;
  llvm::raw_string_ostream os(text);
  write(value, os);
  return text;
}

static int64_t bytesOf(Value v, int64_t elements) {
  auto type = dyn_cast<ShapedType>(v.getType());
  if (!type)
    return 0;
  return onnx::getStorageBytes(type.getElementType(), elements).value_or(0);
}

FailureOr<Placement> decidePlacement(func::FuncOp func, const TargetDescription &target, const ModelProblem &model,
                                     const PlaceOptions &options) {
  partition::Allowed allowed = partition::allowAll(model.problem);
  for (const std::string &pin : options.pins)
    if (llvm::Error error = pinNode(model, target, pin, allowed))
      return func.emitError(toString(std::move(error)));
  Placement p;
  p.target = target.name;
  p.problem = model.problem;
  p.devices = model.devices;
  p.assumedSizes = model.assumedSizes;
  p.result = partition::solve(model.problem, allowed);
  p.allowed = std::move(allowed);
  if (!p.result.solution)
    return func.emitError("no placement on target ") << target.name << " is legal under the pins";
  p.problemText = textOf(model.problem, partition::writeProblem);
  p.solutionText = textOf(*p.result.solution, partition::writeSolution);
  partitioncheck::Verdict verdict = partitioncheck::check(p.problemText, p.solutionText);
  if (verdict.outcome != partitioncheck::Outcome::Accepted)
    return func.emitError("internal: the placement is refused by its judge: ") << verdict.reason;
  for (const PlacementGroup &group : model.groups) {
    p.refusals.push_back(group.refusals);
    p.nodes.emplace_back();
    for (Operation *op : group.ops)
      p.nodes.back().push_back(onnx::getNodeName(op).str());
  }
  for (size_t t = 0; t < model.tensors.size(); ++t)
    p.tensorBytes.push_back(bytesOf(model.tensors[t], model.problem.elements[t]));
  return p;
}

FailureOr<Placement> placeModel(func::FuncOp func, const TargetDescription &target, const PlaceOptions &options) {
  auto model = buildProblem(func, target, {options.strict, options.pins, options.vendors});
  if (failed(model))
    return failure();
  if (options.vendors && !options.vendors->broken().empty())
    func.emitWarning("nothing is placed behind a vendor's compiler: ") << options.vendors->broken();
  // Together, what each goes alone may be refused: then it goes elsewhere.
  for (;;) {
    auto placement = decidePlacement(func, target, *model, options);
    if (failed(placement))
      return failure();
    auto changed = dropRefusedSegments(target, *model, *placement->result.solution, options.vendors);
    if (failed(changed))
      return failure();
    if (*changed)
      continue;
    if (failed(materialise(func, target, *model, *placement->result.solution, options.vendors)))
      return failure();
    return placement;
  }
}

} // namespace tessera

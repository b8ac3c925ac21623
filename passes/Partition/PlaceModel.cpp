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

/// Devices whose costs are those of groups wherever they stand. A compiler's
/// estimates are not: they are of one segment.
static std::vector<char> movableDevices(const TargetDescription &target, const ModelProblem &model) {
  std::vector<char> movable;
  for (const PlacementDevice &device : model.devices)
    movable.push_back(device.unit == 0 || !VendorTools::estimates(target.units[device.unit]));
  return movable;
}

/// Spreads the solver's answer. It stays better than the CPU alone even where
/// nothing runs at the same time.
static void spreadAnswer(const TargetDescription &target, const ModelProblem &model, Placement &p) {
  partition::Cost most = p.result.cpuOnly ? p.result.cpuOnly->cost : partition::impossible;
  p.spread = spread(model.problem, model.devices, p.allowed, movableDevices(target, model), most, *p.result.solution);
}

FailureOr<Placement> decidePlacement(func::FuncOp func, const TargetDescription &target, const ModelProblem &model,
                                     const PlaceOptions &options) {
  partition::Allowed allowed = partition::allowAll(model.problem);
  // Nodes by name first: "*" is for all the others.
  std::vector<std::string> pins = options.pins;
  std::stable_partition(pins.begin(), pins.end(), [](llvm::StringRef pin) { return !pin.starts_with("*="); });
  for (const std::string &pin : pins)
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
  spreadAnswer(target, model, p);
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
    p.tensorBytes.push_back(bytesOf(model.tensors[t], model.problem.elements[t] / copiesPerElement(model.tensors[t], target)));
  return p;
}

/// A placement whose segments the vendors' compilers take: together, what each goes
/// alone may be refused, and goes elsewhere.
static FailureOr<Placement> settle(func::FuncOp func, const TargetDescription &target, ModelProblem &model,
                                   const PlaceOptions &options) {
  for (;;) {
    auto placement = decidePlacement(func, target, model, options);
    if (failed(placement))
      return failure();
    auto changed = dropRefusedSegments(target, model, *placement->result.solution, options.vendors);
    if (failed(changed))
      return failure();
    if (!*changed)
      return placement;
  }
}

/// The model with a CPU that is the last resort: what a segment is refused for
/// still has to go somewhere.
static ModelProblem withDearCpu(const ModelProblem &model) {
  constexpr partition::Cost dear = 1'000'000'000'000; // ns
  ModelProblem most = model;
  for (partition::Op &op : most.problem.ops)
    for (partition::Option &o : op.options)
      o.cost += o.device == 0 ? dear : 0;
  return most;
}

/// Decides by the prices in `refined`, then by those of the answer's segments,
/// until the answer stands. It replaces `model` and `placement` if the compilers'
/// own figures for its segments make it no dearer than `best`.
static LogicalResult refine(func::FuncOp func, const TargetDescription &target, ModelProblem refined,
                            const PlaceOptions &options, partition::Cost &best, ModelProblem &model,
                            Placement &placement) {
  constexpr int rounds = 4;
  for (int round = 0; round < rounds; ++round) {
    auto next = settle(func, target, refined, options);
    if (failed(next))
      return failure();
    ModelProblem before = refined;
    auto more = priceSegments(target, before, *next->result.solution, *options.vendors, refined);
    if (failed(more))
      return failure();
    partition::Cost cost = next->result.solution->cost;
    if (cost + *more <= best) {
      best = cost + *more;
      placement = std::move(*next);
      model = before;
    }
    if (std::abs(*more) * 50 < cost) // the prices were near enough those of this answer
      break;
  }
  return success();
}

/// A group by itself pays for reading and writing all of its tensors, which within
/// a segment stay on the chip; so what groups cost alone keeps too much on the CPU.
/// Here the prices are those of whole segments: of the first answer's, which is then
/// told by them, and of the most that the device can do.
static LogicalResult improve(func::FuncOp func, const TargetDescription &target, ModelProblem &model,
                             const PlaceOptions &options, Placement &placement) {
  const ModelProblem apart = model;
  ModelProblem refined = apart;
  auto more = priceSegments(target, apart, *placement.result.solution, *options.vendors, refined);
  if (failed(more))
    return failure();
  partition::Cost best = placement.result.solution->cost + *more;
  if (failed(refine(func, target, std::move(refined), options, best, model, placement)))
    return failure();
  if (!options.pins.empty())
    return success();
  ModelProblem most = withDearCpu(apart);
  auto start = settle(func, target, most, options);
  refined = apart;
  if (failed(start) || failed(priceSegments(target, most, *start->result.solution, *options.vendors, refined)))
    return failure();
  return refine(func, target, std::move(refined), options, best, model, placement);
}

FailureOr<Placement> choosePlacement(func::FuncOp func, const TargetDescription &target, ModelProblem &model,
                                     const PlaceOptions &options) {
  auto placement = settle(func, target, model, options);
  if (failed(placement))
    return failure();
  if (options.vendors && llvm::any_of(target.units, VendorTools::estimates) &&
      failed(improve(func, target, model, options, *placement)))
    return failure();
  return placement;
}

FailureOr<Placement> placeModel(func::FuncOp func, const TargetDescription &target, const PlaceOptions &options) {
  auto model = buildProblem(func, target, {options.strict, options.pins, options.vendors, options.measured});
  if (failed(model))
    return failure();
  if (options.vendors && !options.vendors->broken().empty())
    func.emitWarning("nothing is placed behind a vendor's compiler: ") << options.vendors->broken();
  for (const Unit &unit : target.units)
    if (options.vendors && VendorTools::isAbsent(unit))
      func.emitWarning("no blob is made for unit '")
          << unit.name << "' of target " << target.name << ", which is planned by its description and played: "
          << "set TESSERA_RKNN_PYTHON to an interpreter that has rknn-toolkit2";
  auto placement = choosePlacement(func, target, *model, options);
  if (failed(placement))
    return failure();
  if (failed(materialise(func, target, *model, *placement->result.solution, options.vendors)))
    return failure();
  return placement;
}

} // namespace tessera

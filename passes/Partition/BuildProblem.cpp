#include "passes/Partition/BuildProblem.h"
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "dialects/Onnx/Shapes/ShapeAnalysis.h"
#include "mlir/IR/IRMapping.h"
#include "passes/Canonicalise/Dequantised.h"
#include "passes/Codegen/Lowering.h"
#include "passes/Partition/GpuSegments.h"
#include "passes/Partition/Islands.h"
#include "passes/Partition/OpKinds.h"
#include "targets/CostModel.h"
#include "targets/Placement.h"
#include "targets/Tosa/Segment.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace tessera {

namespace {

using partition::Cost;

class Builder {
public:
  Builder(func::FuncOp func, const TargetDescription &target, const BuildProblemOptions &options)
      : func(func), target(target), options(options), judge(options.strict, gpuFaults) {}
  FailureOr<ModelProblem> run();

private:
  LogicalResult formPlacementGroups();
  void splitRefused();
  bool splitAt(const SmallVector<Operation *> &ops, size_t at, bool front,
               std::vector<SmallVector<Operation *>> &parts);
  bool splitAround(const SmallVector<Operation *> &ops, std::vector<SmallVector<Operation *>> &rests);
  bool isPinned(Operation *op, unsigned device) const;
  bool splitByGpu(const SmallVector<Operation *> &ops);
  void addDevices();
  void addStates();
  void addConversions();
  std::optional<partition::Conversion> toDevice(const PlacementDevice &device, bool back) const;
  void addModelInputs();
  LogicalResult addGroup(const SmallVector<Operation *> &ops);
  void addModelOutputs();
  LogicalResult addOptions(const SmallVector<Operation *> &ops, partition::Op &op, PlacementGroup &group);
  FailureOr<std::optional<Cost>> vendorCost(const SmallVector<Operation *> &ops, const PlacementDevice &device,
                                            std::vector<std::string> &faults);
  Cost hostCost(ArrayRef<Operation *> ops) const;
  Cost deviceCost(const SmallVector<Operation *> &ops, const PlacementDevice &device) const;
  bool mayStore(const SmallVector<Operation *> &ops, unsigned device) const;
  std::vector<std::string> faultsOf(const SmallVector<Operation *> &ops, const PlacementDevice &device);
  int tensorOf(Value v);

  func::FuncOp func;
  const TargetDescription &target;
  const BuildProblemOptions &options;
  std::unique_ptr<onnx::ShapeAnalysis> shapes;
  std::optional<Sizes> sizes;
  PlacementJudge judge;
  std::vector<SmallVector<Operation *>> groups;
  /// Of the part of a split group that may leave the CPU, what it adds to the
  /// rest's cost there; by the part's first operator.
  llvm::DenseMap<Operation *, Cost> addedCost;
  /// Of such a part, the whole group and the rest, if a GPU computes them together
  /// again.
  llvm::DenseMap<Operation *, std::pair<SmallVector<Operation *>, SmallVector<Operation *>>> partOf;
  llvm::MapVector<Value, int> tensors;
  ModelProblem model;
};

} // namespace

int64_t copiesPerElement(Value v, const TargetDescription &target) {
  return onnx::isIntegerSum(v.getDefiningOp()) && hasOnlyIntegers(target) ? 4 : 1;
}

/// Values that the operators read and do not compute, constants left out, in
/// order of first reading; bodies' captures included.
static SmallVector<Value> readsOf(ArrayRef<Operation *> ops) {
  llvm::SmallPtrSet<Operation *, 8> members(ops.begin(), ops.end());
  llvm::SetVector<Value> reads;
  for (Operation *op : ops)
    op->walk([&](Operation *inner) {
      for (Value v : inner->getOperands()) {
        Operation *def = v.getDefiningOp();
        if (v.getParentBlock() != op->getBlock() || (def && (members.contains(def) || isConstantOp(def))))
          continue;
        reads.insert(v);
      }
    });
  return reads.takeVector();
}

/// The CPU's fusion groups, learnt on a copy of the function, and the other
/// live operators alone.
LogicalResult Builder::formPlacementGroups() {
  OwningOpRef<ModuleOp> scratch = ModuleOp::create(func.getLoc());
  IRMapping mapping;
  auto copy = cast<func::FuncOp>(func->clone(mapping));
  scratch->push_back(copy);
  llvm::DenseMap<Operation *, Operation *> original;
  for (Operation &op : func.getBody().front())
    original[mapping.lookup(&op)] = &op;
  Lowering lowering;
  lowering.func = copy;
  auto analysis = onnx::ShapeAnalysis::run(copy);
  if (failed(analysis))
    return failure();
  lowering.shapes = std::move(*analysis);
  if (failed(findLive(lowering)) || failed(formGroups(lowering)))
    return failure();
  auto add = [&](auto &&range) {
    SmallVector<Operation *> ops;
    for (Operation &op : range)
      if (Operation *from = original.lookup(&op); from && !isConstantOp(from))
        ops.push_back(from);
    llvm::sort(ops, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    if (!ops.empty())
      groups.push_back(std::move(ops));
  };
  for (Operation &op : copy.getBody().front())
    if (auto dispatch = dyn_cast<tsr::DispatchOp>(op))
      add(dispatch.getBodyBlock()->without_terminator());
    else if (lowering.live.contains(&op) && !op.hasTrait<OpTrait::IsTerminator>())
      add(llvm::make_range(Block::iterator(&op), std::next(Block::iterator(&op))));
  return success();
}

/// A reader of its own for each: then each island has all it needs.
static void splitDequantisation(func::FuncOp func) {
  SmallVector<Operation *> shared;
  for (Operation &op : func.getBody().front())
    if (op.getName().stripDialect() == "DequantizeLinear" && !op.use_empty() && !op.getResult(0).hasOneUse())
      shared.push_back(&op);
  for (Operation *op : shared)
    for (OpOperand &use : llvm::make_early_inc_range(llvm::drop_begin(op->getResult(0).getUses())))
      use.set(OpBuilder(op).clone(*op)->getResult(0));
}

/// Whether some tensor has 16 bits: otherwise Int16 is Int8 under another name.
static bool hasInt16(func::FuncOp func) {
  auto wide = [](Value v) {
    auto type = dyn_cast<ShapedType>(v.getType());
    return type && type.getElementType().isInteger(16);
  };
  return llvm::any_of(func.getBody().front(), [&](Operation &op) { return llvm::any_of(op.getResults(), wide); }) ||
         llvm::any_of(func.getArguments(), wide);
}

void Builder::addDevices() {
  model.devices.push_back({0, Precision::F32});
  model.problem.devices.push_back({target.units[0].name, 0, false});
  for (unsigned u = 1; u < target.units.size(); ++u) {
    const Unit &unit = target.units[u];
    for (Precision p : unit.precisions) {
      if (p == Precision::Int16 && !hasInt16(func))
        continue;
      model.devices.push_back({u, p});
      model.problem.devices.push_back({unit.name + ":" + precisionName(p).str(), launchNs(target, u), unit.segments});
    }
  }
}

/// The CPU's memory, then one state for each device: its memory and what floats
/// are stored as there.
void Builder::addStates() {
  for (const partition::Device &d : model.problem.devices)
    model.problem.states.push_back(d.name);
}

/// Cost of a tensor's way to a device's state, or back: conversion by the CPU
/// and a copy of what the device stores.
std::optional<partition::Conversion> Builder::toDevice(const PlacementDevice &device, bool back) const {
  unsigned bytes = storedBytes(device.precision);
  LinearCost copy = back ? copyCost(target, device.unit, 0) : copyCost(target, 0, device.unit);
  partition::Conversion c{copy.fixedNs, copy.ps * bytes};
  if (device.precision == Precision::F16) {
    LinearCost conversion = back ? conversionCost(target, 0, 2, 4) : conversionCost(target, 0, 4, 2);
    c.fixed += conversion.fixedNs;
    c.psPerElement += conversion.ps;
  }
  return c;
}

void Builder::addConversions() {
  size_t n = model.devices.size();
  auto &table = model.problem.conversions;
  table.assign(n, std::vector<std::optional<partition::Conversion>>(n));
  for (size_t a = 0; a < n; ++a)
    for (size_t b = 0; b < n; ++b) {
      std::optional<partition::Conversion> out = a ? toDevice(model.devices[a], true) : partition::Conversion{};
      std::optional<partition::Conversion> in = b ? toDevice(model.devices[b], false) : partition::Conversion{};
      if (a == b)
        table[a][b] = partition::Conversion{};
      else if (out && in)
        table[a][b] = partition::Conversion{out->fixed + in->fixed, out->psPerElement + in->psPerElement};
    }
}

int Builder::tensorOf(Value v) {
  auto [it, fresh] = tensors.insert({v, int(tensors.size())});
  if (fresh) {
    bool ranked = isa<RankedTensorType>(v.getType());
    model.problem.elements.push_back(ranked ? sizes->elements(v) * copiesPerElement(v, target) : 0);
    model.tensors.push_back(v);
  }
  return it->second;
}

void Builder::addModelInputs() {
  for (BlockArgument arg : func.getArguments()) {
    if (arg.use_empty())
      continue;
    auto name = func.getArgAttrOfType<StringAttr>(arg.getArgNumber(), "onnx.name");
    std::string label = name ? name.getValue().str() : "input " + std::to_string(arg.getArgNumber());
    model.problem.ops.push_back({label, {}, {tensorOf(arg)}, {{0, 0, 0, 0, 0}}});
    model.groups.emplace_back();
  }
}

void Builder::addModelOutputs() {
  partition::Op op{"outputs", {}, {}, {{0, 0, 0, 0, 0}}};
  for (Value v : func.getBody().front().getTerminator()->getOperands())
    if (Operation *def = v.getDefiningOp(); !def || !isConstantOp(def))
      op.inputs.push_back(tensorOf(v));
  model.problem.ops.push_back(std::move(op));
  model.groups.emplace_back();
}

/// The rules speak of operators; the backend has the last word on the group.
std::vector<std::string> Builder::faultsOf(const SmallVector<Operation *> &ops, const PlacementDevice &device) {
  std::vector<std::string> faults;
  auto add = [&](std::string fault) {
    if (!llvm::is_contained(faults, fault))
      faults.push_back(std::move(fault));
  };
  for (Operation *op : ops)
    for (const std::string &fault : judge.faults(target, device.unit, op, device.precision))
      add(ops.size() > 1 ? (onnx::getNodeName(op) + ": " + fault).str() : fault);
  const Unit &unit = target.units[device.unit];
  if (faults.empty() && isGpu(unit)) {
    if (ops.size() > 1) // one alone was asked above
      faults = gpuFaults(ops, unit, device.precision);
  } else if (faults.empty() && unit.backend != "cpu") {
    cpu::Reasons reasons;
    if (failed(tosa::canLower(ops, device.precision, reasons)))
      for (const std::string &reason : reasons.all)
        add(reason);
  }
  return faults;
}

/// What the vendor's compiler says that the group costs by itself; none after a
/// reason, or if the unit has no such compiler.
FailureOr<std::optional<Cost>> Builder::vendorCost(const SmallVector<Operation *> &ops, const PlacementDevice &device,
                                                   std::vector<std::string> &faults) {
  const Unit &unit = target.units[device.unit];
  if (!options.vendors || !VendorTools::serves(unit))
    return std::optional<Cost>();
  cpu::Reasons reasons;
  auto segment = tosa::buildSegment(ops, device.precision, reasons);
  if (failed(segment)) {
    llvm::append_range(faults, reasons.all);
    return std::optional<Cost>();
  }
  auto answer = options.vendors->compile(unit, ops, segment->file);
  if (!answer)
    return LogicalResult(ops.front()->emitError("the compiler of unit '")
                         << unit.name << "' is out of order: " << toString(answer.takeError()));
  if (answer->code)
    return answer->code->costNs ? std::optional<Cost>(answer->code->costNs) : std::nullopt;
  faults.push_back(answer->reason);
  return std::optional<Cost>();
}

static constexpr const char *onlyAsked =
    "float16 where float32 is possible takes a pin to it, or --accuracy-drop, which "
    "measures what it changes";

/// Whether floats may be stored in the device's precision, unasked or not.
bool Builder::mayStore(const SmallVector<Operation *> &ops, unsigned device) const {
  const PlacementDevice &d = model.devices[device];
  if (d.precision != Precision::F16 || !target.units[d.unit].supports(Precision::F32) || options.measured)
    return true;
  return llvm::any_of(options.pins, [&](StringRef pin) {
    auto [node, name] = pin.rsplit('=');
    return name == model.problem.devices[device].name &&
           (node == "*" || llvm::any_of(ops, [&, n = node](Operation *op) { return onnx::getNodeName(op) == n; }));
  });
}

LogicalResult Builder::addOptions(const SmallVector<Operation *> &ops, partition::Op &op, PlacementGroup &group) {
  auto added = addedCost.find(ops.front());
  op.options.push_back({0, 0, 0, added == addedCost.end() ? hostCost(ops) : added->second, 0});
  for (int d = 1; d < int(model.devices.size()); ++d) {
    const PlacementDevice &device = model.devices[d];
    std::vector<std::string> faults = mayStore(ops, d) ? faultsOf(ops, device) : std::vector<std::string>{onlyAsked};
    std::optional<Cost> cost;
    if (faults.empty()) {
      auto vendor = vendorCost(ops, device, faults);
      if (failed(vendor))
        return failure();
      cost = *vendor ? *vendor : deviceCost(ops, device);
    }
    if (faults.empty())
      op.options.push_back({d, d, d, *cost, 0});
    else
      group.refusals.push_back({unsigned(d), std::move(faults)});
  }
  return success();
}

Cost Builder::deviceCost(const SmallVector<Operation *> &ops, const PlacementDevice &device) const {
  auto cost = [&](ArrayRef<Operation *> of) { return groupCostNs(target, device.unit, device.precision, of, *sizes); };
  auto part = partOf.find(ops.front());
  if (part == partOf.end() || !isGpu(target.units[device.unit]))
    return cost(ops);
  return std::max<Cost>(cost(part->second.first) - cost(part->second.second), 1);
}

Cost Builder::hostCost(ArrayRef<Operation *> ops) const {
  return groupCostNs(target, 0, cpuPrecision(ops), ops, *sizes);
}

/// Splits a group before operator `at`: the front (or the back) may be placed
/// elsewhere, the rest may not. On the CPU both are fused again, so the part
/// that may leave is priced by what it adds to the other. Both go to `parts`.
bool Builder::splitAt(const SmallVector<Operation *> &ops, size_t at, bool front,
                      std::vector<SmallVector<Operation *>> &parts) {
  auto first = ArrayRef<Operation *>(ops).take_front(at), second = ArrayRef<Operation *>(ops).drop_front(at);
  if (first.empty() || second.empty())
    return false;
  Cost added = hostCost(ops) - hostCost(front ? second : first);
  if (added <= 0)
    return false;
  addedCost[(front ? first : second).front()] = added;
  parts.emplace_back(first.begin(), first.end());
  parts.emplace_back(second.begin(), second.end());
  return true;
}

bool Builder::isPinned(Operation *op, unsigned device) const {
  return llvm::any_of(options.pins, [&](StringRef pin) {
    auto [node, name] = pin.rsplit('=');
    return (node == onnx::getNodeName(op) || node == "*") &&
           (name == target.units[model.devices[device].unit].name || name == model.problem.devices[device].name);
  });
}

/// Takes the first pinned operator that its device takes, with the neighbours that
/// it takes too, out of a group; all parts go to `rests`. A device that takes the
/// whole group has nothing taken out for it.
bool Builder::splitAround(const SmallVector<Operation *> &ops, std::vector<SmallVector<Operation *>> &rests) {
  for (size_t d = 1; d < model.devices.size(); ++d) {
    auto taken = [&](size_t k) {
      return judge.faults(target, model.devices[d].unit, ops[k], model.devices[d].precision).empty();
    };
    size_t at = 0;
    while (at < ops.size() && !(isPinned(ops[at], d) && taken(at)))
      ++at;
    if (at == ops.size())
      continue;
    size_t first = at, last = at + 1;
    while (first > 0 && taken(first - 1))
      --first;
    while (last < ops.size() && taken(last))
      ++last;
    if (last - first == ops.size())
      continue;
    ArrayRef<Operation *> all = ops;
    Cost rest = 0;
    for (ArrayRef<Operation *> part : {all.take_front(first), all.drop_front(last)})
      if (!part.empty()) {
        rest += hostCost(part);
        rests.emplace_back(part.begin(), part.end());
      }
    addedCost[ops[first]] = std::max<Cost>(hostCost(ops) - rest, 0);
    rests.emplace_back(all.begin() + first, all.begin() + last);
    return true;
  }
  return false;
}

/// A group that no device takes together, but a GPU one by one, becomes those
/// that it takes together, the longest from the front. On the CPU they are fused
/// again, so each is priced by what it adds to those before it.
bool Builder::splitByGpu(const SmallVector<Operation *> &ops) {
  auto devices = ArrayRef(model.devices).drop_front();
  auto isOfGpu = [&](const PlacementDevice &d) { return isGpu(target.units[d.unit]); };
  if (llvm::none_of(devices, isOfGpu) ||
      llvm::any_of(devices, [&](const PlacementDevice &d) { return faultsOf(ops, d).empty(); }))
    return false;
  const PlacementDevice &device = *llvm::find_if(devices, isOfGpu);
  const Unit &unit = target.units[device.unit];
  ArrayRef<Operation *> all = ops;
  Cost before = 0;
  for (size_t first = 0, last = 0; first < all.size(); first = last) {
    for (last = first + 1; last < all.size(); ++last)
      if (!gpuFaults(all.slice(first, last + 1 - first), unit, device.precision).empty())
        break;
    Cost cost = hostCost(all.take_front(last));
    addedCost[all[first]] = std::max<Cost>(cost - before, 0);
    before = cost;
    groups.emplace_back(all.begin() + first, all.begin() + last);
  }
  return true;
}

/// A group that no device takes as a whole, but one takes up to its first
/// refused operator, or from behind its last: these become two. So does one that
/// only a GPU takes as a whole: it computes parts together again, and the other
/// device is not to lose by it. With pins, what is left over may hold more that is
/// pinned.
void Builder::splitRefused() {
  std::vector<SmallVector<Operation *>> before = std::move(groups);
  groups.clear();
  for (size_t i = 0; i < before.size(); ++i) {
    SmallVector<Operation *> ops = before[i];
    size_t front = 0, back = 0;
    bool whole = ops.size() == 1, ofGpu = false;
    for (size_t d = 1; d < model.devices.size() && !whole; ++d) {
      auto refused = [&](Operation *op) {
        return !judge.faults(target, model.devices[d].unit, op, model.devices[d].precision).empty();
      };
      if (llvm::none_of(ops, refused)) {
        (isGpu(target.units[model.devices[d].unit]) ? ofGpu : whole) = true;
        continue;
      }
      front = std::max<size_t>(front, llvm::find_if(ops, refused) - ops.begin());
      back = std::max<size_t>(back, std::find_if(ops.rbegin(), ops.rend(), refused) - ops.rbegin());
    }
    bool split = ops.size() > 1 && splitAround(ops, before);
    if (!split && !whole && (front || back)) {
      bool isFront = front >= back;
      size_t at = isFront ? front : ops.size() - back;
      split = splitAt(ops, at, isFront, ofGpu ? before : groups);
      if (split && ofGpu)
        partOf[ops[isFront ? 0 : at]] = {ops, before[before.size() - (isFront ? 1 : 2)]};
    }
    if (!split && (whole || ofGpu) && ops.size() > 1)
      split = splitByGpu(ops);
    if (!split)
      groups.push_back(ops);
  }
}

/// A name for people: of what is not merely quantisation, if there is such.
static std::string labelOf(ArrayRef<Operation *> ops) {
  for (Operation *op : ops)
    if (StringRef name = onnx::getNodeName(op);
        !name.empty() && !op->getName().getStringRef().ends_with_insensitive("quantizeLinear"))
      return name.str();
  for (Operation *op : ops)
    if (StringRef name = onnx::getNodeName(op); !name.empty())
      return name.str();
  return ops.front()->getName().stripDialect().str();
}

LogicalResult Builder::addGroup(const SmallVector<Operation *> &ops) {
  partition::Op op;
  op.name = labelOf(ops);
  for (Value v : readsOf(ops))
    op.inputs.push_back(tensorOf(v));
  for (Operation *member : ops)
    for (Value v : member->getResults())
      if (llvm::any_of(v.getUsers(), [&](Operation *user) {
            return !llvm::is_contained(ops, ops.front()->getBlock()->findAncestorOpInBlock(*user));
          }))
        op.outputs.push_back(tensorOf(v));
  PlacementGroup group;
  group.ops = ops;
  if (failed(addOptions(ops, op, group)))
    return failure();
  model.problem.ops.push_back(std::move(op));
  model.groups.push_back(std::move(group));
  return success();
}

FailureOr<ModelProblem> Builder::run() {
  if (llvm::any_of(target.units,
                   [](const Unit &u) { return u.kind == UnitKind::Npu && llvm::any_of(u.precisions, isQuantised); }))
    splitDequantisation(func);
  bool assumed = false;
  auto analysis = onnx::ShapeAnalysis::run(func, &assumed);
  if (failed(analysis))
    return failure();
  shapes = std::move(*analysis);
  if (assumed)
    sizes.emplace(); // types alone; nothing but the CPU is possible
  else
    sizes.emplace(*shapes);
  if (failed(formPlacementGroups()))
    return failure();
  mergeIslands(groups, target);
  addDevices();
  splitRefused();
  addStates();
  addConversions();
  addModelInputs();
  for (const SmallVector<Operation *> &ops : groups)
    if (failed(addGroup(ops)))
      return failure();
  addModelOutputs();
  model.assumedSizes = sizes->assumed;
  return std::move(model);
}

FailureOr<ModelProblem> buildProblem(func::FuncOp func, const TargetDescription &target,
                                     const BuildProblemOptions &options) {
  return Builder(func, target, options).run();
}

} // namespace tessera

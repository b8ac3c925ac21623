#include "passes/Partition/Materialise.h"
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "dialects/Tsr/IR/TsrDialect.h"
#include "passes/Canonicalise/OnnxBuilder.h"
#include "passes/Partition/GpuSegments.h"
#include "passes/Partition/HalfOps.h"
#include "passes/Partition/Schedule.h"
#include "passes/Partition/WrapSegment.h"
#include "targets/Tosa/Raise.h"
#include "targets/Tosa/Segment.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace tessera {

namespace {

/// Operators of one segment, in block order.
struct Part {
  int segment = -1; ///< of the solution
  PlacementDevice device;
  SmallVector<Operation *> ops;
  SmallVector<size_t> groups; ///< of the problem
};

class Materialiser {
public:
  Materialiser(func::FuncOp func, const TargetDescription &target, VendorTools *vendors)
      : func(func), target(target), vendors(vendors) {}
  LogicalResult run(const ModelProblem &model, const partition::Solution &solution);

private:
  LogicalResult build(const Part &part);
  LogicalResult order(const ModelProblem &model, const partition::Solution &solution);
  LogicalResult buildGpu(const Part &part);
  FailureOr<tsr::SegmentOp> createSegment(const Part &part, tosa::Segment &lowered, TypeRange results);
  LogicalResult fillBody(tsr::SegmentOp segment, tosa::Segment &lowered);
  void connectResults(tsr::SegmentOp segment, const tosa::Segment &lowered);
  Value inForm(Value v, Type element);
  Value outOfForm(Value form, Type element);
  Attribute attributeOf(ArrayRef<uint8_t> bytes);
  FailureOr<Attribute> artefactOf(const Part &part, const tosa::Segment &lowered);
  bool zeroCopy(unsigned unit) const;

  func::FuncOp func;
  const TargetDescription &target;
  VendorTools *vendors;
  /// Tensors in other element types: what the CPU converted, or a segment gave.
  llvm::DenseMap<std::pair<Value, Type>, Value> forms;
  llvm::DenseMap<int, Operation *> segments; ///< by number in the solution
  SmallVector<Operation *> casts;            ///< back to the CPU's form; dropped when unread
};

} // namespace

/// The tensor with `element` for its elements: what was computed so already, or
/// one conversion on the CPU for all who ask.
Value Materialiser::inForm(Value v, Type element) {
  if (onnx::elementType(v) == element)
    return v;
  Value &form = forms[{v, element}];
  if (!form) {
    OpBuilder builder(func.getBody().front().getTerminator());
    form = onnx::OnnxBuilder(builder, v.getLoc()).cast(v, element);
  }
  return form;
}

/// What the CPU's readers get of a tensor that a segment gives in another form,
/// which later segments find by it.
Value Materialiser::outOfForm(Value form, Type element) {
  OpBuilder builder(func.getBody().front().getTerminator());
  Value own = onnx::OnnxBuilder(builder, form.getLoc()).cast(form, element);
  forms[{own, onnx::elementType(form)}] = form;
  casts.push_back(own.getDefiningOp());
  return own;
}

/// Whether the unit shares the CPU's storage, both ways.
bool Materialiser::zeroCopy(unsigned unit) const {
  unsigned own = target.units[unit].memory, host = target.units[0].memory;
  if (own == host)
    return true;
  const Link *in = target.link(host, own), *out = target.link(own, host);
  return in && out && in->zeroCopy && out->zeroCopy;
}

Attribute Materialiser::attributeOf(ArrayRef<uint8_t> bytes) {
  auto type = RankedTensorType::get({int64_t(bytes.size())}, IntegerType::get(func.getContext(), 8));
  auto blob = HeapAsmResourceBlob::allocateAndCopyWithAlign(
      ArrayRef<char>(reinterpret_cast<const char *>(bytes.data()), bytes.size()), alignof(uint64_t));
  return DenseResourceElementsAttr::get(type, "artefact", std::move(blob));
}

FailureOr<Attribute> Materialiser::artefactOf(const Part &part, const tosa::Segment &lowered) {
  const Unit &unit = target.units[part.device.unit];
  if (!vendors || !VendorTools::serves(unit))
    return attributeOf(lowered.file);
  auto answer = vendors->compile(unit, part.ops, lowered.file);
  if (!answer || !answer->code)
    return LogicalResult(part.ops.front()->emitError("segment from node '")
                         << onnx::getNodeName(part.ops.front()) << "' on unit '" << unit.name
                         << "': " << (answer ? answer->reason : toString(answer.takeError())));
  return attributeOf(answer->code->artefact);
}

FailureOr<tsr::SegmentOp> Materialiser::createSegment(const Part &part, tosa::Segment &lowered, TypeRange results) {
  auto artefact = artefactOf(part, lowered);
  if (failed(artefact))
    return failure();
  auto main = lowered.readBack->lookupSymbol<func::FuncOp>("main");
  SmallVector<Value> operands;
  for (auto [v, type] : llvm::zip_equal(lowered.border.inputs, main.getArgumentTypes()))
    operands.push_back(inForm(v, cast<ShapedType>(type).getElementType()));
  SmallVector<Location> locs;
  for (Operation *op : part.ops)
    locs.push_back(op->getLoc());
  OpBuilder builder(func.getBody().front().getTerminator());
  const Unit &unit = target.units[part.device.unit];
  // Without the vendor's code there is nothing to drive: the unit is played.
  bool driven = !unit.deviceKind().empty() && !VendorTools::isAbsent(unit);
  StringAttr kind = driven ? builder.getStringAttr(unit.deviceKind()) : StringAttr();
  return tsr::SegmentOp::create(builder, FusedLoc::get(func.getContext(), locs), results, unit.name, operands,
                                int64_t(part.device.unit), kind, zeroCopy(part.device.unit), *artefact);
}

LogicalResult Materialiser::fillBody(tsr::SegmentOp segment, tosa::Segment &lowered) {
  auto main = lowered.readBack->lookupSymbol<func::FuncOp>("main");
  OpBuilder builder(func.getContext());
  Block *body = builder.createBlock(&segment.getBody());
  for (Value v : segment.getInputs())
    body->addArgument(v.getType(), v.getLoc());
  builder.setInsertionPointToEnd(body);
  auto results = tosa::raiseToOnnx(main, body->getArguments(), builder);
  if (failed(results))
    return failure();
  tsr::YieldOp::create(builder, segment.getLoc(), *results);
  return success();
}

/// Readers on the CPU get the value in its own type.
void Materialiser::connectResults(tsr::SegmentOp segment, const tosa::Segment &lowered) {
  for (auto [i, v] : llvm::enumerate(lowered.border.outputs)) {
    Value result = segment.getResult(i);
    bool same = onnx::elementType(v) == onnx::elementType(result);
    Value(v).replaceAllUsesWith(same ? result : outOfForm(result, onnx::elementType(v)));
  }
}

/// A GPU computes the operators as they are, or in float16; its code is made
/// when the plan is.
LogicalResult Materialiser::buildGpu(const Part &part) {
  const Unit &unit = target.units[part.device.unit];
  SmallVector<Operation *> ops = part.ops;
  SmallVector<Value> read; // by the CPU, in its form
  Builder types(func.getContext());
  if (part.device.precision == Precision::F16) {
    auto outOfHalf = [&](Value half) { return read.emplace_back(outOfForm(half, types.getF32Type())); };
    std::string fault;
    if (failed(replaceInHalf(ops, [&](Value v) { return inForm(v, types.getF16Type()); }, outOfHalf, fault)))
      return func.emitError("internal: unit '") << unit.name << "' was to have a segment in float16, but " << fault;
  }
  auto segment = wrapIntoSegment(ops, unit.name, part.device.unit, zeroCopy(part.device.unit));
  if (failed(segment))
    return failure();
  for (Value own : read) // now a result of the segment
    forms[{own, types.getF16Type()}] = own.getDefiningOp()->getOperand(0);
  (*segment).setKind(unit.deviceKind());
  fuseForGpu(*segment, unit);
  segments[part.segment] = *segment;
  return success();
}

LogicalResult Materialiser::build(const Part &part) {
  if (isGpu(target.units[part.device.unit]))
    return buildGpu(part);
  tosa::Reasons reasons;
  auto lowered = tosa::buildSegment(part.ops, part.device.precision, reasons);
  if (failed(lowered)) {
    InFlightDiagnostic diag = part.ops.front()->emitError("segment from node '")
                              << onnx::getNodeName(part.ops.front()) << "' to node '"
                              << onnx::getNodeName(part.ops.back()) << "' does not lower for unit '"
                              << target.units[part.device.unit].name << "', though each of its groups does";
    for (const std::string &reason : reasons.all)
      diag.attachNote() << reason;
    return diag;
  }
  auto main = lowered->readBack->lookupSymbol<func::FuncOp>("main");
  SmallVector<Type> results;
  for (auto [v, type] : llvm::zip_equal(lowered->border.outputs, main.getResultTypes()))
    results.push_back(
        RankedTensorType::get(cast<ShapedType>(v.getType()).getShape(), cast<ShapedType>(type).getElementType()));
  auto segment = createSegment(part, *lowered, results);
  if (failed(segment) || failed(fillBody(*segment, *lowered)))
    return failure();
  connectResults(*segment, *lowered);
  segments[part.segment] = *segment;
  for (Operation *op : llvm::reverse(part.ops))
    op->erase();
  return success();
}

/// Whether `part` reads a result of `other`.
static bool reads(const Part &part, const Part &other) {
  return llvm::any_of(part.ops, [&](Operation *op) {
    return llvm::any_of(op->getOperands(), [&](Value v) { return llvm::is_contained(other.ops, v.getDefiningOp()); });
  });
}

/// Who computes a tensor comes before who reads it.
static std::vector<Part> inOrder(std::vector<Part> parts) {
  std::vector<Part> sorted;
  while (!parts.empty()) {
    auto next = llvm::find_if(parts, [&](const Part &part) {
      return llvm::none_of(parts, [&](const Part &other) { return &other != &part && reads(part, other); });
    });
    assert(next != parts.end() && "segments are acyclic");
    sorted.push_back(std::move(*next));
    parts.erase(next);
  }
  return sorted;
}

/// Operators of each segment.
static std::vector<Part> partsOf(const ModelProblem &model, const partition::Solution &solution) {
  llvm::MapVector<int, Part> parts;
  for (size_t j = 0; j < model.groups.size(); ++j) {
    if (solution.segment[j] < 0)
      continue;
    Part &part = parts[solution.segment[j]];
    part.segment = solution.segment[j];
    part.device = model.devices[model.problem.ops[j].options[solution.choice[j]].device];
    llvm::append_range(part.ops, model.groups[j].ops);
    part.groups.push_back(j);
  }
  std::vector<Part> result;
  for (auto &[segment, part] : parts) {
    llvm::sort(part.ops, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    result.push_back(std::move(part));
  }
  return inOrder(std::move(result));
}

/// A bundle has no device that does nothing.
static void numberDevices(func::FuncOp func) {
  std::map<int64_t, int64_t> numbers; // by unit
  auto segments = func.getBody().front().getOps<tsr::SegmentOp>();
  for (tsr::SegmentOp segment : segments)
    numbers[segment.getDevice()] = 0;
  int64_t next = 1; // behind the CPU
  for (auto &[unit, number] : numbers)
    number = next++;
  for (tsr::SegmentOp segment : segments)
    segment.setDevice(numbers[segment.getDevice()]);
}

/// The order of the schedule; what is in none of its steps, such as conversions,
/// comes when it is needed.
LogicalResult Materialiser::order(const ModelProblem &model, const partition::Solution &solution) {
  Block &block = func.getBody().front();
  llvm::DenseMap<Operation *, bool> emitted; // false: its operands are on their way
  std::function<LogicalResult(Operation *)> emit = [&](Operation *op) -> LogicalResult {
    op = op ? block.findAncestorOpInBlock(*op) : nullptr;
    if (!op)
      return success();
    auto [it, fresh] = emitted.try_emplace(op, false);
    if (!fresh)
      return success(it->second);
    WalkResult walk = op->walk([&](Operation *inner) {
      for (Value v : inner->getOperands())
        if (Operation *def = v.getDefiningOp(); def && !op->isAncestor(def) && failed(emit(def)))
          return WalkResult::interrupt();
      return WalkResult::advance();
    });
    if (!op->hasTrait<OpTrait::IsTerminator>())
      op->moveBefore(block.getTerminator());
    emitted[op] = true;
    return success(!walk.wasInterrupted());
  };
  SmallVector<Operation *> rest(llvm::make_pointer_range(block));
  for (const ScheduleStep &step : scheduleOf(partition::Graph(model.problem), model.devices, solution).steps) {
    if (step.segment >= 0 && failed(emit(segments.lookup(step.segment))))
      return failure();
    for (int j : step.ops)
      for (Operation *op : step.segment < 0 ? ArrayRef<Operation *>(model.groups[j].ops) : ArrayRef<Operation *>())
        if (failed(emit(op)))
          return failure();
  }
  for (Operation *op : rest)
    if (failed(emit(op)))
      return failure();
  return success();
}

LogicalResult Materialiser::run(const ModelProblem &model, const partition::Solution &solution) {
  std::vector<Part> parts = partsOf(model, solution);
  if (parts.empty())
    return success();
  for (const Part &part : parts)
    if (failed(build(part)))
      return failure();
  for (Operation *op : llvm::reverse(casts))
    if (op->use_empty())
      op->erase();
  if (failed(order(model, solution)))
    return func.emitError("internal: the segments wait for each other");
  numberDevices(func);
  return success();
}

/// Takes the option of its device in `solution` from a group.
static void refuseGroup(ModelProblem &model, const partition::Solution &solution, size_t group,
                        const std::vector<std::string> &reasons) {
  auto &options = model.problem.ops[group].options;
  unsigned device = options[solution.choice[group]].device;
  llvm::erase_if(options, [&](const partition::Option &o) { return unsigned(o.device) == device; });
  PlacementRefusal refusal{device, {}};
  for (const std::string &reason : reasons)
    refusal.reasons.push_back("with its neighbours: " + reason);
  model.groups[group].refusals.push_back(std::move(refusal));
}

/// A GPU's segment is refused kernel by kernel: the groups of those leave it.
/// What names no group is the fault of all.
static bool dropFaultyGroups(ModelProblem &model, const partition::Solution &solution, const Part &part,
                             const Unit &unit) {
  std::map<size_t, std::vector<std::string>> refused;
  for (const GpuFault &fault : findGpuFaults(part.ops, unit, part.device.precision))
    for (size_t j : part.groups)
      if (fault.ops.empty() ||
          llvm::any_of(fault.ops, [&](size_t i) { return llvm::is_contained(model.groups[j].ops, part.ops[i]); }))
        refused[j].push_back(fault.reason);
  for (const auto &[j, reasons] : refused)
    refuseGroup(model, solution, j, reasons);
  return !refused.empty();
}

FailureOr<bool> dropRefusedSegments(const TargetDescription &target, ModelProblem &model,
                                    const partition::Solution &solution, VendorTools *vendors) {
  bool changed = false;
  for (const Part &part : partsOf(model, solution)) {
    const Unit &unit = target.units[part.device.unit];
    if (isGpu(unit) && part.groups.size() > 1) // one alone was asked before
      changed |= dropFaultyGroups(model, solution, part, unit);
    if (!vendors || !VendorTools::serves(unit))
      continue;
    tosa::Reasons reasons;
    auto lowered = tosa::buildSegment(part.ops, part.device.precision, reasons);
    if (failed(lowered))
      continue; // materialise() says why
    auto answer = vendors->compile(unit, part.ops, lowered->file);
    if (!answer)
      return LogicalResult(part.ops.front()->emitError("the compiler of unit '")
                           << unit.name << "' is out of order: " << toString(answer.takeError()));
    if (answer->code)
      continue;
    changed = true;
    for (size_t j : part.groups)
      refuseGroup(model, solution, j, {answer->reason});
  }
  return changed;
}

/// The option of group `j` on a device; every group of a segment has one.
static partition::Option &optionOn(ModelProblem &model, size_t j, int device) {
  return *llvm::find_if(model.problem.ops[j].options, [&](const partition::Option &o) { return o.device == device; });
}

FailureOr<partition::Cost> priceSegments(const TargetDescription &target, const ModelProblem &model,
                                         const partition::Solution &solution, VendorTools &vendors,
                                         ModelProblem &into) {
  partition::Cost more = 0;
  for (const Part &part : partsOf(model, solution)) {
    const Unit &unit = target.units[part.device.unit];
    tosa::Reasons reasons;
    if (!VendorTools::serves(unit))
      continue;
    auto lowered = tosa::buildSegment(part.ops, part.device.precision, reasons);
    if (failed(lowered))
      continue; // materialise() says why
    auto answer = vendors.compile(unit, part.ops, lowered->file);
    if (!answer)
      return LogicalResult(part.ops.front()->emitError("the compiler of unit '")
                           << unit.name << "' is out of order: " << toString(answer.takeError()));
    if (!answer->code || answer->code->costNs == 0)
      continue;
    partition::Cost whole = answer->code->costNs, apart = 0, left = whole;
    for (size_t j : part.groups)
      apart += model.problem.ops[j].options[solution.choice[j]].cost;
    more += whole - apart;
    for (size_t j : part.groups) {
      const partition::Option &own = model.problem.ops[j].options[solution.choice[j]];
      bool last = j == part.groups.back();
      partition::Cost share =
          last ? left : partition::Cost(double(own.cost) * double(whole) / double(std::max<partition::Cost>(apart, 1)));
      left -= share;
      optionOn(into, j, own.device).cost = std::max<partition::Cost>(share, 0);
    }
  }
  return more;
}

LogicalResult materialise(func::FuncOp func, const TargetDescription &target, const ModelProblem &model,
                          const partition::Solution &solution, VendorTools *vendors) {
  return Materialiser(func, target, vendors).run(model, solution);
}

} // namespace tessera

#include "passes/Partition/OpKinds.h"
#include "passes/Partition/WrapSegment.h"
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "dialects/Onnx/Shapes/ShapeAnalysis.h"
#include "llvm/ADT/SetVector.h"
#include "mlir/IR/Verifier.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace tessera {

/// Every value that `op` or something inside of it reads from outside.
static void forEachRead(Operation *op, llvm::function_ref<void(Value)> visit) {
  op->walk([&](Operation *inner) {
    for (Value v : inner->getOperands())
      if (!op->isAncestor(v.getParentBlock()->getParentOp()) || v.getParentBlock() == op->getBlock())
        visit(v);
  });
}

namespace {
class Wrapper {
public:
  Wrapper(ArrayRef<Operation *> ops) : members(ops.begin(), ops.end()) {
    sorted.assign(ops.begin(), ops.end());
    llvm::sort(sorted, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  }

  FailureOr<tsr::SegmentOp> run(StringRef unit, int64_t device, bool zeroCopy) {
    if (failed(findLate()) || failed(findBorder()))
      return failure();
    OpBuilder b(sorted.front()->getContext());
    b.setInsertionPointAfter(sorted.back());
    SmallVector<Location> locs;
    for (Operation *op : sorted)
      locs.push_back(op->getLoc());
    SmallVector<Type> types(llvm::map_range(outputs, [](Value v) { return v.getType(); }));
    auto segment = tsr::SegmentOp::create(b, FusedLoc::get(b.getContext(), locs), types, unit, inputs.getArrayRef(),
                                          device, StringAttr{}, zeroCopy, Attribute{});
    fill(segment, b);
    Operation *after = segment;
    for (Operation *op : late) {
      op->moveAfter(after);
      after = op;
    }
    return segment;
  }

private:
  /// Operators between the members that read a result of theirs.
  LogicalResult findLate() {
    llvm::SmallPtrSet<Operation *, 16> dependent;
    for (Operation *op = sorted.front(); op != sorted.back()->getNextNode(); op = op->getNextNode()) {
      bool onMember = false, onLate = false;
      forEachRead(op, [&](Value v) {
        Operation *def = v.getDefiningOp();
        onMember |= def && members.contains(def);
        onLate |= def && dependent.contains(def);
      });
      if (members.contains(op) && onLate)
        return op->emitError("node '") << onnx::getNodeName(op) << "' of a segment reads what is computed outside of it "
                                       << "from the segment's own results";
      if (!members.contains(op) && (onMember || onLate)) {
        dependent.insert(op);
        late.push_back(op);
      }
    }
    return success();
  }

  LogicalResult findBorder() {
    for (Operation *op : sorted) {
      for (Value v : op->getOperands())
        if (Operation *def = v.getDefiningOp(); !def || (!members.contains(def) && !isConstantOp(def)))
          inputs.insert(v);
      for (Value v : op->getResults())
        if (llvm::any_of(v.getUsers(), [&](Operation *user) { return !members.contains(user); }))
          outputs.push_back(v);
    }
    for (ArrayRef<Value> border : {inputs.getArrayRef(), ArrayRef<Value>(outputs)})
      for (Value v : border) {
        auto type = dyn_cast<RankedTensorType>(v.getType());
        if (!type || !type.hasStaticShape())
          return sorted.front()->emitError("segment from node '")
                 << onnx::getNodeName(sorted.front()) << "' has " << v.getType()
                 << " at its border, not a static tensor; fix the dimensions with --dim";
      }
    return success();
  }

  void fill(tsr::SegmentOp segment, OpBuilder &b) {
    Block *body = b.createBlock(&segment.getBody());
    llvm::DenseMap<Value, Value> inside;
    for (Value v : inputs)
      inside[v] = body->addArgument(v.getType(), v.getLoc());
    for (Operation *op : sorted)
      for (OpOperand &operand : op->getOpOperands()) {
        Operation *def = operand.get().getDefiningOp();
        if (def && members.contains(def))
          continue;
        Value &copy = inside[operand.get()];
        if (!copy) {
          b.setInsertionPointToEnd(body);
          copy = b.clone(*def)->getResult(cast<OpResult>(operand.get()).getResultNumber());
        }
        operand.set(copy);
      }
    for (Operation *op : sorted)
      op->moveBefore(body, body->end());
    b.setInsertionPointToEnd(body);
    tsr::YieldOp::create(b, segment.getLoc(), outputs);
    for (auto [v, result] : llvm::zip(outputs, segment.getResults()))
      v.replaceUsesWithIf(result, [&](OpOperand &use) { return use.getOwner()->getBlock() != body; });
  }

  llvm::SmallPtrSet<Operation *, 16> members;
  SmallVector<Operation *> sorted, late;
  llvm::SetVector<Value> inputs;
  SmallVector<Value> outputs;
};
} // namespace

FailureOr<tsr::SegmentOp> wrapIntoSegment(ArrayRef<Operation *> ops, StringRef unit, int64_t device, bool zeroCopy) {
  return Wrapper(ops).run(unit, device, zeroCopy);
}

LogicalResult wrapNamedNodes(func::FuncOp func, ArrayRef<std::string> texts) {
  if (texts.empty())
    return success();
  if (failed(onnx::ShapeAnalysis::run(func))) // refines the types
    return failure();
  SmallVector<StringRef> units;
  for (const std::string &text : texts) {
    auto [unit, names] = StringRef(text).split('=');
    bool zeroCopy = unit.consume_back(":zero-copy");
    SmallVector<StringRef> wanted;
    names.split(wanted, ',', -1, /*KeepEmpty=*/false);
    llvm::StringSet<> found;
    SmallVector<Operation *> ops;
    for (Operation &op : func.getBody().front())
      if (StringRef name = onnx::getNodeName(&op); !isConstantOp(&op) && llvm::is_contained(wanted, name)) {
        found.insert(name);
        ops.push_back(&op);
      }
    for (StringRef name : wanted)
      if (!found.contains(name))
        return func.emitError("segment '") << text << "': no node is called '" << name << "'";
    if (ops.empty() || unit.empty())
      return func.emitError("segment '") << text << "' is not of the form UNIT=NODE,NODE,...";
    if (!llvm::is_contained(units, unit))
      units.push_back(unit);
    int64_t device = llvm::find(units, unit) - units.begin() + 1;
    auto segment = wrapIntoSegment(ops, unit, device, zeroCopy);
    if (failed(segment) || failed(mlir::verify(*segment)))
      return failure();
  }
  return success();
}

} // namespace tessera

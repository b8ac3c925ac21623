#include "passes/Codegen/Lowering.h"
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "passes/FuseQuantised/FuseQuantised.h"

using namespace mlir;
using tessera::onnx::Sym;
using tessera::onnx::SymKind;

namespace tessera {

ArrayRef<Sym> Lowering::dims(Value v) {
  if (auto result = dyn_cast<OpResult>(v)) {
    if (auto dispatch = dyn_cast<tsr::DispatchOp>(result.getOwner()))
      return dims(dispatch.getBodyBlock()->getTerminator()->getOperand(result.getResultNumber()));
  } else if (auto arg = cast<BlockArgument>(v);
             auto dispatch = dyn_cast<tsr::DispatchOp>(arg.getOwner()->getParentOp())) {
    return dims(dispatch.getInputs()[arg.getArgNumber()]);
  }
  return shapes->dims(v);
}

Value Lowering::resolve(Value v) {
  if (auto arg = dyn_cast<BlockArgument>(v)) {
    if (auto dispatch = dyn_cast<tsr::DispatchOp>(arg.getOwner()->getParentOp()))
      return dispatch.getInputs()[arg.getArgNumber()];
    return v;
  }
  auto dispatch = dyn_cast<tsr::DispatchOp>(v.getDefiningOp()->getParentOp());
  if (!dispatch)
    return v;
  for (auto [i, yielded] : llvm::enumerate(dispatch.getBodyBlock()->getTerminator()->getOperands()))
    if (yielded == v)
      return dispatch.getResult(i);
  return {};
}

bool Lowering::isWritten(Operation *op) {
  constexpr size_t maxElements = 16; // beyond it a kernel is cheaper
  if (op->getNumResults() != 1 || op->hasTrait<OpTrait::ConstantLike>() || isControlFlow(op) ||
      isa<tsr::DispatchOp, tsr::SegmentOp, tsr::UndefinedOp>(op))
    return false;
  auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType());
  if (!type || !isa<IntegerType>(type.getElementType()) ||
      (type.getElementTypeBitWidth() < 8 && !type.getElementType().isInteger(1)))
    return false;
  auto contents = shapes->contents(op->getResult(0));
  return contents && contents->size() <= maxElements;
}

bool isView(Operation *op) {
  StringRef name = op->getName().getStringRef();
  bool reshapes = name == "onnx.Reshape" || name == "onnx.Squeeze" || name == "onnx.Unsqueeze" ||
                  name == "onnx.Flatten" || name == "onnx.Identity" || op->hasAttr("tsr.view");
  return reshapes && isa<RankedTensorType>(op->getOperand(0).getType());
}

bool isControlFlow(Operation *op) {
  StringRef name = op->getName().getStringRef();
  return name == "onnx.If" || name == "onnx.Loop" || name == "onnx.Scan" || name == "onnx.SequenceMap";
}

/// Calls `f` for every run-time value that `s` reads.
static void forEachData(Sym s, llvm::DenseSet<Sym> &seen, llvm::function_ref<void(Value)> f) {
  if (!seen.insert(s).second)
    return;
  if (s->kind == SymKind::Data || s->kind == SymKind::Extent)
    f(s->value);
  for (Sym operand : s->operands)
    forEachData(operand, seen, f);
}

LogicalResult findLive(Lowering &l) {
  SmallVector<Operation *> work;
  llvm::DenseSet<Sym> seen;
  auto markOp = [&](Operation *op) {
    if (l.live.insert(op).second)
      work.push_back(op);
  };
  std::function<void(Value)> mark = [&](Value v) {
    if (Operation *def = v.getDefiningOp())
      markOp(def);
  };
  auto markDims = [&](Value v) {
    if (isa<RankedTensorType>(v.getType()))
      for (Sym d : l.shapes->dims(v))
        forEachData(d, seen, mark);
  };
  for (Operation &op : l.func.getBody().front())
    if (op.hasTrait<OpTrait::IsTerminator>())
      markOp(&op);
  for (BlockArgument arg : l.func.getArguments())
    markDims(arg);
  size_t next = 0;
  auto drain = [&] {
    for (; next < work.size(); ++next) {
      Operation *op = work[next];
      if (Operation *parent = op->getParentOp(); parent && parent != l.func)
        markOp(parent); // what holds a live operator is live
      bool written = l.isWritten(op);
      if (written)
        for (Sym element : *l.shapes->contents(op->getResult(0)))
          forEachData(element, seen, mark);
      for (OpOperand &operand : op->getOpOperands()) {
        if (written)
          break;
        if (op->hasTrait<OpTrait::IsTerminator>() || isControlFlow(op) || l.shapes->needsData(operand))
          mark(operand.get());
        markDims(operand.get());
      }
      for (Value result : op->getResults())
        markDims(result);
      for (Region &region : op->getRegions())
        for (Block &block : region)
          if (!block.empty())
            markOp(&block.back());
    }
  };
  drain();
  // Requirements of branches that were inlined belong to the function itself.
  l.live.insert(l.func);
  // What is checked at run time may need values that nothing else reads; that
  // in turn can make further requirements live.
  size_t before;
  do {
    before = work.size();
    for (const onnx::ShapeRequirement &r : l.shapes->requirements())
      if (l.live.contains(r.op))
        forEachData(r.condition, seen, mark);
    drain();
  } while (work.size() != before);
  return success();
}

LogicalResult bindShapes(Lowering &l) {
  l.func.walk([&](tsr::DispatchOp op) {
    OpBuilder b(op);
    SmallVector<Sym> symbols;
    SmallVector<Attribute> all;
    auto bind = [&](Value v) {
      SmallVector<int64_t> codes;
      for (Sym d : l.dims(v)) {
        if (auto c = d->constant()) {
          codes.push_back(*c);
          continue;
        }
        auto it = llvm::find(symbols, d);
        codes.push_back(-(it - symbols.begin()) - 1);
        if (it == symbols.end())
          symbols.push_back(d);
      }
      all.push_back(b.getDenseI64ArrayAttr(codes));
    };
    for (Value v : op.getInputs())
      bind(v);
    for (Value v : op.getOutputs())
      bind(v);
    op.setDimsAttr(b.getArrayAttr(all));
    op.setSymbols(symbols.size());
    l.symbols[op] = std::move(symbols);
  });
  return success();
}

FailureOr<std::unique_ptr<Lowering>> lowerToDispatches(func::FuncOp func) {
  auto l = std::make_unique<Lowering>();
  l->func = func;
  fuseQuantised(func);
  auto shapes = onnx::ShapeAnalysis::run(func);
  if (failed(shapes))
    return failure();
  l->shapes = std::move(*shapes);
  if (failed(findLive(*l)) || failed(formGroups(*l)) || failed(assignLayouts(*l)) || failed(bindShapes(*l)))
    return failure();
  return l;
}

} // namespace tessera

// Chooses the memory order of every tensor and makes the changes explicit.
//
// Convolutions, pooling and the like want channels last; elementwise operators
// and other tolerant kernels follow their operands; everything else, views,
// control flow and the function's borders are row major. A change is a
// dispatch of one Identity whose operand and result differ in layout; there is
// at most one per tensor and layout. Transposes that only rename an order that
// memory already has become views.
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "dialects/Onnx/IR/OnnxOps.h"
#include "passes/Codegen/Lowering.h"
#include "targets/Cpu/KernelBuilder.h"

using namespace mlir;
using tessera::onnx::Sym;
using tessera::tsr::Layout;

namespace tessera {

namespace {

class LayoutAssigner {
public:
  explicit LayoutAssigner(Lowering &l) : l(l) {}
  void run(Block &block);

private:
  Layout of(Value v) { return layouts.lookup(v); }
  bool equivalent(Value v);
  Value as(Value v, Layout layout, Operation *before);
  void visit(tsr::DispatchOp op);
  bool visitTranspose(tsr::DispatchOp op);
  Layout choose(tsr::DispatchOp op);
  void apply(tsr::DispatchOp op, Layout layout);
  void rowMajorOperands(Operation *op);

  Lowering &l;
  llvm::DenseMap<Value, Layout> layouts; ///< absent: row major
  llvm::DenseMap<std::pair<Value, int>, Value> changed;
};

} // namespace

static unsigned rankOf(Value v) {
  auto type = dyn_cast<RankedTensorType>(v.getType());
  return type ? type.getRank() : 0;
}

/// Whether both layouts give the same bytes: one channel, or one position.
bool LayoutAssigner::equivalent(Value v) {
  ArrayRef<Sym> dims = l.dims(v);
  if (dims.size() < 3 || dims[1]->isConstant(1))
    return true;
  return llvm::all_of(dims.drop_front(2), [](Sym d) { return d->isConstant(1); });
}

Value LayoutAssigner::as(Value v, Layout layout, Operation *before) {
  if (of(v) == layout || rankOf(v) < 3 || equivalent(v))
    return v;
  Value &copy = changed[{v, static_cast<int>(layout)}];
  if (copy && copy.getDefiningOp()->getBlock() == before->getBlock())
    return copy;
  OpBuilder b(before);
  // Right after the definition, so that every later user can share it.
  if (Operation *def = v.getDefiningOp(); def && def->getBlock() == before->getBlock())
    b.setInsertionPointAfter(def);
  else if (isa<BlockArgument>(v) && v.getParentBlock() == before->getBlock())
    b.setInsertionPointToStart(v.getParentBlock());
  Location loc = v.getLoc();
  auto dispatch = tsr::DispatchOp::create(b, loc, TypeRange{v.getType()}, ValueRange{v}, tsr::KernelClass::Movement,
                                          /*root=*/0, /*symbols=*/0, ArrayAttr{}, DenseI32ArrayAttr{});
  Block *body = b.createBlock(&dispatch.getBody());
  Value arg = body->addArgument(v.getType(), loc);
  OperationState state(loc, "onnx.Identity", ValueRange{arg}, TypeRange{v.getType()});
  Operation *identity = b.create(state);
  l.shapes->setDims(identity->getResult(0), l.dims(v));
  tsr::YieldOp::create(b, loc, identity->getResults());
  dispatch.setLayoutsAttr(b.getDenseI32ArrayAttr({static_cast<int>(of(v)), static_cast<int>(layout)}));
  copy = dispatch.getResult(0);
  layouts[copy] = layout;
  return copy;
}

/// Layout for the whole dispatch.
Layout LayoutAssigner::choose(tsr::DispatchOp op) {
  Operation *root = op.getRootOp();
  unsigned rank = rankOf(op.getResult(0));
  if (root) {
    cpu::Reasons reasons;
    const cpu::KernelBuilder *builder = cpu::findKernel(root, reasons);
    if (!builder || !builder->acceptsChannelsLast(root))
      return Layout::RowMajor;
    if (builder->preferredLayout(root) == Layout::ChannelsLast)
      return Layout::ChannelsLast;
    // Tolerant kernels follow their largest operand.
    for (Value in : op.getInputs())
      if (rankOf(in) == rank && rank >= 3 && of(in) == Layout::ChannelsLast && !equivalent(in))
        return Layout::ChannelsLast;
    return Layout::RowMajor;
  }
  if (rank < 3)
    return Layout::RowMajor;
  // A chain follows the operands that have its whole shape: fewest bytes moved.
  int last = 0, major = 0;
  for (Value in : op.getInputs()) {
    if (rankOf(in) != rank || l.dims(in) != l.dims(op.getResult(0)) || onnx::getConstant(in) || equivalent(in))
      continue;
    (of(in) == Layout::ChannelsLast ? last : major) += 1;
  }
  return last > 0 && last >= major ? Layout::ChannelsLast : Layout::RowMajor;
}

/// Whether operand `i` of a dispatch with a root is what flows through it: the
/// root's first operand, any operand of Concat, or what the epilogue adds in.
static bool isData(tsr::DispatchOp op, unsigned i) {
  Operation *root = op.getRootOp();
  Value arg = op.getBodyBlock()->getArgument(i);
  for (OpOperand &use : arg.getUses()) {
    if (use.getOwner() != root)
      return true;
    if (use.getOperandNumber() == 0 || root->getName().getStringRef() == "onnx.Concat")
      return true;
  }
  return false;
}

void LayoutAssigner::apply(tsr::DispatchOp op, Layout layout) {
  SmallVector<int32_t> all;
  unsigned rank = rankOf(op.getResult(0));
  bool elementwise = !op.getRootOp();
  for (OpOperand &operand : op.getInputsMutable()) {
    Value v = operand.get();
    Layout want = Layout::RowMajor;
    // Weights and other constants keep the order the builder packs them from.
    bool whole = rankOf(v) == rank && !onnx::getConstant(v) && (elementwise || isData(op, operand.getOperandNumber()));
    if (whole)
      want = layout;
    if (elementwise && whole && l.dims(v) != l.dims(op.getResult(0)))
      want = of(v); // broadcast operands are small: strides serve any order
    Value changedValue = as(v, want, op);
    operand.set(changedValue);
    bool free = rankOf(v) < 3 || equivalent(v);
    all.push_back(static_cast<int>(free ? want : of(changedValue)));
  }
  for (Value result : op.getResults()) {
    Layout r = rankOf(result) >= 3 && rankOf(result) == rank ? layout : Layout::RowMajor;
    layouts[result] = r;
    all.push_back(static_cast<int>(r));
  }
  op.setLayoutsAttr(DenseI32ArrayAttr::get(op.getContext(), all));
}

/// A transpose between NCHW and NHWC that memory already has the order of.
bool LayoutAssigner::visitTranspose(tsr::DispatchOp op) {
  Operation *root = op.getRootOp();
  if (!root || root->getName().getStringRef() != "onnx.Transpose" || op.getInputs().size() != 1 ||
      op.getBodyBlock()->getOperations().size() != 2)
    return false;
  int64_t rank = rankOf(op.getResult(0));
  if (rank < 3)
    return false;
  SmallVector<int64_t> perm = onnx::getInts(root, "perm");
  if (perm.empty())
    for (int64_t i = rank - 1; i >= 0; --i)
      perm.push_back(i);
  SmallVector<int64_t> toLast{0}, toFirst{0, rank - 1};
  for (int64_t i = 2; i < rank; ++i)
    toLast.push_back(i);
  toLast.push_back(1);
  for (int64_t i = 1; i < rank - 1; ++i)
    toFirst.push_back(i);
  Value in = op.getInputs()[0];
  Layout inLayout = of(in), outLayout;
  if (perm == toLast && inLayout == Layout::ChannelsLast)
    outLayout = Layout::RowMajor;
  else if (perm == toFirst && inLayout == Layout::RowMajor)
    outLayout = Layout::ChannelsLast;
  else
    return false;
  root->moveBefore(op);
  root->setOperand(0, in);
  root->setAttr("tsr.view", UnitAttr::get(op.getContext()));
  op.getResult(0).replaceAllUsesWith(root->getResult(0));
  layouts[root->getResult(0)] = outLayout;
  op.erase();
  return true;
}

void LayoutAssigner::visit(tsr::DispatchOp op) {
  if (visitTranspose(op))
    return;
  apply(op, choose(op));
}

void LayoutAssigner::rowMajorOperands(Operation *op) {
  for (OpOperand &operand : op->getOpOperands())
    if (!isa_and_nonnull<tsr::UndefinedOp>(operand.get().getDefiningOp()))
      operand.set(as(operand.get(), Layout::RowMajor, op));
}

void LayoutAssigner::run(Block &block) {
  SmallVector<Operation *> ops;
  for (Operation &op : block)
    ops.push_back(&op);
  for (Operation *op : ops) {
    if (auto dispatch = dyn_cast<tsr::DispatchOp>(op)) {
      visit(dispatch);
    } else if (op->hasTrait<OpTrait::IsTerminator>() || (l.live.contains(op) && !l.isWritten(op) && isView(op))) {
      rowMajorOperands(op);
    } else if (l.live.contains(op) && (isControlFlow(op) || isa<tsr::SegmentOp>(op))) {
      rowMajorOperands(op);
      for (Region &region : op->getRegions())
        for (Block &body : region)
          run(body);
    }
  }
}

LogicalResult assignLayouts(Lowering &l) {
  LayoutAssigner(l).run(l.func.getBody().front());
  return success();
}

} // namespace tessera

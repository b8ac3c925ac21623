#include "targets/Cpu/Kernels/RootView.h"

using namespace mlir;

namespace tessera::cpu {

RootView::RootView(tsr::DispatchOp op, KernelEmitter &e)
    : op(op), e(e), root(op.getRootOp()), fusion(op, e) {}

const TensorRef *RootView::in(unsigned pos) {
  auto arg = dyn_cast_or_null<BlockArgument>(onnx::getOptionalOperand(root, pos));
  return arg ? &e.inputs[arg.getArgNumber()] : nullptr;
}

ElementsAttr RootView::constant(unsigned pos) {
  Value v = onnx::getOptionalOperand(root, pos);
  return v && !isa<BlockArgument>(v) ? onnx::getConstant(v) : ElementsAttr();
}

const TensorRef *RootView::out(unsigned pos) {
  Value v = onnx::getOptionalResult(root, pos);
  if (!v)
    return nullptr;
  for (auto [i, yielded] : llvm::enumerate(op.getBodyBlock()->getTerminator()->getOperands()))
    if (yielded == v && i < e.outputs.size())
      return &e.outputs[i];
  return nullptr;
}

const TensorRef &RootView::resultShape() {
  const TensorRef *direct = out(0);
  return direct ? *direct : e.outputs.front();
}

RankedTensorType RootView::inType(unsigned pos) { return operandType(root, pos); }
RankedTensorType RootView::outType(unsigned pos) { return resultType(root, pos); }

std::optional<int64_t> RootView::count(unsigned pos) {
  auto type = inType(pos);
  if (!type || !type.hasStaticShape())
    return std::nullopt;
  return type.getNumElements();
}

Value RootView::constantElement(ElementsAttr attr, int64_t i) {
  Type element = attr.getElementType();
  Type value = KernelEmitter::valueType(element);
  if (isa<FloatType>(element))
    return e.floatConst(value, (*onnx::getFloats(attr))[i]);
  int64_t v = (*onnx::getInts(attr))[i];
  return e.intConst(value, v);
}

SmallVector<Value> RootView::ints(unsigned pos, unsigned n) {
  SmallVector<Value> result;
  if (ElementsAttr attr = constant(pos)) {
    auto values = onnx::getInts(attr);
    for (unsigned i = 0; i < n; ++i)
      result.push_back(e.idx(values && i < values->size() ? (*values)[i] : 0));
    return result;
  }
  const TensorRef *t = in(pos);
  for (unsigned i = 0; i < n; ++i)
    result.push_back(toIndex(e, e.loadElement(*t, t->rank() ? e.mul(e.idx(i), t->strides[0]) : e.idx(0)),
                             KernelEmitter::isUnsigned(t->element)));
  return result;
}

Value RootView::scalarInt(unsigned pos, int64_t fallback) {
  return has(pos) ? ints(pos, 1)[0] : e.idx(fallback);
}

Value RootView::scalar(unsigned pos) {
  if (ElementsAttr attr = constant(pos))
    return constantElement(attr, 0);
  return e.loadElement(*in(pos), e.idx(0));
}

FailureOr<Value> RootView::load(unsigned pos, const Point &p) {
  if (const TensorRef *t = in(pos))
    return e.loadAt(*t, p);
  return fusion.loadFused(pos, p);
}

// Collects the block arguments that feed `value`.
static void leavesOf(Value value, SmallVectorImpl<BlockArgument> &leaves) {
  if (auto arg = dyn_cast<BlockArgument>(value)) {
    leaves.push_back(arg);
    return;
  }
  if (Operation *def = value.getDefiningOp())
    for (Value operand : def->getOperands())
      leavesOf(operand, leaves);
}

std::optional<SmallVector<Value>> fusedDims(RootView &v, unsigned pos) {
  if (const TensorRef *t = v.in(pos))
    return t->dims;
  auto type = v.inType(pos);
  if (!type)
    return std::nullopt;
  SmallVector<BlockArgument> leaves;
  leavesOf(onnx::getOptionalOperand(v.root, pos), leaves);
  SmallVector<Value> dims(type.getRank());
  for (int64_t k = 0; k < type.getRank(); ++k) {
    if (!type.isDynamicDim(k)) {
      dims[k] = v.e.idx(type.getDimSize(k));
      continue;
    }
    // The largest of the sizes: a broadcast one is 1, an empty one wins.
    Value zero = v.e.intConst(v.e.i1(), 0);
    for (BlockArgument arg : leaves) {
      const TensorRef &t = v.e.inputs[arg.getArgNumber()];
      int64_t axis = k - type.getRank() + t.rank();
      if (axis < 0)
        continue;
      Value d = t.dims[axis];
      zero = v.e.logicalOr(zero, v.e.eq(d, v.e.idx(0)));
      dims[k] = dims[k] ? v.e.maxS(dims[k], d) : d;
    }
    if (!dims[k])
      return std::nullopt;
    dims[k] = v.e.select(zero, v.e.idx(0), dims[k]);
  }
  return dims;
}

unsigned lastWideAxis(ArrayRef<Value> dims, RootView &v) {
  bool channelsLast = dims.size() > 2;
  for (unsigned i = 0; i < v.e.inputs.size(); ++i)
    if (v.e.inputs[i].rank() == dims.size() && dims.size() > 2)
      channelsLast = channelsLast && v.e.inputs[i].layout == tsr::Layout::ChannelsLast;
  if (channelsLast && KernelEmitter::constantOf(dims[1]) != 1)
    return 1;
  for (unsigned k = dims.size(); k-- > 0;)
    if (KernelEmitter::constantOf(dims[k]) != 1)
      return k;
  return dims.empty() ? 0 : dims.size() - 1;
}

Value toIndex(KernelEmitter &e, Value v, bool isUnsigned) {
  auto type = cast<IntegerType>(v.getType());
  if (type.getWidth() == 64)
    return v;
  if (type.getWidth() > 64)
    return arith::TruncIOp::create(e.b, e.loc, e.i64(), v);
  if (isUnsigned || type.getWidth() == 1)
    return arith::ExtUIOp::create(e.b, e.loc, e.i64(), v);
  return arith::ExtSIOp::create(e.b, e.loc, e.i64(), v);
}

Value wrapIndex(KernelEmitter &e, Value v, Value dim) {
  Value wrapped = e.select(e.lt(v, e.idx(0)), e.add(v, dim), v);
  Value bad = e.logicalOr(e.lt(wrapped, e.idx(0)),
                          e.cmp(arith::CmpIPredicate::sge, wrapped, dim));
  e.failIf(bad, TSR_KERNEL_INDEX_OUT_OF_RANGE);
  return e.select(bad, e.idx(0), wrapped);
}

RankedTensorType operandType(Operation *op, unsigned pos) {
  Value v = onnx::getOptionalOperand(op, pos);
  return v ? dyn_cast<RankedTensorType>(v.getType()) : RankedTensorType();
}

RankedTensorType resultType(Operation *op, unsigned pos) {
  Value v = onnx::getOptionalResult(op, pos);
  return v ? dyn_cast<RankedTensorType>(v.getType()) : RankedTensorType();
}

Type operandElement(Operation *op, unsigned pos) {
  auto type = operandType(op, pos);
  return type ? type.getElementType() : Type();
}

Type resultElement(Operation *op, unsigned pos) {
  auto type = resultType(op, pos);
  return type ? type.getElementType() : Type();
}

bool requireRanked(Operation *op, Reasons &reasons) {
  auto check = [&](Value v, StringRef what, unsigned i) {
    if (isa<RankedTensorType>(v.getType()))
      return true;
    reasons.no() << what << " " << i << " is " << onnx::getTypeName(v.getType())
                 << ", not a tensor of known rank";
    return false;
  };
  bool ok = true;
  for (auto [i, v] : llvm::enumerate(op->getOperands()))
    ok &= check(v, "operand", i);
  for (auto [i, v] : llvm::enumerate(op->getResults()))
    ok &= check(v, "result", i);
  return ok;
}

static bool requireElements(Operation *op, Reasons &reasons, function_ref<bool(Type)> allowed) {
  if (!requireRanked(op, reasons))
    return false;
  bool ok = true;
  auto check = [&](Value v) {
    Type element = cast<RankedTensorType>(v.getType()).getElementType();
    if (allowed(element))
      return;
    reasons.no() << "element type " << onnx::getTypeName(element) << " is not supported";
    ok = false;
  };
  for (Value v : op->getOperands())
    check(v);
  for (Value v : op->getResults())
    check(v);
  return ok;
}

bool requireMovable(Operation *op, Reasons &reasons) {
  return requireElements(op, reasons, [](Type t) { return onnx::getStorageBits(t) != 0; });
}

bool requireNumeric(Operation *op, Reasons &reasons) {
  return requireElements(op, reasons, [](Type t) { return isa<FloatType, IntegerType>(t); });
}

bool requireStaticCount(Operation *op, unsigned pos, Reasons &reasons) {
  auto type = operandType(op, pos);
  if (!type || type.hasStaticShape())
    return true;
  reasons.no() << "number of " << onnx::getOperandName(op, pos) << " is not known";
  return false;
}

} // namespace tessera::cpu

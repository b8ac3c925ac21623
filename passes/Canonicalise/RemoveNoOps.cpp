// Operators that return their operand, see Passes.td.
#include "passes/Canonicalise/Passes.h"

#include "passes/Canonicalise/OnnxBuilder.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

#include <numeric>

using namespace mlir;

namespace tessera::onnx {

#define GEN_PASS_DEF_REMOVENOOPS
#include "passes/Canonicalise/Passes.h.inc"

namespace {

LogicalResult replaceBy(Operation *op, Value v, PatternRewriter &r) {
  if (!v || elementType(v) != elementType(op->getResult(0)))
    return failure();
  replaceRefining(r, op, v);
  return success();
}

LogicalResult removeUnary(Operation *op, PatternRewriter &r) {
  return replaceBy(op, op->getOperand(0), r);
}

// Concat, Sum, Mean, Max, Min of one; Split into one.
LogicalResult removeSingle(Operation *op, PatternRewriter &r) {
  if (op->getNumOperands() != 1 || op->getNumResults() != 1)
    return failure();
  return replaceBy(op, op->getOperand(0), r);
}

LogicalResult removeSplit(Operation *op, PatternRewriter &r) {
  return op->getNumResults() == 1 ? replaceBy(op, op->getOperand(0), r) : failure();
}

LogicalResult dropEmptyConcatOperands(Operation *op, PatternRewriter &r) {
  SmallVector<Value> kept;
  for (Value v : op->getOperands()) {
    RankedTensorType t = rankedType(v);
    int64_t axis = getInt(op, "axis");
    if (t && axis < 0)
      axis += t.getRank();
    if (!t || axis < 0 || axis >= t.getRank() || t.getDimSize(axis) != 0)
      kept.push_back(v);
  }
  if (kept.empty() || kept.size() == op->getNumOperands())
    return failure();
  r.modifyOpInPlace(op, [&] { op->setOperands(kept); });
  return success();
}

LogicalResult removeDropout(Operation *op, PatternRewriter &r) {
  Value training = operand(op, 2);
  if (training && scalarConstant(training) != 0.0)
    return failure();
  Value x = op->getOperand(0);
  if (op->getNumResults() > 1 && !op->getResult(1).use_empty()) {
    OnnxBuilder b(r, op->getLoc());
    RankedTensorType t = rankedType(x);
    if (!t)
      return failure();
    Value shape = b.op("Shape", {x}, RankedTensorType::get({t.getRank()}, r.getI64Type()));
    auto one = DenseElementsAttr::get(RankedTensorType::get({1}, r.getI1Type()), true);
    Value mask = b.op("ConstantOfShape", {shape}, t.clone(r.getI1Type()),
                      {r.getNamedAttr("value", one)});
    replaceRefining(r, op, {x, mask});
    return success();
  }
  replaceRefining(r, op->getResult(0), x);
  r.eraseOp(op);
  return success();
}

// Whether converting `from` to `to` keeps every value apart and exact.
bool widens(Type from, Type to) {
  if (from == to || from.isInteger(1))
    return true;
  auto f = dyn_cast<FloatType>(from), g = dyn_cast<FloatType>(to);
  if (f && g)
    return g.getFPMantissaWidth() >= f.getFPMantissaWidth() &&
           (g.isF64() || (g.isF32() && !f.isF64()));
  auto i = dyn_cast<IntegerType>(from), j = dyn_cast<IntegerType>(to);
  if (i && j)
    return i.isUnsigned() == j.isUnsigned() ? j.getWidth() >= i.getWidth()
                                            : i.isUnsigned() && j.getWidth() > i.getWidth();
  return i && g && (g.isF64() ? i.getWidth() <= 32 : g.isF32() && i.getWidth() <= 16);
}

LogicalResult simplifyCast(Operation *op, PatternRewriter &r) {
  Value x = op->getOperand(0);
  Type to = elementType(op->getResult(0));
  if (elementType(x) == to)
    return replaceBy(op, x, r);
  if (isOp(op, "CastLike")) {
    SmallVector<NamedAttribute> attrs;
    for (StringRef name : {"saturate", "round_mode"})
      if (Attribute a = op->getAttr(name))
        attrs.push_back(r.getNamedAttr(name, a));
    int64_t code = onnxTypeCode(to);
    if (code == 0)
      return failure();
    OnnxBuilder b(r, op->getLoc());
    attrs.push_back(b.i("to", code));
    replaceRefining(r, op, b.op("Cast", {x}, op->getResult(0).getType(), attrs));
    return success();
  }
  // Cast(Cast(x)) where the first conversion loses nothing.
  Operation *inner = definedBy(x, "Cast");
  if (!inner || !elementType(x).isIntOrFloat() ||
      !widens(elementType(inner->getOperand(0)), elementType(x)))
    return failure();
  Type from = elementType(inner->getOperand(0));
  if (isa<FloatType>(from) != isa<FloatType>(elementType(x)) && !from.isInteger(1) &&
      !isa<FloatType>(to))
    return failure();
  if (to.isIntOrFloat() && to.getIntOrFloatBitWidth() < 8 && !to.isInteger(1) && from != to)
    return failure();
  r.modifyOpInPlace(op, [&] { op->setOperand(0, inner->getOperand(0)); });
  return success();
}

SmallVector<int64_t> permutation(Operation *op) {
  SmallVector<int64_t> perm = getInts(op, "perm");
  RankedTensorType t = rankedType(op->getOperand(0));
  if (perm.empty() && t) {
    perm.resize(t.getRank());
    std::iota(perm.rbegin(), perm.rend(), 0);
  }
  return perm;
}

LogicalResult simplifyTranspose(Operation *op, PatternRewriter &r) {
  SmallVector<int64_t> perm = permutation(op);
  if (!rankedType(op->getOperand(0)))
    return failure();
  if (llvm::equal(perm, llvm::seq<int64_t>(0, perm.size())))
    return replaceBy(op, op->getOperand(0), r);
  Operation *inner = definedBy(op->getOperand(0), "Transpose");
  if (!inner || !rankedType(inner->getOperand(0)))
    return failure();
  SmallVector<int64_t> first = permutation(inner), both;
  for (int64_t p : perm)
    both.push_back(first[p]);
  OnnxBuilder b(r, op->getLoc());
  replaceRefining(r, op, b.transpose(inner->getOperand(0), both));
  return success();
}

bool isView(Operation *op) {
  return isOp(op, "Reshape") || isOp(op, "Flatten") || isOp(op, "Squeeze") ||
         isOp(op, "Unsqueeze");
}

// BEFORE  Reshape(Reshape(x, s), [2, -1])      AFTER  Reshape(x, [2, -1])
// A zero in the outer shape means a dimension of the inner result: then only a
// static result type tells which.
LogicalResult simplifyReshape(Operation *op, PatternRewriter &r) {
  Value x = op->getOperand(0), result = op->getResult(0);
  if (sameStaticShape(x, result))
    return replaceBy(op, x, r);
  OnnxBuilder b(r, op->getLoc());
  auto shape = getConstantInts(op->getOperand(1), 64);
  RankedTensorType t = rankedType(result);
  // One open extent at most: -1 says it as well as any computed shape.
  if (t && llvm::count_if(t.getShape(), ShapedType::isDynamic) <= 1 &&
      !llvm::is_contained(t.getShape(), 0)) {
    SmallVector<int64_t> known;
    for (int64_t d : t.getShape())
      known.push_back(ShapedType::isDynamic(d) ? -1 : d);
    if (!shape || *shape != known) {
      Value s = b.ints(known);
      r.modifyOpInPlace(op, [&] { op->setOperand(1, s); });
      return success();
    }
  }
  Operation *inner = x.getDefiningOp();
  if (!shape || !inner || !isView(inner) || llvm::is_contained(*shape, 0))
    return failure();
  r.modifyOpInPlace(op, [&] { op->setOperand(0, inner->getOperand(0)); });
  return success();
}

LogicalResult removeFlatten(Operation *op, PatternRewriter &r) {
  RankedTensorType t = rankedType(op->getOperand(0));
  if (!t || t.getRank() != 2 || (getInt(op, "axis", 1) != 1 && getInt(op, "axis", 1) != -1))
    return failure();
  return replaceBy(op, op->getOperand(0), r);
}

LogicalResult removeSqueeze(Operation *op, PatternRewriter &r) {
  RankedTensorType from = rankedType(op->getOperand(0)), to = rankedType(op->getResult(0));
  return from && to && from.getRank() == to.getRank() ? replaceBy(op, op->getOperand(0), r)
                                                      : failure();
}

LogicalResult removeSlice(Operation *op, PatternRewriter &r) {
  Value x = op->getOperand(0);
  RankedTensorType t = rankedType(x);
  auto starts = getConstantInts(operand(op, 1), 64), ends = getConstantInts(operand(op, 2), 64);
  std::optional<SmallVector<int64_t>> axes, steps;
  if (!t || !starts || !ends || starts->size() != ends->size())
    return failure();
  if (Value v = operand(op, 3)) {
    if (!(axes = getConstantInts(v, 64)) || axes->size() != starts->size())
      return failure();
  }
  if (Value v = operand(op, 4)) {
    if (!(steps = getConstantInts(v, 64)) || steps->size() != starts->size())
      return failure();
  }
  for (size_t i = 0; i < starts->size(); ++i) {
    int64_t axis = axes ? (*axes)[i] : i;
    if (axis < 0)
      axis += t.getRank();
    if (axis < 0 || axis >= t.getRank() || (*starts)[i] != 0 || (steps && (*steps)[i] != 1))
      return failure();
    bool whole = (*ends)[i] == INT64_MAX ||
                 (!t.isDynamicDim(axis) && (*ends)[i] >= t.getDimSize(axis));
    if (!whole)
      return failure();
  }
  return replaceBy(op, x, r);
}

LogicalResult removeExpand(Operation *op, PatternRewriter &r) {
  Value x = op->getOperand(0);
  if (sameStaticShape(x, op->getResult(0)))
    return replaceBy(op, x, r);
  auto shape = getConstantInts(op->getOperand(1), 64);
  RankedTensorType t = rankedType(x);
  if (!shape || !t || (int64_t)shape->size() > t.getRank() ||
      llvm::any_of(*shape, [](int64_t d) { return d != 1; }))
    return failure();
  return replaceBy(op, x, r);
}

LogicalResult removeTile(Operation *op, PatternRewriter &r) {
  auto repeats = getConstantInts(op->getOperand(1), 64);
  if (!repeats || llvm::any_of(*repeats, [](int64_t d) { return d != 1; }))
    return failure();
  return replaceBy(op, op->getOperand(0), r);
}

LogicalResult removePad(Operation *op, PatternRewriter &r) {
  auto pads = getConstantInts(op->getOperand(1), 64);
  if (!pads || llvm::any_of(*pads, [](int64_t d) { return d != 0; }))
    return failure();
  return replaceBy(op, op->getOperand(0), r);
}

LogicalResult removeClip(Operation *op, PatternRewriter &r) {
  return operand(op, 1) || operand(op, 2) ? failure() : replaceBy(op, op->getOperand(0), r);
}

bool isZeroOrOne(Value c, double wanted, bool negativeZeroOnly) {
  auto t = constantOf(c);
  if (!t || !t->isUniform() || isa<ComplexType>(t->element()))
    return false;
  double v = t->isFloat() ? t->real(0) : (double)t->integer(0);
  return v == wanted && (!negativeZeroOnly || !t->isFloat() || std::signbit(v));
}

template <bool strict> LogicalResult removeNeutral(Operation *op, PatternRewriter &r) {
  Value x = op->getOperand(0), y = op->getOperand(1);
  bool add = isOp(op, "Add"), mul = isOp(op, "Mul");
  double neutral = add || isOp(op, "Sub") ? 0 : 1;
  if (isZeroOrOne(y, neutral, add && strict) && broadcastsInto(y, x))
    return replaceBy(op, x, r);
  if ((add || mul) && isZeroOrOne(x, neutral, add && strict) && broadcastsInto(x, y))
    return replaceBy(op, y, r);
  return failure();
}

LogicalResult removeWhere(Operation *op, PatternRewriter &r) {
  auto c = uniformConstant(op->getOperand(0));
  if (!c)
    return failure();
  Value taken = op->getOperand(*c != 0 ? 1 : 2);
  return sameStaticShape(taken, op->getResult(0)) ? replaceBy(op, taken, r) : failure();
}

LogicalResult removeTwice(Operation *op, PatternRewriter &r) {
  Operation *inner = op->getOperand(0).getDefiningOp();
  if (!inner || inner->getName() != op->getName())
    return failure();
  return replaceBy(op, inner->getOperand(0), r);
}

LogicalResult removeRepeated(Operation *op, PatternRewriter &r) {
  Operation *inner = op->getOperand(0).getDefiningOp();
  if (!inner || inner->getName() != op->getName())
    return failure();
  return replaceBy(op, inner->getResult(0), r);
}

bool sameConstant(Value a, Value b) {
  if (a == b)
    return true;
  auto p = constantOf(a), q = constantOf(b);
  return p && q && p->type() == q->type() &&
         StringRef(p->data(), p->byteSize()) == StringRef(q->data(), q->byteSize());
}

// Quantising what was dequantised by the same normal scales gives the integers
// back: the error of the two roundings is far below one half.
LogicalResult removeRequantise(Operation *op, PatternRewriter &r) {
  Operation *dq = definedBy(op->getOperand(0), "DequantizeLinear");
  auto quantised = dyn_cast<IntegerType>(elementType(op->getResult(0)));
  if (!dq || !quantised || quantised.getWidth() > 16 ||
      elementType(dq->getOperand(0)) != quantised || !elementType(dq->getResult(0)).isF32() ||
      getInt(op, "axis", 1) != getInt(dq, "axis", 1) ||
      getInt(op, "block_size", 0) != getInt(dq, "block_size", 0) ||
      !sameConstant(op->getOperand(1), dq->getOperand(1)))
    return failure();
  auto scale = constantOf(op->getOperand(1));
  if (!scale)
    return failure();
  for (int64_t i = 0; i < scale->size(); ++i)
    if (!(scale->real(i) > 1e-30 && scale->real(i) < 1e30))
      return failure();
  Value z = operand(op, 2), w = operand(dq, 2);
  if (!z || !w ? (z ? uniformConstant(z) != 0.0 : w && uniformConstant(w) != 0.0)
               : !sameConstant(z, w))
    return failure();
  return replaceBy(op, dq->getOperand(0), r);
}

struct RemoveNoOpsPass : impl::RemoveNoOpsBase<RemoveNoOpsPass> {
  using RemoveNoOpsBase::RemoveNoOpsBase;
  void runOnOperation() override {
    RewritePatternSet p(&getContext());
    addRewrite(p, "Identity", removeUnary);
    addRewrite(p, "Dropout", removeDropout);
    addRewrite(p, "Cast", simplifyCast);
    addRewrite(p, "CastLike", simplifyCast);
    addRewrite(p, "Transpose", simplifyTranspose);
    addRewrite(p, "Reshape", simplifyReshape);
    addRewrite(p, "Flatten", removeFlatten);
    addRewrite(p, "Squeeze", removeSqueeze);
    addRewrite(p, "Unsqueeze", removeSqueeze);
    for (StringRef name : {"Concat", "Sum", "Mean", "Max", "Min"})
      addRewrite(p, name, removeSingle);
    addRewrite(p, "Concat", dropEmptyConcatOperands);
    addRewrite(p, "Split", removeSplit);
    addRewrite(p, "Slice", removeSlice);
    addRewrite(p, "Expand", removeExpand);
    addRewrite(p, "Tile", removeTile);
    addRewrite(p, "Pad", removePad);
    addRewrite(p, "Clip", removeClip);
    for (StringRef name : {"Add", "Sub", "Mul", "Div", "Pow"})
      addRewrite(p, name, strict ? removeNeutral<true> : removeNeutral<false>);
    addRewrite(p, "Where", removeWhere);
    for (StringRef name : {"Not", "Neg"})
      addRewrite(p, name, removeTwice);
    for (StringRef name : {"Relu", "Abs", "Floor", "Ceil", "Round"})
      addRewrite(p, name, removeRepeated);
    addRewrite(p, "QuantizeLinear", removeRequantise);
    if (failed(applyPatternsGreedily(getOperation(), std::move(p))))
      signalPassFailure();
  }
};

} // namespace

} // namespace tessera::onnx

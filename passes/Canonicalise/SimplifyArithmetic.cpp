// One spelling for arithmetic with constants, see Passes.td.
#include "passes/Canonicalise/Passes.h"

#include "passes/Canonicalise/OnnxBuilder.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

#include <cmath>

using namespace mlir;

namespace tessera::onnx {

#define GEN_PASS_DEF_SIMPLIFYARITHMETIC
#include "passes/Canonicalise/Passes.h.inc"

namespace {

template <bool strict> LogicalResult simplifyPow(Operation *op, PatternRewriter &r) {
  Value x = op->getOperand(0), y = op->getOperand(1);
  auto e = uniformConstant(y);
  if (!e || !broadcastsInto(y, x))
    return failure();
  OnnxBuilder b(r, op->getLoc());
  bool real = isa<FloatType>(elementType(x));
  Value v;
  if (*e == 2)
    v = b.mul(x, x);
  else if (*e == 3 && !strict)
    v = b.mul(b.mul(x, x), x);
  else if (*e == 0.5 && real && !strict)
    v = b.unary("Sqrt", x);
  else if (*e == -1 && real)
    v = b.unary("Reciprocal", x);
  else
    return failure();
  replaceRefining(r, op, v);
  return success();
}

// Quotients by powers of two are products, exactly, as long as the reciprocal
// is a normal number of the type.
LogicalResult simplifyDiv(Operation *op, PatternRewriter &r) {
  auto c = constantOf(op->getOperand(1));
  if (!c || !c->isFloat() || c->size() == 0 || c->size() > 65536 ||
      getConstant(op->getOperand(0)))
    return failure();
  HostTensor inverse(c->element(), c->shape());
  int limit = c->element().isF16() ? 14 : 120;
  for (int64_t i = 0; i < c->size(); ++i) {
    int exponent;
    double v = c->real(i);
    if (std::fabs(std::frexp(v, &exponent)) != 0.5 || std::abs(exponent) > limit)
      return failure();
    inverse.setReal(i, 1 / v);
  }
  OnnxBuilder b(r, op->getLoc());
  replaceRefining(r, op,
                  b.op("Mul", {op->getOperand(0), b.weight(inverse)}, op->getResult(0).getType()));
  return success();
}

LogicalResult subToAdd(Operation *op, PatternRewriter &r) {
  auto c = constantOf(op->getOperand(1));
  if (!c || c->size() > 65536 || isa<ComplexType>(c->element()) ||
      getConstant(op->getOperand(0)))
    return failure();
  HostTensor negated(c->element(), c->shape());
  for (int64_t i = 0; i < c->size(); ++i)
    if (c->isFloat())
      negated.setReal(i, -c->real(i));
    else
      negated.setInteger(i, (int64_t)(0 - (uint64_t)c->integer(i)));
  OnnxBuilder b(r, op->getLoc());
  replaceRefining(r, op,
                  b.op("Add", {op->getOperand(0), b.weight(negated)}, op->getResult(0).getType()));
  return success();
}

LogicalResult constantToTheRight(Operation *op, PatternRewriter &r) {
  if (!getConstant(op->getOperand(0)) || getConstant(op->getOperand(1)))
    return failure();
  r.modifyOpInPlace(op, [&] {
    Value x = op->getOperand(0);
    op->setOperand(0, op->getOperand(1));
    op->setOperand(1, x);
  });
  return success();
}

// Rows of a quantised table (an embedding) are chosen before they become floats,
// not the whole table made floats first.
LogicalResult gatherQuantised(Operation *op, PatternRewriter &r) {
  Operation *dequantize = definedBy(operand(op, 0), "DequantizeLinear");
  if (!dequantize || !getConstant(operand(dequantize, 0)) || getInt(dequantize, "block_size", 0) != 0)
    return failure();
  Value table = operand(dequantize, 0), scale = operand(dequantize, 1), ids = operand(op, 1);
  RankedTensorType type = rankedType(table), scaleType = rankedType(scale), idsType = rankedType(ids);
  auto result = dyn_cast<RankedTensorType>(op->getResult(0).getType());
  if (!type || !scaleType || !idsType || !result)
    return failure();
  int64_t rank = type.getRank(), axis = getInt(op, "axis", 0), scaleAxis = getInt(dequantize, "axis", 1);
  axis += axis < 0 ? rank : 0;
  scaleAxis += scaleAxis < 0 ? rank : 0;
  if (scaleType.getRank() != 0) { // one scale a position of an axis that stays
    if (scaleType.getRank() != 1 || scaleAxis == axis || scaleAxis >= rank)
      return failure();
    scaleAxis += scaleAxis > axis ? idsType.getRank() - 1 : 0;
  } else {
    scaleAxis = 0;
  }
  OnnxBuilder b(r, op->getLoc());
  Value rows = b.op("Gather", {table, ids}, result.clone(type.getElementType()), {b.i("axis", axis)});
  SmallVector<NamedAttribute> attributes{b.i("axis", scaleAxis)};
  if (Attribute kind = dequantize->getAttr("output_dtype"))
    attributes.push_back(r.getNamedAttr("output_dtype", kind));
  replaceRefining(r, op, b.op("DequantizeLinear", {rows, scale, operand(dequantize, 2)}, result, attributes));
  return success();
}

// The same where the table is Mul(Cast(W), scale), both constant, gathered by rows.
LogicalResult gatherScaled(Operation *op, PatternRewriter &r) {
  Operation *product = definedBy(operand(op, 0), "Mul");
  RankedTensorType type = rankedType(operand(op, 0)), ids = rankedType(operand(op, 1));
  if (!product || !type || !type.hasStaticShape() || type.getRank() < 1 || !ids || getInt(op, "axis", 0) != 0 ||
      !isa<RankedTensorType>(op->getResult(0).getType()))
    return failure();
  SmallVector<Value> constants;
  for (Value factor : product->getOperands()) {
    Operation *cast = definedBy(factor, "Cast");
    Value constant = cast ? operand(cast, 0) : factor;
    RankedTensorType t = rankedType(constant);
    bool rows = t && t.getRank() == type.getRank() && t.getDimSize(0) == type.getDimSize(0);
    if (!getConstant(constant) || !t || (!rows && t.getRank() == type.getRank()))
      return failure();
    constants.push_back(constant);
  }
  OnnxBuilder b(r, op->getLoc());
  SmallVector<Value> factors;
  for (auto [constant, factor] : llvm::zip(constants, product->getOperands())) {
    RankedTensorType t = rankedType(constant);
    if (t.getRank() < type.getRank()) { // the same for every row
      factors.push_back(factor);
      continue;
    }
    SmallVector<int64_t> shape(ids.getShape());
    shape.append(t.getShape().begin() + 1, t.getShape().end());
    Value rows = b.op("Gather", {constant, operand(op, 1)}, t.clone(shape), {b.i("axis", 0)});
    factors.push_back(b.cast(rows, elementType(factor)));
  }
  replaceRefining(r, op, b.op("Mul", factors, op->getResult(0).getType()));
  return success();
}

struct SimplifyArithmeticPass : impl::SimplifyArithmeticBase<SimplifyArithmeticPass> {
  using SimplifyArithmeticBase::SimplifyArithmeticBase;
  void runOnOperation() override {
    RewritePatternSet p(&getContext());
    addRewrite(p, "Pow", strict ? simplifyPow<true> : simplifyPow<false>);
    addRewrite(p, "Div", simplifyDiv);
    addRewrite(p, "Sub", subToAdd);
    addRewrite(p, "Add", constantToTheRight);
    addRewrite(p, "Mul", constantToTheRight);
    addRewrite(p, "Gather", gatherQuantised);
    addRewrite(p, "Gather", gatherScaled);
    if (failed(applyPatternsGreedily(getOperation(), std::move(p))))
      signalPassFailure();
  }
};

} // namespace

} // namespace tessera::onnx

// Integers without a sign become integers with one, see Passes.td.
//
//   BEFORE  q = QuantizeLinear(x, s, 200) : ui8   y = DequantizeLinear(q, s, 200)
//   AFTER   q = QuantizeLinear(x, s, 72) : i8     y = DequantizeLinear(q, s, 72)
#include "passes/Canonicalise/Passes.h"

#include "passes/Canonicalise/OnnxBuilder.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;

namespace tessera::onnx {

#define GEN_PASS_DEF_SIGNQUANTISERS
#include "passes/Canonicalise/Passes.h.inc"

namespace {

constexpr unsigned scaleAt = 1, zeroAt = 2;

/// The signed type of as many bits; null for others.
Type signedTwin(Type element) {
  bool twin = element.isUnsignedInteger(8) || element.isUnsignedInteger(16);
  return twin ? IntegerType::get(element.getContext(), element.getIntOrFloatBitWidth()) : Type();
}

/// Whether the zero point is absent or known.
bool zeroIsKnown(Operation *op) { return !operand(op, zeroAt) || constantOf(operand(op, zeroAt)); }

/// The zero point less half the range; one for each scale where none is given.
Value signedZero(Operation *op, Type element, OnnxBuilder &b) {
  auto scale = rankedType(operand(op, scaleAt));
  std::optional<HostTensor> given = constantOf(operand(op, zeroAt));
  HostTensor zero(element, given ? given->shape() : scale.getShape());
  zero.mutableData();
  for (int64_t i = 0; i < zero.size(); ++i)
    zero.setInteger(i, (given ? given->integer(i) : 0) - (int64_t(1) << (element.getIntOrFloatBitWidth() - 1)));
  return b.weight(zero);
}

/// `op`, on signed integers.
Value twinOf(Operation *op, Value in, Type element, Type result, PatternRewriter &r) {
  OnnxBuilder b(r, op->getLoc());
  SmallVector<NamedAttribute> attributes;
  for (NamedAttribute a : op->getAttrs()) // output_dtype: the zero point says the type
    if (!a.getName().strref().ends_with("SegmentSizes") && !(isOp(op, "QuantizeLinear") && a.getName() == "output_dtype"))
      attributes.push_back(a);
  return b.op(op->getName().stripDialect(), {in, operand(op, scaleAt), signedZero(op, element, b)}, result, attributes);
}

LogicalResult sign(Operation *op, PatternRewriter &r) {
  auto type = rankedType(op->getResult(0));
  Type element = type ? signedTwin(type.getElementType()) : Type();
  auto scale = rankedType(operand(op, scaleAt));
  if (!element || !scale || !scale.hasStaticShape() || !zeroIsKnown(op))
    return failure();
  SmallVector<Operation *> readers;
  for (OpOperand &use : op->getResult(0).getUses()) {
    Operation *user = use.getOwner();
    auto its = isOp(user, "DequantizeLinear") ? rankedType(operand(user, scaleAt)) : RankedTensorType();
    if (!its || !its.hasStaticShape() || use.getOperandNumber() != 0 || !zeroIsKnown(user))
      return failure();
    readers.push_back(user);
  }
  Value y = twinOf(op, op->getOperand(0), element, type.clone(element), r);
  for (Operation *reader : readers) {
    r.setInsertionPoint(reader);
    r.replaceOp(reader, twinOf(reader, y, element, reader->getResult(0).getType(), r));
  }
  r.eraseOp(op);
  return success();
}

struct SignQuantisersPass : impl::SignQuantisersBase<SignQuantisersPass> {
  void runOnOperation() override {
    RewritePatternSet p(&getContext());
    addRewrite(p, "QuantizeLinear", sign);
    if (failed(applyPatternsGreedily(getOperation(), std::move(p))))
      signalPassFailure();
  }
};

} // namespace
} // namespace tessera::onnx

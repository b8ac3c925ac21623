// QLinearMatMul and QLinearConv by their integer operators.
//
//   BEFORE  y = QLinearMatMul(a, as, az, b, bs, bz, ys, yz)
//   AFTER   c = MatMulInteger(a, b, az, bz)            exact, int32
//           y = QuantizeLinear(Cast(c) * (as * bs / ys), 1, yz)
// The factor is computed in float32 whatever the scales are: three roundings in
// float16 would move results by more than half a step.
#include "passes/Canonicalise/OnnxBuilder.h"

using namespace mlir;

namespace tessera::onnx {

namespace {

bool isSingle(Value v) {
  RankedTensorType t = rankedType(v);
  return t && t.hasStaticShape() && t.getNumElements() == 1;
}

/// `v` with its one element as a scalar; others stay.
Value scalarIfSingle(OnnxBuilder &b, Value v) {
  RankedTensorType t = v ? rankedType(v) : RankedTensorType();
  if (!t || t.getRank() == 0 || !isSingle(v))
    return v;
  return b.reshape(v, {}, RankedTensorType::get({}, t.getElementType()));
}

/// as * bs / ys in float32.
Value factor(OnnxBuilder &b, Value as, Value bs, Value ys) {
  Type f32 = b.attrs().getF32Type();
  return b.div(b.mul(b.cast(as, f32), b.cast(bs, f32)), b.cast(ys, f32));
}

Value requantize(OnnxBuilder &b, Value integers, Value factor, Value zero, Type element) {
  Type f32 = b.attrs().getF32Type();
  Value x = b.mul(b.cast(integers, f32), factor);
  return b.op("QuantizeLinear", {x, b.scalar(f32, 1), zero}, cast<ShapedType>(x.getType()).clone(element));
}

/// A parameter along the rows of the left operand: [M] becomes [M, 1].
Value alongRows(OnnxBuilder &b, Value v) {
  v = scalarIfSingle(b, v);
  return v && rankedType(v) && rankedType(v).getRank() == 1 ? b.unsqueeze(v, {1}) : v;
}

} // namespace

LogicalResult decomposeQLinearMatMul(Operation *op, PatternRewriter &r) {
  Value x = operand(op, 0), w = operand(op, 3);
  Value ys = operand(op, 6), yz = operand(op, 7);
  if (!rankedType(x) || !rankedType(w) || rankedType(x).getRank() < 2 || rankedType(w).getRank() < 2 ||
      !elementType(x).isInteger(8) || !elementType(w).isInteger(8) || !isSingle(ys) || !isSingle(yz))
    return failure();
  for (unsigned p : {1, 2, 4, 5})
    if (!operand(op, p) || !rankedType(operand(op, p)))
      return failure();
  OnnxBuilder b(r, op->getLoc());
  // Zero points of rows: MatMulInteger knows them as a vector.
  Value c = b.op("MatMulInteger", {x, w, scalarIfSingle(b, operand(op, 2)), scalarIfSingle(b, operand(op, 5))},
                 matmulType(x, w, r.getIntegerType(32)));
  Value f = factor(b, alongRows(b, operand(op, 1)), scalarIfSingle(b, operand(op, 4)), scalarIfSingle(b, ys));
  replaceRefining(r, op, requantize(b, c, f, scalarIfSingle(b, yz), elementType(op->getResult(0))));
  return success();
}

LogicalResult decomposeQLinearConv(Operation *op, PatternRewriter &r) {
  Value x = operand(op, 0), w = operand(op, 3), bias = operand(op, 8);
  Value xs = operand(op, 1), ws = operand(op, 4), ys = operand(op, 6);
  Value xz = operand(op, 2), wz = operand(op, 5), yz = operand(op, 7);
  RankedTensorType type = rankedType(op->getResult(0));
  if (!type || type.getRank() < 3 || !isSingle(xs) || !isSingle(xz) || !isSingle(ys) || !isSingle(yz) ||
      !rankedType(ws) || !rankedType(wz))
    return failure();
  OnnxBuilder b(r, op->getLoc());
  SmallVector<NamedAttribute> attrs;
  for (NamedAttribute a : op->getAttrs())
    if (a.getName() != "operandSegmentSizes" && a.getName() != "resultSegmentSizes")
      attrs.push_back(a);
  SmallVector<int64_t> spatial;
  for (int64_t k = 1; k + 1 < type.getRank(); ++k)
    spatial.push_back(k);
  auto alongChannels = [&](Value v) {
    v = scalarIfSingle(b, v);
    return rankedType(v).getRank() == 1 ? b.unsqueeze(v, spatial) : v;
  };
  Value c = b.op("ConvInteger", {x, w, scalarIfSingle(b, xz), scalarIfSingle(b, wz)},
                 type.clone(r.getIntegerType(32)), attrs);
  if (bias) // int32 at the scale of the products
    c = b.add(c, b.unsqueeze(bias, spatial));
  Value f = factor(b, scalarIfSingle(b, xs), alongChannels(ws), scalarIfSingle(b, ys));
  replaceRefining(r, op, requantize(b, c, f, scalarIfSingle(b, yz), type.getElementType()));
  return success();
}

} // namespace tessera::onnx

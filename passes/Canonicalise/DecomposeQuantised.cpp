// QLinearMatMul and QLinearConv by their integer operators.
//
//   BEFORE  y = QLinearMatMul(a, as, az, b, bs, bz, ys, yz)
//   AFTER   c = MatMulInteger(a, b, az, bz)            exact, int32
//           y = QuantizeLinear(Cast(Cast(c) * (as * bs)), ys, yz)
// The product with the scales is taken in double and rounded to float32: what
// DequantizeLinear, MatMul and QuantizeLinear mean (dialects/Onnx/Numerics.md).
// Sums that int32 may not hold are taken in double as well.
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

/// Whether a sum of `steps` products of bytes may leave int32 (negative: unknown).
bool overflows(int64_t steps) { return steps < 0 || steps > INT32_MAX / 65025; }

/// integers - zero in double.
Value differences(OnnxBuilder &b, Value integers, Value zero) {
  Value x = b.cast(integers, b.attrs().getF64Type());
  return zero ? b.op("Sub", {x, b.cast(zero, b.attrs().getF64Type())}, x.getType()) : x;
}

/// QuantizeLinear(sums * as * bs); the scales broadcast against the sums.
Value requantize(OnnxBuilder &b, Value sums, Value as, Value bs, Value ys, Value zero, Type element) {
  Type f32 = b.attrs().getF32Type(), f64 = b.attrs().getF64Type();
  Value wide = b.cast(sums, f64), scaled = b.mul(wide, b.mul(b.cast(as, f64), b.cast(bs, f64)));
  Value x = b.cast(scaled, f32);
  return b.op("QuantizeLinear", {x, b.cast(ys, f32), zero}, cast<ShapedType>(x.getType()).clone(element));
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
  Value xz = scalarIfSingle(b, operand(op, 2)), wz = scalarIfSingle(b, operand(op, 5)), c;
  if (overflows(rankedType(x).getShape().back()))
    c = b.op("MatMul", {differences(b, x, alongRows(b, xz)), differences(b, w, wz)}, matmulType(x, w, r.getF64Type()));
  else
    c = b.op("MatMulInteger", {x, w, xz, wz}, matmulType(x, w, r.getIntegerType(32)));
  replaceRefining(r, op,
                  requantize(b, c, alongRows(b, operand(op, 1)), scalarIfSingle(b, operand(op, 4)),
                             scalarIfSingle(b, ys), scalarIfSingle(b, yz), elementType(op->getResult(0))));
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
  auto alongChannels = [&](Value v, int64_t behind) {
    v = scalarIfSingle(b, v);
    SmallVector<int64_t> axes = llvm::to_vector(llvm::seq<int64_t>(1, behind + 1));
    return rankedType(v).getRank() == 1 ? b.unsqueeze(v, axes) : v;
  };
  int64_t axes = type.getRank() - 2, steps = 1;
  RankedTensorType weights = rankedType(w);
  for (int64_t d : weights ? weights.getShape().drop_front(1) : ArrayRef<int64_t>(ShapedType::kDynamic))
    steps = d < 0 || steps < 0 ? -1 : steps * d;
  Value c;
  if (overflows(steps))
    c = b.op("Conv", {differences(b, x, scalarIfSingle(b, xz)), differences(b, w, alongChannels(wz, axes + 1)), Value()},
             type.clone(r.getF64Type()), attrs);
  else
    c = b.op("ConvInteger", {x, w, scalarIfSingle(b, xz), scalarIfSingle(b, wz)}, type.clone(r.getIntegerType(32)), attrs);
  if (bias) { // int32 at the scale of the products; the sum may not be one
    Value wide = b.cast(c, r.getF64Type());
    c = b.add(wide, b.cast(alongChannels(bias, axes), r.getF64Type()));
  }
  replaceRefining(r, op,
                  requantize(b, c, scalarIfSingle(b, xs), alongChannels(ws, axes), scalarIfSingle(b, ys),
                             scalarIfSingle(b, yz), type.getElementType()));
  return success();
}

} // namespace tessera::onnx

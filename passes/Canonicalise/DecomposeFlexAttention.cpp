// FlexAttention with modifier bodies; without them its own function body serves.
//
//   scores = score_mod((Q sqrt(scale)) (K sqrt(scale))^T)   in the softmax's type
//   Y = prob_mod(Softmax(scores)) V
#include "passes/Canonicalise/OnnxBuilder.h"

#include "dialects/Onnx/IR/OpsCore.h"
#include "dialects/Onnx/IR/Unsupported.h"

#include <cmath>

using namespace mlir;

namespace tessera::onnx {

namespace {

/// Whether `region` is absent or maps one tensor of `element` to one.
bool fits(Region &region, Type element) {
  if (region.empty())
    return true;
  Block &body = region.front();
  return body.getNumArguments() == 1 && body.getTerminator()->getNumOperands() == 1 &&
         elementType(body.getArgument(0)) == element && elementType(body.getTerminator()->getOperand(0)) == element;
}

/// The body's result for `x`; the body is moved in front of `op`.
Value apply(Region &region, Value x, Operation *op, PatternRewriter &r) {
  if (region.empty())
    return x;
  Block &body = region.front();
  Operation *yield = body.getTerminator();
  r.inlineBlockBefore(&body, op, x);
  Value y = yield->getOperand(0);
  r.eraseOp(yield);
  return y;
}

/// Each head `count` times: [B, H, S, E] to [B, H * count, S, E].
Value repeatHeads(OnnxBuilder &b, Value v, int64_t count) {
  RankedTensorType t = rankedType(v);
  if (count == 1)
    return v;
  int64_t heads = t.getDimSize(1) * count;
  Value one = b.unsqueeze(v, {2});
  SmallVector<int64_t> wide(rankedType(one).getShape());
  wide[2] = count;
  Value all = b.op("Concat", SmallVector<Value>(count, one), t.clone(wide), {b.i("axis", 2)});
  SmallVector<int64_t> shape(t.getShape());
  shape[1] = heads;
  return b.reshape(all, {0, heads, -1, t.getDimSize(3)}, t.clone(shape));
}

} // namespace

LogicalResult decomposeFlexAttention(Operation *op, PatternRewriter &r) {
  if (op->getNumRegions() != 2 || (op->getRegion(0).empty() && op->getRegion(1).empty()))
    return failure();
  Value q = operand(op, 0), k = operand(op, 1), v = operand(op, 2);
  for (Value x : {q, k, v})
    if (!rankedType(x) || rankedType(x).getRank() != 4 || rankedType(x).isDynamicDim(1) ||
        rankedType(x).isDynamicDim(3))
      return unsupported(op, "query, key and value have to have rank 4 with known heads and head sizes");
  Type element = elementType(q), inner = element.isF64() ? element : Type(r.getF32Type());
  if (op->hasAttr("softmax_precision"))
    inner = typeOfOnnxCode(r.getContext(), getInt(op, "softmax_precision"));
  int64_t heads = rankedType(q).getDimSize(1), groups = rankedType(k).getDimSize(1);
  if (!isa_and_nonnull<FloatType>(inner) || groups <= 0 || heads % groups != 0 ||
      rankedType(v).getDimSize(1) != groups || !fits(op->getRegion(0), inner) || !fits(op->getRegion(1), inner))
    return unsupported(op, Twine(heads) + " heads of the query, " + Twine(groups) +
                               " of the key, or the bodies of score_mod and prob_mod do not fit");
  OnnxBuilder b(r, op->getLoc());
  float scale = op->hasAttr("scale") ? (float)getFloat(op, "scale")
                                     : (float)(1 / std::sqrt((double)rankedType(q).getDimSize(3)));
  Value root = b.scalar(element, std::sqrt(scale));
  k = repeatHeads(b, k, heads / groups);
  v = repeatHeads(b, v, heads / groups);
  Value scores = b.matmul(b.mul(q, root), b.transpose(b.mul(k, root), {0, 1, 3, 2}));
  scores = apply(op->getRegion(0), b.cast(scores, inner), op, r);
  Value probabilities = b.unary("Softmax", scores, {b.i("axis", -1)});
  probabilities = apply(op->getRegion(1), probabilities, op, r);
  Value y = b.cast(b.matmul(probabilities, b.cast(v, inner)), element);
  replaceRefining(r, op, y);
  return success();
}

} // namespace tessera::onnx

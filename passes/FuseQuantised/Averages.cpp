// Averages of quantised tensors by exact integer sums.
//
//   BEFORE  y = GlobalAveragePool(DequantizeLinear(x, scale, zero))   float32
//   AFTER   c = ConvInteger(x, ones, zero), a group a channel         int32
//           y = Cast(Cast(c) * (scale / count))                       double,
//           then float32
//
// Nothing is wider than the bytes before they are summed, and what follows is
// the form that Requantise.cpp knows.
#include "passes/FuseQuantised/Rules.h"

using namespace mlir;
using tessera::onnx::HostTensor;
using tessera::onnx::OnnxBuilder;

namespace tessera {

/// An array attribute of `count` times `v`.
static NamedAttribute repeated(OnnxBuilder &b, StringRef name, int64_t count,
                               int64_t v) {
  return b.is(name, SmallVector<int64_t>(count, v));
}

static Value buildAverage(OnnxBuilder &b, Operation *op) {
  auto q = readQuantised(b, onnx::operand(op, 0));
  if (!q || q->bits() != 8 || q->axis >= 0 || q->block ||
      !q->type().hasStaticShape() || q->type().getRank() < 3)
    return {};
  ArrayRef<int64_t> shape = q->type().getShape(), spatial = shape.drop_front(2);
  int64_t count = onnx::elementCount(spatial), axes = spatial.size();
  if (count == 0 || count > 1 << 20 || axes > 3) // sums of 28 bits
    return {};
  SmallVector<int64_t> window{shape[1], 1};
  window.append(spatial.begin(), spatial.end());
  HostTensor ones(b.attrs().getIntegerType(8), window);
  ones.mutableData();
  for (int64_t i = 0; i < ones.size(); ++i)
    ones.setInteger(i, 1);
  Value zero;
  if (q->zero && onnx::uniformConstant(q->zero) != 0.0)
    zero = alongAxis(b, q->zero, -1, 0);
  auto type = onnx::rankedType(op->getResult(0));
  Type f64 = b.attrs().getF64Type();
  Value sums =
      b.op("ConvInteger", {q->integers, b.weight(ones), zero},
           type.clone(b.attrs().getI32Type()),
           {b.i("group", shape[1]), b.is("kernel_shape", spatial),
            repeated(b, "pads", 2 * axes, 0), repeated(b, "strides", axes, 1)});
  if (!isServed(sums.getDefiningOp()))
    return {};
  Value scale = alongAxis(b, b.cast(q->scale, f64), -1, 0);
  Value factor = b.div(scale, b.scalar(f64, static_cast<double>(count)));
  Value wide = b.cast(sums, f64);
  return b.cast(b.op("Mul", {wide, factor}, wide.getType()),
                type.getElementType());
}

bool sumAverage(Operation *op, IRRewriter &r) {
  if (!onnx::isOp(op, "GlobalAveragePool") ||
      !onnx::rankedType(op->getResult(0)) ||
      !onnx::elementType(op->getResult(0)).isF32())
    return false;
  OnnxBuilder b(r, op->getLoc());
  Operation *before = op->getPrevNode();
  Block *block = op->getBlock();
  Value y = buildAverage(b, op);
  if (y)
    r.replaceOp(op, y);
  dropUnused(before ? before->getNextNode() : &block->front(),
             y ? y.getDefiningOp() : op);
  return static_cast<bool>(y);
}

} // namespace tessera

// Softmax and LogSoftmax along one axis: the greatest, the sum of exponentials,
// and what is stored. 16-bit floats are rounded where ONNX's function body
// does.
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "targets/Cpu/Kernels/Window.h"
#include "targets/Cpu/Math.h"
#include "targets/Vulkan/Kernels/Boxes.h"
#include "targets/Vulkan/Kernels/Rows.h"

using namespace mlir;

namespace tessera::vulkan {
namespace {

LogicalResult emitSoftmax(tsr::DispatchOp op, Emitter &e) {
  Operation *root = op.getRootOp();
  Buffer *in = rootBuffer(op, e, 0), *out = e.out[0].get();
  if (failed(requireAlone(op, e)))
    return failure();
  if (!in || in->strides != out->strides)
    return e.reasons.no() << "a softmax that is fused or changes its layout";
  if (!in->element.isF32() && !in->element.isF16() && !in->element.isBF16())
    return e.reasons.no() << "a softmax of " << onnx::getTypeName(in->element);
  bool logarithm = root->getName().getStringRef() == "onnx.LogSoftmax";
  int64_t axis = axisOf(root, "axis", -1, in->rank());
  Rows rows(e, *in, axis);
  rows.forRows([&] {
    if (rows.quads())
      out->useVectors();
    Value greatest = rows.reduce(
        cpu::lowestOf(e, e.f32(), false), [](Value x, Index) { return x; },
        [&](Value a, Value b) { return e.maxF(a, b); });
    auto exponential = [&](Value x) {
      return e.round(cpu::math::exp(e, e.subF(x, rows.spread(greatest))),
                     in->element);
    };
    Value sum = rows.reduce(
        e.floatConst(e.f32(), 0),
        [&](Value x, Index) { return exponential(x); },
        [&](Value a, Value b) { return e.addF(a, b); });
    sum = e.round(sum, in->element);
    Value scale = logarithm ? cpu::math::log(e, sum) : sum;
    rows.each([&](Value x, Index i) {
      Value y = logarithm ? e.subF(e.subF(x, rows.spread(greatest)),
                                   rows.spread(scale))
                          : e.divF(exponential(x), rows.spread(scale));
      y = e.round(y, in->element);
      Index to = rows.offsetOf(out->strides, i, rows.quads());
      if (rows.quads())
        e.storeQuad(*out, to, y);
      else
        e.store(*out, to, y);
    });
  });
  return success();
}
Register softmax({"onnx.Softmax", "onnx.LogSoftmax"}, emitSoftmax);

} // namespace
} // namespace tessera::vulkan

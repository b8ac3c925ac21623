// DynamicQuantizeLinear: one pass for the range, one to quantise.
#include "targets/Cpu/Kernels/Lanes.h"
#include "targets/Cpu/Kernels/RootView.h"
#include "targets/Cpu/Math.h"

using namespace mlir;

namespace tessera::cpu {
namespace {

class DynamicQuantizeKernel final : public KernelBuilder {
public:
  tsr::KernelClass kernelClass(Operation *) const override { return tsr::KernelClass::Loops; }
  LogicalResult match(Operation *root, Reasons &reasons) const override {
    if (!requireNumeric(root, reasons))
      return failure();
    if (!operandElement(root, 0).isF32())
      return reasons.no() << "element type " << onnx::getTypeName(operandElement(root, 0));
    return success();
  }
  bool acceptsChannelsLast(Operation *) const override { return true; }
  LogicalResult emit(tsr::DispatchOp op, KernelEmitter &e) const override {
    RootView v(op, e);
    const TensorRef *in = v.in(0), *out = v.out(0), *scaleOut = v.out(1), *zeroOut = v.out(2);
    if (!in || (out && out->layout != in->layout))
      return failure();
    Value n = e.product(in->dims), zero = e.floatConst(e.f32(), 0);
    // Zero is always in the range, so it is a neutral start. NaN is ignored.
    LaneFold fold(e, 32, 4, {zero, zero});
    auto pick = [&](arith::CmpFPredicate p, Value x, Value best) {
      return Value(arith::SelectOp::create(e.b, e.loc, e.cmpF(p, x, best), x, best));
    };
    auto least = [&](Value x, Value best) { return pick(arith::CmpFPredicate::OLT, x, best); };
    auto most = [&](Value x, Value best) { return pick(arith::CmpFPredicate::OGT, x, best); };
    auto flat = fold.run(n, fold.start(), [&](ArrayRef<Value> s, Value i, Lanes l, Value mask) -> Accs {
      Value x = e.loadLanes(*in, i, l, mask);
      return {least(x, s[0]), most(x, s[1])};
    });
    Accs range = fold.finish(
        flat,
        [&](ArrayRef<Value> a, ArrayRef<Value> b) -> Accs { return {least(a[0], b[0]), most(a[1], b[1])}; },
        [&](ArrayRef<Value> a) -> Accs { return {e.reduceMin(a[0]), e.reduceMax(a[1])}; });
    Value top = e.floatConst(e.f32(), 255);
    Value scale = e.divF(e.subF(range[1], range[0]), top);
    // An all-zero tensor has scale 0: 1 is used for the division, as its quotients are 0.
    Value flatScale = e.cmpF(arith::CmpFPredicate::OEQ, scale, zero);
    Value divisor = e.select(flatScale, e.floatConst(e.f32(), 1), scale);
    auto clamp = [&](Value x) {
      Value lo = e.floatConst(x.getType(), 0), hi = e.floatConst(x.getType(), 255);
      return least(most(x, lo), hi);
    };
    Value zeroPoint = math::roundEven(e, clamp(e.divF(e.subF(zero, range[0]), divisor)));
    if (scaleOut)
      e.storeElement(*scaleOut, e.idx(0), scale);
    if (zeroOut)
      e.storeElement(*zeroOut, e.idx(0), e.cast(zeroPoint, e.f32(), zeroOut->element));
    if (!out)
      return success();
    e.vectorLoop(n, 32, 4, [&](Value i, Lanes l, Value mask) {
      Value x = e.loadLanes(*in, i, l, mask);
      Value q = math::roundEven(e, e.divF(x, e.splat(divisor, l)));
      q = clamp(e.addF(q, e.splat(zeroPoint, l)));
      Type i32 = KernelEmitter::sameShape(q, e.i32());
      Value wide = arith::FPToSIOp::create(e.b, e.loc, i32, q);
      Value byte = arith::TruncIOp::create(e.b, e.loc, KernelEmitter::sameShape(q, e.i8()), wide);
      e.storeLanes(*out, i, byte, mask);
    });
    return success();
  }
};
TESSERA_KERNEL(DynamicQuantizeKernel, "onnx.DynamicQuantizeLinear");

} // namespace
} // namespace tessera::cpu

// DynamicQuantizeLinear: one workgroup finds the range and quantises by it.
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "targets/Cpu/Math.h"
#include "targets/Vulkan/Kernels/Boxes.h"

using namespace mlir;

namespace tessera::vulkan {
namespace {

class DynamicQuantize {
public:
  DynamicQuantize(tsr::DispatchOp op, Emitter &e) : op(op), e(e) {}
  LogicalResult emit();

private:
  Value least(Value x, Value best) {
    return e.pick(e.cmpF(arith::CmpFPredicate::OLT, x, best), x, best);
  }
  Value most(Value x, Value best) {
    return e.pick(e.cmpF(arith::CmpFPredicate::OGT, x, best), x, best);
  }
  Value clamp(Value x) {
    return least(most(x, e.floatConst(e.f32(), 0)), e.floatConst(e.f32(), 255));
  }
  std::pair<Value, Value> range(Buffer &in);

  tsr::DispatchOp op;
  Emitter &e;
  int64_t threads = 1;
};

/// Zero is always in the range, so it is a neutral start. NaN is ignored.
std::pair<Value, Value> DynamicQuantize::range(Buffer &in) {
  Value zero = e.floatConst(e.f32(), 0);
  SmallVector<Value> part = e.loop(
      e.localId(0), in.count, threads, {zero, zero},
      [&](Index i, ValueRange carried) {
        Value x = e.load(in, i);
        return SmallVector<Value>{least(x, carried[0]), most(x, carried[1])};
      });
  Value low = e.shared(threads, e.f32()), high = e.shared(threads, e.f32());
  Index id = e.localId(0);
  e.storeShared(low, id, part[0]);
  e.storeShared(high, id, part[1]);
  e.barrier();
  for (int64_t half = threads / 2; half; half /= 2) {
    e.when(e.lt(id, half), [&] {
      Index other = e.add(id, half);
      e.storeShared(low, id,
                    least(e.loadShared(low, other), e.loadShared(low, id)));
      e.storeShared(high, id,
                    most(e.loadShared(high, other), e.loadShared(high, id)));
    });
    e.barrier();
  }
  return {e.loadShared(low, 0), e.loadShared(high, 0)};
}

LogicalResult DynamicQuantize::emit() {
  Buffer *in = rootBuffer(op, e, 0), *out = rootResult(op, e, 0),
         *scaleOut = rootResult(op, e, 1), *zeroOut = rootResult(op, e, 2);
  if (failed(requireAlone(op, e)))
    return failure();
  if (!in || !in->element.isF32() || in->count == 0 ||
      (out && out->strides != in->strides))
    return e.reasons.no() << "a dynamic quantisation of an embedded or empty "
                             "operand, or one that changes its layout";
  threads = std::min<int64_t>(e.device.maxInvocations, 128);
  while (threads & (threads - 1))
    threads &= threads - 1; // a power of two
  e.kernel.local = {static_cast<uint32_t>(threads), 1, 1};
  e.kernel.groups = {1, 1, 1};
  auto [low, high] = range(*in);
  Value zero = e.floatConst(e.f32(), 0), one = e.floatConst(e.f32(), 1);
  Value scale = e.divF(e.subF(high, low), e.floatConst(e.f32(), 255));
  // An all-zero tensor has scale 0: 1 is used for the division.
  Value none = e.cmpF(arith::CmpFPredicate::OEQ, scale, zero);
  Value divisor = e.pick(none, one, scale);
  Value zeroPoint =
      cpu::math::roundEven(e, clamp(e.divF(e.subF(zero, low), divisor)));
  auto byteOf = [&](Value x) {
    Value wide = arith::FPToSIOp::create(e.b, e.loc, e.i32(), x);
    return Value(arith::TruncIOp::create(e.b, e.loc, e.i8(), wide));
  };
  Value first = e.lt(e.localId(0), 1);
  e.when(first, [&] {
    if (scaleOut)
      e.store(*scaleOut, 0, scale);
    if (zeroOut)
      e.store(*zeroOut, 0, byteOf(zeroPoint));
  });
  if (out)
    e.loop(e.localId(0), in->count, threads, {}, [&](Index i, ValueRange) {
      Value q = cpu::math::roundEven(e, e.divF(e.load(*in, i), divisor));
      e.store(*out, i, byteOf(clamp(e.addF(q, zeroPoint))));
      return SmallVector<Value>{};
    });
  return success();
}

LogicalResult emitDynamicQuantize(tsr::DispatchOp op, Emitter &e) {
  return DynamicQuantize(op, e).emit();
}
Register dynamicQuantize({"onnx.DynamicQuantizeLinear"}, emitDynamicQuantize);

} // namespace
} // namespace tessera::vulkan

// MaxRoiPool: corners are rounded to pixels, ends included, and every bin takes
// the pixels that it touches. A bin without any is 0. The text of ONNX leaves the
// rounding open; this is what onnxruntime does, after the paper's own code.
#include "targets/Cpu/Kernels/Combine.h"
#include "targets/Cpu/Kernels/RootView.h"
#include "targets/Cpu/Math.h"

using namespace mlir;

namespace tessera::cpu {
namespace {

using P = arith::CmpFPredicate;

class MaxRoiPoolKernel final : public KernelBuilder {
public:
  tsr::KernelClass kernelClass(Operation *) const override { return tsr::KernelClass::Loops; }
  LogicalResult match(Operation *root, Reasons &reasons) const override {
    if (!requireNumeric(root, reasons))
      return failure();
    if (operandType(root, 0).getRank() != 4 || operandType(root, 1).getRank() != 2)
      reasons.no() << "ranks " << operandType(root, 0).getRank() << " and " << operandType(root, 1).getRank() << " are not 4 and 2";
    if (!isa<FloatType>(operandElement(root, 0)))
      reasons.no() << "element type " << onnx::getTypeName(operandElement(root, 0));
    return success(reasons.empty());
  }

  LogicalResult emit(tsr::DispatchOp op, KernelEmitter &e) const override {
    RootView v(op, e);
    const TensorRef *in = v.in(0), *rois = v.in(1), *out = v.out(0);
    if (!in || !rois || !out)
      return failure();
    double scale = onnx::getFloat(v.root, "spatial_scale", 1);
    Type type = KernelEmitter::valueType(rois->element);
    e.forLoop(out->dims[0], [&](Value r) {
      Value image = whole(e, e.load(*rois, {r, e.idx(0)}));
      Value good = e.logicalAnd(e.cmp(arith::CmpIPredicate::sge, image, e.idx(0)), e.lt(image, in->dims[0]));
      e.failIf(e.logicalNot(good), TSR_KERNEL_INDEX_OUT_OF_RANGE);
      Value corner[4];
      for (unsigned k = 0; k < 4; ++k)
        corner[k] = pixel(e, e.mulF(e.load(*rois, {r, e.idx(k + 1)}), e.floatConst(type, scale)));
      e.ifThen(good, [&] {
        e.forAll({out->dims[2], out->dims[3]}, [&](ArrayRef<Value> at) {
          Bin rows = bin(e, type, corner[1], corner[3], at[0], out->dims[2], in->dims[2]);
          Bin columns = bin(e, type, corner[0], corner[2], at[1], out->dims[3], in->dims[3]);
          e.forLoop(out->dims[1], [&](Value channel) {
            Value base = e.add(e.mul(image, in->strides[0]), e.mul(channel, in->strides[1]));
            e.store(*out, {r, channel, at[0], at[1]}, largest(e, *in, base, rows, columns));
          });
        });
      });
    });
    return success();
  }

private:
  struct Bin {
    Value begin, end;
  };

  static Value whole(KernelEmitter &e, Value x) {
    Value ok = e.cmpF(P::OLT, math::abs(e, x), e.floatConst(x.getType(), 1e9));
    return arith::FPToSIOp::create(e.b, e.loc, e.i64(), e.select(ok, x, e.floatConst(x.getType(), 0)));
  }

  // The nearest pixel; of two the one away from 0.
  static Value pixel(KernelEmitter &e, Value x) {
    Value size = math::abs(e, x), low = math::floor(e, size);
    Value up = e.cmpF(P::OGE, e.subF(size, low), e.floatConst(x.getType(), 0.5));
    Value near = e.select(up, e.addF(low, e.floatConst(x.getType(), 1)), low);
    Value zero = e.floatConst(x.getType(), 0);
    return whole(e, e.select(e.cmpF(P::OLT, x, zero), e.subF(zero, near), near));
  }

  // Bin `i` of `count` between two pixels, within the image.
  static Bin bin(KernelEmitter &e, Type type, Value first, Value last, Value i, Value count, Value limit) {
    auto toFloat = [&](Value k) -> Value { return arith::SIToFPOp::create(e.b, e.loc, type, k); };
    Value length = e.maxS(e.add(e.sub(last, first), 1), e.idx(1));
    Value size = e.divF(toFloat(length), toFloat(count));
    auto clamp = [&](Value k) { return e.minS(e.maxS(e.add(k, first), e.idx(0)), limit); };
    return {clamp(whole(e, math::floor(e, e.mulF(toFloat(i), size)))),
            clamp(whole(e, math::ceil(e, e.mulF(toFloat(e.add(i, 1)), size))))};
  }

  static Value largest(KernelEmitter &e, const TensorRef &in, Value base, Bin rows, Bin columns) {
    Type value = KernelEmitter::valueType(in.element);
    Value lowest = e.floatConst(value, -std::numeric_limits<double>::infinity());
    auto best = e.forLoop(rows.begin, rows.end, e.idx(1), ValueRange{lowest}, [&](Value y, ValueRange outer) {
      return e.forLoop(columns.begin, columns.end, e.idx(1), outer, [&](Value x, ValueRange acc) -> SmallVector<Value> {
        Value offset = e.add(base, e.add(e.mul(y, in.strides[2]), e.mul(x, in.strides[3])));
        return {e.maxF(acc[0], e.loadElement(in, offset))};
      });
    });
    Value some = e.logicalAnd(e.lt(rows.begin, rows.end), e.lt(columns.begin, columns.end));
    return e.select(some, best[0], e.floatConst(value, 0));
  }
};
TESSERA_KERNEL(MaxRoiPoolKernel, "onnx.MaxRoiPool");

} // namespace
} // namespace tessera::cpu

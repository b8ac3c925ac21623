// Tensors made from sizes and scalars, triangles, running sums.
#include "targets/Cpu/Kernels/Combine.h"
#include "targets/Cpu/Kernels/MovementKernel.h"
#include "targets/Cpu/Math.h"

using namespace mlir;

namespace tessera::cpu {
namespace {

SmallVector<CopyAxis> wholeOf(KernelEmitter &e, const TensorRef &t) {
  SmallVector<CopyAxis> axes;
  for (unsigned k = 0; k < t.rank(); ++k)
    axes.push_back({t.dims[k], t.strides[k], e.idx(0)});
  return axes;
}

class ConstantOfShapeKernel : public MovementKernel {
public:
  bool acceptsChannelsLast(Operation *) const override { return true; }
  bool embedsConstant(Operation *, unsigned) const override { return true; }
  LogicalResult matchMore(Operation *root, Reasons &reasons) const override {
    auto value = root->getAttrOfType<ElementsAttr>("value");
    if (value && !isa<FloatType, IntegerType>(value.getElementType()))
      return reasons.no() << "value of " << onnx::getTypeName(value.getElementType());
    return success();
  }
  LogicalResult emit(tsr::DispatchOp op, KernelEmitter &e) const override {
    RootView v(op, e);
    const TensorRef *out = v.out(0);
    if (!out)
      return failure();
    auto value = v.root->getAttrOfType<ElementsAttr>("value");
    fillBox(e, *out, e.idx(0), wholeOf(e, *out), value ? v.constantElement(value, 0) : Value());
    return success();
  }
};
TESSERA_KERNEL(ConstantOfShapeKernel, "onnx.ConstantOfShape");

/// start + i * delta in the result's type; 16-bit floats in f32.
class RangeKernel : public MovementKernel {
public:
  bool embedsConstant(Operation *, unsigned) const override { return true; }
  LogicalResult matchMore(Operation *root, Reasons &reasons) const override {
    return success(requireNumeric(root, reasons));
  }
  unsigned extentCount(Operation *root) const override {
    bool constant = true;
    for (unsigned i = 0; i < 3; ++i)
      constant = constant && onnx::getConstant(onnx::getOptionalOperand(root, i));
    return !constant && isa<FloatType>(operandElement(root, 0)) ? 1 : 0;
  }
  LogicalResult emitExtents(tsr::DispatchOp op, KernelEmitter &e) const override {
    RootView v(op, e);
    auto part = [&](unsigned i) {
      Value x = v.scalar(i);
      return x.getType().isF64() ? x : Value(arith::ExtFOp::create(e.b, e.loc, e.f64(), x));
    };
    Value start = part(0), limit = part(1), delta = part(2), zero = e.floatConst(e.f64(), 0);
    e.failIf(e.cmpF(arith::CmpFPredicate::UEQ, delta, zero), TSR_KERNEL_BAD_VALUE);
    Value n = math::ceil(e, e.divF(e.subF(limit, start), delta));
    Value some = e.cmpF(arith::CmpFPredicate::OGT, n, zero);
    Value most = e.floatConst(e.f64(), 1e15);
    Value size = e.select(some, e.minF(n, most), zero);
    e.storeElement(e.outputs[0], e.idx(0), arith::FPToSIOp::create(e.b, e.loc, e.i64(), size));
    return success();
  }
  LogicalResult emit(tsr::DispatchOp op, KernelEmitter &e) const override {
    RootView v(op, e);
    const TensorRef *out = v.out(0);
    if (!out)
      return failure();
    Value start = v.scalar(0), delta = v.scalar(2);
    e.forLoop(out->dims[0], [&](Value i) {
      Value x;
      if (isa<FloatType>(start.getType())) {
        Value n = arith::SIToFPOp::create(e.b, e.loc, start.getType(), i);
        x = e.round(e.addF(start, e.mulF(n, delta)), out->element);
      } else {
        Value n = e.cast(i, e.i64(), out->element);
        x = addI(e, start, arith::MulIOp::create(e.b, e.loc, n, delta));
      }
      e.storeElement(*out, e.mul(i, out->strides[0]), x);
    });
    return success();
  }
};
TESSERA_KERNEL(RangeKernel, "onnx.Range");

class ShapeKernel : public MovementKernel {
public:
  bool acceptsChannelsLast(Operation *) const override { return false; }
  LogicalResult emit(tsr::DispatchOp op, KernelEmitter &e) const override {
    RootView v(op, e);
    const TensorRef *in = v.in(0), *out = v.out(0);
    if (!in || !out)
      return failure();
    if (v.root->getName().getStringRef() == "onnx.Size") {
      e.storeElement(*out, e.idx(0), e.product(in->dims));
      return success();
    }
    int64_t rank = in->rank();
    auto bound = [&](StringRef name, int64_t fallback) {
      int64_t at = onnx::getInt(v.root, name, fallback);
      return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank);
    };
    int64_t start = bound("start", 0), end = v.root->hasAttr("end") ? bound("end", rank) : rank;
    for (int64_t k = start; k < end; ++k)
      e.storeElement(*out, e.idx(k - start), in->dims[k]);
    return success();
  }
};
TESSERA_KERNEL(ShapeKernel, "onnx.Shape", "onnx.Size");

class EyeLikeKernel : public MovementKernel {
public:
  LogicalResult matchMore(Operation *root, Reasons &reasons) const override {
    return success(requireNumeric(root, reasons));
  }
  LogicalResult emit(tsr::DispatchOp op, KernelEmitter &e) const override {
    RootView v(op, e);
    const TensorRef *out = v.out(0);
    if (!out)
      return failure();
    int64_t k = onnx::getInt(v.root, "k", 0);
    fillBox(e, *out, e.idx(0), wholeOf(e, *out), {});
    Type value = KernelEmitter::valueType(out->element);
    Value one = isa<FloatType>(value) ? e.floatConst(value, 1) : e.intConst(value, 1);
    e.forLoop(out->dims[0], [&](Value i) {
      Value j = e.add(i, k);
      Value inside = e.logicalAnd(e.cmp(arith::CmpIPredicate::sge, j, e.idx(0)), e.lt(j, out->dims[1]));
      e.ifThen(inside, [&] { e.store(*out, {i, j}, one); });
    });
    return success();
  }
};
TESSERA_KERNEL(EyeLikeKernel, "onnx.EyeLike");

class TriluKernel : public MovementKernel {
public:
  bool embedsConstant(Operation *, unsigned operand) const override { return operand == 1; }
  LogicalResult matchMore(Operation *root, Reasons &reasons) const override {
    if (operandType(root, 0).getRank() < 2)
      return reasons.no() << "rank " << operandType(root, 0).getRank() << " is less than 2";
    return success();
  }
  LogicalResult emit(tsr::DispatchOp op, KernelEmitter &e) const override {
    RootView v(op, e);
    const TensorRef *in = v.in(0), *out = v.out(0);
    if (!in || !out)
      return failure();
    bool upper = onnx::getInt(v.root, "upper", 1);
    unsigned rank = in->rank();
    Value columns = in->dims[rank - 1];
    // Keeps k from overflowing i + k.
    Value bound = e.idx(int64_t(1) << 40);
    Value k = e.maxS(e.minS(v.scalarInt(1, 0), bound), e.sub(e.idx(0), bound));
    e.forAll(ArrayRef(in->dims).drop_back(), [&](ArrayRef<Value> i) {
      Value dst = e.idx(0), src = e.idx(0);
      for (unsigned a = 0; a + 1 < rank; ++a) {
        dst = e.add(dst, e.mul(i[a], out->strides[a]));
        src = e.add(src, e.mul(i[a], in->strides[a]));
      }
      // Columns [0, split) lie left of the diagonal (of it and itself for lower).
      Value split = e.add(i[rank - 2], upper ? k : e.add(k, 1));
      split = e.maxS(e.minS(split, columns), e.idx(0));
      auto part = [&](Value from, Value to, bool keep) {
        Value d = e.add(dst, e.mul(from, out->strides[rank - 1]));
        CopyAxis axis{e.sub(to, from), out->strides[rank - 1], in->strides[rank - 1]};
        if (keep)
          copyBox(e, *out, d, *in, e.add(src, e.mul(from, in->strides[rank - 1])), {axis});
        else
          fillBox(e, *out, d, {axis}, {});
      };
      part(e.idx(0), split, !upper);
      part(split, columns, upper);
    });
    return success();
  }
};
TESSERA_KERNEL(TriluKernel, "onnx.Trilu");

/// Running sums and products; 16-bit floats accumulate in f32.
class CumulativeKernel : public KernelBuilder {
public:
  tsr::KernelClass kernelClass(Operation *) const override { return tsr::KernelClass::Loops; }
  bool embedsConstant(Operation *, unsigned operand) const override { return operand == 1; }
  LogicalResult match(Operation *root, Reasons &reasons) const override {
    if (!requireNumeric(root, reasons))
      return failure();
    auto axis = onnx::getConstantInts(onnx::getOptionalOperand(root, 1));
    if (!axis && !operandType(root, 1).hasStaticShape())
      return reasons.no() << "axis has no known size";
    return success();
  }
  LogicalResult emit(tsr::DispatchOp op, KernelEmitter &e) const override {
    RootView v(op, e);
    const TensorRef *in = v.in(0), *out = v.out(0);
    if (!in || !out)
      return failure();
    Value axis = v.scalarInt(1, 0), rank = e.idx(in->rank());
    axis = wrapIndex(e, axis, rank);
    bool reverse = onnx::getInt(v.root, "reverse", 0), exclusive = onnx::getInt(v.root, "exclusive", 0);
    Combine kind = v.root->getName().getStringRef() == "onnx.CumSum" ? Combine::Add : Combine::Mul;
    Value length = e.idx(1), inStep = e.idx(0), outStep = e.idx(0);
    SmallVector<Value> dims;
    for (unsigned k = 0; k < in->rank(); ++k) {
      Value here = e.eq(axis, e.idx(k));
      length = e.select(here, in->dims[k], length);
      inStep = e.select(here, in->strides[k], inStep);
      outStep = e.select(here, out->strides[k], outStep);
      dims.push_back(e.select(here, e.idx(1), in->dims[k]));
    }
    e.forAll(dims, [&](ArrayRef<Value> i) {
      Value src = e.offsetOf(*in, i), dst = e.offsetOf(*out, i);
      e.forLoop(e.idx(0), length, e.idx(1), ValueRange{identityOf(e, kind, in->element)},
                [&](Value s, ValueRange carried) -> SmallVector<Value> {
                  Value at = reverse ? e.sub(e.sub(length, 1), s) : s;
                  Value x = e.loadElement(*in, e.add(src, e.mul(at, inStep)));
                  Value sum = combine(e, kind, in->element, carried[0], x);
                  Value stored = exclusive ? carried[0] : sum;
                  if (isa<FloatType>(out->element))
                    stored = e.round(stored, out->element);
                  e.storeElement(*out, e.add(dst, e.mul(at, outStep)), stored);
                  return {sum};
                });
    });
    return success();
  }
};
TESSERA_KERNEL(CumulativeKernel, "onnx.CumSum", "onnx.CumProd");

} // namespace
} // namespace tessera::cpu

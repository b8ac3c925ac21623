// DeformConv in two dimensions: a plain nest over single outputs. Each tap of
// a window is moved by its offset and read by bilinear interpolation; pixels
// outside the input are zero.
//
//   offset [N, offset_group * taps * 2, OH, OW]   per tap: rows, then columns
//   mask   [N, offset_group * taps, OH, OW]       factor of the tap, if given
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "targets/Cpu/Kernels/Window.h"
#include "targets/Cpu/Math.h"

using namespace mlir;

namespace tessera::cpu {
namespace {

RankedTensorType tensorType(Operation *root, unsigned position) {
  Value v = onnx::getOptionalOperand(root, position);
  return v ? dyn_cast<RankedTensorType>(v.getType()) : RankedTensorType{};
}

LogicalResult analyse(Operation *root, Window &w, Reasons &reasons) {
  auto x = tensorType(root, 0), weight = tensorType(root, 1), offset = tensorType(root, 2);
  if (!x || !weight || !offset)
    return reasons.no() << "operands of unknown rank";
  if (x.getRank() != 4 || weight.getRank() != 4 || offset.getRank() != 4)
    return reasons.no() << "input of rank " << x.getRank() << " (4 is possible)";
  return readWindow(root, weight.getShape().drop_front(2), w, reasons);
}

class DeformConv : public KernelBuilder {
public:
  tsr::KernelClass kernelClass(Operation *) const override { return tsr::KernelClass::Loops; }
  LogicalResult match(Operation *root, Reasons &reasons) const override {
    Window w;
    if (failed(analyse(root, w, reasons)))
      return failure();
    Type t = tensorType(root, 0).getElementType();
    if (!t.isF32() && !t.isF64() && !t.isF16() && !t.isBF16())
      (void)(reasons.no() << "element type " << onnx::getTypeName(t) << " of DeformConv");
    if (onnx::getInt(root, "group", 1) < 1 || onnx::getInt(root, "offset_group", 1) < 1)
      (void)(reasons.no() << "group below 1");
    return success(reasons.empty());
  }
  bool fusesEpilogue(Operation *) const override { return true; }
  LogicalResult emit(tsr::DispatchOp op, KernelEmitter &e) const override;
};

LogicalResult DeformConv::emit(tsr::DispatchOp op, KernelEmitter &e) const {
  Operation *root = op.getRootOp();
  Window w;
  Reasons reasons;
  if (failed(analyse(root, w, reasons)))
    return root->emitError("convolution cannot be computed: ") << reasons.all.front();
  Fusion fusion(op, e);
  const TensorRef *operands[5] = {};
  for (unsigned i = 0; i < 5; ++i)
    if (onnx::getOptionalOperand(root, i) && !(operands[i] = fusion.plainOperand(i)))
      return root->emitError("operand is not an operand of the kernel");
  auto [x, weight, offset, bias, mask] = operands;
  const TensorRef &y = e.outputs[0];
  Type type = accumulatorOf(x->element);
  Placement p = place(e, w, *x, y);
  Value groupIn = weight->dims[1];
  Value groupOut = e.divU(weight->dims[0], e.idx(onnx::getInt(root, "group", 1)));
  Value perOffset = e.divU(x->dims[1], e.idx(onnx::getInt(root, "offset_group", 1)));
  int64_t taps = w.kernel[0] * w.kernel[1];
  bool failed = false;

  e.forAll(y.dims, [&](ArrayRef<Value> at) {
    Value n = at[0], oc = at[1];
    Value firstChannel = e.mul(e.divU(oc, groupOut), groupIn);
    Value sum = bias ? e.load(*bias, {oc}) : zeroOf(e, type);
    sum = e.forLoop(e.idx(0), e.idx(taps), e.idx(1), ValueRange{sum}, [&](Value tap, ValueRange outer) {
      Value k[2] = {e.divU(tap, e.idx(w.kernel[1])), e.remU(tap, e.idx(w.kernel[1]))};
      return e.forLoop(e.idx(0), groupIn, e.idx(1), outer, [&](Value c, ValueRange carried) {
        Value channel = e.add(firstChannel, c);
        Value moved = e.add(e.mul(e.divU(channel, perOffset), taps), tap);
        Value low[2], fraction[2];
        for (unsigned a = 0; a < 2; ++a) {
          Value base = e.add(e.sub(e.mul(at[a + 2], w.strides[a]), p.padBegin[a]), e.mul(k[a], w.dilations[a]));
          Value shift = e.load(*offset, {n, e.add(e.mul(moved, 2), a), at[2], at[3]});
          Value position = e.addF(arith::SIToFPOp::create(e.b, e.loc, type, base), shift);
          // Far outside (or NaN) all four pixels are outside: keep the index small.
          Value near = e.cmpF(arith::CmpFPredicate::OGT, position, e.floatConst(type, -2));
          Value limit = arith::SIToFPOp::create(e.b, e.loc, type, e.add(p.in[a], 1));
          near = e.logicalAnd(near, e.cmpF(arith::CmpFPredicate::OLT, position, limit));
          position = e.select(near, position, e.floatConst(type, -2));
          Value floor = math::floor(e, position);
          low[a] = arith::FPToSIOp::create(e.b, e.loc, e.i64(), floor);
          fraction[a] = e.subF(position, floor);
        }
        Value value = zeroOf(e, type), one = e.floatConst(type, 1);
        for (unsigned corner = 0; corner < 4; ++corner) {
          Value index[2], factor = one, inside;
          for (unsigned a = 0; a < 2; ++a) {
            bool upper = a ? corner & 1 : corner >> 1;
            Value i = e.add(low[a], upper);
            Value valid = e.cmp(arith::CmpIPredicate::ult, i, p.in[a]);
            inside = inside ? e.logicalAnd(inside, valid) : valid;
            index[a] = e.select(valid, i, e.idx(0));
            factor = e.mulF(factor, upper ? fraction[a] : e.subF(one, fraction[a]));
          }
          Value pixel = e.ifElse(
              inside, TypeRange{type},
              [&] { return SmallVector<Value>{e.load(*x, {n, channel, index[0], index[1]})}; },
              [&] { return SmallVector<Value>{zeroOf(e, type)}; })[0];
          value = e.addF(value, e.mulF(pixel, factor));
        }
        if (mask)
          value = e.mulF(value, e.load(*mask, {n, moved, at[2], at[3]}));
        return SmallVector<Value>{e.fma(value, e.load(*weight, {oc, c, k[0], k[1]}), carried[0])};
      });
    })[0];
    Point q;
    q.index.assign(at.begin(), at.end());
    q.dims = y.dims;
    failed |= mlir::failed(fusion.storeFused(e.round(sum, x->element), q));
  });
  return failure(failed);
}

TESSERA_KERNEL(DeformConv, "onnx.DeformConv");

} // namespace
} // namespace tessera::cpu

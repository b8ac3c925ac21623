// What follows from positions: triangles, unit matrices, ranges, fills, one-hot
// rows, reversed sequences; and running sums.
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "targets/Cpu/Kernels/Combine.h"
#include "targets/Cpu/Kernels/Elementwise.h"
#include "targets/Vulkan/Kernels/Boxes.h"

using namespace mlir;

namespace tessera::vulkan {
namespace {

Value number(Emitter &e, Type element, int64_t n) {
  Type scalar = cpu::KernelEmitter::valueType(element);
  return isa<FloatType>(scalar) ? e.floatConst(scalar, static_cast<double>(n))
                                : e.intConst(scalar, n);
}

/// The one number of an operand that is constant, or null with a reason.
Value constantNumber(tsr::DispatchOp op, Emitter &e, unsigned operand) {
  ElementsAttr attr = rootConstant(op, operand);
  Value v =
      attr ? cpu::oneNumber(
                 attr, cpu::KernelEmitter::valueType(attr.getElementType()), e)
           : Value();
  if (!v)
    e.reasons.no() << "operand " << operand << " of "
                   << op.getRootOp()->getName().getStringRef()
                   << " is known to the run only";
  return v;
}

/// The diagonal, which the run may know first. It is only the tensor's sizes
/// that bound what differs.
std::optional<Index> diagonalOf(tsr::DispatchOp op, Emitter &e, int64_t rows,
                                int64_t columns) {
  if (rootConstant(op, 1) || !onnx::getOptionalOperand(op.getRootOp(), 1)) {
    auto k = constantInt(op, e, 1, 0);
    return k ? std::optional<Index>(
                   std::clamp<int64_t>(*k, -rows - 1, columns + 1))
             : std::nullopt;
  }
  Buffer *t = rootBuffer(op, e, 1);
  if (!t || !t->element.isInteger(64))
    return std::nullopt;
  Value k = e.load(*t, 0), low = e.intConst(e.i64(), -rows - 1),
        high = e.intConst(e.i64(), columns + 1);
  k = arith::MinSIOp::create(e.b, e.loc,
                             arith::MaxSIOp::create(e.b, e.loc, k, low), high);
  return Index(arith::TruncIOp::create(e.b, e.loc, e.i32(), k));
}

LogicalResult emitTrilu(tsr::DispatchOp op, Emitter &e) {
  Buffer *in = rootBuffer(op, e, 0), *out = e.out[0].get();
  if (failed(requireAlone(op, e)))
    return failure();
  if (!in)
    return e.reasons.no() << "a Trilu with an embedded operand";
  bool upper = onnx::getInt(op.getRootOp(), "upper", 1) != 0, known = true;
  unsigned rank = in->rank();
  e.gridLike(*out, out->dims, [&](Index, SmallVector<Index> at) {
    auto k = diagonalOf(op, e, in->dims[rank - 2], in->dims[rank - 1]);
    if (!(known = k.has_value()))
      return;
    Index diagonal = e.add(at[rank - 2], *k);
    Value inside =
        upper ? e.ge(at[rank - 1], diagonal) : e.ge(diagonal, at[rank - 1]);
    Value x = e.load(*in, e.offset(at, in->strides));
    e.store(*out, e.offset(at, out->strides),
            e.pick(inside, x, number(e, out->element, 0)));
  });
  if (!known)
    return e.reasons.no() << "a Trilu whose diagonal has no form that is known";
  return success();
}
Register trilu({"onnx.Trilu"}, emitTrilu);

LogicalResult emitEye(tsr::DispatchOp op, Emitter &e) {
  Buffer *out = e.out[0].get();
  if (failed(requireAlone(op, e)))
    return failure();
  int64_t shift = std::clamp<int64_t>(onnx::getInt(op.getRootOp(), "k", 0),
                                      -out->dims[0] - 1, out->dims[1] + 1);
  e.gridLike(*out, out->dims, [&](Index, SmallVector<Index> at) {
    Value same = cpu::cmpI(e, arith::CmpIPredicate::eq, e.value(at[1]),
                           e.value(e.add(at[0], shift)));
    e.store(
        *out, e.offset(at, out->strides),
        e.pick(same, number(e, out->element, 1), number(e, out->element, 0)));
  });
  return success();
}
Register eye({"onnx.EyeLike"}, emitEye);

LogicalResult emitFill(tsr::DispatchOp op, Emitter &e) {
  Buffer *out = e.out[0].get();
  if (failed(requireAlone(op, e)))
    return failure();
  auto attr = op.getRootOp()->getAttrOfType<ElementsAttr>("value");
  Value v =
      attr
          ? cpu::oneNumber(attr, cpu::KernelEmitter::valueType(out->element), e)
          : number(e, out->element, 0);
  if (!v)
    return e.reasons.no() << "a value of several elements";
  e.grid(out->count, [&](Index id) { e.store(*out, id, v); });
  return success();
}
Register fill({"onnx.ConstantOfShape"}, emitFill);

/// start + i * delta in the result's type; 16-bit floats in f32.
LogicalResult emitRange(tsr::DispatchOp op, Emitter &e) {
  Buffer *out = e.out[0].get();
  if (failed(requireAlone(op, e)))
    return failure();
  Value start = constantNumber(op, e, 0), delta = constantNumber(op, e, 2);
  if (!start || !delta)
    return failure();
  e.grid(out->count, [&](Index id) {
    Value x;
    Type type = start.getType();
    if (isa<FloatType>(type)) {
      Value n = arith::SIToFPOp::create(e.b, e.loc, type, e.value(id));
      x = e.round(e.addF(start, e.mulF(n, delta)), out->element);
    } else {
      Value n = e.cast(e.value(id), e.i32(), out->element);
      x = cpu::addI(e, start, arith::MulIOp::create(e.b, e.loc, n, delta));
    }
    e.store(*out, id, x);
  });
  return success();
}
Register range({"onnx.Range"}, emitRange);

/// values = [off, on]; an index outside [-depth, depth) switches nothing on.
/// One that is unsigned is never below 0, whatever its bits.
LogicalResult emitOneHot(tsr::DispatchOp op, Emitter &e) {
  Buffer *indices = rootBuffer(op, e, 0), *values = rootBuffer(op, e, 2),
         *out = e.out[0].get();
  if (failed(requireAlone(op, e)))
    return failure();
  if (!indices || !values)
    return e.reasons.no() << "a OneHot with an embedded operand";
  int64_t axis = axisOf(op.getRootOp(), "axis", -1, out->rank());
  int64_t depth = out->dims[axis];
  bool isUnsigned = cpu::KernelEmitter::isUnsigned(indices->element);
  e.gridLike(*out, out->dims, [&](Index, SmallVector<Index> at) {
    Index to = e.offset(at, out->strides), place = at[axis];
    at.erase(at.begin() + axis);
    Value v = e.load(*indices, e.offset(at, indices->strides));
    if (isa<FloatType>(v.getType())) // saturates, which is outside
      v = e.cast(v, indices->element, e.i32());
    auto is = [&](Index i) {
      if (v.getType().isInteger(32))
        return cpu::cmpI(e, arith::CmpIPredicate::eq, v, e.value(i));
      // In the indices' width, or in 32 bits if that is narrower.
      unsigned bits = v.getType().getIntOrFloatBitWidth();
      if (bits > 32)
        return cpu::cmpI(
            e, arith::CmpIPredicate::eq, v,
            arith::ExtSIOp::create(e.b, e.loc, v.getType(), e.value(i)));
      Value wide = isUnsigned
                       ? Value(arith::ExtUIOp::create(e.b, e.loc, e.i32(), v))
                       : Value(arith::ExtSIOp::create(e.b, e.loc, e.i32(), v));
      return cpu::cmpI(e, arith::CmpIPredicate::eq, wide, e.value(i));
    };
    Value on = is(place);
    if (!isUnsigned)
      on = arith::OrIOp::create(e.b, e.loc, on, is(e.sub(place, depth)));
    Value which = e.pick(on, e.value(1), e.value(0));
    e.store(*out, to, e.load(*values, Index(which)));
  });
  return success();
}
Register oneHot({"onnx.OneHot"}, emitOneHot);

/// The first sequence_lens[b] steps of batch b backwards. Lengths are clamped.
LogicalResult emitReverse(tsr::DispatchOp op, Emitter &e) {
  Operation *root = op.getRootOp();
  Buffer *in = rootBuffer(op, e, 0), *lengths = rootBuffer(op, e, 1),
         *out = e.out[0].get();
  if (failed(requireAlone(op, e)))
    return failure();
  if (!in || !lengths)
    return e.reasons.no() << "a ReverseSequence with an embedded operand";
  int64_t time = axisOf(root, "time_axis", 0, in->rank()),
          batch = axisOf(root, "batch_axis", 1, in->rank());
  if (lengths->count < in->dims[batch])
    return e.reasons.no() << lengths->count << " lengths for "
                          << in->dims[batch] << " sequences";
  e.gridLike(*out, out->dims, [&](Index, SmallVector<Index> at) {
    Index to = e.offset(at, out->strides), t = at[time];
    Value length = e.load(*lengths, at[batch]);
    if (!length.getType().isInteger(32))
      length = arith::TruncIOp::create(e.b, e.loc, e.i32(), length);
    length = e.value(e.min(e.max(Index(length), 0), in->dims[time]));
    Index back = e.sub(e.sub(Index(length), 1), t);
    at[time] = Index(e.pick(e.lt(t, Index(length)), e.value(back), e.value(t)));
    e.store(*out, to, e.load(*in, e.offset(at, in->strides)));
  });
  return success();
}
Register reverse({"onnx.ReverseSequence"}, emitReverse);

/// One invocation goes along a row; 16-bit floats accumulate in f32.
LogicalResult emitCumulative(tsr::DispatchOp op, Emitter &e) {
  Operation *root = op.getRootOp();
  Buffer *in = rootBuffer(op, e, 0), *out = e.out[0].get();
  if (failed(requireAlone(op, e)))
    return failure();
  auto axis = constantInt(op, e, 1, 0);
  if (!in || !axis)
    return e.reasons.no() << "a running sum with an embedded operand";
  *axis += *axis < 0 ? in->rank() : 0;
  bool backwards = onnx::getInt(root, "reverse", 0) != 0,
       exclusive = onnx::getInt(root, "exclusive", 0) != 0;
  auto kind = root->getName().stripDialect() == "CumSum" ? cpu::Combine::Add
                                                         : cpu::Combine::Mul;
  int64_t length = in->dims[*axis];
  SmallVector<int64_t> rows(in->dims);
  rows[*axis] = 1;
  e.gridLike(*in, rows, [&](Index, SmallVector<Index> at) {
    Index from = e.offset(at, in->strides), to = e.offset(at, out->strides);
    e.loop(0, length, 1, cpu::identityOf(e, kind, in->element),
           [&](Index i, ValueRange carried) {
             Index s = backwards ? e.sub(length - 1, i) : i;
             Value x = e.load(*in, e.add(from, e.mul(s, in->strides[*axis])));
             Value sum = cpu::combine(e, kind, in->element, carried[0], x);
             Value stored = exclusive ? carried[0] : sum;
             if (isa<FloatType>(out->element))
               stored = e.round(stored, out->element);
             e.store(*out, e.add(to, e.mul(s, out->strides[*axis])), stored);
             return SmallVector<Value>{sum};
           });
  });
  return success();
}
Register cumulative({"onnx.CumSum", "onnx.CumProd"}, emitCumulative);

} // namespace
} // namespace tessera::vulkan

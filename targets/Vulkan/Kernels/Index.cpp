// Reads at computed places: Gather, GatherElements, Pad. Indices that the run
// computes are clamped, since a shader cannot report one that is out of range.
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "targets/Cpu/Kernels/Elementwise.h"
#include "targets/Vulkan/Kernels/Boxes.h"

using namespace mlir;

namespace tessera::vulkan {
namespace {

/// Element `at` of an index tensor as an index below `size`.
Index loadIndex(Emitter &e, Buffer &t, Index at, int64_t size) {
  Value v = e.load(t, at);
  unsigned bits = v.getType().getIntOrFloatBitWidth();
  if (bits > 32)
    v = arith::TruncIOp::create(e.b, e.loc, e.i32(), v);
  else if (bits < 32 && cpu::KernelEmitter::isUnsigned(t.element))
    v = arith::ExtUIOp::create(e.b, e.loc, e.i32(), v);
  else if (bits < 32)
    v = arith::ExtSIOp::create(e.b, e.loc, e.i32(), v);
  Value negative = e.lt(v, 0);
  v = e.pick(negative, e.value(e.add(v, size)), v);
  return e.min(e.max(v, 0), size - 1);
}

bool isRowMajor(const Buffer &t) {
  int64_t stride = 1;
  for (unsigned k = t.rank(); k-- > 0;) {
    if (t.dims[k] > 1 && t.strides[k] != stride)
      return false;
    stride *= t.dims[k];
  }
  return true;
}

LogicalResult emitGather(tsr::DispatchOp op, Emitter &e) {
  Operation *root = op.getRootOp();
  Buffer *data = rootBuffer(op, e, 0), *indices = rootBuffer(op, e, 1),
         *out = e.out[0].get();
  if (failed(requireAlone(op, e)))
    return failure();
  ElementsAttr constant = rootConstant(op, 1);
  auto known = constant ? onnx::getInts(constant) : std::nullopt;
  auto indexType =
      cast<RankedTensorType>(onnx::getOptionalOperand(root, 1).getType());
  if (!data || (!indices && !known))
    return e.reasons.no() << "a Gather with an embedded operand";
  if (!isRowMajor(*data) || !isRowMajor(*out) ||
      (indices && !isRowMajor(*indices)))
    return e.reasons.no() << "a Gather whose channels lie last";
  int64_t axis = axisOf(root, "axis", 0, data->rank()), size = data->dims[axis];
  unsigned q = indexType.getRank();
  if (size == 0)
    return e.reasons.no() << "a Gather from an empty axis";
  if (known &&
      llvm::any_of(*known, [&](int64_t i) { return i < -size || i >= size; }))
    return e.reasons.no() << "an index out of range";
  // One cut, or a few constants that the CPU embeds: one each.
  if (known && (!indices || known->size() == 1)) {
    SmallVector<Box> boxes;
    for (auto [i, index] : llvm::enumerate(*known)) {
      int64_t to = 0, rest = i;
      for (unsigned k = q; k-- > 0;) {
        to += out->strides[axis + k] * (rest % indexType.getDimSize(k));
        rest /= indexType.getDimSize(k);
      }
      Box box{out,
              data,
              {},
              to,
              (index + (index < 0 ? size : 0)) * data->strides[axis]};
      for (unsigned k = 0; k < data->rank(); ++k)
        if (k != axis)
          box.axes.push_back({data->dims[k],
                              out->strides[k < axis ? k : k + q - 1],
                              data->strides[k]});
      boxes.push_back(box);
    }
    copyBoxes(e, boxes);
    return success();
  }
  int64_t inner = data->strides[axis];
  int64_t unit =
      inner % 4 == 0 && data->useVectors() && out->useVectors() ? 4 : 1;
  int64_t outer = 1;
  for (unsigned k = 0; k < axis; ++k)
    outer *= data->dims[k];
  SmallVector<int64_t> sizes{outer, indices->count, inner / unit};
  e.grid(outer * indices->count * (inner / unit), [&](Index id) {
    SmallVector<Index> at = e.digits(id, sizes);
    Index index = loadIndex(e, *indices, at[1], size);
    Index from =
        e.add(e.mul(e.add(e.mul(at[0], size), index), inner / unit), at[2]);
    if (unit == 4)
      e.storeQuad(*out, id, e.loadQuad(*data, from));
    else
      e.store(*out, id, e.load(*data, from));
  });
  return success();
}
Register gather({"onnx.Gather"}, emitGather);

LogicalResult emitGatherElements(tsr::DispatchOp op, Emitter &e) {
  Buffer *data = rootBuffer(op, e, 0), *indices = rootBuffer(op, e, 1),
         *out = e.out[0].get();
  if (failed(requireAlone(op, e)))
    return failure();
  if (!data || !indices)
    return e.reasons.no() << "a GatherElements with an embedded operand";
  int64_t axis = axisOf(op.getRootOp(), "axis", 0, data->rank());
  if (data->dims[axis] == 0)
    return e.reasons.no() << "a GatherElements from an empty axis";
  e.grid(out->count, [&](Index id) {
    SmallVector<Index> at = e.digits(id, out->dims);
    Index index = loadIndex(e, *indices, e.offset(at, indices->strides),
                            data->dims[axis]);
    Index to = e.offset(at, out->strides);
    at[axis] = index;
    e.store(*out, to, e.load(*data, e.offset(at, data->strides)));
  });
  return success();
}
Register gatherElements({"onnx.GatherElements"}, emitGatherElements);

/// Index `i` of the result along an axis as one of the operand; `inside` is set
/// where it may lie outside (constant mode).
Index padded(Emitter &e, StringRef mode, Index i, int64_t before, int64_t size,
             Value &inside) {
  Index p = e.sub(i, before);
  if (mode == "constant") {
    inside = e.both(inside,
                    arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::ult,
                                          e.value(p), e.value(size)));
    return e.min(e.max(p, 0), size - 1);
  }
  if (mode == "edge")
    return e.min(e.max(p, 0), size - 1);
  int64_t period = mode == "wrap" ? size : std::max<int64_t>(2 * (size - 1), 1);
  int64_t lift = (std::abs(before) / period + 1) * period;
  Index r = e.rem(e.add(p, lift), period);
  return mode == "wrap" ? r : e.min(r, e.sub(period, r));
}

LogicalResult emitPad(tsr::DispatchOp op, Emitter &e) {
  Operation *root = op.getRootOp();
  Buffer *in = rootBuffer(op, e, 0), *out = e.out[0].get();
  if (failed(requireAlone(op, e)))
    return failure();
  ElementsAttr padsAttr = rootConstant(op, 1), axesAttr = rootConstant(op, 3);
  auto pads = padsAttr ? onnx::getInts(padsAttr) : std::nullopt;
  auto axes = axesAttr ? onnx::getInts(axesAttr) : std::nullopt;
  if (!in || !pads || (onnx::getOptionalOperand(root, 3) && !axes))
    return e.reasons.no() << "a Pad whose pads only the run knows";
  StringRef mode = onnx::getString(root, "mode", "constant");
  if (llvm::any_of(*pads, [](int64_t p) { return p < 0; }) &&
      mode != "constant")
    return e.reasons.no() << "a Pad that crops in mode " << mode;
  if (in->count == 0)
    return e.reasons.no() << "a Pad of nothing";
  SmallVector<int64_t> before(in->rank(), 0);
  for (unsigned i = 0; i < pads->size() / 2; ++i) {
    int64_t axis = axes ? (*axes)[i] : i;
    before[axis < 0 ? axis + in->rank() : axis] = (*pads)[i];
  }
  Type scalar = cpu::KernelEmitter::valueType(in->element);
  Value fill =
      isa<FloatType>(scalar) ? e.floatConst(scalar, 0) : e.intConst(scalar, 0);
  Buffer *fillBuffer = nullptr;
  if (onnx::getOptionalOperand(root, 2)) {
    ElementsAttr value = rootConstant(op, 2);
    if (Value known = value ? cpu::oneNumber(value, scalar, e) : Value())
      fill = known;
    else if (!(fillBuffer = rootBuffer(op, e, 2)))
      return e.reasons.no() << "a Pad with a value of a form that is not known";
  }
  e.gridLike(*out, out->dims, [&](Index, SmallVector<Index> at) {
    Index to = e.offset(at, out->strides);
    Value inside;
    for (unsigned k = 0; k < in->rank(); ++k)
      if (in->dims[k] != out->dims[k] || before[k])
        at[k] = padded(e, mode, at[k], before[k], in->dims[k], inside);
    Value v = e.load(*in, e.offset(at, in->strides));
    if (inside)
      v = e.pick(inside, v, fillBuffer ? e.load(*fillBuffer, 0) : fill);
    e.store(*out, to, v);
  });
  return success();
}
Register pad({"onnx.Pad"}, emitPad);

} // namespace
} // namespace tessera::vulkan

// ConvTranspose with constant weights in one group: one invocation a pixel and
// a quad of output channels. Input pixel i reaches output pixel o by tap k if
//
//     o + padBegin - k * dilation = i * stride    with 0 <= i < input size
//
// so each result sums over the taps for which that has a solution.
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "targets/Vulkan/Kernels/RowTile.h"
#include "targets/Vulkan/Kernels/Windows.h"

using namespace mlir;

namespace tessera::vulkan {
namespace {

class Transposed {
public:
  Transposed(tsr::DispatchOp op, Emitter &e)
      : op(op), e(e), root(op.getRootOp()), fusion(op, e) {}
  LogicalResult emit();

private:
  LogicalResult read();
  void setPads();
  /// Where a tap reads along an axis; what it needs for that is added to
  /// `inside`.
  Index place(unsigned axis, Index o, Index tap, Value &inside);
  Value sum(ArrayRef<Index> at, Index quad);

  tsr::DispatchOp op;
  Emitter &e;
  Operation *root;
  Fusion fusion;
  cpu::Window w;
  Buffer *x = nullptr, *weight = nullptr, *bias = nullptr, *packed = nullptr;
  ElementsAttr weights;
  SmallVector<int64_t> pads;
  int64_t in = 0, out = 0, taps = 1, quads = 0;
};

LogicalResult Transposed::read() {
  x = rootBuffer(op, e, 0);
  weight = rootBuffer(op, e, 1);
  bias = rootBuffer(op, e, 2);
  weights = rootConstant(op, 1);
  if (!x || !weight || !weights ||
      (onnx::getOptionalOperand(root, 2) && !bias) ||
      onnx::getInt(root, "group", 1) != 1)
    return e.reasons.no() << "a transposed convolution in groups or with "
                             "weights that are no constant";
  for (Buffer *t : {x, weight})
    if (!t->element.isF32() && !t->element.isF16())
      return e.reasons.no()
             << "a transposed convolution of " << onnx::getTypeName(t->element);
  if (failed(cpu::readWindow(root, ArrayRef(weight->dims).drop_front(2), w,
                             e.reasons)))
    return failure();
  in = weight->dims[0];
  out = weight->dims[1];
  quads = (out + 3) / 4;
  for (int64_t k : w.kernel)
    taps *= k;
  setPads();
  return success();
}

void Transposed::setPads() {
  SmallVector<int64_t> extra = onnx::getInts(root, "output_padding");
  bool sized = !onnx::getInts(root, "output_shape").empty() ||
               w.autoPad.starts_with("SAME");
  for (unsigned a = 0; a < w.axes(); ++a) {
    if (!sized) {
      pads.push_back(w.padBegin[a]);
      continue;
    }
    int64_t total = (x->dims[a + 2] - 1) * w.strides[a] +
                    (extra.empty() ? 0 : extra[a]) + w.reach(a);
    total = std::max<int64_t>(total - fusion.dims()[a + 2], 0);
    pads.push_back(w.autoPad == "SAME_UPPER" ? total / 2 : total - total / 2);
  }
}

Index Transposed::place(unsigned axis, Index o, Index tap, Value &inside) {
  int64_t stride = w.strides[axis], size = x->dims[axis + 2];
  // Lifted by a multiple of the stride, so that the division is of a number >=
  // 0.
  int64_t lift = (w.reach(axis) + stride - 1) / stride;
  Index moved =
      e.add(e.sub(e.add(o, pads[axis]), e.mul(tap, w.dilations[axis])),
            lift * stride);
  Index i = e.sub(e.div(moved, stride), lift);
  auto condition = [&](arith::CmpIPredicate p, Index a, Index b) {
    inside = e.both(
        inside, arith::CmpIOp::create(e.b, e.loc, p, e.value(a), e.value(b)));
  };
  condition(arith::CmpIPredicate::ult, i, size);
  if (stride > 1)
    condition(arith::CmpIPredicate::eq, e.rem(moved, stride), 0);
  return i;
}

Value Transposed::sum(ArrayRef<Index> at, Index quad) {
  Type type = e.quadOf(e.f32());
  int64_t unit = x->lanes, step = unit;
  return forTaps(
      e, w.kernel, e.floatConst(type, 0),
      [&](ArrayRef<Index> tap, ValueRange carried) {
        Value inside;
        Index from = e.mul(at[0], x->strides[0] / unit), flat = 0;
        for (unsigned a = 0; a < tap.size(); ++a) {
          from = e.add(from, e.mul(place(a, at[a + 2], tap[a], inside),
                                   x->strides[a + 2] / unit));
          flat = e.add(e.mul(flat, w.kernel[a]), tap[a]);
        }
        from = Index(e.pick(inside, e.value(from), e.value(0)));
        Index column = e.add(e.mul(flat, in * quads), quad);
        return e.loop(
            0, in / step, 1, carried, [&](Index c, ValueRange values) {
              Value total = values[0];
              Value v = unit == 4
                            ? e.loadQuad(*x, e.add(from, c))
                            : e.load(*x, e.add(from, e.mul(c, x->strides[1])));
              v = e.pick(inside, v, e.floatConst(v.getType(), 0));
              for (int64_t s = 0; s < step; ++s) {
                Value left = e.quadSplat(unit == 4 ? e.lane(v, s) : v);
                total = e.fma(
                    left,
                    e.loadQuad(*packed,
                               e.add(e.add(column, e.mul(c, step * quads)),
                                     s * quads)),
                    total);
              }
              return SmallVector<Value>{total};
            });
      })[0];
}

LogicalResult Transposed::emit() {
  if (failed(read()))
    return failure();
  unsigned number =
      cast<BlockArgument>(onnx::getOptionalOperand(root, 1)).getArgNumber();
  packed = &e.pack(number, weight->element,
                   packColumns(weights, {{taps, 1}, {in, out * taps}},
                               {out, taps}, quads * 4));
  packed->useVectors();
  bool aligned = in % 4 == 0 && x->strides[1] == 1;
  for (unsigned k = 0; k < x->rank(); ++k)
    aligned &= k == 1 || x->strides[k] % 4 == 0;
  if (aligned)
    x->useVectors();
  fusion.useVectors(1);
  SmallVector<int64_t> sizes{fusion.dims()[0]};
  sizes.append(fusion.dims().begin() + 2, fusion.dims().end());
  sizes.push_back(quads);
  int64_t threads = 1;
  for (int64_t d : sizes)
    threads *= d;
  LogicalResult result = success();
  e.grid(threads, [&](Index id) {
    SmallVector<Index> digits = e.digits(id, sizes);
    Point p{{digits.front(), digits.back()}, 1};
    p.at.append(digits.begin() + 1, digits.end() - 1);
    Value v = sum(p.at, digits.back());
    if (bias)
      v = e.addF(v, fusion.loadAlong(*bias, 1, p));
    result = fusion.store(
        e.round(
            v, cast<ShapedType>(root->getResult(0).getType()).getElementType()),
        p);
  });
  return result;
}

LogicalResult emitTransposed(tsr::DispatchOp op, Emitter &e) {
  return Transposed(op, e).emit();
}
Register transposed({"onnx.ConvTranspose"}, emitTransposed);

} // namespace
} // namespace tessera::vulkan

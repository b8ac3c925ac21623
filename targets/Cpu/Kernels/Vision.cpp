// GridSample, RoiAlign, MaxUnpool, Col2Im, Det.
#include "targets/Cpu/Kernels/Combine.h"
#include "targets/Cpu/Kernels/RootView.h"
#include "targets/Cpu/Kernels/StridedCopy.h"
#include "targets/Cpu/Math.h"

using namespace mlir;
using tessera::onnx::Sym;

namespace tessera::cpu {
namespace {

using P = arith::CmpFPredicate;

class LoopsKernel : public KernelBuilder {
public:
  tsr::KernelClass kernelClass(Operation *) const override { return tsr::KernelClass::Loops; }
  LogicalResult match(Operation *root, Reasons &reasons) const override {
    if (!requireNumeric(root, reasons))
      return failure();
    return matchMore(root, reasons);
  }
  virtual LogicalResult matchMore(Operation *, Reasons &) const { return success(); }
};

Value toFloat(KernelEmitter &e, Value i, Type type) { return arith::SIToFPOp::create(e.b, e.loc, type, i); }

/// Whole number of a float; NaN and what is far outside become 0.
Value toInteger(KernelEmitter &e, Value x) {
  Value ok = e.cmpF(P::OLT, math::abs(e, x), e.floatConst(x.getType(), 1e9));
  return arith::FPToSIOp::create(e.b, e.loc, e.i64(), e.select(ok, x, e.floatConst(x.getType(), 0)));
}

class GridSampleKernel final : public LoopsKernel {
public:
  LogicalResult matchMore(Operation *root, Reasons &reasons) const override {
    StringRef mode = onnx::getString(root, "mode", "linear"), padding = onnx::getString(root, "padding_mode", "zeros");
    if (!llvm::is_contained({"linear", "bilinear", "nearest", "cubic", "bicubic"}, mode))
      reasons.no() << "mode " << mode << " is not known";
    if (padding != "zeros" && padding != "border" && padding != "reflection")
      reasons.no() << "padding_mode " << padding << " is not known";
    if (operandType(root, 0).getRank() < 3 || operandType(root, 0).getRank() > 5)
      reasons.no() << "rank " << operandType(root, 0).getRank() << " is not 3 to 5";
    if (!isa<FloatType>(operandElement(root, 1)))
      reasons.no() << "grid of " << onnx::getTypeName(operandElement(root, 1));
    if (!isa<FloatType>(operandElement(root, 0)) && mode != "nearest")
      reasons.no() << "interpolation of " << onnx::getTypeName(operandElement(root, 0));
    return success(reasons.empty());
  }
  LogicalResult emit(tsr::DispatchOp op, KernelEmitter &e) const override {
    RootView v(op, e);
    const TensorRef *in = v.in(0), *grid = v.in(1), *out = v.out(0);
    if (!in || !grid || !out)
      return failure();
    StringRef mode = onnx::getString(v.root, "mode", "linear"), padding = onnx::getString(v.root, "padding_mode", "zeros");
    bool nearest = mode == "nearest", cubic = mode.ends_with("cubic"), align = onnx::getInt(v.root, "align_corners", 0);
    unsigned rank = in->rank(), spatial = rank - 2;
    Type type = KernelEmitter::valueType(grid->element), value = KernelEmitter::valueType(in->element);
    auto c = [&](double k) { return e.floatConst(type, k); };
    SmallVector<Value> positions{out->dims[0]};
    positions.append(out->dims.begin() + 2, out->dims.end());
    Value some = e.lt(e.idx(0), e.product(in->dims));
    e.ifThen(some, [&] {
      e.forAll(positions, [&](ArrayRef<Value> at) {
        // Taps an axis: index (clamped), inside flag, weight.
        struct Tap { Value offset, inside, weight; };
        SmallVector<SmallVector<Tap>> taps(spatial);
        for (unsigned k = 0; k < spatial; ++k) {
          SmallVector<Value> from(at);
          from.push_back(e.idx(spatial - 1 - k)); // coordinates come last axis first
          Value n = e.load(*grid, from), length = in->dims[k + 2], size = toFloat(e, length, type);
          Value one = c(1), half = c(0.5);
          Value x = align ? e.mulF(e.mulF(e.addF(n, one), half), e.subF(size, one))
                          : e.mulF(e.subF(e.mulF(e.addF(n, one), size), one), half);
          if (nearest)
            x = math::roundEven(e, x);
          Value lo = align ? c(0) : c(-0.5), hi = e.subF(size, align ? one : half);
          Value outside = e.logicalOr(e.cmpF(P::OLT, x, lo), e.cmpF(P::OGT, x, hi));
          if (padding == "border") {
            Value clamped = e.minF(e.maxF(x, c(0)), e.subF(size, one));
            x = e.select(outside, clamped, x);
          } else if (padding == "reflection") {
            x = e.select(outside, reflect(e, x, lo, hi), x);
          }
          Value floor = nearest ? x : math::floor(e, x), base = toInteger(e, floor), ratio = e.subF(x, floor);
          auto tap = [&](int64_t shift, Value weight) {
            Value i = e.add(base, shift);
            Value inside = e.logicalAnd(e.cmp(arith::CmpIPredicate::sge, i, e.idx(0)), e.lt(i, length));
            Value clamped = e.maxS(e.minS(i, e.sub(length, 1)), e.idx(0));
            if (padding == "reflection") {
              Value r = toInteger(e, reflect(e, toFloat(e, i, type), lo, hi));
              clamped = e.select(inside, clamped, e.maxS(e.minS(r, e.sub(length, 1)), e.idx(0)));
            }
            taps[k].push_back({e.mul(clamped, in->strides[k + 2]),
                               padding == "zeros" ? inside : e.intConst(e.i1(), 1), weight});
          };
          if (nearest) {
            tap(0, {});
          } else if (!cubic) {
            tap(0, e.subF(one, ratio));
            tap(1, ratio);
          } else {
            for (int64_t i = -1; i < 3; ++i)
              tap(i, cubicWeight(e, math::abs(e, e.subF(c(static_cast<double>(i)), ratio))));
          }
        }
        e.forLoop(out->dims[1], [&](Value channel) {
          Value base = e.add(e.mul(at[0], in->strides[0]), e.mul(channel, in->strides[1]));
          SmallVector<Value> to{at[0], channel};
          to.append(at.begin() + 1, at.end());
          if (nearest) {
            Value offset = base, inside = e.intConst(e.i1(), 1);
            for (auto &axis : taps) {
              offset = e.add(offset, axis[0].offset);
              inside = e.logicalAnd(inside, axis[0].inside);
            }
            Value x = e.loadElement(*in, offset);
            Value zero = isa<FloatType>(value) ? e.floatConst(value, 0) : e.intConst(value, 0);
            e.store(*out, to, e.select(inside, x, zero));
            return;
          }
          std::function<Value(unsigned, Value, Value)> sum = [&](unsigned k, Value offset, Value inside) -> Value {
            if (k == spatial)
              return e.select(inside, e.loadElement(*in, offset), e.floatConst(value, 0));
            Value total = e.floatConst(value, 0);
            for (const Tap &t : taps[k]) {
              Value w = t.weight.getType() == value ? t.weight : e.cast(t.weight, type, value);
              total = e.fma(w, sum(k + 1, e.add(offset, t.offset), e.logicalAnd(inside, t.inside)), total);
            }
            return total;
          };
          e.store(*out, to, e.round(sum(0, base, e.intConst(e.i1(), 1)), out->element));
        });
      });
    });
    return success();
  }

private:
  // Mirrors x at the borders until it is between them.
  static Value reflect(KernelEmitter &e, Value x, Value lo, Value hi) {
    Type type = x.getType();
    Value range = e.subF(hi, lo), zero = e.floatConst(type, 0);
    Value below = e.cmpF(P::OLT, x, lo), above = e.cmpF(P::OGT, x, hi);
    Value distance = e.select(below, e.subF(lo, x), e.subF(x, hi));
    Value safe = e.select(e.cmpF(P::OGT, range, zero), range, e.floatConst(type, 1));
    Value n = math::trunc(e, e.divF(distance, safe));
    Value rest = e.subF(distance, e.mulF(n, safe));
    Value half = e.mulF(n, e.floatConst(type, 0.5));
    Value even = e.cmpF(P::OEQ, math::floor(e, half), half);
    Value fromLow = e.addF(lo, rest), fromHigh = e.subF(hi, rest);
    Value y = e.select(below, e.select(even, fromLow, fromHigh), e.select(even, fromHigh, fromLow));
    return e.select(e.logicalOr(below, above), y, x);
  }
  static Value cubicWeight(KernelEmitter &e, Value x) {
    Type type = x.getType();
    double a = -0.75;
    auto poly = [&](double c3, double c2, double c1, double c0) {
      Value y = e.addF(e.mulF(e.floatConst(type, c3), x), e.floatConst(type, c2));
      y = e.addF(e.mulF(y, x), e.floatConst(type, c1));
      return e.addF(e.mulF(y, x), e.floatConst(type, c0));
    };
    return e.select(e.cmpF(P::OLE, x, e.floatConst(type, 1)), poly(a + 2, -(a + 3), 0, 1), poly(a, -5 * a, 8 * a, -4 * a));
  }
};
TESSERA_KERNEL(GridSampleKernel, "onnx.GridSample");

class RoiAlignKernel final : public LoopsKernel {
public:
  LogicalResult matchMore(Operation *root, Reasons &reasons) const override {
    StringRef mode = onnx::getString(root, "mode", "avg"), coordinates = onnx::getString(root, "coordinate_transformation_mode", "half_pixel");
    if (mode != "avg" && mode != "max")
      reasons.no() << "mode " << mode << " is not known";
    if (coordinates != "half_pixel" && coordinates != "output_half_pixel")
      reasons.no() << "coordinate_transformation_mode " << coordinates << " is not known";
    if (!isa<FloatType>(operandElement(root, 0)))
      reasons.no() << "element type " << onnx::getTypeName(operandElement(root, 0));
    return success(reasons.empty());
  }
  LogicalResult emit(tsr::DispatchOp op, KernelEmitter &e) const override {
    RootView v(op, e);
    const TensorRef *in = v.in(0), *rois = v.in(1), *batches = v.in(2), *out = v.out(0);
    if (!in || !rois || !batches || !out)
      return failure();
    bool average = onnx::getString(v.root, "mode", "avg") == "avg";
    bool halfPixel = onnx::getString(v.root, "coordinate_transformation_mode", "half_pixel") == "half_pixel";
    int64_t sampling = onnx::getInt(v.root, "sampling_ratio", 0);
    double scale = onnx::getFloat(v.root, "spatial_scale", 1);
    Type type = KernelEmitter::valueType(in->element);
    auto c = [&](double k) { return e.floatConst(type, k); };
    Value height = in->dims[2], width = in->dims[3];
    Value some = e.lt(e.idx(0), e.product(in->dims));
    e.ifThen(some, [&] {
      e.forLoop(e.minS(out->dims[0], e.minS(rois->dims[0], batches->dims[0])), [&](Value r) {
        Value image = wrapIndex(e, toIndex(e, e.load(*batches, {r})), in->dims[0]);
        Value corner[4];
        for (unsigned k = 0; k < 4; ++k)
          corner[k] = e.subF(e.mulF(e.load(*rois, {r, e.idx(k)}), c(scale)), c(halfPixel ? 0.5 : 0));
        Value roiW = e.subF(corner[2], corner[0]), roiH = e.subF(corner[3], corner[1]);
        if (!halfPixel)
          roiW = e.maxF(roiW, c(1)), roiH = e.maxF(roiH, c(1));
        Value binH = e.divF(roiH, toFloat(e, out->dims[2], type)), binW = e.divF(roiW, toFloat(e, out->dims[3], type));
        auto samples = [&](Value bin) {
          return sampling > 0 ? e.idx(sampling) : e.maxS(toInteger(e, math::ceil(e, bin)), e.idx(0));
        };
        Value gridH = samples(binH), gridW = samples(binW);
        Value count = toFloat(e, e.maxS(e.mul(gridH, gridW), e.idx(1)), type);
        e.forAll({out->dims[1], out->dims[2], out->dims[3]}, [&](ArrayRef<Value> at) {
          Value base = e.add(e.mul(image, in->strides[0]), e.mul(at[0], in->strides[1]));
          auto place = [&](Value start, Value bin, Value p, Value i, Value grid) {
            Value y = e.addF(start, e.mulF(toFloat(e, p, type), bin));
            Value step = e.divF(e.mulF(e.addF(toFloat(e, i, type), c(0.5)), bin), toFloat(e, grid, type));
            return e.addF(y, step);
          };
          Value zero = c(0);
          auto total = e.forLoop(e.idx(0), gridH, e.idx(1), ValueRange{zero, e.idx(0)}, [&](Value iy, ValueRange outer) {
            return e.forLoop(e.idx(0), gridW, e.idx(1), outer, [&](Value ix, ValueRange acc) -> SmallVector<Value> {
              Value y = place(corner[1], binH, at[1], iy, gridH), x = place(corner[0], binW, at[2], ix, gridW);
              auto inside = [&](Value p, Value size) {
                return e.logicalAnd(e.cmpF(P::OGE, p, c(-1)), e.cmpF(P::OLE, p, toFloat(e, size, type)));
              };
              Value good = e.logicalAnd(inside(y, height), inside(x, width));
              struct Pair { Value low, high, wLow, wHigh; };
              auto taps = [&](Value p, Value size) -> Pair {
                p = e.maxF(e.select(good, p, zero), zero);
                Value last = e.sub(size, 1), low = toInteger(e, p);
                Value atEnd = e.cmp(arith::CmpIPredicate::sge, low, last);
                low = e.select(atEnd, last, low);
                Value high = e.select(atEnd, last, e.add(low, 1));
                Value l = e.select(atEnd, zero, e.subF(p, toFloat(e, low, type)));
                return {low, high, e.subF(c(1), l), l};
              };
              Pair py = taps(y, height), px = taps(x, width);
              auto term = [&](Value row, Value col, Value wy, Value wx) {
                Value offset = e.add(base, e.add(e.mul(row, in->strides[2]), e.mul(col, in->strides[3])));
                return e.select(good, e.mulF(e.mulF(wy, wx), e.loadElement(*in, offset)), zero);
              };
              Value t[4] = {term(py.low, px.low, py.wLow, px.wLow), term(py.low, px.high, py.wLow, px.wHigh),
                            term(py.high, px.low, py.wHigh, px.wLow), term(py.high, px.high, py.wHigh, px.wHigh)};
              Value next;
              if (average) {
                next = e.addF(acc[0], e.addF(e.addF(t[0], t[1]), e.addF(t[2], t[3])));
              } else {
                Value best = e.maxF(e.maxF(t[0], t[1]), e.maxF(t[2], t[3]));
                next = e.select(e.eq(acc[1], e.idx(0)), best, e.maxF(acc[0], best));
              }
              return {next, e.add(acc[1], 1)};
            });
          });
          Value y = average ? e.divF(total[0], count) : total[0];
          e.store(*out, {r, at[0], at[1], at[2]}, e.round(y, out->element));
        });
      });
    });
    return success();
  }
};
TESSERA_KERNEL(RoiAlignKernel, "onnx.RoiAlign");

/// Indices count positions of the tensor that was pooled, of which the result
/// may be a larger copy.
class MaxUnpoolKernel final : public LoopsKernel {
public:
  bool embedsConstant(Operation *, unsigned operand) const override { return operand == 2; }
  LogicalResult emit(tsr::DispatchOp op, KernelEmitter &e) const override {
    RootView v(op, e);
    const TensorRef *in = v.in(0), *indices = v.in(1), *out = v.out(0);
    if (!in || !indices || !out)
      return failure();
    unsigned rank = in->rank(), spatial = rank - 2;
    SmallVector<int64_t> kernel = onnx::getInts(v.root, "kernel_shape"), strides = onnx::getInts(v.root, "strides"),
                         pads = onnx::getInts(v.root, "pads");
    strides.resize(strides.empty() ? spatial : strides.size(), 1);
    pads.resize(pads.empty() ? 2 * spatial : pads.size(), 0);
    SmallVector<Value> pooled{in->dims[0], in->dims[1]};
    for (unsigned k = 0; k < spatial; ++k)
      pooled.push_back(e.add(e.mul(e.sub(in->dims[k + 2], 1), strides[k]), kernel[k] - pads[k] - pads[spatial + k]));
    SmallVector<CopyAxis> all;
    for (unsigned k = 0; k < rank; ++k)
      all.push_back({out->dims[k], out->strides[k], e.idx(0)});
    fillBox(e, *out, e.idx(0), all, {});
    e.forAll(in->dims, [&](ArrayRef<Value> i) {
      Value at = toIndex(e, e.load(*indices, i)), rest = at, offset = e.idx(0);
      Value good = e.logicalAnd(e.cmp(arith::CmpIPredicate::sge, at, e.idx(0)), e.lt(at, e.product(pooled)));
      rest = e.select(good, rest, e.idx(0));
      for (unsigned k = rank; k-- > 0;) {
        Value size = e.maxS(pooled[k], e.idx(1));
        Value p = k ? e.remU(rest, size) : rest;
        if (k)
          rest = e.divU(rest, size);
        good = e.logicalAnd(good, e.lt(p, out->dims[k]));
        offset = e.add(offset, e.mul(p, out->strides[k]));
      }
      e.failIf(e.logicalNot(good), TSR_KERNEL_INDEX_OUT_OF_RANGE);
      e.ifThen(good, [&] { moveElement(e, *out, offset, *in, e.offsetOf(*in, i)); });
    });
    return success();
  }
};
TESSERA_KERNEL(MaxUnpoolKernel, "onnx.MaxUnpool");

class Col2ImKernel final : public LoopsKernel {
public:
  bool embedsConstant(Operation *, unsigned operand) const override { return operand >= 1; }
  LogicalResult matchMore(Operation *root, Reasons &reasons) const override {
    if (operandType(root, 0).getRank() != 3)
      reasons.no() << "rank " << operandType(root, 0).getRank() << " is not 3";
    requireStaticCount(root, 2, reasons);
    return success(reasons.empty());
  }
  LogicalResult emit(tsr::DispatchOp op, KernelEmitter &e) const override {
    RootView v(op, e);
    const TensorRef *in = v.in(0), *out = v.out(0);
    if (!in || !out)
      return failure();
    unsigned n = out->rank() - 2;
    SmallVector<Value> block = v.ints(2, n);
    SmallVector<int64_t> strides = onnx::getInts(v.root, "strides"), pads = onnx::getInts(v.root, "pads"),
                         dilations = onnx::getInts(v.root, "dilations");
    strides.resize(strides.empty() ? n : strides.size(), 1);
    dilations.resize(dilations.empty() ? n : dilations.size(), 1);
    pads.resize(pads.empty() ? 2 * n : pads.size(), 0);
    Value taps = e.product(block), fits = e.eq(e.mul(out->dims[1], taps), in->dims[1]), blocks = e.idx(1);
    SmallVector<Value> counts;
    for (unsigned k = 0; k < n; ++k) {
      Value reach = e.add(e.mul(e.sub(block[k], 1), dilations[k]), 1);
      Value room = e.sub(e.add(out->dims[k + 2], pads[k] + pads[n + k]), reach);
      counts.push_back(e.select(e.lt(room, e.idx(0)), e.idx(0), e.add(e.divU(e.maxS(room, e.idx(0)), e.idx(strides[k])), 1)));
      blocks = e.mul(blocks, counts[k]);
      fits = e.logicalAnd(fits, e.lt(e.idx(0), block[k]));
    }
    fits = e.logicalAnd(fits, e.eq(blocks, in->dims[2]));
    e.failIf(e.logicalNot(fits), TSR_KERNEL_BAD_VALUE);
    SmallVector<CopyAxis> all;
    for (unsigned k = 0; k < out->rank(); ++k)
      all.push_back({out->dims[k], out->strides[k], e.idx(0)});
    fillBox(e, *out, e.idx(0), all, {});
    e.ifThen(fits, [&] {
      SmallVector<Value> loops{out->dims[0], out->dims[1]};
      loops.append(block);
      loops.append(counts);
      e.forAll(loops, [&](ArrayRef<Value> i) {
        Value row = i[1], column = e.idx(0), inside = e.intConst(e.i1(), 1);
        Value to = e.add(e.mul(i[0], out->strides[0]), e.mul(i[1], out->strides[1]));
        for (unsigned k = 0; k < n; ++k) {
          row = e.add(e.mul(row, block[k]), i[2 + k]);
          column = e.add(e.mul(column, counts[k]), i[2 + n + k]);
          Value p = e.sub(e.add(e.mul(i[2 + n + k], strides[k]), e.mul(i[2 + k], dilations[k])), pads[k]);
          inside = e.logicalAnd(inside, e.logicalAnd(e.cmp(arith::CmpIPredicate::sge, p, e.idx(0)), e.lt(p, out->dims[k + 2])));
          to = e.add(to, e.mul(p, out->strides[k + 2]));
        }
        e.ifThen(inside, [&] {
          Value x = e.load(*in, {i[0], row, column});
          Value sum = combine(e, Combine::Add, out->element, e.loadElement(*out, to), x);
          e.storeElement(*out, to, isa<FloatType>(out->element) ? e.round(sum, out->element) : sum);
        });
      });
    });
    return success();
  }
};
TESSERA_KERNEL(Col2ImKernel, "onnx.Col2Im");

/// Determinants by elimination with partial pivoting, in double.
class DetKernel final : public LoopsKernel {
public:
  LogicalResult matchMore(Operation *root, Reasons &reasons) const override {
    if (!isa<FloatType>(operandElement(root, 0)))
      return reasons.no() << "element type " << onnx::getTypeName(operandElement(root, 0));
    return success();
  }
  Sym scratchBytes(tsr::DispatchOp op, const DispatchSizes &sizes) const override {
    auto arg = cast<BlockArgument>(onnx::getOptionalOperand(op.getRootOp(), 0));
    auto &dims = sizes.operands[arg.getArgNumber()];
    return sizes.ctx.add(sizes.ctx.constant(64), sizes.ctx.product({dims[dims.size() - 1], dims[dims.size() - 2], sizes.ctx.constant(8)}));
  }
  LogicalResult emit(tsr::DispatchOp op, KernelEmitter &e) const override {
    RootView v(op, e);
    const TensorRef *in = v.in(0), *out = v.out(0);
    if (!in || !out || !e.scratch)
      return failure();
    unsigned rank = in->rank();
    Value n = in->dims[rank - 1], square = e.eq(n, in->dims[rank - 2]);
    e.failIf(e.logicalNot(square), TSR_KERNEL_BAD_VALUE);
    auto place = [&](Value r, Value c) { return e.gep(e.scratch, e.f64(), e.add(e.mul(r, n), c)); };
    auto get = [&](Value r, Value c) { return e.rawLoad(e.f64(), place(r, c)); };
    e.ifThen(square, [&] {
      e.forAll(ArrayRef(in->dims).drop_back(2), [&](ArrayRef<Value> at) {
        Value one = e.floatConst(e.f64(), 1), zero = e.floatConst(e.f64(), 0);
        e.forAll({n, n}, [&](ArrayRef<Value> rc) {
          SmallVector<Value> from(at);
          from.append(rc.begin(), rc.end());
          Value x = e.load(*in, from);
          if (!x.getType().isF64())
            x = arith::ExtFOp::create(e.b, e.loc, e.f64(), x);
          e.rawStore(x, place(rc[0], rc[1]));
        });
        Value det = e.forLoop(e.idx(0), n, e.idx(1), ValueRange{one}, [&](Value k, ValueRange acc) -> SmallVector<Value> {
          auto best = e.forLoop(e.add(k, 1), n, e.idx(1), ValueRange{k, math::abs(e, get(k, k))}, [&](Value r, ValueRange c) -> SmallVector<Value> {
            Value x = math::abs(e, get(r, k)), more = e.cmpF(P::OGT, x, c[1]);
            return {e.select(more, r, c[0]), e.select(more, x, c[1])};
          });
          Value swap = e.logicalNot(e.eq(best[0], k));
          e.ifThen(swap, [&] {
            e.forLoop(n, [&](Value c) {
              Value a = get(k, c), b = get(best[0], c);
              e.rawStore(b, place(k, c));
              e.rawStore(a, place(best[0], c));
            });
          });
          Value pivot = get(k, k), singular = e.cmpF(P::OEQ, pivot, zero);
          Value divisor = e.select(singular, one, pivot);
          e.forLoop(e.add(k, 1), n, e.idx(1), [&](Value r) {
            Value factor = e.divF(get(r, k), divisor);
            e.forLoop(k, n, e.idx(1), [&](Value c) {
              e.rawStore(e.subF(get(r, c), e.mulF(factor, get(k, c))), place(r, c));
            });
          });
          Value sign = e.select(swap, e.subF(zero, acc[0]), acc[0]);
          return {e.mulF(sign, pivot)};
        })[0];
        Type value = KernelEmitter::valueType(out->element);
        if (value != det.getType())
          det = arith::TruncFOp::create(e.b, e.loc, value, det);
        e.store(*out, at, e.round(det, out->element));
      });
    });
    return success();
  }
};
TESSERA_KERNEL(DetKernel, "onnx.Det");

} // namespace
} // namespace tessera::cpu

// Resize and Upsample.
//
// Every axis whose size or scale changes gets a table of taps in scratch: for
// each result position the source offsets (clamped, in elements) and weights.
// Coordinates are computed in double. The nest then sums taps, in vectors
// where an axis that is not resized is contiguous (channels last).
#include "targets/Cpu/Kernels/Combine.h"
#include "targets/Cpu/Kernels/Lanes.h"
#include "targets/Cpu/Kernels/RootView.h"
#include "targets/Cpu/Kernels/StridedCopy.h"
#include "targets/Cpu/Math.h"

using namespace mlir;
using tessera::onnx::Sym;

namespace tessera::cpu {
namespace {

enum class Mode : uint8_t { Nearest, Linear, Cubic };

struct Spec {
  Mode mode = Mode::Nearest;
  StringRef coordinates, nearest, policy;
  bool antialias = false, excludeOutside = false;
  SmallVector<int64_t> axes;
  bool upsample = false;
  int scalesAt = 2, sizesAt = 3, roiAt = 1; ///< operand positions, -1: absent

  int64_t fixedTaps() const {
    return antialias ? 0 : mode == Mode::Nearest ? 1 : mode == Mode::Linear ? 2 : 4;
  }
  int64_t support() const { return mode == Mode::Cubic ? 2 : 1; }
};

bool given(Operation *root, int pos) {
  auto type = operandType(root, pos);
  return type && !(type.hasStaticShape() && type.getNumElements() == 0);
}

Spec specOf(Operation *root) {
  Spec s;
  s.upsample = root->getName().getStringRef() == "onnx.Upsample";
  StringRef mode = onnx::getString(root, "mode", "nearest");
  s.mode = mode == "nearest" ? Mode::Nearest : mode == "cubic" ? Mode::Cubic : Mode::Linear;
  s.coordinates = onnx::getString(root, "coordinate_transformation_mode", s.upsample ? "asymmetric" : "half_pixel");
  s.nearest = onnx::getString(root, "nearest_mode", s.upsample ? "floor" : "round_prefer_floor");
  s.policy = onnx::getString(root, "keep_aspect_ratio_policy", "stretch");
  s.antialias = onnx::getInt(root, "antialias", 0) && s.mode != Mode::Nearest;
  s.excludeOutside = onnx::getInt(root, "exclude_outside", 0);
  int64_t rank = operandType(root, 0).getRank();
  s.axes = onnx::getInts(root, "axes");
  if (s.axes.empty())
    for (int64_t k = 0; k < rank; ++k)
      s.axes.push_back(k);
  for (int64_t &a : s.axes)
    a += a < 0 ? rank : 0;
  if (s.upsample)
    s.scalesAt = 1, s.sizesAt = s.roiAt = -1;
  else if (given(root, 3))
    s.scalesAt = -1;
  else
    s.sizesAt = -1;
  return s;
}

class ResizeKernel final : public KernelBuilder {
public:
  tsr::KernelClass kernelClass(Operation *) const override { return tsr::KernelClass::Loops; }
  bool acceptsChannelsLast(Operation *) const override { return true; }
  bool embedsConstant(Operation *, unsigned operand) const override { return operand >= 1; }
  LogicalResult match(Operation *root, Reasons &reasons) const override;
  Sym scratchBytes(tsr::DispatchOp op, const DispatchSizes &sizes) const override;
  LogicalResult emit(tsr::DispatchOp op, KernelEmitter &e) const override;
  unsigned extentCount(Operation *root) const override { return openAxes(root).size(); }
  LogicalResult emitExtents(tsr::DispatchOp op, KernelEmitter &e) const override;

private:
  /// Axes whose size only run-time scales tell.
  static SmallVector<unsigned> openAxes(Operation *root);
};
TESSERA_KERNEL(ResizeKernel, "onnx.Resize", "onnx.Upsample");

LogicalResult ResizeKernel::match(Operation *root, Reasons &reasons) const {
  if (!requireMovable(root, reasons))
    return failure();
  auto oneOf = [&](StringRef what, StringRef value, ArrayRef<StringRef> known) {
    if (!llvm::is_contained(known, value))
      reasons.no() << what << " " << value << " is not known";
  };
  oneOf("mode", onnx::getString(root, "mode", "nearest"), {"nearest", "linear", "cubic"});
  Spec s = specOf(root);
  oneOf("coordinate_transformation_mode", s.coordinates,
        {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
         "tf_crop_and_resize"});
  oneOf("nearest_mode", s.nearest, {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"});
  oneOf("keep_aspect_ratio_policy", s.policy, {"stretch", "not_larger", "not_smaller"});
  if (s.mode != Mode::Nearest && !isa<FloatType, IntegerType>(operandElement(root, 0)))
    reasons.no() << "element type " << onnx::getTypeName(operandElement(root, 0));
  if (s.mode == Mode::Nearest && s.excludeOutside)
    reasons.no() << "exclude_outside with mode nearest";
  if (s.scalesAt < 0 && s.sizesAt < 0)
    reasons.no() << "neither scales nor sizes are given";
  if (s.coordinates == "tf_crop_and_resize" && !given(root, 1))
    reasons.no() << "tf_crop_and_resize without roi";
  if (s.coordinates == "tf_crop_and_resize" && !isa<FloatType, IntegerType>(operandElement(root, 0)))
    reasons.no() << "extrapolation of " << onnx::getTypeName(operandElement(root, 0));
  return success(reasons.empty());
}

Sym ResizeKernel::scratchBytes(tsr::DispatchOp op, const DispatchSizes &sizes) const {
  Operation *root = op.getRootOp();
  Spec s = specOf(root);
  auto &ctx = sizes.ctx;
  auto arg = dyn_cast<BlockArgument>(onnx::getOptionalOperand(root, 0));
  if (!arg)
    return nullptr;
  Sym total = ctx.constant(64);
  for (auto [in, out] : llvm::zip(sizes.operands[arg.getArgNumber()], sizes.results[0])) {
    Sym taps = s.antialias
                   ? ctx.add(ctx.mul(ctx.constant(2), ctx.add(ctx.mul(ctx.constant(4 * s.support()), in), ctx.mul(ctx.constant(2), out))), ctx.constant(64))
                   : ctx.mul(out, ctx.constant(s.fixedTaps()));
    total = ctx.add(total, ctx.add(ctx.mul(taps, ctx.constant(16)), ctx.constant(128)));
  }
  return total;
}

/// Taps of one axis, in scratch.
struct AxisTable {
  unsigned axis;
  Value taps;            ///< i64, per position
  Value offsets, weights; ///< pointers: i64 and f32/f64, [position][tap]
};

/// Writes the tables.
class TableMaker {
public:
  TableMaker(RootView &v, const Spec &s, const TensorRef &in, const TensorRef &out, Type weight)
      : v(v), e(v.e), s(s), in(in), out(out), weight(weight), next(v.e.scratch) {}

  bool isIdentity(unsigned axis) {
    if (!llvm::is_contained(s.axes, static_cast<int64_t>(axis)))
      return true;
    if (!sameValue(in.dims[axis], out.dims[axis]) || s.coordinates == "tf_crop_and_resize")
      return false;
    if (s.sizesAt >= 0)
      return s.policy == "stretch";
    auto scales = onnx::getConstantFloats(onnx::getOptionalOperand(v.root, s.scalesAt));
    return scales && (*scales)[place(axis)] == 1;
  }

  AxisTable make(unsigned axis) {
    Value scale = scaleOf(axis), length = in.dims[axis], count = out.dims[axis];
    AxisTable t;
    t.axis = axis;
    t.taps = e.idx(s.fixedTaps());
    Value reach; // source units a tap step covers: below 1 when shrinking
    if (s.antialias) {
      reach = e.minF(scale, d(1));
      Value half = math::ceil(e, e.divF(d(s.support()), reach));
      Value limit = e.add(e.mul(length, 4 * s.support()), 4); // bounds the tables whatever the scales
      t.taps = e.mul(e.maxS(e.minS(toInt(half), e.divU(limit, e.maxS(count, e.idx(1)))), e.idx(1)), 2);
    }
    t.offsets = take(e.mul(e.mul(count, t.taps), 8));
    t.weights = take(e.mul(e.mul(count, t.taps), weight.getIntOrFloatBitWidth() / 8));
    e.forLoop(count, [&](Value o) {
      Value outside, x = coordinate(axis, o, scale, outside);
      Value floor = math::floor(e, x), ratio = e.subF(x, floor), at = toInt(floor);
      Value row = e.mul(o, t.taps);
      auto put = [&](Value tap, Value index, Value w) {
        Value clamped = e.maxS(e.minS(index, e.sub(length, 1)), e.idx(0));
        Value offset = e.mul(clamped, in.strides[axis]);
        if (outside)
          offset = e.select(outside, e.idx(-1), offset);
        e.rawStore(offset, e.gep(t.offsets, e.i64(), e.add(row, tap)));
        if (w)
          e.rawStore(narrow(w), e.gep(t.weights, weight, e.add(row, tap)));
      };
      if (s.mode == Mode::Nearest)
        return put(e.idx(0), e.add(at, nearestStep(ratio)), {});
      Value first = s.antialias ? e.sub(e.idx(1), e.divU(t.taps, e.idx(2))) : e.idx(s.mode == Mode::Cubic ? -1 : 0);
      auto rawWeight = [&](Value tap) {
        Value relative = e.subF(toDouble(e.add(first, tap)), ratio);
        if (reach)
          relative = e.mulF(relative, reach);
        Value w = kernel(math::abs(e, relative));
        if (!s.excludeOutside)
          return w;
        Value index = e.add(at, e.add(first, tap));
        Value inside = e.logicalAnd(e.cmp(arith::CmpIPredicate::sge, index, e.idx(0)), e.lt(index, length));
        return e.select(inside, w, d(0));
      };
      Value sum;
      if (s.antialias || s.excludeOutside) {
        sum = e.forLoop(e.idx(0), t.taps, e.idx(1), ValueRange{d(0)}, [&](Value tap, ValueRange acc) -> SmallVector<Value> {
          return {e.addF(acc[0], rawWeight(tap))};
        })[0];
        sum = e.select(e.cmpF(arith::CmpFPredicate::OEQ, sum, d(0)), d(1), sum);
      }
      e.forLoop(t.taps, [&](Value tap) {
        Value w = rawWeight(tap);
        put(tap, e.add(at, e.add(first, tap)), sum ? e.divF(w, sum) : w);
      });
    });
    return t;
  }

  /// Size of the result along `axis` as the operands say.
  Value sizeOf(unsigned axis) {
    Value size = e.mulF(scaleOf(axis), toDouble(in.dims[axis]));
    if (s.coordinates == "tf_crop_and_resize")
      size = e.mulF(size, e.subF(floatOperand(s.roiAt, place(axis) + s.axes.size()), floatOperand(s.roiAt, place(axis))));
    return e.maxS(toInt(math::floor(e, size)), e.idx(0));
  }

private:
  Value d(double x) { return e.floatConst(e.f64(), x); }
  Value toDouble(Value i) { return arith::SIToFPOp::create(e.b, e.loc, e.f64(), i); }
  // Out of range and NaN coordinates saturate.
  Value toInt(Value x) {
    Value safe = e.select(e.cmpF(arith::CmpFPredicate::OLT, math::abs(e, x), d(1e15)), x, d(0));
    return arith::FPToSIOp::create(e.b, e.loc, e.i64(), safe);
  }
  Value narrow(Value x) {
    return weight.isF64() ? x : Value(arith::TruncFOp::create(e.b, e.loc, weight, x));
  }
  Value take(Value bytes) {
    Value p = next;
    Value rounded = e.mul(e.divU(e.add(bytes, 63), e.idx(64)), 64);
    next = e.gep(next, e.i8(), rounded);
    return p;
  }
  unsigned place(unsigned axis) { return llvm::find(s.axes, axis) - s.axes.begin(); }
  Value floatOperand(unsigned pos, unsigned i) {
    Value x;
    if (ElementsAttr attr = v.constant(pos))
      return d((*onnx::getFloats(attr))[i]);
    const TensorRef &t = *v.in(pos);
    x = e.loadElement(t, e.mul(t.strides[0], i));
    return t.element.isF64() ? x : Value(arith::ExtFOp::create(e.b, e.loc, e.f64(), x));
  }
  Value ratioOf(unsigned axis, Value size) {
    return e.divF(toDouble(size), toDouble(e.maxS(in.dims[axis], e.idx(1))));
  }
  Value scaleOf(unsigned axis) {
    if (s.scalesAt >= 0)
      return floatOperand(s.scalesAt, place(axis));
    if (s.policy == "stretch")
      return ratioOf(axis, out.dims[axis]);
    SmallVector<Value> sizes = v.ints(s.sizesAt, s.axes.size());
    Value best;
    for (auto [i, a] : llvm::enumerate(s.axes)) {
      Value r = ratioOf(a, sizes[i]);
      best = !best ? r : s.policy == "not_larger" ? e.minF(best, r) : e.maxF(best, r);
    }
    return best;
  }
  Value nearestStep(Value ratio) {
    using P = arith::CmpFPredicate;
    Value up;
    if (s.nearest == "floor")
      return e.idx(0);
    if (s.nearest == "ceil")
      up = e.cmpF(P::OGT, ratio, d(0));
    else
      up = e.cmpF(s.nearest == "round_prefer_floor" ? P::OGT : P::OGE, ratio, d(0.5));
    return e.select(up, e.idx(1), e.idx(0));
  }
  // Weight at distance x >= 0.
  Value kernel(Value x) {
    if (s.mode == Mode::Linear) {
      Value w = e.subF(d(1), x);
      return e.select(e.cmpF(arith::CmpFPredicate::OGT, w, d(0)), w, d(0));
    }
    double a = onnx::getFloat(v.root, "cubic_coeff_a", -0.75);
    auto poly = [&](double c3, double c2, double c1, double c0) {
      Value y = e.addF(e.mulF(d(c3), x), d(c2));
      y = e.addF(e.mulF(y, x), d(c1));
      return e.addF(e.mulF(y, x), d(c0));
    };
    Value near = poly(a + 2, -(a + 3), 0, 1), far = poly(a, -5 * a, 8 * a, -4 * a);
    using P = arith::CmpFPredicate;
    return e.select(e.cmpF(P::OLE, x, d(1)), near, e.select(e.cmpF(P::OLT, x, d(2)), far, d(0)));
  }
  Value coordinate(unsigned axis, Value o, Value scale, Value &outside) {
    Value x = toDouble(o), length = toDouble(in.dims[axis]);
    Value width = s.scalesAt >= 0 || s.policy != "stretch" ? e.mulF(scale, length) : toDouble(out.dims[axis]);
    Value one = e.cmpF(arith::CmpFPredicate::OEQ, width, d(1));
    Value last = e.subF(length, d(1)), lastOut = e.subF(width, d(1));
    Value half = e.subF(e.divF(e.addF(x, d(0.5)), scale), d(0.5));
    if (s.coordinates == "align_corners")
      return e.select(one, d(0), e.divF(e.mulF(x, last), lastOut));
    if (s.coordinates == "asymmetric")
      return e.divF(x, scale);
    if (s.coordinates == "pytorch_half_pixel")
      return e.select(one, d(-0.5), half);
    if (s.coordinates == "half_pixel_symmetric") {
      Value adjustment = e.divF(toDouble(out.dims[axis]), width);
      Value shift = e.mulF(e.mulF(length, d(0.5)), e.subF(d(1), adjustment));
      return e.addF(shift, half);
    }
    if (s.coordinates == "tf_crop_and_resize") {
      Value start = floatOperand(s.roiAt, place(axis)), end = floatOperand(s.roiAt, place(axis) + s.axes.size());
      Value span = e.mulF(e.subF(end, start), last);
      Value y = e.select(one, e.mulF(span, d(0.5)), e.divF(e.mulF(x, span), lastOut));
      y = e.addF(y, e.mulF(start, last));
      outside = e.logicalOr(e.cmpF(arith::CmpFPredicate::OLT, y, d(0)), e.cmpF(arith::CmpFPredicate::OGT, y, last));
      return y;
    }
    return half;
  }

  RootView &v;
  KernelEmitter &e;
  const Spec &s;
  const TensorRef &in, &out;
  Type weight;
  Value next;
};

SmallVector<unsigned> ResizeKernel::openAxes(Operation *root) {
  Spec s = specOf(root);
  SmallVector<unsigned> open;
  if (s.scalesAt >= 0 && !onnx::getConstant(onnx::getOptionalOperand(root, s.scalesAt))) {
    for (int64_t a : s.axes)
      open.push_back(a);
    llvm::sort(open);
  }
  return open;
}

LogicalResult ResizeKernel::emitExtents(tsr::DispatchOp op, KernelEmitter &e) const {
  RootView v(op, e);
  const TensorRef *in = v.in(0);
  if (!in)
    return failure();
  Spec s = specOf(v.root);
  TableMaker maker(v, s, *in, *in, e.f32());
  for (auto [i, k] : llvm::enumerate(openAxes(v.root)))
    e.storeElement(e.outputs[0], e.idx(i), llvm::is_contained(s.axes, static_cast<int64_t>(k)) ? maker.sizeOf(k) : in->dims[k]);
  return success();
}

/// The taps met so far on the way to the innermost loop.
struct TapSum {
  SmallVector<Value> offsets, weights; ///< of every combination (fixed taps)
  SmallVector<std::pair<AxisTable, Value>> open; ///< tables with their row (varying taps)
  Value dst, outside;
};

LogicalResult ResizeKernel::emit(tsr::DispatchOp op, KernelEmitter &e) const {
  RootView v(op, e);
  const TensorRef *in = v.in(0), *out = v.out(0);
  if (!in || !out || !e.scratch)
    return failure();
  Spec s = specOf(v.root);
  unsigned rank = in->rank();
  Type value = KernelEmitter::valueType(in->element);
  Type weight = value.isF64() ? Type(e.f64()) : Type(e.f32());
  if (auto i = dyn_cast<IntegerType>(value); i && i.getWidth() >= 32)
    weight = e.f64();
  bool nearest = s.mode == Mode::Nearest, crop = s.coordinates == "tf_crop_and_resize";
  Value some = e.lt(e.idx(0), e.product(out->dims)), any = e.lt(e.idx(0), e.product(in->dims));
  e.failIf(e.logicalAnd(some, e.logicalNot(any)), TSR_KERNEL_BAD_VALUE);

  auto body = [&] {
    TableMaker maker(v, s, *in, *out, weight);
    llvm::DenseMap<unsigned, AxisTable> tables;
    for (unsigned k = 0; k < rank; ++k)
      if (!maker.isIdentity(k))
        tables[k] = maker.make(k);
    // Loop order: the result's memory order; the contiguous axis last.
    SmallVector<unsigned> order;
    int lane = -1;
    for (unsigned k = 0; k < rank; ++k)
      if (KernelEmitter::constantOf(out->strides[k]) == 1 && KernelEmitter::constantOf(out->dims[k]) != 1)
        lane = k;
    for (unsigned k = 0; k < rank; ++k)
      if (static_cast<int>(k) != lane)
        order.push_back(k);
    bool lanes = lane >= 0 && !tables.count(lane) && KernelEmitter::constantOf(in->strides[lane]) == 1 &&
                 KernelEmitter::storageBits(in->element) >= 8;
    if (lane >= 0 && !lanes)
      order.push_back(lane);

    auto convertIn = [&](Value x) {
      return KernelEmitter::scalarType(x.getType()) == weight ? x : e.cast(x, in->element, weight);
    };
    auto convertOut = [&](Value x) {
      if (isa<FloatType>(value))
        return e.round(x, out->element);
      return e.cast(math::roundEven(e, x), weight, out->element);
    };
    double extrapolation = onnx::getFloat(v.root, "extrapolation_value", 0);
    auto extrapolated = [&] {
      if (isa<FloatType>(value))
        return e.round(e.floatConst(value, extrapolation), out->element);
      return e.intConst(value, static_cast<int64_t>(extrapolation));
    };
    auto innermost = [&](const TapSum &sum) {
      auto sumTaps = [&](Value lead, Lanes l, Value mask) {
        auto fetch = [&](Value offset) { return convertIn(e.loadLanes(*in, e.add(offset, lead), l, mask)); };
        Value acc = e.splat(e.floatConst(weight, 0), l);
        if (sum.open.empty()) {
          for (auto [offset, w] : llvm::zip(sum.offsets, sum.weights))
            acc = e.fma(fetch(offset), e.splat(w, l), acc);
          return acc;
        }
        std::function<Value(unsigned, Value, Value, Value)> nest = [&](unsigned k, Value offset, Value w, Value a) -> Value {
          if (k == sum.open.size())
            return e.fma(fetch(offset), e.splat(w, l), a);
          auto &[table, row] = sum.open[k];
          return e.forLoop(e.idx(0), table.taps, e.idx(1), ValueRange{a}, [&](Value tap, ValueRange c) -> SmallVector<Value> {
            Value at = e.add(e.mul(row, table.taps), tap);
            Value o = e.rawLoad(e.i64(), e.gep(table.offsets, e.i64(), at));
            Value x = e.rawLoad(weight, e.gep(table.weights, weight, at));
            return {nest(k + 1, e.add(offset, o), e.mulF(w, x), c[0])};
          })[0];
        };
        return nest(0, sum.offsets[0], e.floatConst(weight, 1), acc);
      };
      auto run = [&] {
        if (nearest) {
          SmallVector<CopyAxis> box;
          if (lanes)
            box.push_back({out->dims[lane], out->strides[lane], in->strides[lane]});
          return copyBox(e, *out, sum.dst, *in, sum.offsets[0], box);
        }
        if (!lanes)
          return e.storeElement(*out, sum.dst, convertOut(sumTaps(e.idx(0), e.scalarLanes(), {})));
        e.vectorLoop(out->dims[lane], std::max(weight.getIntOrFloatBitWidth(), value.getIntOrFloatBitWidth()), 2,
                     [&](Value i, Lanes l, Value mask) {
          e.storeLanes(*out, e.add(sum.dst, i), convertOut(sumTaps(i, l, mask)), mask);
        });
      };
      if (!crop)
        return run();
      e.ifElse(
          sum.outside, TypeRange(),
          [&] {
            SmallVector<CopyAxis> box;
            if (lanes)
              box.push_back({out->dims[lane], out->strides[lane], e.idx(0)});
            fillBox(e, *out, sum.dst, box, extrapolated());
            return SmallVector<Value>();
          },
          [&] { run(); return SmallVector<Value>(); });
    };
    std::function<void(unsigned, TapSum)> nest = [&](unsigned depth, TapSum sum) {
      if (depth == order.size())
        return innermost(sum);
      unsigned k = order[depth];
      e.forLoop(out->dims[k], [&](Value o) {
        TapSum next = sum;
        next.dst = e.add(sum.dst, e.mul(o, out->strides[k]));
        auto it = tables.find(k);
        if (it == tables.end()) {
          for (Value &offset : next.offsets)
            offset = e.add(offset, e.mul(o, in->strides[k]));
          return nest(depth + 1, next);
        }
        const AxisTable &t = it->second;
        if (crop) {
          Value first = e.rawLoad(e.i64(), e.gep(t.offsets, e.i64(), e.mul(o, t.taps)));
          next.outside = e.logicalOr(sum.outside, e.lt(first, e.idx(0)));
        }
        if (s.antialias) {
          next.open.push_back({t, o});
          return nest(depth + 1, next);
        }
        next.offsets.clear();
        next.weights.clear();
        for (int64_t tap = 0; tap < s.fixedTaps(); ++tap) {
          Value at = e.add(e.mul(o, t.taps), tap);
          Value offset = e.rawLoad(e.i64(), e.gep(t.offsets, e.i64(), at));
          Value w = nearest ? Value() : e.rawLoad(weight, e.gep(t.weights, weight, at));
          for (unsigned i = 0; i < sum.offsets.size(); ++i) {
            next.offsets.push_back(e.add(sum.offsets[i], offset));
            next.weights.push_back(nearest ? Value() : KernelEmitter::constantOf(sum.offsets[i]) == 0 && sum.offsets.size() == 1 ? w : e.mulF(sum.weights[i], w));
          }
        }
        nest(depth + 1, next);
      });
    };
    TapSum start;
    start.dst = e.idx(0);
    start.offsets = {e.idx(0)};
    start.weights = {nearest ? Value() : e.floatConst(weight, 1)};
    start.outside = e.intConst(e.i1(), 0);
    nest(0, start);
  };
  e.ifThen(e.logicalAnd(some, any), body);
  return success();
}

} // namespace
} // namespace tessera::cpu

// Reduce*, ArgMax, ArgMin.
//
// The axes fall into kept and reduced ones. If the input's contiguous axis is
// reduced, vectors of partial results run along it and are joined once per
// result; if it is kept, each lane is a result of its own. Half floats
// accumulate in f32; integers wrap, except where a root or logarithm follows
// (f64 then). The empty set gives the neutral element.
#include "targets/Cpu/Kernels/Combine.h"
#include "targets/Cpu/Kernels/Lanes.h"
#include "targets/Cpu/Kernels/RootView.h"
#include "targets/Cpu/Kernels/StridedCopy.h"
#include "targets/Cpu/Math.h"

using namespace mlir;

namespace tessera::cpu {
namespace {

enum class Reduce : uint8_t { Sum, Mean, Prod, Max, Min, SumSquare, L1, L2, LogSum, LogSumExp };

std::optional<Reduce> reduceOf(Operation *root) {
  return llvm::StringSwitch<std::optional<Reduce>>(root->getName().getStringRef())
      .Case("onnx.ReduceSum", Reduce::Sum)
      .Case("onnx.ReduceMean", Reduce::Mean)
      .Case("onnx.ReduceProd", Reduce::Prod)
      .Case("onnx.ReduceMax", Reduce::Max)
      .Case("onnx.ReduceMin", Reduce::Min)
      .Case("onnx.ReduceSumSquare", Reduce::SumSquare)
      .Case("onnx.ReduceL1", Reduce::L1)
      .Case("onnx.ReduceL2", Reduce::L2)
      .Case("onnx.ReduceLogSum", Reduce::LogSum)
      .Case("onnx.ReduceLogSumExp", Reduce::LogSumExp)
      .Default(std::nullopt);
}

/// The arithmetic of one reduction: what happens to an element, to two partial
/// results and to the total.
struct Arithmetic {
  KernelEmitter &e;
  Reduce kind;
  Type element; ///< of the input
  bool inDouble;

  Arithmetic(KernelEmitter &e, Reduce kind, Type element) : e(e), kind(kind), element(element) {
    bool needsFloat = kind == Reduce::Mean || kind == Reduce::L2 || kind == Reduce::LogSum ||
                      kind == Reduce::LogSumExp;
    inDouble = needsFloat && isa<IntegerType>(element);
  }
  Type workElement() const { return inDouble ? Type(e.f64()) : element; }
  unsigned bits() const {
    return KernelEmitter::valueType(workElement()).getIntOrFloatBitWidth();
  }
  Combine how() const {
    switch (kind) {
    case Reduce::Prod: return Combine::Mul;
    case Reduce::Max: return Combine::Max;
    case Reduce::Min: return Combine::Min;
    default: return Combine::Add;
    }
  }
  Value initial() const { return identityOf(e, how(), workElement()); }
  Value widen(Value x) const { return inDouble ? e.cast(x, element, e.f64()) : x; }
  Value map(Value x) const {
    bool isFloat = isa<FloatType>(KernelEmitter::scalarType(x.getType()));
    switch (kind) {
    case Reduce::SumSquare:
    case Reduce::L2:
      return combine(e, Combine::Mul, workElement(), x, x);
    case Reduce::L1: {
      if (isFloat)
        return math::abs(e, x);
      if (KernelEmitter::isUnsigned(element))
        return x;
      Value negative = arith::SubIOp::create(e.b, e.loc, e.intConst(x.getType(), 0), x);
      return arith::MaxSIOp::create(e.b, e.loc, x, negative);
    }
    default:
      return x;
    }
  }
  Value join(Value a, Value b) const { return combine(e, how(), workElement(), a, b); }
  Value across(Value v) const {
    if (!isa<VectorType>(v.getType()))
      return v;
    bool isUnsigned = KernelEmitter::isUnsigned(element) || element.isInteger(1);
    switch (how()) {
    case Combine::Max: return e.reduceMax(v, isUnsigned);
    case Combine::Min: return e.reduceMin(v, isUnsigned);
    case Combine::Add:
      return e.reduceAdd(v);
    default:
      return vector::ReductionOp::create(e.b, e.loc, vector::CombiningKind::MUL, v,
                                         isa<FloatType>(KernelEmitter::scalarType(v.getType()))
                                             ? arith::FastMathFlags::reassoc
                                             : arith::FastMathFlags::none);
    }
  }
  /// `count` is i64; `shift` the maximum that LogSumExp subtracted.
  Value finish(Value total, Value count, Value shift, Type result) const {
    Value x = total;
    if (kind == Reduce::Mean) {
      Type scalar = KernelEmitter::scalarType(x.getType());
      Value n = arith::SIToFPOp::create(e.b, e.loc, scalar, count);
      if (auto v = dyn_cast<VectorType>(x.getType()))
        n = vector::BroadcastOp::create(e.b, e.loc, v, n);
      x = e.divF(x, n);
    } else if (kind == Reduce::L2) {
      x = math::sqrt(e, x);
    } else if (kind == Reduce::LogSum) {
      x = math::log(e, x);
    } else if (kind == Reduce::LogSumExp) {
      x = e.addF(math::log(e, x), shift);
    }
    if (inDouble)
      return e.cast(x, e.f64(), result);
    return isa<FloatType>(result) ? e.round(x, result) : x;
  }
};

/// An axis of the input: its size, its stride there and, if kept, in the result.
struct Axis {
  Value dim, in, out;
  unsigned axis;
};

/// A point of the iteration space as the loops see it.
struct Position {
  Value in, out;               ///< offsets
  SmallVector<Value> index;    ///< by input axis, valid when axes are not merged
};

class ReduceKernel final : public KernelBuilder {
public:
  tsr::KernelClass kernelClass(Operation *) const override { return tsr::KernelClass::Reduction; }
  bool embedsConstant(Operation *, unsigned operand) const override { return operand == 1; }
  bool fusesPrologue(Operation *root, unsigned operand) const override {
    return operand == 0 && axesAreConstant(root) &&
           isa<FloatType>(resultElement(root, 0));
  }
  bool acceptsChannelsLast(Operation *root) const override {
    auto out = resultType(root, 0);
    return axesAreConstant(root) && out && (onnx::getInt(root, "keepdims", 1) || out.getRank() < 3);
  }
  LogicalResult match(Operation *root, Reasons &reasons) const override {
    if (!requireNumeric(root, reasons) || !requireStaticCount(root, 1, reasons))
      return failure();
    Type element = operandElement(root, 0);
    Reduce kind = *reduceOf(root);
    if (element.isInteger(1) && kind != Reduce::Max && kind != Reduce::Min)
      return reasons.no() << "reduction of bool other than maximum and minimum";
    return success();
  }
  LogicalResult emit(tsr::DispatchOp op, KernelEmitter &e) const override;
  // Without keepdims, run-time axes leave open which sizes remain.
  unsigned extentCount(Operation *root) const override {
    if (axesAreConstant(root) || onnx::getInt(root, "keepdims", 1))
      return 0;
    int64_t axes = operandType(root, 1).getNumElements();
    return std::max<int64_t>(0, operandType(root, 0).getRank() - axes);
  }
  LogicalResult emitExtents(tsr::DispatchOp op, KernelEmitter &e) const override {
    RootView v(op, e);
    const TensorRef *in = v.in(0);
    if (!in)
      return failure();
    unsigned count = extentCount(v.root);
    SmallVector<Value> axes = v.ints(1, *v.count(1));
    for (Value &axis : axes)
      axis = wrapIndex(e, axis, e.idx(in->rank()));
    Cell at(e, e.idx(0));
    for (unsigned i = 0; i < count; ++i)
      e.storeElement(e.outputs[0], e.idx(i), e.idx(0));
    for (unsigned k = 0; k < in->rank(); ++k) {
      Value stays = e.intConst(e.i1(), 1);
      for (Value axis : axes)
        stays = e.logicalAnd(stays, e.logicalNot(e.eq(axis, e.idx(k))));
      e.ifThen(e.logicalAnd(stays, e.lt(at.get(), e.idx(count))), [&] {
        e.storeElement(e.outputs[0], at.get(), in->dims[k]);
        at.set(e.add(at.get(), 1));
      });
    }
    return success();
  }

private:
  static bool axesAreConstant(Operation *root) {
    Value axes = onnx::getOptionalOperand(root, 1);
    if (!axes)
      return true;
    auto type = dyn_cast<RankedTensorType>(axes.getType());
    return onnx::getConstantInts(axes) ||
           (type && type.hasStaticShape() && type.getNumElements() == 0);
  }
  LogicalResult emitDynamic(RootView &v, const Arithmetic &a) const;
};
TESSERA_KERNEL(ReduceKernel, "onnx.ReduceSum", "onnx.ReduceMean", "onnx.ReduceProd",
               "onnx.ReduceMax", "onnx.ReduceMin", "onnx.ReduceSumSquare", "onnx.ReduceL1",
               "onnx.ReduceL2", "onnx.ReduceLogSum", "onnx.ReduceLogSumExp");

/// Loops over the axes, adding to the offsets; `accs` are carried.
SmallVector<Value> nest(KernelEmitter &e, ArrayRef<Axis> axes, Position at, ArrayRef<Value> accs,
                        function_ref<SmallVector<Value>(const Position &, ArrayRef<Value>)> body) {
  if (axes.empty())
    return body(at, accs);
  const Axis &a = axes.front();
  return e.forLoop(e.idx(0), a.dim, e.idx(1), accs, [&](Value i, ValueRange carried) {
    Position next = at;
    next.in = e.add(at.in, e.mul(i, a.in));
    if (a.out)
      next.out = e.add(at.out, e.mul(i, a.out));
    next.index[a.axis] = i;
    return nest(e, axes.drop_front(), next, SmallVector<Value>(carried), body);
  });
}

void mergeAxes(KernelEmitter &e, SmallVectorImpl<Axis> &axes) {
  for (int i = static_cast<int>(axes.size()) - 2; i >= 0; --i) {
    Axis &o = axes[i], &n = axes[i + 1];
    if (isProduct(o.in, n.dim, n.in) && (!o.out || isProduct(o.out, n.dim, n.out))) {
      n.dim = e.mul(o.dim, n.dim);
      axes.erase(axes.begin() + i);
    }
  }
}

LogicalResult ReduceKernel::emit(tsr::DispatchOp op, KernelEmitter &e) const {
  RootView v(op, e);
  Type element = operandElement(v.root, 0);
  Arithmetic a(e, *reduceOf(v.root), element);
  const TensorRef *out = v.out(0), *in = v.in(0);
  if (!out)
    return failure();
  if (!axesAreConstant(v.root))
    return emitDynamic(v, a);

  unsigned rank = v.inType(0).getRank();
  SmallVector<int64_t> list;
  if (v.has(1))
    if (auto values = onnx::getConstantInts(onnx::getOptionalOperand(v.root, 1)))
      list = *values;
  llvm::SmallBitVector reduced(rank);
  for (int64_t axis : list)
    reduced.set(axis < 0 ? axis + rank : axis);
  if (list.empty() && !onnx::getInt(v.root, "noop_with_empty_axes", 0))
    reduced.set();
  bool keep = onnx::getInt(v.root, "keepdims", 1);

  // Sizes of a fused operand are those of the tensors it is made of.
  SmallVector<Value> dims = in ? in->dims : SmallVector<Value>();
  SmallVector<Value> strides;
  if (!in) {
    auto known = fusedDims(v, 0);
    if (!known)
      return failure();
    dims = *known;
    strides.assign(rank, e.idx(0));
  } else {
    strides = in->strides;
  }
  SmallVector<Axis> kept, gone;
  Value count = e.idx(1);
  unsigned o = 0;
  for (unsigned k = 0; k < rank; ++k) {
    if (reduced[k]) {
      gone.push_back({dims[k], strides[k], {}, k});
      count = e.mul(count, dims[k]);
      o += keep;
    } else {
      kept.push_back({dims[k], strides[k], out->strides[o++], k});
    }
  }
  auto isUnit = [&](const Axis &x) { return KernelEmitter::constantOf(x.dim) == 1; };
  llvm::erase_if(kept, isUnit);
  llvm::erase_if(gone, isUnit);
  // The lane axis: contiguous in memory, or the last where the operand is fused.
  auto takeLane = [&](SmallVectorImpl<Axis> &axes) -> std::optional<Axis> {
    for (unsigned i = axes.size(); i-- > 0;) {
      bool lane = in ? KernelEmitter::constantOf(axes[i].in) == 1
                     : axes[i].axis == lastWideAxis(dims, v);
      if (!lane)
        continue;
      Axis found = axes[i];
      axes.erase(axes.begin() + i);
      axes.push_back(found);
      if (in)
        mergeAxes(e, axes);
      found = axes.pop_back_val();
      if (in)
        mergeAxes(e, axes);
      return found;
    }
    return std::nullopt;
  };
  std::optional<Axis> laneGone = takeLane(gone), laneKept;
  if (!laneGone)
    laneKept = takeLane(kept);
  if (in) {
    mergeAxes(e, kept);
    mergeAxes(e, gone);
  }
  if (in && KernelEmitter::storageBits(element) < 8) { // no vectors of packed elements
    if (laneGone)
      gone.push_back(*laneGone);
    if (laneKept)
      kept.push_back(*laneKept);
    laneGone = laneKept = std::nullopt;
  }

  bool ok = true;
  auto load = [&](const Position &p, int laneAxis, Lanes lanes, Value mask) -> Value {
    Value x;
    if (in) {
      x = e.loadLanes(*in, p.in, lanes, mask);
    } else {
      Point point;
      point.index = p.index;
      point.dims = dims;
      point.laneAxis = lanes.isScalar() ? -1 : laneAxis;
      point.lanes = lanes;
      point.mask = mask;
      auto value = v.fusion.loadFused(0, point);
      if (failed(value)) {
        ok = false;
        return e.splat(a.initial(), lanes);
      }
      x = e.splat(*value, lanes);
    }
    return a.widen(x);
  };
  auto moved = [&](const Position &p, const Axis &axis, Value by) {
    Position q = p;
    q.in = e.add(p.in, e.mul(by, axis.in));
    q.index[axis.axis] = by;
    return q;
  };
  Position origin;
  origin.in = origin.out = e.idx(0);
  origin.index.assign(rank, e.idx(0));
  bool exp = a.kind == Reduce::LogSumExp;
  Arithmetic maximum(e, Reduce::Max, a.workElement());
  auto finiteOrZero = [&](Value m) {
    Value size = math::abs(e, m), inf = e.floatConst(m.getType(), INFINITY);
    Value finite = e.cmpF(arith::CmpFPredicate::OLT, size, inf);
    return Value(arith::SelectOp::create(e.b, e.loc, finite, m, e.floatConst(m.getType(), 0)));
  };

  if (laneGone) {
    auto fold = [&](const Position &p, const Arithmetic &how, function_ref<Value(Value)> map) {
      LaneFold lanes(e, std::max(how.bits(), KernelEmitter::valueType(element).getIntOrFloatBitWidth()),
                     4, {how.initial()});
      SmallVector<Value> flat = nest(e, gone, p, lanes.start(), [&](const Position &q, ArrayRef<Value> accs) {
        return lanes.run(laneGone->dim, accs, [&](ArrayRef<Value> set, Value i, Lanes l, Value mask) -> Accs {
          Value x = load(moved(q, *laneGone, i), laneGone->axis, l, mask);
          return {how.join(set[0], map(x))};
        });
      });
      return lanes.finish(
          flat, [&](ArrayRef<Value> x, ArrayRef<Value> y) -> Accs { return {how.join(x[0], y[0])}; },
          [&](ArrayRef<Value> x) -> Accs { return {how.across(x[0])}; })[0];
    };
    nest(e, kept, origin, {}, [&](const Position &p, ArrayRef<Value>) {
      Value shift;
      if (exp)
        shift = finiteOrZero(fold(p, maximum, [&](Value x) { return x; }));
      Value total = fold(p, a, [&](Value x) {
        if (!exp)
          return a.map(x);
        auto type = dyn_cast<VectorType>(x.getType());
        Value s = type ? Value(vector::BroadcastOp::create(e.b, e.loc, type, shift)) : shift;
        return math::exp(e, e.subF(x, s));
      });
      e.storeElement(*out, p.out, a.finish(total, count, shift, out->element));
      return SmallVector<Value>();
    });
    return success(ok);
  }

  Lanes lanes = laneKept ? e.isa.lanes(std::max<unsigned>(
                               {8u, a.bits(), KernelEmitter::valueType(element).getIntOrFloatBitWidth()}))
                         : e.scalarLanes();
  nest(e, kept, origin, {}, [&](const Position &p, ArrayRef<Value>) {
    auto block = [&](Value first, unsigned group, Lanes l, Value mask) {
      Value width = e.laneCount(l);
      auto lane = [&](const Position &q, unsigned g) {
        return laneKept ? moved(q, *laneKept, e.add(first, e.mul(width, g))) : q;
      };
      auto fold = [&](const Arithmetic &how, function_ref<Value(Value, unsigned)> map) {
        SmallVector<Value> init(group, e.splat(how.initial(), l));
        return nest(e, gone, p, init, [&](const Position &q, ArrayRef<Value> accs) {
          SmallVector<Value> next;
          for (unsigned g = 0; g < group; ++g) {
            Value x = load(lane(q, g), laneKept ? laneKept->axis : -1, l, mask);
            next.push_back(how.join(accs[g], map(x, g)));
          }
          return next;
        });
      };
      SmallVector<Value> shift(group);
      if (exp) {
        shift = fold(maximum, [&](Value x, unsigned) { return x; });
        for (Value &s : shift)
          s = finiteOrZero(s);
      }
      SmallVector<Value> total = fold(a, [&](Value x, unsigned g) {
        return exp ? math::exp(e, e.subF(x, shift[g])) : a.map(x);
      });
      for (unsigned g = 0; g < group; ++g) {
        Value result = a.finish(total[g], count, shift[g], out->element);
        Value first_ = e.add(first, e.mul(width, g));
        Value to = laneKept ? e.add(p.out, e.mul(first_, laneKept->out)) : p.out;
        if (!laneKept || l.isScalar()) {
          e.storeElement(*out, to, result);
          continue;
        }
        TensorRef row{e.gep(out->ptr, out->element, to), out->element, {laneKept->dim}, {laneKept->out}};
        e.storeAt(row, Point{{e.idx(0)}, {}, 0, l, mask}, result);
      }
    };
    if (!laneKept)
      block(e.idx(0), 1, lanes, {});
    else
      laneGroups(e, laneKept->dim, lanes, 4, block);
    return SmallVector<Value>();
  });
  return success(ok);
}

// Which axes are reduced is known at run time only: every axis gets a kept and
// a reduced loop, one of which runs once.
LogicalResult ReduceKernel::emitDynamic(RootView &v, const Arithmetic &a) const {
  KernelEmitter &e = v.e;
  const TensorRef *in = v.in(0), *out = v.out(0);
  if (!in)
    return failure();
  unsigned rank = in->rank(), n = *v.count(1);
  SmallVector<Value> axes = v.ints(1, n);
  for (Value &axis : axes)
    axis = wrapIndex(e, axis, e.idx(rank));
  bool keep = onnx::getInt(v.root, "keepdims", 1);
  SmallVector<Axis> kept, gone;
  Value count = e.idx(1);
  for (unsigned k = 0; k < rank; ++k) {
    Value here = e.intConst(e.i1(), 0);
    for (Value axis : axes)
      here = e.logicalOr(here, e.eq(axis, e.idx(k)));
    Value stride = keep ? out->strides[k] : e.idx(0);
    kept.push_back({e.select(here, e.idx(1), in->dims[k]), in->strides[k], stride, k});
    gone.push_back({e.select(here, in->dims[k], e.idx(1)), in->strides[k], {}, k});
    count = e.mul(count, gone.back().dim);
  }
  Position origin;
  origin.in = origin.out = e.idx(0);
  origin.index.assign(rank, e.idx(0));
  Cell linear(e, e.idx(0));
  Value limit = e.product(out->dims);
  nest(e, kept, origin, {}, [&](const Position &p, ArrayRef<Value>) {
    auto fold = [&](const Arithmetic &how, function_ref<Value(Value)> map) {
      return nest(e, gone, p, {how.initial()}, [&](const Position &q, ArrayRef<Value> accs) {
        return SmallVector<Value>{how.join(accs[0], map(a.widen(e.loadElement(*in, q.in))))};
      })[0];
    };
    Value shift;
    if (a.kind == Reduce::LogSumExp) {
      Value m = fold(Arithmetic(e, Reduce::Max, a.workElement()), [&](Value x) { return x; });
      Value finite = e.cmpF(arith::CmpFPredicate::OLT, math::abs(e, m), e.floatConst(m.getType(), INFINITY));
      shift = e.select(finite, m, e.floatConst(m.getType(), 0));
    }
    Value total = fold(a, [&](Value x) {
      return shift ? math::exp(e, e.subF(x, shift)) : a.map(x);
    });
    Value at = linear.get();
    Value good = e.lt(at, limit);
    e.failIf(e.logicalNot(good), TSR_KERNEL_BAD_VALUE);
    e.ifThen(good, [&] {
      e.storeElement(*out, keep ? p.out : at, a.finish(total, count, shift, out->element));
    });
    linear.set(e.add(at, 1));
    return SmallVector<Value>();
  });
  return success();
}

/// The first (or last) index of the extreme value; a NaN beats every number.
class ArgKernel final : public KernelBuilder {
public:
  tsr::KernelClass kernelClass(Operation *) const override { return tsr::KernelClass::Reduction; }
  LogicalResult match(Operation *root, Reasons &reasons) const override {
    return success(requireNumeric(root, reasons));
  }
  LogicalResult emit(tsr::DispatchOp op, KernelEmitter &e) const override {
    RootView v(op, e);
    const TensorRef *in = v.in(0), *out = v.out(0);
    if (!in || !out)
      return failure();
    bool isMax = v.root->getName().getStringRef() == "onnx.ArgMax";
    bool last = onnx::getInt(v.root, "select_last_index", 0), keep = onnx::getInt(v.root, "keepdims", 1);
    unsigned rank = in->rank();
    int64_t axis = onnx::getInt(v.root, "axis", 0);
    axis += axis < 0 ? rank : 0;
    Value length = in->dims[axis], step = in->strides[axis];
    SmallVector<Axis> kept;
    std::optional<Axis> lane;
    for (unsigned k = 0; k < rank; ++k) {
      if (k == axis)
        continue;
      Axis x{in->dims[k], in->strides[k], out->strides[k > axis && !keep ? k - 1 : k], k};
      if (KernelEmitter::constantOf(x.dim) == 1)
        continue;
      if (KernelEmitter::constantOf(x.in) == 1 && KernelEmitter::storageBits(in->element) >= 8)
        lane = x;
      else
        kept.push_back(x);
    }
    Value some = e.lt(e.idx(0), e.product(out->dims));
    e.failIf(e.logicalAnd(some, e.eq(length, e.idx(0))), TSR_KERNEL_BAD_VALUE);
    Lanes lanes = lane ? e.isa.lanes(std::max(
                             8u, KernelEmitter::valueType(in->element).getIntOrFloatBitWidth()))
                       : e.scalarLanes();
    Position origin;
    origin.in = origin.out = e.idx(0);
    origin.index.assign(rank, e.idx(0));
    // Rows: every lane keeps its own best and where it was.
    bool row = KernelEmitter::constantOf(step) == 1 && KernelEmitter::storageBits(in->element) >= 8 && !e.isa.scalable &&
               !in->element.isInteger(1);
    if (row && lane) {
      kept.push_back(*lane);
      lane.reset();
    }
    e.ifThen(e.logicalAnd(some, e.lt(e.idx(0), length)), [&] {
      nest(e, kept, origin, {}, [&](const Position &p, ArrayRef<Value>) {
        if (row) {
          e.storeElement(*out, p.out, bestOfRow(e, *in, p.in, length, isMax, last));
          return SmallVector<Value>();
        }
        auto block = [&](Value first, unsigned, Lanes l, Value mask) {
          Value base = e.add(p.in, first);
          Value best = e.loadLanes(*in, base, l, mask);
          Value index = e.splat(e.idx(0), l);
          auto result = e.forLoop(e.idx(1), length, e.idx(1), ValueRange{best, index},
                                  [&](Value i, ValueRange carried) {
            Value x = e.loadLanes(*in, e.add(base, e.mul(i, step)), l, mask);
            Value take = better(e, x, carried[0], in->element, isMax, last);
            Value nextBest = arith::SelectOp::create(e.b, e.loc, take, x, carried[0]);
            Value nextIndex = arith::SelectOp::create(e.b, e.loc, take, e.splat(i, l), carried[1]);
            return SmallVector<Value>{nextBest, nextIndex};
          });
          if (l.isScalar()) {
            Value to = lane ? e.add(p.out, e.mul(first, lane->out)) : p.out;
            e.storeElement(*out, to, result[1]);
            return;
          }
          TensorRef row{e.gep(out->ptr, out->element, e.add(p.out, e.mul(first, lane->out))),
                        out->element, {lane->dim}, {lane->out}};
          e.storeAt(row, Point{{e.idx(0)}, {}, 0, l, mask}, result[1]);
        };
        if (lane)
          laneGroups(e, lane->dim, lanes, 1, block);
        else
          block(e.idx(0), 1, lanes, {});
        return SmallVector<Value>();
      });
    });
    return success();
  }

private:
  static Value bestOfRow(KernelEmitter &e, const TensorRef &in, Value base, Value length, bool isMax, bool last) {
    Type value = KernelEmitter::valueType(in.element);
    unsigned bits = value.getIntOrFloatBitWidth();
    Type index = bits == 16 || bits == 32 ? e.i32() : e.i64();
    auto toIndexType = [&](Value i) {
      return index == i.getType() ? i : Value(arith::TruncIOp::create(e.b, e.loc, index, i));
    };
    auto pick = [&](Value c, Value a, Value b) { return Value(arith::SelectOp::create(e.b, e.loc, c, a, b)); };
    LaneFold fold(e, bits, 2, {e.loadElement(in, base), e.intConst(index, 0)});
    auto flat = fold.run(length, fold.start(), [&](ArrayRef<Value> s, Value i, Lanes l, Value mask) -> Accs {
      Value x = e.loadLanes(in, e.add(base, i), l, mask);
      Value at = e.splat(toIndexType(i), l);
      if (!l.isScalar()) {
        SmallVector<Attribute> counts;
        for (unsigned k = 0; k < l.n; ++k)
          counts.push_back(e.b.getIntegerAttr(index, k));
        auto type = cast<VectorType>(at.getType());
        at = addI(e, at, arith::ConstantOp::create(e.b, e.loc, DenseElementsAttr::get(type, counts)));
      }
      Value take = better(e, x, s[0], in.element, isMax, last);
      return {pick(take, x, s[0]), pick(take, at, s[1])};
    });
    auto join = [&](ArrayRef<Value> a, ArrayRef<Value> b) -> Accs {
      // b wins if it is better, or as good and in the wanted place.
      Value strict = better(e, b[0], a[0], in.element, isMax, false);
      Value worse = better(e, a[0], b[0], in.element, isMax, false);
      Value place = cmpI(e, last ? arith::CmpIPredicate::sgt : arith::CmpIPredicate::slt, b[1], a[1]);
      Value tie = arith::AndIOp::create(e.b, e.loc, e.logicalNot(arith::OrIOp::create(e.b, e.loc, strict, worse)), place);
      Value take = arith::OrIOp::create(e.b, e.loc, strict, tie);
      return {pick(take, b[0], a[0]), pick(take, b[1], a[1])};
    };
    auto across = [&](ArrayRef<Value> v) -> Accs {
      auto type = cast<VectorType>(v[0].getType());
      int64_t n = type.getNumElements();
      SmallVector<Value> set(v);
      for (; n > 1; n /= 2) {
        SmallVector<Value> low, high;
        for (Value x : set) {
          SmallVector<int64_t> first, second;
          for (int64_t k = 0; k < n / 2; ++k)
            first.push_back(k), second.push_back(n / 2 + k);
          low.push_back(vector::ShuffleOp::create(e.b, e.loc, x, x, first));
          high.push_back(vector::ShuffleOp::create(e.b, e.loc, x, x, second));
        }
        Accs joined = join(low, high);
        set.assign(joined.begin(), joined.end());
      }
      return {vector::ExtractOp::create(e.b, e.loc, set[0], int64_t(0)), vector::ExtractOp::create(e.b, e.loc, set[1], int64_t(0))};
    };
    return toIndex(e, fold.finish(flat, join, across)[1]);
  }
  static Value better(KernelEmitter &e, Value x, Value best, Type element, bool isMax, bool last) {
    if (isa<FloatType>(KernelEmitter::scalarType(x.getType()))) {
      using P = arith::CmpFPredicate;
      Value wins = e.cmpF(isMax ? (last ? P::OGE : P::OGT) : (last ? P::OLE : P::OLT), x, best);
      Value nan = e.cmpF(P::UNO, x, x);
      if (!last)
        nan = arith::AndIOp::create(e.b, e.loc, nan, e.cmpF(P::ORD, best, best));
      return arith::OrIOp::create(e.b, e.loc, wins, nan);
    }
    using P = arith::CmpIPredicate;
    bool isUnsigned = KernelEmitter::isUnsigned(element) || element.isInteger(1);
    P p = isMax ? (last ? (isUnsigned ? P::uge : P::sge) : (isUnsigned ? P::ugt : P::sgt))
                : (last ? (isUnsigned ? P::ule : P::sle) : (isUnsigned ? P::ult : P::slt));
    return cmpI(e, p, x, best);
  }
};
TESSERA_KERNEL(ArgKernel, "onnx.ArgMax", "onnx.ArgMin");

} // namespace
} // namespace tessera::cpu

// MaxPool, AveragePool, LpPool and their global forms.
//
// Windows go through the nest of Window.h, global pools through a plain
// reduction over pixels with some accumulators. NaN propagates through the
// maximum. MaxPool with Indices is a simple nest over single elements: the
// first of equal values counts, as in onnxruntime.
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "targets/Cpu/Kernels/Window.h"
#include "targets/Cpu/Math.h"

using namespace mlir;

namespace tessera::cpu {
namespace {

enum class Kind { Max, Average, Lp };

Kind kindOf(Operation *root) {
  StringRef name = root->getName().getStringRef();
  return name.contains("MaxPool") ? Kind::Max : name.contains("AveragePool") ? Kind::Average : Kind::Lp;
}
bool isGlobal(Operation *root) { return root->getName().getStringRef().starts_with("onnx.Global"); }

RankedTensorType inputType(Operation *root) { return dyn_cast<RankedTensorType>(root->getOperand(0).getType()); }

LogicalResult analyse(Operation *root, Window &w, Reasons &reasons) {
  auto x = inputType(root);
  if (!x)
    return reasons.no() << "input of unknown rank";
  if (x.getRank() < 3)
    return reasons.no() << "input of rank " << x.getRank();
  if (isGlobal(root))
    return success();
  return readWindow(root, SmallVector<int64_t>(x.getRank() - 2, ShapedType::kDynamic), w, reasons);
}

/// |v|^p, and its inverse for a sum of them.
Value power(KernelEmitter &e, Value v, int64_t p) {
  Value a = p == 2 ? v : math::abs(e, v);
  Value r = a;
  for (int64_t i = 1; i < p; ++i)
    r = e.mulF(r, a);
  return r;
}
Value root(KernelEmitter &e, Value v, int64_t p) {
  if (p == 1)
    return v;
  if (p == 2)
    return math::sqrt(e, v);
  return math::pow(e, v, e.floatConst(v.getType(), 1.0 / static_cast<double>(p)));
}

Value greater(KernelEmitter &e, Value a, Value c, bool isUnsigned) {
  auto p = isUnsigned ? arith::CmpIPredicate::ugt : arith::CmpIPredicate::sgt;
  return arith::CmpIOp::create(e.b, e.loc, p, a, c);
}
Value maximum(KernelEmitter &e, Value a, Value c, bool isUnsigned) {
  if (isa<FloatType>(KernelEmitter::scalarType(a.getType())))
    return e.maxF(a, c);
  if (isUnsigned)
    return arith::MaxUIOp::create(e.b, e.loc, a, c);
  return arith::MaxSIOp::create(e.b, e.loc, a, c);
}

class Pooling : public KernelBuilder {
public:
  tsr::KernelClass kernelClass(Operation *) const override { return tsr::KernelClass::Pooling; }
  LogicalResult match(Operation *root, Reasons &reasons) const override;
  bool fusesEpilogue(Operation *root) const override {
    return !onnx::getOptionalResult(root, 1) || onnx::getOptionalResult(root, 1).use_empty();
  }
  tsr::Layout preferredLayout(Operation *root) const override {
    // A global pool of row-major data reads rows; only its operand decides.
    return isGlobal(root) ? tsr::Layout::RowMajor : tsr::Layout::ChannelsLast;
  }
  bool acceptsChannelsLast(Operation *) const override { return true; }
  onnx::Sym workgroups(tsr::DispatchOp op, const DispatchSizes &sizes) const override;
  LogicalResult emit(tsr::DispatchOp op, KernelEmitter &e) const override;
};

bool hasIndices(Operation *root) {
  Value v = onnx::getOptionalResult(root, 1);
  return v && !v.use_empty();
}

LogicalResult Pooling::match(Operation *root, Reasons &reasons) const {
  Window w;
  if (failed(analyse(root, w, reasons)))
    return failure();
  Type t = inputType(root).getElementType();
  Kind kind = kindOf(root);
  bool isFloat = t.isF32() || t.isF64() || t.isF16() || t.isBF16();
  if (!isFloat && !(kind == Kind::Max && !isGlobal(root) && t.isInteger(8)))
    (void)(reasons.no() << "element type " << onnx::getTypeName(t) << " of "
                        << root->getName().getStringRef().drop_front(5));
  if (kind == Kind::Lp && (onnx::getInt(root, "p", 2) < 1 || onnx::getInt(root, "p", 2) > 64))
    (void)(reasons.no() << "p " << onnx::getInt(root, "p", 2) << " (1 to 64 are possible)");
  return success(reasons.empty());
}

onnx::Sym Pooling::workgroups(tsr::DispatchOp op, const DispatchSizes &sizes) const {
  if (isGlobal(op.getRootOp()) || hasIndices(op.getRootOp()))
    return nullptr;
  onnx::SymContext &ctx = sizes.ctx;
  auto &r = sizes.results[0];
  onnx::Sym elements = ctx.product(r), rows = ctx.product(ArrayRef<onnx::Sym>(r).drop_back(1));
  rows = ctx.min(rows, ctx.constant(16));
  return ctx.max(ctx.constant(1), ctx.min(rows, ctx.ceilDiv(elements, ctx.constant(1 << 16))));
}

// --- MaxPool with indices ---------------------------------------------------------

LogicalResult emitWithIndices(KernelEmitter &e, Fusion &fusion, Operation *root, const TensorRef &x, const Window &w,
                              tsr::DispatchOp op) {
  // Which outputs of the dispatch are values and which indices.
  int values = -1, indices = -1;
  for (auto [i, v] : llvm::enumerate(op.getBodyBlock()->getTerminator()->getOperands()))
    (v == root->getResult(0) ? values : indices) = i;
  const TensorRef &y = e.outputs[values >= 0 ? values : indices];
  Placement p = place(e, w, x, y);
  bool columnMajor = onnx::getInt(root, "storage_order") != 0, isUnsigned = KernelEmitter::isUnsigned(x.element);
  Type type = KernelEmitter::valueType(x.element);
  bool isFloat = isa<FloatType>(type);
  e.forAll(y.dims, [&](ArrayRef<Value> at) {
    SmallVector<Value> taps, position{at[0], at[1]};
    std::function<SmallVector<Value>(ValueRange)> nest = [&](ValueRange carried) -> SmallVector<Value> {
      unsigned axis = taps.size();
      if (axis < w.axes()) {
        Value start = e.sub(e.mul(at[axis + 2], w.strides[axis]), p.padBegin[axis]);
        auto [low, high] = tapRange(e, w, axis, start, p.in[axis]);
        return e.forLoop(low, high, e.idx(1), carried, [&](Value k, ValueRange c) {
          taps.push_back(k);
          position.push_back(e.add(start, e.mul(k, w.dilations[axis])));
          SmallVector<Value> next = nest(c);
          position.pop_back();
          taps.pop_back();
          return next;
        });
      }
      Value v = e.load(x, position);
      Value none = e.lt(carried[1], e.idx(0)), better;
      if (isFloat) { // a NaN wins and stays
        Value isNan = e.cmpF(arith::CmpFPredicate::UNO, v, v);
        Value holdsNan = e.cmpF(arith::CmpFPredicate::UNO, carried[0], carried[0]);
        better = e.logicalOr(e.cmpF(arith::CmpFPredicate::OGT, v, carried[0]), isNan);
        better = e.logicalAnd(better, e.logicalNot(holdsNan));
      } else {
        better = greater(e, v, carried[0], isUnsigned);
      }
      better = e.logicalOr(none, better);
      // Number of the element within the whole input; column-major numbers
      // exchange the order of the spatial axes.
      Value number = e.add(e.mul(position[0], x.dims[1]), position[1]);
      for (unsigned a = 0; a < w.axes(); ++a)
        number = e.mul(number, p.in[a]);
      Value inner = e.idx(0);
      for (unsigned n = 0; n < w.axes(); ++n) {
        unsigned a = columnMajor ? w.axes() - 1 - n : n;
        inner = e.add(e.mul(inner, p.in[a]), position[a + 2]);
      }
      number = e.add(number, inner);
      return {e.select(better, v, carried[0]), e.select(better, number, carried[1])};
    };
    SmallVector<Value> best = nest(ValueRange{lowestOf(e, type, isUnsigned), e.idx(-1)});
    if (values >= 0)
      e.store(e.outputs[values], at, best[0]);
    if (indices >= 0)
      e.store(e.outputs[indices], at, best[1]);
  });
  return success();
}

// --- global ------------------------------------------------------------------------

LogicalResult emitGlobal(KernelEmitter &e, Fusion &fusion, Operation *op, const TensorRef &x) {
  Kind kind = kindOf(op);
  int64_t p = onnx::getInt(op, "p", 2);
  Type type = accumulatorOf(x.element);
  SmallVector<Value> spatial(x.dims.begin() + 2, x.dims.end());
  Value pixels = e.product(spatial);
  Value pixelStride = x.strides.back(); // spatial axes are contiguous among themselves in both layouts
  bool failed = false;
  auto first = [&](Type t) { return kind == Kind::Max ? lowestOf(e, t, false) : zeroOf(e, t); };
  auto combine = [&](Value a, Value v) {
    if (kind == Kind::Max)
      return e.maxF(a, v);
    return e.addF(a, kind == Kind::Lp ? power(e, v, p) : v);
  };
  auto merge = [&](Value a, Value c) { return kind == Kind::Max ? e.maxF(a, c) : e.addF(a, c); };
  auto store = [&](Value sum, Value n, Value c, Lanes lanes, Value mask) {
    if (kind == Kind::Average) {
      Value count = arith::SIToFPOp::create(e.b, e.loc, type, pixels);
      sum = e.divF(sum, e.splat(count, lanes));
    } else if (kind == Kind::Lp) {
      sum = root(e, sum, p);
    }
    Point at;
    at.index = {n, c};
    at.index.resize(x.rank(), e.idx(0));
    at.dims = e.outputs[0].dims;
    at.laneAxis = 1, at.lanes = lanes, at.mask = mask;
    failed |= mlir::failed(fusion.storeFused(e.round(sum, x.element), at));
  };
  Lanes lanes = tileLanes(e.isa, type);
  if (KernelEmitter::constantOf(x.strides[1]) == 1 && KernelEmitter::constantOf(x.dims[1]) != 1) {
    // Channels last: lanes are channels; four pixels at a time.
    auto channels = [&](Value n, Value c, Value mask) {
      Value base = e.add(e.mul(n, x.strides[0]), c);
      Type v = KernelEmitter::withLanes(type, lanes);
      auto load = [&](Value pixel) { return e.loadLanes(x, e.add(base, e.mul(pixel, pixelStride)), lanes, mask); };
      Value whole = e.mul(e.divU(pixels, e.idx(4)), 4);
      SmallVector<Value> acc(4, first(v));
      acc = e.forLoop(e.idx(0), whole, e.idx(4), acc, [&](Value i, ValueRange c) {
        SmallVector<Value> next;
        for (unsigned u = 0; u < 4; ++u)
          next.push_back(combine(c[u], load(e.add(i, u))));
        return next;
      });
      Value sum = merge(merge(acc[0], acc[1]), merge(acc[2], acc[3]));
      sum = e.forLoop(whole, pixels, e.idx(1), ValueRange{sum}, [&](Value i, ValueRange c) {
        return SmallVector<Value>{combine(c[0], load(i))};
      })[0];
      store(sum, n, c, lanes, mask);
    };
    Value size = x.dims[1], whole = e.mul(e.divU(size, e.idx(lanes.n)), lanes.n);
    e.forLoop(x.dims[0], [&](Value n) {
      e.forLoop(e.idx(0), whole, e.idx(lanes.n), [&](Value c) { channels(n, c, {}); });
      e.ifThen(e.lt(whole, size), [&] { channels(n, whole, e.laneMask(whole, size, lanes)); });
    });
    return failure(failed);
  }
  // Row major: lanes are pixels of one channel.
  e.forLoop(x.dims[0], [&](Value n) {
    e.forLoop(x.dims[1], [&](Value c) {
      Value base = e.add(e.mul(n, x.strides[0]), e.mul(c, x.strides[1]));
      Type v = KernelEmitter::withLanes(type, lanes);
      Value whole = e.idx(0);
      Value sum = first(type);
      if (KernelEmitter::constantOf(pixelStride) == 1) {
        Value step = e.idx(2 * lanes.n);
        whole = e.mul(e.divU(pixels, step), step);
        SmallVector<Value> acc(2, first(v));
        acc = e.forLoop(e.idx(0), whole, step, acc, [&](Value i, ValueRange carried) {
          Value at = e.add(base, i);
          return SmallVector<Value>{combine(carried[0], e.loadLanes(x, at, lanes)),
                                    combine(carried[1], e.loadLanes(x, e.add(at, lanes.n), lanes))};
        });
        Value both = merge(acc[0], acc[1]);
        sum = kind == Kind::Max ? e.reduceMax(both) : e.reduceAdd(both);
      }
      sum = e.forLoop(whole, pixels, e.idx(1), ValueRange{sum}, [&](Value i, ValueRange carried) {
        return SmallVector<Value>{combine(carried[0], e.loadElement(x, e.add(base, e.mul(i, pixelStride))))};
      })[0];
      store(sum, n, c, {}, {});
    });
  });
  return failure(failed);
}

// --- windows -------------------------------------------------------------------------

LogicalResult Pooling::emit(tsr::DispatchOp op, KernelEmitter &e) const {
  Operation *pool = op.getRootOp();
  Fusion fusion(op, e);
  Window w;
  Reasons reasons;
  if (failed(analyse(pool, w, reasons)))
    return pool->emitError("pool cannot be computed: ") << reasons.all.front();
  const TensorRef *x = fusion.plainOperand(0);
  if (!x)
    return pool->emitError("input is not an operand of the kernel");
  if (isGlobal(pool))
    return emitGlobal(e, fusion, pool, *x);
  if (hasIndices(pool))
    return emitWithIndices(e, fusion, pool, *x, w, op);

  Kind kind = kindOf(pool);
  const TensorRef &y = e.outputs[0];
  Placement p = place(e, w, *x, y);
  int64_t power = onnx::getInt(pool, "p", 2);
  bool isUnsigned = KernelEmitter::isUnsigned(x->element);
  ChannelWindows s;
  s.in = x;
  s.accumulator = KernelEmitter::valueType(x->element);
  s.lanes = tileLanes(e.isa, s.accumulator);
  s.lowest = kind == Kind::Max;
  s.init = [&](Value, Value) {
    Type v = KernelEmitter::withLanes(s.accumulator, s.lanes);
    return kind == Kind::Max ? lowestOf(e, v, isUnsigned) : zeroOf(e, v);
  };
  s.combine = [&](Value a, Value v, Value) -> Value {
    if (kind == Kind::Max)
      return maximum(e, a, v, isUnsigned);
    return e.addF(a, kind == Kind::Lp ? cpu::power(e, v, power) : v);
  };
  bool includePad = onnx::getInt(pool, "count_include_pad") != 0;
  /// Taps that count for the window at `at`, as a product over axes.
  auto divisor = [&](const Point &at) {
    Value count = e.idx(1);
    for (unsigned a = 0; a < w.axes(); ++a) {
      if (!p.padded[a]) {
        count = e.mul(count, w.kernel[a]);
        continue;
      }
      Value start = e.sub(e.mul(at.index[a + 2], w.strides[a]), p.padBegin[a]), size = p.in[a];
      if (includePad) {
        // The padded input counts; what a rounded-up window adds beyond does not.
        start = e.add(start, p.padBegin[a]);
        Value padEnd = e.idx(w.padEnd[a]);
        if (w.autoPad.starts_with("SAME")) {
          Value needed = e.add(e.mul(e.sub(p.out[a], 1), w.strides[a]), w.reach(a));
          padEnd = e.sub(e.maxS(e.sub(needed, size), e.idx(0)), p.padBegin[a]);
        }
        size = e.add(size, e.add(p.padBegin[a], padEnd));
      }
      auto [low, high] = tapRange(e, w, a, start, size);
      count = e.mul(count, e.sub(high, low));
    }
    return count;
  };
  s.finish = [&](Value v, const Point &at) -> FailureOr<Value> {
    if (kind == Kind::Average) {
      Value count = arith::SIToFPOp::create(e.b, e.loc, s.accumulator, divisor(at));
      v = e.divF(v, e.splat(count, at.lanes));
    } else if (kind == Kind::Lp) {
      v = root(e, v, power);
    }
    return isa<FloatType>(x->element) ? e.round(v, x->element) : v;
  };
  return emitChannelWindows(e, op, fusion, w, s);
}

TESSERA_KERNEL(Pooling, "onnx.MaxPool", "onnx.AveragePool", "onnx.LpPool", "onnx.GlobalMaxPool",
               "onnx.GlobalAveragePool", "onnx.GlobalLpPool");

} // namespace
} // namespace tessera::cpu

// TopK, Unique, NonMaxSuppression: heap sorts of indices in scratch.
//
// Values are compared as 64-bit keys whose signed order is the values' order:
// NaN highest, -0 equal to 0. Ties go to the lower index.
#include "targets/Cpu/Kernels/Combine.h"
#include "targets/Cpu/Kernels/RootView.h"
#include "targets/Cpu/Kernels/StridedCopy.h"

using namespace mlir;
using tessera::onnx::Sym;

namespace tessera::cpu {
namespace {

/// Key of a scalar of value type.
Value sortKey(KernelEmitter &e, Value x, Type element) {
  Type type = x.getType();
  if (isa<FloatType>(type)) {
    unsigned bits = type.getIntOrFloatBitWidth();
    Type integer = e.b.getIntegerType(bits);
    Value plus = e.addF(x, e.floatConst(type, 0)); // -0 becomes 0
    Value raw = arith::BitcastOp::create(e.b, e.loc, integer, plus);
    Value negative = cmpI(e, arith::CmpIPredicate::slt, raw, e.intConst(integer, 0));
    int64_t low = bits == 32 ? int64_t(0x7fffffff) : INT64_MAX;
    Value flipped = arith::XOrIOp::create(e.b, e.loc, raw, e.intConst(integer, low));
    Value key = e.select(negative, flipped, raw);
    key = e.select(e.cmpF(arith::CmpFPredicate::UNO, x, x), e.intConst(integer, low), key);
    return toIndex(e, key);
  }
  bool isUnsigned = KernelEmitter::isUnsigned(element) || type.isInteger(1);
  Value wide = toIndex(e, x, isUnsigned);
  if (isUnsigned && type.getIntOrFloatBitWidth() == 64)
    wide = arith::XOrIOp::create(e.b, e.loc, wide, e.idx(INT64_MIN));
  return wide;
}

/// `count` i64 items at `ptr`, a heap with the worst item at the root.
/// `worse(a, b)`: item a comes after item b in the result.
class Heap {
public:
  using Worse = std::function<Value(Value, Value)>;
  Heap(KernelEmitter &e, Value ptr, Worse worse) : e(e), ptr(ptr), worse(std::move(worse)) {}

  Value get(Value i) { return e.rawLoad(e.i64(), e.gep(ptr, e.i64(), i)); }
  void set(Value i, Value item) { e.rawStore(item, e.gep(ptr, e.i64(), i)); }

  void build(Value count) {
    Value half = e.divU(count, e.idx(2));
    e.forLoop(half, [&](Value i) { sift(e.sub(e.sub(half, 1), i), count); });
  }
  /// Puts the item at `pos` where it belongs among its descendants.
  void sift(Value pos, Value count) {
    Value item = get(pos), yes = e.intConst(e.i1(), 1);
    auto end = e.whileLoop(
        {pos, yes},
        [&](ValueRange c) {
          Value child = e.add(e.mul(c[0], 2), 1);
          return Value(arith::AndIOp::create(e.b, e.loc, c[1], e.lt(child, count)));
        },
        [&](ValueRange c) -> SmallVector<Value> {
          Value left = e.add(e.mul(c[0], 2), 1), right = e.minS(e.add(left, 1), e.sub(count, 1));
          Value a = get(left), b = get(right);
          Value useRight = worse(b, a);
          Value child = e.select(useRight, right, left), value = e.select(useRight, b, a);
          Value go = worse(value, item);
          e.ifThen(go, [&] { set(c[0], value); });
          return {e.select(go, child, c[0]), go};
        });
    set(end[0], item);
  }
  /// Best first.
  void sort(Value count) {
    e.forLoop(e.maxS(e.sub(count, 1), e.idx(0)), [&](Value i) {
      Value last = e.sub(e.sub(count, 1), i);
      Value worst = get(e.idx(0));
      set(e.idx(0), get(last));
      set(last, worst);
      sift(e.idx(0), last);
    });
  }

private:
  KernelEmitter &e;
  Value ptr;
  Worse worse;
};

class SortKernel : public KernelBuilder {
public:
  tsr::KernelClass kernelClass(Operation *) const override { return tsr::KernelClass::SortSelect; }
  LogicalResult match(Operation *root, Reasons &reasons) const override {
    return success(requireNumeric(root, reasons));
  }
};

class TopKKernel final : public SortKernel {
public:
  bool embedsConstant(Operation *, unsigned operand) const override { return operand == 1; }
  Sym scratchBytes(tsr::DispatchOp op, const DispatchSizes &sizes) const override {
    int64_t axis = onnx::getInt(op.getRootOp(), "axis", -1);
    auto &dims = sizes.results[0];
    return sizes.ctx.mul(dims[axis < 0 ? axis + dims.size() : axis], sizes.ctx.constant(8));
  }
  LogicalResult emit(tsr::DispatchOp op, KernelEmitter &e) const override {
    RootView v(op, e);
    const TensorRef *in = v.in(0), *values = v.out(0), *indices = v.out(1);
    const TensorRef *shape = values ? values : indices;
    if (!in || !shape || !e.scratch)
      return failure();
    int64_t axis = onnx::getInt(v.root, "axis", -1);
    axis += axis < 0 ? in->rank() : 0;
    bool largest = onnx::getInt(v.root, "largest", 1);
    Value k = shape->dims[axis], n = in->dims[axis], step = in->strides[axis];
    Value fits = e.cmp(arith::CmpIPredicate::sle, k, n);
    e.failIf(e.logicalNot(fits), TSR_KERNEL_BAD_VALUE);
    SmallVector<Value> outer(in->dims);
    outer[axis] = e.idx(1);
    e.ifThen(e.logicalAnd(fits, e.lt(e.idx(0), k)), [&] {
      e.forAll(outer, [&](ArrayRef<Value> index) {
        Value base = e.offsetOf(*in, index);
        auto key = [&](Value i) { return sortKey(e, e.loadElement(*in, e.add(base, e.mul(i, step))), in->element); };
        auto worse = [&](Value a, Value b) -> Value {
          Value ka = key(a), kb = key(b);
          Value less = largest ? e.lt(ka, kb) : e.lt(kb, ka);
          return e.logicalOr(less, e.logicalAnd(e.eq(ka, kb), e.lt(b, a)));
        };
        Heap heap(e, e.scratch, worse);
        e.forLoop(k, [&](Value i) { heap.set(i, i); });
        heap.build(k);
        e.forLoop(k, n, e.idx(1), [&](Value i) {
          e.ifThen(worse(heap.get(e.idx(0)), i), [&] {
            heap.set(e.idx(0), i);
            heap.sift(e.idx(0), k);
          });
        });
        heap.sort(k);
        e.forLoop(k, [&](Value j) {
          SmallVector<Value> to(index);
          to[axis] = j;
          Value item = heap.get(j);
          if (values)
            moveElement(e, *values, e.offsetOf(*values, to), *in, e.add(base, e.mul(item, step)));
          if (indices)
            e.store(*indices, to, item);
        });
      });
    });
    return success();
  }
};
TESSERA_KERNEL(TopKKernel, "onnx.TopK");

/// Items are elements, or slices along an axis. Scratch: the sorted order, then
/// per item its group, then per group its number in the result.
class UniqueKernel final : public SortKernel {
public:
  unsigned extentCount(Operation *) const override { return 1; }
  Sym scratchBytes(tsr::DispatchOp op, const DispatchSizes &sizes) const override {
    Sym items = sizes.ctx.constant(1);
    auto arg = cast<BlockArgument>(onnx::getOptionalOperand(op.getRootOp(), 0));
    for (Sym d : sizes.operands[arg.getArgNumber()])
      items = sizes.ctx.mul(items, d);
    return sizes.ctx.mul(items, sizes.ctx.constant(24));
  }
  Sym extentScratchBytes(tsr::DispatchOp op, const DispatchSizes &sizes) const override {
    return scratchBytes(op, sizes);
  }
  LogicalResult emitExtents(tsr::DispatchOp op, KernelEmitter &e) const override {
    RootView v(op, e);
    Items items(v);
    if (!items.in || !e.scratch)
      return failure();
    e.storeElement(e.outputs[0], e.idx(0), items.group());
    return success();
  }
  LogicalResult emit(tsr::DispatchOp op, KernelEmitter &e) const override {
    RootView v(op, e);
    Items items(v);
    if (!items.in || !e.scratch)
      return failure();
    const TensorRef *y = v.out(0), *first = v.out(1), *inverse = v.out(2), *counts = v.out(3);
    Value groups = items.group();
    Value limit = y ? y->dims[items.axis < 0 ? 0 : items.axis] : first ? first->dims[0] : counts ? counts->dims[0] : groups;
    e.failIf(e.lt(limit, groups), TSR_KERNEL_BAD_VALUE);
    e.ifThen(e.cmp(arith::CmpIPredicate::sle, groups, limit), [&] {
      if (!onnx::getInt(v.root, "sorted", 1))
        items.numberByAppearance();
      if (counts)
        e.forLoop(groups, [&](Value g) { e.store(*counts, {g}, e.idx(0)); });
      e.forLoop(items.count, [&](Value i) {
        Value g = items.get(2, items.get(1, i));
        if (inverse)
          e.store(*inverse, {i}, g);
        if (counts)
          e.store(*counts, {g}, e.add(e.load(*counts, {g}), 1));
      });
      // The first item of each group, in descending order so that the first wins.
      e.forLoop(items.count, [&](Value back) {
        Value i = e.sub(e.sub(items.count, 1), back), g = items.get(2, items.get(1, i));
        if (first)
          e.store(*first, {g}, i);
        if (y)
          items.copyTo(*y, g, i);
      });
    });
    return success();
  }

private:
  struct Items {
    RootView &v;
    KernelEmitter &e;
    const TensorRef *in;
    int64_t axis = -1;
    Value count;
    SmallVector<Value> sliceDims, sliceStrides;

    explicit Items(RootView &v) : v(v), e(v.e), in(v.in(0)) {
      if (!in)
        return;
      if (v.root->hasAttr("axis")) {
        axis = onnx::getInt(v.root, "axis", 0);
        axis += axis < 0 ? in->rank() : 0;
      }
      count = axis < 0 ? e.product(in->dims) : in->dims[axis];
      for (unsigned k = 0; axis >= 0 && k < in->rank(); ++k)
        if (k != axis) {
          sliceDims.push_back(in->dims[k]);
          sliceStrides.push_back(in->strides[k]);
        }
    }
    Value place(unsigned list, Value i) {
      return e.gep(e.scratch, e.i64(), e.add(e.mul(count, list), i));
    }
    Value get(unsigned list, Value i) { return e.rawLoad(e.i64(), place(list, i)); }
    void set(unsigned list, Value i, Value x) { e.rawStore(x, place(list, i)); }
    Value offset(Value i) { return axis < 0 ? i : e.mul(i, in->strides[axis]); }
    // -1, 0, 1 as the first difference says.
    Value compare(Value a, Value b) {
      Value oa = offset(a), ob = offset(b), n = e.product(sliceDims);
      auto key = [&](Value o) { return sortKey(e, e.loadElement(*in, o), in->element); };
      auto order = [&](Value x, Value y) {
        return e.select(e.lt(x, y), e.idx(-1), e.select(e.lt(y, x), e.idx(1), e.idx(0)));
      };
      if (axis < 0)
        return order(key(oa), key(ob));
      return e.whileLoop(
          {e.idx(0), e.idx(0)},
          [&](ValueRange c) {
            return Value(arith::AndIOp::create(e.b, e.loc, e.lt(c[0], n), e.eq(c[1], e.idx(0))));
          },
          [&](ValueRange c) -> SmallVector<Value> {
            Value rest = c[0], at = e.idx(0);
            for (unsigned k = sliceDims.size(); k-- > 0;) {
              at = e.add(at, e.mul(k ? e.remU(rest, sliceDims[k]) : rest, sliceStrides[k]));
              if (k)
                rest = e.divU(rest, sliceDims[k]);
            }
            return {e.add(c[0], 1), order(key(e.add(oa, at)), key(e.add(ob, at)))};
          })[1];
    }
    /// Sorts, numbers the groups in sorted order; returns their number.
    Value group() {
      auto worse = [&](Value a, Value b) -> Value {
        Value c = compare(a, b);
        return e.logicalOr(e.lt(e.idx(0), c), e.logicalAnd(e.eq(c, e.idx(0)), e.lt(b, a)));
      };
      Heap heap(e, e.scratch, worse);
      e.forLoop(count, [&](Value i) { heap.set(i, i); });
      heap.build(count);
      heap.sort(count);
      Value last = e.forLoop(e.idx(0), count, e.idx(1), ValueRange{e.idx(-1)}, [&](Value i, ValueRange c) -> SmallVector<Value> {
        Value item = heap.get(i), before = heap.get(e.maxS(e.sub(i, 1), e.idx(0)));
        Value fresh = e.logicalOr(e.eq(i, e.idx(0)), e.cmp(arith::CmpIPredicate::ne, compare(item, before), e.idx(0)));
        Value g = e.add(c[0], e.select(fresh, e.idx(1), e.idx(0)));
        set(1, item, g);
        set(2, g, g);
        return {g};
      })[0];
      return e.add(last, 1);
    }
    void numberByAppearance() {
      e.forLoop(count, [&](Value g) { set(2, g, e.idx(-1)); });
      e.forLoop(e.idx(0), count, e.idx(1), ValueRange{e.idx(0)}, [&](Value i, ValueRange c) -> SmallVector<Value> {
        Value g = get(1, i), known = get(2, g);
        Value fresh = e.lt(known, e.idx(0));
        set(2, g, e.select(fresh, c[0], known));
        return {e.select(fresh, e.add(c[0], 1), c[0])};
      });
    }
    void copyTo(const TensorRef &y, Value g, Value i) {
      SmallVector<CopyAxis> box;
      for (unsigned k = 0; axis >= 0 && k < in->rank(); ++k)
        if (k != axis)
          box.push_back({in->dims[k], y.strides[k], in->strides[k]});
      copyBox(e, y, e.mul(g, y.strides[axis < 0 ? 0 : axis]), *in, offset(i), box);
    }
  };
};
TESSERA_KERNEL(UniqueKernel, "onnx.Unique");

/// Scratch: boxes in order of falling score, then the boxes selected so far.
class NmsKernel final : public SortKernel {
public:
  LogicalResult match(Operation *root, Reasons &reasons) const override {
    if (!requireNumeric(root, reasons))
      return failure();
    if (!operandElement(root, 0).isF32() || !operandElement(root, 1).isF32())
      return reasons.no() << "boxes or scores of another type than float32";
    return success();
  }
  bool embedsConstant(Operation *, unsigned operand) const override { return operand >= 2; }
  unsigned extentCount(Operation *root) const override { return onnx::getOptionalOperand(root, 2) ? 1 : 0; }
  Sym scratchBytes(tsr::DispatchOp op, const DispatchSizes &sizes) const override {
    auto arg = cast<BlockArgument>(onnx::getOptionalOperand(op.getRootOp(), 0));
    return sizes.ctx.mul(sizes.operands[arg.getArgNumber()][1], sizes.ctx.constant(16));
  }
  Sym extentScratchBytes(tsr::DispatchOp op, const DispatchSizes &sizes) const override {
    return scratchBytes(op, sizes);
  }
  LogicalResult emitExtents(tsr::DispatchOp op, KernelEmitter &e) const override {
    Cell total(e, e.idx(0));
    if (failed(select(op, e, [&](Value, Value, Value) { total.set(e.add(total.get(), 1)); })))
      return failure();
    e.storeElement(e.outputs[0], e.idx(0), total.get());
    return success();
  }
  LogicalResult emit(tsr::DispatchOp op, KernelEmitter &e) const override {
    RootView v(op, e);
    const TensorRef *out = v.out(0);
    if (!out)
      return failure();
    if (!v.has(2))
      return success(); // at most 0 boxes
    Cell total(e, e.idx(0));
    return select(op, e, [&](Value batch, Value cls, Value box) {
      Value at = total.get();
      e.ifThen(e.lt(at, out->dims[0]), [&] {
        e.store(*out, {at, e.idx(0)}, batch);
        e.store(*out, {at, e.idx(1)}, cls);
        e.store(*out, {at, e.idx(2)}, box);
      });
      total.set(e.add(at, 1));
    });
  }

private:
  LogicalResult select(tsr::DispatchOp op, KernelEmitter &e, function_ref<void(Value, Value, Value)> sink) const {
    RootView v(op, e);
    const TensorRef *boxes = v.in(0), *scores = v.in(1);
    if (!boxes || !scores || !e.scratch)
      return failure();
    bool center = onnx::getInt(v.root, "center_point_box", 0);
    Value count = e.minS(boxes->dims[1], scores->dims[2]);
    Value most = v.scalarInt(2, 0);
    Value iou = v.has(3) ? v.scalar(3) : e.floatConst(e.f32(), 0);
    Value selectedAt = e.gep(e.scratch, e.i64(), boxes->dims[1]);
    Value batches = e.minS(boxes->dims[0], scores->dims[0]);
    e.forAll({batches, scores->dims[1]}, [&](ArrayRef<Value> at) {
      Value base = e.add(e.mul(at[0], scores->strides[0]), e.mul(at[1], scores->strides[1]));
      auto score = [&](Value i) { return e.loadElement(*scores, e.add(base, e.mul(i, scores->strides[2]))); };
      auto worse = [&](Value a, Value b) -> Value {
        Value ka = sortKey(e, score(a), scores->element), kb = sortKey(e, score(b), scores->element);
        return e.logicalOr(e.lt(ka, kb), e.logicalAnd(e.eq(ka, kb), e.lt(b, a)));
      };
      Heap heap(e, e.scratch, worse);
      // Candidates only, so that the sort is short.
      Cell candidates(e, e.idx(0));
      e.forLoop(count, [&](Value i) {
        Value pass = v.has(4) ? e.cmpF(arith::CmpFPredicate::OGT, score(i), v.scalar(4)) : e.intConst(e.i1(), 1);
        e.ifThen(pass, [&] {
          heap.set(candidates.get(), i);
          candidates.set(e.add(candidates.get(), 1));
        });
      });
      Value n = candidates.get();
      heap.build(n);
      heap.sort(n);
      Cell chosen(e, e.idx(0));
      e.forLoop(n, [&](Value j) {
        e.ifThen(e.lt(chosen.get(), most), [&] {
          Value box = heap.get(j), have = chosen.get();
          auto mine = corners(e, *boxes, at[0], box, center);
          auto end = e.whileLoop(
              {e.idx(0), e.intConst(e.i1(), 1)},
              [&](ValueRange c) { return Value(arith::AndIOp::create(e.b, e.loc, c[1], e.lt(c[0], have))); },
              [&](ValueRange c) -> SmallVector<Value> {
                Value other = e.rawLoad(e.i64(), e.gep(selectedAt, e.i64(), c[0]));
                Value hit = suppresses(e, mine, corners(e, *boxes, at[0], other, center), iou);
                return {e.add(c[0], 1), e.logicalNot(hit)};
              });
          e.ifThen(end[1], [&] {
            e.rawStore(box, e.gep(selectedAt, e.i64(), have));
            chosen.set(e.add(have, 1));
            sink(at[0], at[1], box);
          });
        });
      });
    });
    return success();
  }

  struct Box {
    Value x0, y0, x1, y1;
  };
  static Value least(KernelEmitter &e, Value a, Value b) {
    return e.select(e.cmpF(arith::CmpFPredicate::OLT, a, b), a, b);
  }
  static Value most(KernelEmitter &e, Value a, Value b) {
    return e.select(e.cmpF(arith::CmpFPredicate::OGT, a, b), a, b);
  }
  static Box corners(KernelEmitter &e, const TensorRef &boxes, Value batch, Value box, bool center) {
    Value x[4];
    for (unsigned k = 0; k < 4; ++k)
      x[k] = e.load(boxes, {batch, box, e.idx(k)});
    if (!center) // y, x of two opposite corners
      return {least(e, x[1], x[3]), least(e, x[0], x[2]), most(e, x[1], x[3]), most(e, x[0], x[2])};
    Value half = e.floatConst(e.f32(), 0.5), w = e.mulF(x[2], half), h = e.mulF(x[3], half);
    return {e.subF(x[0], w), e.subF(x[1], h), e.addF(x[0], w), e.addF(x[1], h)};
  }
  static Value suppresses(KernelEmitter &e, const Box &a, const Box &b, Value limit) {
    using P = arith::CmpFPredicate;
    Value zero = e.floatConst(e.f32(), 0);
    Value w = e.subF(least(e, a.x1, b.x1), most(e, a.x0, b.x0));
    Value h = e.subF(least(e, a.y1, b.y1), most(e, a.y0, b.y0));
    auto area = [&](const Box &x) { return e.mulF(e.subF(x.x1, x.x0), e.subF(x.y1, x.y0)); };
    Value common = e.mulF(w, h), areaA = area(a), areaB = area(b);
    Value joined = e.subF(e.addF(areaA, areaB), common);
    Value ok = e.cmpF(P::OGT, w, zero);
    for (Value x : {h, common, areaA, areaB, joined})
      ok = e.logicalAnd(ok, e.cmpF(P::OGT, x, zero));
    return e.logicalAnd(ok, e.cmpF(P::OGT, e.divF(common, joined), limit));
  }
};
TESSERA_KERNEL(NmsKernel, "onnx.NonMaxSuppression");

} // namespace
} // namespace tessera::cpu

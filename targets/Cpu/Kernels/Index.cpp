// Gathers and scatters. Indices are data: each is wrapped, checked and clamped
// before it is used. Scatters run in index order.
#include "targets/Cpu/Kernels/Combine.h"
#include "targets/Cpu/Kernels/MovementKernel.h"

using namespace mlir;

namespace tessera::cpu {
namespace {

int64_t axisAttr(Operation *root, StringRef name, int64_t fallback, int64_t rank) {
  int64_t axis = onnx::getInt(root, name, fallback);
  return axis < 0 ? axis + rank : axis;
}

Value loadIndex(KernelEmitter &e, const TensorRef &t, Value offset) {
  return toIndex(e, e.loadElement(t, offset), KernelEmitter::isUnsigned(t.element));
}

class GatherKernel : public MovementKernel {
public:
  bool embedsConstant(Operation *root, unsigned operand) const override {
    auto type = operandType(root, 1);
    return operand == 1 && type && type.hasStaticShape() && type.getNumElements() <= 8;
  }
  LogicalResult emit(tsr::DispatchOp op, KernelEmitter &e) const override {
    RootView v(op, e);
    const TensorRef *data = v.in(0), *out = v.out(0);
    if (!data || !out)
      return failure();
    int64_t axis = axisAttr(v.root, "axis", 0, data->rank());
    unsigned q = v.inType(1).getRank();
    SmallVector<CopyAxis> outer, inner;
    for (unsigned k = 0; k < axis; ++k)
      outer.push_back({data->dims[k], out->strides[k], data->strides[k]});
    for (unsigned k = axis + 1; k < data->rank(); ++k)
      inner.push_back({data->dims[k], out->strides[k + q - 1], data->strides[k]});
    // Nothing is read if the result is empty.
    Value dim = data->dims[axis], some = e.lt(e.idx(0), e.product(out->dims));
    if (ElementsAttr attr = v.constant(1)) {
      SmallVector<int64_t> values = *onnx::getInts(attr);
      SmallVector<CopyAxis> box(outer);
      box.append(inner);
      e.ifThen(some, [&] {
        for (auto [i, value] : llvm::enumerate(values)) {
          Value dst = e.idx(0);
          int64_t rest = i;
          for (unsigned k = q; k-- > 0;) {
            int64_t size = v.inType(1).getDimSize(k);
            dst = e.add(dst, e.mul(out->strides[axis + k], rest % size));
            rest /= size;
          }
          Value at = wrapIndex(e, e.idx(value), dim);
          e.ifThen(e.lt(e.idx(0), dim), [&] {
            copyBox(e, *out, dst, *data, e.mul(at, data->strides[axis]), box);
          });
        }
      });
      return success();
    }
    const TensorRef *indices = v.in(1);
    if (!indices)
      return failure();
    std::function<void(unsigned, Value, Value)> overOuter;
    SmallVector<Value> indexDims(out->dims.begin() + axis, out->dims.begin() + axis + q);
    auto overIndices = [&](Value dst, Value src) {
      e.forAll(indexDims, [&](ArrayRef<Value> i) {
        Value at = loadIndex(e, *indices, e.offsetOf(*indices, i));
        at = wrapIndex(e, at, dim);
        Value to = dst;
        for (unsigned k = 0; k < q; ++k)
          to = e.add(to, e.mul(i[k], out->strides[axis + k]));
        copyBox(e, *out, to, *data, e.add(src, e.mul(at, data->strides[axis])), inner);
      });
    };
    overOuter = [&](unsigned k, Value dst, Value src) {
      if (k == outer.size())
        return overIndices(dst, src);
      e.forLoop(outer[k].dim, [&](Value i) {
        overOuter(k + 1, e.add(dst, e.mul(i, outer[k].dst)), e.add(src, e.mul(i, outer[k].src)));
      });
    };
    e.failIf(e.logicalAnd(some, e.eq(dim, e.idx(0))), TSR_KERNEL_INDEX_OUT_OF_RANGE);
    e.ifThen(e.logicalAnd(some, e.lt(e.idx(0), dim)), [&] { overOuter(0, e.idx(0), e.idx(0)); });
    return success();
  }
};
TESSERA_KERNEL(GatherKernel, "onnx.Gather");

class GatherElementsKernel : public MovementKernel {
public:
  LogicalResult emit(tsr::DispatchOp op, KernelEmitter &e) const override {
    RootView v(op, e);
    const TensorRef *data = v.in(0), *indices = v.in(1), *out = v.out(0);
    if (!data || !indices || !out)
      return failure();
    int64_t axis = axisAttr(v.root, "axis", 0, data->rank());
    Value dim = data->dims[axis], fits = e.lt(e.idx(0), dim);
    for (unsigned k = 0; k < data->rank(); ++k)
      if (k != axis)
        fits = e.logicalAnd(fits, e.cmp(arith::CmpIPredicate::sle, out->dims[k], data->dims[k]));
    Value some = e.lt(e.idx(0), e.product(out->dims));
    e.failIf(e.logicalAnd(some, e.logicalNot(fits)), TSR_KERNEL_INDEX_OUT_OF_RANGE);
    e.ifThen(e.logicalAnd(some, fits), [&] {
      e.forAll(out->dims, [&](ArrayRef<Value> i) {
        SmallVector<Value> from(i);
        from[axis] = wrapIndex(e, loadIndex(e, *indices, e.offsetOf(*indices, i)), dim);
        moveElement(e, *out, e.offsetOf(*out, i), *data, e.offsetOf(*data, from));
      });
    });
    return success();
  }
};
TESSERA_KERNEL(GatherElementsKernel, "onnx.GatherElements");

std::optional<Combine> reductionOf(StringRef name) {
  return llvm::StringSwitch<std::optional<Combine>>(name)
      .Case("none", Combine::Replace)
      .Case("add", Combine::Add)
      .Case("mul", Combine::Mul)
      .Case("max", Combine::Max)
      .Case("min", Combine::Min)
      .Default(std::nullopt);
}

LogicalResult matchReduction(Operation *root, Reasons &reasons) {
  StringRef name = onnx::getString(root, "reduction", "none");
  auto kind = reductionOf(name);
  if (!kind)
    return reasons.no() << "reduction " << name << " is not known";
  if (*kind != Combine::Replace && !isa<FloatType, IntegerType>(operandElement(root, 0)))
    return reasons.no() << "reduction " << name << " of "
                        << onnx::getTypeName(operandElement(root, 0));
  return success();
}

void scatterElement(KernelEmitter &e, Combine kind, const TensorRef &out, Value to,
                    const TensorRef &updates, Value from) {
  if (kind == Combine::Replace)
    return moveElement(e, out, to, updates, from);
  Value sum = combine(e, kind, out.element, e.loadElement(out, to), e.loadElement(updates, from));
  e.storeElement(out, to, isa<FloatType>(out.element) ? e.round(sum, out.element) : sum);
}

class ScatterElementsKernel : public MovementKernel {
public:
  LogicalResult matchMore(Operation *root, Reasons &reasons) const override {
    return matchReduction(root, reasons);
  }
  LogicalResult emit(tsr::DispatchOp op, KernelEmitter &e) const override {
    RootView v(op, e);
    const TensorRef *data = v.in(0), *indices = v.in(1), *updates = v.in(2), *out = v.out(0);
    if (!data || !indices || !updates || !out)
      return failure();
    int64_t axis = axisAttr(v.root, "axis", 0, data->rank());
    Combine kind = *reductionOf(onnx::getString(v.root, "reduction", "none"));
    copyTensor(e, *out, *data);
    Value fits = e.lt(e.idx(0), data->dims[axis]);
    for (unsigned k = 0; k < data->rank(); ++k) {
      auto le = arith::CmpIPredicate::sle;
      if (k != axis)
        fits = e.logicalAnd(fits, e.cmp(le, indices->dims[k], data->dims[k]));
      fits = e.logicalAnd(fits, e.cmp(le, indices->dims[k], updates->dims[k]));
    }
    Value some = e.lt(e.idx(0), e.product(indices->dims));
    e.failIf(e.logicalAnd(some, e.logicalNot(fits)), TSR_KERNEL_INDEX_OUT_OF_RANGE);
    e.ifThen(e.logicalAnd(some, fits), [&] {
      e.forAll(indices->dims, [&](ArrayRef<Value> i) {
        SmallVector<Value> to(i);
        to[axis] = wrapIndex(e, loadIndex(e, *indices, e.offsetOf(*indices, i)), data->dims[axis]);
        scatterElement(e, kind, *out, e.offsetOf(*out, to), *updates, e.offsetOf(*updates, i));
      });
    });
    return success();
  }
};
TESSERA_KERNEL(ScatterElementsKernel, "onnx.ScatterElements", "onnx.Scatter");

// Offset of the slice that row `i` of `indices` names in `t`, whose axes from
// `first` on are indexed; ok becomes false if an axis is empty.
Value sliceOffset(KernelEmitter &e, const TensorRef &t, const TensorRef &indices,
                  ArrayRef<Value> row, unsigned first, int64_t depth) {
  Value base = e.idx(0), offset = e.idx(0);
  for (unsigned k = 0; k < row.size(); ++k)
    base = e.add(base, e.mul(row[k], indices.strides[k]));
  for (int64_t d = 0; d < depth; ++d) {
    Value at = loadIndex(e, indices, e.add(base, e.mul(indices.strides.back(), d)));
    at = wrapIndex(e, at, t.dims[first + d]);
    offset = e.add(offset, e.mul(at, t.strides[first + d]));
  }
  return offset;
}

bool requireDepth(Operation *root, Reasons &reasons) {
  auto type = operandType(root, 1);
  if (type.getRank() >= 1 && !type.isDynamicDim(type.getRank() - 1))
    return true;
  reasons.no() << "last dimension of indices is not known";
  return false;
}

class GatherNDKernel : public MovementKernel {
public:
  LogicalResult matchMore(Operation *root, Reasons &reasons) const override {
    return success(requireDepth(root, reasons));
  }
  LogicalResult emit(tsr::DispatchOp op, KernelEmitter &e) const override {
    RootView v(op, e);
    const TensorRef *data = v.in(0), *indices = v.in(1), *out = v.out(0);
    if (!data || !indices || !out)
      return failure();
    unsigned batch = onnx::getInt(v.root, "batch_dims", 0), lead = indices->rank() - 1;
    int64_t depth = v.inType(1).getDimSize(lead);
    SmallVector<CopyAxis> inner;
    for (unsigned k = batch + depth; k < data->rank(); ++k)
      inner.push_back({data->dims[k], out->strides[lead + k - batch - depth], data->strides[k]});
    Value some = e.lt(e.idx(0), e.product(out->dims)), fits = e.intConst(e.i1(), 1);
    for (unsigned k = 0; k < batch; ++k)
      fits = e.logicalAnd(fits, e.cmp(arith::CmpIPredicate::sle, indices->dims[k], data->dims[k]));
    for (int64_t d = 0; d < depth; ++d)
      fits = e.logicalAnd(fits, e.lt(e.idx(0), data->dims[batch + d]));
    e.failIf(e.logicalAnd(some, e.logicalNot(fits)), TSR_KERNEL_INDEX_OUT_OF_RANGE);
    e.ifThen(e.logicalAnd(some, fits), [&] {
      e.forAll(ArrayRef(indices->dims).drop_back(), [&](ArrayRef<Value> row) {
        Value src = sliceOffset(e, *data, *indices, row, batch, depth), dst = e.idx(0);
        for (unsigned k = 0; k < lead; ++k)
          dst = e.add(dst, e.mul(row[k], out->strides[k]));
        for (unsigned k = 0; k < batch; ++k)
          src = e.add(src, e.mul(row[k], data->strides[k]));
        copyBox(e, *out, dst, *data, src, inner);
      });
    });
    return success();
  }
};
TESSERA_KERNEL(GatherNDKernel, "onnx.GatherND");

class ScatterNDKernel : public MovementKernel {
public:
  LogicalResult matchMore(Operation *root, Reasons &reasons) const override {
    if (!requireDepth(root, reasons))
      return failure();
    return matchReduction(root, reasons);
  }
  LogicalResult emit(tsr::DispatchOp op, KernelEmitter &e) const override {
    RootView v(op, e);
    const TensorRef *data = v.in(0), *indices = v.in(1), *updates = v.in(2), *out = v.out(0);
    if (!data || !indices || !updates || !out)
      return failure();
    Combine kind = *reductionOf(onnx::getString(v.root, "reduction", "none"));
    unsigned lead = indices->rank() - 1;
    int64_t depth = v.inType(1).getDimSize(lead);
    copyTensor(e, *out, *data);
    SmallVector<CopyAxis> inner;
    Value fits = e.intConst(e.i1(), 1);
    for (unsigned k = depth; k < data->rank(); ++k) {
      unsigned u = lead + k - depth;
      inner.push_back({updates->dims[u], out->strides[k], updates->strides[u]});
      fits = e.logicalAnd(fits, e.cmp(arith::CmpIPredicate::sle, updates->dims[u], data->dims[k]));
    }
    for (unsigned k = 0; k < lead; ++k)
      fits = e.logicalAnd(fits, e.cmp(arith::CmpIPredicate::sle, indices->dims[k], updates->dims[k]));
    for (int64_t d = 0; d < depth; ++d)
      fits = e.logicalAnd(fits, e.lt(e.idx(0), data->dims[d]));
    Value some = e.lt(e.idx(0), e.product(updates->dims));
    e.failIf(e.logicalAnd(some, e.logicalNot(fits)), TSR_KERNEL_INDEX_OUT_OF_RANGE);
    e.ifThen(e.logicalAnd(some, fits), [&] {
      e.forAll(ArrayRef(indices->dims).drop_back(), [&](ArrayRef<Value> row) {
        Value dst = sliceOffset(e, *out, *indices, row, 0, depth), src = e.idx(0);
        for (unsigned k = 0; k < lead; ++k)
          src = e.add(src, e.mul(row[k], updates->strides[k]));
        if (kind == Combine::Replace)
          return copyBox(e, *out, dst, *updates, src, inner);
        SmallVector<Value> dims;
        for (const CopyAxis &a : inner)
          dims.push_back(a.dim);
        e.forAll(dims, [&](ArrayRef<Value> i) {
          Value to = dst, from = src;
          for (unsigned k = 0; k < inner.size(); ++k) {
            to = e.add(to, e.mul(i[k], inner[k].dst));
            from = e.add(from, e.mul(i[k], inner[k].src));
          }
          scatterElement(e, kind, *out, to, *updates, from);
        });
      });
    });
    return success();
  }
};
TESSERA_KERNEL(ScatterNDKernel, "onnx.ScatterND");

/// Writes `update` into a cache at per-batch positions along an axis.
class TensorScatterKernel : public MovementKernel {
public:
  LogicalResult matchMore(Operation *root, Reasons &reasons) const override {
    StringRef mode = onnx::getString(root, "mode", "linear");
    if (mode != "linear" && mode != "circular")
      return reasons.no() << "mode " << mode << " is not known";
    return success();
  }
  LogicalResult emit(tsr::DispatchOp op, KernelEmitter &e) const override {
    RootView v(op, e);
    const TensorRef *past = v.in(0), *update = v.in(1), *where = v.in(2), *out = v.out(0);
    if (!past || !update || !out || (v.has(2) && !where))
      return failure();
    unsigned rank = past->rank();
    int64_t axis = axisAttr(v.root, "axis", -2, rank);
    bool circular = onnx::getString(v.root, "mode", "linear") == "circular";
    copyTensor(e, *out, *past);
    SmallVector<CopyAxis> inner;
    for (unsigned k = 1; k < rank; ++k)
      if (k != axis)
        inner.push_back({e.minS(update->dims[k], past->dims[k]), out->strides[k], update->strides[k]});
    Value limit = past->dims[axis];
    Value batches = e.minS(past->dims[0], update->dims[0]);
    if (where)
      batches = e.minS(batches, where->dims[0]);
    e.forLoop(batches, [&](Value b) {
      Value start = where ? loadIndex(e, *where, e.mul(b, where->strides[0])) : e.idx(0);
      Value negative = e.lt(start, e.idx(0));
      e.failIf(negative, TSR_KERNEL_INDEX_OUT_OF_RANGE);
      start = e.select(negative, e.idx(0), start);
      e.forLoop(update->dims[axis], [&](Value s) {
        Value at = e.add(start, s);
        if (circular)
          at = e.remU(at, e.maxS(limit, e.idx(1)));
        Value good = e.lt(at, limit);
        e.failIf(e.logicalNot(good), TSR_KERNEL_INDEX_OUT_OF_RANGE);
        e.ifThen(good, [&] {
          copyBox(e, *out, e.add(e.mul(b, out->strides[0]), e.mul(at, out->strides[axis])), *update,
                  e.add(e.mul(b, update->strides[0]), e.mul(s, update->strides[axis])), inner);
        });
      });
    });
    return success();
  }
};
TESSERA_KERNEL(TensorScatterKernel, "onnx.TensorScatter");

class CompressKernel : public MovementKernel {
public:
  LogicalResult emit(tsr::DispatchOp op, KernelEmitter &e) const override {
    RootView v(op, e);
    const TensorRef *in = v.in(0), *condition = v.in(1), *out = v.out(0);
    if (!in || !condition || !out)
      return failure();
    int axis = axisOf(v.root, in->rank());
    Cell at(e, e.idx(0));
    Value limit = out->dims[axis < 0 ? 0 : axis];
    SmallVector<CopyAxis> box;
    for (unsigned k = 0; axis >= 0 && k < in->rank(); ++k)
      if (static_cast<int>(k) != axis)
        box.push_back({in->dims[k], out->strides[k], in->strides[k]});
    forChosen(v, *in, *condition, axis, [&](Value i) {
      Value to = at.get();
      e.ifThen(e.lt(to, limit), [&] {
        if (axis >= 0) {
          copyBox(e, *out, e.mul(to, out->strides[axis]), *in, e.mul(i, in->strides[axis]), box);
        } else {
          moveElement(e, *out, e.mul(to, out->strides[0]), *in, linearOffset(e, *in, i));
        }
      });
      at.set(e.add(to, 1));
    });
    return success();
  }
  unsigned extentCount(Operation *) const override { return 1; }
  LogicalResult emitExtents(tsr::DispatchOp op, KernelEmitter &e) const override {
    RootView v(op, e);
    const TensorRef *in = v.in(0), *condition = v.in(1);
    if (!in || !condition)
      return failure();
    Cell count(e, e.idx(0));
    forChosen(v, *in, *condition, axisOf(v.root, in->rank()),
              [&](Value) { count.set(e.add(count.get(), 1)); });
    e.storeElement(e.outputs[0], e.idx(0), count.get());
    return success();
  }

private:
  static int axisOf(Operation *root, int64_t rank) {
    return root->hasAttr("axis") ? axisAttr(root, "axis", 0, rank) : -1;
  }
  static Value linearOffset(KernelEmitter &e, const TensorRef &t, Value i) {
    Value offset = e.idx(0);
    for (unsigned k = t.rank(); k-- > 0;) {
      offset = e.add(offset, e.mul(k ? e.remU(i, t.dims[k]) : i, t.strides[k]));
      if (k)
        i = e.divU(i, t.dims[k]);
    }
    return offset;
  }
  static void forChosen(RootView &v, const TensorRef &in, const TensorRef &condition, int axis,
                        function_ref<void(Value)> body) {
    KernelEmitter &e = v.e;
    Value n = axis >= 0 ? in.dims[axis] : e.product(in.dims);
    e.forLoop(e.minS(n, condition.dims[0]), [&](Value i) {
      e.ifThen(e.loadElement(condition, e.mul(i, condition.strides[0])), [&] { body(i); });
    });
  }
};
TESSERA_KERNEL(CompressKernel, "onnx.Compress");

class NonZeroKernel : public MovementKernel {
public:
  LogicalResult matchMore(Operation *root, Reasons &reasons) const override {
    return success(requireNumeric(root, reasons));
  }
  LogicalResult emit(tsr::DispatchOp op, KernelEmitter &e) const override {
    RootView v(op, e);
    const TensorRef *in = v.in(0), *out = v.out(0);
    if (!in || !out)
      return failure();
    Cell at(e, e.idx(0));
    e.forAll(in->dims, [&](ArrayRef<Value> i) {
      e.ifThen(isNonZero(e, e.load(*in, i)), [&] {
        Value to = at.get();
        e.ifThen(e.lt(to, out->dims[1]), [&] {
          for (unsigned k = 0; k < in->rank(); ++k)
            e.store(*out, {e.idx(k), to}, i[k]);
        });
        at.set(e.add(to, 1));
      });
    });
    return success();
  }
  unsigned extentCount(Operation *) const override { return 1; }
  LogicalResult emitExtents(tsr::DispatchOp op, KernelEmitter &e) const override {
    RootView v(op, e);
    const TensorRef *in = v.in(0);
    if (!in)
      return failure();
    Cell count(e, e.idx(0));
    e.forAll(in->dims, [&](ArrayRef<Value> i) {
      e.ifThen(isNonZero(e, e.load(*in, i)), [&] { count.set(e.add(count.get(), 1)); });
    });
    e.storeElement(e.outputs[0], e.idx(0), count.get());
    return success();
  }
};
TESSERA_KERNEL(NonZeroKernel, "onnx.NonZero");

/// values = [off, on]; an index outside [-depth, depth) switches nothing on.
class OneHotKernel : public MovementKernel {
public:
  bool embedsConstant(Operation *, unsigned operand) const override { return operand == 1; }
  LogicalResult matchMore(Operation *root, Reasons &reasons) const override {
    if (!isa<FloatType, IntegerType>(operandElement(root, 0)))
      return reasons.no() << "indices of " << onnx::getTypeName(operandElement(root, 0));
    return success();
  }
  // A depth of run-time floats.
  unsigned extentCount(Operation *root) const override {
    return isa<FloatType>(operandElement(root, 1)) && !onnx::getConstant(onnx::getOptionalOperand(root, 1)) ? 1 : 0;
  }
  LogicalResult emitExtents(tsr::DispatchOp op, KernelEmitter &e) const override {
    RootView v(op, e);
    Value depth = e.cast(v.scalar(1), operandElement(v.root, 1), e.i64());
    e.storeElement(e.outputs[0], e.idx(0), e.maxS(depth, e.idx(0)));
    return success();
  }
  LogicalResult emit(tsr::DispatchOp op, KernelEmitter &e) const override {
    RootView v(op, e);
    const TensorRef *indices = v.in(0), *values = v.in(2), *out = v.out(0);
    if (!indices || !values || !out)
      return failure();
    int64_t axis = axisAttr(v.root, "axis", -1, out->rank());
    Value depth = out->dims[axis];
    SmallVector<CopyAxis> all;
    for (unsigned k = 0; k < out->rank(); ++k)
      all.push_back({out->dims[k], out->strides[k], e.idx(0)});
    copyBox(e, *out, e.idx(0), *values, e.idx(0), all);
    e.forAll(indices->dims, [&](ArrayRef<Value> i) {
      Value at = e.load(*indices, i);
      if (isa<FloatType>(at.getType()))
        at = e.cast(at, indices->element, e.i64());
      else
        at = toIndex(e, at, KernelEmitter::isUnsigned(indices->element));
      at = e.select(e.lt(at, e.idx(0)), e.add(at, depth), at);
      Value good = e.logicalAnd(e.cmp(arith::CmpIPredicate::sge, at, e.idx(0)), e.lt(at, depth));
      e.ifThen(good, [&] {
        SmallVector<Value> to(i);
        to.insert(to.begin() + axis, at);
        moveElement(e, *out, e.offsetOf(*out, to), *values, values->strides[0]);
      });
    });
    return success();
  }
};
TESSERA_KERNEL(OneHotKernel, "onnx.OneHot");

} // namespace
} // namespace tessera::cpu

// Operators that are one or a few strided box copies: transposition, layout
// change, joining, cutting, repeating, padding.
#include "targets/Cpu/Kernels/MovementKernel.h"

using namespace mlir;

namespace tessera::cpu {
namespace {

SmallVector<CopyAxis> axesOf(ArrayRef<Value> dims, ArrayRef<Value> dst, ArrayRef<Value> src) {
  SmallVector<CopyAxis> axes;
  for (unsigned k = 0; k < dims.size(); ++k)
    axes.push_back({dims[k], dst[k], src[k]});
  return axes;
}

int64_t axisAttr(Operation *root, StringRef name, int64_t fallback, int64_t rank) {
  int64_t axis = onnx::getInt(root, name, fallback);
  return axis < 0 ? axis + rank : axis;
}

/// Same elements in the same order: also the change of layout of one tensor.
class CopyKernel : public MovementKernel {
public:
  LogicalResult matchMore(Operation *root, Reasons &reasons) const override {
    auto in = operandType(root, 0), out = resultType(root, 0);
    if (in.getElementType() == out.getElementType() ||
        root->getName().getStringRef() == "onnx.BitCast")
      return success();
    return reasons.no() << "element types differ";
  }
  bool acceptsChannelsLast(Operation *root) const override {
    return root->getName().getStringRef() == "onnx.Identity";
  }
  LogicalResult emit(tsr::DispatchOp op, KernelEmitter &e) const override {
    RootView v(op, e);
    const TensorRef *in = v.in(0), *out = v.out(0);
    if (!in || !out)
      return failure();
    if (v.root->getName().getStringRef() == "onnx.Identity") {
      copyTensor(e, *out, *in);
      return success();
    }
    if (in->layout != tsr::Layout::RowMajor || out->layout != tsr::Layout::RowMajor)
      return failure();
    unsigned bits = onnx::getStorageBits(out->element);
    Value n = e.product(out->dims);
    Value bytes = e.ceilDivU(e.mul(n, bits), e.idx(8));
    if (bits >= 8 && bits <= 64 && !isa<ComplexType>(out->element))
      copyRow(e, bits, out->ptr, in->ptr, n);
    else
      copyRow(e, 8, out->ptr, in->ptr, bytes);
    return success();
  }
};
TESSERA_KERNEL(CopyKernel, "onnx.Identity", "onnx.Reshape", "onnx.Flatten", "onnx.Squeeze",
               "onnx.Unsqueeze", "onnx.BitCast");

class TransposeKernel : public MovementKernel {
public:
  bool acceptsChannelsLast(Operation *) const override { return true; }
  LogicalResult emit(tsr::DispatchOp op, KernelEmitter &e) const override {
    RootView v(op, e);
    const TensorRef *in = v.in(0), *out = v.out(0);
    if (!in || !out)
      return failure();
    SmallVector<int64_t> perm = onnx::getInts(v.root, "perm");
    if (perm.empty())
      for (int64_t k = in->rank(); k-- > 0;)
        perm.push_back(k);
    SmallVector<CopyAxis> axes;
    for (unsigned k = 0; k < out->rank(); ++k)
      axes.push_back({out->dims[k], out->strides[k], in->strides[perm[k]]});
    copyBox(e, *out, e.idx(0), *in, e.idx(0), axes);
    return success();
  }
};
TESSERA_KERNEL(TransposeKernel, "onnx.Transpose");

class ConcatKernel : public MovementKernel {
public:
  bool acceptsChannelsLast(Operation *) const override { return true; }
  LogicalResult emit(tsr::DispatchOp op, KernelEmitter &e) const override {
    RootView v(op, e);
    const TensorRef *out = v.out(0);
    if (!out)
      return failure();
    int64_t axis = axisAttr(v.root, "axis", 0, out->rank());
    Value offset = e.idx(0);
    for (unsigned i = 0, n = onnx::getNumOperandPositions(v.root); i < n; ++i) {
      const TensorRef *in = v.in(i);
      if (!in)
        return failure();
      copyBox(e, *out, e.mul(offset, out->strides[axis]), *in, e.idx(0),
              axesOf(in->dims, out->strides, in->strides));
      offset = e.add(offset, in->dims[axis]);
    }
    return success();
  }
};
TESSERA_KERNEL(ConcatKernel, "onnx.Concat");

class SplitKernel : public MovementKernel {
public:
  bool acceptsChannelsLast(Operation *) const override { return true; }
  bool embedsConstant(Operation *, unsigned operand) const override { return operand == 1; }
  LogicalResult emit(tsr::DispatchOp op, KernelEmitter &e) const override {
    RootView v(op, e);
    const TensorRef *in = v.in(0);
    if (!in)
      return failure();
    int64_t axis = axisAttr(v.root, "axis", 0, in->rank());
    // Results that nothing uses still count; their size is read from the type.
    Value offset = e.idx(0);
    for (unsigned i = 0, n = onnx::getNumResultPositions(v.root); i < n; ++i) {
      if (const TensorRef *out = v.out(i)) {
        copyBox(e, *out, e.idx(0), *in, e.mul(offset, in->strides[axis]),
                axesOf(out->dims, out->strides, in->strides));
        offset = e.add(offset, out->dims[axis]);
        continue;
      }
      auto type = v.outType(i);
      if (type && !type.isDynamicDim(axis))
        offset = e.add(offset, e.idx(type.getDimSize(axis)));
      else if (v.has(1))
        offset = e.add(offset, v.ints(1, i + 1)[i]);
      else
        offset = e.add(offset, e.ceilDivU(in->dims[axis], e.idx(n)));
    }
    return success();
  }
};
TESSERA_KERNEL(SplitKernel, "onnx.Split");

class SliceKernel : public MovementKernel {
public:
  bool acceptsChannelsLast(Operation *) const override { return true; }
  bool embedsConstant(Operation *, unsigned operand) const override { return operand >= 1; }
  LogicalResult matchMore(Operation *root, Reasons &reasons) const override {
    return success(requireStaticCount(root, 1, reasons));
  }
  /// Axes whose extent only the data tells: all of them, or those of unknown steps.
  static SmallVector<unsigned> openAxes(Operation *root) {
    unsigned rank = operandType(root, 0).getRank();
    SmallVector<unsigned> open;
    auto axes = onnx::getOptionalOperand(root, 3), steps = onnx::getOptionalOperand(root, 4);
    auto known = onnx::getConstantInts(axes);
    if (axes && !known) {
      for (unsigned k = 0; k < rank; ++k)
        open.push_back(k);
    } else if (steps && !onnx::getConstantInts(steps)) {
      for (int64_t i = 0, n = operandType(root, 1).getNumElements(); i < n; ++i) {
        int64_t axis = known ? (*known)[i] : i;
        open.push_back(axis < 0 ? axis + rank : axis);
      }
      llvm::sort(open);
    }
    return open;
  }
  unsigned extentCount(Operation *root) const override { return openAxes(root).size(); }
  LogicalResult emitExtents(tsr::DispatchOp op, KernelEmitter &e) const override {
    RootView v(op, e);
    const TensorRef *in = v.in(0);
    if (!in)
      return failure();
    for (auto [i, k] : llvm::enumerate(openAxes(v.root))) {
      Cut cut(v, in->dims[k], k, in->rank());
      e.storeElement(e.outputs[0], e.idx(i), cut.size(v));
    }
    return success();
  }

  /// What happens to one axis.
  struct Cut {
    Value dim, start, end, step;
    Cut(RootView &v, Value dim, unsigned k, unsigned rank) : dim(dim) {
      KernelEmitter &e = v.e;
      unsigned n = *v.count(1);
      SmallVector<Value> starts = v.ints(1, n), ends, axes, steps;
      bool sized = v.in(2) || v.constant(2);
      ends = sized ? v.ints(2, n) : starts;
      if (v.has(3))
        axes = v.ints(3, n);
      else
        for (unsigned i = 0; i < n; ++i)
          axes.push_back(e.idx(i));
      steps = v.has(4) ? v.ints(4, n) : SmallVector<Value>(n, e.idx(1));
      start = e.idx(0), step = e.idx(1), end = dim;
      for (unsigned i = 0; i < n; ++i) {
        Value axis = e.select(e.lt(axes[i], e.idx(0)), e.add(axes[i], rank), axes[i]);
        Value here = e.eq(axis, e.idx(k));
        start = e.select(here, starts[i], start);
        end = e.select(here, ends[i], end);
        step = e.select(here, steps[i], step);
      }
      start = e.select(e.lt(start, e.idx(0)), e.add(start, dim), start);
      Value limit = e.select(e.lt(step, e.idx(0)), e.sub(dim, 1), dim);
      start = e.maxS(e.minS(start, limit), e.idx(0));
    }
    Value size(RootView &v) {
      KernelEmitter &e = v.e;
      e.failIf(e.eq(step, e.idx(0)), TSR_KERNEL_BAD_VALUE);
      Value back = e.lt(step, e.idx(0));
      Value stop = e.select(e.lt(end, e.idx(0)), e.add(end, dim), end);
      Value limit = e.select(back, e.sub(dim, 1), dim), least = e.select(back, e.idx(-1), e.idx(0));
      stop = e.maxS(e.minS(stop, limit), least);
      Value span = e.maxS(e.select(back, e.sub(start, stop), e.sub(stop, start)), e.idx(0));
      Value stride = e.maxS(e.select(back, e.sub(e.idx(0), e.maxS(step, e.idx(-INT64_MAX))), step), e.idx(1));
      Value whole = e.divU(span, stride), rest = e.remU(span, stride);
      Value count = e.add(whole, e.select(e.eq(rest, e.idx(0)), e.idx(0), e.idx(1)));
      return e.select(e.lt(e.idx(0), dim), count, e.idx(0));
    }
  };

  LogicalResult emit(tsr::DispatchOp op, KernelEmitter &e) const override {
    RootView v(op, e);
    const TensorRef *in = v.in(0), *out = v.out(0);
    if (!in || !out)
      return failure();
    unsigned rank = in->rank();
    SmallVector<CopyAxis> box;
    Value offset = e.idx(0), ok = e.intConst(e.i1(), 1);
    for (unsigned k = 0; k < rank; ++k) {
      Cut cut(v, in->dims[k], k, rank);
      Value start = cut.start, step = cut.step, dim = in->dims[k];
      Value count = out->dims[k];
      Value last = e.add(start, e.mul(e.sub(count, 1), step));
      Value inside = e.logicalAnd(e.cmp(arith::CmpIPredicate::sge, last, e.idx(0)), e.lt(last, dim));
      inside = e.logicalAnd(inside, e.lt(start, dim));
      ok = e.logicalAnd(ok, e.logicalOr(e.eq(count, e.idx(0)), inside));
      offset = e.add(offset, e.mul(start, in->strides[k]));
      box.push_back({count, out->strides[k], e.mul(step, in->strides[k])});
    }
    // With an empty result nothing is read, whatever the other axes say.
    for (Value d : out->dims)
      if (KernelEmitter::constantOf(d) == 0)
        return success();
    auto copy = [&] { copyBox(e, *out, e.idx(0), *in, offset, box); };
    if (auto known = KernelEmitter::constantOf(ok); known && *known != 0) {
      copy();
      return success();
    }
    Value empty = e.intConst(e.i1(), 0);
    for (Value d : out->dims)
      empty = e.logicalOr(empty, e.eq(d, e.idx(0)));
    e.failIf(e.logicalNot(e.logicalOr(ok, empty)), TSR_KERNEL_INDEX_OUT_OF_RANGE);
    e.ifThen(e.logicalAnd(ok, e.logicalNot(empty)), copy);
    return success();
  }
};
TESSERA_KERNEL(SliceKernel, "onnx.Slice");

class ExpandKernel : public MovementKernel {
public:
  bool embedsConstant(Operation *, unsigned operand) const override { return operand == 1; }
  LogicalResult emit(tsr::DispatchOp op, KernelEmitter &e) const override {
    RootView v(op, e);
    const TensorRef *in = v.in(0), *out = v.out(0);
    if (!in || !out)
      return failure();
    unsigned lead = out->rank() - in->rank();
    SmallVector<CopyAxis> axes;
    for (unsigned k = 0; k < out->rank(); ++k) {
      Value src = e.idx(0);
      if (k >= lead && !sameValue(in->dims[k - lead], out->dims[k]))
        src = e.select(e.eq(in->dims[k - lead], e.idx(1)), e.idx(0), in->strides[k - lead]);
      else if (k >= lead)
        src = in->strides[k - lead];
      axes.push_back({out->dims[k], out->strides[k], src});
    }
    copyBox(e, *out, e.idx(0), *in, e.idx(0), axes);
    return success();
  }
};
TESSERA_KERNEL(ExpandKernel, "onnx.Expand");

class TileKernel : public MovementKernel {
public:
  bool embedsConstant(Operation *, unsigned operand) const override { return operand == 1; }
  LogicalResult emit(tsr::DispatchOp op, KernelEmitter &e) const override {
    RootView v(op, e);
    const TensorRef *in = v.in(0), *out = v.out(0);
    if (!in || !out)
      return failure();
    SmallVector<CopyAxis> axes;
    for (unsigned k = 0; k < out->rank(); ++k) {
      Value dim = in->dims[k];
      Value times = sameValue(dim, out->dims[k]) ? e.idx(1)
                                                 : e.divU(out->dims[k], e.maxS(dim, e.idx(1)));
      axes.push_back({times, e.mul(dim, out->strides[k]), e.idx(0)});
      axes.push_back({dim, out->strides[k], in->strides[k]});
    }
    copyBox(e, *out, e.idx(0), *in, e.idx(0), axes);
    return success();
  }
};
TESSERA_KERNEL(TileKernel, "onnx.Tile");

/// DepthToSpace and SpaceToDepth: the depth is (block row, block column,
/// channel) for DCR and (channel, block row, block column) for CRD.
class BlockSpaceKernel : public MovementKernel {
public:
  bool acceptsChannelsLast(Operation *) const override { return true; }
  LogicalResult matchMore(Operation *root, Reasons &reasons) const override {
    StringRef mode = onnx::getString(root, "mode", "DCR");
    if (mode != "DCR" && mode != "CRD")
      return reasons.no() << "mode " << mode << " is not known";
    if (operandType(root, 0).getRank() != 4)
      return reasons.no() << "rank " << operandType(root, 0).getRank() << " is not 4";
    return success();
  }
  LogicalResult emit(tsr::DispatchOp op, KernelEmitter &e) const override {
    RootView v(op, e);
    const TensorRef *in = v.in(0), *out = v.out(0);
    if (!in || !out)
      return failure();
    bool toSpace = v.root->getName().getStringRef() == "onnx.DepthToSpace";
    bool dcr = onnx::getString(v.root, "mode", "DCR") == "DCR";
    int64_t size = onnx::getInt(v.root, "blocksize", 1);
    const TensorRef &deep = toSpace ? *in : *out, &wide = toSpace ? *out : *in;
    Value channels = wide.dims[1], block = e.idx(size);
    Value ds = deep.strides[1];
    Value dRow = e.mul(ds, dcr ? e.mul(channels, size) : block), dCol = dcr ? e.mul(ds, channels) : ds;
    Value dChannel = dcr ? ds : e.mul(ds, size * size);
    struct Part { Value dim, deep, wide; };
    Part parts[] = {{wide.dims[0], deep.strides[0], wide.strides[0]},
                    {channels, dChannel, wide.strides[1]},
                    {deep.dims[2], deep.strides[2], e.mul(wide.strides[2], size)},
                    {block, dRow, wide.strides[2]},
                    {deep.dims[3], deep.strides[3], e.mul(wide.strides[3], size)},
                    {block, dCol, wide.strides[3]}};
    SmallVector<CopyAxis> axes;
    for (const Part &p : parts)
      axes.push_back(toSpace ? CopyAxis{p.dim, p.wide, p.deep} : CopyAxis{p.dim, p.deep, p.wide});
    copyBox(e, *out, e.idx(0), *in, e.idx(0), axes);
    return success();
  }
};
TESSERA_KERNEL(BlockSpaceKernel, "onnx.DepthToSpace", "onnx.SpaceToDepth");

/// Negative pads crop first; the mode then works on what is left.
class PadKernel : public MovementKernel {
public:
  bool acceptsChannelsLast(Operation *) const override { return true; }
  bool embedsConstant(Operation *, unsigned operand) const override { return operand >= 1; }
  LogicalResult matchMore(Operation *root, Reasons &reasons) const override {
    StringRef mode = onnx::getString(root, "mode", "constant");
    if (mode != "constant" && mode != "reflect" && mode != "edge" && mode != "wrap")
      return reasons.no() << "mode " << mode << " is not known";
    if (onnx::getOptionalOperand(root, 2) && isa<ComplexType>(operandElement(root, 0)))
      return reasons.no() << "constant_value is complex";
    return success(requireStaticCount(root, 1, reasons));
  }
  unsigned extentCount(Operation *root) const override {
    Value axes = onnx::getOptionalOperand(root, 3);
    return axes && !onnx::getConstantInts(axes) ? operandType(root, 0).getRank() : 0;
  }
  LogicalResult emitExtents(tsr::DispatchOp op, KernelEmitter &e) const override {
    RootView v(op, e);
    const TensorRef *in = v.in(0);
    if (!in)
      return failure();
    SmallVector<Value> before = padsOf(v, in->rank(), false), after = padsOf(v, in->rank(), true);
    for (unsigned k = 0; k < in->rank(); ++k)
      e.storeElement(e.outputs[0], e.idx(k), e.maxS(e.add(in->dims[k], e.add(before[k], after[k])), e.idx(0)));
    return success();
  }

  LogicalResult emit(tsr::DispatchOp op, KernelEmitter &e) const override {
    RootView v(op, e);
    const TensorRef *in = v.in(0), *out = v.out(0);
    if (!in || !out)
      return failure();
    unsigned rank = in->rank();
    SmallVector<Value> before = padsOf(v, rank, false);
    // Per axis: [lo, hi) of the result comes from in[lo - before ..].
    SmallVector<Value> lo, len, from;
    for (unsigned k = 0; k < rank; ++k) {
      lo.push_back(e.minS(e.maxS(before[k], e.idx(0)), out->dims[k]));
      from.push_back(e.maxS(e.sub(e.idx(0), before[k]), e.idx(0)));
      Value end = e.minS(e.add(before[k], in->dims[k]), out->dims[k]);
      len.push_back(e.maxS(e.sub(end, lo[k]), e.idx(0)));
    }
    StringRef mode = onnx::getString(v.root, "mode", "constant");
    if (mode == "constant")
      emitConstant(v, *in, *out, lo, len, from);
    else
      emitMapped(e, *in, *out, lo, len, from, mode);
    return success();
  }

private:
  static SmallVector<Value> padsOf(RootView &v, unsigned rank, bool after) {
    KernelEmitter &e = v.e;
    unsigned n = *v.count(1) / 2;
    SmallVector<Value> pads = v.ints(1, 2 * n), axes, result;
    if (v.has(3))
      axes = v.ints(3, n);
    else
      for (unsigned i = 0; i < n; ++i)
        axes.push_back(e.idx(i));
    for (unsigned k = 0; k < rank; ++k) {
      Value p = e.idx(0);
      for (unsigned i = 0; i < n; ++i) {
        Value axis = e.select(e.lt(axes[i], e.idx(0)), e.add(axes[i], rank), axes[i]);
        p = e.select(e.eq(axis, e.idx(k)), pads[after ? n + i : i], p);
      }
      result.push_back(p);
    }
    return result;
  }

  static void emitConstant(RootView &v, const TensorRef &in, const TensorRef &out,
                           ArrayRef<Value> lo, ArrayRef<Value> len, ArrayRef<Value> from) {
    KernelEmitter &e = v.e;
    Value value = v.has(2) ? v.scalar(2) : Value();
    unsigned rank = in.rank();
    SmallVector<CopyAxis> box;
    Value dst = e.idx(0), src = e.idx(0);
    for (unsigned k = 0; k < rank; ++k) {
      box.push_back({len[k], out.strides[k], in.strides[k]});
      dst = e.add(dst, e.mul(lo[k], out.strides[k]));
      src = e.add(src, e.mul(from[k], in.strides[k]));
    }
    // Two slabs an axis: full along later axes, the copied range along earlier ones.
    Value base = e.idx(0);
    for (unsigned k = 0; k < rank; ++k) {
      SmallVector<CopyAxis> slab;
      for (unsigned j = 0; j < rank; ++j)
        slab.push_back({j < k ? len[j] : out.dims[j], out.strides[j], e.idx(0)});
      slab[k].dim = lo[k];
      fillBox(e, out, base, slab, value);
      Value end = e.add(lo[k], len[k]);
      slab[k].dim = e.sub(out.dims[k], end);
      fillBox(e, out, e.add(base, e.mul(end, out.strides[k])), slab, value);
      base = e.add(base, e.mul(lo[k], out.strides[k]));
    }
    copyBox(e, out, dst, in, src, box);
  }

  // Index into the cropped axis of `n` for position `i` (may be negative).
  static Value mapIndex(KernelEmitter &e, Value i, Value n, StringRef mode) {
    if (mode == "edge")
      return e.maxS(e.minS(i, e.sub(n, 1)), e.idx(0));
    Value period = mode == "wrap" ? e.maxS(n, e.idx(1)) : e.maxS(e.mul(e.sub(n, 1), 2), e.idx(1));
    // Positions are > -2^62: shift into the non-negative range by whole periods.
    Value negative = e.lt(i, e.idx(0));
    Value magnitude = e.select(negative, e.sub(e.idx(-1), i), i);
    Value r = e.remU(magnitude, period);
    Value m = e.select(negative, e.sub(e.sub(period, 1), r), r);
    if (mode == "wrap")
      return m;
    return e.select(e.lt(m, n), m, e.sub(period, m));
  }

  static void emitMapped(KernelEmitter &e, const TensorRef &in, const TensorRef &out,
                         ArrayRef<Value> lo, ArrayRef<Value> len, ArrayRef<Value> from,
                         StringRef mode) {
    unsigned rank = in.rank();
    Value empty = e.intConst(e.i1(), 0), any = e.intConst(e.i1(), 1);
    for (unsigned k = 0; k < rank; ++k) {
      empty = e.logicalOr(empty, e.eq(len[k], e.idx(0)));
      any = e.logicalAnd(any, e.lt(e.idx(0), out.dims[k]));
    }
    e.failIf(e.logicalAnd(empty, any), TSR_KERNEL_BAD_VALUE); // nothing to repeat
    // The axis that is contiguous in the result is walked innermost.
    SmallVector<unsigned> order;
    for (unsigned k = 0; k < rank; ++k)
      if (KernelEmitter::constantOf(out.strides[k]) != 1)
        order.push_back(k);
    for (unsigned k = 0; k < rank; ++k)
      if (KernelEmitter::constantOf(out.strides[k]) == 1)
        order.push_back(k);
    std::function<void(unsigned, Value, Value)> nest = [&](unsigned depth, Value dst, Value src) {
      if (depth == rank)
        return moveElement(e, out, dst, in, src);
      unsigned k = order[depth];
      auto each = [&](Value o) {
        Value i = e.add(from[k], mapIndex(e, e.sub(o, lo[k]), len[k], mode));
        nest(depth + 1, e.add(dst, e.mul(o, out.strides[k])), e.add(src, e.mul(i, in.strides[k])));
      };
      if (depth + 1 < rank)
        return e.forLoop(out.dims[k], each);
      e.forLoop(lo[k], each);
      Value end = e.add(lo[k], len[k]);
      copyBox(e, out, e.add(dst, e.mul(lo[k], out.strides[k])), in,
              e.add(src, e.mul(from[k], in.strides[k])),
              {{len[k], out.strides[k], in.strides[k]}});
      e.forLoop(end, out.dims[k], e.idx(1), each);
    };
    e.ifThen(e.logicalNot(empty), [&] { nest(0, e.idx(0), e.idx(0)); });
  }
};
TESSERA_KERNEL(PadKernel, "onnx.Pad");

/// Reverses the first sequence_lens[b] steps of batch b.
class ReverseSequenceKernel : public MovementKernel {
public:
  LogicalResult emit(tsr::DispatchOp op, KernelEmitter &e) const override {
    RootView v(op, e);
    const TensorRef *in = v.in(0), *lens = v.in(1), *out = v.out(0);
    if (!in || !lens || !out)
      return failure();
    unsigned rank = in->rank();
    int64_t time = axisAttr(v.root, "time_axis", 0, rank), batch = axisAttr(v.root, "batch_axis", 1, rank);
    SmallVector<CopyAxis> rest;
    for (unsigned k = 0; k < rank; ++k)
      if (k != time && k != batch)
        rest.push_back({in->dims[k], out->strides[k], in->strides[k]});
    Value steps = in->dims[time];
    e.forLoop(e.minS(in->dims[batch], lens->dims[0]), [&](Value b) {
      Value len = toIndex(e, e.load(*lens, {b}));
      Value bad = e.logicalOr(e.lt(len, e.idx(0)), e.lt(steps, len));
      e.failIf(bad, TSR_KERNEL_BAD_VALUE);
      len = e.select(bad, e.idx(0), len);
      e.forLoop(steps, [&](Value t) {
        Value from = e.select(e.lt(t, len), e.sub(e.sub(len, 1), t), t);
        Value dst = e.add(e.mul(b, out->strides[batch]), e.mul(t, out->strides[time]));
        Value src = e.add(e.mul(b, in->strides[batch]), e.mul(from, in->strides[time]));
        copyBox(e, *out, dst, *in, src, rest);
      });
    });
    return success();
  }
};
TESSERA_KERNEL(ReverseSequenceKernel, "onnx.ReverseSequence");

} // namespace
} // namespace tessera::cpu

// ConvTranspose in one to three dimensions, in gather form: an output pixel
// sums over the taps k of each axis for which
//
//     o + padBegin - k * dilation = i * stride    with 0 <= i < input size
//
// so outputs are written once and the epilogue can be fused. Outputs whose
// position differs by a multiple of the stride use the same taps: one such
// phase at a time, the pixels of a row of a phase are the rows of a register
// tile, output channels its columns (RegisterTile.h).
//
// Weights [C, OC/group, k...] are packed as [group][ceil(OC/16)][taps][C][16].
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "targets/Cpu/Kernels/Window.h"

using namespace mlir;

namespace tessera::cpu {
namespace {

RankedTensorType tensorType(Operation *root, unsigned position) {
  Value v = onnx::getOptionalOperand(root, position);
  return v ? dyn_cast<RankedTensorType>(v.getType()) : RankedTensorType{};
}

struct Filters {
  int64_t groups, in, out, taps; ///< channels per group
  int64_t steps() const { return taps * in; }
  int64_t panels() const { return (out + kPanel - 1) / kPanel; }
};

LogicalResult analyse(Operation *root, Window &w, Filters &f, Reasons &reasons) {
  auto x = tensorType(root, 0), weight = tensorType(root, 1);
  if (!x || !weight)
    return reasons.no() << "operands of unknown rank";
  if (x.getRank() != weight.getRank() || x.getRank() < 3)
    return reasons.no() << "input of rank " << x.getRank() << " with a weight of rank " << weight.getRank();
  if (failed(readWindow(root, weight.getShape().drop_front(2), w, reasons)))
    return failure();
  f.groups = onnx::getInt(root, "group", 1);
  f.in = weight.getDimSize(0);
  f.out = weight.getDimSize(1);
  if (f.in < 0 || f.out < 0)
    return reasons.no() << "channel counts are not known at compile time";
  if (f.groups < 1 || f.in % f.groups)
    return reasons.no() << "group " << f.groups << " of " << f.in << " input channels";
  if (x.getDimSize(1) > 0 && x.getDimSize(1) != f.in)
    return reasons.no() << "weight for " << f.in << " input channels, there are " << x.getDimSize(1);
  f.in /= f.groups;
  f.taps = 1;
  for (int64_t k : w.kernel)
    f.taps *= k;
  return success();
}

class ConvTranspose : public KernelBuilder {
public:
  tsr::KernelClass kernelClass(Operation *) const override { return tsr::KernelClass::Convolution; }
  LogicalResult match(Operation *root, Reasons &reasons) const override;
  bool fusesEpilogue(Operation *) const override { return true; }
  tsr::Layout preferredLayout(Operation *) const override { return tsr::Layout::ChannelsLast; }
  bool acceptsChannelsLast(Operation *) const override { return true; }
  bool packs(tsr::DispatchOp op, unsigned operand, Arch) const override {
    return dispatchOperand(op, 1) == static_cast<int>(operand) && dispatchConstant(op, operand) &&
           llvm::hasSingleElement(op.getBodyBlock()->getArgument(operand).getUses());
  }
  std::optional<Packed> pack(tsr::DispatchOp op, unsigned operand, ElementsAttr value, Arch arch) const override;
  onnx::Sym scratchBytes(tsr::DispatchOp op, const DispatchSizes &sizes) const override;
  onnx::Sym workgroups(tsr::DispatchOp op, const DispatchSizes &sizes) const override;
  LogicalResult emit(tsr::DispatchOp op, KernelEmitter &e) const override;
  bool flushesDenormals(Operation *) const override { return true; }
};

LogicalResult ConvTranspose::match(Operation *root, Reasons &reasons) const {
  Window w;
  Filters f;
  if (failed(analyse(root, w, f, reasons)))
    return failure();
  Type x = tensorType(root, 0).getElementType(), weight = tensorType(root, 1).getElementType();
  if (!x.isF32() && !x.isF64() && !x.isF16() && !x.isBF16())
    (void)(reasons.no() << "element type " << onnx::getTypeName(x) << " of ConvTranspose");
  if (weight != x)
    (void)(reasons.no() << "element types differ: " << onnx::getTypeName(x) << " and " << onnx::getTypeName(weight));
  SmallVector<int64_t> extra = onnx::getInts(root, "output_padding"), shape = onnx::getInts(root, "output_shape");
  if (!extra.empty() && extra.size() != w.axes())
    (void)(reasons.no() << "output_padding of " << extra.size() << " numbers for " << w.axes() << " spatial axes");
  if (!shape.empty() && shape.size() != w.axes() && shape.size() != w.axes() + 2)
    (void)(reasons.no() << "output_shape of " << shape.size() << " numbers for " << w.axes() << " spatial axes");
  return success(reasons.empty());
}

std::optional<Packed> ConvTranspose::pack(tsr::DispatchOp op, unsigned operand, ElementsAttr value, Arch arch) const {
  Window w;
  Filters f;
  Reasons reasons;
  if (!packs(op, operand, arch) || failed(analyse(op.getRootOp(), w, f, reasons)))
    return std::nullopt;
  return packPanels(value, f.groups, f.steps(), f.out, [&](int64_t g, int64_t k, int64_t n) {
    return ((g * f.in + k % f.in) * f.out + n) * f.taps + k / f.in;
  });
}

onnx::Sym ConvTranspose::scratchBytes(tsr::DispatchOp op, const DispatchSizes &sizes) const {
  int operand = dispatchOperand(op, 1);
  Window w;
  Filters f;
  Reasons reasons;
  if (operand < 0 || packs(op, operand, Arch::X86_64) || failed(analyse(op.getRootOp(), w, f, reasons)))
    return nullptr;
  Type element = panelElement(tensorType(op.getRootOp(), 1).getElementType());
  int64_t bytes = KernelEmitter::storageBits(element) / 8;
  return sizes.ctx.constant(std::max<int64_t>(64, f.groups * f.panels() * f.steps() * kPanel * bytes));
}

onnx::Sym ConvTranspose::workgroups(tsr::DispatchOp op, const DispatchSizes &sizes) const {
  if (dispatchOperand(op, 1) < 0 || !packs(op, dispatchOperand(op, 1), Arch::X86_64))
    return nullptr;
  onnx::SymContext &ctx = sizes.ctx;
  auto &r = sizes.results[0];
  return ctx.max(ctx.constant(1), ctx.min(ctx.constant(16), ctx.ceilDiv(ctx.product(r), ctx.constant(1 << 16))));
}

/// padBegin per axis from pads, auto_pad and output_shape.
SmallVector<Value> paddings(KernelEmitter &e, Operation *root, const Window &w, const TensorRef &x, const TensorRef &y) {
  SmallVector<int64_t> extra = onnx::getInts(root, "output_padding"), shape = onnx::getInts(root, "output_shape");
  SmallVector<Value> pads;
  bool same = w.autoPad.starts_with("SAME");
  for (unsigned a = 0; a < w.axes(); ++a) {
    if (!same && shape.empty()) {
      pads.push_back(e.idx(w.padBegin[a]));
      continue;
    }
    // total = stride * (in - 1) + output_padding + reach - out
    Value total = e.add(e.mul(e.sub(x.dims[a + 2], 1), w.strides[a]), (extra.empty() ? 0 : extra[a]) + w.reach(a));
    total = e.maxS(e.sub(total, y.dims[a + 2]), e.idx(0));
    Value half = e.divU(total, e.idx(2));
    // The odd one goes to the end under SAME_UPPER, to the start otherwise.
    pads.push_back(w.autoPad == "SAME_UPPER" ? half : e.sub(total, half));
  }
  return pads;
}

LogicalResult ConvTranspose::emit(tsr::DispatchOp op, KernelEmitter &e) const {
  Operation *root = op.getRootOp();
  Window w;
  Filters f;
  Reasons reasons;
  if (failed(analyse(root, w, f, reasons)))
    return root->emitError("convolution cannot be computed: ") << reasons.all.front();
  Fusion fusion(op, e);
  const TensorRef *x = fusion.plainOperand(0), *weight = fusion.plainOperand(1), *bias = nullptr;
  if (!x || !weight || (onnx::getOptionalOperand(root, 2) && !(bias = fusion.plainOperand(2))))
    return root->emitError("operand is not an operand of the kernel");
  const TensorRef &y = e.outputs[0];
  unsigned axes = w.axes(), last = axes - 1;
  Type acc = accumulatorOf(x->element), panelType = panelElement(weight->element);
  Value panels = weight->ptr;
  if (!packs(op, dispatchOperand(op, 1), e.isa.arch)) {
    if (!e.scratch)
      return root->emitError("kernel has no scratch memory for its panels");
    panels = e.scratch;
    e.forLoop(e.idx(f.groups), [&](Value g) {
      Value base = e.gep(panels, panelType, e.mul(g, f.panels() * f.steps() * kPanel));
      emitPackPanels(e, *weight, base, e.idx(f.steps()), e.idx(f.out), [&](Value k, Value n) {
        SmallVector<Value> dims, index{e.add(e.mul(g, f.in), e.remU(k, e.idx(f.in))), n};
        for (int64_t extent : w.kernel)
          dims.push_back(e.idx(extent));
        index.append(unflatten(e, e.divU(k, e.idx(f.in)), dims));
        return e.offsetOf(*weight, index);
      });
    });
  }
  SmallVector<Value> pads = paddings(e, root, w, *x, y);

  // What is read where no input pixel lies under a tap.
  unsigned bytes = KernelEmitter::storageBits(x->element) / 8;
  bool dense = KernelEmitter::constantOf(x->strides[1]) == 1;
  Value padding = e.allocaBytes(static_cast<uint64_t>(dense ? f.in : 1) * bytes);
  TensorRef zeros{padding, x->element, {}, {}};
  e.forLoop(e.idx(dense ? f.in : 1), [&](Value c) {
    e.storeElement(zeros, c, zeroOf(e, KernelEmitter::valueType(x->element)));
  });

  /// Input index under tap `k` of output `o`, and whether there is one.
  auto under = [&](unsigned a, Value o, Value k) -> std::pair<Value, Value> {
    Value t = e.sub(e.add(o, pads[a]), e.mul(k, w.dilations[a]));
    Value positive = e.cmp(arith::CmpIPredicate::sge, t, e.idx(0));
    Value safe = e.maxS(t, e.idx(0));
    Value i = e.divU(safe, e.idx(w.strides[a]));
    Value valid = e.logicalAnd(positive, e.lt(i, x->dims[a + 2]));
    if (w.strides[a] > 1)
      valid = e.logicalAnd(valid, e.eq(e.remU(safe, e.idx(w.strides[a])), e.idx(0)));
    return {i, valid};
  };

  // Rows of outputs (all axes but the last) are shared among workgroups.
  SmallVector<Value> rowDims{y.dims[0]};
  for (unsigned a = 0; a < last; ++a)
    rowDims.push_back(y.dims[a + 2]);
  auto [begin, end] = workgroupShare(e, e.product(rowDims));
  bool failed = false;
  int64_t stride = w.strides[last];
  e.forLoop(begin, end, e.idx(1), [&](Value row) {
    SmallVector<Value> index = unflatten(e, row, rowDims);
    e.forLoop(e.idx(f.groups), [&](Value g) {
      Value firstChannel = e.mul(g, f.out);
      Value weights = e.gep(panels, panelType, e.mul(g, f.panels() * f.steps() * kPanel));
      Value inBase = e.gep(x->ptr, x->element,
                           e.add(e.mul(index[0], x->strides[0]), e.mul(e.mul(g, f.in), x->strides[1])));
      // Phase: outputs o = phase + stride * r along the last axis.
      e.forLoop(e.minS(e.idx(stride), y.dims[last + 2]), [&](Value phase) {
        Value count = e.ceilDivU(e.sub(y.dims[last + 2], phase), e.idx(stride));
        TileSpace space{count, e.idx(f.out), acc, columnLanes(e.isa, acc)};
        forTiles(e, space, [&](const Tile &tile) {
          SmallVector<Value> outputs;
          for (unsigned i = 0; i < tile.rows; ++i) {
            Value r = e.add(tile.row, i);
            if (tile.rowLimit && i)
              r = e.minS(r, e.sub(count, 1));
            outputs.push_back(e.add(phase, e.mul(r, stride)));
          }
          SmallVector<Value> sums;
          for (unsigned j = 0; j < tile.vectors; ++j)
            sums.push_back(bias ? e.loadLanes(*bias, e.add(firstChannel, tile.columnOf(e, j)),
                                              tile.lanes, tile.mask[j])
                                : zeroOf(e, KernelEmitter::withLanes(acc, tile.lanes)));
          for (unsigned i = 1; i < tile.rows; ++i)
            for (unsigned j = 0; j < tile.vectors; ++j)
          sums.push_back(Value(sums[j])); // a copy: the vector may move
          TileColumns columns = panelColumns(e, tile, weights, panelType, e.idx(f.steps()));

          // Loops over taps; axes but the last skip a tap without input.
          std::function<SmallVector<Value>(unsigned, SmallVector<Value>, Value, Value)> nest =
              [&](unsigned a, SmallVector<Value> s, Value offset, Value tap) -> SmallVector<Value> {
            SmallVector<Type> types(s.size(), s[0].getType());
            return e.forLoop(e.idx(0), e.idx(w.kernel[a]), e.idx(1), s, [&](Value k, ValueRange carried) {
              Value number = e.add(e.mul(tap, w.kernel[a]), k);
              SmallVector<Value> now(carried);
              if (a < last) {
                auto [i, valid] = under(a, index[a + 1], k);
                Value next = e.add(offset, e.mul(i, x->strides[a + 2]));
                return e.ifElse(valid, types, [&] { return nest(a + 1, now, next, number); }, [&] { return now; });
              }
              // A tap meets either all outputs of the phase (borders apart) or none.
              Value t = e.sub(e.add(phase, pads[a]), e.mul(k, w.dilations[a]));
              Value meets = e.eq(e.remU(e.add(t, stride * (w.reach(a) + 1)), e.idx(stride)), e.idx(0));
              return e.ifElse(
                  meets, types,
                  [&] {
                    TileColumns moved = columns;
                    for (Value &ptr : moved.ptr)
                      ptr = e.gep(ptr, panelType, e.mul(number, f.in * kPanel));
                    SmallVector<Value> ptrs, valids;
                    for (Value o : outputs) {
                      auto [i, valid] = under(a, o, k);
                      ptrs.push_back(e.gep(inBase, x->element, e.add(offset, e.mul(i, x->strides[a + 2]))));
                      valids.push_back(valid);
                    }
                    if (dense) {
                      TileRows rows{{}, x->element, e.idx(1), {}};
                      for (auto [ptr, valid] : llvm::zip(ptrs, valids))
                        rows.ptr.push_back(e.select(valid, ptr, padding));
                      return accumulate(e, now, rows, moved, e.idx(f.in));
                    }
                    return e.forLoop(e.idx(0), e.idx(f.in), e.idx(1), now, [&](Value c, ValueRange inner) {
                      TileRows rows{{}, x->element, e.idx(0), {}};
                      for (auto [ptr, valid] : llvm::zip(ptrs, valids))
                        rows.ptr.push_back(
                            e.select(valid, e.gep(ptr, x->element, e.mul(c, x->strides[1])), padding));
                      TileColumns at = moved;
                      for (Value &ptr : at.ptr)
                        ptr = e.gep(ptr, panelType, e.mul(c, kPanel));
                      return accumulate(e, inner, rows, at, e.idx(1));
                    });
                  },
                  [&] { return now; });
            });
          };
          sums = nest(0, sums, e.idx(0), e.idx(0));
          failed |= mlir::failed(storeTile(
              e, op, fusion, tile, sums,
              [&](Value r, Value column) {
                Point q;
                q.index = {index[0], e.add(firstChannel, column)};
                q.index.append(index.begin() + 1, index.end());
                q.index.push_back(e.add(phase, e.mul(r, stride)));
                q.dims = y.dims;
                q.laneAxis = 1;
                return q;
              },
              [&](Value v, const Point &) -> FailureOr<Value> { return e.round(v, x->element); }));
        });
      });
    });
  });
  return failure(failed);
}

TESSERA_KERNEL(ConvTranspose, "onnx.ConvTranspose");

} // namespace
} // namespace tessera::cpu

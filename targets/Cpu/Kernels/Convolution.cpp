// Convolution: Conv and ConvInteger in one to three dimensions. What can be
// computed, how weights are packed, what memory and how many workgroups it takes;
// ConvolutionNest.cpp is the code.
//
// Weights are packed as [group][ceil(OC/16)][taps][C][16]; see RegisterTile.h.
#include "targets/Cpu/Kernels/Convolution.h"
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "targets/Cpu/Kernels/IntegerPairs.h"

using namespace mlir;

namespace tessera::cpu {
namespace convolution {

bool isInteger(Operation *root) { return root->getName().getStringRef() == "onnx.ConvInteger"; }

RankedTensorType tensorType(Operation *root, unsigned position) {
  Value v = onnx::getOptionalOperand(root, position);
  return v ? dyn_cast<RankedTensorType>(v.getType()) : RankedTensorType{};
}

LogicalResult analyse(Operation *root, Window &w, Filters &f, Reasons &reasons) {
  auto x = tensorType(root, 0), weight = tensorType(root, 1);
  if (!x || !weight)
    return reasons.no() << "operands of unknown rank";
  if (x.getRank() != weight.getRank() || x.getRank() < 3)
    return reasons.no() << "input of rank " << x.getRank() << " with a weight of rank " << weight.getRank();
  if (failed(readWindow(root, weight.getShape().drop_front(2), w, reasons)))
    return failure();
  f.groups = onnx::getInt(root, "group", 1);
  f.in = weight.getDimSize(1);
  f.out = weight.getDimSize(0);
  if (ShapedType::isDynamic(f.in) && x.getDimSize(1) > 0 && f.groups > 0)
    f.in = x.getDimSize(1) / f.groups;
  if (f.in < 0 || f.out < 0)
    return reasons.no() << "channel counts are not known at compile time";
  if (f.groups < 1 || f.out % f.groups)
    return reasons.no() << "group " << f.groups << " of " << f.out << " output channels";
  f.out /= f.groups;
  if (x.getDimSize(1) > 0 && x.getDimSize(1) != f.in * f.groups)
    return reasons.no() << "weight for " << f.in * f.groups << " input channels, there are " << x.getDimSize(1);
  f.taps = 1;
  for (int64_t k : w.kernel)
    f.taps *= k;
  if (f.in > 1 << 16)
    return reasons.no() << f.in << " input channels";
  return success();
}

bool usesPairs(tsr::DispatchOp op) {
  Operation *root = op.getRootOp();
  int weight = dispatchOperand(op, 1);
  if (!isInteger(root) || weight < 0 || !dispatchConstant(op, weight) ||
      !llvm::hasSingleElement(op.getBodyBlock()->getArgument(weight).getUses()))
    return false;
  if (!onnx::getOptionalOperand(root, 3))
    return true;
  int zero = dispatchOperand(op, 3);
  return zero >= 0 && dispatchConstant(op, zero);
}

bool isDepthwiseInteger(tsr::DispatchOp op, const Filters &f) { return f.depthwise() && usesPairs(op); }

bool sharesColumns(tsr::DispatchOp op, const Filters &f) {
  int64_t pixels = 1;
  for (int64_t d : op.getDimsOf(op.getInputs().size()).drop_front(2))
    pixels = d < 0 || pixels < 0 ? -1 : pixels * d;
  return usesPairs(op) && f.groups == 1 && f.out >= 128 && pixels >= 0 && pixels <= 64;
}

bool copiesPadded(tsr::DispatchOp op, const Filters &f, Arch arch) {
  Operation *root = op.getRootOp();
  auto x = tensorType(root, 0), y = dyn_cast<RankedTensorType>(root->getResult(0).getType());
  int weight = dispatchOperand(op, 1);
  if (arch != Arch::X86_64 || isInteger(root) || !x.getElementType().isF32() || !x.hasStaticShape() || !y ||
      !y.hasStaticShape() || weight < 0 ||
      !dispatchConstant(op, weight) || !llvm::hasSingleElement(op.getBodyBlock()->getArgument(weight).getUses()) ||
      f.groups != 1 || f.in > 4 || f.taps < 4)
    return false;
  return y.getNumElements() * f.steps() < (2 << 20);
}

bool isOuterProduct(tsr::DispatchOp op) {
  Operation *root = op.getRootOp();
  Window w;
  Filters f;
  Reasons reasons;
  int x = dispatchOperand(op, 0), weight = dispatchOperand(op, 1);
  if (isInteger(root) || x < 0 || weight < 0 || failed(analyse(root, w, f, reasons)) || f.depthwise() || f.out < 8)
    return false;
  auto channelsLast = [&](unsigned tensor) {
    return tensorType(root, 0).getElementType().isF32() && op.getLayoutOf(tensor) == tsr::Layout::ChannelsLast;
  };
  if (!dispatchConstant(op, weight) || !llvm::hasSingleElement(op.getBodyBlock()->getArgument(weight).getUses()) ||
      !channelsLast(x) || !channelsLast(op.getInputs().size()))
    return false;
  int64_t pixels = 1;
  for (int64_t d : op.getDimsOf(op.getInputs().size()).drop_front(2))
    pixels *= d < 0 ? 4 : d;
  return pixels >= 4 && epilogueStreams(op, 1, {});
}

} // namespace convolution

using namespace convolution;

namespace {

class Convolution : public KernelBuilder {
public:
  tsr::KernelClass kernelClass(Operation *root) const override {
    Window w;
    Filters f;
    Reasons reasons;
    return succeeded(analyse(root, w, f, reasons)) && f.depthwise()
               ? tsr::KernelClass::Depthwise
               : tsr::KernelClass::Convolution;
  }
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
  bool flushesDenormals(Operation *root) const override { return !isInteger(root); }
  bool streams(tsr::DispatchOp op, const Isa &isa) const override;
};

bool Convolution::streams(tsr::DispatchOp op, const Isa &) const { return isOuterProduct(op); }

LogicalResult Convolution::match(Operation *root, Reasons &reasons) const {
  Window w;
  Filters f;
  if (failed(analyse(root, w, f, reasons)))
    return failure();
  Type x = tensorType(root, 0).getElementType(), weight = tensorType(root, 1).getElementType();
  if (isInteger(root)) {
    for (Type t : {x, weight})
      if (!t.isInteger(8))
        (void)(reasons.no() << "element type " << onnx::getTypeName(t) << " of ConvInteger");
    if (auto zero = tensorType(root, 2); zero && zero.getRank() > 0 && zero.getNumElements() != 1)
      (void)(reasons.no() << "zero point of the input with " << zero.getNumElements() << " elements");
    if (auto zero = tensorType(root, 3); zero && zero.getRank() > 1)
      (void)(reasons.no() << "zero point of the weight of rank " << zero.getRank());
  } else {
    if (!x.isF32() && !x.isF64() && !x.isF16() && !x.isBF16())
      (void)(reasons.no() << "element type " << onnx::getTypeName(x) << " of Conv");
    if (weight != x)
      (void)(reasons.no() << "element types differ: " << onnx::getTypeName(x) << " and " << onnx::getTypeName(weight));
  }
  return success(reasons.empty());
}

std::optional<Packed> Convolution::pack(tsr::DispatchOp op, unsigned operand, ElementsAttr value, Arch arch) const {
  if (!packs(op, operand, arch))
    return std::nullopt;
  Window w;
  Filters f;
  Reasons reasons;
  if (failed(analyse(op.getRootOp(), w, f, reasons)))
    return std::nullopt;
  if (usesPairs(op)) {
    SmallVector<int64_t> zeros;
    if (int zero = dispatchOperand(op, 3); zero >= 0)
      zeros = onnx::getInts(dispatchConstant(op, zero)).value();
    if (f.depthwise())
      return packPairs(
          value, 1, f.taps, f.groups, [&](int64_t, int64_t k, int64_t half, int64_t c) { return half ? -1 : c * f.taps + k; },
          [&](int64_t, int64_t c) { return zeros.empty() ? 0 : zeros.size() == 1 ? zeros[0] : zeros[c]; });
    int64_t words = (f.in + 1) / 2;
    return packPairs(
        value, f.groups, f.taps * words, f.out,
        [&](int64_t g, int64_t k, int64_t half, int64_t n) {
          int64_t c = k % words * 2 + half;
          return c < f.in ? ((g * f.out + n) * f.in + c) * f.taps + k / words : -1;
        },
        [&](int64_t g, int64_t n) {
          return zeros.empty() ? 0 : zeros.size() == 1 ? zeros[0] : zeros[g * f.out + n];
        });
  }
  if (f.depthwise() && !isInteger(op.getRootOp()))
    return packPanels(value, 1, f.taps, f.groups, [&](int64_t, int64_t k, int64_t c) { return c * f.taps + k; });
  return packPanels(value, f.groups, f.steps(), f.out, [&](int64_t g, int64_t k, int64_t n) {
    return ((g * f.out + n) * f.in + k % f.in) * f.taps + k / f.in;
  });
}

onnx::Sym Convolution::scratchBytes(tsr::DispatchOp op, const DispatchSizes &sizes) const {
  int operand = dispatchOperand(op, 1);
  Window w;
  Filters f;
  Reasons reasons;
  if (operand < 0 || failed(analyse(op.getRootOp(), w, f, reasons)))
    return nullptr;
  if (isDepthwiseInteger(op, f))
    return nullptr;
  if (bool pairs = usesPairs(op); pairs || copiesPadded(op, f, sizes.arch)) {
    onnx::SymContext &c = sizes.ctx;
    SmallVector<onnx::Sym> covered = coveredSizes<onnx::Sym>(
        w, ArrayRef<onnx::Sym>(sizes.results[0]).drop_front(2),
        [&](onnx::Sym a, int64_t v) { return c.add(a, c.constant(v)); },
        [&](onnx::Sym a, int64_t v) { return c.mul(a, c.constant(v)); });
    onnx::Sym parts = pairs ? workgroups(op, sizes) : nullptr;
    bool copies = parts && sharesColumns(op, f);
    if (parts && !copies) // each copies the rows that it shares with the next
      covered[0] = c.add(covered[0], c.mul(parts, c.constant(std::max<int64_t>(0, w.reach(0) - w.strides[0]))));
    onnx::Sym bytes = c.mul(c.product(covered), c.constant(f.groups * (pairs ? (f.in + 1) / 2 : f.in) * 4));
    return c.max(c.constant(64), copies ? c.mul(bytes, parts) : bytes);
  }
  if (sizes.arch == Arch::AArch64 && isOuterProduct(op)) {
    onnx::Sym bytes = windowRowsBytes(sizes.ctx, f.taps, f.in), parts = workgroups(op, sizes);
    return parts ? sizes.ctx.mul(bytes, parts) : bytes;
  }
  if (packs(op, operand, Arch::X86_64))
    return nullptr;
  Type element = panelElement(tensorType(op.getRootOp(), 1).getElementType());
  int64_t bytes = KernelEmitter::storageBits(element) / 8;
  bool depthwise = f.depthwise() && !isInteger(op.getRootOp());
  int64_t panels = depthwise ? (f.groups + kPanel - 1) / kPanel : f.groups * f.panels();
  return sizes.ctx.constant(std::max<int64_t>(64, panels * f.steps() * kPanel * bytes));
}

onnx::Sym Convolution::workgroups(tsr::DispatchOp op, const DispatchSizes &sizes) const {
  Window w;
  Filters f;
  Reasons reasons;
  int weight = dispatchOperand(op, 1);
  if (weight < 0 || !packs(op, weight, Arch::X86_64) || failed(analyse(op.getRootOp(), w, f, reasons)) ||
      copiesPadded(op, f, sizes.arch))
    return nullptr;
  onnx::SymContext &ctx = sizes.ctx;
  onnx::Sym pixels = ctx.product(ArrayRef<onnx::Sym>(sizes.results[0]).drop_front(2));
  onnx::Sym work = ctx.product({sizes.results[0][0], pixels, ctx.constant(f.groups * f.out * f.steps())});
  onnx::Sym units = ctx.min(ctx.constant(16), ctx.ceilDiv(work, ctx.constant(1 << 20)));
  if (sizes.arch == Arch::AArch64 && isOuterProduct(op)) // each has scratch memory of its own
    units = ctx.min(units, ctx.constant(4));
  if (usesPairs(op) && !f.depthwise()) // rows of the image are shared out
    units = ctx.min(units, sharesColumns(op, f) ? ctx.constant(f.out / 64) : sizes.results[0][2]);
  if (f.depthwise()) {
    auto &r = sizes.results[0];
    units = ctx.min(units, ctx.product(ArrayRef<onnx::Sym>(r).drop_back(1)));
  }
  return ctx.max(ctx.constant(1), units);
}

LogicalResult Convolution::emit(tsr::DispatchOp op, KernelEmitter &e) const {
  Window w;
  Filters f;
  Reasons reasons;
  if (failed(analyse(op.getRootOp(), w, f, reasons)))
    return op.getRootOp()->emitError("convolution cannot be computed: ") << reasons.all.front();
  return emitNest(op, e, w, f);
}

TESSERA_KERNEL(Convolution, "onnx.Conv", "onnx.ConvInteger");

} // namespace
} // namespace tessera::cpu

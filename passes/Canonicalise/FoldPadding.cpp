// Pad into the operator that pads anyway, see Passes.td.
//
//   BEFORE  %p = Pad(%x, [0,0,1,1, 0,0,1,1]); Conv(%p, %w) {pads = [0,0,0,0]}
//   AFTER   Conv(%x, %w) {pads = [1,1,1,1]}
#include "passes/Canonicalise/Passes.h"

#include "passes/Canonicalise/OnnxBuilder.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

#include <cmath>

using namespace mlir;

namespace tessera::onnx {

#define GEN_PASS_DEF_FOLDPADDING
#include "passes/Canonicalise/Passes.h.inc"

namespace {

bool neverNegative(Value v) {
  Operation *op = v.getDefiningOp();
  if (!op)
    return false;
  if (isOp(op, "Relu") || isOp(op, "Sigmoid") || isOp(op, "HardSigmoid") || isOp(op, "Abs") ||
      isOp(op, "Exp") || isOp(op, "Softmax"))
    return true;
  if (isOp(op, "Clip") && operand(op, 1)) {
    auto low = scalarConstant(operand(op, 1));
    return low && *low >= 0;
  }
  return false;
}

LogicalResult foldPad(Operation *op, PatternRewriter &r) {
  Operation *pad = definedBy(op->getOperand(0), "Pad");
  RankedTensorType t = pad ? rankedType(pad->getOperand(0)) : RankedTensorType();
  if (!t || t.getRank() < 3 || getString(pad, "mode", "constant") != "constant")
    return failure();
  StringRef autoPad = getString(op, "auto_pad", "NOTSET");
  if (autoPad != "NOTSET" && autoPad != "VALID" && !autoPad.empty())
    return failure();
  int64_t rank = t.getRank(), spatial = rank - 2;
  auto amounts = getConstantInts(pad->getOperand(1), 64);
  if (!amounts)
    return failure();
  SmallVector<int64_t> axes = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  if (Value v = operand(pad, 3)) {
    auto given = getConstantInts(v, 64);
    if (!given)
      return failure();
    axes = *given;
  }
  if (amounts->size() != 2 * axes.size())
    return failure();
  SmallVector<int64_t> pads = getInts(op, "pads");
  pads.resize(2 * spatial, 0);
  bool padsAlready = llvm::any_of(pads, [](int64_t p) { return p != 0; });
  bool padsAny = false;
  for (size_t i = 0; i < axes.size(); ++i) {
    int64_t a = axes[i] < 0 ? axes[i] + rank : axes[i];
    int64_t before = (*amounts)[i], after = (*amounts)[i + axes.size()];
    if (before < 0 || after < 0 || a < 0 || a >= rank || (a < 2 && (before || after)))
      return failure();
    if (a >= 2) {
      pads[a - 2] += before;
      pads[a - 2 + spatial] += after;
      padsAny |= before || after;
    }
  }
  double value = 0;
  if (Value v = operand(pad, 2)) {
    auto c = scalarConstant(v);
    if (!c)
      return failure();
    value = *c;
  }
  SmallVector<NamedAttribute> attrs;
  OnnxBuilder b(r, op->getLoc());
  if (isOp(op, "Conv")) {
    if (value != 0)
      return failure();
  } else if (isOp(op, "AveragePool")) {
    if (value != 0 || getInt(op, "ceil_mode", 0) ||
        (padsAlready && !getInt(op, "count_include_pad", 0)))
      return failure();
    attrs.push_back(b.i("count_include_pad", 1));
  } else { // MaxPool: no window may lie in the padding alone
    SmallVector<int64_t> kernel = getInts(op, "kernel_shape");
    SmallVector<int64_t> dilations = getInts(op, "dilations");
    if (op->getNumResults() != 1 || getInt(op, "ceil_mode", 0) ||
        !isa<FloatType>(elementType(op->getResult(0))) ||
        !(value == -INFINITY || (value == 0 && neverNegative(pad->getOperand(0)))))
      return failure();
    for (int64_t a = 0; a < spatial; ++a)
      if (pads[a] >= kernel[a] || pads[a + spatial] >= kernel[a] ||
          (!dilations.empty() && dilations[a] != 1))
        return failure();
  }
  if (!padsAny)
    return failure();
  attrs.push_back(b.is("pads", pads));
  r.modifyOpInPlace(op, [&] {
    op->setOperand(0, pad->getOperand(0));
    for (NamedAttribute a : attrs)
      op->setAttr(a.getName(), a.getValue());
    op->setAttr("auto_pad", r.getStringAttr("NOTSET"));
  });
  return success();
}

struct FoldPaddingPass : impl::FoldPaddingBase<FoldPaddingPass> {
  using FoldPaddingBase::FoldPaddingBase;
  void runOnOperation() override {
    RewritePatternSet p(&getContext());
    for (StringRef name : {"Conv", "AveragePool", "MaxPool"})
      addRewrite(p, name, foldPad);
    if (failed(applyPatternsGreedily(getOperation(), std::move(p))))
      signalPassFailure();
  }
};

} // namespace

} // namespace tessera::onnx

// Constants that only the symbolic analysis of shapes sees: the contents of
// small integer tensors (Shape of a partly static value, picked apart and put
// together again), and dimensions that follow from them.
#include "passes/Canonicalise/Passes.h"

#include "dialects/Onnx/IR/OpsCore.h"
#include "dialects/Onnx/Shapes/ShapeAnalysis.h"
#include "passes/Canonicalise/OnnxBuilder.h"

#include "mlir/IR/Diagnostics.h"

using namespace mlir;

namespace tessera::onnx {

#define GEN_PASS_DEF_FOLDSHAPES
#include "passes/Canonicalise/Passes.h.inc"

namespace {

struct FoldShapesPass : impl::FoldShapesBase<FoldShapesPass> {
  using FoldShapesBase::FoldShapesBase;
  void runOnOperation() override {
    // A shape that cannot be known is reported by the phase that needs it.
    ScopedDiagnosticHandler quiet(&getContext(), [](Diagnostic &) { return success(); });
    bool assumed = false; // a branch: its requirement would be lost with the analysis
    auto found = ShapeAnalysis::run(getOperation(), &assumed);
    if (failed(found) || assumed)
      return;
    ShapeAnalysis &shapes = **found;
    IRRewriter rewriter(&getContext());
    SmallVector<std::pair<Value, HostTensor>> known;
    getOperation().walk([&](Operation *op) {
      if (isa<WeightOp>(op))
        return;
      for (Value v : op->getResults()) {
        RankedTensorType t = rankedType(v);
        if (v.use_empty() || !t || !t.hasStaticShape() || !isa<IntegerType>(t.getElementType()))
          continue;
        auto contents = shapes.contents(v);
        if (!contents || (int64_t)contents->size() != t.getNumElements() ||
            !llvm::all_of(*contents, [](Sym s) { return s->isConstant(); }))
          continue;
        HostTensor value(t.getElementType(), t.getShape());
        for (auto [i, s] : llvm::enumerate(*contents))
          value.setInteger(i, *s->constant());
        known.emplace_back(v, std::move(value));
      }
    });
    for (auto &[v, value] : known) {
      rewriter.setInsertionPoint(v.getDefiningOp());
      Value weight = OnnxBuilder(rewriter, v.getLoc()).weight(value);
      rewriter.replaceAllUsesWith(v, weight);
    }
  }
};

} // namespace

} // namespace tessera::onnx

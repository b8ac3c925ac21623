// `tsr-lower`: the lowering as one pass, for tests and cut pipelines.
#include "mlir/Pass/Pass.h"
#include "passes/Codegen/Lowering.h"
#include "passes/Codegen/Passes.h"

using namespace mlir;

namespace tessera {

namespace {
class LowerPass : public PassWrapper<LowerPass, OperationPass<func::FuncOp>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(LowerPass)
  StringRef getArgument() const override { return "tsr-lower"; }
  StringRef getDescription() const override {
    return "forms fusion groups, chooses layouts and binds sizes: onnx operators to tsr.dispatch";
  }
  void getDependentDialects(DialectRegistry &registry) const override { registry.insert<tsr::TsrDialect>(); }
  void runOnOperation() override {
    auto lowering = lowerToDispatches(getOperation());
    if (failed(lowering))
      return signalPassFailure();
    // Operators that are never computed were kept for the analysis only.
    SmallVector<Operation *> dead;
    getOperation().walk([&](Operation *op) {
      if (op != getOperation() && op->use_empty() && isMemoryEffectFree(op) && !op->hasTrait<OpTrait::IsTerminator>())
        dead.push_back(op);
    });
    lowering->reset();
    for (Operation *op : llvm::reverse(dead))
      if (op->use_empty())
        op->erase();
  }
};
} // namespace

void registerCodegenPasses() { PassRegistration<LowerPass>(); }

} // namespace tessera

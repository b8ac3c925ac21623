#include "passes/Canonicalise/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace tessera::onnx {

void buildCanonicalisePipeline(OpPassManager &pm, const CanonicaliseOptions &options) {
  bool strict = options.strict;
  FoldConstantsOptions fold;
  fold.budget = options.foldBudget;
  auto folding = [&] { pm.addPass(createFoldConstants(fold)); };
  pm.addPass(createLowerTrees());
  // Constants of strings must be tensors before anything else looks at them; a
  // ZipMap, whose result is a sequence, is gone.
  pm.addPass(createLowerAggregates());
  folding();
  // Shapes refine types for all that follows.
  pm.addPass(createFoldShapes());
  folding();
  pm.addPass(createRemoveNoOps({strict}));
  pm.addPass(createCSEPass());
  // Composites before the arithmetic is respelled for other purposes (x^2 and
  // constants on the right are known to the matchers either way).
  pm.addPass(createRecogniseComposites({strict}));
  pm.addPass(createDecomposeOperators());
  pm.addPass(createSimplifyArithmetic({strict}));
  pm.addPass(createFoldPadding());
  // Products and sums stand right of Conv only after the no-ops are gone.
  pm.addPass(createFoldScaling({strict}));
  // What no kernel serves, last: composites recognised above included.
  pm.addPass(createExpandFunctions());
  folding();
  pm.addPass(createFoldShapes());
  folding();
  pm.addPass(createDecomposeOperators());
  if (options.signedIntegers)
    pm.addPass(createSignQuantisers());
  pm.addPass(createRemoveNoOps({strict}));
  pm.addPass(createCSEPass());
}

#define GEN_PASS_REGISTRATION
#include "passes/Canonicalise/Passes.h.inc"

void registerCanonicalisePasses() {
  registerOnnxCanonicalisePasses();
  PassPipelineRegistration<CanonicaliseOptions>(
      "onnx-canonicalise", "the canonicalise phase",
      [](OpPassManager &pm, const CanonicaliseOptions &options) {
        buildCanonicalisePipeline(pm.nest<func::FuncOp>(), options);
      });
}

} // namespace tessera::onnx

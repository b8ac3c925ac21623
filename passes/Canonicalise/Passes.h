// The canonicalise phase: one spelling per idea, on the onnx dialect.
#ifndef TESSERA_PASSES_CANONICALISE_PASSES_H
#define TESSERA_PASSES_CANONICALISE_PASSES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassOptions.h"

namespace tessera::onnx {

#define GEN_PASS_DECL
#include "passes/Canonicalise/Passes.h.inc"

struct CanonicaliseOptions : public mlir::PassPipelineOptions<CanonicaliseOptions> {
  Option<bool> strict{*this, "strict",
                      llvm::cl::desc("only rewrites that keep every bit (--fp-mode strict)"),
                      llvm::cl::init(false)};
  Option<int64_t> foldBudget{*this, "fold-budget",
                             llvm::cl::desc("bytes a folded constant may add"),
                             llvm::cl::init(64 * 1024)};
  Option<bool> signedIntegers{*this, "signed",
                              llvm::cl::desc("for units that have only signed integers"),
                              llvm::cl::init(false)};
};

/// The phase in order, on func.func.
void buildCanonicalisePipeline(mlir::OpPassManager &pm, const CanonicaliseOptions &options);

/// For tools: all passes, and the pipeline as `onnx-canonicalise`.
void registerCanonicalisePasses();

} // namespace tessera::onnx
#endif

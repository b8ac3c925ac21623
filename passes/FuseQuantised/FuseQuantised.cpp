#include "passes/FuseQuantised/FuseQuantised.h"
#include "dialects/Tsr/IR/TsrDialect.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Pass/Pass.h"
#include "passes/Canonicalise/Evaluate.h"
#include "passes/FuseQuantised/Rules.h"

using namespace mlir;

namespace tessera {

namespace {

using Rule = bool (*)(Operation *, IRRewriter &);

/// Applies `rule` to every operator outside of segments, operands before users.
bool applyRule(func::FuncOp func, Rule rule) {
  SmallVector<Operation *> ops;
  func.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (isa<tsr::SegmentOp>(op))
      return WalkResult::skip();
    if (op->getName().getDialectNamespace() == "onnx" &&
        op->getNumRegions() == 0)
      ops.push_back(op);
    return WalkResult::advance();
  });
  IRRewriter r(func.getContext());
  bool changed = false;
  for (Operation *op : ops) {
    r.setInsertionPoint(op);
    changed |= rule(op, r);
  }
  return changed;
}

/// Erases operators that nothing uses, users before operands.
void eraseUnused(func::FuncOp func) {
  SmallVector<Operation *> ops;
  func.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (isa<tsr::SegmentOp>(op))
      return WalkResult::skip();
    ops.push_back(op);
    return WalkResult::advance();
  });
  for (Operation *op : llvm::reverse(ops))
    if (op->getName().getDialectNamespace() == "onnx" &&
        op->getNumRegions() == 0 && isOpTriviallyDead(op))
      op->erase();
}

bool isQuantised(func::FuncOp func) {
  return func
      .walk([](Operation *op) {
        return onnx::isOp(op, "DequantizeLinear") ||
                       onnx::isOp(op, "QuantizeLinear")
                   ? WalkResult::interrupt()
                   : WalkResult::advance();
      })
      .wasInterrupted();
}

class FuseQuantisedPass
    : public PassWrapper<FuseQuantisedPass, OperationPass<func::FuncOp>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(FuseQuantisedPass)
  StringRef getArgument() const override { return "tsr-fuse-quantised"; }
  StringRef getDescription() const override {
    return "quantised products, sums and functions in integers and double";
  }
  void runOnOperation() override { fuseQuantised(getOperation()); }
};

} // namespace

void fuseQuantised(func::FuncOp func) {
  if (!isQuantised(func))
    return;
  // Movement first: it brings DequantizeLinear to its products, and what is
  // left between it and QuantizeLinear may be nothing.
  applyRule(func, moveDequantise);
  applyRule(func, clampIntegers);
  applyRule(func, dropRequantise);
  applyRule(func, tabulate);
  applyRule(func, fuseProduct);
  applyRule(func, widen);
  eraseUnused(func);
  // Scales, biases and zero points of constants.
  onnx::foldConstants(func.getBody());
  applyRule(func, fuseRequantise);
  eraseUnused(func);
}

void registerFuseQuantisedPasses() { PassRegistration<FuseQuantisedPass>(); }

} // namespace tessera

// Compositions of simpler operators, see Passes.td.
#include "passes/Canonicalise/Passes.h"

#include "passes/Canonicalise/OnnxBuilder.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace tessera::onnx {

#define GEN_PASS_DEF_DECOMPOSEOPERATORS
#include "passes/Canonicalise/Passes.h.inc"

LogicalResult decomposeEinsum(Operation *op, PatternRewriter &r); // DecomposeEinsum.cpp
LogicalResult decomposeScan(Operation *op, PatternRewriter &r);   // DecomposeScan.cpp

namespace {

// Sum, Mean: binary chain from the left. Max, Min: the same, binary ones stay.
LogicalResult binaryChain(Operation *op, PatternRewriter &r) {
  bool sum = isOp(op, "Sum"), mean = isOp(op, "Mean");
  if (op->getNumOperands() < 2 || (!sum && !mean && op->getNumOperands() == 2))
    return failure();
  StringRef name = sum || mean ? "Add" : op->getName().stripDialect();
  OnnxBuilder b(r, op->getLoc());
  Value acc = op->getOperand(0);
  for (Value v : op->getOperands().drop_front())
    acc = b.binary(name, acc, v);
  if (mean)
    acc = b.div(acc, b.scalar(elementType(acc), op->getNumOperands()));
  replaceRefining(r, op, acc);
  return success();
}

struct DecomposeOperatorsPass : impl::DecomposeOperatorsBase<DecomposeOperatorsPass> {
  using DecomposeOperatorsBase::DecomposeOperatorsBase;
  void runOnOperation() override {
    RewritePatternSet p(&getContext());
    for (StringRef name : {"Sum", "Mean", "Max", "Min"})
      addRewrite(p, name, binaryChain);
    addRewrite(p, "Einsum", decomposeEinsum);
    addRewrite(p, "Scan", decomposeScan);
    if (failed(applyPatternsGreedily(getOperation(), std::move(p))))
      signalPassFailure();
  }
};

} // namespace

} // namespace tessera::onnx

// Compositions of simpler operators, see Passes.td.
#include "passes/Canonicalise/Passes.h"

#include "passes/Canonicalise/DecomposeMl.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace tessera::onnx {

#define GEN_PASS_DEF_DECOMPOSEOPERATORS
#include "passes/Canonicalise/Passes.h.inc"

LogicalResult decomposeEinsum(Operation *op, PatternRewriter &r); // DecomposeEinsum.cpp
LogicalResult decomposeScan(Operation *op, PatternRewriter &r);   // DecomposeScan.cpp
// DecomposeQuantised.cpp
LogicalResult decomposeQLinearMatMul(Operation *op, PatternRewriter &r);
LogicalResult decomposeQLinearConv(Operation *op, PatternRewriter &r);
// DecomposeTraining.cpp
LogicalResult decomposeAdagrad(Operation *op, PatternRewriter &r);
LogicalResult decomposeAdam(Operation *op, PatternRewriter &r);
LogicalResult decomposeMomentum(Operation *op, PatternRewriter &r);
void addRandomDecompositions(RewritePatternSet &p);                      // DecomposeRandom.cpp
LogicalResult decomposeGradient(Operation *op, PatternRewriter &r);      // DecomposeGradient.cpp
LogicalResult decomposeFlexAttention(Operation *op, PatternRewriter &r); // DecomposeFlexAttention.cpp
LogicalResult decomposeTfIdf(Operation *op, PatternRewriter &r);         // DecomposeVectorizer.cpp

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

// Whether operand `use` is broadcast against one of at least `rank` axes, or
// lends its type only: then leading axes of one element more change nothing.
bool hidesRank(OpOperand &use, int64_t rank) {
  Operation *op = use.getOwner();
  if (isOp(op, "CastLike"))
    return use.getOperandNumber() == 1;
  bool broadcasts = llvm::any_of(ArrayRef<StringRef>{"Add", "Sub", "Mul", "Div", "Less", "Greater", "Equal", "And", "Or"},
                                 [&](StringRef name) { return isOp(op, name); });
  RankedTensorType other = broadcasts ? rankedType(op->getOperand(1 - use.getOperandNumber())) : RankedTensorType();
  return other && other.getRank() >= rank;
}

//   BEFORE  %x = If { Yield(%a : []) } { Yield(%b : [1]) }    used as Mul(%v : [n], %x)
//   AFTER   %x = If { Yield(Unsqueeze(%a)) } { Yield(%b) }
LogicalResult equaliseRanks(Operation *op, PatternRewriter &r) {
  if (op->getNumRegions() != 2)
    return failure();
  bool changed = false;
  for (OpResult result : op->getResults()) {
    Operation *yields[2] = {op->getRegion(0).front().getTerminator(), op->getRegion(1).front().getTerminator()};
    RankedTensorType types[2];
    for (int k : {0, 1})
      types[k] = rankedType(yields[k]->getOperand(result.getResultNumber()));
    if (!types[0] || !types[1] || types[0].getRank() == types[1].getRank())
      continue;
    int small = types[0].getRank() < types[1].getRank() ? 0 : 1;
    int64_t rank = types[1 - small].getRank();
    if (!llvm::all_of(result.getUses(), [&](OpOperand &use) { return hidesRank(use, rank); }))
      continue;
    SmallVector<int64_t> axes = llvm::to_vector(llvm::seq<int64_t>(0, rank - types[small].getRank()));
    r.setInsertionPoint(yields[small]);
    OnnxBuilder b(r, op->getLoc());
    Value wide = b.unsqueeze(yields[small]->getOperand(result.getResultNumber()), axes);
    r.modifyOpInPlace(yields[small], [&] { yields[small]->setOperand(result.getResultNumber(), wide); });
    changed = true;
  }
  return success(changed);
}

struct DecomposeOperatorsPass : impl::DecomposeOperatorsBase<DecomposeOperatorsPass> {
  using DecomposeOperatorsBase::DecomposeOperatorsBase;
  void runOnOperation() override {
    RewritePatternSet p(&getContext());
    for (StringRef name : {"Sum", "Mean", "Max", "Min"})
      addRewrite(p, name, binaryChain);
    addRewrite(p, "If", equaliseRanks);
    addRewrite(p, "Einsum", decomposeEinsum);
    addRewrite(p, "Scan", decomposeScan);
    addRewrite(p, "QLinearMatMul", decomposeQLinearMatMul);
    addRewrite(p, "QLinearConv", decomposeQLinearConv);
    addRewrite(p, "training.Adagrad", decomposeAdagrad);
    addRewrite(p, "training.Adam", decomposeAdam);
    addRewrite(p, "training.Momentum", decomposeMomentum);
    addRewrite(p, "training.Gradient", decomposeGradient);
    addRewrite(p, "preview.FlexAttention", decomposeFlexAttention);
    addRewrite(p, "TfIdfVectorizer", decomposeTfIdf);
    addMlDecompositions(p);
    addRandomDecompositions(p);
    if (failed(applyPatternsGreedily(getOperation(), std::move(p))))
      signalPassFailure();
  }
};

} // namespace

} // namespace tessera::onnx

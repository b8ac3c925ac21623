#include "passes/FuseQuantised/FuseQuantised.h"
#include "dialects/Tsr/IR/TsrDialect.h"
#include "mlir/IR/Dominance.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Transforms/CSE.h"
#include "passes/Canonicalise/Evaluate.h"
#include "passes/FuseQuantised/Rules.h"

using namespace mlir;

namespace tessera {

namespace {

using Rule = bool (*)(Operation *, IRRewriter &);

/// Calls `visit` for every operator of `region` outside of segments, operands
/// before users.
void forEachOp(Region &region, llvm::function_ref<void(Operation *)> visit) {
  region.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (isa<tsr::SegmentOp>(op))
      return WalkResult::skip();
    if (op->getName().getDialectNamespace() == "onnx" &&
        op->getNumRegions() == 0)
      visit(op);
    return WalkResult::advance();
  });
}

bool applyRule(Region &region, Rule rule) {
  SmallVector<Operation *> ops;
  forEachOp(region, [&](Operation *op) { ops.push_back(op); });
  IRRewriter r(region.getContext());
  bool changed = false;
  for (Operation *op : ops) {
    r.setInsertionPoint(op);
    changed |= rule(op, r);
  }
  return changed;
}

/// Erases operators that nothing uses, users before operands.
void eraseUnused(Region &region) {
  SmallVector<Operation *> ops;
  forEachOp(region, [&](Operation *op) { ops.push_back(op); });
  for (Operation *op : llvm::reverse(ops))
    if (isOpTriviallyDead(op))
      op->erase();
}

bool isQuantised(Region &region) {
  bool found = false;
  forEachOp(region, [&](Operation *op) {
    found |=
        onnx::isOp(op, "DequantizeLinear") || onnx::isOp(op, "QuantizeLinear");
  });
  return found;
}

/// `inDouble`: sums and functions that stay floating point as well.
void fuse(Region &region, bool inDouble) {
  if (applyRule(region, putZeroPointBack))
    eraseUnused(region);
  if (!isQuantised(region))
    return;
  // Movement first: it brings DequantizeLinear to its products, and what is
  // left between it and QuantizeLinear may be nothing.
  applyRule(region, moveDequantise);
  applyRule(region, clampIntegers);
  applyRule(region, dropRequantise);
  if (inDouble)
    applyRule(region, tabulate);
  applyRule(region, fuseProduct);
  applyRule(region, sumAverage);
  if (inDouble)
    applyRule(region, widen);
  eraseUnused(region);
  // Scales, biases and zero points of constants.
  onnx::foldConstants(region);
  applyRule(region, fuseRequantise);
  eraseUnused(region);
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

class ExposeIntegerSumsPass
    : public PassWrapper<ExposeIntegerSumsPass, OperationPass<func::FuncOp>> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ExposeIntegerSumsPass)
  StringRef getArgument() const override { return "tsr-expose-integer-sums"; }
  StringRef getDescription() const override {
    return "products of bytes as sums in int32, for units without floats";
  }
  void runOnOperation() override {
    exposeIntegerSums(getOperation(), [](Operation *op) {
      return onnx::elementType(op->getResult(0)).isInteger(32);
    });
  }
};

} // namespace

void fuseQuantised(func::FuncOp func) {
  fuse(func.getBody(), /*inDouble=*/true);
}

void fuseQuantised(tsr::SegmentOp segment) {
  fuse(segment.getBody(), /*inDouble=*/false);
}

/// Operators between the left operand of `product` and its DequantizeLinear
/// that nothing else reads, the first to be computed first.
static SmallVector<Operation *> movementBefore(Operation *product) {
  SmallVector<Operation *> path;
  Value v = product->getOperand(0);
  for (Operation *def = v.getDefiningOp();
       def && v.hasOneUse() && def->getNumOperands() > 0 &&
       !onnx::isOp(def, "DequantizeLinear");
       v = def->getOperand(0), def = v.getDefiningOp())
    path.push_back(def);
  return SmallVector<Operation *>(llvm::reverse(path));
}

void exposeIntegerSums(func::FuncOp func,
                       llvm::function_ref<bool(Operation *)> served) {
  SmallVector<Operation *> products;
  for (Operation &op : func.getBody().front())
    if ((onnx::isOp(&op, "Conv") || onnx::isOp(&op, "MatMul") ||
         onnx::isOp(&op, "Gemm")) &&
        onnx::dequantisedConstant(onnx::operand(&op, 1)) && !served(&op))
      products.push_back(&op);
  IRRewriter r(func.getContext());
  auto wanted = [&](Operation *sums) { // what nothing reads is no result
    onnx::OnnxBuilder b(r, sums->getLoc());
    Operation *reader = b.create("Identity", {sums->getResult(0)},
                                 sums->getResult(0).getType());
    bool isServed = served(sums);
    reader->erase();
    return isServed;
  };
  for (Operation *op : products) {
    for (Operation *moved : movementBefore(op)) {
      r.setInsertionPoint(moved);
      if (!moveDequantise(moved, r))
        break;
    }
    r.setInsertionPoint(op);
    exposeSums(op, r, wanted);
  }
  SmallVector<Operation *> sums;
  forEachOp(func.getBody(), [&](Operation *op) { sums.push_back(op); });
  bool changed = false;
  for (Operation *op : sums) {
    r.setInsertionPoint(op);
    changed |= takeOutZeroPoint(op, r, wanted);
  }
  if (products.empty() && !changed)
    return;
  eraseUnused(func.getBody());
  onnx::foldConstants(func.getBody());
  eraseUnused(func.getBody());
  DominanceInfo dominance(
      func); // products of one tensor share its signed bytes
  eliminateCommonSubExpressions(r, dominance, func);
}

void registerFuseQuantisedPasses() {
  PassRegistration<FuseQuantisedPass>();
  PassRegistration<ExposeIntegerSumsPass>();
}

} // namespace tessera

// Constant folding, see Passes.td. One walk in program order is enough:
// operands come before their users, and the bodies of If and Loop are walked
// where they stand, so that values captured from outside are already folded.
#include "passes/Canonicalise/Passes.h"

#include "dialects/Onnx/IR/OpsCore.h"
#include "passes/Canonicalise/Dequantised.h"
#include "passes/Canonicalise/Evaluate.h"
#include "passes/Canonicalise/OnnxBuilder.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace tessera::onnx {

#define GEN_PASS_DEF_FOLDCONSTANTS
#include "passes/Canonicalise/Passes.h.inc"

namespace {

class Folder {
public:
  Folder(MLIRContext *ctx, int64_t budget, bool dequantize)
      : rewriter(ctx), budget(budget), dequantize(dequantize) {}

  void run(Region &region) {
    for (Block &block : region)
      for (auto it = block.begin(); it != block.end();) {
        Operation *op = &*it++;
        if (isa<WeightOp>(op))
          continue;
        rewriter.setInsertionPoint(op);
        if (isOp(op, "If"))
          if (auto cond = constantOf(op->getOperand(0)); cond && cond->size() == 1) {
            it = inlineBranch(op, cond->integer(0) != 0);
            continue;
          }
        for (Region &r : op->getRegions())
          run(r);
        if (isOp(op, "Shape") || isOp(op, "Size"))
          foldShape(op);
        else if (op->getNumRegions() == 0 && op->getNumResults() > 0)
          evaluate(op);
      }
  }

private:
  // Replaces an If by the operators of one branch; returns the first of them.
  Block::iterator inlineBranch(Operation *op, bool taken) {
    Block &body = op->getRegion(taken ? 0 : 1).front();
    Operation *yield = body.getTerminator();
    SmallVector<Value> values(yield->getOperands());
    Operation *first = &body.front();
    rewriter.eraseOp(yield);
    Block::iterator after = std::next(op->getIterator());
    bool empty = first == yield;
    rewriter.inlineBlockBefore(&body, op);
    replaceRefining(rewriter, op, values);
    return empty ? after : first->getIterator();
  }

  void foldShape(Operation *op) {
    RankedTensorType t = rankedType(op->getOperand(0));
    if (!t)
      return;
    SmallVector<int64_t> dims(t.getShape());
    if (isOp(op, "Size")) {
      if (t.hasStaticShape())
        replace(op, {int64Tensor({t.getNumElements()}, true)});
      return;
    }
    int64_t rank = t.getRank();
    auto clamp = [&](int64_t v) { return std::clamp<int64_t>(v < 0 ? v + rank : v, 0, rank); };
    int64_t start = clamp(getInt(op, "start", 0)), end = clamp(getInt(op, "end", rank));
    SmallVector<int64_t> part;
    for (int64_t a = start; a < end; ++a)
      part.push_back(dims[a]);
    if (llvm::none_of(part, ShapedType::isDynamic))
      replace(op, {int64Tensor(part, false)});
  }

  HostTensor int64Tensor(ArrayRef<int64_t> v, bool scalar) {
    HostTensor t(rewriter.getI64Type(),
                 scalar ? ArrayRef<int64_t>() : ArrayRef<int64_t>((int64_t)v.size()));
    for (size_t i = 0; i < v.size(); ++i)
      t.setInteger(i, v[i]);
    return t;
  }

  void evaluate(Operation *op) {
    Evaluator evaluator = findEvaluator(op);
    if (!evaluator || op->use_empty())
      return;
    SmallVector<std::optional<HostTensor>> values(getNumOperandPositions(op));
    int64_t dying = 0;
    for (unsigned p = 0; p < values.size(); ++p) {
      Value v = operand(op, p);
      if (!v)
        continue;
      ElementsAttr attr = getConstant(v);
      if (!attr || !(values[p] = HostTensor::read(attr)))
        return;
      if (llvm::all_of(v.getUsers(), [&](Operation *user) { return user == op; }))
        dying += values[p]->byteSize();
    }
    int64_t limit = std::max(budget, dying);
    if (dequantize && isOp(op, "DequantizeLinear"))
      limit = INT64_MAX;
    auto results = evaluator(op, ConstantOperands(values, limit));
    if (results)
      replace(op, *results);
  }

  void replace(Operation *op, ArrayRef<HostTensor> results) {
    for (auto [t, v] : llvm::zip_equal(results, op->getResults())) {
      // What shape inference found must agree, else the model contradicts itself.
      if (RankedTensorType declared = rankedType(v)) {
        if (declared.getElementType() != t.element() || declared.getRank() != t.rank())
          return;
        for (int64_t a = 0; a < t.rank(); ++a)
          if (!declared.isDynamicDim(a) && declared.getDimSize(a) != t.shape()[a])
            return;
      } else if (elementType(v) != t.element()) {
        return;
      }
    }
    SmallVector<Value> weights;
    for (const HostTensor &t : results)
      weights.push_back(OnnxBuilder(rewriter, op->getLoc()).weight(t));
    if (isOp(op, "DequantizeLinear")) {
      if (auto from = readDequantise(op))
        noteDequantised(weights[0], *from);
    } else if (weights.size() == 1) {
      keepDequantised(op, weights[0]);
    }
    llvm::SetVector<Value> operands(op->operand_begin(), op->operand_end()); // each once: it may be erased
    replaceRefining(rewriter, op, weights);
    for (Value v : operands) { // lets the next operator see what dies with it
      Operation *def = v.getDefiningOp();
      if (def && isa<WeightOp>(def) && def->use_empty())
        rewriter.eraseOp(def);
    }
  }

  IRRewriter rewriter;
  int64_t budget;
  bool dequantize;
};

struct FoldConstantsPass : impl::FoldConstantsBase<FoldConstantsPass> {
  using FoldConstantsBase::FoldConstantsBase;
  void runOnOperation() override {
    Folder(&getContext(), budget, dequantize).run(getOperation().getBody());
  }
};

} // namespace

void foldConstants(Region &region) { Folder(region.getContext(), FoldConstantsOptions().budget, true).run(region); }

} // namespace tessera::onnx

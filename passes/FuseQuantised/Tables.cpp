// A function of one 8-bit tensor is a table of 256 entries.
//
//   BEFORE  QuantizeLinear(Sigmoid(DequantizeLinear(x)))
//   AFTER   Gather(table, Cast(x))       the table holds what the operators
//   give
//
// Only where the operators between have a function that ONNX leaves to
// rounding: the table has the nearest float32 of each, and arithmetic is no
// slower itself.
#include "passes/Canonicalise/Evaluate.h"
#include "passes/FuseQuantised/Rules.h"

using namespace mlir;
using tessera::onnx::HostTensor;
using tessera::onnx::OnnxBuilder;

namespace tessera {

namespace {

/// The only operand of `op` that is not constant, if it is one.
std::optional<unsigned> variableOperand(Operation *op) {
  std::optional<unsigned> found;
  for (unsigned p = 0; p < onnx::getNumOperandPositions(op); ++p)
    if (Value v = onnx::operand(op, p); v && !onnx::getConstant(v)) {
      if (found)
        return std::nullopt;
      found = p;
    }
  return found;
}

/// Value of `op` with `x` at its variable operand.
std::optional<HostTensor> evaluate(Operation *op, unsigned variable,
                                   const HostTensor &x) {
  SmallVector<std::optional<HostTensor>> operands(
      onnx::getNumOperandPositions(op));
  for (unsigned p = 0; p < operands.size(); ++p)
    operands[p] = onnx::constantOf(onnx::operand(op, p));
  operands[variable] = x;
  for (auto [p, t] :
       llvm::enumerate(operands)) // parameters of the whole tensor only
    if (p != variable && t && t->size() != 1)
      return std::nullopt;
  onnx::Evaluator evaluator = onnx::findEvaluator(op);
  auto y = evaluator
               ? evaluator(op, onnx::ConstantOperands(operands, INT64_MAX))
               : std::nullopt;
  if (!y || (*y)[0].size() != x.size())
    return std::nullopt;
  return (*y)[0].reshaped({x.size()});
}

} // namespace

bool tabulate(Operation *op, IRRewriter &r) {
  if (!onnx::isOp(op, "QuantizeLinear"))
    return false;
  SmallVector<std::pair<Operation *, unsigned>>
      chain; // from the result backwards
  bool function = false;
  Value v = op->getResult(0);
  RankedTensorType source;
  while (true) {
    Operation *def = v.getDefiningOp();
    if (!def || !isElementwise(def) || def->getNumResults() != 1)
      return false;
    auto variable = variableOperand(def);
    if (!variable || onnx::rankedType(def->getResult(0)) == nullptr)
      return false;
    chain.push_back({def, *variable});
    function |= !isExactElementwise(def);
    v = onnx::operand(def, *variable);
    if (onnx::isOp(def, "DequantizeLinear"))
      break;
  }
  source = onnx::rankedType(v);
  auto result = onnx::rankedType(op->getResult(0));
  auto element =
      source ? dyn_cast<IntegerType>(source.getElementType()) : IntegerType();
  if (!function || !element || element.getWidth() != 8 ||
      source.getRank() != result.getRank())
    return false;
  // Negative numbers count from the end, as Gather has it.
  HostTensor t(element, {256});
  t.mutableData();
  for (int64_t i = 0; i < 256; ++i)
    t.setInteger(i, i);
  for (auto [def, variable] : llvm::reverse(chain)) {
    auto next = evaluate(def, variable, t);
    if (!next)
      return false;
    t = *next;
  }
  OnnxBuilder b(r, op->getLoc());
  Value index = b.cast(v, b.attrs().getI32Type());
  Value y = b.op("Gather", {b.weight(t), index}, result, {b.i("axis", 0)});
  if (!isServed(y.getDefiningOp())) {
    y.getDefiningOp()->erase();
    return false;
  }
  r.replaceOp(op, y);
  return true;
}

} // namespace tessera

// Gradient of elementwise arithmetic by reverse accumulation.
//
// The operator names its `y`; the importer keeps the name of an operation's first
// output in its location. Tensors on the way have one static shape: broadcasting
// would need sums.
#include "passes/Canonicalise/OnnxBuilder.h"

#include "dialects/Onnx/IR/Unsupported.h"

using namespace mlir;

namespace tessera::onnx {

namespace {

/// Name of the first output of `op` in the model.
StringRef outputName(Operation *op) {
  auto outer = dyn_cast<NameLoc>(op->getLoc());
  auto inner = outer ? dyn_cast<NameLoc>(outer.getChildLoc()) : NameLoc();
  return inner ? inner.getName().getValue() : StringRef();
}

class Reverse {
public:
  Reverse(OnnxBuilder &b, Value y) : b(b), type(rankedType(y)) {
    if (type && type.hasStaticShape() && isa<FloatType>(type.getElementType()))
      slopes[y] = constant(1);
  }
  Value slope(Value v) { return slopes.lookup(v); }
  Value constant(double v) {
    HostTensor t(type.getElementType(), type.getShape());
    t.mutableData();
    for (int64_t i = 0; i < t.size(); ++i)
      t.setReal(i, v);
    return b.weight(t);
  }

  /// Passes the slope of the operation's result on to its operands.
  bool visit(Operation *op) {
    Value g = op->getNumResults() == 1 ? slope(op->getResult(0)) : Value();
    if (!g)
      return true;
    for (Value v : op->getOperands())
      if (v.getType() != type)
        return false;
    Value x = op->getOperand(0), z = op->getNumOperands() > 1 ? op->getOperand(1) : Value(), y = op->getResult(0);
    if (isOp(op, "Identity"))
      return add(x, g);
    if (isOp(op, "Neg"))
      return add(x, b.unary("Neg", g));
    if (isOp(op, "Exp"))
      return add(x, b.mul(g, y));
    if (isOp(op, "Log"))
      return add(x, b.div(g, x));
    if (isOp(op, "Sqrt"))
      return add(x, b.div(g, b.add(y, y)));
    if (isOp(op, "Tanh"))
      return add(x, b.mul(g, b.sub(constant(1), b.mul(y, y))));
    if (isOp(op, "Sigmoid"))
      return add(x, b.mul(g, b.mul(y, b.sub(constant(1), y))));
    if (isOp(op, "Add"))
      return add(x, g) && add(z, g);
    if (isOp(op, "Sub"))
      return add(x, g) && add(z, b.unary("Neg", g));
    if (isOp(op, "Mul"))
      return add(x, b.mul(g, z)) && add(z, b.mul(g, x));
    if (isOp(op, "Div"))
      return add(x, b.div(g, z)) && add(z, b.unary("Neg", b.div(b.mul(g, y), z)));
    return false;
  }

private:
  bool add(Value to, Value g) {
    Value &sum = slopes[to];
    sum = sum ? b.add(sum, g) : g;
    return true;
  }
  OnnxBuilder &b;
  RankedTensorType type;
  llvm::DenseMap<Value, Value> slopes;
};

} // namespace

LogicalResult decomposeGradient(Operation *op, PatternRewriter &r) {
  StringRef wanted = getString(op, "y");
  SmallVector<StringRef> xs = getStrings(op, "xs");
  if (!getStrings(op, "zs").empty())
    return unsupportedAttribute(op, "zs", "not supported");
  if (xs.size() != op->getNumOperands() || op->getNumResults() != xs.size())
    return unsupportedAttribute(op, "xs", "the node has " + Twine(op->getNumOperands()) + " inputs and " +
                                              Twine(op->getNumResults()) + " outputs");
  Operation *last = nullptr;
  for (Operation &other : *op->getBlock())
    if (&other != op && other.getNumResults() == 1 && other.isBeforeInBlock(op) && outputName(&other) == wanted)
      last = &other;
  if (!last)
    return unsupportedAttribute(op, "y", "no node before gives it");
  OnnxBuilder b(r, op->getLoc());
  Reverse reverse(b, last->getResult(0));
  if (!reverse.slope(last->getResult(0)))
    return failure();
  auto isX = [&](Operation *o) { return llvm::any_of(op->getOperands(), [&](Value x) { return x.getDefiningOp() == o; }); };
  for (Operation *o = last; o; o = o->getPrevNode())
    if (!isX(o) && !reverse.visit(o))
      return unsupported(op, "the gradient of " + o->getName().getStringRef() + " is not known");
  SmallVector<Value> results;
  for (Value x : op->getOperands()) {
    Value g = reverse.slope(x);
    if (x.getType() != last->getResult(0).getType())
      return failure();
    results.push_back(g ? g : reverse.constant(0));
  }
  replaceRefining(r, op, results);
  return success();
}

} // namespace tessera::onnx

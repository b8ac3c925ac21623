// The optimisers of ai.onnx.preview.training as their pseudo code in the schema.
// Operands: learning rate R, update count T, then all X, all gradients, all
// states; results: all new X, then all new states.
#include "passes/Canonicalise/OnnxBuilder.h"

#include "dialects/Onnx/IR/Unsupported.h"

using namespace mlir;

namespace tessera::onnx {

namespace {

class Optimiser {
public:
  Optimiser(Operation *op, PatternRewriter &r, unsigned lists) : op(op), b(r, op->getLoc()), lists(lists) {
    valid = op->getNumOperands() > 2 && (op->getNumOperands() - 2) % lists == 0 &&
            op->getNumResults() == (op->getNumOperands() - 2) / lists * (lists - 1);
    for (Value v : op->getOperands())
      valid &= rankedType(v) && (elementType(v).isF32() || elementType(v).isF64() || v == op->getOperand(1));
    if (valid)
      tensors = (op->getNumOperands() - 2) / lists;
  }
  LogicalResult invalid() {
    return unsupported(op, Twine(op->getNumOperands()) + " inputs and " + Twine(op->getNumResults()) +
                               " outputs do not divide into tensors of float or double of known rank, their gradients and states");
  }
  Value rate() { return op->getOperand(0); }
  Value number(Type t) { return b.cast(op->getOperand(1), t); }
  /// Tensor `i` of list `list` (0: X, 1: gradients, 2..: states).
  Value of(unsigned list, unsigned i) { return op->getOperand(2 + list * tensors + i); }
  Value c(Value like, double v) { return b.scalar(elementType(like), v); }
  double f(StringRef name) { return getFloat(op, name, 0); }
  /// Whether updates were made before: T > 0.
  Value began() {
    Value t = op->getOperand(1);
    return b.op("Greater", {t, c(t, 0)}, cast<ShapedType>(t.getType()).clone(b.attrs().getI1Type()));
  }
  Value pick(Value condition, Value x, Value y) {
    return b.op("Where", {condition, x, y}, broadcastType(x.getType(), y.getType(), elementType(x)));
  }
  /// The gradient with that of the norm added.
  Value gradient(unsigned i) { return b.add(b.mul(c(of(0, i), f("norm_coefficient")), of(0, i)), of(1, i)); }

  Operation *op;
  OnnxBuilder b;
  unsigned lists, tensors = 0;
  bool valid = false;
};

} // namespace

LogicalResult decomposeAdagrad(Operation *op, PatternRewriter &r) {
  Optimiser o(op, r, 3);
  if (!o.valid)
    return o.invalid();
  OnnxBuilder &b = o.b;
  SmallVector<Value> xs, states;
  for (unsigned i = 0; i < o.tensors; ++i) {
    Value x = o.of(0, i), t = o.number(elementType(x));
    Value rate = b.div(b.cast(o.rate(), elementType(x)), b.add(o.c(x, 1), b.mul(t, o.c(x, o.f("decay_factor")))));
    Value g = o.gradient(i), h = b.add(o.of(2, i), b.mul(g, g));
    Value root = b.add(b.unary("Sqrt", h), o.c(x, o.f("epsilon")));
    xs.push_back(b.sub(x, b.div(b.mul(rate, g), root)));
    states.push_back(h);
  }
  llvm::append_range(xs, states);
  replaceRefining(r, op, xs);
  return success();
}

LogicalResult decomposeAdam(Operation *op, PatternRewriter &r) {
  Optimiser o(op, r, 4);
  if (!o.valid)
    return o.invalid();
  OnnxBuilder &b = o.b;
  Type f64 = r.getF64Type();
  double alpha = o.f("alpha"), beta = o.f("beta");
  // The corrections 1 - beta^T cancel: they are computed in double.
  Value t = o.number(f64), one = b.scalar(f64, 1), rate = b.cast(o.rate(), f64);
  Value corrected = b.div(b.mul(rate, b.unary("Sqrt", b.sub(one, b.binary("Pow", b.scalar(f64, beta), t)))),
                          b.sub(one, b.binary("Pow", b.scalar(f64, alpha), t)));
  rate = o.pick(o.began(), corrected, rate);
  SmallVector<Value> xs, firsts, seconds;
  for (unsigned i = 0; i < o.tensors; ++i) {
    Value x = o.of(0, i), g = o.gradient(i);
    Value v = b.add(b.mul(o.c(x, alpha), o.of(2, i)), b.mul(o.c(x, 1 - alpha), g));
    Value h = b.add(b.mul(o.c(x, beta), o.of(3, i)), b.mul(o.c(x, 1 - beta), b.mul(g, g)));
    Value root = b.add(b.unary("Sqrt", h), o.c(x, o.f("epsilon")));
    Value step = b.mul(b.cast(rate, elementType(x)), b.div(v, root));
    xs.push_back(b.mul(o.c(x, 1 - o.f("norm_coefficient_post")), b.sub(x, step)));
    firsts.push_back(v);
    seconds.push_back(h);
  }
  llvm::append_range(xs, firsts);
  llvm::append_range(xs, seconds);
  replaceRefining(r, op, xs);
  return success();
}

LogicalResult decomposeMomentum(Operation *op, PatternRewriter &r) {
  Optimiser o(op, r, 3);
  StringRef mode = getString(op, "mode");
  if (!o.valid)
    return o.invalid();
  if (mode != "standard" && mode != "nesterov")
    return unsupportedAttribute(op, "mode", "expected standard or nesterov");
  OnnxBuilder &b = o.b;
  SmallVector<Value> xs, states;
  for (unsigned i = 0; i < o.tensors; ++i) {
    Value x = o.of(0, i), g = o.gradient(i), alpha = o.c(x, o.f("alpha"));
    // The first gradient counts in full.
    Value beta = o.pick(o.began(), o.c(x, o.f("beta")), o.c(x, 1));
    Value v = b.add(b.mul(alpha, o.of(2, i)), b.mul(beta, g));
    Value step = mode == "standard" ? v : b.add(g, b.mul(alpha, v));
    xs.push_back(b.sub(x, b.mul(b.cast(o.rate(), elementType(x)), step)));
    states.push_back(v);
  }
  llvm::append_range(xs, states);
  replaceRefining(r, op, xs);
  return success();
}

} // namespace tessera::onnx

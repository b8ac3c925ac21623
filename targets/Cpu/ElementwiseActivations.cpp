// Activations. Computed in the value type and rounded once; NaN in, NaN out.
#include "targets/Cpu/ElementwiseSupport.h"

using namespace mlir;

namespace tessera::cpu {

static Expr expm1(Expr x) { return {*x.e, math::expm1(*x.e, x)}; }
static Expr sigmoid(Expr x) { return {*x.e, math::sigmoid(*x.e, x)}; }

static Expr relu(const Elementwise &w) {
  Expr x = w[0];
  return x.isFloat() ? maxSecond(x.k(0), x) : select(x < 0, 0, x);
}

static Expr prelu(const Elementwise &w) {
  Expr x = w[0], scaled = x * w[1];
  if (x.isFloat())
    return select(x < 0.0, scaled, x);
  return w.isUnsigned() ? x : select(x < 0, scaled, x);
}

static Expr celu(const Elementwise &w) {
  Expr x = w[0];
  double alpha = w.attr("alpha");
  Expr negative = expm1(x / alpha) * alpha;
  KernelEmitter &e = w.e;
  return Expr(e, e.maxF(x.k(0), x)) + Expr(e, e.minF(x.k(0), negative));
}

static Expr hardSigmoid(Expr x, double alpha, double beta) {
  return clampKeepNan(x * alpha + beta, 0, 1);
}

/// max(x, 0) + log(1 + e^-|x|).
static Expr softplus(Expr x) {
  Expr z(*x.e, math::exp(*x.e, -abs(x)));
  return maxSecond(x.k(0), x) + Expr(*x.e, math::log1p(*x.e, z));
}

/// x tanh(log(1 + e^x)) = x n / (n + 2), n = e^x (e^x + 2).
static Expr mish(Expr x) {
  Expr z(*x.e, math::exp(*x.e, minSecond(x.k(x.isF64() ? 40 : 20), x)));
  Expr n = z * (z + 2.0);
  return x * (n / (n + 2.0));
}

/// tanh form: (1 + tanh u) / 2 = sigmoid(2 u).
static Expr gelu(const Elementwise &w) {
  Expr x = w[0];
  if (onnx::getString(w.op, "approximate", "none") == "tanh") {
    Expr u = x * fma(x * x, 0.044715 * 0.7978845608028654, 0.7978845608028654);
    return x * sigmoid(u + u);
  }
  return x * Expr(w.e, math::normalCdf(w.e, x));
}

static Expr clip(const Elementwise &w) {
  KernelEmitter &e = w.e;
  Expr x = w[0];
  if (x.isFloat()) {
    if (w.has(1))
      x = {e, e.maxF(x, w[1])};
    if (w.has(2))
      x = {e, e.minF(x, w[2])};
    return x;
  }
  bool u = w.isUnsigned();
  if (w.has(1))
    x = {e, u ? Value(arith::MaxUIOp::create(e.b, e.loc, x.v, w.operands[1])) : Value(arith::MaxSIOp::create(e.b, e.loc, x.v, w.operands[1]))};
  if (w.has(2))
    x = {e, u ? Value(arith::MinUIOp::create(e.b, e.loc, x.v, w.operands[2])) : Value(arith::MinSIOp::create(e.b, e.loc, x.v, w.operands[2]))};
  return x;
}

/// On integers in double, as the reference has it.
static Expr shrink(const Elementwise &w) {
  double bias = w.attr("bias"), lambda = w.attr("lambd");
  Expr x = w[0].isFloat() ? w[0] : fromInt(w[0], w.e.f64(), w.isUnsigned());
  Expr y = select(x < -lambda, x + bias, select(x > lambda, x - bias, select(isNan(x), x, x.k(0))));
  return w[0].isFloat() ? y : Expr(w.e, w.e.cast(y, w.e.f64(), w.result()));
}

static ElementwiseTable activations[] = {
    {{"onnx.Relu"}, Floats | Ints, relu},
    {{"onnx.LeakyRelu"}, Floats, [](const Elementwise &w) { return select(w[0] < 0.0, w[0] * w.attr("alpha"), w[0]); }},
    {{"onnx.PRelu"}, Numbers, prelu},
    {{"onnx.Elu"}, Floats, [](const Elementwise &w) { return select(w[0] < 0.0, expm1(w[0]) * w.attr("alpha"), w[0]); }},
    {{"onnx.Selu"}, Floats,
     [](const Elementwise &w) {
       double gamma = w.attr("gamma");
       return select(w[0] < 0.0, expm1(w[0]) * (w.attr("alpha") * gamma), w[0] * gamma);
     }},
    {{"onnx.Celu"}, Floats, celu},
    {{"onnx.ThresholdedRelu"}, Floats,
     [](const Elementwise &w) { return select((w[0] > w.attr("alpha")) | isNan(w[0]), w[0], 0.0); }},
    {{"onnx.HardSigmoid"}, Floats,
     [](const Elementwise &w) { return hardSigmoid(w[0], w.attr("alpha"), w.attr("beta")); }},
    {{"onnx.HardSwish"}, Floats, [](const Elementwise &w) { return w[0] * hardSigmoid(w[0], 1.0 / 6, 0.5); }},
    {{"onnx.Sigmoid"}, Floats, [](const Elementwise &w) { return sigmoid(w[0]); }},
    {{"onnx.Tanh"}, Floats, [](const Elementwise &w) { return Expr(w.e, math::tanh(w.e, w[0])); }},
    {{"onnx.Softplus"}, Floats, [](const Elementwise &w) { return softplus(w[0]); }},
    {{"onnx.Softsign"}, Floats, [](const Elementwise &w) { return w[0] / (abs(w[0]) + 1.0); }},
    {{"onnx.Mish"}, Floats, [](const Elementwise &w) { return mish(w[0]); }},
    {{"onnx.Swish"}, Floats,
     [](const Elementwise &w) {
       double alpha = w.attr("alpha");
       return w[0] * sigmoid(alpha == 1 ? w[0] : w[0] * alpha);
     }},
    {{"onnx.Shrink"}, Numbers, shrink},
    {{"onnx.Clip"}, Numbers, clip},
};

static RegisterElementwise geluOp(
    {"onnx.Gelu"},
    [](Operation *op, Reasons &reasons) -> LogicalResult {
      LogicalResult types = matchTypes(op, Floats, reasons);
      StringRef form = onnx::getString(op, "approximate", "none");
      if (form != "none" && form != "tanh")
        return reasons.no() << "Gelu approximate='" << form.str() << "'";
      return types;
    },
    [](Operation *op, ArrayRef<Value> operands, KernelEmitter &e) -> FailureOr<Value> {
      Elementwise w{op, operands, e};
      return w.round(gelu(w));
    });

/// Inference only: the identity.
static RegisterElementwise dropout(
    {"onnx.Dropout"},
    [](Operation *op, Reasons &reasons) -> LogicalResult {
      LogicalResult ok = success();
      if (!(typeSetOf(operandElement(op, 0)) & (Floats | SmallFloats)))
        ok = reasons.no() << "Dropout of this element type";
      if (Value mask = onnx::getOptionalResult(op, 1); mask && !mask.use_empty())
        ok = reasons.no() << "Dropout's result 'mask'";
      if (Value training = onnx::getOptionalOperand(op, 2)) {
        auto flag = onnx::getConstantInts(training);
        if (!flag || flag->size() != 1)
          ok = reasons.no() << "Dropout's training_mode is not constant";
        else if ((*flag)[0])
          ok = reasons.no() << "Dropout in training mode";
      }
      return ok;
    },
    [](Operation *, ArrayRef<Value> operands, KernelEmitter &) -> FailureOr<Value> { return operands[0]; });

} // namespace tessera::cpu

// Activations over constants, and over the positions of a table: computed in
// double and rounded once, for types up to f32.
#include "passes/Canonicalise/Evaluate.h"

#include "dialects/Onnx/IR/OnnxUtils.h"

#include <cmath>

using namespace mlir;

namespace tessera::onnx {

namespace {

double sigmoid(double v) { return 1 / (1 + std::exp(-v)); }
double softplus(double v) {
  return std::max(v, 0.0) + std::log1p(std::exp(-std::abs(v)));
}
double gelu(double v) { return 0.5 * v * std::erfc(-v * M_SQRT1_2); }
double tanhGelu(double v) {
  return 0.5 * v *
         (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
}

template <typename Function>
EvaluatedResults map(const ConstantOperands &in, Function f) {
  const HostTensor &x = *in[0];
  if (!x.isFloat() || x.element().isF64() || !in.fits(x.element(), x.shape()))
    return std::nullopt;
  HostTensor out(x.element(), x.shape());
  for (int64_t i = 0; i < x.size(); ++i)
    out.setReal(i, f(x.real(i)));
  return single(std::move(out));
}

RegisterEvaluator hardSigmoid(
    {"HardSigmoid"},
    [](Operation *op, const ConstantOperands &in) -> EvaluatedResults {
      double a = getFloat(op, "alpha", 0.2), b = getFloat(op, "beta", 0.5);
      return map(in, [=](double v) {
        return std::isnan(v) ? v : std::clamp(a * v + b, 0.0, 1.0);
      });
    });

RegisterEvaluator
    hardSwish({"HardSwish"},
              [](Operation *, const ConstantOperands &in) -> EvaluatedResults {
                return map(in, [](double v) {
                  return std::isnan(v) ? v
                                       : v * std::clamp(v / 6 + 0.5, 0.0, 1.0);
                });
              });

RegisterEvaluator
    swish({"Swish"},
          [](Operation *op, const ConstantOperands &in) -> EvaluatedResults {
            double a = getFloat(op, "alpha", 1);
            return map(in, [=](double v) { return v * sigmoid(a * v); });
          });

RegisterEvaluator leakyRelu({"LeakyRelu"},
                            [](Operation *op,
                               const ConstantOperands &in) -> EvaluatedResults {
                              double a = getFloat(op, "alpha", 0.01);
                              return map(in, [=](double v) {
                                return v < 0 ? a * v : v;
                              });
                            });

RegisterEvaluator elu(
    {"Elu"}, [](Operation *op, const ConstantOperands &in) -> EvaluatedResults {
      double a = getFloat(op, "alpha", 1);
      return map(in, [=](double v) { return v < 0 ? a * std::expm1(v) : v; });
    });

RegisterEvaluator geluEvaluator(
    {"Gelu"},
    [](Operation *op, const ConstantOperands &in) -> EvaluatedResults {
      StringRef form = getString(op, "approximate", "none");
      if (form != "none" && form != "tanh")
        return std::nullopt;
      return map(in, form == "tanh" ? tanhGelu : gelu);
    });

RegisterEvaluator softplusEvaluator({"Softplus"},
                                    [](Operation *, const ConstantOperands &in)
                                        -> EvaluatedResults {
                                      return map(in, softplus);
                                    });

RegisterEvaluator
    mish({"Mish"},
         [](Operation *, const ConstantOperands &in) -> EvaluatedResults {
           return map(in, [](double v) { return v * std::tanh(softplus(v)); });
         });

} // namespace

} // namespace tessera::onnx

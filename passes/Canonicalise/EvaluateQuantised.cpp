// DequantizeLinear and QuantizeLinear over constants: exact, per tensor, per
// axis and blocked.
#include "passes/Canonicalise/Evaluate.h"

#include "dialects/Onnx/IR/OnnxUtils.h"

#include <cmath>

using namespace mlir;

namespace tessera::onnx {

namespace {

// Which element of `scale` belongs to element i of x.
class ScaleIndex {
public:
  static std::optional<ScaleIndex> get(Operation *op, const HostTensor &x,
                                       const HostTensor &scale) {
    ScaleIndex s;
    if (scale.size() == 1 && scale.rank() <= 1)
      return s;
    auto axis = normaliseAxis(getInt(op, "axis", 1), x.rank());
    if (!axis)
      return std::nullopt;
    int64_t block = getInt(op, "block_size", 0);
    s.perTensor = false;
    s.extent = x.shape()[*axis];
    s.inner = elementCount(x.shape().drop_front(*axis + 1));
    if (block == 0) {
      if (scale.rank() != 1 || scale.size() != s.extent)
        return std::nullopt;
      return s;
    }
    if (block < 0 || scale.rank() != x.rank())
      return std::nullopt;
    for (int64_t a = 0; a < x.rank(); ++a)
      if (scale.shape()[a] != (a == *axis ? (x.shape()[a] + block - 1) / block : x.shape()[a]))
        return std::nullopt;
    s.block = block;
    s.blocks = scale.shape()[*axis];
    return s;
  }
  int64_t operator()(int64_t i) const {
    if (perTensor)
      return 0;
    int64_t a = (i / inner) % extent;
    if (!block)
      return a;
    return ((i / inner / extent) * blocks + a / block) * inner + i % inner;
  }

private:
  bool perTensor = true;
  int64_t extent = 1, inner = 1, block = 0, blocks = 1;
};

bool sameScaleShape(const HostTensor *zp, const HostTensor &scale) {
  return !zp || zp->size() == scale.size();
}

RegisterEvaluator registerDequantize(
    {"DequantizeLinear"}, [](Operation *op, const ConstantOperands &in) -> EvaluatedResults {
      const HostTensor &x = *in[0], &scale = *in[1], *zp = in[2];
      Type to = cast<ShapedType>(op->getResult(0).getType()).getElementType();
      auto at = ScaleIndex::get(op, x, scale);
      if (!at || !sameScaleShape(zp, scale) || !in.fits(to, x.shape()) || !isa<FloatType>(to) ||
          to.isF64() || !scale.isFloat())
        return std::nullopt;
      HostTensor out(to, x.shape());
      for (int64_t i = 0; i < x.size(); ++i) {
        int64_t k = (*at)(i);
        float v;
        if (x.isFloat())
          v = (float)x.real(i) - (zp ? (float)zp->real(k) : 0.0f);
        else
          v = (float)(x.integer(i) - (zp ? zp->integer(k) : 0));
        out.setReal(i, (float)(v * (float)scale.real(k)));
      }
      return single(std::move(out));
    });

RegisterEvaluator registerQuantize(
    {"QuantizeLinear"}, [](Operation *op, const ConstantOperands &in) -> EvaluatedResults {
      const HostTensor &x = *in[0], &scale = *in[1], *zp = in[2];
      Type to = cast<ShapedType>(op->getResult(0).getType()).getElementType();
      auto integer = dyn_cast<IntegerType>(to);
      auto at = ScaleIndex::get(op, x, scale);
      if (!at || !sameScaleShape(zp, scale) || !integer || !in.fits(to, x.shape()) ||
          !x.element().isF32() || !scale.element().isF32() || getInt(op, "precision", 0) != 0)
        return std::nullopt;
      unsigned w = integer.getWidth();
      double lo = integer.isUnsigned() ? 0 : -std::ldexp(1.0, w - 1);
      double hi = std::ldexp(1.0, integer.isUnsigned() ? w : w - 1) - 1;
      HostTensor out(to, x.shape());
      for (int64_t i = 0; i < x.size(); ++i) {
        int64_t k = (*at)(i);
        double v = std::nearbyint((float)x.real(i) / (float)scale.real(k));
        v += zp ? (double)zp->integer(k) : 0;
        if (std::isnan(v))
          return std::nullopt;
        out.setInteger(i, (int64_t)std::clamp(v, lo, hi));
      }
      return single(std::move(out));
    });

} // namespace

} // namespace tessera::onnx

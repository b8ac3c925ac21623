// Resize, where TOSA's exact rational positions are ONNX's.
//
// TOSA samples output o of an axis at (o * d + offset) / n. For linear
// interpolation the three numbers follow from ONNX's transformation; for
// nearest they are searched for and every position of the axis is checked.
#include "mlir/Dialect/Tosa/IR/TosaOps.h"
#include "targets/Tosa/Lower/Quantised.h"
#include "targets/Tosa/Nearest.h"
#include <numeric>

using namespace mlir;

namespace tessera::tosa {
namespace {

/// ONNX's position as a fraction num / den; none for a mode that is not served.
std::optional<std::pair<int64_t, int64_t>> onnxPosition(StringRef mode, int64_t o, int64_t in, int64_t out) {
  if (mode == "asymmetric")
    return std::pair(o * in, out);
  if (mode == "half_pixel" || (mode == "pytorch_half_pixel" && out > 1))
    return std::pair((2 * o + 1) * in - out, 2 * out);
  if (mode == "pytorch_half_pixel" || (mode == "align_corners" && out == 1))
    return std::pair<int64_t, int64_t>(0, 1);
  if (mode == "align_corners")
    return std::pair(o * (in - 1), out - 1);
  return std::nullopt;
}

int64_t onnxNearest(StringRef rounding, int64_t num, int64_t den, int64_t in) {
  int64_t i = floorDiv(num, den), twice = 2 * (num - i * den);
  if (rounding == "ceil")
    i += twice > 0;
  else if (rounding == "round_prefer_ceil")
    i += twice >= den;
  else if (rounding == "round_prefer_floor" || rounding.empty())
    i += twice > den;
  return std::clamp<int64_t>(i, 0, in - 1);
}

std::optional<Sampling> searchNearest(StringRef mode, StringRef rounding, int64_t in, int64_t out) {
  int64_t g = std::gcd(in, out);
  for (int64_t factor : {1, 2, 4}) {
    int64_t n = out / g * factor, d = in / g * factor;
    for (int64_t offset = -n; offset <= n; ++offset) {
      Sampling s{n, d, offset};
      bool same = true;
      for (int64_t o = 0; o < out && same; ++o) {
        auto p = onnxPosition(mode, o, in, out);
        same = nearestOf(s, o, in) == onnxNearest(rounding, p->first, p->second, in);
      }
      if (same)
        return s;
    }
  }
  return std::nullopt;
}

/// Both fractions of the linear positions over one denominator.
Sampling linearSampling(StringRef mode, int64_t in, int64_t out) {
  auto p0 = *onnxPosition(mode, 0, in, out), p1 = *onnxPosition(mode, 1, in, out);
  int64_t n = p0.second, offset = p0.first, d = p1.first - p0.first;
  int64_t g = std::gcd(std::gcd(n, d), offset);
  return {n / g, d / g, offset / g};
}

/// Limits of TOSA on the numbers of one axis.
bool allowed(const Sampling &s, int64_t border) {
  constexpr int64_t maxScale = 256; // of level 8K
  return s.n >= 1 && s.d >= 1 && s.n <= 2048 && s.n / s.d <= maxScale && s.d < 16 * s.n && s.offset >= -s.n &&
         s.offset < 16 * s.n && border >= -16 * s.n && border < s.n;
}

std::optional<Sampling> samplingOf(Operation *op, Lowerer &l, int64_t in, int64_t out) {
  StringRef transform = onnx::getString(op, "coordinate_transformation_mode", "half_pixel");
  StringRef mode = onnx::getString(op, "mode", "nearest");
  if (!onnxPosition(transform, 0, in, out)) {
    l.no() << "coordinate_transformation_mode is '" << transform << "'";
    return std::nullopt;
  }
  if (in == out)
    return Sampling{1, 1, 0};
  std::optional<Sampling> s;
  if (mode == "nearest")
    s = searchNearest(transform, onnx::getString(op, "nearest_mode", "round_prefer_floor"), in, out);
  else if (out > 1)
    s = linearSampling(transform, in, out);
  if (!s || !allowed(*s, s->border(in, out))) {
    l.no() << "from " << in << " to " << out << " by '" << transform << "' is no exact form of TOSA";
    return std::nullopt;
  }
  return s;
}

/// ONNX computes positions by the scale that is given, not by the sizes.
LogicalResult checkScales(Operation *op, Lowerer &l) {
  Value v = onnx::getOptionalOperand(op, 2);
  if (!v || Lowerer::typeOf(v).getNumElements() == 0)
    return success();
  auto t = l.constantOf(v);
  if (!t)
    return l.no() << "input 'scales' is not constant";
  ArrayRef<int64_t> in = Lowerer::shapeOf(op->getOperand(0)), out = Lowerer::shapeOf(op->getResult(0));
  if (t->size() != (int64_t)in.size())
    return l.no() << "scales are of some axes only";
  for (size_t i = 0; i < in.size(); ++i)
    if (t->real(i) != (float)((double)out[i] / in[i]))
      return l.no() << "scale " << t->real(i) << " is not " << out[i] << " / " << in[i];
  return success();
}

/// Whether nearest takes every position a whole number of times.
bool isRepetition(Operation *op, ArrayRef<int64_t> from, ArrayRef<int64_t> to) {
  StringRef transform = onnx::getString(op, "coordinate_transformation_mode", "half_pixel");
  StringRef rounding = onnx::getString(op, "nearest_mode", "round_prefer_floor");
  for (size_t a = 2; a < from.size(); ++a) {
    if (to[a] % from[a] != 0)
      return false;
    for (int64_t o = 0; o < to[a]; ++o) {
      auto p = onnxPosition(transform, o, from[a], to[a]);
      if (!p || onnxNearest(rounding, p->first, p->second, from[a]) != o / (to[a] / from[a]))
        return false;
    }
  }
  return true;
}

LogicalResult lowerLinear(Operation *op, Lowerer &l, ArrayRef<int64_t> from, ArrayRef<int64_t> to) {
  StringRef transform = onnx::getString(op, "coordinate_transformation_mode", "half_pixel");
  Interpolation axes[2];
  axes[0].taps = {1};
  SmallVector<int64_t> out(from.size() == 3, 1);
  for (size_t a = 2; a < from.size(); ++a) {
    auto p = interpolationOf(transform, from[a], to[a]);
    if (!p)
      return l.no() << "linear interpolation of integers from " << from[a] << " to " << to[a] << " by '" << transform
                    << "', which is no whole factor up to 32";
    axes[from.size() == 3 ? 1 : a - 2] = *p;
    out.push_back(to[a]);
  }
  return interpolate(op, l, axes, out);
}

LogicalResult lowerResize(Operation *op, Lowerer &l) {
  Value in = op->getOperand(0), result = op->getResult(0);
  int64_t rank = Lowerer::rankOf(in);
  size_t before = l.reasons.all.size();
  StringRef mode = onnx::getString(op, "mode", "nearest");
  if (rank != 3 && rank != 4)
    return l.no() << "input has rank " << rank << ", 3 and 4 are served";
  if (mode != "nearest" && mode != "linear")
    l.no() << "mode is '" << mode << "'";
  if (onnx::getInt(op, "antialias", 0))
    l.no() << "antialias is set";
  if (StringRef policy = onnx::getString(op, "keep_aspect_ratio_policy", "stretch"); policy != "stretch")
    l.no() << "keep_aspect_ratio_policy is '" << policy << "'";
  ArrayRef<int64_t> from = Lowerer::shapeOf(in), to = Lowerer::shapeOf(result);
  if (from[0] != to[0] || from[1] != to[1])
    l.no() << "resizes batch or channels";
  if (failed(checkScales(op, l)) || l.reasons.all.size() > before)
    return failure();
  if (isQuantised(l.precision)) {
    if (mode == "linear")
      return lowerLinear(op, l, from, to);
    if (isRepetition(op, from, to)) {
      Value x = asImage(l, l.get(in, channelsLast(rank)));
      x = repeatPositions(l, x, rank == 3 ? 1 : to[2] / from[2], to[rank - 1] / from[rank - 1]);
      l.set(result, fromImage(l, x, rank), channelsLast(rank));
      return success();
    }
  }
  SmallVector<int64_t> scale, offset, border;
  if (rank == 3) {
    scale = {1, 1};
    offset = border = {0};
  }
  for (int64_t a = 2; a < rank; ++a) {
    auto s = samplingOf(op, l, from[a], to[a]);
    if (!s)
      return failure();
    scale.append({s->n, s->d});
    offset.push_back(s->offset);
    border.push_back(s->border(from[a], to[a]));
  }
  Value x = asImage(l, l.get(in, channelsLast(rank)));
  ArrayRef<int64_t> s = Lowerer::shapeOf(x);
  auto type = Lowerer::typeOf(x).clone({s[0], rank == 3 ? 1 : to[2], to[rank - 1], s[3]});
  bool nearest = mode == "nearest";
  auto kind = mlir::tosa::ResizeModeAttr::get(l.b.getContext(), nearest ? mlir::tosa::ResizeMode::NEAREST_NEIGHBOR
                                                                        : mlir::tosa::ResizeMode::BILINEAR);
  Value y = l.op("resize", {x, l.shape(scale), l.shape(offset), l.shape(border)}, type, l.attr("mode", kind));
  l.set(result, fromImage(l, y, rank), channelsLast(rank));
  return success();
}

RegisterLowering resize({"Resize"}, Domain::Both, Elements::FloatOrInt,
                        {"antialias", "axes", "coordinate_transformation_mode", "cubic_coeff_a", "exclude_outside",
                         "extrapolation_value", "keep_aspect_ratio_policy", "mode", "nearest_mode"},
                        lowerResize);

} // namespace
} // namespace tessera::tosa

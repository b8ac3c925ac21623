// Resize by nearest neighbours or linear interpolation. Sizes are static, so
// positions and weights are computed here, in double, and go along as a table
// of one quad a position: lower index, upper index, weight of the upper one.
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "targets/Vulkan/Kernels/Boxes.h"

#include <cmath>
#include <cstring>

using namespace mlir;

namespace tessera::vulkan {
namespace {

class Resize {
public:
  Resize(tsr::DispatchOp op, Emitter &e) : op(op), e(e), root(op.getRootOp()) {}
  LogicalResult emit();

private:
  LogicalResult read();
  LogicalResult readScales();
  double coordinate(unsigned axis, int64_t o) const;
  void addTable(unsigned axis);
  Value interpolate(unsigned axis, SmallVector<Index> &at);

  tsr::DispatchOp op;
  Emitter &e;
  Operation *root;
  Buffer *in = nullptr, *out = nullptr, *table = nullptr;
  StringRef mode, coordinates, nearest;
  SmallVector<double> scales; ///< an axis
  SmallVector<std::optional<int64_t>>
      rows; ///< first quad of an axis' table; none: identity
  std::vector<float> entries;
  int64_t unit = 1;
  int laneAxis = -1;
};

/// Scales from operand 2 or sizes; for all axes or those that `axes` names.
LogicalResult Resize::readScales() {
  auto constant = [&](unsigned position) { return rootConstant(op, position); };
  ElementsAttr scaleAttr = constant(2), sizeAttr = constant(3);
  auto given = scaleAttr && scaleAttr.getNumElements()
                   ? onnx::getFloats(scaleAttr)
                   : std::nullopt;
  SmallVector<int64_t> axes = onnx::getInts(root, "axes");
  if (axes.empty())
    for (unsigned k = 0; k < in->rank(); ++k)
      axes.push_back(k);
  scales.assign(in->rank(), 1);
  if (!given && !sizeAttr)
    return e.reasons.no()
           << "a Resize whose scales or sizes only the run knows";
  if (!given &&
      onnx::getString(root, "keep_aspect_ratio_policy", "stretch") != "stretch")
    return e.reasons.no() << "keep_aspect_ratio_policy "
                          << onnx::getString(root, "keep_aspect_ratio_policy",
                                             "stretch");
  for (auto [i, axis] : llvm::enumerate(axes)) {
    axis += axis < 0 ? in->rank() : 0;
    scales[axis] = given ? (*given)[i]
                         : static_cast<double>(out->dims[axis]) /
                               static_cast<double>(in->dims[axis]);
  }
  return success();
}

LogicalResult Resize::read() {
  in = rootBuffer(op, e, 0);
  out = e.out[0].get();
  if (failed(requireAlone(op, e)))
    return failure();
  // Positions are floats in the table.
  if (!in || in->count == 0 ||
      llvm::any_of(in->dims, [](int64_t d) { return d > int64_t(1) << 24; }))
    return e.reasons.no() << "a Resize of a form that is not known";
  mode = onnx::getString(root, "mode", "nearest");
  coordinates =
      onnx::getString(root, "coordinate_transformation_mode", "half_pixel");
  nearest = onnx::getString(root, "nearest_mode", "round_prefer_floor");
  if (mode != "nearest" && mode != "linear")
    return e.reasons.no() << "mode " << mode;
  if (mode == "linear" && (!isa<FloatType>(in->element) || in->element.isF64()))
    return e.reasons.no() << "linear interpolation of "
                          << onnx::getTypeName(in->element);
  if (coordinates == "tf_crop_and_resize" ||
      onnx::getInt(root, "antialias", 0) ||
      onnx::getInt(root, "exclude_outside", 0))
    return e.reasons.no() << "tf_crop_and_resize, antialias or exclude_outside";
  return readScales();
}

double Resize::coordinate(unsigned axis, int64_t o) const {
  double x = static_cast<double>(o),
         length = static_cast<double>(in->dims[axis]), scale = scales[axis];
  double count = static_cast<double>(out->dims[axis]), width = scale * length;
  if (coordinates == "align_corners")
    return width == 1 ? 0 : x * (length - 1) / (width - 1);
  if (coordinates == "asymmetric")
    return x / scale;
  double half = (x + 0.5) / scale - 0.5;
  if (coordinates == "pytorch_half_pixel")
    return width == 1 ? -0.5 : half;
  if (coordinates == "half_pixel_symmetric")
    return length / 2 * (1 - count / width) + half;
  return half;
}

void Resize::addTable(unsigned axis) {
  bool identity = in->dims[axis] == out->dims[axis] && scales[axis] == 1;
  rows.push_back(identity ? std::nullopt
                          : std::optional<int64_t>(entries.size() / 4));
  if (identity)
    return;
  int64_t last = in->dims[axis] - 1;
  for (int64_t o = 0; o < out->dims[axis]; ++o) {
    double x = coordinate(axis, o), floor = std::floor(x), ratio = x - floor;
    int64_t low = static_cast<int64_t>(floor), high = low + 1;
    if (mode == "nearest") {
      bool up = nearest == "ceil"                ? ratio > 0
                : nearest == "round_prefer_ceil" ? ratio >= 0.5
                                                 : ratio > 0.5;
      low += nearest != "floor" && up;
    }
    low = std::clamp<int64_t>(low, 0, last);
    high = std::clamp<int64_t>(high, 0, last);
    entries.insert(entries.end(),
                   {static_cast<float>(low), static_cast<float>(high),
                    static_cast<float>(ratio), 0.0f});
  }
}

/// The value at `at`, whose axes from `axis` on count positions of the result.
Value Resize::interpolate(unsigned axis, SmallVector<Index> &at) {
  while (axis < in->rank() && !rows[axis])
    ++axis;
  if (axis == in->rank()) {
    SmallVector<int64_t> strides(in->strides);
    if (unit == 4)
      for (auto [k, s] : llvm::enumerate(strides))
        s = static_cast<int>(k) == laneAxis ? 1 : s / 4;
    Index from = e.offset(at, strides);
    return unit == 4 ? e.loadQuad(*in, from) : e.load(*in, from);
  }
  Value row = e.loadQuad(*table, e.add(*rows[axis], at[axis]));
  auto index = [&](unsigned lane) {
    return Index(
        Value(arith::FPToSIOp::create(e.b, e.loc, e.i32(), e.lane(row, lane))));
  };
  Index here = at[axis];
  at[axis] = index(0);
  Value v = interpolate(axis + 1, at);
  if (mode == "linear") {
    at[axis] = index(1);
    Value upper = interpolate(axis + 1, at), weight = e.lane(row, 2);
    if (unit == 4)
      weight = e.quadSplat(weight);
    v = e.fma(e.subF(upper, v), weight, v);
  }
  at[axis] = here;
  return v;
}

LogicalResult Resize::emit() {
  if (failed(read()))
    return failure();
  for (unsigned k = 0; k < in->rank(); ++k)
    addTable(k);
  if (llvm::count_if(rows, [](auto r) { return r.has_value(); }) > 3)
    return e.reasons.no() << "a Resize of more than three axes";
  if (!entries.empty()) {
    std::vector<uint8_t> bytes(entries.size() * 4);
    std::memcpy(bytes.data(), entries.data(), bytes.size());
    table = &e.pack(0, e.f32(), std::move(bytes));
    table->useVectors();
  }
  for (unsigned k = 0; k < in->rank(); ++k) {
    bool aligned = !rows[k] && in->strides[k] == 1 && out->strides[k] == 1 &&
                   in->dims[k] % 4 == 0;
    for (unsigned other = 0; other < in->rank(); ++other)
      aligned &= other == k ||
                 (in->strides[other] % 4 == 0 && out->strides[other] % 4 == 0);
    if (aligned && in->useVectors() && out->useVectors())
      laneAxis = k, unit = 4;
  }
  SmallVector<int64_t> sizes(out->dims);
  if (laneAxis >= 0)
    sizes[laneAxis] /= 4;
  e.gridLike(*out, sizes, [&](Index id, SmallVector<Index> at) {
    Value v = interpolate(0, at);
    if (isa<FloatType>(in->element))
      v = e.round(v, out->element);
    if (unit == 4)
      e.storeQuad(*out, id, v);
    else
      e.store(*out, id, v);
  });
  return success();
}

LogicalResult emitResize(tsr::DispatchOp op, Emitter &e) {
  return Resize(op, e).emit();
}
Register resize({"onnx.Resize"}, emitResize);

} // namespace
} // namespace tessera::vulkan

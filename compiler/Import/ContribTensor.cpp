// Operators of com.microsoft that move, sample and search.
#include "compiler/Import/Contrib.h"

#include <cmath>

namespace tessera::onnx_import {

namespace {

using T = TensorProto;

void gridSample(Recipe &r) {
  std::string mode = r.word("mode", "bilinear");
  if (mode != "bilinear" && mode != "nearest" && mode != "bicubic")
    throw Unsupported{"attribute 'mode' of '" + mode + "'"};
  std::string padding = r.word("padding_mode", "zeros");
  if (mode == "bicubic" &&
      padding == "border") // of the samples, or of the place between them
    throw Unsupported{
        "attribute 'padding_mode' of 'border' with 'mode' of 'bicubic'"};
  r.out(0, r.op("GridSample", {r.in(0), r.need(1)},
                {S("mode", mode == "nearest"   ? mode
                           : mode == "bicubic" ? "cubic"
                                               : "linear"),
                 S("padding_mode", padding),
                 I("align_corners", r.integer("align_corners", 0))}));
}
void pad(Recipe &r) {
  Val value = r.has(2) ? r.reshape(r.in(2), {}) : Val();
  r.out(0, r.op("Pad", {r.in(0), r.reshape(r.need(1), {-1}), value},
                {S("mode", r.word("mode", "constant"))}));
}
void range(Recipe &r) {
  auto scalar = [&](int i) { return r.reshape(r.need(i), {}); };
  r.out(0, r.op("Range",
                {scalar(0), scalar(1),
                 r.has(2) ? scalar(2) : r.castLike(r.intScalar(1), r.in(0))}));
}
void trilu(Recipe &r) {
  r.out(0, r.op("Trilu", {r.in(0), r.has(1) ? r.reshape(r.in(1), {}) : Val()},
                {I("upper", r.integer("upper", 1))}));
}
// Values in the order in which they come, where each is, how often.
void unique(Recipe &r) {
  auto y = r.ops("Unique", {r.in(0)}, 4, {I("sorted", 0)});
  r.out(0, y[0]);
  r.out(1, y[2]);
  r.out(2, y[3]);
}
void gatherNd(Recipe &r) {
  r.out(0, r.op("GatherND", {r.in(0), r.cast(r.need(1), T::INT64)},
                {I("batch_dims", 0)}));
}
void expandDims(Recipe &r) {
  r.out(0, r.op("Unsqueeze",
                {r.in(0), r.reshape(r.cast(r.need(1), T::INT64), {1})}));
}
void isAllFinite(Recipe &r) {
  bool inf = r.integer("isinf_only", 0), nan = r.integer("isnan_only", 0);
  if (inf && nan)
    throw Unsupported{"attribute 'isnan_only' together with 'isinf_only'"};
  Val all;
  for (int i = 0; i < r.inputs(); ++i) {
    Val x = r.reshape(r.in(i), {-1}), bad;
    if (!nan)
      bad = r.op("IsInf", {x},
                 {I("detect_negative", 1), I("detect_positive", 1)});
    if (!inf)
      bad = bad.empty() ? r.op("IsNaN", {x})
                        : r.op("Or", {bad, r.op("IsNaN", {x})});
    Val fine =
        r.op("Equal", {r.reduce("ReduceSum", r.cast(bad, T::INT64), {0}, false),
                       r.intScalar(0)});
    all = all.empty() ? fine : r.op("And", {all, fine});
  }
  r.out(0, all);
}

// Distances between the rows of two matrices.
void cdist(Recipe &r) {
  std::string metric = r.word("metric", "sqeuclidean");
  if (metric != "sqeuclidean" && metric != "euclidean")
    throw Unsupported{"attribute 'metric' of '" + metric + "'"};
  Val d = r.sub(r.unsqueeze(r.in(0), {1}), r.unsqueeze(r.need(1), {0}));
  Val y = r.reduce("ReduceSum", r.mul(d, d), {2}, false);
  r.out(0, metric == "euclidean" ? r.op("Sqrt", {y}) : y);
}

// All slices of `size` along an axis, one every `step`; a new last axis has
// them.
void unfoldTensor(Recipe &r) {
  int n = r.rank(0);
  int64_t axis = r.integer("dim", -1), size = r.positive("size"),
          step = r.find("step", AttributeProto::INT) ? r.positive("step") : 1;
  axis += axis < 0 ? n : 0;
  if (axis < 0 || axis >= n)
    throw Unsupported{"attribute 'dim' of " + std::to_string(axis)};
  Val slices = r.add(
      r.div(r.sub(r.dim(r.in(0), axis), r.intScalar(size)), r.intScalar(step)),
      r.intScalar(1));
  Val from = r.mul(r.unsqueeze(r.count(slices), {1}), r.intScalar(step));
  Val at = r.add(from, r.unsqueeze(r.count(r.ints({size})), {0}));
  Val y =
      r.op("Gather", {r.in(0), at}, {I("axis", axis)}); // .., slices, size, ..
  std::vector<int64_t> perm;
  for (int64_t k = 0; k <= n; ++k)
    if (k != axis + 1)
      perm.push_back(k);
  perm.push_back(axis + 1);
  r.out(0, r.transpose(y, perm));
}

// Boxes [y1, x1, y2, x2] in units of the image's last pixel, resized with their
// corners on the corners of the result.
class Crop {
public:
  explicit Crop(Recipe &r) : r(r) {}
  void write() {
    std::string mode = r.word("mode", "bilinear");
    if (mode != "bilinear" && mode != "nearest")
      throw Unsupported{"attribute 'mode' of '" + mode + "'"};
    linear = mode == "bilinear";
    image = r.op("Gather", {r.in(0), r.cast(r.need(2), T::INT64)},
                 {I("axis", 0)}); // [R, C, H, W]
    crop = r.cast(r.need(3), T::INT64);
    Val y = along(image, 2, 0, 2), inside = valid;
    y = along(y, 3, 1, 3);
    inside = r.op("And", {inside, valid});
    r.out(0, r.where(inside, y,
                     r.scalarLike(r.number("extrapolation_value", 0), y)));
  }

private:
  // Resizes one axis; sets `valid`, broadcastable to the result.
  Val along(const Val &x, int64_t axis, int64_t lo, int64_t hi) {
    Val wanted = r.slice(crop, 0, axis - 2, axis - 1);
    auto bound = [&](int64_t i) {
      return r.slice(r.need(1), 1, i, i + 1);
    };                                                               // [R, 1]
    Val size = r.castLike(r.sub(r.dim(x, axis), r.intScalar(1)), x); // [1]
    Val begin = r.mul(bound(lo), size),
        span = r.mul(r.sub(bound(hi), bound(lo)), size);
    Val steps = r.castLike(r.sub(wanted, r.intScalar(1)), x),
        one = r.scalarLike(1, x);
    Val step = r.div(span, r.op("Max", {steps, one}));
    Val at = r.add(
        begin, r.mul(r.castLike(r.unsqueeze(r.count(wanted), {0}), x), step));
    Val middle =
        r.mul(r.scalarLike(0.5f, x), r.mul(r.add(bound(lo), bound(hi)), size));
    at = r.where(r.op("Greater", {wanted, r.ints({1})}), at,
                 middle); // [R, wanted]
    Val outside = r.op("Or", {r.op("Less", {at, r.scalarLike(0, x)}),
                              r.op("Greater", {at, size})});
    valid = place(r.op("Not", {outside}), axis);
    at = r.where(outside, r.scalarLike(0, x), at);
    auto pick = [&](const Val &which) {
      Val shape =
          r.concat({r.dims(x, 0, axis), wanted, r.dims(x, axis + 1, 4)}, 0);
      return r.op(
          "GatherElements",
          {x, r.op("Expand", {place(r.cast(which, T::INT64), axis), shape})},
          {I("axis", axis)});
    };
    if (!linear) // half away from zero
      return pick(r.op("Floor", {r.add(at, r.scalarLike(0.5f, x))}));
    Val low = r.op("Floor", {at}), weight = place(r.sub(at, low), axis);
    Val a = pick(low), b = pick(r.op("Ceil", {at}));
    return r.add(a, r.mul(r.sub(b, a), weight));
  }
  Val place(const Val &v, int64_t axis) {
    return r.unsqueeze(v, axis == 2 ? std::vector<int64_t>{1, 3}
                                    : std::vector<int64_t>{1, 2});
  }

  Recipe &r;
  bool linear = true;
  Val image, crop, valid;
};
void cropAndResize(Recipe &r) { Crop(r).write(); }

// Tokens that would repeat an n-gram of their row get a score of -infinity.
void nGramRepeatBlock(Recipe &r) {
  int64_t n = r.integer("ngram_size", 0);
  if (n <= 0 || n > 64) // a comparison for each token
    throw Unsupported{"attribute 'ngram_size' of " + std::to_string(n)};
  Val ids = r.in(0), scores = r.need(1), length = r.dim(ids, 1);
  // Where the unfinished n-gram begins, and how many n-grams there are.
  Val last = r.op("Max", {r.sub(length, r.ints({n - 1})), r.ints({0})});
  Val match;
  for (int64_t j = 0; j + 1 < n; ++j) {
    Val from = r.add(last, r.ints({j}));
    Val token = r.slice(ids, 1, from, r.add(from, r.ints({1})));
    Val old = r.slice(ids, 1, r.ints({j}),
                      r.add(last, r.ints({j}))); // the token of each n-gram
    Val same = r.op("Equal", {old, token});
    match = match.empty() ? same : r.op("And", {match, same});
  }
  Val target = r.slice(ids, 1, r.ints({n - 1}), length);
  Val infinity = r.scalarLike(INFINITY, scores);
  Val none = r.op("Neg", {infinity});
  Val update = match.empty() ? r.op("Expand", {none, r.op("Shape", {target})})
                             : r.where(match, none, infinity);
  r.out(0, r.op("ScatterElements", {scores, target, update},
                {I("axis", 1), S("reduction", "min")}));
}

// Gauss and Jordan with the largest pivot of each column.
void inverse(Recipe &r) {
  int rank = r.rank(0);
  int64_t n = r.knownSize(0, rank - 1);
  constexpr int64_t largest = 32;
  if (rank < 2 || n != r.knownSize(0, rank - 2) || n > largest)
    throw Unsupported{"matrices of " + std::to_string(n) +
                      " columns (more than " + std::to_string(largest) +
                      ", or not square)"};
  Val shape = r.op("Shape", {r.in(0)});
  int type = r.elementType(0) == T::DOUBLE ? T::DOUBLE : T::FLOAT;
  Val x = r.cast(r.reshape(r.in(0), {-1, n, n}), type);
  Val batch = r.dim(x, 0);
  Val unit =
      r.castLike(r.op("EyeLike", {r.op("ConstantOfShape", {r.ints({n, n})})},
                      {I("k", 0), I("dtype", T::FLOAT)}),
                 x);
  x = r.concat(
      {x, r.op("Expand", {unit, r.concat({batch, r.ints({n, n})}, 0)})},
      2); // [B, n, 2 n]
  Val row = r.count(r.ints({n}));
  Val wide = r.concat({batch, r.ints({n, 2 * n})}, 0);
  for (int64_t k = 0; k < n; ++k) {
    Val at = r.intScalar(k);
    Val column =
        r.op("Abs", {r.op("Gather", {x, at}, {I("axis", 2)})}); // [B, n]
    Val rest = r.where(r.op("Less", {row, at}), r.scalarLike(-1, x), column);
    Val pivot = r.op(
        "ArgMax", {rest},
        {I("axis", 1), I("keepdims", 1), I("select_last_index", 0)}); // [B, 1]
    Val from = r.where(r.op("Equal", {row, at}), pivot,
                       r.where(r.op("Equal", {row, pivot}), at, row));
    x = r.op("GatherElements",
             {x, r.op("Expand", {r.unsqueeze(from, {2}), wide})},
             {I("axis", 1)});
    Val line = r.slice(x, 1, k, k + 1); // [B, 1, 2 n]
    line = r.div(line, r.slice(line, 2, k, k + 1));
    Val others = r.sub(x, r.mul(r.slice(x, 2, k, k + 1), line));
    x = r.where(r.unsqueeze(r.op("Equal", {row, at}), {1}), line, others);
  }
  r.out(0, r.castLike(r.reshapeTo(r.slice(x, 2, n, 2 * n), shape), r.in(0)));
}

//===----------------------------------------------------------------------===//
// Fourier transforms of real signals, over the last axis
//===----------------------------------------------------------------------===//

void checkTransform(Recipe &r) {
  r.onlyValue("normalized", 0);
  r.onlyValue("onesided", 1);
  r.onlyValue("signal_ndim", 1);
}
void rfft(Recipe &r) {
  checkTransform(r);
  r.out(0, r.op("DFT", {r.unsqueeze(r.in(0), {-1}), "", r.intScalar(-2)},
                {I("inverse", 0), I("onesided", 1)}));
}
void irfft(Recipe &r) { // the other half is the conjugate, mirrored
  checkTransform(r);
  int n = r.rank(0);
  Val x = r.in(0), bins = r.dim(x, n - 2);
  Val inner = r.op("Slice", {x, r.sub(bins, r.ints({2})), r.ints({0}),
                             r.ints({n - 2}), r.ints({-1})});
  Val sign = r.castLike(r.floatList({1, -1}), x);
  Val y = r.op("DFT",
               {r.concat({x, r.mul(inner, sign)}, n - 2), "", r.intScalar(-2)},
               {I("inverse", 1), I("onesided", 0)});
  r.out(0, r.squeeze(r.slice(y, n - 1, 0, 1), {n - 1}));
}

// (a + bi)(c + di), real and imaginary parts along the last axis.
void complexProduct(Recipe &r, bool conjugate) {
  int n = r.rank(0), m = r.rank(1);
  auto part = [&](int i, int axis, int64_t k) {
    return r.slice(r.in(i), axis, k, k + 1);
  };
  Val a = part(0, n - 1, 0), b = part(0, n - 1, 1), c = part(1, m - 1, 0),
      d = part(1, m - 1, 1);
  if (conjugate)
    d = r.op("Neg", {d});
  r.out(0, r.concat({r.sub(r.mul(a, c), r.mul(b, d)),
                     r.add(r.mul(a, d), r.mul(b, c))},
                    std::max(n, m) - 1));
}
void complexMul(Recipe &r) { complexProduct(r, false); }
void complexMulConj(Recipe &r) { complexProduct(r, true); }

} // namespace

llvm::ArrayRef<ContribOperator> tensorOperators() {
  static const std::vector<ContribOperator> list = {
      {"GridSample",
       gridSample,
       2,
       1,
       {"align_corners", "mode", "padding_mode"}},
      {"Pad", pad, 3, 1, {"mode"}},
      {"Range", range, 3, 1, {}},
      {"Trilu", trilu, 2, 1, {"upper"}},
      {"Unique", unique, 1, 3, {}},
      {"GatherND", gatherNd, 2, 1, {}},
      {"ExpandDims", expandDims, 2, 1, {}},
      {"IsAllFinite", isAllFinite, 1 << 20, 1, {"isinf_only", "isnan_only"}},
      {"CDist", cdist, 2, 1, {"metric"}},
      {"UnfoldTensor", unfoldTensor, 1, 1, {"dim", "size", "step"}},
      {"CropAndResize", cropAndResize, 4, 1, {"extrapolation_value", "mode"}},
      {"NGramRepeatBlock", nGramRepeatBlock, 2, 1, {"ngram_size"}},
      {"Inverse", inverse, 1, 1, {}},
      {"Rfft", rfft, 1, 1, {"normalized", "onesided", "signal_ndim"}},
      {"Irfft", irfft, 1, 1, {"normalized", "onesided", "signal_ndim"}},
      {"ComplexMul", complexMul, 2, 1, {}},
      {"ComplexMulConj", complexMulConj, 2, 1, {}},
  };
  return list;
}

} // namespace tessera::onnx_import

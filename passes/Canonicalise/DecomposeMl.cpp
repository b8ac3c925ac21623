// Operators of ai.onnx.ml that are tensor arithmetic. Where the schema's text is
// silent the reference implementation decides (names in the comments).
#include "passes/Canonicalise/DecomposeMl.h"

#include "dialects/Onnx/IR/Unsupported.h"

#include <cmath>
#include <cstring>
#include <set>

using namespace mlir;

namespace tessera::onnx {

namespace {

RankedTensorType withElement(Value v, Type element) { return rankedType(v).clone(element); }

Value compare(OnnxBuilder &b, StringRef name, Value x, Value y) {
  return b.op(name, {x, y}, broadcastType(x.getType(), y.getType(), b.attrs().getI1Type()));
}

Value where(OnnxBuilder &b, Value condition, Value x, Value y) {
  RankedTensorType both = broadcastType(x.getType(), y.getType(), elementType(x));
  return b.op("Where", {condition, x, y}, broadcastType(condition.getType(), both, elementType(x)));
}

Value floats(OnnxBuilder &b, Type element, ArrayRef<float> v, ArrayRef<int64_t> shape) {
  HostTensor t(element, shape);
  t.mutableData();
  for (auto [i, x] : llvm::enumerate(v))
    t.setReal(i, x);
  return b.weight(t);
}

/// The element type that linear models compute in: double stays, the rest is float.
Type working(Value x, OnnxBuilder &b) {
  return elementType(x).isF64() ? elementType(x) : Type(b.attrs().getF32Type());
}

/// Whether `v` is a list of 1 or of as many elements as the last axis of `x`.
bool fitsLastAxis(size_t n, Value x) {
  RankedTensorType t = rankedType(x);
  return n == 1 || (t.getRank() > 0 && (int64_t)n == t.getDimSize(t.getRank() - 1));
}

Value softmaxZero(OnnxBuilder &b, Value x) {
  auto c = [&](double v) { return b.scalar(elementType(x), v); };
  int64_t last = rankedType(x).getRank() - 1;
  Value most = b.reduce("ReduceMax", x, {last}, true);
  Value large = compare(b, "Greater", b.unary("Abs", x), c(1e-7f)); // as in targets/Cpu/Kernels/TreeScores.cpp
  Value e = where(b, large, b.unary("Exp", b.sub(x, most)), b.mul(x, b.unary("Exp", b.unary("Neg", most))));
  Value sum = b.reduce("ReduceSum", e, {last}, true);
  Value none = compare(b, "Equal", sum, c(0));
  return where(b, none, c(0.5), b.div(e, where(b, none, c(1), sum)));
}

/// sqrt(2) erfinv(2 x - 1), as _common_classifier.py approximates it; TreeScores.cpp has it for trees.
Value probit(OnnxBuilder &b, Value x) {
  auto c = [&](double v) { return b.scalar(elementType(x), v); };
  Value z = b.sub(b.mul(x, c(2)), c(1));
  Value w = b.mul(b.sub(c(1), z), b.add(z, c(1)));
  Value flat = compare(b, "Equal", w, c(0));
  Value log = b.unary("Log", where(b, flat, c(1), w));
  Value v = b.add(b.mul(log, c(0.5)), c(2 / (M_PI * 0.147))), v2 = b.mul(log, c(1 / 0.147));
  Value root = b.unary("Sqrt", b.sub(b.unary("Sqrt", b.sub(b.mul(v, v), v2)), v));
  Value y = b.mul(b.mul(where(b, compare(b, "Less", z, c(0)), c(-1), c(1)), root), c(1.41421356));
  return where(b, flat, c(0), y);
}

/// Whether `op` takes or gives strings: LowerStrings.cpp has a rule for it.
bool onStrings(Operation *op) {
  auto strings = [](Type t) { return isa<ShapedType>(t) && isa<StringType>(cast<ShapedType>(t).getElementType()); };
  return llvm::any_of(op->getOperandTypes(), strings) || llvm::any_of(op->getResultTypes(), strings);
}

LogicalResult unranked(Operation *op, unsigned input) {
  return unsupportedInput(op, input, "its rank is not known");
}

LogicalResult unknownTransform(Operation *op) {
  return unsupportedAttribute(op, "post_transform", "expected NONE, LOGISTIC, SOFTMAX, SOFTMAX_ZERO or PROBIT");
}

/// Null where the transform is not known.
Value postTransform(OnnxBuilder &b, Value x, StringRef name) {
  if (name == "NONE")
    return x;
  if (name == "LOGISTIC")
    return b.unary("Sigmoid", x);
  if (name == "SOFTMAX")
    return b.unary("Softmax", x, {b.i("axis", -1)});
  if (name == "SOFTMAX_ZERO")
    return softmaxZero(b, x);
  if (name == "PROBIT")
    return probit(b, x);
  return {};
}

LogicalResult binarizer(Operation *op, PatternRewriter &r) {
  Value x = operand(op, 0);
  OnnxBuilder b(r, op->getLoc());
  if (!rankedType(x))
    return unranked(op, 0);
  float threshold = getFloat(op, "threshold", 0);
  Type element = elementType(x), wide = isa<FloatType>(element) ? element : Type(r.getF64Type());
  Value above = compare(b, "Greater", b.cast(x, wide), b.scalar(wide, threshold));
  replaceRefining(r, op, b.cast(above, element));
  return success();
}

LogicalResult scaler(Operation *op, PatternRewriter &r) {
  Value x = operand(op, 0);
  SmallVector<float> offset = getFloats(op, "offset"), scale = getFloats(op, "scale");
  OnnxBuilder b(r, op->getLoc());
  if (!rankedType(x))
    return unranked(op, 0);
  if (!offset.empty() && !fitsLastAxis(offset.size(), x))
    return unsupportedAttribute(op, "offset", "expected one value, or one for each element of the last axis");
  if (!scale.empty() && !fitsLastAxis(scale.size(), x))
    return unsupportedAttribute(op, "scale", "expected one value, or one for each element of the last axis");
  Type element = working(x, b);
  Value y = b.cast(x, element);
  if (!offset.empty())
    y = b.sub(y, floats(b, element, offset, {(int64_t)offset.size()}));
  if (!scale.empty())
    y = b.mul(y, floats(b, element, scale, {(int64_t)scale.size()}));
  replaceRefining(r, op, b.cast(y, r.getF32Type()));
  return success();
}

LogicalResult normalizer(Operation *op, PatternRewriter &r) {
  Value x = operand(op, 0);
  OnnxBuilder b(r, op->getLoc());
  if (!rankedType(x) || rankedType(x).getRank() < 1 || rankedType(x).getRank() > 2)
    return unsupportedInput(op, 0, "expected rank 1 or 2");
  StringRef norm = getString(op, "norm", "MAX");
  Type element = working(x, b);
  x = b.cast(x, element);
  int64_t axis = rankedType(x).getRank() - 1;
  Value size;
  if (norm == "MAX")
    size = b.reduce("ReduceMax", x, {axis}, true); // the schema says max(X), not max(|X|)
  else if (norm == "L1")
    size = b.reduce("ReduceSum", b.unary("Abs", x), {axis}, true);
  else if (norm == "L2")
    size = b.unary("Sqrt", b.reduce("ReduceSum", b.mul(x, x), {axis}, true));
  else
    return unsupportedAttribute(op, "norm", "expected MAX, L1 or L2");
  Value none = compare(b, "Equal", size, b.scalar(element, 0)); // Y == X then
  Value y = b.div(x, where(b, none, b.scalar(element, 1), size));
  replaceRefining(r, op, b.cast(y, r.getF32Type()));
  return success();
}

LogicalResult imputer(Operation *op, PatternRewriter &r) {
  Value x = operand(op, 0);
  OnnxBuilder b(r, op->getLoc());
  if (!rankedType(x))
    return unranked(op, 0);
  bool isFloat = isa<FloatType>(elementType(x));
  SmallVector<float> reals = getFloats(op, "imputed_value_floats");
  SmallVector<int64_t> integers = getInts(op, "imputed_value_int64s");
  size_t n = isFloat ? reals.size() : integers.size();
  StringRef list = isFloat ? "imputed_value_floats" : "imputed_value_int64s";
  if (n == 0 || !fitsLastAxis(n, x))
    return unsupportedAttribute(op, list, "expected one value, or one for each element of the last axis");
  HostTensor values(elementType(x), {(int64_t)n});
  values.mutableData();
  for (size_t i = 0; i < n; ++i)
    if (isFloat)
      values.setReal(i, reals[i]);
    else if (values.setInteger(i, integers[i]); values.integer(i) != integers[i])
      return unsupportedAttribute(op, list, "the element type of the input does not hold " + Twine(integers[i]));
  HostTensor lost(isFloat ? Type(r.getF32Type()) : r.getI64Type(), {});
  lost.mutableData();
  if (isFloat)
    lost.setReal(0, getFloat(op, "replaced_value_float", 0));
  else
    lost.setInteger(0, getInt(op, "replaced_value_int64", 0));
  replaceRefining(r, op, where(b, equalKeys(b, x, lost), b.weight(values), x));
  return success();
}

LogicalResult arrayFeatureExtractor(Operation *op, PatternRewriter &r) {
  Value x = operand(op, 0), at = operand(op, 1);
  OnnxBuilder b(r, op->getLoc());
  if (!rankedType(x) || rankedType(x).getRank() < 1)
    return unsupportedInput(op, 0, "expected a known rank of at least 1");
  if (!rankedType(at))
    return unranked(op, 1);
  RankedTensorType t = rankedType(at);
  int64_t count = t.hasStaticShape() ? t.getNumElements() : ShapedType::kDynamic;
  at = b.reshape(at, {-1}, t.clone(ArrayRef<int64_t>{count}));
  SmallVector<int64_t> shape(rankedType(x).getShape());
  shape.back() = count;
  Value y = b.op("Gather", {x, at}, rankedType(x).clone(shape), {b.i("axis", (int64_t)shape.size() - 1)});
  replaceRefining(r, op, shape.size() == 1 ? b.unsqueeze(y, {0}) : y);
  return success();
}

LogicalResult featureVectorizer(Operation *op, PatternRewriter &r) {
  SmallVector<int64_t> widths = getInts(op, "inputdimensions");
  OnnxBuilder b(r, op->getLoc());
  SmallVector<Value> parts;
  int64_t total = 0, rows = ShapedType::kDynamic;
  if (!widths.empty() && widths.size() != op->getNumOperands())
    return unsupportedAttribute(op, "inputdimensions", "the node has " + Twine(op->getNumOperands()) + " inputs");
  for (auto [i, x] : llvm::enumerate(op->getOperands())) {
    RankedTensorType t = rankedType(x);
    if (!t || t.getRank() != 2 || t.isDynamicDim(1))
      return unsupportedInput(op, i, "expected rank 2 and a known number of columns");
    if (!widths.empty() && widths[i] != t.getDimSize(1))
      return unsupportedAttribute(op, "inputdimensions",
                                  "input " + Twine(i) + " has " + Twine(t.getDimSize(1)) + " columns");
    total += t.getDimSize(1);
    rows = t.isDynamicDim(0) ? rows : t.getDimSize(0);
    parts.push_back(b.cast(x, r.getF32Type()));
  }
  Type type = RankedTensorType::get({rows, total}, r.getF32Type());
  replaceRefining(r, op, b.op("Concat", parts, type, {b.i("axis", 1)}));
  return success();
}

LogicalResult oneHotEncoder(Operation *op, PatternRewriter &r) {
  Value x = operand(op, 0);
  SmallVector<int64_t> cats = getInts(op, "cats_int64s");
  OnnxBuilder b(r, op->getLoc());
  if (onStrings(op))
    return failure();
  if (!rankedType(x))
    return unranked(op, 0);
  if (cats.empty())
    return unsupportedAttribute(op, "cats_int64s", "categories are expected for numbers");
  if (getInt(op, "zeros", 1) == 0)
    return unsupportedAttribute(op, "zeros", "an unknown category is an error then, which a kernel cannot raise");
  if (std::set<int64_t>(cats.begin(), cats.end()).size() != cats.size())
    return unsupportedAttribute(op, "cats_int64s", "two are equal, and runtimes differ on which counts");
  // The schema casts the data to integers: 1.5 is of category 1.
  Value wide = b.unsqueeze(b.cast(x, r.getI64Type()), {rankedType(x).getRank()});
  replaceRefining(r, op, b.cast(compare(b, "Equal", wide, b.ints(cats)), r.getF32Type()));
  return success();
}

LogicalResult linearRegressor(Operation *op, PatternRewriter &r) {
  Value x = operand(op, 0);
  SmallVector<float> coefficients = getFloats(op, "coefficients"), intercepts = getFloats(op, "intercepts");
  int64_t targets = getInt(op, "targets", 1);
  OnnxBuilder b(r, op->getLoc());
  RankedTensorType t = rankedType(x);
  if (!t || t.getRank() != 2)
    return unsupportedInput(op, 0, "expected rank 2");
  if (targets < 1 || coefficients.empty() || coefficients.size() % targets != 0)
    return unsupportedAttribute(op, "targets", Twine(coefficients.size()) + " coefficients do not divide by it");
  if (!intercepts.empty() && (int64_t)intercepts.size() != targets)
    return unsupportedAttribute(op, "intercepts", "expected " + Twine(targets) + " values, one a target");
  int64_t features = coefficients.size() / targets;
  Type element = working(x, b);
  Value w = floats(b, element, coefficients, {targets, features});
  Value y = b.matmul(b.cast(x, element), b.transpose(w, {1, 0}));
  if (!intercepts.empty())
    y = b.add(y, floats(b, element, intercepts, {targets}));
  y = postTransform(b, y, getString(op, "post_transform", "NONE"));
  if (!y)
    return unknownTransform(op);
  replaceRefining(r, op, b.cast(y, r.getF32Type()));
  return success();
}

LogicalResult linearClassifier(Operation *op, PatternRewriter &r) {
  Value x = operand(op, 0);
  SmallVector<float> coefficients = getFloats(op, "coefficients"), intercepts = getFloats(op, "intercepts");
  SmallVector<int64_t> labels = getInts(op, "classlabels_ints");
  OnnxBuilder b(r, op->getLoc());
  RankedTensorType t = rankedType(x);
  if (onStrings(op) || op->getNumResults() != 2)
    return failure();
  if (!t || t.getRank() != 2 || t.isDynamicDim(1) || t.getDimSize(1) == 0)
    return unsupportedInput(op, 0, "expected rank 2 and a known number of columns");
  if (labels.empty())
    return unsupportedAttribute(op, "classlabels_ints", "labels are expected");
  if (coefficients.empty() || coefficients.size() % t.getDimSize(1) != 0)
    return unsupportedAttribute(op, "coefficients", "their number does not divide by that of the columns, " +
                                                        Twine(t.getDimSize(1)));
  int64_t features = t.getDimSize(1), rows = coefficients.size() / features, classes = labels.size();
  bool binary = rows == 1 && classes == 2;
  if ((!binary && rows != classes) || classes < 2)
    return unsupportedAttribute(op, "classlabels_ints", Twine(classes) + " labels for coefficients of " +
                                                            Twine(rows) + " classes");
  if (!intercepts.empty() && (int64_t)intercepts.size() != rows)
    return unsupportedAttribute(op, "intercepts", "expected " + Twine(rows) + " values");
  StringRef post = getString(op, "post_transform", "NONE");
  if (binary && post == "PROBIT")
    return unsupportedAttribute(op, "post_transform", "one of two scores -s and s has no probit");
  Type element = working(x, b);
  Value w = floats(b, element, coefficients, {rows, features});
  Value scores = b.matmul(b.cast(x, element), b.transpose(w, {1, 0}));
  if (!intercepts.empty())
    scores = b.add(scores, floats(b, element, intercepts, {rows}));
  if (binary)
    scores = b.op("Concat", {b.unary("Neg", scores), scores},
                  rankedType(scores).clone(ArrayRef<int64_t>{t.getDimSize(0), 2}), {b.i("axis", 1)});
  scores = postTransform(b, scores, post);
  if (!scores)
    return unknownTransform(op);
  Type i64 = r.getI64Type();
  Type vector = RankedTensorType::get({t.getDimSize(0)}, i64);
  Value best = b.op("ArgMax", {scores}, vector, {b.i("axis", 1), b.i("keepdims", 0)});
  Value label = b.op("Gather", {b.ints(labels), best}, vector, {b.i("axis", 0)});
  replaceRefining(r, op, {label, b.cast(scores, r.getF32Type())});
  return success();
}

/// Kernel values of every row of x [N, F] against every support vector [S, F].
Value kernelMatrix(OnnxBuilder &b, Value x, Value vectors, StringRef kind, ArrayRef<float> p) {
  auto c = [&](double v) { return b.scalar(elementType(x), v); };
  double gamma = p.size() > 0 ? p[0] : 0, offset = p.size() > 1 ? p[1] : 0, degree = p.size() > 2 ? p[2] : 0;
  if (kind == "RBF") {
    Value d = b.sub(b.unsqueeze(x, {1}), vectors);
    return b.unary("Exp", b.mul(c(-gamma), b.reduce("ReduceSum", b.mul(d, d), {2}, false)));
  }
  Value dot = b.matmul(x, b.transpose(vectors, {1, 0}));
  if (kind == "LINEAR")
    return dot;
  Value s = b.add(b.mul(dot, c(gamma)), c(offset));
  if (kind == "POLY") // a fractional degree: runtimes differ on what it means
    return degree == std::trunc(degree) ? b.binary("Pow", s, c(degree)) : Value();
  return kind == "SIGMOID" ? b.unary("Tanh", s) : Value();
}

LogicalResult svmRegressor(Operation *op, PatternRewriter &r) {
  Value x = operand(op, 0);
  SmallVector<float> coefficients = getFloats(op, "coefficients"), vectors = getFloats(op, "support_vectors"),
                     rho = getFloats(op, "rho");
  int64_t supports = getInt(op, "n_supports", 0);
  OnnxBuilder b(r, op->getLoc());
  StringRef kind = getString(op, "kernel_type", "LINEAR");
  if (!rankedType(x) || rankedType(x).getRank() != 2)
    return unsupportedInput(op, 0, "expected rank 2");
  if (rho.size() != 1)
    return unsupportedAttribute(op, "rho", "one value is expected");
  if (coefficients.empty() || supports < 0)
    return unsupportedAttribute(op, "n_supports", "with " + Twine(coefficients.size()) + " coefficients");
  if (!llvm::is_contained({"LINEAR", "POLY", "RBF", "SIGMOID"}, kind))
    return unsupportedAttribute(op, "kernel_type", "expected LINEAR, POLY, RBF or SIGMOID");
  Type element = working(x, b);
  x = b.cast(x, element);
  Value s;
  if (supports > 0) {
    if (vectors.empty() || vectors.size() % supports != 0 || (int64_t)coefficients.size() != supports)
      return unsupportedAttribute(op, "n_supports", Twine(coefficients.size()) + " coefficients and " +
                                                        Twine(vectors.size()) + " values of support vectors do not fit");
    s = kernelMatrix(b, x, floats(b, element, vectors, {supports, (int64_t)vectors.size() / supports}),
                     kind, getFloats(op, "kernel_params"));
    if (!s)
      return unsupportedAttribute(op, "kernel_params", "the degree of a polynomial is no whole number, on which runtimes differ");
  } else {
    s = x;
  }
  s = b.matmul(s, floats(b, element, coefficients, {(int64_t)coefficients.size(), 1}));
  s = b.add(s, floats(b, element, rho, {1}));
  if (getInt(op, "one_class", 0))
    s = where(b, compare(b, "Greater", s, b.scalar(element, 0)), b.scalar(element, 1), b.scalar(element, -1));
  s = postTransform(b, s, getString(op, "post_transform", "NONE"));
  if (!s)
    return unknownTransform(op);
  replaceRefining(r, op, b.cast(s, r.getF32Type()));
  return success();
}

/// Keys or values of a LabelEncoder as one tensor; none if they are strings.
std::optional<HostTensor> encoderList(Operation *op, StringRef what, MLIRContext *ctx) {
  if (auto t = op->getAttrOfType<ElementsAttr>((what + "_tensor").str()))
    return HostTensor::read(t);
  SmallVector<int64_t> ints = getInts(op, (what + "_int64s").str());
  SmallVector<float> reals = getFloats(op, (what + "_floats").str());
  HostTensor out(ints.empty() ? Type(Float32Type::get(ctx)) : IntegerType::get(ctx, 64),
                 {(int64_t)(ints.empty() ? reals.size() : ints.size())});
  out.mutableData();
  for (auto [i, v] : llvm::enumerate(ints))
    out.setInteger(i, v);
  if (ints.empty())
    for (auto [i, v] : llvm::enumerate(reals))
      out.setReal(i, v);
  return out.size() ? std::optional(out) : std::nullopt;
}

LogicalResult labelEncoder(Operation *op, PatternRewriter &r) {
  OnnxBuilder b(r, op->getLoc());
  if (onStrings(op))
    return failure();
  auto table = encoderTable(op, r);
  Value hit = table ? encoderHits(op, operand(op, 0), b) : Value();
  if (!hit)
    return failure(); // said there
  if (rankedType(hit).getShape().back() + 1 != table->size())
    return unsupported(op, Twine(rankedType(hit).getShape().back()) + " keys for " + Twine(table->size() - 1) + " values");
  replaceRefining(r, op, pickByHit(b, hit, *table));
  return success();
}

/// Whether two of `keys` are equal; runtimes differ on which of them counts.
bool repeats(const HostTensor &keys) {
  std::set<double> reals;
  std::set<int64_t> integers;
  bool nan = false;
  for (int64_t i = 0; i < keys.size(); ++i) {
    bool lost = keys.isFloat() && std::isnan(keys.real(i));
    bool fresh = lost             ? !std::exchange(nan, true)
                 : keys.isFloat() ? reals.insert(keys.real(i)).second
                                  : integers.insert(keys.integer(i)).second;
    if (!fresh)
      return true;
  }
  return false;
}

/// Sets element `i` of `to` to key `i`; false where its type does not hold the key.
bool setExactly(HostTensor &to, const HostTensor &keys, int64_t i) {
  constexpr double limit = 0x1p63;
  if (keys.isFloat()) {
    double v = keys.real(i);
    if (to.isFloat()) {
      to.setReal(i, v);
      return std::isnan(v) || to.real(i) == v;
    }
    if (!(v >= -limit && v < limit) || v != std::trunc(v))
      return false;
    to.setInteger(i, (int64_t)v);
    return to.integer(i) == (int64_t)v;
  }
  int64_t v = keys.integer(i);
  if (!to.isFloat()) {
    to.setInteger(i, v);
    return to.integer(i) == v;
  }
  to.setReal(i, (double)v);
  double held = to.real(i);
  return held >= -limit && held < limit && (int64_t)held == v;
}

} // namespace

Value equalKeys(OnnxBuilder &b, Value x, const HostTensor &keys) {
  HostTensor list(elementType(x), keys.shape()), fits(b.attrs().getI1Type(), keys.shape()), nans = fits;
  list.mutableData();
  fits.mutableData();
  nans.mutableData();
  bool all = true, anyNan = false;
  for (int64_t i = 0; i < keys.size(); ++i) {
    bool fit = setExactly(list, keys, i), nan = list.isFloat() && std::isnan(list.real(i));
    fits.setInteger(i, fit);
    nans.setInteger(i, nan);
    all &= fit;
    anyNan |= nan;
  }
  Value hit = compare(b, "Equal", x, b.weight(list));
  if (!all)
    hit = compare(b, "And", hit, b.weight(fits));
  if (!anyNan)
    return hit;
  Value lost = b.op("IsNaN", {x}, withElement(x, b.attrs().getI1Type())); // a NaN stands for every NaN
  return compare(b, "Or", hit, compare(b, "And", lost, b.weight(nans)));
}

Value encoderHits(Operation *op, Value x, OnnxBuilder &b) {
  constexpr int64_t most = 1 << 16; // every element is compared with every key
  auto keys = encoderList(op, "keys", op->getContext());
  auto refuse = [&](const Twine &why) {
    (void)unsupported(op, why);
    return Value();
  };
  if (!rankedType(x))
    return refuse("the rank of its input is not known");
  if (!keys)
    return refuse("it has no keys");
  if (keys->size() > most)
    return refuse("it has " + Twine(keys->size()) + " keys, at most " + Twine(most) + " are supported");
  if (repeats(*keys))
    return refuse("two of its keys are equal, and runtimes differ on which counts");
  return equalKeys(b, b.unsqueeze(x, {rankedType(x).getRank()}), keys->reshaped({keys->size()}));
}

Value pickByHit(OnnxBuilder &b, Value hit, const HostTensor &table) {
  // Position of the hit + 1, or 0; there is one at most.
  RankedTensorType t = rankedType(hit);
  HostTensor numbers(b.attrs().getI64Type(), {t.getDimSize(t.getRank() - 1)});
  numbers.mutableData();
  for (int64_t i = 0; i < numbers.size(); ++i)
    numbers.setInteger(i, i + 1);
  Value at = where(b, hit, b.weight(numbers), b.ints({0}, true));
  at = b.reduce("ReduceMax", at, {t.getRank() - 1}, false);
  SmallVector<int64_t> shape(rankedType(at).getShape());
  shape.append(table.shape().begin() + 1, table.shape().end());
  return b.op("Gather", {b.weight(table), at}, RankedTensorType::get(shape, table.element()), {b.i("axis", 0)});
}

std::optional<HostTensor> encoderTable(Operation *op, Builder &b) {
  auto values = encoderList(op, "values", b.getContext());
  if (!values) {
    (void)unsupported(op, "it has no values");
    return std::nullopt;
  }
  HostTensor table(values->element(), {values->size() + 1});
  std::memcpy(table.mutableData() + table.elementBytes(), values->data(), values->byteSize());
  if (auto t = op->getAttrOfType<ElementsAttr>("default_tensor")) {
    auto fallback = HostTensor::read(t);
    if (!fallback || fallback->element() != table.element() || fallback->size() != 1) {
      (void)unsupportedAttribute(op, "default_tensor", "one element of the type of the values is expected");
      return std::nullopt;
    }
    std::memcpy(table.mutableData(), fallback->data(), table.elementBytes());
  } else if (table.isFloat()) {
    table.setReal(0, getFloat(op, "default_float", -0.0));
  } else {
    table.setInteger(0, getInt(op, "default_int64", -1));
  }
  return table;
}

void addMlDecompositions(RewritePatternSet &p) {
  addRewrite(p, "ml.Binarizer", binarizer);
  addRewrite(p, "ml.Scaler", scaler);
  addRewrite(p, "ml.Normalizer", normalizer);
  addRewrite(p, "ml.Imputer", imputer);
  addRewrite(p, "ml.ArrayFeatureExtractor", arrayFeatureExtractor);
  addRewrite(p, "ml.FeatureVectorizer", featureVectorizer);
  addRewrite(p, "ml.OneHotEncoder", oneHotEncoder);
  addRewrite(p, "ml.LinearRegressor", linearRegressor);
  addRewrite(p, "ml.LinearClassifier", linearClassifier);
  addRewrite(p, "ml.SVMRegressor", svmRegressor);
  addRewrite(p, "ml.LabelEncoder", labelEncoder);
}

} // namespace tessera::onnx

// Shapes of the operators of ai.onnx.ml.
#include "dialects/Onnx/Shapes/ShapeRules.h"

using namespace mlir;
using namespace tessera::onnx;

TESSERA_SHAPE_RULES(SameAsInput, "ml.Binarizer", "ml.CategoryMapper", "ml.Imputer",
                    "ml.LabelEncoder", "ml.Normalizer", "ml.Scaler") {
  s.set(0, s.dims(0));
}

// The first dimension of [N, C] or, for [C], 1.
static Sym batchOf(OpShapes &s) {
  auto in = s.dims(0);
  return in.size() > 1 ? in[0] : s.c(1);
}

static int64_t listLength(OpShapes &s, StringRef name) {
  Attribute a = s.attr(name);
  if (auto ints = dyn_cast_or_null<DenseI64ArrayAttr>(a))
    return ints.size();
  if (auto floats = dyn_cast_or_null<DenseF32ArrayAttr>(a))
    return floats.size();
  if (auto list = dyn_cast_or_null<ArrayAttr>(a))
    return list.size();
  return 0;
}

TESSERA_SHAPE_RULES(ArrayFeatureExtractor, "ml.ArrayFeatureExtractor") {
  SymDims out(s.dims(0));
  Sym picks = s.ctx.product(s.dims(1));
  if (out.size() == 1)
    out = {s.c(1), picks};
  else
    out.back() = picks;
  s.set(0, out);
}

TESSERA_SHAPE_RULES(FeatureVectorizer, "ml.FeatureVectorizer") {
  Sym width = s.c(0);
  for (unsigned i = 0; i < s.numInputs(); ++i) {
    auto in = s.dims(i);
    width = s.ctx.add(width, in.size() > 1 ? s.ctx.product(in.drop_front()) : in[0]);
  }
  s.set(0, {batchOf(s), width});
}

TESSERA_SHAPE_RULES(OneHotEncoder, "ml.OneHotEncoder") {
  SymDims out(s.dims(0));
  int64_t n = listLength(s, "cats_int64s");
  out.push_back(s.c(n ? n : listLength(s, "cats_strings")));
  s.set(0, out);
}

// Scores of a binary classifier that has one set of coefficients are two columns too.
TESSERA_SHAPE_RULES(Classifier, "ml.LinearClassifier", "ml.SVMClassifier",
                    "ai.onnx.ml.TreeEnsembleClassifier", "ml.TreeEnsembleClassifier") {
  int64_t classes = 0;
  for (const char *name : {"classlabels_ints", "classlabels_int64s", "classlabels_strings"})
    classes = std::max(classes, listLength(s, name));
  if (!classes)
    classes = listLength(s, "intercepts");
  s.set(0, {batchOf(s)});
  if (!classes) {
    s.set(1, {batchOf(s), s.extent(1, 1)});
    return;
  }
  s.set(1, {batchOf(s), s.c(std::max<int64_t>(classes, classes == 1 ? 1 : 2))});
}

TESSERA_SHAPE_RULES(LinearRegressor, "ml.LinearRegressor") {
  s.set(0, {batchOf(s), s.c(s.getInt("targets", 1))});
}
TESSERA_SHAPE_RULES(SVMRegressor, "ml.SVMRegressor") { s.set(0, {batchOf(s), s.c(1)}); }
TESSERA_SHAPE_RULES(TreeEnsemble, "ml.TreeEnsemble", "ai.onnx.ml.TreeEnsembleRegressor",
                    "ml.TreeEnsembleRegressor") {
  s.set(0, {batchOf(s), s.c(s.getInt("n_targets", 1))});
}

// Operand 3 is the base value of each target; two results are labels and scores.
TESSERA_SHAPE_RULES(LoweredTrees, "tessera.TreeEnsemble") {
  Sym targets = s.dims(3)[0];
  if (s.numOutputs() == 2)
    s.set(0, {batchOf(s)});
  s.set(s.numOutputs() - 1, {batchOf(s), targets});
}

TESSERA_SHAPE_RULES(Maps, "ml.CastMap", "ml.DictVectorizer", "ml.ZipMap") {
  throw Unknown{describe(s.op) + " takes it out of a map", true};
}

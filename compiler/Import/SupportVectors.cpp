// SVMClassifier of ai.onnx.ml as onnxruntime computes it, libsvm's votes and
// its coupling of pairwise probabilities included. Where runtimes differ on
// what a label is, the node stays.
#include "compiler/Import/Contrib.h"

#include <cmath>

namespace tessera::onnx_import {

namespace {

using T = TensorProto;

class SupportVectors {
public:
  explicit SupportVectors(Recipe &r) : r(r) {}

  void write() {
    readAttributes();
    int rank = r.rank(0);
    if (rank != 2)
      throw Unsupported{"rank " + std::to_string(rank) + " of input 0"};
    x = r.cast(r.in(0), r.elementType(0) == T::DOUBLE ? T::DOUBLE : T::FLOAT);
    if (vectors == 0)
      linear();
    else
      pairwise();
  }

private:
  void readAttributes() {
    ints = r.integers("classlabels_ints");
    if (const AttributeProto *a =
            r.find("classlabels_strings", AttributeProto::STRINGS))
      strings.assign(a->strings().begin(), a->strings().end());
    classes = (int64_t)(strings.empty() ? ints.size() : strings.size());
    coefficients = r.numbers("coefficients");
    rho = r.numbers("rho");
    for (int64_t n : perClass = r.integers("vectors_per_class")) {
      if (n < 0 || n > (int64_t)coefficients.size())
        throw Unsupported{"attribute 'vectors_per_class' of " +
                          std::to_string(n)};
      vectors += n;
    }
    constexpr int64_t mostClasses = 64; // some operators for each pair
    if (classes < 2 || classes > mostClasses ||
        (!strings.empty() && !ints.empty()))
      throw Unsupported{"a number of " + std::to_string(classes) +
                        " class labels"};
    pairs = classes * (classes - 1) / 2;
    a = r.numbers("prob_a"), b = r.numbers("prob_b");
    post = r.word("post_transform", "NONE");
  }

  Val list(const std::vector<float> &values,
           const std::vector<int64_t> &shape) {
    return r.castLike(r.reshape(r.floatList(values), shape), x);
  }
  Val number(double v) { return r.scalarLike((float)v, x); }

  // One set of coefficients a class.
  void linear() {
    if (classes == 2 || coefficients.size() % classes || rho.empty() ||
        !a.empty())
      throw Unsupported{"a linear form without support vectors of " +
                        std::to_string(classes) + " classes"};
    Val w =
        list(coefficients, {classes, (int64_t)coefficients.size() / classes});
    Val scores = r.add(r.matmul(x, r.transpose(w, {1, 0})), number(rho[0]));
    finish(r.op("ArgMax", {scores},
                {I("axis", 1), I("keepdims", 0), I("select_last_index", 0)}),
           scores);
  }

  // Values of the kernel for each row and support vector, [N, vectors].
  Val kernel() {
    std::vector<float> support = r.numbers("support_vectors"),
                       p = r.numbers("kernel_params");
    std::string kind = r.word("kernel_type", "LINEAR");
    if (support.empty() || (int64_t)support.size() % vectors)
      throw Unsupported{"the size of attribute 'support_vectors'"};
    p.resize(std::max<size_t>(p.size(), 3));
    Val v = list(support, {vectors, (int64_t)support.size() / vectors});
    if (kind == "RBF") {
      Val d = r.sub(r.unsqueeze(x, {1}), r.unsqueeze(v, {0}));
      return r.op("Exp",
                  {r.mul(number(-p[0]),
                         r.reduce("ReduceSum", r.mul(d, d), {2}, false))});
    }
    Val dot = r.matmul(x, r.transpose(v, {1, 0}));
    if (kind == "LINEAR")
      return dot;
    Val s = r.add(r.mul(dot, number(p[0])), number(p[1]));
    if (kind == "SIGMOID")
      return r.op("Tanh", {s});
    if (kind != "POLY" ||
        p[2] != std::trunc(p[2])) // a fractional degree: runtimes differ
      throw Unsupported{"attribute 'kernel_type' of '" + kind +
                        "' with degree " + std::to_string(p[2])};
    return r.op("Pow", {s, number(p[2])});
  }

  // A classifier for each pair (i, j): the vectors of i with row j - 1 of the
  // coefficients, those of j with row i. A positive score is a vote for i.
  void pairwise() {
    if ((int64_t)perClass.size() != classes ||
        (int64_t)coefficients.size() != (classes - 1) * vectors ||
        (int64_t)rho.size() < pairs || a.size() != b.size() ||
        (!a.empty() && (int64_t)a.size() < pairs))
      throw Unsupported{"sizes of attributes that do not fit " +
                        std::to_string(classes) + " classes"};
    bool positive = llvm::all_of(coefficients, [](float c) { return c >= 0; });
    if (classes == 2 && a.empty() && positive)
      throw Unsupported{"two classes with no negative coefficient"};
    std::vector<float> weights((size_t)(pairs * vectors)),
        forI((size_t)(classes * pairs)), forJ = forI;
    int64_t pair = 0, startI = 0;
    for (int64_t i = 0; i < classes; startI += perClass[i++])
      for (int64_t j = i + 1, startJ = startI + perClass[i]; j < classes;
           startJ += perClass[j++], ++pair) {
        for (int64_t m = 0; m < perClass[i]; ++m)
          weights[pair * vectors + startI + m] =
              coefficients[(j - 1) * vectors + startI + m];
        for (int64_t m = 0; m < perClass[j]; ++m)
          weights[pair * vectors + startJ + m] =
              coefficients[i * vectors + startJ + m];
        forI[pair * classes + i] = 1;
        forJ[pair * classes + j] = 1;
      }
    rho.resize(pairs);
    Val scores =
        r.add(r.matmul(kernel(),
                       r.transpose(list(weights, {pairs, vectors}), {1, 0})),
              list(rho, {1, pairs}));
    Val first = r.castLike(r.op("Greater", {scores, number(0)}), x);
    Val votes =
        r.add(r.matmul(first, list(forI, {pairs, classes})),
              r.matmul(r.sub(number(1), first), list(forJ, {pairs, classes})));
    Val best =
        r.op("ArgMax", {votes},
             {I("axis", 1), I("keepdims", 0), I("select_last_index", 0)});
    if (!a.empty() || classes > 2)
      return finish(best, a.empty() ? scores : coupled(scores));
    if (post == "SOFTMAX") // of -s and s, or 1 - s and s as they are
      throw Unsupported{"attribute 'post_transform' of 'SOFTMAX' with two "
                        "classes, where runtimes differ,"};
    finish(best, r.concat({r.op("Neg", {scores}), scores}, 1));
  }

  // Platt's probabilities of the pairs, coupled by Wu's second method:
  // fixed-point iterations for each row until it changes by less than eps.
  Val coupled(const Val &scores) {
    a.resize(pairs), b.resize(pairs);
    Val p =
        r.op("Sigmoid", {r.op("Neg", {r.add(r.mul(scores, list(a, {1, pairs})),
                                            list(b, {1, pairs}))})});
    p = r.op("Clip", {p, number(1e-7f), number(1 - 1e-7f)});
    std::vector<int64_t> at;
    std::vector<float> unit;
    for (int64_t i = 0; i < classes; ++i)
      for (int64_t j = 0; j < classes; ++j) {
        int64_t lo = std::min(i, j), hi = std::max(i, j);
        int64_t pair = lo * classes - lo * (lo + 1) / 2 + hi - lo - 1;
        at.push_back(i == j ? 2 * pairs : i < j ? pair : pairs + pair);
        unit.push_back(i == j);
      }
    Val all = r.concat(
        {p, r.sub(number(1), p), r.mul(r.slice(p, 1, 0, 1), number(0))}, 1);
    Val won = r.reshape(r.op("Gather", {all, r.ints(at)}, {I("axis", 1)}),
                        {-1, classes, classes}); // [N, i, j]
    Val lost = r.transpose(won, {0, 2, 1});
    Val diagonal =
        r.unsqueeze(r.reduce("ReduceSum", r.mul(lost, lost), {2}, false), {2});
    Val q = r.sub(r.mul(diagonal, list(unit, {classes, classes})),
                  r.mul(won, lost));
    Val start = r.op("Expand", {number(1.0 / classes),
                                r.concat({r.dim(x, 0), r.ints({classes})}, 0)});
    return r.loop(r.intScalar(std::max<int64_t>(100, classes)), {start},
                  [&](const std::vector<Val> &state) {
                    return iteration(q, state[0]);
                  })[0];
  }

  std::vector<Val> iteration(const Val &q, const Val &p) {
    auto column = [&](const Val &v, int64_t t) {
      return r.slice(v, 1, t, t + 1);
    };
    auto times = [&](const Val &v) {
      return r.squeeze(r.matmul(q, r.unsqueeze(v, {2})), {2});
    };
    Val qp = times(p), pqp = r.reduce("ReduceSum", r.mul(p, qp), {1}, true),
        next = p;
    Val error = r.reduce("ReduceMax", r.op("Abs", {r.sub(qp, pqp)}), {1}, true);
    Val open =
        r.op("GreaterOrEqual", {error, number(0.005 / classes)}); // [N, 1]
    for (int64_t t = 0; t < classes; ++t) {
      Val row = r.squeeze(r.slice(q, 1, t, t + 1), {1}), qtt = column(row, t),
          own = column(qp, t);
      Val diff = r.div(r.sub(pqp, own), qtt), scale = r.add(diff, number(1));
      std::vector<float> here((size_t)classes);
      here[t] = 1;
      pqp = r.div(r.add(pqp, r.mul(diff, r.add(r.mul(diff, qtt),
                                               r.mul(number(2), own)))),
                  r.mul(scale, scale));
      next = r.div(r.add(next, r.mul(diff, list(here, {1, classes}))), scale);
      qp = r.div(r.add(qp, r.mul(diff, row)), scale);
    }
    Val any =
        r.op("Greater",
             {r.reduce("ReduceSum", r.cast(open, T::INT64), {0, 1}, false),
              r.intScalar(0)});
    return {any, r.where(open, next, p)};
  }

  void finish(const Val &best, const Val &scores) {
    Val labels = strings.empty() ? r.ints(ints) : r.stringList(strings);
    r.out(0, r.op("Gather", {labels, best}, {I("axis", 0)}));
    r.out(1, r.cast(transform(scores), T::FLOAT));
  }

  Val transform(const Val &s) {
    if (post == "NONE")
      return s;
    if (post == "LOGISTIC")
      return r.op("Sigmoid", {s});
    if (post == "SOFTMAX")
      return r.op("Softmax", {s}, {I("axis", -1)});
    throw Unsupported{"attribute 'post_transform' of '" + post + "'"};
  }

  Recipe &r;
  Val x;
  std::vector<int64_t> ints, perClass;
  std::vector<std::string> strings;
  std::vector<float> coefficients, rho, a, b;
  std::string post;
  int64_t classes = 0, vectors = 0, pairs = 0;
};

void svmClassifier(Recipe &r) { SupportVectors(r).write(); }

} // namespace

llvm::ArrayRef<ContribOperator> supportVectorOperators() {
  static const std::vector<ContribOperator> list = {
      {"ai.onnx.ml.SVMClassifier",
       svmClassifier,
       1,
       2,
       {"classlabels_ints", "classlabels_strings", "coefficients",
        "kernel_params", "kernel_type", "post_transform", "prob_a", "prob_b",
        "rho", "support_vectors", "vectors_per_class"}},
  };
  return list;
}

} // namespace tessera::onnx_import

#include "passes/Quantise/Rounding.h"
#include "passes/Quantise/Switches.h"

#include <algorithm>
#include <cmath>

namespace tessera::quantise {

std::optional<Matrix> matrixOf(const Graph &g, const Unit &u, int index) {
  const NodeProto &n = g.node(u.root);
  bool gemm = n.op_type() == "Gemm";
  if ((n.op_type() != "MatMul" && !gemm) || u.weights.size() != 1 ||
      u.weights[0].use.input != 1)
    return std::nullopt;
  if (gemm && (g.attribute(u.root, "transA", int64_t(0)) ||
               g.attribute(u.root, "alpha", 1.0f) != 1.0f ||
               g.attribute(u.root, "beta", 1.0f) != 1.0f))
    return std::nullopt;
  FloatTensor w = *g.floats(u.weights[0].name);
  if (w.dims.size() != 2)
    return std::nullopt;
  bool transposed = gemm && g.attribute(u.root, "transB", int64_t(0));
  Matrix m = {index,
              n.input(0),
              w.dims[transposed ? 1 : 0],
              w.dims[transposed ? 0 : 1],
              {}};
  m.columns.resize(w.values.size());
  for (int64_t c = 0; c < m.n; ++c)
    for (int64_t r = 0; r < m.k; ++r)
      m.columns[c * m.k + r] = w.values[transposed ? c * m.k + r : r * m.n + c];
  return m;
}

std::map<std::string, HalfMoments> measureMoments(
    const Graph &g, const std::vector<Matrix> &matrices,
    const SampleSource &samples, const CompileFunction &compile,
    const Progress &progress,
    const std::function<void(const std::string &, std::vector<float> &)>
        &round) {
  std::map<std::string, HalfMoments> out;
  std::set<std::string> wanted;
  for (const Matrix &m : matrices)
    wanted.insert(m.input);
  if (wanted.empty())
    return out;
  std::vector<std::string> values(wanted.begin(), wanted.end());
  auto runner =
      compile(withOutputs(g, values),
              "the float model with the inputs of its products as outputs");
  for (size_t s = 0; s < samples.count; ++s) {
    if (progress)
      progress("measuring inputs", s, samples.count);
    for (auto &[name, value] : samples.get(s))
      runner->set(name, value);
    std::vector<View> views = runner->run();
    for (size_t k = 0; k < values.size(); ++k)
      if (views[k].type == TensorProto::FLOAT && !views[k].dims.empty() &&
          views[k].dims.back() > 0) {
        std::vector<float> x(views[k].floats(),
                             views[k].floats() + views[k].count());
        if (round)
          round(values[k], x);
        out[values[k]][s % 2].add(x.data(),
                                  views[k].count() / views[k].dims.back(),
                                  views[k].dims.back());
      }
  }
  return out;
}

static Feedback feedbackFor(const std::vector<const Matrix *> &group,
                            const HalfMoments &halves,
                            const BlockOptions &options) {
  std::vector<float> all;
  int64_t n = 0;
  for (const Matrix *m : group) {
    all.insert(all.end(), m->columns.begin(), m->columns.end());
    n += m->n;
  }
  auto damping = chooseDamping(all, group[0]->k, n, halves, options);
  if (!damping)
    return {};
  SecondMoments both = halves[0];
  both.add(halves[1]);
  return Feedback(both, *damping);
}

std::map<int, BlockWeights>
roundMatrices(const std::vector<Matrix> &matrices,
              const std::map<std::string, HalfMoments> &moments,
              const BlockOptions &options, const Progress &progress) {
  std::map<std::pair<std::string, int64_t>, std::vector<const Matrix *>> groups;
  for (const Matrix &m : matrices)
    groups[{m.input, m.k}].push_back(&m);
  std::map<int, BlockWeights> out;
  for (auto &[key, group] : groups) {
    BlockOptions own = options;
    if (!own.block)
      own.block = key.second;
    Feedback feedback;
    if (auto it = moments.find(key.first); it != moments.end())
      feedback = feedbackFor(group, it->second, own);
    for (const Matrix *m : group) {
      if (progress)
        progress("rounding weights", out.size(), matrices.size());
      out[m->unit] = quantiseBlocks(m->columns, m->k, m->n, feedback, own);
    }
  }
  return out;
}

/// A scale is positive; its sign goes to the integers, of which -128 is none.
static QuantisedWeights inRows(const Matrix &m, const BlockWeights &rounded,
                               const std::vector<int64_t> &dims, int64_t axis) {
  QuantisedWeights q = {dims, axis, std::vector<int8_t>(m.columns.size()),
                        std::vector<float>(size_t(m.n))};
  bool transposed = axis == 0;
  for (int64_t c = 0; c < m.n; ++c) {
    float sign = rounded.scales[c] < 0 ? -1.0f : 1.0f;
    q.scales[c] = std::fabs(rounded.scales[c]);
    for (int64_t r = 0; r < m.k; ++r) {
      float v = sign *
                float(int(rounded.values[c * m.k + r]) - int(rounded.zeros[c]));
      q.values[transposed ? c * m.k + r : r * m.n + c] =
          int8_t(std::clamp(v, -127.0f, 127.0f));
    }
  }
  return q;
}

void roundWithFeedback(const Graph &g, const SampleSource &samples,
                       const CompileFunction &compile, const Progress &progress,
                       Decisions &d) {
  std::vector<Matrix> matrices;
  std::map<std::string, int32_t> types;
  for (size_t i = 0; i < d.units.size(); ++i) {
    const Unit &u = d.units[i];
    auto m = u.quantised && u.kind == UnitKind::Mac ? matrixOf(g, u, int(i))
                                                    : std::nullopt;
    if (!m || g.producer(m->input) < 0 || m->k > 8192)
      continue;
    types.emplace(m->input, u.type);
    matrices.push_back(std::move(*m));
  }
  auto moments =
      measureMoments(g, matrices, samples, compile, progress,
                     [&](const std::string &v, std::vector<float> &x) {
                       ActivationType type = activationType(types[v]);
                       Params p = d.points.at({v, types[v]});
                       for (float &e : x)
                         e = fakeQuantise(e, p, type);
                     });
  auto rounded = roundMatrices(matrices, moments, {8, 0, true}, progress);
  for (const Matrix &m : matrices) {
    const WeightUse &use = d.units[m.unit].weights[0];
    d.rounded[use] =
        inRows(m, rounded.at(m.unit), g.floats(use.name)->dims, use.axis);
  }
}

} // namespace tessera::quantise

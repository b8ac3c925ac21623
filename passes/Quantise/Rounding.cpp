#include "passes/Quantise/Rounding.h"
#include "passes/Quantise/Parallel.h"
#include "passes/Quantise/Switches.h"

#include <algorithm>
#include <cmath>
#include <mutex>

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
              {n.input(0), {}},
              w.dims[transposed ? 1 : 0],
              w.dims[transposed ? 0 : 1],
              {}};
  m.columns.resize(w.values.size());
  for (int64_t c = 0; c < m.n; ++c)
    for (int64_t r = 0; r < m.k; ++r)
      m.columns[c * m.k + r] = w.values[transposed ? c * m.k + r : r * m.n + c];
  return m;
}

std::vector<Matrix> convolutionsOf(const Graph &g, const Unit &u, int index) {
  const NodeProto &n = g.node(u.root);
  if (n.op_type() != "Conv" || u.weights.size() != 1 ||
      u.weights[0].use.input != 1)
    return {};
  FloatTensor w = *g.floats(u.weights[0].name);
  int64_t groups = g.attribute(u.root, "group", int64_t(1));
  if (w.dims.size() < 3 || w.values.empty() || groups < 1 || w.dims[0] % groups)
    return {};
  Window window = {{w.dims.begin() + 2, w.dims.end()},
                   g.list(u.root, "dilations")};
  window.dilations.resize(window.kernel.size(), 1);
  int64_t k = int64_t(w.values.size()) / w.dims[0], each = w.dims[0] / groups;
  std::vector<Matrix> out;
  for (int64_t group = 0; group < groups; ++group) {
    if (groups > 1) {
      window.first = group * w.dims[1];
      window.channels = w.dims[1];
    }
    auto from = w.values.begin() + group * each * k;
    out.push_back(
        {index, {n.input(0), window}, k, each, {from, from + each * k}});
  }
  return out;
}

std::vector<float> rowsUnder(const Window &window,
                             const std::vector<int64_t> &dims, const float *x,
                             int64_t most) {
  size_t rank = window.kernel.size();
  if (dims.size() != rank + 2 || window.first + window.channels > dims[1])
    return {};
  int64_t end = window.channels ? window.first + window.channels : dims[1];
  // Places of the window along each axis, and offsets of what it reads.
  std::vector<int64_t> places, offsets = {0}, strides(rank, 1);
  int64_t plane = 1;
  for (size_t d = rank; d-- > 0; plane *= dims[d + 2])
    strides[d] = plane;
  int64_t total = dims[0];
  for (size_t d = 0; d < rank; ++d) {
    places.push_back(dims[d + 2] -
                     (window.kernel[d] - 1) * window.dilations[d]);
    if (places.back() <= 0)
      return {};
    total *= places.back();
    std::vector<int64_t> wider;
    for (int64_t o : offsets)
      for (int64_t i = 0; i < window.kernel[d]; ++i)
        wider.push_back(o + i * window.dilations[d] * strides[d]);
    offsets = std::move(wider);
  }
  int64_t count = std::min(total, most), step = count ? total / count : 1;
  std::vector<float> rows;
  for (int64_t r = 0; r < count; ++r) {
    // Not all in one column of the picture.
    int64_t place = r * step + r * 31 % step, at = 0;
    for (size_t d = rank; d-- > 0; place /= places[d])
      at += place % places[d] * strides[d];
    at += place * dims[1] * plane;
    for (int64_t c = window.first; c < end; ++c)
      for (int64_t o : offsets)
        rows.push_back(x[at + c * plane + o]);
  }
  return rows;
}

/// Of a convolution's places in one sample.
constexpr int64_t kPlaces = 64;

std::map<Rows, HalfMoments> measureMoments(
    FloatModel &model, const std::vector<Matrix> &matrices,
    const SampleSource &samples, const Progress &progress,
    const std::function<void(const std::string &, std::vector<float> &)>
        &round) {
  std::map<Rows, HalfMoments> out;
  std::map<Rows, int64_t> wanted; // and their widths
  for (const Matrix &m : matrices)
    wanted.emplace(m.input, m.k);
  if (wanted.empty())
    return out;
  std::vector<std::pair<Rows, int64_t>> inputs(wanted.begin(), wanted.end());
  for (auto &[input, width] : inputs)
    out[input];
  for (size_t s = 0; s < samples.count; ++s) {
    if (progress)
      progress("measuring inputs", s, samples.count);
    model.run(samples.get(s));
    inParallel(inputs.size(), [&](size_t i) {
      auto &[input, width] = inputs[i];
      const View *found = model.find(input.value);
      if (!found || found->type != TensorProto::FLOAT || found->dims.empty() ||
          width <= 0)
        return;
      const View &v = *found;
      bool plain = input.window.kernel.empty();
      std::vector<float> x =
          plain ? std::vector<float>(v.floats(), v.floats() + v.count())
                : rowsUnder(input.window, v.dims, v.floats(), kPlaces);
      if (x.empty() || (plain && v.dims.back() != width))
        return;
      if (round)
        round(input.value, x);
      out.at(input)[s % 2].add(x.data(), int64_t(x.size()) / width, width);
    });
  }
  return out;
}

static Feedback feedbackFor(const std::vector<const Matrix *> &group,
                            HalfMoments halves, const BlockOptions &options) {
  std::vector<float> all;
  int64_t n = 0;
  for (const Matrix *m : group) {
    all.insert(all.end(), m->columns.begin(), m->columns.end());
    n += m->n;
  }
  SecondMoments both = halves[0];
  both.add(halves[1]);
  // A bias takes the mean: errors count about it.
  if (group[0]->biased) {
    both = both.about(both.mean());
    std::vector<double> mean = halves[0].mean();
    for (SecondMoments &half : halves)
      half = half.about(mean);
  }
  auto damping = chooseDamping(all, group[0]->k, n, halves, options);
  if (!damping)
    return {};
  return Feedback(both, *damping);
}

/// What rounding takes from each column on average over the inputs.
static std::vector<float> lostBy(const Matrix &m, const BlockWeights &q,
                                 const HalfMoments &halves) {
  SecondMoments both = halves[0];
  both.add(halves[1]);
  std::vector<double> mean = both.mean();
  std::vector<float> out(size_t(m.n), 0);
  for (int64_t c = 0; c < m.n && int64_t(mean.size()) == m.k; ++c) {
    double sum = 0;
    for (int64_t r = 0; r < m.k; ++r)
      sum += mean[r] * (double(m.columns[c * m.k + r]) - q.at(r, c));
    out[c] = float(sum);
  }
  return out;
}

static void append(RoundedUnit &unit, const BlockWeights &w,
                   const std::vector<float> &shift) {
  BlockWeights &all = unit.weights;
  if (!all.n) {
    all = w;
  } else {
    all.n += w.n;
    all.values.insert(all.values.end(), w.values.begin(), w.values.end());
    all.scales.insert(all.scales.end(), w.scales.begin(), w.scales.end());
    all.zeros.insert(all.zeros.end(), w.zeros.begin(), w.zeros.end());
  }
  unit.shift.insert(unit.shift.end(), shift.begin(), shift.end());
}

std::map<int, RoundedUnit>
roundMatrices(const std::vector<Matrix> &matrices,
              const std::map<Rows, HalfMoments> &moments,
              const BlockOptions &options, const Progress &progress) {
  std::map<std::tuple<Rows, int64_t, bool>, std::vector<const Matrix *>> groups;
  for (const Matrix &m : matrices)
    groups[{m.input, m.k, m.biased}].push_back(&m);
  std::vector<std::pair<const Rows *, std::vector<const Matrix *>>> work;
  for (auto &[key, group] : groups)
    work.push_back({&std::get<0>(key), group});
  std::vector<BlockWeights> rounded(matrices.size());
  std::vector<std::vector<float>> shifts(matrices.size());
  std::mutex reporting;
  size_t done = 0;
  inParallel(work.size(), [&](size_t w) {
    auto &[input, group] = work[w];
    BlockOptions own = options;
    if (!own.block)
      own.block = group[0]->k;
    Feedback feedback;
    auto found = moments.find(*input);
    if (found != moments.end())
      feedback = feedbackFor(group, found->second, own);
    for (const Matrix *m : group) {
      size_t at = size_t(m - matrices.data());
      rounded[at] = quantiseBlocks(m->columns, m->k, m->n, feedback, own);
      if (m->biased && found != moments.end())
        shifts[at] = lostBy(*m, rounded[at], found->second);
    }
    std::lock_guard<std::mutex> lock(reporting);
    done += group.size();
    if (progress)
      progress("rounding weights", done, matrices.size());
  });
  std::map<int, RoundedUnit> out;
  for (size_t i = 0; i < matrices.size(); ++i)
    append(out[matrices[i].unit], rounded[i], shifts[i]);
  return out;
}

/// Symmetric weights of eight bits as int8.
static QuantisedWeights inRows(const BlockWeights &m,
                               const std::vector<int64_t> &dims, int64_t axis) {
  QuantisedWeights q = {dims, axis, std::vector<int8_t>(size_t(m.k * m.n)),
                        m.scales};
  bool transposed = axis == 0;
  for (int64_t c = 0; c < m.n; ++c)
    for (int64_t r = 0; r < m.k; ++r)
      q.values[transposed ? c * m.k + r : r * m.n + c] =
          int8_t(int(m.values[c * m.k + r]) - int(m.zeros[c]));
  return q;
}

/// Whether a bias is there for every channel, as Emit shifts it.
static bool isBiased(const Graph &g, const Unit &u, int64_t channels) {
  auto bias = u.bias ? g.floats(g.node(u.bias->node).input(u.bias->input))
                     : std::nullopt;
  return bias && bias->dims == std::vector<int64_t>{channels} &&
         u.activations.size() == 1;
}

void roundWithFeedback(const Graph &g, FloatModel &model,
                       const SampleSource &samples, const Progress &progress,
                       Decisions &d) {
  std::vector<Matrix> matrices;
  std::map<std::string, int32_t> types;
  for (size_t i = 0; i < d.units.size(); ++i) {
    const Unit &u = d.units[i];
    if (!u.quantised || u.kind != UnitKind::Mac)
      continue;
    std::vector<Matrix> own;
    if (auto m = matrixOf(g, u, int(i)))
      own.push_back(std::move(*m));
    else if (u.type == TensorProto::INT16)
      own = convolutionsOf(g, u, int(i));
    if (own.empty() ||
        own[0].k > (own[0].input.window.kernel.empty() ? 8192 : 1024))
      continue;
    types.emplace(own[0].input.value, u.type);
    bool biased = isBiased(g, u, own[0].n * int64_t(own.size()));
    for (Matrix &m : own) {
      m.biased = biased;
      matrices.push_back(std::move(m));
    }
  }
  auto moments =
      measureMoments(model, matrices, samples, progress,
                     [&](const std::string &v, std::vector<float> &x) {
                       ActivationType type = activationType(types[v]);
                       Params p = d.points.at({v, types[v]});
                       for (float &e : x)
                         e = fakeQuantise(e, p, type);
                     });
  auto rounded = roundMatrices(matrices, moments, {8, 0, true, true}, progress);
  for (auto &[unit, r] : rounded) {
    const WeightUse &use = d.units[unit].weights[0];
    d.rounded[use] = inRows(r.weights, g.floats(use.name)->dims, use.axis);
    if (!r.shift.empty())
      d.biasShifts[unit] = std::move(r.shift);
  }
}

} // namespace tessera::quantise

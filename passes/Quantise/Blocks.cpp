#include "passes/Quantise/Blocks.h"
#include "passes/Quantise/Parallel.h"
#include "passes/Quantise/RowSums.h"

#include <algorithm>
#include <cmath>

namespace tessera::quantise {

/// Rows whose products are summed in float.
static constexpr int64_t kTogether = 64;

void SecondMoments::add(const float *x, int64_t count, int64_t width) {
  if (!size) {
    size = width;
    h.assign(size_t(width * width), 0);
    first.assign(size_t(width), 0);
  }
  if (width != size)
    return;
  rows += uint64_t(count);
  for (int64_t r = 0; r < count; ++r)
    for (int64_t i = 0; i < width; ++i)
      first[i] += x[r * width + i];
  // Blocks of rows in float, sums of blocks in double.
  std::vector<float> part(static_cast<size_t>(size));
  float factors[kTogether];
  for (int64_t i = 0; i < size; ++i) {
    for (int64_t from = 0; from < count; from += kTogether) {
      int64_t some = std::min(kTogether, count - from);
      bool any = false;
      for (int64_t r = 0; r < some; ++r) {
        factors[r] = -x[(from + r) * size + i];
        any |= factors[r] != 0;
      }
      if (!any)
        continue;
      std::fill(part.begin() + i, part.end(), 0.0f);
      subtractRows(part.data(), x + from * size, size, factors, some, i, size);
      for (int64_t j = i; j < size; ++j)
        h[i * size + j] += part[j];
    }
  }
  for (int64_t i = 0; i < size; ++i)
    for (int64_t j = i + 1; j < size; ++j)
      h[j * size + i] = h[i * size + j];
}

void SecondMoments::add(const SecondMoments &other) {
  if (!other.size)
    return;
  if (!size) {
    *this = other;
    return;
  }
  if (other.size != size)
    return;
  rows += other.rows;
  for (size_t i = 0; i < h.size(); ++i)
    h[i] += other.h[i];
  for (size_t i = 0; i < first.size(); ++i)
    first[i] += other.first[i];
}

std::vector<double> SecondMoments::mean() const {
  std::vector<double> out = first;
  for (double &x : out)
    x /= double(std::max<uint64_t>(rows, 1));
  return out;
}

SecondMoments SecondMoments::about(const std::vector<double> &c) const {
  SecondMoments out = *this;
  if (c.size() != first.size())
    return out;
  double n = double(rows);
  for (int64_t i = 0; i < size; ++i) {
    for (int64_t j = 0; j < size; ++j)
      out.h[i * size + j] +=
          n * c[i] * c[j] - first[i] * c[j] - c[i] * first[j];
    out.first[i] -= n * c[i];
  }
  return out;
}

namespace {

// Rows in panels: a panel stays in the cache while what stands before it passes
// by once. All inner loops run along rows.
constexpr int64_t kPanel = 32;

/// Lower Cholesky factor in place of the lower triangle; false if not positive
/// definite. Works on the upper triangle, which is its transpose.
bool factorise(std::vector<double> &a, int64_t n) {
  double factors[kPanel];
  for (int64_t from = 0; from < n; from += kPanel) {
    int64_t to = std::min(n, from + kPanel);
    auto subtractPanel = [&](int64_t i, int64_t end) {
      for (int64_t p = from; p < end; ++p)
        factors[p - from] = a[p * n + i];
      subtractRows(&a[i * n], &a[from * n], n, factors, end - from, i, n);
    };
    for (int64_t k = from; k < to; ++k) {
      double *row = &a[k * n];
      subtractPanel(k, k);
      if (!(row[k] > 0))
        return false;
      double inverse = 1 / std::sqrt(row[k]);
      for (int64_t j = k; j < n; ++j)
        row[j] *= inverse;
    }
    for (int64_t i = to; i < n; ++i)
      subtractPanel(i, to);
  }
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < i; ++j)
      a[i * n + j] = a[j * n + i];
  return true;
}

/// X with X L = I for a lower factor L, lower as well.
std::vector<double> invert(const std::vector<double> &l, int64_t n) {
  std::vector<double> x(size_t(n * n), 0);
  for (int64_t from = 0; from < n; from += kPanel) {
    int64_t to = std::min(n, from + kPanel);
    // What stands before the panel; a row is zero behind its diagonal.
    for (int64_t k = 0; k < from; k += kPanel)
      for (int64_t i = from; i < to; ++i)
        subtractRows(&x[i * n], &x[k * n], n, &l[i * n + k], kPanel, 0,
                     k + kPanel);
    for (int64_t i = from; i < to; ++i) {
      double *row = &x[i * n];
      subtractRows(row, &x[from * n], n, &l[i * n + from], i - from, 0, i);
      // All rows before are done: so is this one.
      row[i] = 1;
      for (int64_t j = 0; j <= i; ++j)
        row[j] /= l[i * n + i];
    }
  }
  return x;
}

} // namespace

// With the order of the rows reversed, H = L L' gives inverse(H) = U' U where U
// is the inverse of L reversed again: upper triangular, no inverse of H is ever
// formed.
std::vector<float> inverseFactor(const SecondMoments &m, double damping) {
  int64_t n = m.width();
  double mean = 0;
  for (int64_t i = 0; i < n; ++i)
    mean += m.sums()[i * n + i] / double(n);
  std::vector<double> a(size_t(n * n));
  bool good = false;
  for (; damping < 1e3 && !good; damping *= 10) {
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j)
        a[i * n + j] = m.sums()[(n - 1 - i) * n + (n - 1 - j)];
    for (int64_t i = 0; i < n; ++i) {
      double &d = a[i * n + i];
      d = d == 0 ? std::max(mean, 1e-30) : d + damping * mean;
    }
    good = factorise(a, n);
  }
  // Moments that are not finite say nothing.
  if (!good) {
    std::fill(a.begin(), a.end(), 0.0);
    for (int64_t i = 0; i < n; ++i)
      a[i * n + i] = 1;
  }
  std::vector<double> x = invert(a, n);
  // inverse(L) reversed in both orders is upper triangular.
  std::vector<float> u(size_t(n * n));
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j)
      u[i * n + j] = float(x[(n - 1 - i) * n + (n - 1 - j)]);
  return u;
}

namespace {

struct Grid {
  float scale = 1;
  int zero = 0;
};

struct BlockSearch {
  const BlockOptions &options;
  int top() const { return (1 << options.bits) - 1; }
  int middle() const { return 1 << (options.bits - 1); }

  int bottom() const { return options.narrow ? 1 : 0; }

  int round(float w, const Grid &g) const {
    return std::clamp(int(std::nearbyint(w / g.scale)) + g.zero, bottom(),
                      top());
  }

  double error(const float *w, const float *weight, int64_t count,
               const Grid &g) const {
    return roundingError(w, weight, count, g.scale, float(bottom() - g.zero),
                         float(top() - g.zero));
  }

  Grid find(const float *w, const float *weight, int64_t count) const {
    float low = 0, high = 0;
    for (int64_t i = 0; i < count; ++i) {
      low = std::min(low, w[i]);
      high = std::max(high, w[i]);
    }
    if (!(high - low > 1e-30f))
      return {1, middle()};
    Grid best;
    double least = INFINITY;
    auto attempt = [&](Grid g) {
      if (double e = error(w, weight, count, g); e < least) {
        least = e;
        best = g;
      }
    };
    // Few bits clip more, and gain by the integer that only one sign has.
    bool few = options.bits < 8;
    for (int k = 0; k < (few ? 24 : 12); ++k) {
      float f = 1.04f - 0.02f * float(k);
      if (options.symmetric) {
        float most = std::max(-low, high);
        attempt({f * most / float(middle() - bottom()), middle()});
        if (few)
          attempt({-f * most / float(middle()), middle()});
      } else {
        float scale = f * (high - low) / float(top());
        int zero = std::clamp(int(std::nearbyint(-low * f / scale)), 0, top());
        for (int z = std::max(0, zero - 1); z <= std::min(top(), zero + 1); ++z)
          attempt({scale, z});
      }
    }
    return best;
  }
};

} // namespace

float BlockWeights::at(int64_t row, int64_t column) const {
  int64_t b = column * blocks + row / options.block;
  return float(int(values[column * blocks * options.block + row]) -
               int(zeros[b])) *
         scales[b];
}

Feedback::Feedback(const SecondMoments &moments, double damping)
    : factor(inverseFactor(moments, damping)) {
  int64_t k = moments.width();
  for (int64_t i = 0; i < k; ++i)
    importance.push_back(1 / (factor[i * k + i] * factor[i * k + i]));
}

namespace {

/// Columns are rounded some at a time, and errors go on to the weights behind
/// some inputs together: the rows of the factor are then read once for all of
/// them.
class ColumnRounder {
public:
  ColumnRounder(BlockWeights &out, const Feedback &feedback)
      : out(out), feedback(feedback), search{out.options},
        padded(out.blocks * out.options.block),
        importance(feedback.factor.empty()
                       ? std::vector<float>(size_t(out.k), 1)
                       : feedback.importance) {}

  void round(const float *columns, int64_t from, int64_t to) {
    std::vector<float> rest(columns + from * out.k, columns + to * out.k);
    for (int64_t i = 0; i < out.k;) {
      // A block's scale is searched when all errors have come to it.
      int64_t end = std::min({i + kInputs, out.k,
                              (i / out.options.block + 1) * out.options.block});
      for (int64_t c = from; c < to; ++c)
        roundSome(&rest[(c - from) * out.k], c, i, end);
      i = end;
    }
  }

private:
  static constexpr int64_t kInputs = 16;

  void roundSome(float *row, int64_t c, int64_t from, int64_t to) {
    int64_t b = from / out.options.block, at = c * out.blocks + b;
    if (from % out.options.block == 0) {
      Grid g = search.find(row + from, &importance[from],
                           std::min(out.options.block, out.k - from));
      out.scales[at] = g.scale;
      out.zeros[at] = uint8_t(g.zero);
      std::fill_n(&out.values[c * padded + from], out.options.block,
                  uint8_t(g.zero));
    }
    Grid g = {out.scales[at], out.zeros[at]};
    float errors[kInputs];
    bool fed = !feedback.factor.empty();
    for (int64_t i = from; i < to; ++i) {
      uint8_t &q = out.values[c * padded + i];
      q = uint8_t(search.round(row[i], g));
      if (!fed)
        continue;
      const float *u = &feedback.factor[i * out.k];
      float &error = errors[i - from];
      error = (row[i] - float(int(q) - g.zero) * g.scale) / u[i];
      for (int64_t j = i + 1; j < to; ++j)
        row[j] -= error * u[j];
    }
    if (fed)
      subtractRows(row, &feedback.factor[from * out.k], out.k, errors,
                   to - from, to, out.k);
  }

  BlockWeights &out;
  const Feedback &feedback;
  BlockSearch search;
  int64_t padded;
  std::vector<float> importance;
};

} // namespace

BlockWeights quantiseBlocks(const std::vector<float> &weights, int64_t k,
                            int64_t n, const Feedback &feedback,
                            const BlockOptions &options) {
  BlockWeights out;
  out.k = k, out.n = n, out.options = options;
  out.blocks = (k + options.block - 1) / options.block;
  out.values.assign(size_t(n * out.blocks * options.block), 0);
  out.scales.assign(size_t(n * out.blocks), 1);
  out.zeros.assign(size_t(n * out.blocks), 0);
  constexpr int64_t together = 16;
  inParallel(size_t((n + together - 1) / together), [&](size_t part) {
    int64_t from = int64_t(part) * together;
    ColumnRounder(out, feedback)
        .round(weights.data(), from, std::min(n, from + together));
  });
  return out;
}

/// Sum over columns of (w - q)' H (w - q).
static double errorOf(const std::vector<float> &weights, const BlockWeights &q,
                      const SecondMoments &moments) {
  int64_t k = q.k;
  // Rows of H pass by once for all columns; what gathers is -H (w - q).
  std::vector<double> d(weights.size()), gathered(weights.size(), 0);
  for (int64_t c = 0; c < q.n; ++c)
    for (int64_t i = 0; i < k; ++i)
      d[c * k + i] = double(weights[c * k + i]) - q.at(i, c);
  constexpr int64_t rows = 16;
  for (int64_t i = 0; i < k; i += rows)
    for (int64_t c = 0; c < q.n; ++c)
      subtractRows(&gathered[c * k], &moments.sums()[i * k], k, &d[c * k + i],
                   std::min(rows, k - i), 0, k);
  double sum = 0;
  for (size_t i = 0; i < d.size(); ++i)
    sum -= d[i] * gathered[i];
  return sum;
}

std::optional<double> chooseDamping(const std::vector<float> &weights,
                                    int64_t k, int64_t n,
                                    const HalfMoments &moments,
                                    const BlockOptions &options) {
  if (moments[0].width() != k || moments[1].width() != k)
    return std::nullopt;
  // Some columns tell enough.
  std::vector<float> some;
  int64_t count = std::min<int64_t>(n, 32);
  for (int64_t c = 0; c < count; ++c)
    some.insert(some.end(), weights.begin() + c * n / count * k,
                weights.begin() + (c * n / count + 1) * k);
  auto errorBy = [&](const Feedback &f, const SecondMoments &other) {
    return errorOf(some, quantiseBlocks(some, k, count, f, options), other);
  };
  auto errorWith = [&](std::optional<double> damping) {
    return errorBy(damping ? Feedback(moments[0], *damping) : Feedback(),
                   moments[1]);
  };
  std::optional<double> best;
  double least = errorWith(std::nullopt);
  auto improves = [&](double damping) {
    double error = errorWith(damping);
    if (error >= least)
      return false;
    least = error;
    best = damping;
    return true;
  };
  // The error falls and rises again once.
  if (!improves(1))
    improves(10);
  else if (improves(0.1))
    improves(0.01);
  return best;
}

} // namespace tessera::quantise

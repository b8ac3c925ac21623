#include "passes/Quantise/Blocks.h"

#include <algorithm>
#include <cmath>

namespace tessera::quantise {

/// Measured on a decoder with as many samples as inputs, 512 to 1376 of them.
constexpr double kDampingOfFewRows = 1;

void SecondMoments::add(const float *x, int64_t count, int64_t width) {
  if (!size) {
    size = width;
    h.assign(size_t(width * width), 0);
  }
  if (width != size)
    return;
  rows += uint64_t(count);
  // Blocks of rows in float, sums of blocks in double.
  std::vector<float> part(static_cast<size_t>(size));
  for (int64_t i = 0; i < size; ++i) {
    for (int64_t from = 0; from < count; from += 64) {
      std::fill(part.begin(), part.end(), 0.0f);
      for (int64_t r = from; r < std::min(count, from + 64); ++r) {
        const float *row = x + r * size;
        float xi = row[i];
        if (xi != 0)
          for (int64_t j = i; j < size; ++j)
            part[j] += xi * row[j];
      }
      for (int64_t j = i; j < size; ++j)
        h[i * size + j] += part[j];
    }
    for (int64_t j = i + 1; j < size; ++j)
      h[j * size + i] = h[i * size + j];
  }
}

namespace {

/// Lower Cholesky factor in place; false if not positive definite.
bool factorise(std::vector<double> &a, int64_t n) {
  for (int64_t j = 0; j < n; ++j) {
    double *rowJ = &a[j * n];
    for (int64_t i = j; i < n; ++i) {
      double *rowI = &a[i * n], sum = rowI[j];
      for (int64_t k = 0; k < j; ++k)
        sum -= rowI[k] * rowJ[k];
      if (i == j) {
        if (!(sum > 0))
          return false;
        rowJ[j] = std::sqrt(sum);
      } else {
        rowI[j] = sum / rowJ[j];
      }
    }
  }
  return true;
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
  for (; damping < 1e3; damping *= 10) {
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j)
        a[i * n + j] = m.sums()[(n - 1 - i) * n + (n - 1 - j)];
    for (int64_t i = 0; i < n; ++i) {
      double &d = a[i * n + i];
      d = d == 0 ? std::max(mean, 1e-30) : d + damping * mean;
    }
    if (factorise(a, n))
      break;
  }
  // Inverse of the lower factor, row by row: X L = I.
  std::vector<double> x(size_t(n * n), 0);
  for (int64_t i = 0; i < n; ++i) {
    double *row = &x[i * n];
    const double *l = &a[i * n];
    for (int64_t k = 0; k < i; ++k)
      for (int64_t j = 0; j <= k; ++j)
        row[j] -= l[k] * x[k * n + j];
    row[i] = 1;
    for (int64_t j = 0; j <= i; ++j)
      row[j] /= l[i];
  }
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

  static int round(float w, const Grid &g, int top) {
    return std::clamp(int(std::nearbyint(w / g.scale)) + g.zero, 0, top);
  }

  double error(const float *w, const float *weight, int64_t count,
               const Grid &g) const {
    double sum = 0;
    for (int64_t i = 0; i < count; ++i) {
      float d = w[i] - float(round(w[i], g, top()) - g.zero) * g.scale;
      sum += double(weight[i]) * d * d;
    }
    return sum;
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
    for (int k = 0; k < 24; ++k) {
      float f = 1.04f - 0.02f * float(k);
      if (options.symmetric) {
        // The integers reach one further below zero: either sign may have it.
        float most = std::max(-low, high);
        attempt({f * most / float(middle()), middle()});
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

// What is added to H's diagonal, in units of its mean. With few samples for
// many inputs the moments are mostly chance, and feedback by them does harm on
// other samples.
static double dampingFor(int64_t inputs, uint64_t rows) {
  double share = double(inputs) / double(rows);
  return std::clamp(kDampingOfFewRows * share * share, 0.01, 100.0);
}

BlockWeights quantiseBlocks(const std::vector<float> &weights, int64_t k,
                            int64_t n, const SecondMoments &moments,
                            const BlockOptions &options) {
  BlockWeights out;
  out.k = k, out.n = n, out.options = options;
  out.blocks = (k + options.block - 1) / options.block;
  int64_t padded = out.blocks * options.block;
  out.values.assign(size_t(n * padded), 0);
  bool feedback = !moments.empty() && moments.width() == k;
  std::vector<float> factor =
      feedback ? inverseFactor(moments, dampingFor(k, moments.count()))
               : std::vector<float>();
  std::vector<float> importance(size_t(k), 1);
  for (int64_t i = 0; feedback && i < k; ++i)
    importance[i] = 1 / (factor[i * k + i] * factor[i * k + i]);
  BlockSearch search{options};
  std::vector<float> row(static_cast<size_t>(k));
  for (int64_t c = 0; c < n; ++c) {
    std::copy_n(weights.begin() + c * k, k, row.begin());
    Grid g;
    for (int64_t i = 0; i < padded; ++i) {
      if (i % options.block == 0) {
        g = search.find(&row[i], &importance[i],
                        std::min(options.block, k - i));
        out.scales.push_back(g.scale);
        out.zeros.push_back(uint8_t(g.zero));
      }
      uint8_t &q = out.values[c * padded + i];
      q = uint8_t(g.zero);
      if (i >= k)
        continue;
      q = uint8_t(BlockSearch::round(row[i], g, search.top()));
      if (!feedback)
        continue;
      const float *u = &factor[i * k];
      float error = (row[i] - float(int(q) - g.zero) * g.scale) / u[i];
      for (int64_t j = i + 1; j < k; ++j)
        row[j] -= error * u[j];
    }
  }
  return out;
}

} // namespace tessera::quantise

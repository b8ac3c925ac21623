// Scale arithmetic, and weights in blocks beside rounding to nearest.
#include "passes/Quantise/Rounding.h"
#include "passes/Quantise/Scale.h"
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <random>

using namespace tessera::quantise;

namespace {
const ActivationType kInt8 = {}, kUint8 = {TensorProto::UINT8, 0, 255, false},
                     kInt16 = {TensorProto::INT16, -32768, 32767, true};

std::vector<float> uniform(size_t count, unsigned seed) {
  std::mt19937 bits(seed);
  std::vector<float> v;
  for (size_t i = 0; i < count; ++i)
    v.push_back(float(bits() / 2147483648.0 - 1));
  return v;
}
} // namespace

TEST_CASE("zero is exact and both ends are representable", "[quantise]") {
  for (Range r : {Range{-1, 1}, Range{0, 6}, Range{-3, 0}, Range{-0.1f, 25.3f},
                  Range{2, 5}, Range{-1e-20f, 1e-20f}}) {
    for (const ActivationType &type : {kInt8, kUint8, kInt16}) {
      Params p = paramsFor(r, type);
      CHECK(fakeQuantise(0, p, type) == 0);
      CHECK(std::fabs(fakeQuantise(r.high, p, type) - r.high) <=
            p.scale * 0.5001f);
      CHECK(std::fabs(fakeQuantise(r.low, p, type) - r.low) <=
            p.scale * 0.5001f);
    }
  }
}

TEST_CASE("a range of nothing gets scale one", "[quantise]") {
  CHECK(paramsFor({0, 0}, kInt8) == Params{1, 0});
  CHECK(paramsFor({0, 0}, kUint8) == Params{1, 0});
}

TEST_CASE("ties round to even and the ends saturate", "[quantise]") {
  CHECK(fakeQuantise(0.5f, {1, 0}, kInt8) == 0);
  CHECK(fakeQuantise(1.5f, {1, 0}, kInt8) == 2);
  CHECK(fakeQuantise(1000, {1, 0}, kInt8) == 127);
  CHECK(fakeQuantise(-1000, {1, 3}, kInt8) == -131);
}

TEST_CASE("weights have a scale a channel along the axis", "[quantise]") {
  FloatTensor w = {{2, 3}, {1, 10, 127, -2, 20, 12.7f}};
  QuantisedWeights rows = quantiseWeights(w, 0, false),
                   columns = quantiseWeights(w, 1, false);
  CHECK(rows.scales == std::vector<float>{1, 20.0f / 127});
  CHECK(rows.values == std::vector<int8_t>{1, 10, 127, -13, 127, 81});
  CHECK(columns.scales == std::vector<float>{2.0f / 127, 20.0f / 127, 1});
  CHECK(dequantise(columns).values[3] == -2);
  CHECK(quantiseWeights(w, 0, false, {5, 0}).scales[0] == 5);
}

TEST_CASE("a bias that does not fit int32 is refused", "[quantise]") {
  CHECK(quantiseBias({1, -2}, {0.5f, 0.25f}) == std::vector<int32_t>{2, -8});
  CHECK(quantiseBias({3}, {1e-10f}) == std::nullopt);
}

TEST_CASE("the factor of the inverse multiplies back to it", "[quantise]") {
  const int64_t n = 7;
  std::vector<float> x = uniform(n * 40, 3);
  SecondMoments m;
  m.add(x.data(), 40, n);
  std::vector<float> u = inverseFactor(m, 1e-9);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) {
      // (U' U) H must be the identity.
      double sum = 0;
      for (int64_t a = 0; a < n; ++a)
        for (int64_t k = 0; k < n; ++k)
          sum += double(u[k * n + i]) * u[k * n + a] * m.sums()[a * n + j];
      CHECK(std::fabs(sum - (i == j)) < 1e-3);
      if (j < i)
        CHECK(u[i * n + j] == 0);
    }
}

TEST_CASE("error feedback makes the product better than rounding to nearest",
          "[quantise]") {
  const int64_t k = 70, n = 9, rows = 400; // the last block is not full
  std::vector<float> x = uniform(rows * k, 5), w = uniform(n * k, 6);
  for (int64_t r = 0; r < rows; ++r) // inputs that go together, as real ones do
    for (int64_t i = 0; i < k; ++i)
      x[r * k + i] = 0.3f * x[r * k + i] + x[r * k + i % 5];
  SecondMoments moments;
  moments.add(x.data(), rows, k);
  for (bool symmetric : {true, false})
    for (int bits : {4, 8}) {
      BlockOptions options{bits, 32, symmetric};
      auto errorOf = [&](const BlockWeights &q) {
        double sum = 0;
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t c = 0; c < n; ++c) {
            double d = 0;
            for (int64_t i = 0; i < k; ++i)
              d += double(x[r * k + i]) * (w[c * k + i] - q.at(i, c));
            sum += d * d;
          }
        return sum;
      };
      BlockWeights nearest = quantiseBlocks(w, k, n, {}, options),
                   fed = quantiseBlocks(w, k, n, Feedback(moments, 0.01),
                                        options);
      CHECK(fed.blocks == 3);
      CHECK(errorOf(fed) < 0.5 * errorOf(nearest));
    }
}

TEST_CASE("moments that are chance are not trusted", "[quantise]") {
  const int64_t k = 64, n = 8;
  std::vector<float> w = uniform(n * k, 6);
  BlockOptions options{4, 32, true};
  auto dampingOf = [&](int64_t rows, float common) {
    HalfMoments halves;
    for (int h = 0; h < 2; ++h) {
      std::vector<float> x = uniform(rows * k, 7 + unsigned(h));
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t i = 0; i < k; ++i)
          x[r * k + i] += common * x[r * k + i % 3];
      halves[h].add(x.data(), rows, k);
    }
    return chooseDamping(w, k, n, halves, options);
  };
  // Inputs that go together, well measured: the more trust the better.
  CHECK(dampingOf(500, 3).value_or(100) <= 0.1);
  // A few rows of noise.
  CHECK(dampingOf(6, 0).value_or(100) >= 1);
  CHECK(chooseDamping(w, k, n, {}, options) == std::nullopt);
}

TEST_CASE("rows under a window are what a convolution reads", "[quantise]") {
  // [1, 2, 3, 4], numbered.
  std::vector<float> x(24);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = float(i);
  Window window = {{2, 2}, {2, 1}}; // one place down, three across
  CHECK(rowsUnder(window, {1, 2, 3, 4}, x.data(), 100) ==
        std::vector<float>{0,  1,  8,  9,  12, 13, 20, 21, 1,  2,  9,  10,
                           13, 14, 21, 22, 2,  3,  10, 11, 14, 15, 22, 23});
  CHECK(rowsUnder(window, {1, 2, 3, 4}, x.data(), 1).size() == 8);
  CHECK(rowsUnder({{4, 1}, {1, 1}}, {1, 2, 3, 4}, x.data(), 9).empty());
  // A group reads its own channels.
  Window group = {{2, 2}, {2, 1}, 1, 1};
  CHECK(rowsUnder(group, {1, 2, 3, 4}, x.data(), 1) ==
        std::vector<float>{12, 13, 20, 21});
  CHECK(rowsUnder({{1, 1}, {1, 1}, 2, 1}, {1, 2, 3, 4}, x.data(), 1).empty());
  // Batches one after another; a window of one element sees every place.
  CHECK(rowsUnder({{1}, {1}}, {2, 2, 2}, x.data(), 9) ==
        std::vector<float>{0, 2, 1, 3, 4, 6, 5, 7});
}

TEST_CASE("moments about a centre are those of what is left", "[quantise]") {
  const int64_t k = 5, rows = 90;
  std::vector<float> x = uniform(rows * k, 8), moved = x;
  for (float &v : x)
    v += 2;
  SecondMoments m, want;
  m.add(x.data(), rows, k);
  want.add(moved.data(), rows, k);
  SecondMoments got = m.about(std::vector<double>(k, 2));
  for (size_t i = 0; i < size_t(k * k); ++i)
    CHECK(std::fabs(got.sums()[i] - want.sums()[i]) < 1e-3);
  for (size_t i = 0; i < size_t(k); ++i)
    CHECK(std::fabs(m.mean()[i] - 2 - want.mean()[i]) < 1e-5);
}

TEST_CASE("a bias takes the mean of what rounding loses", "[quantise]") {
  const int64_t k = 9, rows = 300;
  std::vector<float> x = uniform(rows * k, 9);
  for (float &v : x)
    v = 4 + 0.5f * v;
  HalfMoments halves;
  halves[0].add(x.data(), rows / 2, k);
  halves[1].add(&x[rows / 2 * k], rows / 2, k);
  auto errorOf = [&](bool biased) {
    // Two groups of one column.
    std::vector<Matrix> matrices;
    std::map<Rows, HalfMoments> moments;
    for (int64_t g = 0; g < 2; ++g) {
      matrices.push_back({0,
                          {"x", {{3, 3}, {1, 1}, g, 1}},
                          k,
                          1,
                          uniform(k, 20 + unsigned(g)),
                          biased});
      moments[matrices.back().input] = halves;
    }
    RoundedUnit r = roundMatrices(matrices, moments, {5, 0, true}, {}).at(0);
    CHECK(r.weights.n == 2);
    CHECK(r.shift.size() == (biased ? 2 : 0));
    double sum = 0;
    for (int64_t c = 0; c < 2; ++c)
      for (int64_t i = 0; i < rows; ++i) {
        double d = biased ? -r.shift[c] : 0;
        for (int64_t j = 0; j < k; ++j)
          d += double(x[i * k + j]) *
               (matrices[c].columns[j] - r.weights.at(j, c));
        sum += d * d;
      }
    return sum;
  };
  CHECK(errorOf(true) < 0.5 * errorOf(false));
}

TEST_CASE("a narrow block has no least integer, and loses nothing by it",
          "[quantise]") {
  const int64_t k = 40, n = 30;
  std::vector<float> w = uniform(k * n, 31);
  for (int64_t c = 0; c < n; ++c)
    w[c * k] = -1.5f; // the largest one is negative
  BlockWeights q = quantiseBlocks(w, k, n, {}, {8, k, true, true});
  for (int64_t c = 0; c < n; ++c)
    for (int64_t r = 0; r < k; ++r) {
      CHECK(q.values[c * k + r] >= 1);
      CHECK(std::fabs(q.at(r, c) - w[c * k + r]) < 0.8f * q.scales[c]);
    }
}

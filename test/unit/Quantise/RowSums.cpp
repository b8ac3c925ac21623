// Rows subtracted four at a time, beside one after another; and the error of
// rounding, beside the definition.
#include "passes/Quantise/RowSums.h"
#include "passes/Quantise/Parallel.h"
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <random>
#include <vector>

using namespace tessera::quantise;

namespace {

template <typename T> std::vector<T> uniform(size_t count, unsigned seed) {
  std::mt19937 bits(seed);
  std::vector<T> v;
  for (size_t i = 0; i < count; ++i)
    v.push_back(T(bits() / 2147483648.0 - 1));
  return v;
}

template <typename T> void checkRows() {
  const int64_t width = 37, stride = 41;
  for (int64_t count : {0, 1, 3, 4, 5, 8, 11}) {
    std::vector<T> others = uniform<T>(size_t(count * stride + width), 1),
                   factors = uniform<T>(size_t(count), 2),
                   row = uniform<T>(width, 3), want = row;
    // Products are rounded before they are subtracted.
    for (int64_t r = 0; r < count; ++r)
      for (int64_t j = 2; j < width - 1; ++j) {
        volatile T product = factors[r] * others[r * stride + j];
        want[j] = want[j] - product;
      }
    subtractRows(row.data(), others.data(), stride, factors.data(), count, 2,
                 width - 1);
    CHECK(row == want);
  }
}

} // namespace

TEST_CASE("rows subtracted together give the bits of one after another",
          "[quantise]") {
  checkRows<double>();
  checkRows<float>();
}

TEST_CASE("the error of rounding is that of its definition", "[quantise]") {
  std::vector<float> values = uniform<float>(203, 4),
                     weights = uniform<float>(203, 5);
  for (float &w : weights)
    w = std::fabs(w);
  values[7] = 0.5f; // a tie
  for (float scale : {0.25f, -0.01f, 0.003f}) {
    double want = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      double q = std::nearbyint(double(values[i] / scale));
      q = std::min(std::max(q, -8.0), 7.0);
      double d = double(values[i]) - q * double(scale);
      want += double(weights[i]) * d * d;
    }
    double got = roundingError(values.data(), weights.data(),
                               int64_t(values.size()), scale, -8, 7);
    CHECK(std::fabs(got - want) <= 1e-5 * want);
  }
}

TEST_CASE("work inside parallel work is done as well", "[quantise]") {
  std::atomic<int> done = 0;
  inParallel(5, [&](size_t) { inParallel(7, [&](size_t) { ++done; }); });
  inParallel(1, [&](size_t) { inParallel(3, [&](size_t) { ++done; }); });
  CHECK(done == 38);
}

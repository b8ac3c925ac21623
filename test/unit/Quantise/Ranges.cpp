// Range estimators over histograms, beside what the values themselves say.
#include "passes/Quantise/Calibrate.h"
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <random>

using namespace tessera::quantise;

namespace {

std::vector<float> normal(size_t count, unsigned seed) {
  std::mt19937 bits(seed);
  std::vector<float> v;
  for (size_t i = 0; i < count; ++i) { // Box-Muller: the same on every library
    double a = (bits() + 1.0) / 4294967297.0, b = bits() / 4294967296.0;
    v.push_back(
        float(std::sqrt(-2 * std::log(a)) * std::cos(6.283185307179586 * b)));
  }
  return v;
}

Histogram of(const std::vector<float> &v) {
  Histogram h;
  h.add(v.data(), int64_t(v.size()));
  return h;
}

double errorOf(const std::vector<float> &v, Range r, double top) {
  double step = (double(r.high) - r.low) / top,
         zero = std::nearbyint(-r.low / step), sum = 0;
  for (float x : v) {
    double q = std::min(top, std::max(0.0, std::nearbyint(x / step) + zero));
    double d = x - (q - zero) * step;
    sum += d * d;
  }
  return sum / double(v.size());
}

} // namespace

TEST_CASE("min-max is what was seen, with zero in it", "[quantise]") {
  CHECK(of({1, 2, 3.5f}).range(RangeMethod::MinMax, 256, false) ==
        Range{0, 3.5f});
  CHECK(of({-2, -1}).range(RangeMethod::MinMax, 256, false) == Range{-2, 0});
  CHECK(of({-2, 3}).range(RangeMethod::MinMax, 256, true) == Range{-3, 3});
  CHECK(of({0, 0}).range(RangeMethod::MinMax, 256, false) == Range{0, 0});
}

TEST_CASE("values that are not finite are counted apart", "[quantise]") {
  Histogram h = of({1, INFINITY, -2, NAN});
  CHECK(h.notFinite() == 2);
  CHECK(h.count() == 2);
  CHECK(h.seen() == Range{-2, 1});
}

TEST_CASE("the order of samples and merging change nothing", "[quantise]") {
  std::vector<float> small = normal(1000, 1), large = normal(1000, 2);
  for (float &x : large)
    x *= 37;
  Histogram a = of(small), b = of(large), together;
  a.add(large.data(), 1000);
  b.add(small.data(), 1000);
  CHECK(a.save() == b.save());
  together.merge(of(large));
  together.merge(of(small));
  CHECK(together.save() == a.save());
  CHECK(Histogram::load(a.save())->save() == a.save());
  CHECK_FALSE(Histogram::load("0x1p+3 0x0p+0 0x1p+0 2 0 4096:1").has_value());
}

TEST_CASE("percentile clips outliers and keeps a ReLU's zero", "[quantise]") {
  std::vector<float> v = normal(100000, 3);
  for (float &x : v)
    x = std::fabs(x);
  v[7] = 1000;
  Range r = of(v).range(RangeMethod::Percentile, 256, false, 99.99);
  CHECK(r.low == 0);
  CHECK(r.high > 3);
  CHECK(r.high < 6);
}

TEST_CASE("mse finds a range whose true error is near the least",
          "[quantise]") {
  // With sixteen steps clipping pays.
  std::vector<float> v = normal(20000, 4);
  Histogram h = of(v);
  Range found = h.range(RangeMethod::Mse, 16, false);
  double least = INFINITY;
  for (float top = 1; top < 5; top += 0.1f)
    for (float bottom = 1; bottom < 5; bottom += 0.1f)
      least = std::min(least, errorOf(v, {-bottom, top}, 15));
  CHECK(errorOf(v, found, 15) < 1.1 * least);
  CHECK(errorOf(v, found, 15) < 0.8 * errorOf(v, h.seen(), 15));
}

TEST_CASE("entropy clips a long thin tail, not a uniform distribution",
          "[quantise]") {
  std::vector<float> v = normal(100000, 5);
  v[0] = 40;
  CHECK(of(v).range(RangeMethod::Entropy, 256, false).high < 20);
  std::vector<float> uniform;
  for (int i = 0; i < 100000; ++i)
    uniform.push_back(float(i) / 100000);
  CHECK(of(uniform).range(RangeMethod::Entropy, 256, false).high > 0.95f);
}

TEST_CASE("between is half way from mse to all that was seen", "[quantise]") {
  std::vector<float> v = normal(20000, 6);
  v[0] = 30;
  v[1] = -20;
  Histogram h = of(v);
  Range least = h.range(RangeMethod::Mse, 256, false),
        half = h.range(RangeMethod::Between, 256, false);
  CHECK(least.high < 29);
  CHECK(std::fabs(half.high * half.high - 30 * least.high) < 1e-2f);
  CHECK(std::fabs(half.low * half.low + 20 * least.low) < 1e-2f);
}

TEST_CASE("the wildest samples reach furthest in what is read", "[quantise]") {
  Peaks peaks = {{"a", {1, 2, 8, 1, 1}},
                 {"b", {3, 3, 3, 3, 12}},
                 {"output", {1, 900, 1, 1, 1}}};
  CHECK(wildest(peaks, {"a", "b"}, 5, 2) == std::vector<size_t>{2, 4});
  CHECK(wildest(peaks, {"a", "b", "output"}, 5, 1) == std::vector<size_t>{1});
  CHECK(wildest(peaks, {"c"}, 2, 9) == std::vector<size_t>{0, 1});
}

// Worst error of the expanded elementary functions against the host's libm in a
// wider type: double for f32, 80-bit long double for f64.
#include "test/unit/Cpu/Jit.h"

#include "catch2/catch_test_macros.hpp"
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <random>

using namespace tessera::test;

namespace {

using Wide = long double;

struct Function {
  const char *op;
  const char *attributes;
  Wide (*reference)(Wide);
  double lo, hi;      ///< where most samples lie
  double ulp32, ulp64; ///< allowed
};

Wide gauss(Wide x) { return x * 0.5L * erfcl(-x * 0.70710678118654752440L); }
Wide logistic(Wide x) { return 1 / (1 + expl(-x)); }
Wide softplus(Wide x) { return x > 0 ? x + log1pl(expl(-x)) : log1pl(expl(x)); }
Wide elu(Wide x) { return x > 0 ? x : expm1l(x); }
Wide mish(Wide x) { return x * tanhl(softplus(x)); }
Wide silu(Wide x) { return x * logistic(x); }

constexpr double inf = std::numeric_limits<double>::infinity();

const Function functions[] = {
    {"onnx.Exp", "", expl, -110, 95, 1.1, 1.1},
    {"onnx.Log", "", logl, 0, 10, 1.0, 1.0},
    {"onnx.Sin", "", sinl, -100, 100, 0.6, 1.0},
    {"onnx.Cos", "", cosl, -100, 100, 0.6, 1.0},
    {"onnx.Tan", "", tanl, -100, 100, 0.6, 3.0},
    {"onnx.Asin", "", asinl, -1, 1, 0.6, 2.5},
    {"onnx.Acos", "", acosl, -1, 1, 0.6, 2.0},
    {"onnx.Atan", "", atanl, -20, 20, 0.6, 2.0},
    {"onnx.Sinh", "", sinhl, -95, 95, 0.6, 3.0},
    {"onnx.Cosh", "", coshl, -95, 95, 0.6, 3.0},
    {"onnx.Tanh", "", tanhl, -12, 12, 3.0, 3.0},
    {"onnx.Asinh", "", asinhl, -100, 100, 0.6, 4.0},
    {"onnx.Acosh", "", acoshl, 1, 100, 0.6, 4.0},
    {"onnx.Atanh", "", atanhl, -1, 1, 0.6, 4.0},
    {"onnx.Erf", "", erfl, -5, 5, 1.5, 2.0},
    {"onnx.Sigmoid", "", logistic, -100, 40, 3.0, 3.0},
    {"onnx.Elu", "", elu, -20, 2, 2.0, 2.0},
    {"onnx.Softplus", "", softplus, -100, 30, 3.0, 3.0},
    // Relative errors where the result is next to nothing: Gelu loses digits as
    // x^2 grows, the others when e^x is subnormal.
    {"onnx.Gelu", "", gauss, -13, 6, 1000, 1200},
    {"onnx.Mish", "", mish, -90, 30, 64, 512},
    {"onnx.Swish", "", silu, -90, 30, 64, 512},
};

template <typename T> Wide ulpOf(Wide reference) {
  Wide a = fabsl(reference);
  int e;
  frexpl(a, &e);
  e -= std::numeric_limits<T>::digits;
  int least = std::numeric_limits<T>::min_exponent - std::numeric_limits<T>::digits;
  return ldexpl(1, a == 0 ? least : std::max(e, least));
}

template <typename T> std::vector<T> samples(double lo, double hi) {
  std::vector<T> x;
  std::mt19937_64 rng(7);
  std::uniform_real_distribution<double> uniform(lo, hi);
  std::normal_distribution<double> normal;
  for (int i = 0; i < 200000; ++i)
    x.push_back(static_cast<T>(uniform(rng)));
  for (int i = 0; i < 50000; ++i)
    x.push_back(static_cast<T>(normal(rng)));
  // Any bit pattern: huge, tiny, subnormal, NaN.
  for (int i = 0; i < 100000; ++i) {
    uint64_t bits = rng();
    T v;
    std::memcpy(&v, &bits, sizeof v);
    x.push_back(v);
  }
  using L = std::numeric_limits<T>;
  for (T v : {T(0), T(1), T(0.5), L::infinity(), L::quiet_NaN(), L::min(), L::denorm_min(), L::max(), T(M_PI), T(M_PI_2), T(88.72284), T(0x1p24), T(0x1p20), T(1e22)}) {
    x.push_back(v);
    x.push_back(-v);
  }
  return x;
}

template <typename T> void check(llvm::StringRef isa) {
  const char *type = sizeof(T) == 4 ? "f32" : "f64";
  std::vector<OpSpec> specs;
  for (const Function &f : functions)
    specs.push_back({f.op, {type}, type, f.attributes, {}});
  Jit jit(specs, isa);
  REQUIRE(jit.ok());
  for (size_t i = 0; i < specs.size(); ++i) {
    const Function &f = functions[i];
    std::vector<T> x = samples<T>(f.lo, f.hi), y(x.size());
    CHECK(jit.run(i, {x.data(), y.data()}, x.size()) == 0);
    Wide worst = 0;
    T at = 0;
    int wrongSpecials = 0;
    for (size_t k = 0; k < x.size(); ++k) {
      Wide r = f.reference(x[k]);
      T rounded = static_cast<T>(r);
      if (std::isnan(rounded) || std::isinf(rounded) || std::isnan(y[k]) || std::isinf(y[k])) {
        bool same = std::isnan(rounded) ? std::isnan(y[k]) : y[k] == rounded;
        // One place below overflow may round either way.
        if (!same && !(std::fabs(rounded) == std::numeric_limits<T>::max() || std::fabs(y[k]) == std::numeric_limits<T>::max())) {
          if (!wrongSpecials++)
            std::printf("    %s(%a) = %a, not %a\n", f.op, double(x[k]), double(y[k]), double(rounded));
        }
        continue;
      }
      if (rounded == 0 && y[k] == 0 && std::signbit(rounded) != std::signbit(y[k]) && !wrongSpecials++)
        std::printf("    %s(%a): sign of zero\n", f.op, double(x[k]));
      Wide error = fabsl((Wide(y[k]) - r) / ulpOf<T>(r));
      if (error > worst) {
        worst = error;
        at = x[k];
      }
    }
    std::printf("  %-10s %-14s %s  %.2Lf ulp at %.9g, %d wrong specials\n", isa.str().c_str(), f.op, type, worst, double(at), wrongSpecials);
    CHECK(wrongSpecials == 0);
    CHECK(worst <= (sizeof(T) == 4 ? f.ulp32 : f.ulp64));
  }
}

template <typename T> void checkBinary(llvm::StringRef isa) {
  const char *type = sizeof(T) == 4 ? "f32" : "f64";
  Jit jit({{"onnx.Pow", {type, type}, type, "", {}}, {"onnx.Mod", {type, type}, type, "fmod = 1 : i64", {}}}, isa);
  REQUIRE(jit.ok());
  std::vector<T> x, y;
  std::vector<T> special = {0, 1, 2, 3, 0.5, 1.5, 1e10, 1e30, std::numeric_limits<T>::infinity(), std::numeric_limits<T>::quiet_NaN(),
                            std::numeric_limits<T>::min(), std::numeric_limits<T>::denorm_min(), std::numeric_limits<T>::max(), 7, T(16777219)};
  for (T a : special)
    for (T c : special)
      for (int s = 0; s < 4; ++s) {
        x.push_back(s & 1 ? -a : a);
        y.push_back(s & 2 ? -c : c);
      }
  std::mt19937_64 rng(9);
  std::normal_distribution<double> normal;
  for (int i = 0; i < 100000; ++i) {
    x.push_back(static_cast<T>(std::exp(normal(rng) * 4)));
    y.push_back(static_cast<T>(normal(rng) * 20));
    x.push_back(static_cast<T>(-std::exp(normal(rng) * 2)));
    y.push_back(static_cast<T>(static_cast<int>(rng() % 41) - 20));
    uint64_t bits = rng(), more = rng();
    T a, c;
    std::memcpy(&a, &bits, sizeof a);
    std::memcpy(&c, &more, sizeof c);
    x.push_back(a);
    y.push_back(c);
  }
  std::vector<T> z(x.size());
  CHECK(jit.run(0, {x.data(), y.data(), z.data()}, x.size()) == 0);
  Wide worst = 0;
  int wrong = 0;
  size_t at = 0;
  for (size_t k = 0; k < x.size(); ++k) {
    Wide r = powl(x[k], y[k]);
    T rounded = static_cast<T>(r);
    bool finite = std::isfinite(rounded) && std::isfinite(z[k]);
    bool same = finite ? rounded != 0 || z[k] != 0 || std::signbit(rounded) == std::signbit(z[k])
                       : std::isnan(rounded) ? std::isnan(z[k]) : rounded == z[k];
    if (!same && !wrong++)
      std::printf("    pow(%a, %a) = %a, not %a\n", double(x[k]), double(y[k]), double(z[k]), double(rounded));
    if (!finite)
      continue;
    Wide error = fabsl((Wide(z[k]) - r) / ulpOf<T>(r));
    if (error > worst)
      worst = error, at = k;
  }
  std::printf("  %-10s pow            %s  %.2Lf ulp at %.9g, %.9g, %d wrong specials\n", isa.str().c_str(), type, worst, double(x[at]), double(y[at]), wrong);
  CHECK(wrong == 0);
  CHECK(worst <= (sizeof(T) == 4 ? 0.6 : 2.0));

  CHECK(jit.run(1, {x.data(), y.data(), z.data()}, x.size()) == 0);
  wrong = 0;
  for (size_t k = 0; k < x.size(); ++k) {
    T r = std::fmod(x[k], y[k]);
    bool same = std::isnan(r) ? std::isnan(z[k]) : r == z[k] && std::signbit(r) == std::signbit(z[k]);
    if (!same && !wrong++)
      std::printf("    fmod(%a, %a) = %a, not %a\n", double(x[k]), double(y[k]), double(z[k]), double(r));
  }
  CHECK(wrong == 0);
}

} // namespace

TEST_CASE("pow has C's special cases, fmod is exact", "[math]") {
  for (const std::string &isa : runnableIsas()) {
    checkBinary<float>(isa);
    checkBinary<double>(isa);
  }
}

TEST_CASE("elementary functions stay within their stated error", "[math]") {
  for (const std::string &isa : runnableIsas()) {
    check<float>(isa);
    check<double>(isa);
  }
}

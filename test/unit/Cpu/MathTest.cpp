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
  /// Absolute error allowed instead, in units of the last place of 1.
  double absolute = 0;
};

Wide gauss(Wide x) { return x * 0.5L * erfcl(-x * 0.70710678118654752440L); }
Wide logistic(Wide x) { return 1 / (1 + expl(-x)); }
Wide softplus(Wide x) { return x > 0 ? x + log1pl(expl(-x)) : log1pl(expl(x)); }
Wide elu(Wide x) { return x > 0 ? x : expm1l(x); }
Wide mish(Wide x) { return x * tanhl(softplus(x)); }
Wide silu(Wide x) { return x * logistic(x); }

constexpr double inf = std::numeric_limits<double>::infinity();

const Function functions[] = {
    {"onnx.Exp", "", expl, -110, 95, 1.0, 1.0},
    {"onnx.Log", "", logl, 0, 10, 1.0, 1.0},
    {"onnx.Sin", "", sinl, -100, 100, 0.6, 1.0},
    {"onnx.Cos", "", cosl, -100, 100, 0.6, 1.0},
    {"onnx.Tan", "", tanl, -100, 100, 0.6, 3.0},
    {"onnx.Asin", "", asinl, -1, 1, 0.6, 2.0},
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
    {"onnx.Gelu", "", gauss, -13, 6, 400, 4000},
    {"onnx.Mish", "", mish, -90, 30, 8.0, 8.0},
    {"onnx.Swish", "", silu, -90, 30, 5.0, 5.0},
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

} // namespace

TEST_CASE("elementary functions stay within their stated error", "[math]") {
  for (const std::string &isa : runnableIsas()) {
    check<float>(isa);
    check<double>(isa);
  }
}

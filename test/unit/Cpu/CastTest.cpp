// Casts against a slow oracle: every code of a small float decoded by its
// definition, every rounding by searching the two neighbours.
#include "test/unit/Cpu/Jit.h"

#include "catch2/catch_test_macros.hpp"
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <map>
#include <random>

using namespace tessera::test;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity();
const double nan_ = std::nan("");

struct Small {
  const char *type;
  int bits, mantissa, bias;
  bool hasInf;
  enum { Ieee, AllOnes, MinusZero, None } nan;
};

const Small smalls[] = {
    {"f16", 16, 10, 15, true, Small::Ieee},       {"bf16", 16, 7, 127, true, Small::Ieee},
    {"f8E4M3FN", 8, 3, 7, false, Small::AllOnes}, {"f8E4M3FNUZ", 8, 3, 8, false, Small::MinusZero},
    {"f8E5M2", 8, 2, 15, true, Small::Ieee},      {"f8E5M2FNUZ", 8, 2, 16, false, Small::MinusZero},
    {"f4E2M1FN", 4, 1, 1, false, Small::None},
};

double decode(const Small &s, unsigned code) {
  unsigned signBit = 1u << (s.bits - 1);
  double sign = code & signBit ? -1 : 1;
  unsigned magnitude = code & (signBit - 1);
  unsigned exponent = magnitude >> s.mantissa, fraction = magnitude & ((1u << s.mantissa) - 1);
  unsigned top = (1u << (s.bits - 1 - s.mantissa)) - 1;
  if (s.nan == Small::MinusZero && code == signBit)
    return nan_;
  if (s.nan == Small::AllOnes && magnitude == signBit - 1)
    return nan_;
  if (s.nan == Small::Ieee && exponent == top)
    return fraction ? nan_ : sign * inf;
  double m = exponent ? 1 + std::ldexp(fraction, -s.mantissa) : std::ldexp(fraction, -s.mantissa);
  return sign * std::ldexp(m, static_cast<int>(exponent ? exponent : 1) - s.bias);
}

/// Code of the nearest value, ties to the even code.
unsigned encode(const Small &s, double x, bool saturate) {
  unsigned signBit = 1u << (s.bits - 1);
  unsigned nanCode = s.nan == Small::None ? signBit : s.nan == Small::MinusZero ? signBit : s.nan == Small::AllOnes ? signBit - 1 : 0xffffffff;
  if (std::isnan(x))
    return nanCode;
  unsigned sign = std::signbit(x) ? signBit : 0;
  double a = std::fabs(x);
  static std::map<const Small *, unsigned> tops; // greatest finite magnitude
  unsigned &top = tops[&s];
  for (unsigned c = 0; top == 0 && c < signBit; ++c)
    if (std::isfinite(decode(s, signBit - 1 - c)))
      top = signBit - 1 - c;
  double max = decode(s, top);
  double step = max - decode(s, top - 1);
  unsigned code;
  bool over = a > max + step / 2 || (a == max + step / 2 && (top & 1));
  if (over) {
    if (s.nan == Small::None || saturate)
      code = top;
    else if (s.hasInf)
      code = top + 1;
    else
      return nanCode;
  } else {
    unsigned lo = 0, hi = top;
    while (hi - lo > 1) {
      unsigned mid = (lo + hi) / 2;
      (decode(s, mid) <= a ? lo : hi) = mid;
    }
    double l = a - decode(s, lo), h = decode(s, hi) - a;
    code = l < h || (l == h && !(lo & 1)) ? lo : hi;
  }
  if (s.nan == Small::MinusZero && code == 0)
    return 0;
  return code | sign;
}

bool isNanCode(const Small &s, unsigned code) { return std::isnan(decode(s, code)); }

unsigned element(const Small &s, const std::vector<uint8_t> &bytes, size_t i) {
  if (s.bits == 16)
    return bytes[2 * i] | bytes[2 * i + 1] << 8;
  if (s.bits == 8)
    return bytes[i];
  return bytes[i / 2] >> (4 * (i % 2)) & 15;
}

template <typename T> std::vector<T> inputs(const Small &s) {
  std::vector<T> x;
  std::mt19937_64 rng(3);
  std::normal_distribution<double> normal(0, 3);
  for (int i = 0; i < 3000; ++i) {
    uint64_t bits = rng();
    T v;
    std::memcpy(&v, &bits, sizeof v);
    x.push_back(v);
    x.push_back(static_cast<T>(normal(rng)));
    x.push_back(static_cast<T>(std::ldexp(normal(rng), static_cast<int>(rng() % 48) - 24)));
    x.push_back(static_cast<T>(std::ldexp(normal(rng), static_cast<int>(rng() % 300) - 150)));
    // Ties and their neighbours.
    unsigned c = rng() & ((1u << (s.bits - 1)) - 2);
    double mid = (decode(s, c) + decode(s, c + 1)) / 2;
    for (double d : {mid, std::nextafter(mid, inf), std::nextafter(mid, -inf)})
      x.push_back(static_cast<T>(d));
    x.push_back(static_cast<T>(-mid));
  }
  for (double v : {0.0, inf, nan_, 1e300, 1e-300, 464.0, 465.0, 61440.0, 65519.0, 65520.0, 5.0, 7.0})
    for (double w : {v, -v})
      x.push_back(static_cast<T>(w));
  return x;
}

template <typename T> void floatsToSmall(llvm::StringRef isa, const char *from) {
  std::vector<OpSpec> specs;
  for (const Small &s : smalls)
    for (const char *saturate : {"saturate = 1 : i64", "saturate = 0 : i64"})
      specs.push_back({"onnx.Cast", {from}, s.type, std::string("to = 1 : i64, ") + saturate, {}});
  Jit jit(specs, isa);
  REQUIRE(jit.ok());
  for (size_t i = 0; i < specs.size(); ++i) {
    const Small &s = smalls[i / 2];
    bool saturate = i % 2 == 0 && s.bits < 16;
    std::vector<T> x = inputs<T>(s);
    std::vector<uint8_t> y(x.size() * 2);
    CHECK(jit.run(i, {x.data(), y.data()}, x.size()) == 0);
    int wrong = 0;
    for (size_t k = 0; k < x.size(); ++k) {
      unsigned want = encode(s, x[k], saturate), got = element(s, y, k);
      bool same = want == got || (std::isnan(static_cast<double>(x[k])) && s.nan != Small::None && isNanCode(s, got));
      if (!same && isNanCode(s, got) && want != 0xffffffff && isNanCode(s, want))
        same = true;
      if (!same && !wrong++)
        std::printf("    %s %s -> %s%s: %a gives %x, not %x\n", isa.str().c_str(), from, s.type, saturate ? " saturated" : "", double(x[k]), got, want);
    }
    CHECK(wrong == 0);
  }
}

void smallToFloat(llvm::StringRef isa) {
  std::vector<OpSpec> specs;
  for (const Small &s : smalls)
    specs.push_back({"onnx.Cast", {s.type}, "f32", "to = 1 : i64", {}});
  Jit jit(specs, isa);
  REQUIRE(jit.ok());
  for (size_t i = 0; i < specs.size(); ++i) {
    const Small &s = smalls[i];
    size_t n = size_t(1) << s.bits;
    std::vector<uint8_t> x(2 * n);
    for (size_t c = 0; c < n; ++c) {
      if (s.bits == 16)
        x[2 * c] = c, x[2 * c + 1] = c >> 8;
      else if (s.bits == 8)
        x[c] = c;
      else
        x[c / 2] |= c << (4 * (c % 2));
    }
    std::vector<float> y(n);
    CHECK(jit.run(i, {x.data(), y.data()}, n) == 0);
    int wrong = 0;
    for (size_t c = 0; c < n; ++c) {
      double want = decode(s, c);
      bool same = std::isnan(want) ? std::isnan(y[c]) : want == y[c] && std::signbit(want) == std::signbit(y[c]);
      if (!same && !wrong++)
        std::printf("    %s %s -> f32: %zx gives %a, not %a\n", isa.str().c_str(), s.type, c, y[c], want);
    }
    CHECK(wrong == 0);
  }
}

/// Saturation and NaN -> 0 of float to integer casts.
template <typename F, typename I> void floatToInt(llvm::StringRef isa, const char *from, const char *to) {
  Jit jit({{"onnx.Cast", {from}, to, "to = 1 : i64", {}}}, isa);
  REQUIRE(jit.ok());
  std::vector<F> x = inputs<F>(smalls[0]);
  std::mt19937_64 rng(5);
  for (int i = 0; i < 5000; ++i)
    x.push_back(static_cast<F>(std::ldexp(static_cast<double>(static_cast<int64_t>(rng())), -static_cast<int>(rng() % 64))));
  std::vector<I> y(x.size());
  CHECK(jit.run(0, {x.data(), y.data()}, x.size()) == 0);
  using L = std::numeric_limits<I>;
  int wrong = 0;
  for (size_t k = 0; k < x.size(); ++k) {
    double t = std::trunc(static_cast<double>(x[k]));
    I want = std::isnan(t) ? I(0) : t < static_cast<double>(L::min()) ? L::min()
             : t >= std::ldexp(1.0, L::digits) ? L::max() : static_cast<I>(t);
    if (want != y[k] && !wrong++)
      std::printf("    %s %s -> %s: %a gives %lld, not %lld\n", isa.str().c_str(), from, to, double(x[k]), (long long)y[k], (long long)want);
  }
  CHECK(wrong == 0);
}

/// Integers to floats: one rounding.
template <typename I> void intToFloats(llvm::StringRef isa, const char *from) {
  Jit jit({{"onnx.Cast", {from}, "f32", "to = 1 : i64", {}},
           {"onnx.Cast", {from}, "f64", "to = 1 : i64", {}},
           {"onnx.Cast", {from}, "f16", "to = 1 : i64", {}},
           {"onnx.Cast", {from}, "bf16", "to = 1 : i64", {}}}, isa);
  REQUIRE(jit.ok());
  std::vector<I> x;
  std::mt19937_64 rng(11);
  for (int i = 0; i < 4000; ++i) {
    x.push_back(static_cast<I>(rng() >> (rng() % 64)));
    x.push_back(static_cast<I>(0) - static_cast<I>(rng() >> (rng() % 64)));
    // Just beyond a tie of bfloat16: 1.0000000 1 0...01.
    x.push_back(static_cast<I>(((0x81ull | rng() % 128) << 55 | 1ull << 54 | 1) >> (rng() % 56)));
  }
  std::vector<float> f(x.size());
  std::vector<double> d(x.size());
  std::vector<uint16_t> h(x.size()), b(x.size());
  CHECK(jit.run(0, {x.data(), f.data()}, x.size()) == 0);
  CHECK(jit.run(1, {x.data(), d.data()}, x.size()) == 0);
  CHECK(jit.run(2, {x.data(), h.data()}, x.size()) == 0);
  CHECK(jit.run(3, {x.data(), b.data()}, x.size()) == 0);
  int wrong = 0;
  for (size_t k = 0; k < x.size(); ++k) {
    bool ok = f[k] == static_cast<float>(x[k]) && d[k] == static_cast<double>(x[k]);
    // Integer rounding half to even at bit `drop`.
    unsigned __int128 a = x[k] < 0 ? -static_cast<__int128>(x[k]) : static_cast<__int128>(x[k]);
    auto rounded = [&](int digits) {
      unsigned __int128 v = a;
      int length = 0;
      while (v >> length)
        ++length;
      int drop = length - digits;
      if (drop > 0) {
        unsigned __int128 half = static_cast<unsigned __int128>(1) << (drop - 1), rest = v & (2 * half - 1);
        v = v >> drop << drop;
        if (rest > half || (rest == half && (v >> drop & 1)))
          v += 2 * half;
      }
      return (x[k] < 0 ? -1 : 1) * static_cast<double>(v);
    };
    double want = rounded(8), got = decode(smalls[1], b[k]);
    ok &= want == got;
    double wantHalf = rounded(11), gotHalf = decode(smalls[0], h[k]);
    if (std::fabs(wantHalf) > 65504)
      wantHalf = wantHalf > 0 ? inf : -inf;
    ok &= wantHalf == gotHalf;
    if (!ok && !wrong++)
      std::printf("    %s %s %lld -> %a %a f16 %a (%a) bf16 %a (%a)\n", isa.str().c_str(), from, (long long)x[k], f[k], d[k], gotHalf, wantHalf, got, want);
  }
  CHECK(wrong == 0);
}

} // namespace

TEST_CASE("casts to and from small floats", "[cast]") {
  for (const std::string &isa : runnableIsas()) {
    smallToFloat(isa);
    floatsToSmall<float>(isa, "f32");
    floatsToSmall<double>(isa, "f64");
  }
}

TEST_CASE("casts between floats and integers", "[cast]") {
  for (const std::string &isa : runnableIsas()) {
    floatToInt<float, int8_t>(isa, "f32", "i8");
    floatToInt<float, uint8_t>(isa, "f32", "ui8");
    floatToInt<float, int16_t>(isa, "f32", "i16");
    floatToInt<float, uint16_t>(isa, "f32", "ui16");
    floatToInt<float, int32_t>(isa, "f32", "i32");
    floatToInt<float, uint32_t>(isa, "f32", "ui32");
    floatToInt<float, int64_t>(isa, "f32", "i64");
    floatToInt<float, uint64_t>(isa, "f32", "ui64");
    floatToInt<double, int8_t>(isa, "f64", "i8");
    floatToInt<double, int32_t>(isa, "f64", "i32");
    floatToInt<double, uint32_t>(isa, "f64", "ui32");
    floatToInt<double, int64_t>(isa, "f64", "i64");
    floatToInt<double, uint64_t>(isa, "f64", "ui64");
    intToFloats<int8_t>(isa, "i8");
    intToFloats<uint16_t>(isa, "ui16");
    intToFloats<int32_t>(isa, "i32");
    intToFloats<uint32_t>(isa, "ui32");
    intToFloats<int64_t>(isa, "i64");
    intToFloats<uint64_t>(isa, "ui64");
  }
}

// Out of range is a wrap for 4- and 2-bit integers, as the specification's data has it.
TEST_CASE("casts to int4 and uint2 wrap", "[cast]") {
  for (const std::string &isa : runnableIsas()) {
    Jit jit({{"onnx.Cast", {"f32"}, "i4", "to = 22 : i64", {}}, {"onnx.Cast", {"i32"}, "ui2", "to = 25 : i64", {}}}, isa);
    REQUIRE(jit.ok());
    float x[4] = {8, -9, 3.7f, -1};
    uint8_t y[2] = {0, 0};
    CHECK(jit.run(0, {x, y}, 4) == 0);
    CHECK(y[0] == 0x78); // -8, 7
    CHECK(y[1] == 0xf3); // 3, -1
    int32_t z[4] = {-1, 4, 5, 2};
    CHECK(jit.run(1, {z, y}, 4) == 0);
    CHECK(y[0] == 0x93); // 3, 0, 1, 2
  }
}

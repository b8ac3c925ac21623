#include "passes/Quantise/RowSums.h"

#include <algorithm>

// No contraction: a fused product would give other bits on machines that have
// it.
#pragma clang fp contract(off)

#if defined(__x86_64__) && defined(__linux__)
#define TESSERA_WIDE __attribute__((target_clones("avx2", "default")))
#else
#define TESSERA_WIDE
#endif

namespace tessera::quantise {
namespace {

template <typename T>
[[gnu::always_inline]] inline void
subtract(T *__restrict row, const T *__restrict others, int64_t stride,
         const T *factors, int64_t count, int64_t from, int64_t to) {
  int64_t r = 0;
  for (; r + 4 <= count; r += 4) {
    const T *a = others + r * stride, *b = a + stride, *c = b + stride,
            *d = c + stride;
    T fa = factors[r], fb = factors[r + 1], fc = factors[r + 2],
      fd = factors[r + 3];
    for (int64_t j = from; j < to; ++j) {
      T x = row[j];
      x -= fa * a[j];
      x -= fb * b[j];
      x -= fc * c[j];
      x -= fd * d[j];
      row[j] = x;
    }
  }
  for (; r < count; ++r) {
    const T *a = others + r * stride;
    T f = factors[r];
    for (int64_t j = from; j < to; ++j)
      row[j] -= f * a[j];
  }
}

} // namespace

TESSERA_WIDE void subtractRows(double *row, const double *others,
                               int64_t stride, const double *factors,
                               int64_t count, int64_t from, int64_t to) {
  subtract(row, others, stride, factors, count, from, to);
}

TESSERA_WIDE void subtractRows(float *row, const float *others, int64_t stride,
                               const float *factors, int64_t count,
                               int64_t from, int64_t to) {
  subtract(row, others, stride, factors, count, from, to);
}

TESSERA_WIDE double roundingError(const float *values, const float *weights,
                                  int64_t count, float scale, float low,
                                  float high) {
  // Adding this rounds to an integer, half to even, below 2^22.
  constexpr float kRounder = 12582912;
  constexpr int64_t kLanes = 8;
  double sum = 0;
  for (int64_t from = 0; from < count; from += 64) {
    float lanes[kLanes] = {};
    int64_t to = std::min(count, from + 64), i = from;
    auto one = [&](int64_t at, float &into) {
      float q = std::min(std::max(values[at] / scale, low), high);
      q = (q + kRounder) - kRounder;
      float d = values[at] - q * scale;
      into += weights[at] * d * d;
    };
    for (; i + kLanes <= to; i += kLanes)
      for (int64_t l = 0; l < kLanes; ++l)
        one(i + l, lanes[l]);
    for (; i < to; ++i)
      one(i, lanes[0]);
    for (float l : lanes)
      sum += double(l);
  }
  return sum;
}

} // namespace tessera::quantise

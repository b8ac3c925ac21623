// Where RESIZE samples one axis: both directions of the translation ask.
#ifndef TESSERA_TARGETS_TOSA_NEAREST_H
#define TESSERA_TARGETS_TOSA_NEAREST_H

#include <algorithm>
#include <cstdint>

namespace tessera::tosa {

/// Output o of an axis samples its input at (o * d + offset) / n.
struct Sampling {
  int64_t n, d, offset;
  int64_t border(int64_t in, int64_t out) const { return (out - 1) * d + offset - (in - 1) * n; }
};

inline int64_t floorDiv(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

/// The index that nearest takes for output `o`: half rounds up, and the edge holds.
inline int64_t nearestOf(const Sampling &s, int64_t o, int64_t in) {
  int64_t p = o * s.d + s.offset, i = floorDiv(p, s.n);
  return std::clamp<int64_t>(i + (2 * (p - i * s.n) >= s.n), 0, in - 1);
}

} // namespace tessera::tosa
#endif

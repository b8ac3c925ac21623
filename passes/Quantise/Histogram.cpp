#include "passes/Quantise/Histogram.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <sstream>

namespace tessera::quantise {

std::optional<RangeMethod> parseRangeMethod(const std::string &word) {
  for (RangeMethod m :
       {RangeMethod::MinMax, RangeMethod::Percentile, RangeMethod::Entropy,
        RangeMethod::Mse, RangeMethod::Between})
    if (word == rangeMethodName(m))
      return m;
  return std::nullopt;
}

const char *rangeMethodName(RangeMethod method) {
  switch (method) {
  case RangeMethod::MinMax:
    return "minmax";
  case RangeMethod::Percentile:
    return "percentile";
  case RangeMethod::Entropy:
    return "entropy";
  case RangeMethod::Mse:
    return "mse";
  case RangeMethod::Between:
    return "between";
  }
  return "";
}

// Limits are powers of two, so that any two histograms merge exactly and the
// order of the samples does not matter.
void Histogram::grow(float magnitude) {
  if (bins.empty()) {
    bins.assign(kBins, 0);
    limit = std::ldexp(
        1.0, std::max(-120, std::ilogb(std::max(magnitude, 1e-36f)) + 1));
  }
  while (magnitude >= limit) {
    std::vector<uint64_t> wider(kBins, 0);
    for (int i = 0; i < kBins; ++i)
      wider[kBins / 2 + (i - kBins / 2 + kBins) / 2 - kBins / 2] += bins[i];
    bins = std::move(wider);
    limit *= 2;
  }
}

void Histogram::add(const float *values, int64_t count) {
  float least = INFINITY, most = -INFINITY;
  uint64_t finite = 0;
  for (int64_t i = 0; i < count; ++i)
    if (std::isfinite(values[i])) {
      least = std::min(least, values[i]);
      most = std::max(most, values[i]);
      ++finite;
    }
  bad += uint64_t(count) - finite;
  answers.clear();
  if (!finite)
    return;
  low = total ? std::min(low, least) : least;
  high = total ? std::max(high, most) : most;
  total += finite;
  grow(std::max(std::fabs(least), std::fabs(most)));
  float inverse = float(1.0 / width());
  for (int64_t i = 0; i < count; ++i)
    if (std::isfinite(values[i])) {
      // The integer below: |values[i] * inverse| is at most kBins / 2.
      float place = values[i] * inverse;
      int whole = int(place);
      int bin = whole - (float(whole) > place) + kBins / 2;
      ++bins[std::clamp(bin, 0, kBins - 1)];
    }
}

void Histogram::merge(const Histogram &other) {
  bad += other.bad;
  answers.clear();
  if (!other.total)
    return;
  low = total ? std::min(low, other.low) : other.low;
  high = total ? std::max(high, other.high) : other.high;
  total += other.total;
  Histogram copy = other;
  if (bins.empty()) {
    bins = copy.bins;
    limit = copy.limit;
    return;
  }
  double wide = std::max(limit, copy.limit);
  grow(float(std::nextafter(float(wide), 0.0f)));
  copy.grow(float(std::nextafter(float(wide), 0.0f)));
  for (int i = 0; i < kBins; ++i)
    bins[i] += copy.bins[i];
}

Range Histogram::seen() const {
  return {std::min(low, 0.0f), std::max(high, 0.0f)};
}

Range Histogram::range(RangeMethod method, int levels, bool symmetric,
                       double share) const {
  for (const Answer &a : answers)
    if (a.method == method && a.levels == levels && a.symmetric == symmetric &&
        a.share == share)
      return a.range;
  Range r = find(method, levels, symmetric, share);
  answers.push_back({method, levels, symmetric, share, r});
  return r;
}

/// By the geometric mean of the ends.
static Range halfWay(Range a, Range b) {
  return {-std::sqrt(a.low * b.low), std::sqrt(a.high * b.high)};
}

Range Histogram::find(RangeMethod method, int levels, bool symmetric,
                      double share) const {
  Range r = seen();
  if (total && r.high > r.low) {
    if (method == RangeMethod::Percentile)
      r = percentile(share);
    else if (method == RangeMethod::Entropy)
      r = leastDivergence(levels);
    else if (method == RangeMethod::Mse)
      r = leastError(levels, symmetric);
    else if (method == RangeMethod::Between)
      r = halfWay(leastError(levels, symmetric), r);
  }
  if (symmetric)
    r = {-std::max(-r.low, r.high), std::max(-r.low, r.high)};
  return r;
}

Range Histogram::percentile(double share) const {
  // Off each end goes at most half of what may be clipped.
  double allowed = double(total) * (1 - share / 100) / 2;
  int first = 0, last = kBins - 1;
  for (double n = double(bins[0]); n <= allowed && first < kBins / 2;)
    n += double(bins[++first]);
  for (double n = double(bins[last]); n <= allowed && last >= kBins / 2;)
    n += double(bins[--last]);
  Range all = seen();
  return {
      std::max(all.low, float(std::min(0.0, (first - kBins / 2) * width()))),
      std::min(all.high,
               float(std::max(0.0, (last + 1 - kBins / 2) * width())))};
}

double Histogram::error(Range r, int levels) const {
  double step = (double(r.high) - r.low) / (levels - 1);
  if (!total || step <= 0)
    return 0;
  double zero = std::nearbyint(-r.low / step), sum = 0, bottom = -zero * step,
         top = (levels - 1 - zero) * step;
  double w = width(), uniform = step * step / 12;
  for (int i = 0; i < kBins; ++i) {
    if (!bins[i])
      continue;
    double x = centre(i), e;
    if (x < bottom - step / 2)
      e = (bottom - x) * (bottom - x);
    else if (x > top + step / 2)
      e = (x - top) * (x - top);
    else if (w < step / 2)
      e = uniform;
    else {
      double d = x - std::clamp(std::nearbyint(x / step) * step, bottom, top);
      e = d * d;
    }
    sum += double(bins[i]) * e;
  }
  // Zeros are exact: the bins around it hold them.
  return sum / double(total);
}

Range Histogram::leastError(int levels, bool symmetric) const {
  Range all = seen();
  if (symmetric)
    all = {-std::max(-all.low, all.high), std::max(-all.low, all.high)};
  Range best = all;
  double least = error(all, levels);
  // Both ends, then each alone: one end may be a ReLU's zero.
  for (int pass = 0; pass < 3; ++pass) {
    Range from = best;
    for (int k = 1; k < 80; ++k) {
      float f = 1 - 0.0125f * float(k);
      Range r = {pass == 1 ? from.low : from.low * f,
                 pass == 2 ? from.high : from.high * f};
      if (symmetric)
        r = {from.low * f, from.high * f};
      double e = error(r, levels);
      if (e < least) {
        least = e;
        best = r;
      }
    }
  }
  return best;
}

Range Histogram::leastDivergence(int levels) const {
  // Over magnitudes, as for a symmetric range; the ends are clipped alike.
  const int half = kBins / 2, group = levels / 2;
  std::vector<double> p(half, 0);
  for (int i = 0; i < kBins; ++i)
    p[i >= half ? i - half : half - 1 - i] += double(bins[i]);
  int top = half;
  while (top > 1 && p[top - 1] == 0)
    --top;
  // All values beyond `keep` bins are clipped into the last one.
  double least = INFINITY, beyond = 0;
  int best = top;
  int lowest = std::max(group, top / 8);
  for (int keep = top; keep >= lowest;
       keep = std::min(keep - 1, int(keep * 0.985))) {
    beyond = 0;
    for (int i = keep; i < top; ++i)
      beyond += p[i];
    double divergence = 0;
    for (int g = 0; g < group; ++g) {
      int from = int(int64_t(g) * keep / group),
          to = int(int64_t(g + 1) * keep / group);
      double sum = 0, clipped = 0;
      int filled = 0;
      for (int i = from; i < to; ++i) {
        sum += p[i];
        filled += p[i] > 0;
      }
      if (g == group - 1)
        clipped = beyond;
      for (int i = from; i < to; ++i) {
        double reference = p[i] + (i == keep - 1 ? clipped : 0);
        if (reference <= 0)
          continue;
        double quantised = p[i] > 0 ? sum / filled : 1e-3;
        divergence += reference * std::log(reference / quantised);
      }
    }
    divergence /= double(total);
    if (divergence < least - 1e-12) {
      least = divergence;
      best = keep;
    }
  }
  Range all = seen();
  float cut = float(best * width());
  return {std::max(all.low, -cut), std::min(all.high, cut)};
}

std::string Histogram::save() const {
  std::ostringstream out;
  char numbers[160];
  std::snprintf(numbers, sizeof(numbers), "%a %a %a %llu %llu", limit, low,
                high, (unsigned long long)total, (unsigned long long)bad);
  out << numbers;
  for (size_t i = 0; i < bins.size(); ++i)
    if (bins[i])
      out << ' ' << i << ':' << bins[i];
  return out.str();
}

std::optional<Histogram> Histogram::load(const std::string &text) {
  Histogram h;
  double least, most;
  unsigned long long total, bad;
  int used = 0;
  if (std::sscanf(text.c_str(), "%la %la %la %llu %llu%n", &h.limit, &least,
                  &most, &total, &bad, &used) != 5)
    return std::nullopt;
  h.low = float(least), h.high = float(most), h.total = total, h.bad = bad;
  std::istringstream rest(text.substr(size_t(used)));
  uint64_t index, n, sum = 0;
  char colon;
  if (total)
    h.bins.assign(kBins, 0);
  while (rest >> index >> colon >> n) {
    if (index >= h.bins.size() || colon != ':')
      return std::nullopt;
    h.bins[index] = n;
    sum += n;
  }
  if (sum != total)
    return std::nullopt;
  return h;
}

} // namespace tessera::quantise

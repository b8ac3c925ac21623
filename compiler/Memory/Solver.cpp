// Buffers are placed one after the other, each into the gaps that those already
// placed and alive at some moment of its life leave. What differs is the order
// and the gap that is chosen:
//
//   order  size, size x length, length (descending), first moment
//   gap    first fit: the lowest; best fit: the smallest that is large enough
//
// The best answer is then improved by moving buffers forward in the order, by
// pseudo-random numbers of a fixed seed, until the work limit is reached. An
// answer at the lower bound ends the search.
#include "compiler/Memory/MemoryProblem.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace tessera {
namespace {

/// Buffer visits in all placements of one solve.
constexpr uint64_t kWorkLimit = 50'000'000;
/// Orders that the improvement looks at.
constexpr unsigned kMaxTries = 20'000;

uint64_t alignUp(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}

enum class Fit { First, Best };

class Solver {
public:
  explicit Solver(const MemoryProblem &problem) : problem(problem) {
    for (uint32_t i = 0; i < problem.buffers.size(); ++i)
      if (problem.buffers[i].size)
        live.push_back(i);
  }

  MemorySolution run() {
    uint64_t bound = lowerBound(problem);
    best.offsets.assign(problem.buffers.size(), 0);
    best.method = "nothing to place";
    if (live.empty())
      return best;
    best.bytes = UINT64_MAX;
    using Key = std::pair<uint64_t, uint64_t>; // ascending
    auto length = [](const MemoryBuffer &b) {
      return uint64_t(b.last) - b.first + 1;
    };
    tryOrders("size", bound,
              [&](const MemoryBuffer &b) { return Key{~b.size, ~length(b)}; });
    tryOrders("size x length", bound, [&](const MemoryBuffer &b) {
      return Key{~(b.size / 64 * length(b)), ~b.size};
    });
    tryOrders("length", bound,
              [&](const MemoryBuffer &b) { return Key{~length(b), ~b.size}; });
    tryOrders("first moment", bound,
              [&](const MemoryBuffer &b) { return Key{b.first, ~b.size}; });
    improve(bound);
    return best;
  }

private:
  template <typename KeyOf>
  void tryOrders(const char *name, uint64_t bound, KeyOf keyOf) {
    if (best.bytes == bound)
      return;
    std::vector<uint32_t> order = live;
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      return std::make_pair(keyOf(problem.buffers[a]), a) <
             std::make_pair(keyOf(problem.buffers[b]), b);
    });
    for (Fit fit : {Fit::First, Fit::Best}) {
      if (work > kWorkLimit && best.bytes != UINT64_MAX)
        return;
      consider(order, fit,
               std::string(name) +
                   (fit == Fit::First ? ", first fit" : ", best fit"));
    }
  }

  bool consider(const std::vector<uint32_t> &order, Fit fit,
                const std::string &method) {
    std::vector<uint64_t> offsets(problem.buffers.size(), 0);
    uint64_t bytes = place(order, fit, offsets, best.bytes);
    if (bytes >= best.bytes)
      return false;
    best = {std::move(offsets), bytes, method};
    bestOrder = order;
    return true;
  }

  /// Local search over orders: one buffer, half of the time one at the top of
  /// the arena, moves forward; answers that are as good are walked through.
  void improve(uint64_t bound) {
    std::vector<uint32_t> order = bestOrder;
    std::vector<uint64_t> offsets = best.offsets;
    unsigned improvements = 0, tries = 0;
    while (best.bytes > bound && work < kWorkLimit && order.size() > 1 &&
           tries++ < kMaxTries) {
      work += order.size();
      size_t from = random() % order.size();
      if (random() % 2) {
        std::vector<size_t> top;
        for (size_t k = 0; k < order.size(); ++k)
          if (end(offsets, order[k]) == best.bytes)
            top.push_back(k);
        from = top[random() % top.size()];
      }
      if (from == 0)
        continue;
      std::vector<uint32_t> next = order;
      size_t to = random() % from;
      std::rotate(next.begin() + to, next.begin() + from,
                  next.begin() + from + 1);
      Fit fit = random() % 2 ? Fit::First : Fit::Best;
      std::vector<uint64_t> placed(problem.buffers.size(), 0);
      uint64_t bytes = place(next, fit, placed, best.bytes);
      if (bytes > best.bytes)
        continue;
      order = std::move(next);
      offsets = placed;
      if (bytes < best.bytes) {
        best.offsets = std::move(placed);
        best.bytes = bytes;
        ++improvements;
      }
    }
    if (improvements)
      best.method += ", improved " + std::to_string(improvements) + " times";
  }

  uint64_t end(const std::vector<uint64_t> &offsets, uint32_t i) const {
    return alignUp(offsets[i] + problem.buffers[i].size, problem.alignment);
  }

  /// The same numbers on every machine.
  uint32_t random() {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return uint32_t(seed >> 33);
  }

  /// Stops early with a larger number once the end passes `limit`.
  uint64_t place(const std::vector<uint32_t> &order, Fit fit,
                 std::vector<uint64_t> &offsets, uint64_t limit) {
    std::vector<uint32_t> placed; // by offset
    placed.reserve(order.size());
    uint64_t end = 0;
    for (uint32_t i : order) {
      const MemoryBuffer &buffer = problem.buffers[i];
      uint64_t at = 0, chosen = UINT64_MAX, slack = UINT64_MAX;
      work += placed.size();
      for (uint32_t p : placed) {
        const MemoryBuffer &other = problem.buffers[p];
        if (other.last < buffer.first || buffer.last < other.first)
          continue;
        if (offsets[p] >= at && offsets[p] - at >= buffer.size) {
          uint64_t gap = offsets[p] - at - buffer.size;
          if (gap < slack) {
            slack = gap;
            chosen = at;
          }
          if (fit == Fit::First)
            break;
        }
        at = std::max(at, alignUp(offsets[p] + other.size, problem.alignment));
      }
      offsets[i] = chosen == UINT64_MAX ? at : chosen;
      end = std::max(end, offsets[i] + buffer.size);
      if (end > limit)
        return UINT64_MAX;
      auto position = std::upper_bound(
          placed.begin(), placed.end(), offsets[i],
          [&](uint64_t o, uint32_t p) { return o < offsets[p]; });
      placed.insert(position, i);
    }
    return alignUp(end, problem.alignment);
  }

  const MemoryProblem &problem;
  std::vector<uint32_t> live;
  MemorySolution best;
  std::vector<uint32_t> bestOrder;
  uint64_t work = 0, seed = 1;
};

} // namespace

uint64_t lowerBound(const MemoryProblem &problem) {
  std::map<uint64_t, int64_t> change;
  for (const MemoryBuffer &buffer : problem.buffers) {
    int64_t size = int64_t(alignUp(buffer.size, problem.alignment));
    change[buffer.first] += size;
    change[uint64_t(buffer.last) + 1] -= size;
  }
  int64_t now = 0, most = 0;
  for (auto [moment, delta] : change)
    most = std::max(most, now += delta);
  return uint64_t(most);
}

MemorySolution solve(const MemoryProblem &problem) {
  return Solver(problem).run();
}

} // namespace tessera

// Buffers are placed one after the other, each into the gaps that those already
// placed and alive at some moment of its life leave. What differs is the order
// and the gap that is chosen:
//
//   order  size, size x length, length (descending), first moment
//   gap    first fit: the lowest; best fit: the smallest that is large enough
//
// The best answer is then improved: a buffer that ends at the top is moved to
// the front of the order, and everything is placed again, as long as that helps
// and the work limit lasts. An answer at the lower bound ends the search.
#include "compiler/Memory/MemoryProblem.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace tessera {
namespace {

/// Buffer visits in all placements of one solve.
constexpr uint64_t kWorkLimit = 50'000'000;

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
    uint64_t bytes = place(order, fit, offsets);
    if (bytes >= best.bytes)
      return false;
    best = {std::move(offsets), bytes, method};
    bestOrder = order;
    bestFit = fit;
    return true;
  }

  void improve(uint64_t bound) {
    bool better = true;
    unsigned rounds = 0;
    std::string method = best.method;
    while (better && best.bytes > bound && work < kWorkLimit) {
      better = false;
      std::vector<uint32_t> top;
      for (uint32_t i : live)
        if (alignUp(best.offsets[i] + problem.buffers[i].size,
                    problem.alignment) == best.bytes)
          top.push_back(i);
      for (uint32_t i : top) {
        if (work > kWorkLimit)
          break;
        std::vector<uint32_t> order = bestOrder;
        order.erase(std::find(order.begin(), order.end(), i));
        order.insert(order.begin(), i);
        for (Fit fit : {Fit::First, Fit::Best})
          better |= consider(order, fit, method);
        if (better)
          break;
      }
      rounds += better;
    }
    if (rounds)
      best.method = method + ", improved " + std::to_string(rounds) + " times";
  }

  uint64_t place(const std::vector<uint32_t> &order, Fit fit,
                 std::vector<uint64_t> &offsets) {
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
      if (end >= best.bytes)
        return end; // no better than what is known
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
  Fit bestFit = Fit::First;
  uint64_t work = 0;
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

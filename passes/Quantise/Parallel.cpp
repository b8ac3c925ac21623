#include "passes/Quantise/Parallel.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace tessera::quantise {

void inParallel(size_t count, const std::function<void(size_t)> &work) {
  std::atomic<size_t> next = 0;
  auto take = [&] {
    for (size_t i = next++; i < count; i = next++)
      work(i);
  };
  size_t cores = std::clamp(std::thread::hardware_concurrency(), 1u, 16u);
  std::vector<std::jthread> others;
  for (size_t t = 1; t < std::min(cores, count); ++t)
    others.emplace_back(take);
  take();
}

} // namespace tessera::quantise

#include "passes/Quantise/Parallel.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace tessera::quantise {

void inParallel(size_t count, const std::function<void(size_t)> &work) {
  // What is called from inside has the cores already.
  static thread_local bool inside = false;
  if (inside || count < 2) {
    for (size_t i = 0; i < count; ++i)
      work(i);
    return;
  }
  std::atomic<size_t> next = 0;
  auto take = [&] {
    inside = true;
    for (size_t i = next++; i < count; i = next++)
      work(i);
    inside = false;
  };
  size_t cores = std::clamp(std::thread::hardware_concurrency(), 1u, 16u);
  std::vector<std::jthread> others;
  for (size_t t = 1; t < std::min(cores, count); ++t)
    others.emplace_back(take);
  take();
}

} // namespace tessera::quantise

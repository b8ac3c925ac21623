// The judge: every pair of buffers, no cleverness.
#include "compiler/Memory/MemoryProblem.h"

namespace tessera {

std::optional<std::string> validate(const MemoryProblem &problem,
                                    const MemorySolution &solution) {
  size_t count = problem.buffers.size();
  if (solution.offsets.size() != count)
    return std::to_string(solution.offsets.size()) + " offsets for " +
           std::to_string(count) + " buffers";
  for (size_t i = 0; i < count; ++i) {
    const MemoryBuffer &a = problem.buffers[i];
    uint64_t begin = solution.offsets[i];
    if (a.first > a.last)
      return "buffer " + std::to_string(i) + " dies before it is born";
    if (a.size == 0)
      continue;
    if (begin % problem.alignment != 0)
      return "buffer " + std::to_string(i) + " is misaligned at " +
             std::to_string(begin);
    if (begin > solution.bytes || a.size > solution.bytes - begin)
      return "buffer " + std::to_string(i) + " ends beyond the arena";
    for (size_t j = 0; j < i; ++j) {
      const MemoryBuffer &b = problem.buffers[j];
      uint64_t other = solution.offsets[j];
      bool sameTime = a.first <= b.last && b.first <= a.last;
      bool samePlace = begin < other + b.size && other < begin + a.size;
      if (sameTime && samePlace && b.size)
        return "buffers " + std::to_string(j) + " and " + std::to_string(i) +
               " live and lie together";
    }
  }
  return std::nullopt;
}

} // namespace tessera

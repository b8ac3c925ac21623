// Placing buffers in one arena: the problem, its solution, and the judge.
//
// Two buffers whose lifetimes share a moment must not share a byte. The number
// of bytes that the highest buffer ends at is to be small; it is never below
// lowerBound(). Finding the least is NP-hard (dynamic storage allocation), so
// the solver takes the best of several orders and fits. It is deterministic and
// bounded by work, not by time.
//
// The validator shares no code with the solver and is run on every answer.
#ifndef TESSERA_COMPILER_MEMORY_MEMORYPROBLEM_H
#define TESSERA_COMPILER_MEMORY_MEMORYPROBLEM_H

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tessera {

struct MemoryBuffer {
  uint64_t size = 0;
  uint32_t first = 0, last = 0; ///< lifetime in moments, both ends included
};

struct MemoryProblem {
  std::vector<MemoryBuffer> buffers;
  uint64_t alignment = 64; ///< of every offset, a power of two
};

struct MemorySolution {
  std::vector<uint64_t> offsets; ///< per buffer
  uint64_t bytes = 0;            ///< end of the highest buffer, aligned
  std::string method;            ///< which order and fit won
};

/// The most bytes (each buffer aligned) that live at one moment.
uint64_t lowerBound(const MemoryProblem &problem);

MemorySolution solve(const MemoryProblem &problem);

/// What is wrong with a solution, or nothing.
std::optional<std::string> validate(const MemoryProblem &problem,
                                    const MemorySolution &solution);

} // namespace tessera
#endif

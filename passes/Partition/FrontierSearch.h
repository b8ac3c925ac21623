// The exact search: dynamic programming over a frontier.
//
// Operators are processed in the graph's order. What a partial answer means for
// the rest is its frontier: for each tensor that is still to be read, the device
// and state it was written in, the copies already made, the open segment it
// belongs to, and the open segments that reach it. Of equal frontiers the
// cheapest survives (with a budget: every pair of cost and sensitivity that no
// other beats). A launch is paid when a segment opens and given back when two
// join. A state is dropped when its cost and the bound of what remains reach
// the best known answer.
//
// When a layer outgrows `width`, the states of least bound stay and the least
// dropped bound is kept: the true optimum is never below the lesser of it and
// the best answer found.
#ifndef TESSERA_PASSES_PARTITION_FRONTIERSEARCH_H
#define TESSERA_PASSES_PARTITION_FRONTIERSEARCH_H

#include "passes/Partition/DualBound.h"

namespace tessera::partition {

struct SearchLimits {
  Cost upper = impossible; ///< weighted; answers at or above it are not wanted
  size_t width = 256;      ///< most states of a layer
  uint64_t work = 0;       ///< about as many steps; layers become narrower in time
  size_t narrow = 32;      ///< but not narrower than this
  std::optional<Cost> budget; ///< of sensitivity: keep pairs of cost and sensitivity
};

struct SearchResult {
  std::optional<Solution> solution; ///< cost, sensitivity and lower bound are not set
  Cost leastDropped = impossible;   ///< weighted bound of all that the limits cut off
  uint64_t work = 0;
  size_t peak = 0; ///< states of the widest layer
};

/// `lambda` is the one that `bound` was made with.
SearchResult searchFrontier(const Graph &graph, const DualBound &bound, Cost lambda, const SearchLimits &limits);

} // namespace tessera::partition
#endif

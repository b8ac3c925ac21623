// Independent pieces of work on all cores; what they write does not overlap, so
// the result does not depend on their number.
#ifndef TESSERA_PASSES_QUANTISE_PARALLEL_H
#define TESSERA_PASSES_QUANTISE_PARALLEL_H

#include <cstddef>
#include <functional>

namespace tessera::quantise {

/// Calls work(0) ... work(count - 1), which must not throw.
void inParallel(size_t count, const std::function<void(size_t)> &work);

} // namespace tessera::quantise
#endif

// Memory of a plan: lifetimes from the command list, offsets in the arena.
#ifndef TESSERA_COMPILER_MEMORY_PLANMEMORY_H
#define TESSERA_COMPILER_MEMORY_PLANMEMORY_H

#include "compiler/Bundle/Plan.h"

#include "llvm/Support/Error.h"

namespace tessera {

struct PoolReport {
  std::string pool;
  bool isStatic = false;   ///< placed at compile time
  uint64_t bytes = 0;      ///< when static
  uint64_t lowerBound = 0; ///< most bytes alive at one moment
  uint64_t withoutReuse = 0;
  uint32_t buffers = 0;
  std::string method;
};

struct MemoryReport {
  std::vector<PoolReport> pools;
};

/// Sets the lifetime of every buffer that is no alias to the span of the
/// commands that touch it or an alias of it. Inputs live from the start,
/// outputs to the end. A buffer that exists before a loop and is used in it
/// lives until the loop's end; one that is made in a loop and used after it
/// lives from the loop's start.
void computeLifetimes(Plan &plan);

/// Computes lifetimes, then places the buffers of every pool whose sizes are
/// all constants (offset, hasOffset, pool.staticBytes). Pools with sizes known
/// only at run time are left to the loader, which places them in tsr_prepare.
llvm::Expected<MemoryReport> planMemory(Plan &plan);

} // namespace tessera
#endif

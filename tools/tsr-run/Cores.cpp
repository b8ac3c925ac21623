#include "tools/tsr-run/Cores.h"

namespace runner {

std::unique_ptr<Cores> Cores::divide() {
  auto cores = std::make_unique<Cores>();
  int here = sched_getcpu();
  if (sched_getaffinity(0, sizeof(cpu_set_t), &cores->all) != 0 || here < 0 ||
      CPU_COUNT(&cores->all) < 2)
    return nullptr;
  cores->others = cores->all;
  CPU_CLR(here, &cores->others);
  CPU_ZERO(&cores->own);
  CPU_SET(here, &cores->own);
  return cores;
}

// Affinity is a matter of time alone: where it is refused the run goes on.

void Cores::holdOwn() { held = sched_setaffinity(0, sizeof(own), &own) == 0; }

void Cores::useOthers() const { sched_setaffinity(0, sizeof(others), &others); }

Cores::~Cores() {
  if (held)
    sched_setaffinity(0, sizeof(all), &all);
}

} // namespace runner

// A core of its own for the thread that runs the model, while the processor
// plays devices: a thread that is woken by a launch may else take its waker's
// core, and what a real device does beside the processor would be done before
// it goes on.
#ifndef TESSERA_TSR_RUN_CORES_H
#define TESSERA_TSR_RUN_CORES_H

#include <memory>
#include <sched.h>

namespace runner {

class Cores {
public:
  /// Null if this process has one core.
  static std::unique_ptr<Cores> divide();
  /// The calling thread stays on the core it is on, until this object ends.
  void holdOwn();
  /// The calling thread uses the others.
  void useOthers() const;
  ~Cores();

private:
  cpu_set_t all, own, others;
  bool held = false;
};

} // namespace runner
#endif

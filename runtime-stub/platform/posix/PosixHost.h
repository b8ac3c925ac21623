// Host services on POSIX systems: features, protection, memory, clock, threads.
// What a host of another kind writes for itself; tsr-run and the tests use
// this.
#ifndef TESSERA_RUNTIME_PLATFORM_POSIXHOST_H
#define TESSERA_RUNTIME_PLATFORM_POSIXHOST_H

#include "runtime-stub/include/tessera/runtime.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace tsr::posix {

/// Names of the features that processor and operating system provide, separated
/// by spaces; names as in FORMAT.md.
std::string detectFeatures();

uint64_t nowNs();
uint32_t pageSize();

/// Anonymous zeroed pages that can grow and keep their contents.
class Pages {
public:
  Pages() = default;
  ~Pages() { reset(); }
  Pages(const Pages &) = delete;
  Pages &operator=(const Pages &) = delete;
  /// False if the system has no memory; the old pages stay then.
  bool resize(uint64_t bytes);
  void reset();
  /// Leaves the memory to whoever may still write to it; it is never given
  /// back.
  void abandon() {
    memory = nullptr;
    bytes = 0;
  }
  void *data() const { return memory; }
  uint64_t size() const { return bytes; }

private:
  void *memory = nullptr;
  uint64_t bytes = 0;
};

/// A file mapped for reading.
class MappedFile {
public:
  ~MappedFile();
  /// Empty on success, else the reason.
  std::string open(const std::string &path);
  const void *data() const { return memory; }
  uint64_t size() const { return bytes; }

private:
  void *memory = nullptr;
  uint64_t bytes = 0;
};

/// `count - 1` worker threads that help the calling one.
class ThreadPool {
public:
  explicit ThreadPool(unsigned threads);
  ~ThreadPool();
  void run(uint64_t count, void (*work)(void *argument, uint64_t index),
           void *argument);

private:
  struct State;
  std::unique_ptr<State> state;
};

/// One worker thread for each device that work was submitted to. Its queue is
/// in order; several threads may submit and wait. Each calls `begin` first.
class DeviceQueues {
public:
  explicit DeviceQueues(std::function<void()> begin = {});
  ~DeviceQueues();
  void submit(uint32_t device, void (*work)(void *), void *argument);
  void wait(uint32_t device);

private:
  struct Queue;
  std::unique_ptr<Queue> queues[TSR_MAX_DEVICES];
};

/// A host table. `features`, `pool` and `queues` (may be null) must outlive it.
struct HostContext {
  ThreadPool *pool = nullptr;
  bool emulates = false;          ///< any device, by the commands behind its launches
  /// Kinds of devices that it drives, or has played where it does not.
  std::string deviceKinds;
  DeviceQueues *queues = nullptr; ///< null: devices work on the running thread
  /// Called instead of each submission, on the running thread; it calls `work`,
  /// which returns when the device is done. For tests that watch the memory.
  std::function<void(uint32_t device, const std::function<void()> &work)>
      aroundRange;
  /// Does a launch by its artefact and gives a tsr_driven_t; with queues, called
  /// on the devices' threads.
  std::function<int(tsr_instance_t *instance, uint32_t launch)> drive;
  /// With queues, also called on the devices' threads.
  std::function<void(const tsr_trace_event_t &)> onTrace;
};
tsr_host_t makeHost(const std::string &features, HostContext &context);

} // namespace tsr::posix
#endif

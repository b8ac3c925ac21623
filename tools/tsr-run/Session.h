// One bundle with one instance: open, load, feed, run, read.
#ifndef TESSERA_TSR_RUN_SESSION_H
#define TESSERA_TSR_RUN_SESSION_H

#include "runtime-stub/platform/posix/PosixHost.h"
#include "tools/tsr-run/Cores.h"
#include "tools/tsr-run/Gpu.h"
#include "tools/tsr-run/Tensor.h"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>

namespace runner {

/// A bundle failed its checks.
struct VerificationFailed : Refused {
  using Refused::Refused;
};

struct TraceRecord {
  std::string kernel, kernelClass;
  uint32_t command, workgroups;
  uint64_t beginNs, endNs, bytes;
  uint32_t device;
};

class Session {
public:
  struct Settings {
    std::string variant;
    unsigned threads = 1;
    bool emulate = false; ///< devices that are not here
    bool deviceThreads = true; ///< else devices work on the running thread
    bool poison = false;
    bool trace = false;
    bool checkOnly = false;
    GpuSettings gpu;
  };
  /// Opens and, unless only checking, loads the code.
  Session(const std::string &path, const Settings &settings);
  ~Session() { closeGpu(); }

  const tsr_bundle_t *bundle() const { return handle; }
  uint32_t inputCount() const { return tsr_input_count(handle); }
  tsr_tensor_info_t inputInfo(uint32_t index) const;
  tsr_tensor_info_t outputInfo(uint32_t index) const;
  /// Declared extents of an input, -1 where they are open.
  std::vector<int64_t> inputDims(uint32_t index) const;

  /// Fixes the shapes; an absent tensor takes the input's default value.
  void prepare(const std::vector<std::optional<Tensor>> &inputs);
  /// Fills the inputs and runs; the time of the run alone, in ns.
  uint64_t run(const std::vector<std::optional<Tensor>> &inputs);
  tsr_tensor_t output(uint32_t index);

  std::vector<TraceRecord> trace; ///< of the last run, by its beginning
  /// What a user should know: that a device's part is done by the processor.
  std::vector<std::string> notes;
  /// The Vulkan device at work; empty if there is none.
  std::string gpuName() const { return gpu ? gpu->name() : ""; }
  std::string deviceName(uint32_t device) const {
    return tsr_device_name(handle, device);
  }

  /// The ISA variant that runs, and the bytes that everything takes.
  std::string variantName() const;
  std::vector<std::pair<std::string, uint64_t>> memoryBytes() const;

private:
  void attachGpu(tsr_host_t &host);
  void dropGpu(const std::string &why);
  void closeGpu();
  bool isOnGpu(uint32_t pool) const;
  void providePools();
  void fillInputs(const std::vector<std::optional<Tensor>> &inputs);
  tsr_status_t runOnce(tsr_error_t &error);
  void checkInput(uint32_t index, const Tensor &tensor) const;
  void grow();
  void poison(uint32_t pool, uint64_t from);
  void runPoisoned(const std::function<void()> &work);

  Settings settings;
  std::unique_ptr<Cores> cores; ///< if some device is played
  std::string features;
  tsr::posix::MappedFile file;
  tsr::posix::HostContext context;
  std::unique_ptr<tsr::posix::ThreadPool> threads;
  std::mutex tracing;
  tsr::posix::Pages bundleState, code, instanceState;
  tsr::posix::Pages pages[TSR_MAX_POOLS]; ///< of pools that are the host's
  struct Pool {
    void *memory = nullptr;
    uint64_t bytes = 0;
  } pools[TSR_MAX_POOLS];
  tsr_needs_t needs = {};
  tsr_bundle_t *handle = nullptr;
  tsr_instance_t *instance = nullptr;
  std::atomic<bool> undriven{false}; ///< of a device that is required
  std::unique_ptr<Gpu> gpu; ///< ends before the memory that it imported
  std::unique_ptr<tsr::posix::DeviceQueues> queues; ///< ends before the memory
};

} // namespace runner
#endif

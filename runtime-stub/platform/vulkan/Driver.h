// Drives the Vulkan launches of one instance: the host's `drive`.
//
// The order of calls: open; isWanted and refusal for the bundle; poolMemory for
// each pool of a Vulkan device, instead of memory of the host's own; prepare;
// then drive during runs. The driver ends after the instance's last run and
// before the memory of pools that the host gave.
#ifndef TESSERA_RUNTIME_PLATFORM_VULKAN_DRIVER_H
#define TESSERA_RUNTIME_PLATFORM_VULKAN_DRIVER_H

#include "runtime-stub/include/tessera/runtime.h"
#include "runtime-stub/platform/vulkan/Recording.h"

#include <atomic>
#include <mutex>

namespace tsr::vulkan {

class Driver {
public:
  struct Options {
    bool software = false; ///< take a driver that computes on the processor
    /// Longer, and the device is taken for lost.
    uint64_t timeoutNs = 30000000000;
    std::string cacheFile; ///< see Pipelines
  };
  /// Null, with the reason, if the machine has no device.
  static std::unique_ptr<Driver> open(const Options &options, std::string &why);
  ~Driver();
  Driver(const Driver &) = delete;
  Driver &operator=(const Driver &) = delete;

  const Device &device() const { return *gpu; }
  /// Whether the bundle has launches for Vulkan devices.
  static bool isWanted(const tsr_bundle_t *bundle);
  /// Why the device cannot do the bundle's launches: field, what was found,
  /// what is needed. Empty if it can.
  std::string refusal(const tsr_bundle_t *bundle) const;

  /// Zeroed memory that both sides see, for a pool; null if there is none.
  void *poolMemory(uint32_t pool, uint64_t bytes);
  /// Uses memory of the host's as a pool, which is imported; pages that the
  /// device can import, as whole ones. The reason if it cannot.
  std::string importPool(uint32_t pool, void *memory, uint64_t bytes);

  /// Compiles and records all launches, for pools that have their memory. The
  /// reason if that is not possible.
  std::string prepare(const tsr_instance_t *instance);
  /// A tsr_driven_t.
  int drive(const tsr_instance_t *instance, uint32_t launch);
  /// The device did not end a launch. Its pools are not to be used any more.
  bool isLost() const { return lost; }
  /// What the driver said last when it was lost.
  const std::string &lossReason() const { return lostBy; }

  size_t pipelineCount() const { return pipelines->count(); }
  uint32_t barrierCount(uint32_t launch) const;

private:
  explicit Driver(const Options &options) : options(options) {}
  struct Launch {
    tessera::format::vulkan::Artefact artefact;
    std::vector<tsr_operand_t> operands; ///< as they were when it was recorded
    uint64_t constantsAt = 0;            ///< in `weights`
    std::unique_ptr<Recording> recording;
  };

  std::string start();
  void reset();
  std::string lacks(const std::string &where,
                    const tessera::format::vulkan::Artefact &artefact) const;
  std::string gather(const tsr_instance_t *instance);
  std::string upload();
  bool place(const tsr_instance_t *instance, uint32_t launch,
             std::vector<tsr_operand_t> &out) const;
  std::string record(Launch &launch);

  Options options;
  std::unique_ptr<Device> gpu;
  std::unique_ptr<Pipelines> pipelines;
  VkCommandPool commands = VK_NULL_HANDLE;
  VkFence fence = VK_NULL_HANDLE;
  Buffer pools[TSR_MAX_POOLS];
  Buffer weights, scratch;
  std::map<std::pair<const void *, uint64_t>, uint64_t> constantAt;
  uint64_t weightBytes = 0, scratchBytes = 0;
  std::map<uint32_t, Launch> launches;
  std::mutex mutex; ///< devices of one bundle may share this one
  std::atomic<bool> lost{false};
  std::string lostBy;
};

} // namespace tsr::vulkan
#endif

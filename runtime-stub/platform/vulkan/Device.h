// One Vulkan device: chosen, opened, what it can do.
#ifndef TESSERA_RUNTIME_PLATFORM_VULKAN_DEVICE_H
#define TESSERA_RUNTIME_PLATFORM_VULKAN_DEVICE_H

#include "runtime-stub/platform/vulkan/Api.h"

#include <cstdint>
#include <memory>
#include <string>

namespace tsr::vulkan {

/// A buffer with memory of its own. Destroyed by its device.
struct Buffer {
  VkBuffer buffer = VK_NULL_HANDLE;
  VkDeviceMemory memory = VK_NULL_HANDLE;
  void *data = nullptr; ///< as the processor sees it
  uint64_t bytes = 0;
};

class Device {
public:
  /// The first real GPU with compute queues and Vulkan 1.1; with `software`
  /// also a driver that computes on the processor. Null, with the reason, if
  /// there is none.
  static std::unique_ptr<Device> open(bool software, std::string &why);
  ~Device();
  Device(const Device &) = delete;
  Device &operator=(const Device &) = delete;

  const Api &api() const { return vk; }
  VkDevice handle() const { return device; }
  VkQueue queue() const { return computeQueue; }
  uint32_t queueFamily() const { return family; }
  const VkPhysicalDeviceLimits &limits() const { return properties.limits; }
  const VkPhysicalDeviceProperties &identity() const { return properties; }
  /// Bits of format::vulkan::Feature, all of them switched on.
  uint64_t features() const { return available; }
  uint32_t subgroupSize() const { return subgroup; }
  uint64_t maxAllocation() const { return maxAllocationBytes; }
  /// Alignment of host memory that it can import; 0 if it cannot.
  uint64_t importAlignment() const { return importGranule; }

  /// A storage buffer in memory that the processor sees too, coherently.
  VkResult createMapped(uint64_t bytes, Buffer &out) const;
  /// A storage buffer over memory of the host's, without a copy.
  VkResult import(void *memory, uint64_t bytes, Buffer &out) const;
  void destroy(Buffer &buffer) const;
  /// After a time-out: nothing of it is destroyed, as it may be at work still.
  void abandon() { abandoned = true; }
  bool isAbandoned() const { return abandoned; }

private:
  Device() = default;
  std::string create(bool software);
  std::string choose(bool software);
  std::string createDevice();
  uint32_t memoryType(uint32_t allowed) const;

  Api vk;
  VkInstance instance = VK_NULL_HANDLE;
  VkPhysicalDevice physical = VK_NULL_HANDLE;
  VkDevice device = VK_NULL_HANDLE;
  VkQueue computeQueue = VK_NULL_HANDLE;
  uint32_t family = 0, subgroup = 0;
  VkPhysicalDeviceProperties properties = {};
  VkPhysicalDeviceMemoryProperties memories = {};
  uint64_t available = 0, maxAllocationBytes = 0, importGranule = 0;
  bool abandoned = false;
};

/// "VK_ERROR_DEVICE_LOST" and so on, for refusals.
std::string resultName(VkResult result);

} // namespace tsr::vulkan
#endif

// Vulkan's functions, found at run time: a machine without Vulkan just has no
// such device.
#ifndef TESSERA_RUNTIME_PLATFORM_VULKAN_API_H
#define TESSERA_RUNTIME_PLATFORM_VULKAN_API_H

#define VK_NO_PROTOTYPES
#include <vulkan/vulkan_core.h>

#include <string>

namespace tsr::vulkan {

#define TSR_VULKAN_INSTANCE_FUNCTIONS(F)                                       \
  F(DestroyInstance)                                                           \
  F(EnumeratePhysicalDevices)                                                  \
  F(EnumerateDeviceExtensionProperties)                                        \
  F(GetPhysicalDeviceProperties2)                                              \
  F(GetPhysicalDeviceFeatures2)                                                \
  F(GetPhysicalDeviceMemoryProperties)                                         \
  F(GetPhysicalDeviceQueueFamilyProperties)                                    \
  F(CreateDevice)                                                              \
  F(GetDeviceProcAddr)

#define TSR_VULKAN_DEVICE_FUNCTIONS(F)                                         \
  F(DestroyDevice)                                                             \
  F(GetDeviceQueue)                                                            \
  F(CreateBuffer)                                                              \
  F(DestroyBuffer)                                                             \
  F(GetBufferMemoryRequirements)                                               \
  F(AllocateMemory)                                                            \
  F(FreeMemory)                                                                \
  F(BindBufferMemory)                                                          \
  F(MapMemory)                                                                 \
  F(CreateShaderModule)                                                        \
  F(DestroyShaderModule)                                                       \
  F(CreateDescriptorSetLayout)                                                 \
  F(DestroyDescriptorSetLayout)                                                \
  F(CreatePipelineLayout)                                                      \
  F(DestroyPipelineLayout)                                                     \
  F(CreatePipelineCache)                                                       \
  F(DestroyPipelineCache)                                                      \
  F(GetPipelineCacheData)                                                      \
  F(CreateComputePipelines)                                                    \
  F(DestroyPipeline)                                                           \
  F(CreateDescriptorPool)                                                      \
  F(DestroyDescriptorPool)                                                     \
  F(AllocateDescriptorSets)                                                    \
  F(UpdateDescriptorSets)                                                      \
  F(CreateCommandPool)                                                         \
  F(DestroyCommandPool)                                                        \
  F(AllocateCommandBuffers)                                                    \
  F(FreeCommandBuffers)                                                        \
  F(BeginCommandBuffer)                                                        \
  F(EndCommandBuffer)                                                          \
  F(CmdBindPipeline)                                                           \
  F(CmdBindDescriptorSets)                                                     \
  F(CmdPushConstants)                                                          \
  F(CmdDispatch)                                                               \
  F(CmdPipelineBarrier)                                                        \
  F(CreateFence)                                                               \
  F(DestroyFence)                                                              \
  F(ResetFences)                                                               \
  F(WaitForFences)                                                             \
  F(QueueSubmit)

struct Api {
  PFN_vkGetInstanceProcAddr GetInstanceProcAddr = nullptr;
  PFN_vkCreateInstance CreateInstance = nullptr;
  PFN_vkEnumerateInstanceVersion EnumerateInstanceVersion = nullptr;
#define F(name) PFN_vk##name name = nullptr;
  TSR_VULKAN_INSTANCE_FUNCTIONS(F)
  TSR_VULKAN_DEVICE_FUNCTIONS(F)
#undef F
  /// Of VK_EXT_external_memory_host; null without it.
  PFN_vkGetMemoryHostPointerPropertiesEXT GetMemoryHostPointerPropertiesEXT =
      nullptr;

  /// Finds the system's Vulkan library; the reason if there is none. It stays
  /// loaded: drivers do not like to go.
  std::string findLibrary();
  std::string findInstanceFunctions(VkInstance instance);
  std::string findDeviceFunctions(VkDevice device);
};

} // namespace tsr::vulkan
#endif

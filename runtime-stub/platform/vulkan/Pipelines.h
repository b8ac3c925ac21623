// Modules, layouts and pipelines of a device, each made once.
#ifndef TESSERA_RUNTIME_PLATFORM_VULKAN_PIPELINES_H
#define TESSERA_RUNTIME_PLATFORM_VULKAN_PIPELINES_H

#include "runtime-stub/format/Vulkan.h"
#include "runtime-stub/platform/vulkan/Device.h"

#include <map>
#include <tuple>
#include <vector>

namespace tsr::vulkan {

struct Pipeline {
  VkPipeline pipeline = VK_NULL_HANDLE;
  VkPipelineLayout layout = VK_NULL_HANDLE;
  VkDescriptorSetLayout set = VK_NULL_HANDLE;
};

class Pipelines {
public:
  /// With a file the driver's compiled code is kept from one process to the
  /// next; a file of another driver or a damaged one is not used.
  Pipelines(const Device &device, const std::string &cacheFile);
  ~Pipelines();
  Pipelines(const Pipelines &) = delete;
  Pipelines &operator=(const Pipelines &) = delete;

  VkResult find(const tessera::format::vulkan::Artefact &artefact,
                const tessera::format::vulkan::Step &step, Pipeline &out);
  size_t count() const { return pipelines.size(); }

private:
  VkResult findSet(uint32_t bindings, VkDescriptorSetLayout &out);
  VkResult findLayout(uint32_t bindings, uint32_t pushBytes, Pipeline &out);
  VkResult findModule(const std::string &words, VkShaderModule &out);
  void save() const;

  const Device &device;
  std::string cacheFile;
  VkPipelineCache cache = VK_NULL_HANDLE;
  std::map<uint32_t, VkDescriptorSetLayout> sets; ///< by number of bindings
  std::map<std::pair<uint32_t, uint32_t>, VkPipelineLayout> layouts;
  std::map<std::string, VkShaderModule> modules; ///< by their words
  std::map<std::tuple<VkShaderModule, std::string, VkPipelineLayout>,
           VkPipeline>
      pipelines;
};

/// Whether `bytes` begin with the header of a pipeline cache of that device.
bool isCacheOf(const std::string &bytes,
               const VkPhysicalDeviceProperties &identity);

} // namespace tsr::vulkan
#endif

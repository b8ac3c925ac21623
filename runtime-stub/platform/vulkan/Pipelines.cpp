#include "runtime-stub/platform/vulkan/Pipelines.h"

#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <unistd.h>

namespace tsr::vulkan {

bool isCacheOf(const std::string &bytes,
               const VkPhysicalDeviceProperties &identity) {
  VkPipelineCacheHeaderVersionOne header;
  if (bytes.size() < sizeof(header))
    return false;
  std::memcpy(&header, bytes.data(), sizeof(header));
  return header.headerSize >= sizeof(header) &&
         header.headerSize <= bytes.size() &&
         header.headerVersion == VK_PIPELINE_CACHE_HEADER_VERSION_ONE &&
         header.vendorID == identity.vendorID &&
         header.deviceID == identity.deviceID &&
         std::memcmp(header.pipelineCacheUUID, identity.pipelineCacheUUID,
                     VK_UUID_SIZE) == 0;
}

Pipelines::Pipelines(const Device &device, const std::string &cacheFile)
    : device(device), cacheFile(cacheFile) {
  std::string bytes;
  if (!cacheFile.empty()) {
    std::ifstream in(cacheFile, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(in), {});
    if (!isCacheOf(bytes, device.identity()))
      bytes.clear();
  }
  VkPipelineCacheCreateInfo info{VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
  info.initialDataSize = bytes.size();
  info.pInitialData = bytes.data();
  if (device.api().CreatePipelineCache(device.handle(), &info, nullptr,
                                       &cache) != VK_SUCCESS)
    cache = VK_NULL_HANDLE; // then each process compiles anew
}

Pipelines::~Pipelines() {
  if (device.isAbandoned())
    return;
  if (!cacheFile.empty() && cache && !pipelines.empty())
    save();
  const Api &vk = device.api();
  VkDevice d = device.handle();
  for (auto &[key, pipeline] : pipelines)
    vk.DestroyPipeline(d, pipeline, nullptr);
  for (auto &[key, layout] : layouts)
    vk.DestroyPipelineLayout(d, layout, nullptr);
  for (auto &[key, set] : sets)
    vk.DestroyDescriptorSetLayout(d, set, nullptr);
  for (auto &[key, module] : modules)
    vk.DestroyShaderModule(d, module, nullptr);
  if (cache)
    vk.DestroyPipelineCache(d, cache, nullptr);
}

/// Under another name first: a process that ends midway leaves no half file.
void Pipelines::save() const {
  size_t size = 0;
  const Api &vk = device.api();
  if (vk.GetPipelineCacheData(device.handle(), cache, &size, nullptr) !=
      VK_SUCCESS)
    return;
  std::string bytes(size, '\0');
  if (vk.GetPipelineCacheData(device.handle(), cache, &size, bytes.data()) !=
      VK_SUCCESS)
    return;
  bytes.resize(size);
  std::string fresh = cacheFile + "." + std::to_string(getpid());
  std::ofstream out(fresh, std::ios::binary);
  out.write(bytes.data(), std::streamsize(bytes.size()));
  out.close();
  if (!out || std::rename(fresh.c_str(), cacheFile.c_str()) != 0)
    std::remove(fresh.c_str());
}

VkResult Pipelines::findSet(uint32_t bindings, VkDescriptorSetLayout &out) {
  auto [it, isNew] = sets.try_emplace(bindings);
  VkResult r = VK_SUCCESS;
  if (isNew) {
    std::vector<VkDescriptorSetLayoutBinding> list(bindings);
    for (uint32_t i = 0; i < bindings; ++i)
      list[i] = {i, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1,
                 VK_SHADER_STAGE_COMPUTE_BIT, nullptr};
    VkDescriptorSetLayoutCreateInfo info{
        VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO};
    info.bindingCount = bindings;
    info.pBindings = list.data();
    r = device.api().CreateDescriptorSetLayout(device.handle(), &info, nullptr,
                                               &it->second);
    if (r != VK_SUCCESS) {
      sets.erase(it);
      return r;
    }
  }
  out = it->second;
  return r;
}

VkResult Pipelines::findLayout(uint32_t bindings, uint32_t pushBytes,
                               Pipeline &out) {
  if (VkResult r = findSet(bindings, out.set); r != VK_SUCCESS)
    return r;
  auto [it, isNew] = layouts.try_emplace({bindings, pushBytes});
  if (isNew) {
    VkPushConstantRange range{VK_SHADER_STAGE_COMPUTE_BIT, 0, pushBytes};
    VkPipelineLayoutCreateInfo info{
        VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO};
    info.setLayoutCount = 1;
    info.pSetLayouts = &out.set;
    info.pushConstantRangeCount = pushBytes ? 1 : 0;
    info.pPushConstantRanges = &range;
    VkResult r = device.api().CreatePipelineLayout(device.handle(), &info,
                                                   nullptr, &it->second);
    if (r != VK_SUCCESS) {
      layouts.erase(it);
      return r;
    }
  }
  out.layout = it->second;
  return VK_SUCCESS;
}

VkResult Pipelines::findModule(const std::string &words, VkShaderModule &out) {
  auto [it, isNew] = modules.try_emplace(words);
  if (isNew) {
    // The driver reads words; those of a string may lie anywhere.
    std::vector<uint32_t> aligned(words.size() / 4);
    std::memcpy(aligned.data(), words.data(), words.size());
    VkShaderModuleCreateInfo info{VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO};
    info.codeSize = words.size();
    info.pCode = aligned.data();
    VkResult r = device.api().CreateShaderModule(device.handle(), &info,
                                                 nullptr, &it->second);
    if (r != VK_SUCCESS) {
      modules.erase(it);
      return r;
    }
  }
  out = it->second;
  return VK_SUCCESS;
}

VkResult Pipelines::find(const tessera::format::vulkan::Artefact &artefact,
                         const tessera::format::vulkan::Step &step,
                         Pipeline &out) {
  auto module = artefact.module(step.module);
  VkShaderModule shader;
  std::string words(reinterpret_cast<const char *>(artefact.data) + module.at,
                    module.bytes);
  if (VkResult r = findModule(words, shader); r != VK_SUCCESS)
    return r;
  if (VkResult r = findLayout(step.bindings, step.pushBytes, out);
      r != VK_SUCCESS)
    return r;
  auto [it, isNew] = pipelines.try_emplace({shader, module.entry, out.layout});
  if (isNew) {
    VkComputePipelineCreateInfo info{
        VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO};
    info.stage = {VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  nullptr,
                  0,
                  VK_SHADER_STAGE_COMPUTE_BIT,
                  shader,
                  module.entry,
                  nullptr};
    info.layout = out.layout;
    VkResult r = device.api().CreateComputePipelines(
        device.handle(), cache, 1, &info, nullptr, &it->second);
    if (r != VK_SUCCESS) {
      pipelines.erase(it);
      return r;
    }
  }
  out.pipeline = it->second;
  return VK_SUCCESS;
}

} // namespace tsr::vulkan

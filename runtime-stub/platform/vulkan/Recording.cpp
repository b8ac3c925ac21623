#include "runtime-stub/platform/vulkan/Recording.h"

#include <algorithm>

namespace tsr::vulkan {

namespace format = tessera::format::vulkan;

static bool overlaps(const std::vector<Slice> &a, const std::vector<Slice> &b) {
  for (const Slice &x : a)
    for (const Slice &y : b)
      if (x.buffer == y.buffer && x.offset < y.offset + y.bytes &&
          y.offset < x.offset + x.bytes)
        return true;
  return false;
}

bool Hazards::enter(const std::vector<Slice> &reads,
                    const std::vector<Slice> &writes) {
  bool waits = overlaps(reads, written) || overlaps(writes, written) ||
               overlaps(writes, read);
  if (waits) {
    read.clear();
    written.clear();
  }
  read.insert(read.end(), reads.begin(), reads.end());
  written.insert(written.end(), writes.begin(), writes.end());
  return waits;
}

void Recording::reset() {
  if (!device.isAbandoned()) {
    if (buffer)
      device.api().FreeCommandBuffers(device.handle(), pool, 1, &buffer);
    if (sets)
      device.api().DestroyDescriptorPool(device.handle(), sets, nullptr);
  }
  buffer = VK_NULL_HANDLE;
  sets = VK_NULL_HANDLE;
  barrierCount = 0;
}

Slice Recording::sliceOf(const format::Binding &b, const Places &places) const {
  const Slice &whole = b.from == format::From::Operand
                           ? places.operands[b.operand]
                       : b.from == format::From::Constant ? places.constants
                                                          : places.scratch;
  return {whole.buffer, whole.offset + b.offset, b.bytes};
}

void Recording::barrier(VkAccessFlags to, VkPipelineStageFlags stage) {
  VkMemoryBarrier all{VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr,
                      VK_ACCESS_SHADER_WRITE_BIT, to};
  device.api().CmdPipelineBarrier(buffer, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                                  stage, 0, 1, &all, 0, nullptr, 0, nullptr);
}

std::string Recording::makeSets(const format::Artefact &artefact) {
  uint32_t descriptors = 0;
  for (uint32_t i = 0; i < artefact.head.steps; ++i)
    descriptors += artefact.step(i).bindings;
  VkDescriptorPoolSize size{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, descriptors};
  VkDescriptorPoolCreateInfo info{
      VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO};
  info.maxSets = artefact.head.steps;
  info.poolSizeCount = 1;
  info.pPoolSizes = &size;
  VkResult r =
      device.api().CreateDescriptorPool(device.handle(), &info, nullptr, &sets);
  return r == VK_SUCCESS ? "" : "descriptors: " + resultName(r);
}

std::string Recording::step(const format::Artefact &artefact, uint32_t index,
                            const Places &places, Pipelines &pipelines,
                            Hazards &hazards) {
  const Api &vk = device.api();
  format::Step step = artefact.step(index);
  Pipeline pipeline;
  if (VkResult r = pipelines.find(artefact, step, pipeline); r != VK_SUCCESS)
    return "kernel '" + std::string(artefact.module(step.module).entry) +
           "' is not taken by the driver: " + resultName(r);
  VkDescriptorSetAllocateInfo allocate{
      VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO, nullptr, sets, 1,
      &pipeline.set};
  VkDescriptorSet set;
  if (VkResult r = vk.AllocateDescriptorSets(device.handle(), &allocate, &set);
      r != VK_SUCCESS)
    return "descriptors: " + resultName(r);
  std::vector<Slice> reads, writes;
  std::vector<VkDescriptorBufferInfo> buffers(step.bindings);
  std::vector<VkWriteDescriptorSet> updates(step.bindings);
  for (uint32_t i = 0; i < step.bindings; ++i) {
    format::Binding binding = artefact.binding(step.firstBinding + i);
    Slice slice = sliceOf(binding, places);
    if (slice.offset % device.limits().minStorageBufferOffsetAlignment)
      return "a buffer at " + std::to_string(slice.offset) +
             ", this device needs multiples of " +
             std::to_string(device.limits().minStorageBufferOffsetAlignment);
    if (binding.access & format::kReads)
      reads.push_back(slice);
    if (binding.access & format::kWrites)
      writes.push_back(slice);
    buffers[i] = {slice.buffer, slice.offset, slice.bytes};
    updates[i] = {VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET};
    updates[i].dstSet = set;
    updates[i].dstBinding = i;
    updates[i].descriptorCount = 1;
    updates[i].descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
    updates[i].pBufferInfo = &buffers[i];
  }
  vk.UpdateDescriptorSets(device.handle(), step.bindings, updates.data(), 0,
                          nullptr);
  if (hazards.enter(reads, writes)) {
    barrier(VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT,
            VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT);
    ++barrierCount;
  }
  vk.CmdBindPipeline(buffer, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline.pipeline);
  vk.CmdBindDescriptorSets(buffer, VK_PIPELINE_BIND_POINT_COMPUTE,
                           pipeline.layout, 0, 1, &set, 0, nullptr);
  if (step.pushBytes)
    vk.CmdPushConstants(buffer, pipeline.layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                        step.pushBytes, artefact.push() + step.pushAt);
  vk.CmdDispatch(buffer, step.groups[0], step.groups[1], step.groups[2]);
  return "";
}

std::string Recording::record(const format::Artefact &artefact,
                              const Places &places, Pipelines &pipelines,
                              VkCommandPool commands) {
  reset();
  const Api &vk = device.api();
  if (artefact.head.steps)
    if (std::string fault = makeSets(artefact); !fault.empty())
      return fault;
  VkCommandBufferAllocateInfo allocate{
      VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO, nullptr, commands,
      VK_COMMAND_BUFFER_LEVEL_PRIMARY, 1};
  VkResult r = vk.AllocateCommandBuffers(device.handle(), &allocate, &buffer);
  if (r != VK_SUCCESS) {
    buffer = VK_NULL_HANDLE;
    return "commands: " + resultName(r);
  }
  pool = commands;
  VkCommandBufferBeginInfo begin{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  r = vk.BeginCommandBuffer(buffer, &begin);
  // What launches before have written, or still had to read; what the processor
  // wrote is made visible by the submission.
  barrier(VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT,
          VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT);
  Hazards hazards;
  std::string fault;
  for (uint32_t i = 0; i < artefact.head.steps && fault.empty(); ++i)
    fault = step(artefact, i, places, pipelines, hazards);
  barrier(VK_ACCESS_HOST_READ_BIT | VK_ACCESS_HOST_WRITE_BIT,
          VK_PIPELINE_STAGE_HOST_BIT);
  VkResult end = vk.EndCommandBuffer(buffer);
  if (fault.empty() && (r != VK_SUCCESS || end != VK_SUCCESS))
    fault = "commands: " + resultName(r != VK_SUCCESS ? r : end);
  if (!fault.empty())
    reset();
  return fault;
}

} // namespace tsr::vulkan

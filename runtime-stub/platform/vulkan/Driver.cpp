#include "runtime-stub/platform/vulkan/Driver.h"

#include <algorithm>
#include <cstring>

namespace tsr::vulkan {

namespace format = tessera::format::vulkan;

std::unique_ptr<Driver> Driver::open(const Options &options, std::string &why) {
  std::unique_ptr<Driver> driver(new Driver(options));
  driver->gpu = Device::open(options.software, why);
  if (!driver->gpu)
    return nullptr;
  why = driver->start();
  return why.empty() ? std::move(driver) : nullptr;
}

std::string Driver::start() {
  const Api &vk = gpu->api();
  pipelines = std::make_unique<Pipelines>(*gpu, options.cacheFile);
  VkCommandPoolCreateInfo pool{VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
  pool.queueFamilyIndex = gpu->queueFamily();
  VkResult r = vk.CreateCommandPool(gpu->handle(), &pool, nullptr, &commands);
  VkFenceCreateInfo info{VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
  if (r == VK_SUCCESS)
    r = vk.CreateFence(gpu->handle(), &info, nullptr, &fence);
  return r == VK_SUCCESS ? "" : "the device gives no queue: " + resultName(r);
}

Driver::~Driver() {
  if (!gpu)
    return;
  // A device that was late may have ended meanwhile; else all of it stays.
  if (lost && fence) {
    VkResult r = gpu->api().WaitForFences(gpu->handle(), 1, &fence, VK_TRUE,
                                          options.timeoutNs);
    if (r != VK_SUCCESS && r != VK_ERROR_DEVICE_LOST)
      gpu->abandon();
  }
  reset();
  for (Buffer &pool : pools)
    gpu->destroy(pool);
  if (!gpu->isAbandoned()) {
    if (fence)
      gpu->api().DestroyFence(gpu->handle(), fence, nullptr);
    if (commands)
      gpu->api().DestroyCommandPool(gpu->handle(), commands, nullptr);
  }
  pipelines.reset();
}

void Driver::reset() {
  launches.clear();
  constantAt.clear();
  weightBytes = scratchBytes = 0;
  gpu->destroy(weights);
  gpu->destroy(scratch);
}

// --- what a bundle asks for --------------------------------------------------

/// The launch, if it is one for a Vulkan device.
static bool isOurs(const tsr_bundle_t *bundle, uint32_t launch,
                   tsr_launch_t &out) {
  return tsr_launch_query(bundle, launch, &out) == TSR_OK && out.artefact &&
         std::strcmp(tsr_device_kind(bundle, out.device),
                     format::kDeviceKind) == 0;
}

bool Driver::isWanted(const tsr_bundle_t *bundle) {
  tsr_launch_t launch;
  for (uint32_t i = 0; i < tsr_launch_count(bundle); ++i)
    if (isOurs(bundle, i, launch))
      return true;
  return false;
}

static const char *featureName(uint64_t bit) {
  switch (bit) {
  case format::kStorage16:
    return "16-bit storage";
  case format::kStorage8:
    return "8-bit storage";
  case format::kFloat16:
    return "16-bit floats";
  case format::kInt8:
    return "8-bit integers";
  case format::kInt16:
    return "16-bit integers";
  case format::kInt64:
    return "64-bit integers";
  case format::kDot8:
    return "integer dot products";
  case format::kSubgroups:
    return "subgroup arithmetic";
  case format::kFloat64:
    return "64-bit floats";
  case format::kShuffle:
    return "subgroup shuffles";
  default:
    return "an unknown feature";
  }
}

/// Fault of one segment, in the words of a loader's refusal.
std::string Driver::lacks(const std::string &where,
                          const format::Artefact &artefact) const {
  const VkPhysicalDeviceLimits &most = gpu->limits();
  auto fault = [&](const std::string &what, uint64_t needed, uint64_t found) {
    return where + ", " + what + ": " + std::to_string(found) + " on '" +
           gpu->identity().deviceName + "', needed: " + std::to_string(needed) +
           "; compile for a target with this device's limits";
  };
  for (uint32_t i = 0; i < artefact.head.modules; ++i) {
    format::Module m = artefact.module(i);
    std::string kernel = std::string("kernel '") + m.entry + "'";
    for (uint64_t bit = 1; bit & format::kAllFeatures; bit <<= 1)
      if (m.features & bit & ~gpu->features())
        return where + ", " + kernel + ": '" + gpu->identity().deviceName +
               "' lacks a feature, needed: " + featureName(bit) +
               "; compile for a target without it";
    uint64_t invocations = 1;
    for (int k = 0; k < 3; ++k) {
      invocations *= m.localSize[k];
      if (m.localSize[k] > most.maxComputeWorkGroupSize[k])
        return fault(kernel + " workgroup size", m.localSize[k],
                     most.maxComputeWorkGroupSize[k]);
    }
    if (invocations > most.maxComputeWorkGroupInvocations)
      return fault(kernel + " invocations of a workgroup", invocations,
                   most.maxComputeWorkGroupInvocations);
    if (m.sharedBytes > most.maxComputeSharedMemorySize)
      return fault(kernel + " bytes of shared memory", m.sharedBytes,
                   most.maxComputeSharedMemorySize);
    if (m.subgroup && m.subgroup != gpu->subgroupSize())
      return fault(kernel + " subgroup size", m.subgroup, gpu->subgroupSize());
  }
  for (uint32_t i = 0; i < artefact.head.steps; ++i) {
    format::Step s = artefact.step(i);
    uint32_t bindings = std::min(most.maxPerStageDescriptorStorageBuffers,
                                 most.maxDescriptorSetStorageBuffers);
    if (s.bindings > bindings)
      return fault("buffers of step " + std::to_string(i), s.bindings,
                   bindings);
    if (s.pushBytes > most.maxPushConstantsSize)
      return fault("push constants of step " + std::to_string(i), s.pushBytes,
                   most.maxPushConstantsSize);
    for (int k = 0; k < 3; ++k)
      if (s.groups[k] > most.maxComputeWorkGroupCount[k])
        return fault("workgroups of step " + std::to_string(i), s.groups[k],
                     most.maxComputeWorkGroupCount[k]);
  }
  for (uint32_t i = 0; i < artefact.head.bindings; ++i)
    if (artefact.binding(i).bytes > most.maxStorageBufferRange)
      return fault("bytes of binding " + std::to_string(i),
                   artefact.binding(i).bytes, most.maxStorageBufferRange);
  return "";
}

std::string Driver::refusal(const tsr_bundle_t *bundle) const {
  for (uint32_t i = 0; i < tsr_launch_count(bundle); ++i) {
    tsr_launch_t launch;
    format::Artefact artefact;
    if (!isOurs(bundle, i, launch))
      continue;
    std::string where = std::string("launch '") + launch.name + "'";
    // The loader has checked it; a fault here is one of the caller.
    if (format::Fault f =
            format::check(static_cast<const uint8_t *>(launch.artefact),
                          launch.artefact_bytes, artefact);
        f.part)
      return where + ": " + f.part + " " + std::to_string(f.index) + ": " +
             f.what;
    if (std::string fault = lacks(where, artefact); !fault.empty())
      return fault;
  }
  return "";
}

// --- memory ------------------------------------------------------------------

void *Driver::poolMemory(uint32_t pool, uint64_t bytes) {
  gpu->destroy(pools[pool]);
  // Not empty, so that a pool of no bytes has an address too.
  if (gpu->createMapped(std::max<uint64_t>(bytes, format::kRangeAlignment),
                        pools[pool]) != VK_SUCCESS)
    return nullptr;
  std::memset(pools[pool].data, 0, pools[pool].bytes);
  return pools[pool].data;
}

std::string Driver::importPool(uint32_t pool, void *memory, uint64_t bytes) {
  gpu->destroy(pools[pool]);
  VkResult r = gpu->import(memory, bytes, pools[pool]);
  return r == VK_SUCCESS ? ""
                         : "memory of pool " + std::to_string(pool) +
                               " cannot be imported: " + resultName(r);
}

/// The operands of a launch as they lie now. False: not where the device sees
/// them.
bool Driver::place(const tsr_instance_t *instance, uint32_t launch,
                   std::vector<tsr_operand_t> &out) const {
  for (uint32_t i = 0; i < out.size(); ++i) {
    tsr_operand_t &o = out[i];
    o = {};
    if (tsr_launch_operand(instance, launch, i, &o) != TSR_OK)
      return false;
    if (o.pool == TSR_NO_POOL)
      continue;
    const Buffer &pool = pools[o.pool];
    if (!pool.buffer || o.offset > pool.bytes ||
        o.bytes > pool.bytes - o.offset ||
        o.data != static_cast<uint8_t *>(pool.data) + o.offset)
      return false;
  }
  return true;
}

/// Finds all launches, and what of constants and scratch memory they need.
std::string Driver::gather(const tsr_instance_t *instance) {
  auto reserve = [&](uint64_t bytes) {
    uint64_t at = weightBytes;
    weightBytes = (at + bytes + format::kRangeAlignment - 1) /
                  format::kRangeAlignment * format::kRangeAlignment;
    return at;
  };
  const tsr_bundle_t *bundle = tsr_instance_bundle(instance);
  for (uint32_t i = 0; i < tsr_launch_count(bundle); ++i) {
    tsr_launch_t query;
    if (!isOurs(bundle, i, query))
      continue;
    Launch &launch = launches[i];
    if (format::check(static_cast<const uint8_t *>(query.artefact),
                      query.artefact_bytes, launch.artefact)
            .part)
      return "launch " + std::to_string(i) + " has a damaged segment";
    launch.operands.resize(query.operand_count);
    if (!place(instance, i, launch.operands))
      return "launch " + std::to_string(i) +
             " has operands outside of the device's memory";
    launch.constantsAt = reserve(launch.artefact.head.constantsBytes);
    for (const tsr_operand_t &o : launch.operands)
      if (o.pool == TSR_NO_POOL)
        if (auto [it, isNew] = constantAt.try_emplace({o.data, o.bytes}); isNew)
          it->second = reserve(o.bytes);
    scratchBytes = std::max(scratchBytes, launch.artefact.head.scratchBytes);
  }
  return "";
}

/// One buffer for all constants, one for scratch memory.
std::string Driver::upload() {
  VkResult r = VK_SUCCESS;
  if (weightBytes)
    r = gpu->createMapped(weightBytes, weights);
  if (r == VK_SUCCESS && scratchBytes)
    r = gpu->createMapped(scratchBytes, scratch);
  if (r != VK_SUCCESS)
    return "memory for " + std::to_string(weightBytes) +
           " bytes of constants and " + std::to_string(scratchBytes) +
           " of scratch: " + resultName(r);
  if (!weightBytes)
    return "";
  auto *to = static_cast<uint8_t *>(weights.data);
  for (const auto &[number, launch] : launches)
    std::memcpy(to + launch.constantsAt, launch.artefact.constants(),
                launch.artefact.head.constantsBytes);
  for (const auto &[constant, at] : constantAt)
    std::memcpy(to + at, constant.first, constant.second);
  return "";
}

// --- runs
// ----------------------------------------------------------------------

std::string Driver::record(Launch &launch) {
  Recording::Places places;
  for (const tsr_operand_t &o : launch.operands)
    places.operands.push_back(
        o.pool == TSR_NO_POOL
            ? Slice{weights.buffer, constantAt.at({o.data, o.bytes}), o.bytes}
            : Slice{pools[o.pool].buffer, o.offset, o.bytes});
  places.constants = {weights.buffer, launch.constantsAt,
                      launch.artefact.head.constantsBytes};
  places.scratch = {scratch.buffer, 0, scratch.bytes};
  if (!launch.recording)
    launch.recording = std::make_unique<Recording>(*gpu);
  return launch.recording->record(launch.artefact, places, *pipelines,
                                  commands);
}

std::string Driver::prepare(const tsr_instance_t *instance) {
  std::lock_guard<std::mutex> lock(mutex);
  reset();
  std::string fault = gather(instance);
  if (fault.empty())
    fault = upload();
  for (auto &[number, launch] : launches)
    if (fault.empty())
      fault = record(launch);
  if (!fault.empty())
    reset();
  return fault;
}

uint32_t Driver::barrierCount(uint32_t launch) const {
  auto it = launches.find(launch);
  return it == launches.end() ? 0 : it->second.recording->barriers();
}

static bool isSame(const tsr_operand_t &a, const tsr_operand_t &b) {
  return a.data == b.data && a.bytes == b.bytes && a.pool == b.pool &&
         a.offset == b.offset;
}

int Driver::drive(const tsr_instance_t *instance, uint32_t number) {
  std::lock_guard<std::mutex> lock(mutex);
  auto it = launches.find(number);
  if (it == launches.end())
    return TSR_DRIVEN_NOT;
  // Nothing may touch the pools of a device that may be at work in them.
  if (lost)
    return TSR_DRIVEN_LOST;
  Launch &launch = it->second;
  std::vector<tsr_operand_t> now(launch.operands.size());
  if (!place(instance, number, now))
    return TSR_DRIVEN_NOT;
  if (!std::equal(now.begin(), now.end(), launch.operands.begin(), isSame)) {
    for (const tsr_operand_t &o : now)
      if (o.pool == TSR_NO_POOL && !constantAt.count({o.data, o.bytes}))
        return TSR_DRIVEN_NOT;
    launch.operands = now; // else what was recorded would pass for its places
    if (!record(launch).empty())
      return TSR_DRIVEN_NOT;
  }
  VkCommandBuffer buffer = launch.recording->commandBuffer();
  if (!buffer)
    return TSR_DRIVEN_NOT;
  const Api &vk = gpu->api();
  VkSubmitInfo submit{VK_STRUCTURE_TYPE_SUBMIT_INFO};
  submit.commandBufferCount = 1;
  submit.pCommandBuffers = &buffer;
  VkResult r = vk.ResetFences(gpu->handle(), 1, &fence);
  if (r == VK_SUCCESS)
    r = vk.QueueSubmit(gpu->queue(), 1, &submit, fence);
  if (r == VK_ERROR_OUT_OF_HOST_MEMORY || r == VK_ERROR_OUT_OF_DEVICE_MEMORY)
    return TSR_DRIVEN_NOT; // nothing of it was submitted
  if (r == VK_SUCCESS)
    r = vk.WaitForFences(gpu->handle(), 1, &fence, VK_TRUE, options.timeoutNs);
  if (r == VK_SUCCESS)
    return TSR_DRIVEN_DONE;
  lostBy = "device '" + std::string(gpu->identity().deviceName) +
           "' did not end a launch: " + resultName(r);
  lost = true;
  return TSR_DRIVEN_LOST;
}

} // namespace tsr::vulkan

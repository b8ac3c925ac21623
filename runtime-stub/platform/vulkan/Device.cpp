#include "runtime-stub/platform/vulkan/Device.h"

#include "runtime-stub/format/Vulkan.h"

#include <cstring>
#include <vector>

namespace tsr::vulkan {

namespace bundle = tessera::format::vulkan;

std::string resultName(VkResult result) {
  switch (result) {
#define R(name)                                                                \
  case name:                                                                   \
    return #name;
    R(VK_SUCCESS)
    R(VK_NOT_READY)
    R(VK_TIMEOUT)
    R(VK_INCOMPLETE)
    R(VK_ERROR_OUT_OF_HOST_MEMORY)
    R(VK_ERROR_OUT_OF_DEVICE_MEMORY)
    R(VK_ERROR_INITIALIZATION_FAILED)
    R(VK_ERROR_DEVICE_LOST)
    R(VK_ERROR_MEMORY_MAP_FAILED)
    R(VK_ERROR_LAYER_NOT_PRESENT)
    R(VK_ERROR_EXTENSION_NOT_PRESENT)
    R(VK_ERROR_FEATURE_NOT_PRESENT)
    R(VK_ERROR_INCOMPATIBLE_DRIVER)
    R(VK_ERROR_TOO_MANY_OBJECTS)
    R(VK_ERROR_INVALID_EXTERNAL_HANDLE)
#undef R
  default:
    return "VkResult " + std::to_string(int(result));
  }
}

std::unique_ptr<Device> Device::open(bool software, std::string &why) {
  std::unique_ptr<Device> device(new Device());
  why = device->create(software);
  if (!why.empty())
    return nullptr;
  return device;
}

Device::~Device() {
  if (abandoned)
    return;
  if (device && vk.DestroyDevice)
    vk.DestroyDevice(device, nullptr);
  if (instance && vk.DestroyInstance)
    vk.DestroyInstance(instance, nullptr);
}

std::string Device::create(bool software) {
  if (std::string fault = vk.findLibrary(); !fault.empty())
    return fault;
  uint32_t version = 0;
  if (vk.EnumerateInstanceVersion(&version) != VK_SUCCESS ||
      version < VK_API_VERSION_1_1)
    return "its Vulkan library is older than Vulkan 1.1";
  VkApplicationInfo application{VK_STRUCTURE_TYPE_APPLICATION_INFO};
  application.pApplicationName = "Tessera";
  application.apiVersion = VK_API_VERSION_1_1;
  VkInstanceCreateInfo info{VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO};
  info.pApplicationInfo = &application;
  if (VkResult r = vk.CreateInstance(&info, nullptr, &instance);
      r != VK_SUCCESS)
    return "no Vulkan driver can be used: " + resultName(r);
  if (std::string fault = vk.findInstanceFunctions(instance); !fault.empty())
    return fault;
  if (std::string fault = choose(software); !fault.empty())
    return fault;
  return createDevice();
}

/// Sets `physical` and `family`.
std::string Device::choose(bool software) {
  uint32_t count = 0;
  VkResult r = vk.EnumeratePhysicalDevices(instance, &count, nullptr);
  std::vector<VkPhysicalDevice> all(count);
  if (r == VK_SUCCESS && count)
    r = vk.EnumeratePhysicalDevices(instance, &count, all.data());
  if ((r != VK_SUCCESS && r != VK_INCOMPLETE) || !count)
    return "no Vulkan device is there";
  std::string seen;
  int best = 0;
  for (VkPhysicalDevice candidate : all) {
    VkPhysicalDeviceProperties2 p{
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2};
    vk.GetPhysicalDeviceProperties2(candidate, &p);
    seen += std::string(seen.empty() ? "" : ", ") + p.properties.deviceName;
    uint32_t families = 0;
    vk.GetPhysicalDeviceQueueFamilyProperties(candidate, &families, nullptr);
    std::vector<VkQueueFamilyProperties> queues(families);
    vk.GetPhysicalDeviceQueueFamilyProperties(candidate, &families,
                                              queues.data());
    bool isReal = p.properties.deviceType != VK_PHYSICAL_DEVICE_TYPE_CPU;
    // What shares the processor's memory comes first: nothing is copied there.
    int score =
        p.properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU ? 3
        : isReal                                                          ? 2
        : software                                                        ? 1
                                                                          : 0;
    if (p.properties.apiVersion < VK_API_VERSION_1_1 || score <= best)
      continue;
    for (uint32_t f = 0; f < families; ++f)
      if (queues[f].queueFlags & VK_QUEUE_COMPUTE_BIT) {
        best = score;
        physical = candidate;
        family = f;
        break;
      }
  }
  return best ? "" : "no device computes by Vulkan 1.1 in hardware: " + seen;
}

std::string Device::createDevice() {
  uint32_t count = 0;
  vk.EnumerateDeviceExtensionProperties(physical, nullptr, &count, nullptr);
  std::vector<VkExtensionProperties> extensions(count);
  vk.EnumerateDeviceExtensionProperties(physical, nullptr, &count,
                                        extensions.data());
  std::vector<const char *> enabled;
  auto enable = [&](const char *name) {
    for (const VkExtensionProperties &e : extensions)
      if (std::strcmp(e.extensionName, name) == 0) {
        enabled.push_back(name);
        return true;
      }
    return false;
  };
  VkPhysicalDevice16BitStorageFeatures storage16{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES};
  VkPhysicalDevice8BitStorageFeatures storage8{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES};
  VkPhysicalDeviceShaderFloat16Int8Features small{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES};
  VkPhysicalDeviceShaderIntegerDotProductFeatures dot{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES};
  VkPhysicalDeviceFeatures2 features{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, &storage16};
  void **tail = &storage16.pNext;
  auto chain = [&](auto &next) {
    *tail = &next;
    tail = &next.pNext;
  };
  if (enable(VK_KHR_8BIT_STORAGE_EXTENSION_NAME))
    chain(storage8);
  if (enable(VK_KHR_SHADER_FLOAT16_INT8_EXTENSION_NAME))
    chain(small);
  if (enable(VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME))
    chain(dot);
  bool imports = enable(VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME);

  VkPhysicalDeviceExternalMemoryHostPropertiesEXT host{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT};
  VkPhysicalDeviceMaintenance3Properties sizes{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES,
      imports ? &host : nullptr};
  VkPhysicalDeviceSubgroupProperties subgroups{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES, &sizes};
  VkPhysicalDeviceProperties2 p{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2,
                                &subgroups};
  vk.GetPhysicalDeviceProperties2(physical, &p);
  properties = p.properties;
  subgroup = subgroups.subgroupSize;
  maxAllocationBytes = sizes.maxMemoryAllocationSize;
  importGranule = imports ? host.minImportedHostPointerAlignment : 0;
  vk.GetPhysicalDeviceMemoryProperties(physical, &memories);

  vk.GetPhysicalDeviceFeatures2(physical, &features);
  VkPhysicalDeviceFeatures wanted = {};
  wanted.shaderInt16 = features.features.shaderInt16;
  wanted.shaderInt64 = features.features.shaderInt64;
  wanted.shaderFloat64 = features.features.shaderFloat64;
  features.features = wanted; // and no check of bounds at each access
  auto has = [&](VkBool32 is, uint64_t bit) { available |= is ? bit : 0; };
  has(storage16.storageBuffer16BitAccess, bundle::kStorage16);
  has(storage8.storageBuffer8BitAccess &&
          storage8.uniformAndStorageBuffer8BitAccess,
      bundle::kStorage8);
  has(small.shaderFloat16, bundle::kFloat16);
  has(small.shaderInt8, bundle::kInt8);
  has(wanted.shaderInt16, bundle::kInt16);
  has(wanted.shaderInt64, bundle::kInt64);
  has(wanted.shaderFloat64, bundle::kFloat64);
  has(dot.shaderIntegerDotProduct, bundle::kDot8);
  if (subgroups.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT) {
    has(subgroups.supportedOperations & VK_SUBGROUP_FEATURE_ARITHMETIC_BIT,
        bundle::kSubgroups);
    has((subgroups.supportedOperations & VK_SUBGROUP_FEATURE_SHUFFLE_BIT) &&
            (subgroups.supportedOperations &
             VK_SUBGROUP_FEATURE_SHUFFLE_RELATIVE_BIT),
        bundle::kShuffle);
  }

  float priority = 1;
  VkDeviceQueueCreateInfo queue{VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO};
  queue.queueFamilyIndex = family;
  queue.queueCount = 1;
  queue.pQueuePriorities = &priority;
  VkDeviceCreateInfo info{VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, &features};
  info.queueCreateInfoCount = 1;
  info.pQueueCreateInfos = &queue;
  info.enabledExtensionCount = uint32_t(enabled.size());
  info.ppEnabledExtensionNames = enabled.data();
  if (VkResult r = vk.CreateDevice(physical, &info, nullptr, &device);
      r != VK_SUCCESS)
    return "device '" + std::string(properties.deviceName) +
           "' cannot be opened: " + resultName(r);
  if (std::string fault = vk.findDeviceFunctions(device); !fault.empty())
    return fault;
  if (!vk.GetMemoryHostPointerPropertiesEXT)
    importGranule = 0;
  vk.GetDeviceQueue(device, family, 0, &computeQueue);
  return "";
}

/// Of the allowed types that the processor sees coherently, the one that both
/// sides reach fastest; ~0 if there is none.
uint32_t Device::memoryType(uint32_t allowed) const {
  uint32_t found = ~0u;
  int best = -1;
  for (uint32_t i = 0; i < memories.memoryTypeCount; ++i) {
    VkMemoryPropertyFlags flags = memories.memoryTypes[i].propertyFlags;
    constexpr VkMemoryPropertyFlags needed =
        VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
        VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    if (!(allowed >> i & 1) || (flags & needed) != needed)
      continue;
    int score = (flags & VK_MEMORY_PROPERTY_HOST_CACHED_BIT ? 2 : 0) +
                (flags & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT ? 1 : 0);
    if (score > best) {
      best = score;
      found = i;
    }
  }
  return found;
}

VkResult Device::createMapped(uint64_t bytes, Buffer &out) const {
  out = {};
  out.bytes = bytes;
  VkBufferCreateInfo info{VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};
  info.size = bytes;
  info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT;
  VkResult r = vk.CreateBuffer(device, &info, nullptr, &out.buffer);
  if (r == VK_SUCCESS) {
    VkMemoryRequirements needs;
    vk.GetBufferMemoryRequirements(device, out.buffer, &needs);
    VkMemoryAllocateInfo memory{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, nullptr,
                                needs.size, memoryType(needs.memoryTypeBits)};
    r = memory.memoryTypeIndex == ~0u || needs.size > maxAllocationBytes
            ? VK_ERROR_OUT_OF_DEVICE_MEMORY
            : vk.AllocateMemory(device, &memory, nullptr, &out.memory);
  }
  if (r == VK_SUCCESS)
    r = vk.BindBufferMemory(device, out.buffer, out.memory, 0);
  if (r == VK_SUCCESS)
    r = vk.MapMemory(device, out.memory, 0, VK_WHOLE_SIZE, 0, &out.data);
  if (r != VK_SUCCESS)
    destroy(out);
  return r;
}

VkResult Device::import(void *host, uint64_t bytes, Buffer &out) const {
  out = {};
  if (!importGranule || reinterpret_cast<uintptr_t>(host) % importGranule ||
      bytes % importGranule || !bytes || bytes > maxAllocationBytes)
    return VK_ERROR_INVALID_EXTERNAL_HANDLE;
  constexpr auto kind = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT;
  VkMemoryHostPointerPropertiesEXT pointer{
      VK_STRUCTURE_TYPE_MEMORY_HOST_POINTER_PROPERTIES_EXT};
  VkResult r =
      vk.GetMemoryHostPointerPropertiesEXT(device, kind, host, &pointer);
  if (r != VK_SUCCESS)
    return r;
  out.bytes = bytes;
  VkExternalMemoryBufferCreateInfo external{
      VK_STRUCTURE_TYPE_EXTERNAL_MEMORY_BUFFER_CREATE_INFO, nullptr, kind};
  VkBufferCreateInfo info{VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, &external};
  info.size = bytes;
  info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT;
  r = vk.CreateBuffer(device, &info, nullptr, &out.buffer);
  if (r == VK_SUCCESS) {
    VkMemoryRequirements needs;
    vk.GetBufferMemoryRequirements(device, out.buffer, &needs);
    VkImportMemoryHostPointerInfoEXT from{
        VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT, nullptr, kind,
        host};
    VkMemoryAllocateInfo memory{
        VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, &from, bytes,
        memoryType(needs.memoryTypeBits & pointer.memoryTypeBits)};
    r = memory.memoryTypeIndex == ~0u || needs.size > bytes
            ? VK_ERROR_INVALID_EXTERNAL_HANDLE
            : vk.AllocateMemory(device, &memory, nullptr, &out.memory);
  }
  if (r == VK_SUCCESS)
    r = vk.BindBufferMemory(device, out.buffer, out.memory, 0);
  if (r != VK_SUCCESS)
    destroy(out);
  else
    out.data = host;
  return r;
}

void Device::destroy(Buffer &buffer) const {
  if (!abandoned) {
    if (buffer.buffer)
      vk.DestroyBuffer(device, buffer.buffer, nullptr);
    if (buffer.memory)
      vk.FreeMemory(device, buffer.memory, nullptr);
  }
  buffer = {};
}

} // namespace tsr::vulkan

#include "runtime-stub/platform/vulkan/Api.h"

#include <dlfcn.h>

namespace tsr::vulkan {

std::string Api::findLibrary() {
  void *library = nullptr;
  for (const char *name : {"libvulkan.so.1", "libvulkan.so"})
    if (!library)
      library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    return "this machine has no Vulkan library (libvulkan.so.1)";
  GetInstanceProcAddr = reinterpret_cast<PFN_vkGetInstanceProcAddr>(
      dlsym(library, "vkGetInstanceProcAddr"));
  if (!GetInstanceProcAddr)
    return "its Vulkan library has no vkGetInstanceProcAddr";
  CreateInstance = reinterpret_cast<PFN_vkCreateInstance>(
      GetInstanceProcAddr(nullptr, "vkCreateInstance"));
  EnumerateInstanceVersion = reinterpret_cast<PFN_vkEnumerateInstanceVersion>(
      GetInstanceProcAddr(nullptr, "vkEnumerateInstanceVersion"));
  if (!CreateInstance || !EnumerateInstanceVersion)
    return "its Vulkan library is older than Vulkan 1.1";
  return "";
}

std::string Api::findInstanceFunctions(VkInstance instance) {
#define F(name)                                                                \
  name = reinterpret_cast<PFN_vk##name>(                                       \
      GetInstanceProcAddr(instance, "vk" #name));                              \
  if (!name)                                                                   \
    return "its Vulkan library has no vk" #name;
  TSR_VULKAN_INSTANCE_FUNCTIONS(F)
#undef F
  return "";
}

std::string Api::findDeviceFunctions(VkDevice device) {
#define F(name)                                                                \
  name =                                                                       \
      reinterpret_cast<PFN_vk##name>(GetDeviceProcAddr(device, "vk" #name));   \
  if (!name)                                                                   \
    return "its Vulkan driver has no vk" #name;
  TSR_VULKAN_DEVICE_FUNCTIONS(F)
#undef F
  GetMemoryHostPointerPropertiesEXT =
      reinterpret_cast<PFN_vkGetMemoryHostPointerPropertiesEXT>(
          GetDeviceProcAddr(device, "vkGetMemoryHostPointerPropertiesEXT"));
  return "";
}

} // namespace tsr::vulkan

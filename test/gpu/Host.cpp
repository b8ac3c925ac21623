// Runs compute shaders once and returns the buffers' contents: what the value
// tests of GPU kernels execute, before and apart from the loader.
//
//   gpu-host [--validate] [--no-barriers] PROGRAM
//
// PROGRAM is text, a line a thing, in order:
//   buffer BYTES FILE          contents of a file, or "-" for bytes of 0xff
//   kernel FILE ENTRY X Y Z ID...   a dispatch of X * Y * Z workgroups; buffers
//   by
//                              number, in the order of the bindings
//   output ID FILE             where to write a buffer at the end
// With --validate the validation layer runs, with its check of synchronisation;
// the last line says how many messages there were ("messages 0").
#include <vulkan/vulkan.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

namespace {

[[noreturn]] void die(const std::string &what) {
  std::cerr << "gpu-host: " << what << "\n";
  std::exit(1);
}

void check(VkResult result, const char *what) {
  if (result != VK_SUCCESS)
    die(std::string(what) + ": result " + std::to_string(result));
}

std::vector<char> readFile(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  if (!in)
    die("cannot read " + path);
  return {std::istreambuf_iterator<char>(in), {}};
}

unsigned messages = 0;

VkBool32 VKAPI_PTR note(VkDebugUtilsMessageSeverityFlagBitsEXT,
                        VkDebugUtilsMessageTypeFlagsEXT,
                        const VkDebugUtilsMessengerCallbackDataEXT *data,
                        void *) {
  ++messages;
  std::cerr << data->pMessage << "\n";
  return VK_FALSE;
}

struct Buffer {
  VkBuffer handle = VK_NULL_HANDLE;
  VkDeviceMemory memory = VK_NULL_HANDLE;
  void *bytes = nullptr;
  size_t size = 0;
};

struct Kernel {
  std::string file, entry;
  uint32_t groups[3];
  std::vector<uint32_t> buffers;
  VkShaderModule module = VK_NULL_HANDLE;
  VkDescriptorSetLayout set = VK_NULL_HANDLE;
  VkPipelineLayout layout = VK_NULL_HANDLE;
  VkPipeline pipeline = VK_NULL_HANDLE;
};

class Host {
public:
  Host(bool validate, bool barriers) : barriers(barriers) {
    makeInstance(validate);
    makeDevice();
  }
  void run(std::istream &program);
  void tearDown();

private:
  void makeInstance(bool validate);
  void makeDevice();
  void addBuffer(size_t size, const std::string &file);
  void addKernel(std::istringstream &words);
  void record(VkCommandBuffer commands);
  void submit();

  bool barriers;
  VkInstance instance = VK_NULL_HANDLE;
  VkDebugUtilsMessengerEXT messenger = VK_NULL_HANDLE;
  VkPhysicalDevice physical = VK_NULL_HANDLE;
  VkDevice device = VK_NULL_HANDLE;
  VkQueue queue = VK_NULL_HANDLE;
  uint32_t family = 0, memoryType = 0;
  VkCommandPool pool = VK_NULL_HANDLE;
  VkDescriptorPool descriptors = VK_NULL_HANDLE;
  std::vector<Buffer> buffers;
  std::vector<Kernel> kernels;
};

} // namespace

void Host::makeInstance(bool validate) {
  VkApplicationInfo app{VK_STRUCTURE_TYPE_APPLICATION_INFO};
  app.apiVersion = VK_API_VERSION_1_3;
  VkInstanceCreateInfo info{VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO};
  info.pApplicationInfo = &app;
  const char *layer = "VK_LAYER_KHRONOS_validation",
             *extension = VK_EXT_DEBUG_UTILS_EXTENSION_NAME;
  VkValidationFeatureEnableEXT enable =
      VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT;
  VkValidationFeaturesEXT features{VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT};
  features.enabledValidationFeatureCount = 1;
  features.pEnabledValidationFeatures = &enable;
  VkDebugUtilsMessengerCreateInfoEXT debug{
      VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT};
  debug.messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT |
                          VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
  debug.messageType = VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT |
                      VK_DEBUG_UTILS_MESSAGE_TYPE_PERFORMANCE_BIT_EXT;
  debug.pfnUserCallback = note;
  if (validate) {
    info.enabledLayerCount = info.enabledExtensionCount = 1;
    info.ppEnabledLayerNames = &layer;
    info.ppEnabledExtensionNames = &extension;
    info.pNext = &features;
  }
  check(vkCreateInstance(&info, nullptr, &instance), "vkCreateInstance");
  if (validate) {
    auto create = reinterpret_cast<PFN_vkCreateDebugUtilsMessengerEXT>(
        vkGetInstanceProcAddr(instance, "vkCreateDebugUtilsMessengerEXT"));
    check(create(instance, &debug, nullptr, &messenger),
          "vkCreateDebugUtilsMessengerEXT");
  }
}

void Host::makeDevice() {
  uint32_t count = 1;
  VkResult result = vkEnumeratePhysicalDevices(instance, &count, &physical);
  if ((result != VK_SUCCESS && result != VK_INCOMPLETE) || count == 0)
    die("no Vulkan device");
  // Everything that the device has is switched on, but for robust access.
  VkPhysicalDeviceVulkan13Features v13{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES};
  VkPhysicalDeviceVulkan12Features v12{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
  VkPhysicalDeviceVulkan11Features v11{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES};
  VkPhysicalDeviceFeatures2 all{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2};
  all.pNext = &v11;
  v11.pNext = &v12;
  v12.pNext = &v13;
  vkGetPhysicalDeviceFeatures2(physical, &all);
  all.features.robustBufferAccess = VK_FALSE;
  uint32_t families = 0;
  vkGetPhysicalDeviceQueueFamilyProperties(physical, &families, nullptr);
  std::vector<VkQueueFamilyProperties> properties(families);
  vkGetPhysicalDeviceQueueFamilyProperties(physical, &families,
                                           properties.data());
  while (family < families &&
         !(properties[family].queueFlags & VK_QUEUE_COMPUTE_BIT))
    ++family;
  float priority = 1;
  VkDeviceQueueCreateInfo queues{VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO};
  queues.queueFamilyIndex = family;
  queues.queueCount = 1;
  queues.pQueuePriorities = &priority;
  VkDeviceCreateInfo info{VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO};
  info.pNext = &all;
  info.queueCreateInfoCount = 1;
  info.pQueueCreateInfos = &queues;
  const char *dot =
      VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME; // part of 1.3, named
                                                        // for the layer
  info.enabledExtensionCount = 1;
  info.ppEnabledExtensionNames = &dot;
  check(vkCreateDevice(physical, &info, nullptr, &device), "vkCreateDevice");
  vkGetDeviceQueue(device, family, 0, &queue);
  VkPhysicalDeviceMemoryProperties memory;
  vkGetPhysicalDeviceMemoryProperties(physical, &memory);
  constexpr VkFlags wanted = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
                             VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  while (memoryType < memory.memoryTypeCount &&
         (memory.memoryTypes[memoryType].propertyFlags & wanted) != wanted)
    ++memoryType;
  VkCommandPoolCreateInfo poolInfo{VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
  poolInfo.queueFamilyIndex = family;
  check(vkCreateCommandPool(device, &poolInfo, nullptr, &pool),
        "vkCreateCommandPool");
}

void Host::addBuffer(size_t size, const std::string &file) {
  Buffer b;
  b.size = size;
  VkBufferCreateInfo info{VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};
  info.size = std::max<size_t>(size, 4);
  info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT;
  check(vkCreateBuffer(device, &info, nullptr, &b.handle), "vkCreateBuffer");
  VkMemoryRequirements needs;
  vkGetBufferMemoryRequirements(device, b.handle, &needs);
  VkMemoryAllocateInfo allocate{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
  allocate.allocationSize = needs.size;
  allocate.memoryTypeIndex = memoryType;
  check(vkAllocateMemory(device, &allocate, nullptr, &b.memory),
        "vkAllocateMemory");
  check(vkBindBufferMemory(device, b.handle, b.memory, 0),
        "vkBindBufferMemory");
  check(vkMapMemory(device, b.memory, 0, VK_WHOLE_SIZE, 0, &b.bytes),
        "vkMapMemory");
  std::memset(b.bytes, 0xff, size);
  if (file != "-") {
    std::vector<char> bytes = readFile(file);
    if (bytes.size() != size)
      die(file + " has " + std::to_string(bytes.size()) + " bytes, not " +
          std::to_string(size));
    std::memcpy(b.bytes, bytes.data(), size);
  }
  buffers.push_back(b);
}

void Host::addKernel(std::istringstream &words) {
  Kernel k;
  words >> k.file >> k.entry >> k.groups[0] >> k.groups[1] >> k.groups[2];
  for (uint32_t id; words >> id;)
    k.buffers.push_back(id);
  std::vector<char> code = readFile(k.file);
  VkShaderModuleCreateInfo shader{VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO};
  shader.codeSize = code.size();
  shader.pCode = reinterpret_cast<const uint32_t *>(code.data());
  check(vkCreateShaderModule(device, &shader, nullptr, &k.module),
        "vkCreateShaderModule");
  std::vector<VkDescriptorSetLayoutBinding> bindings;
  for (uint32_t i = 0; i < k.buffers.size(); ++i)
    bindings.push_back({i, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1,
                        VK_SHADER_STAGE_COMPUTE_BIT, nullptr});
  VkDescriptorSetLayoutCreateInfo set{
      VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO};
  set.bindingCount = bindings.size();
  set.pBindings = bindings.data();
  check(vkCreateDescriptorSetLayout(device, &set, nullptr, &k.set),
        "vkCreateDescriptorSetLayout");
  VkPipelineLayoutCreateInfo layout{
      VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO};
  layout.setLayoutCount = 1;
  layout.pSetLayouts = &k.set;
  check(vkCreatePipelineLayout(device, &layout, nullptr, &k.layout),
        "vkCreatePipelineLayout");
  VkComputePipelineCreateInfo pipeline{
      VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO};
  pipeline.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
  pipeline.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  pipeline.stage.module = k.module;
  pipeline.stage.pName = k.entry.c_str();
  pipeline.layout = k.layout;
  check(vkCreateComputePipelines(device, VK_NULL_HANDLE, 1, &pipeline, nullptr,
                                 &k.pipeline),
        "vkCreateComputePipelines");
  kernels.push_back(std::move(k));
}

void Host::record(VkCommandBuffer commands) {
  uint32_t total = 1;
  for (const Kernel &k : kernels)
    total += k.buffers.size();
  VkDescriptorPoolSize size{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, total};
  VkDescriptorPoolCreateInfo info{
      VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO};
  info.maxSets = kernels.size() + 1;
  info.poolSizeCount = 1;
  info.pPoolSizes = &size;
  check(vkCreateDescriptorPool(device, &info, nullptr, &descriptors),
        "vkCreateDescriptorPool");
  for (const Kernel &k : kernels) {
    VkDescriptorSetAllocateInfo allocate{
        VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO};
    allocate.descriptorPool = descriptors;
    allocate.descriptorSetCount = 1;
    allocate.pSetLayouts = &k.set;
    VkDescriptorSet set;
    check(vkAllocateDescriptorSets(device, &allocate, &set),
          "vkAllocateDescriptorSets");
    std::vector<VkDescriptorBufferInfo> ranges;
    for (uint32_t id : k.buffers)
      ranges.push_back({buffers.at(id).handle, 0, VK_WHOLE_SIZE});
    for (uint32_t i = 0; i < ranges.size(); ++i) {
      VkWriteDescriptorSet write{VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET};
      write.dstSet = set;
      write.dstBinding = i;
      write.descriptorCount = 1;
      write.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
      write.pBufferInfo = &ranges[i];
      vkUpdateDescriptorSets(device, 1, &write, 0, nullptr);
    }
    vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, k.pipeline);
    vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, k.layout,
                            0, 1, &set, 0, nullptr);
    vkCmdDispatch(commands, k.groups[0], k.groups[1], k.groups[2]);
    bool last = &k == &kernels.back();
    if (!barriers && !last)
      continue;
    VkMemoryBarrier barrier{VK_STRUCTURE_TYPE_MEMORY_BARRIER};
    barrier.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT;
    barrier.dstAccessMask =
        last ? VK_ACCESS_HOST_READ_BIT
             : VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT;
    vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                         last ? VK_PIPELINE_STAGE_HOST_BIT
                              : VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                         0, 1, &barrier, 0, nullptr, 0, nullptr);
  }
}

void Host::submit() {
  VkCommandBufferAllocateInfo allocate{
      VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO};
  allocate.commandPool = pool;
  allocate.commandBufferCount = 1;
  VkCommandBuffer commands;
  check(vkAllocateCommandBuffers(device, &allocate, &commands),
        "vkAllocateCommandBuffers");
  VkCommandBufferBeginInfo begin{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  check(vkBeginCommandBuffer(commands, &begin), "vkBeginCommandBuffer");
  record(commands);
  check(vkEndCommandBuffer(commands), "vkEndCommandBuffer");
  VkFenceCreateInfo fenceInfo{VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
  VkFence fence;
  check(vkCreateFence(device, &fenceInfo, nullptr, &fence), "vkCreateFence");
  VkSubmitInfo info{VK_STRUCTURE_TYPE_SUBMIT_INFO};
  info.commandBufferCount = 1;
  info.pCommandBuffers = &commands;
  check(vkQueueSubmit(queue, 1, &info, fence), "vkQueueSubmit");
  constexpr uint64_t limitNs = 900'000'000'000;
  check(vkWaitForFences(device, 1, &fence, VK_TRUE, limitNs),
        "vkWaitForFences");
  vkDestroyFence(device, fence, nullptr);
}

void Host::run(std::istream &program) {
  std::vector<std::pair<uint32_t, std::string>> outputs;
  for (std::string line; std::getline(program, line);) {
    std::istringstream words(line);
    std::string what, file;
    size_t number;
    words >> what;
    if (what == "buffer" && words >> number >> file)
      addBuffer(number, file);
    else if (what == "kernel")
      addKernel(words);
    else if (what == "output" && words >> number >> file)
      outputs.emplace_back(number, file);
    else
      die("no such line: " + line);
  }
  submit();
  for (auto &[id, file] : outputs) {
    const Buffer &b = buffers.at(id);
    std::ofstream(file, std::ios::binary)
        .write(static_cast<const char *>(b.bytes), b.size);
  }
}

void Host::tearDown() {
  vkDestroyDescriptorPool(device, descriptors, nullptr);
  for (const Kernel &k : kernels) {
    vkDestroyPipeline(device, k.pipeline, nullptr);
    vkDestroyPipelineLayout(device, k.layout, nullptr);
    vkDestroyDescriptorSetLayout(device, k.set, nullptr);
    vkDestroyShaderModule(device, k.module, nullptr);
  }
  for (const Buffer &b : buffers) {
    vkDestroyBuffer(device, b.handle, nullptr);
    vkFreeMemory(device, b.memory, nullptr);
  }
  vkDestroyCommandPool(device, pool, nullptr);
  vkDestroyDevice(device, nullptr);
  if (messenger)
    reinterpret_cast<PFN_vkDestroyDebugUtilsMessengerEXT>(
        vkGetInstanceProcAddr(instance, "vkDestroyDebugUtilsMessengerEXT"))(
        instance, messenger, nullptr);
  vkDestroyInstance(instance, nullptr);
}

int main(int argc, char **argv) {
  bool validate = false, barriers = true;
  std::string path;
  for (int i = 1; i < argc; ++i) {
    if (!std::strcmp(argv[i], "--validate"))
      validate = true;
    else if (!std::strcmp(argv[i], "--no-barriers"))
      barriers = false;
    else
      path = argv[i];
  }
  std::ifstream program(path);
  if (!program)
    die("cannot read '" + path + "'");
  Host host(validate, barriers);
  host.run(program);
  host.tearDown();
  std::cout << "messages " << messages << "\n";
  return 0;
}

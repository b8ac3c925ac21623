// The device segment of a Vulkan device, put together and written.
// runtime-stub/format/Vulkan.h has the layout; reading is done there too.
#ifndef TESSERA_COMPILER_BUNDLE_VULKANARTEFACT_H
#define TESSERA_COMPILER_BUNDLE_VULKANARTEFACT_H

#include "runtime-stub/format/Vulkan.h"

#include <array>
#include <map>
#include <string>
#include <vector>

namespace tessera {

struct VulkanModule {
  std::vector<uint32_t> words;
  std::string entry = "main";
  uint64_t features = 0; ///< bits of format::vulkan::Feature
  std::array<uint32_t, 3> localSize = {1, 1, 1};
  uint32_t sharedBytes = 0;
  uint32_t subgroup = 0; ///< 0: right at any size
};

class VulkanProgram {
public:
  /// A buffer of the plan, by its position in the launch's list.
  uint32_t addOperand(uint64_t bytes);
  /// Equal modules are stored once.
  uint32_t addModule(const VulkanModule &module);
  /// Where the bytes begin in the constants; equal ones are stored once.
  uint64_t addConstant(const std::vector<uint8_t> &bytes);
  /// Steps run in order; those that need to wait for another one do.
  void addStep(uint32_t module, std::array<uint32_t, 3> groups,
               const std::vector<format::vulkan::Binding> &bindings,
               const std::vector<uint8_t> &push = {});
  void needScratch(uint64_t bytes);
  size_t steps() const { return stepList.size(); }
  uint64_t constantBytes() const { return constants.size(); }

  std::vector<uint8_t> write() const;

private:
  std::vector<uint64_t> operands;
  std::vector<VulkanModule> modules;
  std::map<std::pair<std::string, std::vector<uint32_t>>, uint32_t> moduleOf;
  std::vector<format::vulkan::Step> stepList;
  std::vector<format::vulkan::Binding> bindings;
  std::vector<uint8_t> push, constants;
  std::map<std::vector<uint8_t>, uint64_t> constantOf;
  uint64_t scratch = 0;
};

} // namespace tessera
#endif

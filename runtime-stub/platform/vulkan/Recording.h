// The commands of one launch, recorded once and submitted as often as it runs.
#ifndef TESSERA_RUNTIME_PLATFORM_VULKAN_RECORDING_H
#define TESSERA_RUNTIME_PLATFORM_VULKAN_RECORDING_H

#include "runtime-stub/platform/vulkan/Pipelines.h"

namespace tsr::vulkan {

/// A range of a buffer.
struct Slice {
  VkBuffer buffer = VK_NULL_HANDLE;
  uint64_t offset = 0, bytes = 0;
};

/// Says where a step waits for the ones before: it writes what one of them
/// reads or writes since the last barrier, or reads what one writes.
class Hazards {
public:
  /// Takes the step in. True: a barrier belongs before it.
  bool enter(const std::vector<Slice> &reads, const std::vector<Slice> &writes);

private:
  std::vector<Slice> read, written; ///< since the last barrier
};

class Recording {
public:
  explicit Recording(const Device &device) : device(device) {}
  ~Recording() { reset(); }
  Recording(const Recording &) = delete;
  Recording &operator=(const Recording &) = delete;

  /// Where the artefact's bindings lie. Sizes and places were checked.
  struct Places {
    std::vector<Slice> operands;
    Slice constants, scratch;
  };
  /// Replaces what was recorded. The reason if that is not possible.
  std::string record(const tessera::format::vulkan::Artefact &artefact,
                     const Places &places, Pipelines &pipelines,
                     VkCommandPool commands);
  VkCommandBuffer commandBuffer() const { return buffer; }
  uint32_t barriers() const { return barrierCount; }

private:
  void reset();
  Slice sliceOf(const tessera::format::vulkan::Binding &binding,
                const Places &places) const;
  std::string makeSets(const tessera::format::vulkan::Artefact &artefact);
  std::string step(const tessera::format::vulkan::Artefact &artefact,
                   uint32_t index, const Places &places, Pipelines &pipelines,
                   Hazards &hazards);
  void barrier(VkAccessFlags to, VkPipelineStageFlags stage);

  const Device &device;
  VkDescriptorPool sets = VK_NULL_HANDLE;
  VkCommandPool pool = VK_NULL_HANDLE; ///< where `buffer` is from
  VkCommandBuffer buffer = VK_NULL_HANDLE;
  uint32_t barrierCount = 0; ///< between steps
};

} // namespace tsr::vulkan
#endif

// What a GPU can do, as far as kernels depend on it.
#ifndef TESSERA_TARGETS_VULKAN_DEVICE_H
#define TESSERA_TARGETS_VULKAN_DEVICE_H

#include "runtime-stub/format/Vulkan.h"
#include "llvm/ADT/StringRef.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tessera::vulkan {

/// Optional features of Vulkan that modules may need. The words are those of
/// target files, of Kernel::features and of bundles.
enum class Feature : uint8_t {
#define TESSERA_FEATURE(id, word, text) id,
#include "targets/Vulkan/Features.def"
#undef TESSERA_FEATURE
};
llvm::StringRef featureName(Feature feature);
std::optional<Feature> parseFeature(llvm::StringRef word);

/// Limits of a device. The defaults are what every implementation of Vulkan
/// 1.1 has to offer, bindings excepted.
struct Device {
  uint32_t features = 0;         ///< bit (1 << Feature)
  uint32_t maxInvocations = 128; ///< of a workgroup
  std::array<uint32_t, 3> maxLocal = {128, 128,
                                      64}; ///< of a workgroup, an axis
  std::array<uint32_t, 3> maxGroups = {65535, 65535, 65535};
  uint32_t sharedBytes = 16384;
  uint64_t maxBufferRange = uint64_t(1) << 27; ///< of one binding
  /// Of a kernel: what a bundle can hold. Vulkan 1.1 promises 4 only; the
  /// loader holds a kernel's number against the device.
  uint32_t maxBindings = format::vulkan::kMaxBindings;

  bool has(Feature f) const { return features >> static_cast<unsigned>(f) & 1; }
  void add(Feature f) { features |= 1u << static_cast<unsigned>(f); }
  /// "float16,storage16,int8": adds the features; an unknown word is returned.
  std::optional<std::string> addFeatures(llvm::StringRef words);
};

} // namespace tessera::vulkan
#endif

// Edits of finished SPIR-V words.
#ifndef TESSERA_TARGETS_VULKAN_WORDS_H
#define TESSERA_TARGETS_VULKAN_WORDS_H

#include <cstdint>
#include <vector>

namespace tessera::vulkan {

/// Turns a module that MLIR wrote for a later version into SPIR-V 1.3: the
/// entry point's interface keeps Input and Output variables only. What the
/// module uses must exist in 1.3 or in an extension that it declares.
void makeVersion13(std::vector<uint32_t> &words);

} // namespace tessera::vulkan
#endif

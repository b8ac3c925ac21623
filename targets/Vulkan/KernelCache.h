// Kernels of this process by what they were compiled from. A dispatch is
// compiled to judge an operator, its group, its segment, and again for the
// plan: three of these times the answer is here.
#ifndef TESSERA_TARGETS_VULKAN_KERNELCACHE_H
#define TESSERA_TARGETS_VULKAN_KERNELCACHE_H

#include "targets/Vulkan/Compile.h"

namespace tessera::vulkan {

/// A kernel, or why there is none.
struct Answer {
  std::optional<Kernel> kernel;
  std::vector<std::string> reasons;
};

/// 128 bits of hash of all that a kernel depends on: the dispatch's text, its
/// constants' contents, the device.
using Fingerprint = std::pair<uint64_t, uint64_t>;
Fingerprint fingerprintOf(tsr::DispatchOp op, const Device &device);

/// Safe to use from several threads. Answers are kept until they are too many.
std::shared_ptr<const Answer> findAnswer(const Fingerprint &key);
void keepAnswer(const Fingerprint &key, std::shared_ptr<const Answer> answer);

} // namespace tessera::vulkan
#endif

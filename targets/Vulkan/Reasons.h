// Why a dispatch cannot run on the GPU: the CPU builders' type for the same.
#ifndef TESSERA_TARGETS_VULKAN_REASONS_H
#define TESSERA_TARGETS_VULKAN_REASONS_H

#include "targets/Cpu/KernelBuilder.h"

namespace tessera::vulkan {
using Reasons = cpu::Reasons;
} // namespace tessera::vulkan
#endif

#include "compiler/Bundle/VulkanArtefact.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace tessera {

namespace vk = format::vulkan;

static uint64_t alignTo(uint64_t at, uint64_t granule) {
  return (at + granule - 1) / granule * granule;
}

uint32_t VulkanProgram::addOperand(uint64_t bytes) {
  operands.push_back(bytes);
  return uint32_t(operands.size() - 1);
}

uint32_t VulkanProgram::addModule(const VulkanModule &module) {
  assert(!module.entry.empty() &&
         module.entry.size() < sizeof(vk::Module::entry) &&
         "the layout has room for short names");
  auto [it, isNew] = moduleOf.try_emplace({module.entry, module.words},
                                          uint32_t(modules.size()));
  if (isNew)
    modules.push_back(module);
  return it->second;
}

uint64_t VulkanProgram::addConstant(const std::vector<uint8_t> &bytes) {
  auto [it, isNew] = constantOf.try_emplace(bytes, 0);
  if (isNew) {
    constants.resize(alignTo(constants.size(), vk::kRangeAlignment));
    it->second = constants.size();
    constants.insert(constants.end(), bytes.begin(), bytes.end());
  }
  return it->second;
}

void VulkanProgram::addStep(uint32_t module, std::array<uint32_t, 3> groups,
                            const std::vector<vk::Binding> &bound,
                            const std::vector<uint8_t> &pushed) {
  vk::Step step = {};
  step.module = module;
  std::copy(groups.begin(), groups.end(), step.groups);
  step.firstBinding = uint32_t(bindings.size());
  step.bindings = uint32_t(bound.size());
  step.pushAt = uint32_t(push.size());
  step.pushBytes = uint32_t(pushed.size());
  bindings.insert(bindings.end(), bound.begin(), bound.end());
  push.insert(push.end(), pushed.begin(), pushed.end());
  stepList.push_back(step);
}

void VulkanProgram::needScratch(uint64_t bytes) {
  scratch = std::max(scratch, bytes);
}

std::vector<uint8_t> VulkanProgram::write() const {
  vk::Artefact layout; // for the places of the tables
  vk::Head &head = layout.head;
  std::copy(std::begin(vk::kMagic), std::end(vk::kMagic), head.magic);
  head.layout = vk::kLayout;
  head.operands = uint32_t(operands.size());
  head.modules = uint32_t(modules.size());
  head.steps = uint32_t(stepList.size());
  head.bindings = uint32_t(bindings.size());
  head.pushBytes = uint32_t(push.size());
  head.scratchBytes = scratch;
  std::vector<uint8_t> bytes(layout.partsAt());
  auto put = [&](uint64_t at, const void *from, size_t size) {
    if (size)
      std::memcpy(bytes.data() + at, from, size);
  };
  put(layout.operandsAt(), operands.data(), operands.size() * 8);
  put(layout.stepsAt(), stepList.data(), stepList.size() * sizeof(vk::Step));
  put(layout.bindingsAt(), bindings.data(),
      bindings.size() * sizeof(vk::Binding));
  put(layout.pushAt(), push.data(), push.size());
  for (size_t i = 0; i < modules.size(); ++i) {
    const VulkanModule &m = modules[i];
    vk::Module row = {};
    bytes.resize(alignTo(bytes.size(), 16));
    row.at = bytes.size();
    row.bytes = m.words.size() * 4;
    row.features = m.features;
    std::copy(m.localSize.begin(), m.localSize.end(), row.localSize);
    row.sharedBytes = m.sharedBytes;
    row.subgroup = m.subgroup;
    std::memcpy(row.entry, m.entry.data(),
                std::min(m.entry.size(), sizeof(row.entry) - 1));
    bytes.resize(row.at + row.bytes);
    put(row.at, m.words.data(), row.bytes);
    put(layout.modulesAt() + i * sizeof(row), &row, sizeof(row));
  }
  bytes.resize(alignTo(bytes.size(), vk::kRangeAlignment));
  head.constantsAt = bytes.size();
  head.constantsBytes = constants.size();
  bytes.insert(bytes.end(), constants.begin(), constants.end());
  head.bytes = bytes.size();
  put(0, &head, sizeof(head));
  return bytes;
}

} // namespace tessera

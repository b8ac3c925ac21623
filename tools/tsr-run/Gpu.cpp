#include "tools/tsr-run/Gpu.h"

#include "runtime-stub/format/Vulkan.h"
#ifdef TSR_HAS_VULKAN
#include "runtime-stub/platform/vulkan/Driver.h"
#endif

#include <cstring>

namespace runner {

static bool lost = false;
bool Gpu::anyLost() { return lost; }

#ifdef TSR_HAS_VULKAN
namespace {

class VulkanGpu : public Gpu {
public:
  explicit VulkanGpu(std::unique_ptr<tsr::vulkan::Driver> driver)
      : driver(std::move(driver)) {}
  ~VulkanGpu() override { lost |= driver->isLost(); }
  std::string name() const override {
    return driver->device().identity().deviceName;
  }
  void *poolMemory(uint32_t pool, uint64_t bytes) override {
    return driver->poolMemory(pool, bytes);
  }
  std::string importPool(uint32_t pool, void *memory, uint64_t bytes) override {
    return driver->importPool(pool, memory, bytes);
  }
  std::string prepare(const tsr_instance_t *instance) override {
    return driver->prepare(instance);
  }
  int drive(const tsr_instance_t *instance, uint32_t launch) override {
    return driver->drive(instance, launch);
  }
  std::string loss() const override {
    return driver->isLost() ? driver->lossReason() : "";
  }

private:
  std::unique_ptr<tsr::vulkan::Driver> driver;
};

} // namespace
#endif

static bool hasVulkanDevice(const tsr_bundle_t *bundle) {
  for (uint32_t d = 1; d < tsr_device_count(bundle); ++d)
    if (std::strcmp(tsr_device_kind(bundle, d),
                    tessera::format::vulkan::kDeviceKind) == 0)
      return true;
  return false;
}

std::unique_ptr<Gpu> Gpu::open(const tsr_bundle_t *bundle,
                               const GpuSettings &settings, std::string &why) {
  why.clear();
  if (settings.use == GpuSettings::Use::Off || !hasVulkanDevice(bundle))
    return nullptr;
#ifdef TSR_HAS_VULKAN
  tsr::vulkan::Driver::Options options;
  options.software = settings.use == GpuSettings::Use::Required;
  options.timeoutNs = settings.timeoutMs * 1000000;
  options.cacheFile = settings.cacheFile;
  auto driver = tsr::vulkan::Driver::open(options, why);
  if (driver)
    why = driver->refusal(bundle);
  if (!driver || !why.empty())
    return nullptr;
  return std::make_unique<VulkanGpu>(std::move(driver));
#else
  why = "this program was built without Vulkan";
  return nullptr;
#endif
}

} // namespace runner

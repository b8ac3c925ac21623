// The Vulkan device of a session, where the program was built with one.
#ifndef TESSERA_TSR_RUN_GPU_H
#define TESSERA_TSR_RUN_GPU_H

#include "runtime-stub/include/tessera/runtime.h"

#include <cstdint>
#include <memory>
#include <string>

namespace runner {

struct GpuSettings {
  enum class Use {
    Auto,     ///< a real GPU if there is one, else the processor does its part
    Required, ///< any Vulkan device; without one the bundle is refused
    Off       ///< the processor does its part
  };
  Use use = Use::Auto;
  bool importMemory = false; ///< pools are the host's, imported
  uint64_t timeoutMs = 30000;
  std::string cacheFile; ///< compiled kernels of the driver
};

class Gpu {
public:
  virtual ~Gpu() = default;
  /// Null if the bundle has no work for it, or, with the reason, if there is
  /// none that can do it.
  static std::unique_ptr<Gpu> open(const tsr_bundle_t *bundle,
                                   const GpuSettings &settings,
                                   std::string &why);
  virtual std::string name() const = 0;
  /// Memory for one of its pools; null if there is none.
  virtual void *poolMemory(uint32_t pool, uint64_t bytes) = 0;
  /// Takes memory of the host's for a pool; the reason if it cannot.
  virtual std::string importPool(uint32_t pool, void *memory,
                                 uint64_t bytes) = 0;
  /// When the pools have memory. The reason if it cannot go on.
  virtual std::string prepare(const tsr_instance_t *instance) = 0;
  virtual int drive(const tsr_instance_t *instance, uint32_t launch) = 0;
  /// Why it is lost; empty if it is not.
  virtual std::string loss() const = 0;
  /// Whether one was lost. Its driver may still be at work, and what the
  /// process takes down when it ends may be what it works with.
  static bool anyLost();
};

} // namespace runner
#endif

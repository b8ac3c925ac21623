// Dispatches and movement: what the interpreter and the devices' threads share.
#ifndef TESSERA_RUNTIME_EXECUTE_H
#define TESSERA_RUNTIME_EXECUTE_H

#include "runtime-stub/src/Instance.h"

namespace tsr {

/// Executes single commands on behalf of a device. It writes to nothing of the
/// instance but the device's own scratch, so that devices run side by side.
class Executor {
public:
  Executor(tsr_instance &instance, u32 device, tsr_error_t *error)
      : instance(instance), bundle(*instance.bundle), error(error),
        device(device) {}

  /// Dispatch, Copy, Fill or StoreInt at position `at`.
  tsr_status_t run(u32 at, const Command &c);
  /// The size that a register holds.
  tsr_status_t sized(u32 reg, u64 &out);
  tsr_status_t refuseBuffer(u32 index);
  u64 now() const;
  void trace(const char *kernel, const char *kernelClass, u64 workgroups,
             u64 begin, u64 bytes = 0);
  u32 position = 0; // of the running command

private:
  tsr_status_t dispatch(const Command &c);
  tsr_status_t copy(const Command &c);
  tsr_status_t fill(const Command &c);
  tsr_status_t storeInt(const Command &c);
  bool isEmpty(u32 index) const;
  tsr_status_t refuseKernel(u32 kernel, i32 status);
  tsr_status_t range(u32 index, u32 offsetRegister, u64 size, u8 *&data);
  bool writesDefault(u32 index) const {
    return instance.places[instance.rootOf(index)].live == 2;
  }

  tsr_instance &instance;
  const tsr_bundle &bundle;
  tsr_error_t *error;
  u32 device;
};

} // namespace tsr
#endif

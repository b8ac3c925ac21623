// Launches and fences: what runs beside the interpreter.
//
// A launched range executes on the device's thread, in order. The checks of the
// plan (CheckDevices.cpp) guarantee that until the fence nobody else touches
// its buffers or writes the registers that it reads.
#include "runtime-stub/src/Execute.h"

namespace tsr {
namespace {

/// On the device's thread.
void runRange(void *argument) {
  auto *work = static_cast<LaunchWork *>(argument);
  tsr_instance &instance = *work->instance;
  const Command &launch = instance.bundle->commands.at(work->command);
  DeviceState &state = instance.devices[launch.a];
  Executor executor(instance, launch.a, &state.error);
  // After a refusal what was launched behind it has no meaning.
  for (u32 i = 1; i <= launch.b && state.status == TSR_OK; ++i)
    state.status =
        executor.run(work->command + i,
                     instance.bundle->commands.at(work->command + i));
}

bool isQueued(const tsr_instance &instance) {
  return instance.host.submit && instance.host.wait;
}

} // namespace

tsr_status_t launch(tsr_instance &instance, u32 command, tsr_error_t *error) {
  const Command &c = instance.bundle->commands.at(command);
  DeviceState &state = instance.devices[c.a];
  LaunchWork &work = instance.work[c.e];
  work = {&instance, command};
  if (!state.busy)
    state.status = TSR_OK;
  Executor traced(instance, c.a, error);
  traced.position = command;
  u64 begin = traced.now();
  traced.trace(c.d == kNone ? "launch" : instance.bundle->strings.text(c.d),
               "launch", 1, begin);
  state.busy = 1;
  if (!isQueued(instance)) {
    runRange(&work);
    return TSR_OK;
  }
  if (instance.host.submit(instance.host.context, c.a, runRange, &work) == 0)
    return TSR_OK;
  return refuse(error, TSR_ERROR_HOST,
                "launch in command %u|device %u ('%s') took no work||the host's "
                "`submit` failed",
                command, c.a, tsr_device_name(instance.bundle, c.a));
}

tsr_status_t waitFor(tsr_instance &instance, u32 device, tsr_error_t *error) {
  DeviceState &state = instance.devices[device];
  if (!state.busy)
    return TSR_OK;
  Executor traced(instance, device, error);
  traced.position = instance.command;
  u64 begin = traced.now();
  state.busy = 0; // even if the wait fails: the host has stopped the device then
  if (isQueued(instance) &&
      instance.host.wait(instance.host.context, device) != 0)
    return refuse(error, TSR_ERROR_HOST,
                  "device %u|the host's `wait` failed||'%s' may be lost",
                  device, tsr_device_name(instance.bundle, device));
  traced.trace("fence", "fence", 1, begin);
  if (state.status == TSR_OK)
    return TSR_OK;
  if (error)
    copyBytes(error, &state.error, sizeof(*error));
  return TSR_REFUSED;
}

tsr_status_t waitForAll(tsr_instance &instance, tsr_error_t *error) {
  tsr_status_t all = TSR_OK;
  for (u32 device = 1; device < instance.bundle->deviceCount; ++device)
    if (waitFor(instance, device, all == TSR_OK ? error : nullptr) != TSR_OK)
      all = TSR_REFUSED;
  return all;
}

} // namespace tsr

using namespace tsr;

extern "C" uint32_t tsr_device_count(const tsr_bundle_t *bundle) {
  return bundle->deviceCount;
}

extern "C" const char *tsr_device_kind(const tsr_bundle_t *bundle,
                                       uint32_t device) {
  return device < bundle->devices.count
             ? bundle->devices[device].text(field::kDeviceKind)
             : "";
}

extern "C" const char *tsr_device_name(const tsr_bundle_t *bundle,
                                       uint32_t device) {
  return device < bundle->devices.count
             ? bundle->devices[device].text(field::kDeviceName)
             : "";
}

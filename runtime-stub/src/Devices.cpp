// Launches and fences: what runs beside the interpreter.
//
// A launched range executes on the device's thread, in order. The checks of the
// plan (CheckDevices.cpp) guarantee that until the fence nobody else touches
// its buffers or writes the registers that it reads.
#include "runtime-stub/src/Execute.h"

namespace tsr {
namespace {

/// Gives a launch to what drives its device; whether nothing is left to do.
bool drive(tsr_instance &instance, const LaunchWork &work, DeviceState &state) {
  const Command &c = instance.bundle->commands.at(work.command);
  if (!instance.host.drive || c.f == kNone || state.status != TSR_OK)
    return false;
  Executor traced(instance, c.a, nullptr);
  traced.position = work.command;
  u64 begin = traced.now();
  int how = instance.host.drive(instance.host.context, &instance, c.e);
  if (how == TSR_DRIVEN_NOT)
    return false;
  const char *name =
      c.d == kNone ? "launch" : instance.bundle->strings.text(c.d);
  if (how == TSR_DRIVEN_DONE)
    traced.trace(name, "device", 1, begin);
  else
    state.status = refuse(&state.error, TSR_ERROR_DEVICE,
                          "device %u|'%s' did not end its work||run the model "
                          "again without it",
                          c.a, tsr_device_name(instance.bundle, c.a));
  return true;
}

/// On the device's thread.
void runRange(void *argument) {
  auto *work = static_cast<LaunchWork *>(argument);
  tsr_instance &instance = *work->instance;
  const Command &launch = instance.bundle->commands.at(work->command);
  DeviceState &state = instance.devices[launch.a];
  if (drive(instance, *work, state))
    return;
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

namespace tsr {
namespace {

/// The command of a launch, or kNone. Launches are numbered in order.
u32 commandOf(const tsr_bundle &bundle, u32 launch) {
  for (u32 i = bundle.commandBegin; i < bundle.commandEnd; ++i)
    if (bundle.commands.at(i).kind == CommandKind::Launch &&
        bundle.commands.at(i).e == launch)
      return i;
  return kNone;
}

} // namespace
} // namespace tsr

extern "C" uint32_t tsr_launch_count(const tsr_bundle_t *bundle) {
  return bundle->launches;
}

extern "C" tsr_status_t tsr_launch_query(const tsr_bundle_t *bundle,
                                         uint32_t launch, tsr_launch_t *out) {
  u32 at = commandOf(*bundle, launch);
  if (at == kNone)
    return TSR_REFUSED;
  const Command &c = bundle->commands.at(at);
  setBytes(out, 0, sizeof(*out));
  out->name = c.d == kNone ? "launch" : bundle->strings.text(c.d);
  out->device = c.a;
  if (c.c != kNone) {
    out->artefact = bundle->segmentData(c.c);
    out->artefact_bytes =
        bundle->segments[c.c].get<u64>(field::kSegmentSize);
  }
  out->operand_count = c.f == kNone ? 0 : bundle->operands[c.f];
  return TSR_OK;
}

extern "C" tsr_status_t tsr_launch_operand(const tsr_instance_t *instance,
                                           uint32_t launch, uint32_t operand,
                                           tsr_operand_t *out) {
  const tsr_bundle &bundle = *instance->bundle;
  if (launch >= bundle.launches)
    return TSR_REFUSED;
  const Command &c = bundle.commands.at(instance->work[launch].command);
  if (c.f == kNone || operand >= bundle.operands[c.f])
    return TSR_REFUSED;
  u32 index = bundle.operands[c.f + 1 + operand];
  u32 root = instance->rootOf(index);
  u8 *data = nullptr;
  u64 into = index == root ? 0 : instance->buffer(index).aliasOffset;
  out->bytes = instance->buffer(index).sizeBytes;
  if (instance->buffer(root).kind == BufferKind::Constant) {
    u64 rest = 0;
    if (!resolve(*instance, index, data, rest))
      return TSR_REFUSED;
    out->pool = TSR_NO_POOL;
    out->offset = 0;
    out->data = data;
    return TSR_OK;
  }
  const Place &place = instance->places[root];
  const PoolState &pool = instance->pools[instance->buffer(root).pool];
  // Before the first run nothing lives yet, and everything is where it was
  // planned.
  u64 offset = (place.live ? place.offset : place.planned) + into;
  if (place.live == 2 || !within(offset, out->bytes, pool.bytes))
    return TSR_REFUSED;
  out->pool = instance->buffer(root).pool;
  out->offset = offset;
  out->data = pool.memory + offset;
  return TSR_OK;
}

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

// An instance: registers, places of buffers, pools, the state of a run. All in
// one block of host memory:
//
//   tsr_instance | registers | input dims | output dims | buffers |
//   pointers of each device | scalars of each device | devices | launches |
//   sort order
#ifndef TESSERA_RUNTIME_INSTANCE_H
#define TESSERA_RUNTIME_INSTANCE_H

#include "runtime-stub/src/Bundle.h"

namespace tsr {

/// Where a buffer that is no alias lies. Constants have no use for it.
struct Place {
  u64 offset;  // in its pool, now
  u64 planned; // in its pool, as tsr_prepare placed it
  u64 size;
  u32 next; // the next live buffer of a growing pool, by offset; also used
            // while placing
  u32 live; // growing pool: between Allocate and Release
};

struct PoolState {
  u8 *memory;
  u64 bytes;
  u64 need;  // planned part; growing: the most a run used
  u32 first; // list of live buffers
  u32 growing;
};

/// Where an input's value comes from. A default value that another buffer
/// shares is copied each run, since a kernel may write to that one.
namespace Given {
enum : u8 { kDefault, kByHost, kCopied };
}

/// What a launch hands to its device; lives until the fence.
struct LaunchWork {
  tsr_instance *instance;
  u32 command; // the Launch
};

/// A device of one instance. Its thread writes `status` and `error` between a
/// launch and the fence, the running thread otherwise.
struct DeviceState {
  u32 busy; // launched and not waited for; the running thread's
  tsr_status_t status;
  tsr_error_t error;
};

enum class RunState : u32 { Created, Prepared, Suspended, Finished };

} // namespace tsr

struct tsr_instance {
  const tsr_bundle *bundle;
  tsr_host_t host;
  tsr::RunState state;
  tsr::u32 command; // to go on with
  tsr::u32 requestPool;
  tsr::u32 anyState; // there are State buffers
  tsr::u64 requestBytes;
  tsr::PoolState pools[TSR_MAX_POOLS];
  tsr::i64 *registers;
  tsr::i64 *inputDims; // of all inputs, one after the other
  tsr::i64 *outputDims;
  tsr::Place *places;
  void **pointers; // operands of the running dispatch, for each device
  tsr::i64 *scalars;
  tsr::DeviceState *devices;
  tsr::LaunchWork *work; // by number of the launch
  tsr::u32 *order; // buffers while placing; given-flags of inputs follow
  tsr::u8 *given;  // per input: the host gave a value

  const tsr::Buffer &buffer(tsr::u32 i) const { return bundle->buffers.at(i); }
  tsr::u32 rootOf(tsr::u32 i) const {
    tsr::u32 alias = buffer(i).aliasOf;
    return alias == tsr::kNone ? i : alias;
  }
  bool isGrowing(const tsr::Buffer &b) const {
    return b.kind != tsr::BufferKind::Constant && pools[b.pool].growing;
  }
};

namespace tsr {

u64 instanceBytes(const tsr_bundle &bundle);

/// Runs scalar instructions [begin, end). Integers saturate; a size that
/// saturated is refused where it is used.
tsr_status_t runScalars(tsr_instance &instance, u32 begin, u32 end,
                        tsr_error_t *error);

/// Gives the range behind the Launch at `command` to its device.
tsr_status_t launch(tsr_instance &instance, u32 command, tsr_error_t *error);
/// Waits for a device and takes over its refusal.
tsr_status_t waitFor(tsr_instance &instance, u32 device, tsr_error_t *error);
tsr_status_t waitForAll(tsr_instance &instance, tsr_error_t *error);

/// Address and extent of a buffer at this moment; false if it does not exist.
bool resolve(const tsr_instance &instance, u32 buffer, u8 *&data, u64 &bytes);

} // namespace tsr
#endif

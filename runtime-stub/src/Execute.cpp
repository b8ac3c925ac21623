#include "runtime-stub/src/Execute.h"

#include "runtime-stub/arch/Arch.h"
#include "runtime-stub/include/tessera/kernel_abi.h"

namespace tsr {

bool resolve(const tsr_instance &instance, u32 index, u8 *&data, u64 &bytes) {
  const Buffer &buffer = instance.buffer(index);
  u32 rootIndex = index;
  u64 into = 0;
  const Buffer *root = &buffer;
  if (buffer.aliasOf != kNone) {
    rootIndex = buffer.aliasOf;
    into = buffer.aliasOffset;
    root = &instance.buffer(rootIndex);
  }
  const tsr_bundle &bundle = *instance.bundle;
  if (root->kind == BufferKind::Constant) {
    // Kernels do not write to constants; the pages are read-only.
    data = const_cast<u8 *>(bundle.segmentData(root->segment)) + root->offset +
           into;
    bytes = root->sizeBytes - into;
    return into <= root->sizeBytes;
  }
  const Place &place = instance.places[rootIndex];
  if (into > place.size)
    return false;
  bytes = place.size - into;
  if (place.live == 2) { // an input whose default value is used
    data = reinterpret_cast<u8 *>(place.offset) + into;
    return true;
  }
  const PoolState &pool = instance.pools[root->pool];
  data = pool.memory + place.offset + into;
  return place.live != 0 && pool.memory != nullptr;
}

namespace {

/// One dispatch, as the host's threads see it.
struct Work {
  tsr_kernel_fn kernel;
  void *const *buffers;
  const i64 *scalars;
  bool flush;
  u64 failure; // workgroup << 32 | status of the lowest workgroup that failed

  static void run(void *argument, u64 index) {
    auto *work = static_cast<Work *>(argument);
    i32 status;
    if (work->flush) {
      arch::FloatMode mode = arch::flushDenormals();
      status = work->kernel(work->buffers, work->scalars, index);
      arch::restoreFloatMode(mode);
    } else {
      status = work->kernel(work->buffers, work->scalars, index);
    }
    if (status == TSR_KERNEL_OK)
      return;
    u64 mine = index << 32 | u32(status);
    u64 seen = __atomic_load_n(&work->failure, __ATOMIC_RELAXED);
    while (mine < seen &&
           !__atomic_compare_exchange_n(&work->failure, &seen, mine, false,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))
      ;
  }
};

} // namespace

tsr_status_t Executor::run(u32 at, const Command &c) {
  position = at;
  switch (c.kind) {
  case CommandKind::Dispatch:
    return dispatch(c);
  case CommandKind::Copy:
    return copy(c);
  case CommandKind::Fill:
    return fill(c);
  case CommandKind::StoreInt:
    return storeInt(c);
  default:
    return TSR_OK; // no other is given to it
  }
}

u64 Executor::now() const {
  return instance.host.trace && instance.host.now_ns
             ? instance.host.now_ns(instance.host.context)
             : 0;
}
void Executor::trace(const char *kernel, const char *kernelClass,
                     u64 workgroups, u64 begin, u64 bytes) {
  if (!instance.host.trace)
    return;
  tsr_trace_event_t event = {kernel,          kernelClass, position,
                             u32(workgroups), begin,       now(),
                             bytes,           device};
  instance.host.trace(instance.host.context, &event);
}
tsr_status_t Executor::refuseBuffer(u32 index) {
  return refuse(error, TSR_ERROR_STRUCTURE,
                "command %u|buffer %u does not exist there|a buffer that was "
                "allocated|the bundle was made by a faulty tool: compile the "
                "model again",
                position, index);
}

tsr_status_t Executor::dispatch(const Command &c) {
  u64 begin = now();
  void **pointers = instance.pointers + u64(device) * bundle.maxOperands;
  i64 *scalars = instance.scalars + u64(device) * bundle.maxScalars;
  for (u32 i = 0; i < c.c; ++i) {
    u8 *data = nullptr;
    u64 bytes = 0;
    u32 index = bundle.operands[c.b + i];
    if (!resolve(instance, index, data, bytes)) {
      if (bytes || !isEmpty(index))
        return refuseBuffer(index);
      data = nullptr;
    }
    pointers[i] = data;
  }
  for (u32 i = 0; i < c.e; ++i)
    scalars[i] = instance.registers[bundle.operands[c.d + i]];
  i64 workgroups = c.f == kNone ? 1 : instance.registers[c.f];
  if (workgroups < 0 || workgroups > 0x7fffffff)
    return refuse(error, TSR_ERROR_VALUE,
                  "workgroups of command %u|%ld|0 to 2^31", position,
                  workgroups);
  auto kernel = reinterpret_cast<tsr_kernel_fn>(bundle.codeBase +
                                                bundle.codeEntries[c.a]);
  Work work = {kernel, pointers, scalars, (c.flags & kFlushDenormals) != 0, ~u64(0)};
  // The host's threads serve the processor; another device is one worker.
  if (workgroups > 1 && instance.host.parallel && device == 0)
    instance.host.parallel(instance.host.context, u64(workgroups), Work::run,
                           &work);
  else
    for (u64 i = 0; i < u64(workgroups) && work.failure == ~u64(0); ++i)
      Work::run(&work, i);
  u64 failure = __atomic_load_n(&work.failure, __ATOMIC_RELAXED);
  if (failure != ~u64(0))
    return refuseKernel(c.a, i32(failure));
  Table table = bundle.kernels[c.a];
  trace(table.text(field::kKernelName), table.text(field::kKernelClass),
        u64(workgroups), begin);
  return TSR_OK;
}

/// A planned buffer of no bytes, in a pool that then needs no memory.
bool Executor::isEmpty(u32 index) const {
  const Buffer &root = instance.buffer(instance.rootOf(index));
  return root.kind != BufferKind::Constant && !instance.isGrowing(root) &&
         instance.places[instance.rootOf(index)].size == 0;
}

tsr_status_t Executor::refuseKernel(u32 kernel, i32 status) {
  Table table = bundle.kernels[kernel];
  TableVector origin = table.tables(field::kOrigin);
  char nodes[80];
  Text names(nodes, sizeof(nodes));
  names.put(origin.count ? "node" : "kernel '");
  for (u32 i = 0; i < origin.count && i < 4; ++i) {
    names.put(i ? ", '" : " '");
    names.put(origin.text(i));
    names.put('\'');
  }
  if (origin.count > 4)
    names.put(", ...");
  if (!origin.count) {
    names.put(table.text(field::kKernelName));
    names.put('\'');
  }
  const char *what =
      status == TSR_KERNEL_INDEX_OUT_OF_RANGE ? "an index out of range"
      : status == TSR_KERNEL_BAD_VALUE
          ? "an operand's value that has no meaning"
      : status == TSR_KERNEL_DIVISION_BY_ZERO ? "an integer division by zero"
                                              : "an unknown failure";
  return refuse(
      error, TSR_ERROR_VALUE,
      "%s|%s (status %d)||the input data has no meaning for this model",
      nodes, what, status);
}

tsr_status_t Executor::sized(u32 reg, u64 &out) {
  i64 bytes = instance.registers[reg];
  if (bytes < 0 || bytes >= i64(format::kSizeLimit))
    return refuse(error, TSR_ERROR_VALUE,
                  "size in command %u|%ld bytes|0 to 2^47|the input data has "
                  "no meaning for this model",
                  position, bytes);
  out = u64(bytes);
  return TSR_OK;
}

/// The part [offset register, + size) of a buffer.
tsr_status_t Executor::range(u32 index, u32 offsetRegister, u64 size, u8 *&data) {
  u64 bytes = 0, offset = 0;
  if (offsetRegister != kNone && sized(offsetRegister, offset) != TSR_OK)
    return TSR_REFUSED;
  if (!resolve(instance, index, data, bytes)) {
    if (size == 0)
      return TSR_OK;
    return refuseBuffer(index);
  }
  if (!within(offset, size, bytes))
    return refuse(
        error, TSR_ERROR_VALUE,
        "command %u|%lu bytes at %lu of buffer %u|inside its %lu bytes",
        position, size, offset, index, bytes);
  data += offset;
  return TSR_OK;
}

tsr_status_t Executor::copy(const Command &c) {
  u64 begin = now(), size = 0;
  u8 *to = nullptr, *from = nullptr;
  if (sized(c.c, size) != TSR_OK || range(c.b, c.d, size, to) != TSR_OK ||
      range(c.a, c.e, size, from) != TSR_OK)
    return TSR_REFUSED;
  if (writesDefault(c.b))
    return refuseBuffer(c.b);
  moveBytes(to, from, size);
  trace("copy", "movement", 1, begin, size);
  return TSR_OK;
}

tsr_status_t Executor::fill(const Command &c) {
  u64 begin = now(), size = 0;
  u8 *to = nullptr;
  if (sized(c.c, size) != TSR_OK || range(c.a, kNone, size, to) != TSR_OK)
    return TSR_REFUSED;
  if (writesDefault(c.a))
    return refuseBuffer(c.a);
  setBytes(to, u8(c.b), size);
  trace("fill", "movement", 1, begin, size);
  return TSR_OK;
}
tsr_status_t Executor::storeInt(const Command &c) {
  u64 width = u64(elementBytes(i32(c.d), 1));
  u8 *to = nullptr;
  u64 bytes = 0;
  if (!resolve(instance, c.a, to, bytes) || writesDefault(c.a) ||
      !within(c.c * width, width, bytes))
    return refuseBuffer(c.a);
  i64 value = instance.registers[c.b];
  copyBytes(to + c.c * width, &value, width); // little-endian: the low bytes
  return TSR_OK;
}

} // namespace tsr

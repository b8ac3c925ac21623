// The interpreter of the command list.
#include "runtime-stub/src/Instance.h"

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

/// A buffer of a growing pool that exists only while it is live; the others
/// always do.
void startPlaces(tsr_instance &instance) {
  const tsr_bundle &bundle = *instance.bundle;
  for (u32 i = 0; i < bundle.buffers.count; ++i) {
    Place &place = instance.places[i];
    place.offset = place.planned;
    place.live = 1;
    const Buffer &b = instance.buffer(i);
    if (b.aliasOf == kNone && instance.isGrowing(b)) {
      place.live = 0;
      place.size = 0;
    }
  }
  for (u32 i = 0; i < bundle.inputs.count; ++i) {
    if (instance.given[i] == Given::kByHost)
      continue;
    Table tensor = bundle.inputs[i];
    const Buffer *value =
        &instance.buffer(tensor.get<u32>(field::kDefaultBuffer));
    u64 into = 0;
    if (value->aliasOf != kNone) {
      into = value->aliasOffset;
      value = &instance.buffer(value->aliasOf);
    }
    u32 index = tensor.get<u32>(field::kTensorBuffer);
    Place &place = instance.places[index];
    const u8 *at = bundle.segmentData(value->segment) + value->offset + into;
    if (instance.given[i] == Given::kCopied) {
      copyBytes(instance.pools[instance.buffer(index).pool].memory +
                    place.planned,
                at, smaller(place.size, value->sizeBytes - into));
      continue;
    }
    place.offset = reinterpret_cast<u64>(at);
    place.live = 2;
  }
  for (u32 i = 0; i < bundle.pools.count; ++i)
    instance.pools[i].first = kNone;
}

void release(tsr_instance &instance, u32 index) {
  Place &place = instance.places[index];
  if (!place.live)
    return;
  u32 *link = &instance.pools[instance.buffer(index).pool].first;
  while (*link != index && *link != kNone)
    link = &instance.places[*link].next;
  if (*link == index)
    *link = place.next;
  place.live = 0;
  place.size = 0;
}

/// Ends the buffers whose lifetime the run has left. One that lives inside a
/// loop is dead between its last use and its next allocation.
void sweep(tsr_instance &instance, u32 pool) {
  u32 index = instance.pools[pool].first;
  while (index != kNone) {
    const Buffer &b = instance.buffer(index);
    u32 next = instance.places[index].next;
    if (instance.command < b.firstCommand || instance.command > b.lastCommand)
      release(instance, index);
    index = next;
  }
}

/// First fit among the live buffers. False: the pool is too small.
bool allocate(tsr_instance &instance, u32 index, u64 size) {
  release(instance, index);
  u32 poolIndex = instance.buffer(index).pool;
  sweep(instance, poolIndex);
  PoolState &pool = instance.pools[poolIndex];
  u64 alignment = larger<u64>(
      instance.bundle->pools[poolIndex].get<u32>(field::kAlignment), 64);
  u64 at = 0;
  u32 *link = &pool.first;
  // Empty buffers take a place too: the list then holds exactly the live ones.
  u64 room = alignUp(larger<u64>(size, 1), alignment);
  while (*link != kNone) {
    const Place &other = instance.places[*link];
    if (other.offset - at >= room)
      break;
    at = other.offset + alignUp(larger<u64>(other.size, 1), alignment);
    link = &instance.places[*link].next;
  }
  u64 end = at + room;
  pool.need = larger(pool.need, end);
  if (end > pool.bytes) {
    instance.requestPool = poolIndex;
    instance.requestBytes = end;
    return false;
  }
  Place &place = instance.places[index];
  place.offset = at;
  place.size = size;
  place.live = 1;
  place.next = *link;
  *link = index;
  return true;
}

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

class Interpreter {
public:
  Interpreter(tsr_instance &instance, tsr_error_t *error)
      : instance(instance), bundle(*instance.bundle), error(error) {}

  tsr_status_t run() {
    u32 end = bundle.commandEnd;
    u32 &pc = instance.command;
    while (pc != end) {
      const Command &c = bundle.commands.at(pc);
      u32 next = pc + 1;
      tsr_status_t status = TSR_OK;
      switch (c.kind) {
      case CommandKind::Dispatch:
        status = dispatch(c);
        break;
      case CommandKind::Scalars:
        status = runScalars(instance, c.a, c.a + c.b, error);
        break;
      case CommandKind::Copy:
        status = copy(c);
        break;
      case CommandKind::Jump:
        next = c.a;
        break;
      case CommandKind::BranchZero:
        if (instance.registers[c.a] == 0)
          next = c.b;
        break;
      case CommandKind::Allocate:
        status = allocateBuffer(c);
        break;
      case CommandKind::Release:
        release(instance, c.a);
        break;
      case CommandKind::Bind:
        status = bind(c);
        break;
      case CommandKind::Check:
        if (instance.registers[c.a] == 0)
          return refuse(error, TSR_ERROR_VALUE,
                        "|%s||the input data has no meaning for this model",
                        bundle.strings.text(c.b));
        break;
      case CommandKind::Fence:
        break; // the processor is never behind
      case CommandKind::Fill:
        status = fill(c);
        break;
      case CommandKind::StoreInt:
        status = storeInt(c);
        break;
      case CommandKind::kCount:
        break;
      }
      if (status != TSR_OK)
        return status;
      pc = next;
    }
    return TSR_OK;
  }

private:
  u64 now() const {
    return instance.host.trace && instance.host.now_ns
               ? instance.host.now_ns(instance.host.context)
               : 0;
  }
  void trace(const char *kernel, const char *kernelClass, u64 workgroups,
             u64 begin) {
    if (!instance.host.trace)
      return;
    tsr_trace_event_t event = {kernel,          kernelClass, instance.command,
                               u32(workgroups), begin,       now()};
    instance.host.trace(instance.host.context, &event);
  }
  tsr_status_t refuseBuffer(u32 index) {
    return refuse(error, TSR_ERROR_STRUCTURE,
                  "command %u|buffer %u does not exist there|a buffer that was "
                  "allocated|the bundle was made by a faulty tool: compile the "
                  "model again",
                  instance.command, index);
  }

  tsr_status_t dispatch(const Command &c) {
    u64 begin = now();
    for (u32 i = 0; i < c.c; ++i) {
      u8 *data = nullptr;
      u64 bytes = 0;
      u32 index = bundle.operands[c.b + i];
      if (!resolve(instance, index, data, bytes)) {
        if (bytes || !isEmpty(index))
          return refuseBuffer(index);
        data = nullptr;
      }
      instance.pointers[i] = data;
    }
    for (u32 i = 0; i < c.e; ++i)
      instance.scalars[i] = instance.registers[bundle.operands[c.d + i]];
    i64 workgroups = c.f == kNone ? 1 : instance.registers[c.f];
    if (workgroups < 0 || workgroups > 0x7fffffff)
      return refuse(error, TSR_ERROR_VALUE,
                    "workgroups of command %u|%ld|0 to 2^31", instance.command,
                    workgroups);
    auto kernel = reinterpret_cast<tsr_kernel_fn>(bundle.codeBase +
                                                  bundle.codeEntries[c.a]);
    Work work = {kernel, instance.pointers, instance.scalars,
                 (c.flags & kFlushDenormals) != 0, ~u64(0)};
    if (workgroups > 1 && instance.host.parallel)
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
  bool isEmpty(u32 index) const {
    const Buffer &root = instance.buffer(instance.rootOf(index));
    return root.kind != BufferKind::Constant && !instance.isGrowing(root) &&
           instance.places[instance.rootOf(index)].size == 0;
  }

  tsr_status_t refuseKernel(u32 kernel, i32 status) {
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

  tsr_status_t sized(u32 reg, u64 &out) {
    i64 bytes = instance.registers[reg];
    if (bytes < 0 || bytes >= i64(format::kSizeLimit))
      return refuse(error, TSR_ERROR_VALUE,
                    "size in command %u|%ld bytes|0 to 2^47|the input data has "
                    "no meaning for this model",
                    instance.command, bytes);
    out = u64(bytes);
    return TSR_OK;
  }

  /// The part [offset register, + size) of a buffer.
  tsr_status_t range(u32 index, u32 offsetRegister, u64 size, u8 *&data) {
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
          instance.command, size, offset, index, bytes);
    data += offset;
    return TSR_OK;
  }

  tsr_status_t copy(const Command &c) {
    u64 begin = now(), size = 0;
    u8 *to = nullptr, *from = nullptr;
    if (sized(c.c, size) != TSR_OK || range(c.b, c.d, size, to) != TSR_OK ||
        range(c.a, c.e, size, from) != TSR_OK)
      return TSR_REFUSED;
    if (writesDefault(c.b))
      return refuseBuffer(c.b);
    moveBytes(to, from, size);
    trace("copy", "movement", 1, begin);
    return TSR_OK;
  }

  tsr_status_t fill(const Command &c) {
    u64 begin = now(), size = 0;
    u8 *to = nullptr;
    if (sized(c.c, size) != TSR_OK || range(c.a, kNone, size, to) != TSR_OK)
      return TSR_REFUSED;
    if (writesDefault(c.a))
      return refuseBuffer(c.a);
    setBytes(to, u8(c.b), size);
    trace("fill", "movement", 1, begin);
    return TSR_OK;
  }
  tsr_status_t storeInt(const Command &c) {
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
  bool writesDefault(u32 index) const {
    return instance.places[instance.rootOf(index)].live == 2;
  }

  tsr_status_t allocateBuffer(const Command &c) {
    u64 size = 0;
    if (sized(c.b, size) != TSR_OK)
      return TSR_REFUSED;
    return allocate(instance, c.a, size) ? TSR_OK : TSR_NEED_MEMORY;
  }

  tsr_status_t bind(const Command &c) {
    if (c.a == c.b)
      return TSR_OK;
    Place &to = instance.places[c.a], &from = instance.places[c.b];
    if (!instance.isGrowing(instance.buffer(c.a))) {
      if (to.size != from.size || to.live == 2 || from.live == 2)
        return refuse(
            error, TSR_ERROR_STRUCTURE,
            "bind in command %u|%lu and %lu bytes|two buffers of one size",
            instance.command, to.size, from.size);
      u64 offset = to.offset;
      to.offset = from.offset;
      from.offset = offset;
      return TSR_OK;
    }
    if (!from.live)
      return refuseBuffer(c.b);
    release(instance, c.a);
    u32 *link = &instance.pools[instance.buffer(c.b).pool].first;
    while (*link != c.b)
      link = &instance.places[*link].next;
    *link = c.a;
    to.offset = from.offset;
    to.size = from.size;
    to.next = from.next;
    to.live = 1;
    from.live = 0;
    from.size = 0;
    return TSR_OK;
  }

  tsr_instance &instance;
  const tsr_bundle &bundle;
  tsr_error_t *error;
};

void describe(tsr_tensor_t *out, Table tensor, const i64 *dims) {
  out->data = nullptr;
  out->bytes = 0;
  out->dims = dims;
  out->rank = tensor.vector<Dim>(field::kDims).count;
  out->element_type = tensor.get<i32>(field::kElementType);
}

/// Bytes of all elements, or -1.
i64 tensorBytes(const tsr_tensor_t &tensor) {
  i64 count = 1;
  for (u32 axis = 0; axis < tensor.rank; ++axis)
    if (tensor.dims[axis] < 0 ||
        __builtin_mul_overflow(count, tensor.dims[axis], &count))
      return -1;
  return elementBytes(tensor.element_type, count);
}

tsr_status_t fetchOutput(tsr_instance &instance, u32 index, tsr_tensor_t *out,
                         tsr_error_t *error) {
  const tsr_bundle &bundle = *instance.bundle;
  i64 *dims = instance.outputDims;
  for (u32 i = 0; i < index; ++i)
    dims += bundle.outputs[i].vector<Dim>(field::kDims).count;
  Table tensor = bundle.outputs[index];
  Vector<Dim> contract = tensor.vector<Dim>(field::kDims);
  for (u32 axis = 0; axis < contract.count; ++axis) {
    const Dim &dim = contract.at(axis);
    dims[axis] = dim.value >= 0 ? dim.value : instance.registers[dim.reg];
  }
  describe(out, tensor, dims);
  i64 bytes = tensorBytes(*out);
  u8 *data = nullptr;
  u64 available = 0;
  bool exists =
      resolve(instance, tensor.get<u32>(field::kTensorBuffer), data, available);
  if (bytes < 0 || u64(bytes) > available || (!exists && bytes))
    return refuse(error, TSR_ERROR_VALUE,
                  "output '%s'|a shape of %ld bytes|at most %lu|the input data "
                  "has no meaning for this model",
                  tensor.text(field::kTensorName), bytes, available);
  out->data = exists ? data : nullptr;
  out->bytes = u64(bytes);
  return TSR_OK;
}

tsr_status_t checkPools(const tsr_instance &instance, tsr_error_t *error) {
  for (u32 i = 0; i < instance.bundle->pools.count; ++i) {
    const PoolState &pool = instance.pools[i];
    Table table = instance.bundle->pools[i];
    if (!table.get<u8>(field::kGrowing) && pool.bytes < pool.need)
      return refuse(error, TSR_ERROR_MEMORY,
                    "memory of pool '%s'|%lu bytes|%lu bytes|call tsr_set_pool "
                    "after tsr_prepare",
                    table.text(field::kPoolName), pool.bytes, pool.need);
  }
  return TSR_OK;
}

} // namespace
} // namespace tsr

using namespace tsr;

extern "C" tsr_status_t tsr_run(tsr_instance_t *instance, tsr_error_t *error) {
  if (!instance || instance->state == RunState::Created)
    return refuse(
        error, TSR_ERROR_ARGUMENT,
        "tsr_run|an instance that is not prepared|tsr_prepare before it");
  if (checkPools(*instance, error) != TSR_OK)
    return TSR_REFUSED;
  if (instance->state != RunState::Suspended) {
    startPlaces(*instance);
    instance->command = instance->bundle->commandBegin;
  }
  tsr_status_t status = Interpreter(*instance, error).run();
  for (u32 i = 0; status == TSR_OK && i < instance->bundle->outputs.count;
       ++i) {
    tsr_tensor_t tensor;
    status = fetchOutput(*instance, i, &tensor, error);
  }
  instance->state = status == TSR_NEED_MEMORY ? RunState::Suspended
                    : status == TSR_OK        ? RunState::Finished
                                              : RunState::Prepared;
  return status;
}

extern "C" void tsr_memory_request(const tsr_instance_t *instance,
                                   uint32_t *outPool, uint64_t *outBytes) {
  *outPool = instance->requestPool;
  *outBytes = instance->requestBytes;
}

extern "C" tsr_status_t tsr_input(tsr_instance_t *instance, uint32_t index,
                                  tsr_tensor_t *out, tsr_error_t *error) {
  if (!instance || instance->state == RunState::Created ||
      instance->state == RunState::Suspended ||
      index >= instance->bundle->inputs.count)
    return refuse(
        error, TSR_ERROR_ARGUMENT,
        "tsr_input %u|no such input, or an instance that is not prepared",
        index);
  if (checkPools(*instance, error) != TSR_OK)
    return TSR_REFUSED;
  const tsr_bundle &bundle = *instance->bundle;
  const i64 *dims = instance->inputDims;
  for (u32 i = 0; i < index; ++i)
    dims += bundle.inputs[i].vector<Dim>(field::kDims).count;
  Table tensor = bundle.inputs[index];
  if (instance->given[index] != Given::kByHost)
    return refuse(
        error, TSR_ERROR_ARGUMENT,
        "input '%s'|its default value is in use|a shape in tsr_prepare",
        tensor.text(field::kTensorName));
  describe(out, tensor, dims);
  u32 buffer = tensor.get<u32>(field::kTensorBuffer);
  const PoolState &pool = instance->pools[instance->buffer(buffer).pool];
  out->bytes = u64(tensorBytes(*out)); // checked by tsr_prepare
  if (out->bytes)
    out->data = pool.memory + instance->places[buffer].planned;
  return TSR_OK;
}

extern "C" tsr_status_t tsr_output(tsr_instance_t *instance, uint32_t index,
                                   tsr_tensor_t *out, tsr_error_t *error) {
  if (!instance || instance->state != RunState::Finished ||
      index >= instance->bundle->outputs.count)
    return refuse(error, TSR_ERROR_ARGUMENT,
                  "tsr_output %u|no such output, or no finished run", index);
  return fetchOutput(*instance, index, out, error);
}

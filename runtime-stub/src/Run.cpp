// The interpreter of the command list.
#include "runtime-stub/src/Execute.h"

namespace tsr {

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

class Interpreter {
public:
  Interpreter(tsr_instance &instance, tsr_error_t *error)
      : instance(instance), bundle(*instance.bundle), error(error),
        processor(instance, 0, error) {}

  tsr_status_t run() {
    u32 end = bundle.commandEnd;
    u32 &pc = instance.command;
    while (pc != end) {
      const Command &c = bundle.commands.at(pc);
      processor.position = pc;
      u32 next = pc + 1;
      tsr_status_t status = TSR_OK;
      switch (c.kind) {
      case CommandKind::Dispatch:
      case CommandKind::Copy:
      case CommandKind::Fill:
      case CommandKind::StoreInt:
        status = processor.run(pc, c);
        break;
      case CommandKind::Scalars:
        status = runScalars(instance, c.a, c.a + c.b, error);
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
        status = waitFor(instance, c.a, error);
        break;
      case CommandKind::Launch:
        status = launch(instance, pc, error);
        next = pc + 1 + c.b;
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
  tsr_status_t allocateBuffer(const Command &c) {
    u64 size = 0;
    if (processor.sized(c.b, size) != TSR_OK)
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
      return processor.refuseBuffer(c.b);
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
  Executor processor;
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
  // Whatever the end, no device works in memory that the host may take back.
  tsr_status_t devices =
      waitForAll(*instance, status == TSR_REFUSED ? nullptr : error);
  if (devices != TSR_OK)
    status = devices;
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

// Instances and tsr_prepare: shapes against contracts, sizes, places.
//
// Buffers that have no place from the compiler get one here: first fit by
// descending size over lifetimes, around those that have one. The order is
// total, so equal shapes give equal places on every machine.
#include "runtime-stub/src/Instance.h"

namespace tsr {
u64 bundleCodeBytes(const tsr_bundle &bundle);
u64 bundleCodeAlignment(const tsr_bundle &bundle);

namespace {

/// Walks through the parts of an instance's memory.
class Carver {
public:
  explicit Carver(u8 *memory) : memory(memory) {}
  template <typename T> T *take(u64 count) {
    at = alignUp(at, 16);
    // As a number: memory is null while only the size is wanted.
    T *part = reinterpret_cast<T *>(reinterpret_cast<u64>(memory) + at);
    at += count * sizeof(T);
    return part;
  }
  u64 used() const { return alignUp(at, 16); }

private:
  u8 *memory;
  u64 at = 0;
};

u64 carve(tsr_instance &i, const tsr_bundle &bundle, u8 *memory) {
  Carver carver(memory);
  carver.take<tsr_instance>(1);
  i.registers = carver.take<i64>(bundle.registers);
  i.inputDims = carver.take<i64>(bundle.inputAxes);
  i.outputDims = carver.take<i64>(bundle.outputAxes);
  i.places = carver.take<Place>(bundle.buffers.count);
  i.pointers =
      carver.take<void *>(u64(bundle.maxOperands) * bundle.deviceCount);
  i.scalars = carver.take<i64>(u64(bundle.maxScalars) * bundle.deviceCount);
  i.devices = carver.take<DeviceState>(bundle.deviceCount);
  i.work = carver.take<LaunchWork>(bundle.launches);
  i.order = carver.take<u32>(bundle.buffers.count);
  i.given = carver.take<u8>(bundle.inputs.count);
  return carver.used();
}

bool isPlanned(const tsr_instance &instance, u32 i) {
  const Buffer &b = instance.buffer(i);
  return b.aliasOf == kNone && b.kind != BufferKind::Constant &&
         !instance.isGrowing(b);
}

/// A State lives always.
u32 firstUse(const Buffer &b) {
  return b.kind == BufferKind::State ? 0 : b.firstCommand;
}
u32 lastUse(const Buffer &b) {
  return b.kind == BufferKind::State ? kNone : b.lastCommand;
}

class Placer {
public:
  Placer(tsr_instance &instance, u32 pool) : instance(instance), pool(pool) {}

  /// Returns the bytes the pool needs, or kSizeLimit if that is beyond reason.
  u64 run() {
    const tsr_bundle &bundle = *instance.bundle;
    for (u32 i = 0; i < bundle.buffers.count; ++i)
      if (isPlanned(instance, i) && instance.buffer(i).pool == pool)
        instance.order[count++] = i;
    sort();
    Table table = bundle.pools[pool];
    alignment = larger<u64>(table.get<u32>(field::kAlignment), TSR_ALIGNMENT);
    u64 end = table.get<u64>(field::kStaticBytes);
    for (u32 k = 0; k < count; ++k) {
      u32 i = instance.order[k];
      Place &place = instance.places[i];
      const Buffer &b = instance.buffer(i);
      place.planned = b.hasOffset ? b.offset : place.size ? firstFit(i) : 0;
      place.next = kNone;
      if (place.planned >= format::kSizeLimit)
        return format::kSizeLimit;
      end = larger(end, place.planned + place.size);
      if (place.size)
        insert(i);
    }
    return alignUp(end, alignment);
  }

private:
  static constexpr u64 TSR_ALIGNMENT = 64;

  /// Planned ones first, then by descending size, then by number.
  bool before(u32 a, u32 b) const {
    u8 fixedA = instance.buffer(a).hasOffset,
       fixedB = instance.buffer(b).hasOffset;
    if (fixedA != fixedB)
      return fixedA != 0;
    u64 sizeA = instance.places[a].size, sizeB = instance.places[b].size;
    return sizeA != sizeB ? sizeA > sizeB : a < b;
  }
  void sort() { // heap sort: no memory, no worst case
    for (u32 i = count / 2; i-- > 0;)
      sink(i, count);
    for (u32 n = count; n-- > 1;) {
      swap(0, n);
      sink(0, n);
    }
  }
  void swap(u32 a, u32 b) {
    u32 t = instance.order[a];
    instance.order[a] = instance.order[b];
    instance.order[b] = t;
  }
  void sink(u32 i, u32 n) {
    for (;;) {
      u32 child = 2 * i + 1;
      if (child >= n)
        return;
      if (child + 1 < n &&
          before(instance.order[child], instance.order[child + 1]))
        ++child;
      if (!before(instance.order[i], instance.order[child]))
        return;
      swap(i, child);
      i = child;
    }
  }
  u64 firstFit(u32 i) {
    const Buffer &b = instance.buffer(i);
    u64 size = instance.places[i].size, at = 0;
    for (u32 p = first; p != kNone; p = instance.places[p].next) {
      const Buffer &other = instance.buffer(p);
      if (lastUse(other) < firstUse(b) || lastUse(b) < firstUse(other))
        continue;
      const Place &place = instance.places[p];
      if (place.planned >= at && place.planned - at >= size)
        break;
      at = larger(at, alignUp(place.planned + place.size, alignment));
    }
    return at;
  }
  void insert(u32 i) {
    u32 *link = &first;
    while (*link != kNone &&
           instance.places[*link].planned <= instance.places[i].planned)
      link = &instance.places[*link].next;
    instance.places[i].next = *link;
    *link = i;
  }

  tsr_instance &instance;
  u32 pool, count = 0, first = kNone;
  u64 alignment = 0;
};

const char *axisName(Table tensor, u32 axis) {
  TableVector names = tensor.tables(field::kDimNames);
  return axis < names.count ? names.text(axis) : "";
}

tsr_status_t checkDim(Table tensor, u32 axis, i64 found, tsr_error_t *error) {
  const Dim &dim = tensor.vector<Dim>(field::kDims).at(axis);
  const char *symbol = axisName(tensor, axis);
  const char *open = symbol[0] ? " ('" : "", *close = symbol[0] ? "')" : "";
  auto refuseDim = [&](const char *relation, i64 value) {
    return refuse(error, TSR_ERROR_SHAPE,
                  "input '%s' axis %u%s%s%s|%ld|%s%ld|give data of that shape, "
                  "or compile with "
                  "another --dim",
                  tensor.text(field::kTensorName), axis, open, symbol, close,
                  found, relation, value);
  };
  if (dim.value >= 0)
    return found == dim.value ? TSR_OK : refuseDim("exactly ", dim.value);
  if (found < dim.min || found < 0)
    return refuseDim("at least ", larger<i64>(dim.min, 0));
  if (found > dim.max)
    return refuseDim("at most ", dim.max);
  if (found % dim.multiple)
    return refuseDim("a multiple of ", dim.multiple);
  return TSR_OK;
}

/// Takes the shape of input `i` over to `dims`.
tsr_status_t takeShape(tsr_instance &instance, u32 i, const tsr_shape_t *shape,
                       i64 *dims, tsr_error_t *error) {
  Table tensor = instance.bundle->inputs[i];
  Vector<Dim> contract = tensor.vector<Dim>(field::kDims);
  const char *name = tensor.text(field::kTensorName);
  bool hasDefault = tensor.get<u32>(field::kDefaultBuffer, kNone) != kNone;
  bool isStatic = true;
  for (u32 axis = 0; axis < contract.count; ++axis)
    isStatic &= contract.at(axis).value >= 0;
  bool given =
      shape &&
      (shape->dims || (shape->rank == 0 && contract.count == 0 && !hasDefault));
  instance.given[i] = Given::kByHost;
  if (given && shape->rank != contract.count)
    return refuse(error, TSR_ERROR_SHAPE,
                  "rank of input '%s'|%u|%u|give data of that rank", name,
                  shape->rank, contract.count);
  if (!given && hasDefault) {
    instance.given[i] = Given::kDefault;
    u32 own = tensor.get<u32>(field::kTensorBuffer);
    for (u32 b = 0; b < instance.bundle->buffers.count; ++b)
      if (instance.buffer(b).aliasOf == own)
        instance.given[i] = Given::kCopied;
    Vector<i64> shapeOfDefault = tensor.vector<i64>(field::kDefaultDims);
    for (u32 axis = 0; axis < contract.count; ++axis)
      dims[axis] = shapeOfDefault[axis];
  } else if (!given && (shape || !isStatic)) {
    return refuse(
        error, TSR_ERROR_SHAPE,
        "input '%s'|no data|data: it has no default value|give every input",
        name);
  } else {
    for (u32 axis = 0; axis < contract.count; ++axis)
      dims[axis] = given ? shape->dims[axis] : contract.at(axis).value;
  }
  for (u32 axis = 0; axis < contract.count; ++axis)
    if (checkDim(tensor, axis, dims[axis], error) != TSR_OK)
      return TSR_REFUSED;
  return TSR_OK;
}

/// Dimensions of one symbol share a register: they must be equal.
tsr_status_t checkSymbols(const tsr_instance &instance, tsr_error_t *error) {
  const i64 *dims = instance.inputDims;
  for (u32 i = 0; i < instance.bundle->inputs.count; ++i) {
    Table tensor = instance.bundle->inputs[i];
    Vector<Dim> contract = tensor.vector<Dim>(field::kDims);
    for (u32 axis = 0; axis < contract.count; ++axis, ++dims) {
      u32 reg = contract.at(axis).reg;
      if (contract.at(axis).value >= 0 || reg == kNone ||
          instance.registers[reg] == *dims)
        continue;
      return refuse(error, TSR_ERROR_SHAPE,
                    "input '%s' axis %u ('%s')|%ld|%ld, as in another "
                    "input|dimensions of one name must be equal",
                    tensor.text(field::kTensorName), axis,
                    axisName(tensor, axis), *dims, instance.registers[reg]);
    }
  }
  return TSR_OK;
}

tsr_status_t refuseSize(u32 buffer, i64 bytes, tsr_error_t *error) {
  return refuse(
      error, TSR_ERROR_SHAPE,
      "size of buffer %u|%ld bytes|a size below 2^47 and inside what it is a "
      "part of|the model has no meaning for these input shapes",
      buffer, bytes);
}

tsr_status_t computeSizes(tsr_instance &instance, tsr_error_t *error) {
  const tsr_bundle &bundle = *instance.bundle;
  for (u32 i = 0; i < bundle.buffers.count; ++i) {
    const Buffer &b = instance.buffer(i);
    Place &place = instance.places[i];
    place = {0, 0, 0, kNone, 0};
    if (b.aliasOf == kNone && instance.isGrowing(b))
      continue;
    i64 bytes = b.sizeRegister == kNone ? i64(b.sizeBytes)
                                        : instance.registers[b.sizeRegister];
    // A part of a dynamic buffer may have a size that only the run computes.
    if (b.aliasOf != kNone && instance.isGrowing(instance.buffer(b.aliasOf)))
      continue;
    if (bytes < 0 || bytes >= i64(format::kSizeLimit))
      return refuseSize(i, bytes, error);
    place.size = u64(bytes);
  }
  for (u32 i = 0; i < bundle.buffers.count; ++i) {
    const Buffer &b = instance.buffer(i);
    if (b.aliasOf == kNone || instance.isGrowing(instance.buffer(b.aliasOf)))
      continue;
    if (!within(b.aliasOffset, instance.places[i].size,
                instance.places[b.aliasOf].size))
      return refuseSize(i, i64(instance.places[i].size), error);
  }
  const i64 *dims = instance.inputDims;
  for (u32 i = 0; i < bundle.inputs.count; ++i) {
    Table tensor = bundle.inputs[i];
    u32 rank = tensor.vector<Dim>(field::kDims).count;
    i64 count = 1;
    for (u32 axis = 0; axis < rank; ++axis)
      if (__builtin_mul_overflow(count, dims[axis], &count))
        count = kMaxI64;
    dims += rank;
    i64 bytes = elementBytes(tensor.get<i32>(field::kElementType), count);
    u32 buffer = tensor.get<u32>(field::kTensorBuffer);
    if (bytes < 0 || u64(bytes) > instance.places[buffer].size)
      return refuse(
          error, TSR_ERROR_SHAPE, "size of input '%s'|%ld bytes|at most %lu",
          tensor.text(field::kTensorName), bytes, instance.places[buffer].size);
  }
  return TSR_OK;
}

} // namespace

u64 instanceBytes(const tsr_bundle &bundle) {
  tsr_instance scratch;
  return carve(scratch, bundle, nullptr);
}

} // namespace tsr

using namespace tsr;

extern "C" void tsr_bundle_needs(const tsr_bundle_t *bundle, tsr_needs_t *out) {
  setBytes(out, 0, sizeof(*out));
  out->instance_bytes = instanceBytes(*bundle);
  out->code_bytes = bundleCodeBytes(*bundle);
  out->code_alignment = bundleCodeAlignment(*bundle);
  out->pool_count = bundle->pools.count;
  for (u32 i = 0; i < bundle->pools.count; ++i) {
    Table pool = bundle->pools[i];
    tsr_pool_need_t &need = out->pools[i];
    need.name = pool.text(field::kPoolName);
    need.alignment = larger<u32>(pool.get<u32>(field::kAlignment), 64);
    need.growing = pool.get<u8>(field::kGrowing) != 0;
    need.device = pool.get<u8>(field::kPoolDevice);
    need.bytes = alignUp(pool.get<u64>(field::kStaticBytes), need.alignment);
    need.known = 1;
  }
  for (u32 i = 0; i < bundle->buffers.count; ++i) {
    const Buffer &b = bundle->buffers.at(i);
    out->has_states |= b.kind == BufferKind::State;
    if (b.kind != BufferKind::Constant && b.aliasOf == kNone && !b.hasOffset &&
        !out->pools[b.pool].growing && (b.sizeBytes || b.sizeRegister != kNone))
      out->pools[b.pool].known = 0;
  }
}

extern "C" tsr_status_t tsr_instance_create(const tsr_bundle_t *bundle,
                                            const tsr_host_t *host,
                                            void *memory, uint64_t bytes,
                                            tsr_instance_t **outInstance,
                                            tsr_error_t *error) {
  if (!bundle || !outInstance || (host && host->version != TSR_RUNTIME_VERSION))
    return refuse(error, TSR_ERROR_ARGUMENT,
                  "tsr_instance_create|a null argument or a host table of "
                  "another version");
  u64 needed = instanceBytes(*bundle);
  if (!memory || bytes < needed || (reinterpret_cast<uintptr_t>(memory) & 15))
    return refuse(error, TSR_ERROR_MEMORY,
                  "instance memory|%lu bytes|%lu bytes aligned to 16", bytes,
                  needed);
  if (bundle->kernels.count && !bundle->codeBase)
    return refuse(error, TSR_ERROR_ARGUMENT,
                  "tsr_instance_create|no code|tsr_load_code before it");
  auto *instance = static_cast<tsr_instance *>(memory);
  setBytes(memory, 0, needed);
  carve(*instance, *bundle, static_cast<u8 *>(memory));
  instance->bundle = bundle;
  instance->host = host ? *host : bundle->host;
  for (u32 i = 0; i < bundle->pools.count; ++i) {
    instance->pools[i].first = kNone;
    instance->pools[i].growing = bundle->pools[i].get<u8>(field::kGrowing);
  }
  for (u32 i = bundle->commandBegin; i < bundle->commandEnd; ++i)
    if (const Command &c = bundle->commands.at(i);
        c.kind == CommandKind::Launch)
      instance->work[c.e] = {instance, i};
  for (u32 i = 0; i < bundle->buffers.count; ++i)
    instance->anyState |= bundle->buffers.at(i).kind == BufferKind::State;
  *outInstance = instance;
  return TSR_OK;
}

extern "C" const tsr_bundle_t *
tsr_instance_bundle(const tsr_instance_t *instance) {
  return instance->bundle;
}

extern "C" tsr_status_t tsr_prepare(tsr_instance_t *instance,
                                    const tsr_shape_t *shapes, uint32_t count,
                                    tsr_error_t *error) {
  if (!instance)
    return refuse(error, TSR_ERROR_ARGUMENT, "tsr_prepare|no instance");
  const tsr_bundle &bundle = *instance->bundle;
  instance->state = RunState::Created;
  if (shapes && count != bundle.inputs.count)
    return refuse(error, TSR_ERROR_SHAPE, "number of inputs|%u|%u", count,
                  bundle.inputs.count);
  i64 *dims = instance->inputDims;
  for (u32 i = 0; i < bundle.inputs.count; ++i) {
    if (takeShape(*instance, i, shapes ? shapes + i : nullptr, dims, error) !=
        TSR_OK)
      return TSR_REFUSED;
    dims += bundle.inputs[i].vector<Dim>(field::kDims).count;
  }
  // A size read from a register that nothing wrote is refused as negative.
  for (u32 i = 0; i < bundle.registers; ++i)
    instance->registers[i] = -1;
  if (runScalars(*instance, bundle.prepareBegin, bundle.prepareEnd, error) !=
          TSR_OK ||
      checkSymbols(*instance, error) != TSR_OK ||
      computeSizes(*instance, error) != TSR_OK)
    return TSR_REFUSED;
  for (u32 i = 0; i < bundle.pools.count; ++i) {
    PoolState &pool = instance->pools[i];
    pool.need = 0;
    pool.first = kNone;
    if (bundle.pools[i].get<u8>(field::kGrowing))
      continue;
    pool.need = Placer(*instance, i).run();
    if (pool.need >= format::kSizeLimit)
      return refuse(
          error, TSR_ERROR_SHAPE,
          "arena|more than 2^47 bytes|less|the input shapes are too large");
  }
  instance->state = RunState::Prepared;
  return instance->anyState ? tsr_reset(instance, nullptr), TSR_OK : TSR_OK;
}

extern "C" uint64_t tsr_pool_bytes(const tsr_instance_t *instance,
                                   uint32_t pool) {
  return pool < TSR_MAX_POOLS ? instance->pools[pool].need : 0;
}

extern "C" tsr_status_t tsr_set_pool(tsr_instance_t *instance, uint32_t index,
                                     void *memory, uint64_t bytes,
                                     tsr_error_t *error) {
  if (!instance || index >= instance->bundle->pools.count)
    return refuse(error, TSR_ERROR_ARGUMENT, "tsr_set_pool|no such pool");
  Table table = instance->bundle->pools[index];
  PoolState &pool = instance->pools[index];
  bool growing = table.get<u8>(field::kGrowing) != 0;
  u32 alignment = larger<u32>(table.get<u32>(field::kAlignment), 64);
  bool suspended = instance->state == RunState::Suspended;
  u64 needed = growing ? (suspended ? pool.bytes : 0) : pool.need;
  if ((!memory && bytes) || bytes < needed ||
      (reinterpret_cast<uintptr_t>(memory) & (alignment - 1)))
    return refuse(error, TSR_ERROR_MEMORY,
                  "memory of pool '%s'|%lu bytes|%lu bytes aligned to %u",
                  table.text(field::kPoolName), bytes, needed, alignment);
  pool.memory = static_cast<u8 *>(memory);
  pool.bytes = bytes;
  if (!suspended && !growing && instance->anyState)
    (void)tsr_reset(instance, nullptr);
  return TSR_OK;
}

extern "C" tsr_status_t tsr_reset(tsr_instance_t *instance,
                                  tsr_error_t *error) {
  if (!instance || instance->state == RunState::Created)
    return refuse(error, TSR_ERROR_ARGUMENT,
                  "tsr_reset|an unprepared instance");
  for (u32 i = 0; i < instance->bundle->buffers.count; ++i) {
    const Buffer &b = instance->buffer(i);
    if (b.kind != BufferKind::State || b.aliasOf != kNone)
      continue;
    PoolState &pool = instance->pools[b.pool];
    const Place &place = instance->places[i];
    if (pool.memory && within(place.planned, place.size, pool.bytes))
      setBytes(pool.memory + place.planned, 0, place.size);
  }
  return TSR_OK;
}

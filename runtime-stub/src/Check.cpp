// The structure of the plan: every number that is used as an index, a size or a
// place is compared with what it points into, once, so that the interpreter
// need not. What can only be known during a run (sizes from registers, which
// dynamic buffers exist) is checked there.
#include "runtime-stub/src/Bundle.h"

#include "runtime-stub/include/tessera/kernel_abi.h"

namespace tsr {
namespace {

class PlanChecker {
public:
  PlanChecker(tsr_bundle &bundle, bool plain, tsr_error_t *error)
      : b(bundle), plain(plain), error(error) {}

  bool run() {
    return pools() && entry() && buffers() && kernels() && scalars() &&
           commands() && tensors(b.inputs, true) && tensors(b.outputs, false);
  }

private:
  static constexpr i64 kNothing = kMinI64;
  /// Refuses; `what` and `index` name the place, `found` is followed by values.
  bool bad(const char *what, u32 index, const char *needed, const char *found,
           i64 v0 = kNothing, i64 v1 = kNothing, i64 v2 = kNothing,
           i64 v3 = kNothing, i64 v4 = kNothing, i64 v5 = kNothing,
           i64 v6 = kNothing) {
    char values[160];
    Text text(values, sizeof(values));
    const i64 all[] = {v0, v1, v2, v3, v4, v5, v6, kNothing};
    for (u32 i = 0; all[i] != kNothing; ++i) {
      text.put(i ? ", " : " ");
      if (all[i] < 0)
        text.put('-');
      text.put(all[i] < 0 ? u64(0) - u64(all[i]) : u64(all[i]));
    }
    refuse(error, TSR_ERROR_STRUCTURE,
           "%s %u|%s%s|%s|the bundle was made by a faulty tool: compile the "
           "model again",
           what, index, found, values, needed);
    return false;
  }
  bool isRegister(u32 r) const { return r < b.registers; }
  bool isRegisterOrNone(u32 r) const { return r == kNone || r < b.registers; }
  bool isBuffer(u32 i) const { return i < b.buffers.count; }
  const Buffer &root(u32 i) const {
    const Buffer &buffer = b.buffers.at(i);
    return buffer.aliasOf == kNone ? buffer : b.buffers.at(buffer.aliasOf);
  }
  bool isGrowing(const Buffer &buffer) const {
    return buffer.kind != BufferKind::Constant &&
           b.pools[buffer.pool].get<u8>(field::kGrowing);
  }

  bool pools() {
    if (b.pools.count > TSR_MAX_POOLS)
      return bad("pool", b.pools.count, "at most 16 pools", "one more");
    for (u32 i = 0; i < b.pools.count; ++i) {
      Table pool = b.pools[i];
      u32 alignment = pool.get<u32>(field::kAlignment);
      if (!alignment || (alignment & (alignment - 1)) || alignment > 65536)
        return bad("pool", i, "a power of two up to 65536", "alignment",
                   i64(alignment));
      u32 device = pool.get<u8>(field::kPoolDevice);
      if (device >= b.deviceCount || (device && pool.get<u8>(field::kGrowing)))
        return bad("pool", i, "an existing device, 0 for a growing pool",
                   "device", i64(device));
      u64 bytes = pool.get<u64>(field::kStaticBytes);
      if (bytes >= format::kSizeLimit ||
          (bytes && pool.get<u8>(field::kGrowing)))
        return bad("pool", i, "a size that memory can have", "static bytes",
                   i64(bytes));
    }
    return true;
  }

  bool entry() {
    TableVector entries = b.manifest.tables(field::kEntries);
    if (entries.count != 1)
      return bad("entry", 0, "exactly one", "entries", i64(entries.count));
    Table entry = entries[0];
    b.inputs = entry.tables(field::kInputs);
    b.outputs = entry.tables(field::kOutputs);
    Vector<u32> prepare = entry.vector<u32>(field::kPrepare);
    Vector<u32> range = entry.vector<u32>(field::kEntryCommands);
    if (prepare.count != 2 || prepare[0] > prepare[1] ||
        prepare[1] > b.scalars.count || range.count != 2 ||
        range[0] > range[1] || range[1] > b.commands.count)
      return bad("entry", 0, "a range inside the program", "another range");
    b.prepareBegin = prepare[0];
    b.prepareEnd = prepare[1];
    b.commandBegin = range[0];
    b.commandEnd = range[1];
    return true;
  }

  bool buffers() {
    for (u32 i = 0; i < b.buffers.count; ++i)
      if (!buffer(i, b.buffers.at(i)))
        return false;
    return true;
  }

  bool buffer(u32 i, const Buffer &buffer) {
    if (u8(buffer.kind) >= u8(BufferKind::kCount))
      return bad("buffer", i, "a known kind", "kind", i64(buffer.kind));
    if (buffer.sizeRegister != kNone ? !isRegister(buffer.sizeRegister)
                                     : buffer.sizeBytes >= format::kSizeLimit)
      return bad("buffer", i, "a register or a size below 2^47",
                 "register, bytes", i64(buffer.sizeRegister),
                 i64(buffer.sizeBytes));
    if (buffer.aliasOf != kNone)
      return alias(i, buffer);
    if (buffer.aliasOffset)
      return bad("buffer", i, "no alias offset without an alias", "",
                 i64(buffer.aliasOffset));
    if (buffer.kind == BufferKind::Constant)
      return constant(i, buffer);
    if (buffer.pool >= b.pools.count)
      return bad("buffer", i, "an existing pool", "pool", i64(buffer.pool));
    bool growing = isGrowing(buffer);
    if (buffer.kind == BufferKind::Dynamic
            ? !growing
            : growing && buffer.kind != BufferKind::Output)
      return bad("buffer", i,
                 "dynamic buffers and outputs alone in a growing pool",
                 "kind, in pool", i64(buffer.kind), i64(buffer.pool));
    if (!growing && buffer.firstCommand > buffer.lastCommand)
      return bad("buffer", i, "first <= last", "lifetime",
                 i64(buffer.firstCommand), i64(buffer.lastCommand));
    if (buffer.hasOffset) {
      Table pool = b.pools[buffer.pool];
      if (growing || buffer.sizeRegister != kNone ||
          (buffer.offset & (pool.get<u32>(field::kAlignment) - 1)) ||
          !within(buffer.offset, buffer.sizeBytes,
                  pool.get<u64>(field::kStaticBytes)))
        return bad("buffer", i, "an aligned place inside its pool", "bytes at",
                   i64(buffer.sizeBytes), i64(buffer.offset));
    }
    return true;
  }

  bool alias(u32 i, const Buffer &buffer) {
    if (!isBuffer(buffer.aliasOf) ||
        b.buffers.at(buffer.aliasOf).aliasOf != kNone)
      return bad("buffer", i, "an alias of a buffer that is none itself",
                 "alias of", i64(buffer.aliasOf));
    const Buffer &target = b.buffers.at(buffer.aliasOf);
    bool known = buffer.sizeRegister == kNone && target.sizeRegister == kNone;
    if (buffer.aliasOffset >= format::kSizeLimit ||
        (known &&
         !within(buffer.aliasOffset, buffer.sizeBytes, target.sizeBytes)))
      return bad("buffer", i, "a range inside the aliased buffer", "bytes at",
                 i64(buffer.sizeBytes), i64(buffer.aliasOffset));
    return true;
  }

  bool constant(u32 i, const Buffer &buffer) {
    if (buffer.segment >= b.segments.count ||
        b.segments[buffer.segment].get<u8>(field::kSegmentKind) !=
            u8(SegmentKind::Data) ||
        buffer.sizeRegister != kNone ||
        (buffer.offset & (format::kConstantAlignment - 1)) ||
        !within(buffer.offset, buffer.sizeBytes,
                b.segments[buffer.segment].get<u64>(field::kSegmentSize)))
      return bad("constant", i, "an aligned range of a data segment",
                 "bytes at, of segment", i64(buffer.sizeBytes),
                 i64(buffer.offset), i64(buffer.segment));
    return true;
  }

  bool kernels() {
    for (u32 i = 0; i < b.kernels.count; ++i)
      if (b.kernels[i].get<u32>(field::kWorkgroups) == 0)
        return bad("kernel", i, "at least one workgroup", "none");
    return true;
  }

  bool scalars() {
    for (u32 i = 0; i < b.scalars.count; ++i)
      if (!scalar(i, b.scalars.at(i)))
        return false;
    return true;
  }

  bool scalar(u32 i, const Scalar &s) {
    bool good = isRegister(s.dst);
    switch (s.op) {
    case ScalarOp::Constant:
      break;
    case ScalarOp::InputDim:
      good &= s.a < b.inputs.count &&
              s.b < b.inputs[s.a].vector<Dim>(field::kDims).count;
      break;
    case ScalarOp::Select:
      good &= isRegister(s.a) && isRegister(s.b) && isRegister(s.c);
      break;
    case ScalarOp::LoadInt:
      // While preparing nothing but constants exists.
      good &= isBuffer(s.a) && s.imm >= 0 && s.imm < i64(format::kSizeLimit) &&
              elementBytes(i32(s.b), 2) > 0 && isInteger(s.b) &&
              !(i >= b.prepareBegin && i < b.prepareEnd &&
                root(s.a).kind != BufferKind::Constant);
      break;
    case ScalarOp::Add:
    case ScalarOp::Sub:
    case ScalarOp::Mul:
    case ScalarOp::FloorDiv:
    case ScalarOp::CeilDiv:
    case ScalarOp::Mod:
    case ScalarOp::Min:
    case ScalarOp::Max:
    case ScalarOp::Equal:
    case ScalarOp::Less:
    case ScalarOp::TruncDiv:
      good &= isRegister(s.a) && isRegister(s.b);
      break;
    default:
      good = false;
    }
    if (!good)
      return bad("scalar instruction", i, "operands that exist",
                 "operation, of, to", i64(s.op), i64(s.a), i64(s.b), i64(s.c),
                 i64(s.dst));
    return true;
  }

  static bool isInteger(u32 elementType) {
    switch (elementType) {
    case 2:
    case 3:
    case 4:
    case 5:
    case 6:
    case 7:
    case 9:
    case 12:
    case 13:
      return true;
    }
    return false;
  }

  bool commands() {
    for (u32 i = b.commandBegin; i < b.commandEnd; ++i) {
      const Command &c = b.commands.at(i);
      if (!command(i, c))
        return bad("command", i,
                   "operands that exist and buffers that live there",
                   "kind, of", i64(c.kind), i64(c.a), i64(c.b), i64(c.c),
                   i64(c.d), i64(c.e), i64(c.f));
    }
    return true;
  }

  /// The buffer may be touched by command `at`.
  bool use(u32 at, u32 index) const {
    if (!isBuffer(index))
      return false;
    const Buffer &buffer = root(index);
    if (buffer.kind == BufferKind::Constant ||
        buffer.kind == BufferKind::State || isGrowing(buffer))
      return true;
    return buffer.firstCommand <= at && at <= buffer.lastCommand;
  }
  bool write(u32 at, u32 index) const {
    return use(at, index) && root(index).kind != BufferKind::Constant;
  }
  bool target(u32 to) const {
    return to >= b.commandBegin && to <= b.commandEnd;
  }

  bool command(u32 i, const Command &c) {
    if (c.flags & ~kFlushDenormals)
      return false;
    switch (c.kind) {
    case CommandKind::Dispatch: {
      if (c.a >= b.kernels.count || !within(c.b, c.c, b.operands.count) ||
          !within(c.d, c.e, b.operands.count) || !isRegisterOrNone(c.f))
        return false;
      for (u32 o = 0; o < c.c; ++o)
        if (!use(i, b.operands[c.b + o]))
          return false;
      for (u32 s = 0; s < c.e; ++s)
        if (!isRegister(b.operands[c.d + s]))
          return false;
      b.maxOperands = larger(b.maxOperands, c.c);
      b.maxScalars = larger(b.maxScalars, c.e);
      return true;
    }
    case CommandKind::Scalars:
      return within(c.a, c.b, b.scalars.count) && loads(i, c);
    case CommandKind::Copy:
      return use(i, c.a) && write(i, c.b) && isRegister(c.c) &&
             isRegisterOrNone(c.d) && isRegisterOrNone(c.e);
    case CommandKind::Jump:
      return target(c.a);
    case CommandKind::BranchZero:
      return isRegister(c.a) && target(c.b);
    case CommandKind::Allocate:
      return dynamic(c.a) && isRegister(c.b);
    case CommandKind::Release:
      return dynamic(c.a);
    case CommandKind::Bind:
      return bind(i, c);
    case CommandKind::Check:
      return isRegister(c.a) && c.b < b.strings.count;
    case CommandKind::Fence:
      return c.a < b.deviceCount;
    case CommandKind::Launch:
      return launch(i, c);
    case CommandKind::Fill:
      return write(i, c.a) && c.b < 256 && isRegister(c.c);
    case CommandKind::StoreInt:
      return write(i, c.a) && isRegister(c.b) && isInteger(c.d);
    default:
      return false;
    }
  }
  bool launch(u32 at, const Command &c) const {
    bool segment =
        c.c == kNone || (c.c < b.segments.count &&
                         b.segments[c.c].get<u8>(field::kSegmentKind) ==
                             u8(SegmentKind::Device));
    return c.a > 0 && c.a < b.deviceCount && c.b > 0 &&
           c.b < b.commandEnd - at && segment &&
           (c.d == kNone || c.d < b.strings.count) && known(c);
  }
  /// The buffers that a launch's segment knows.
  bool known(const Command &c) const {
    if (c.f == kNone)
      return true;
    if (c.c == kNone || c.f >= b.operands.count ||
        !within(u64(c.f) + 1, b.operands[c.f], b.operands.count))
      return false;
    for (u32 o = 0; o < b.operands[c.f]; ++o)
      if (!isBuffer(b.operands[c.f + 1 + o]))
        return false;
    return true;
  }
  /// The buffers that a Scalars command reads live.
  bool loads(u32 at, const Command &c) const {
    for (u32 i = c.a; i < c.a + c.b; ++i)
      if (b.scalars.at(i).op == ScalarOp::LoadInt &&
          !use(at, b.scalars.at(i).a))
        return false;
    return true;
  }
  bool dynamic(u32 index) const {
    return isBuffer(index) && b.buffers.at(index).aliasOf == kNone &&
           isGrowing(b.buffers.at(index));
  }
  bool bind(u32 i, const Command &c) const {
    if (!write(i, c.a) || !write(i, c.b))
      return false;
    const Buffer &to = b.buffers.at(c.a), &from = b.buffers.at(c.b);
    return to.aliasOf == kNone && from.aliasOf == kNone && to.pool == from.pool;
  }

  bool tensors(TableVector list, bool isInput) {
    for (u32 i = 0; i < list.count; ++i)
      if (!tensor(isInput ? "input" : "output", i, list[i], isInput))
        return false;
    return parts(isInput ? "input" : "output", list);
  }

  static u8 kindAt(TableVector list, u32 i) {
    return i < list.count ? list[i].get<u8>(field::kTensorKind)
                          : u8(TSR_PART_TENSOR);
  }
  static bool isElements(u8 kind) {
    return kind == TSR_PART_ELEMENTS || kind == TSR_PART_STRING_ELEMENTS;
  }

  /// What is said of kinds in FORMAT.md: hosts join the parts without a look.
  bool parts(const char *what, TableVector list) {
    for (u32 i = 0; i < list.count; ++i) {
      u8 kind = kindAt(list, i), next = kindAt(list, i + 1);
      if (kind == TSR_PART_TENSOR)
        continue;
      if (plain)
        return bad(what, i, "kind 0 in format version 1", "kind", i64(kind));
      i32 type = list[i].get<i32>(field::kElementType);
      u32 rank = list[i].vector<Dim>(field::kDims).count;
      if (!isPart(kind, type, rank))
        return bad(what, i, "the type and rank of its kind",
                   "kind, of type, rank", i64(kind), i64(type), i64(rank));
      bool isLast = i + 1 == list.count;
      if (isElements(kind) && next != TSR_PART_EXTENTS)
        return bad(what, i, "the extents (kind 3) behind elements",
                   isLast ? "nothing" : "kinds", isLast ? kNothing : i64(kind),
                   i64(next));
      if (kind == TSR_PART_EXTENTS && (!i || !isElements(kindAt(list, i - 1))))
        return bad(what, i, "elements (kind 2 or 5) before extents", "others");
      if (kind == TSR_PART_PRESENT &&
          (isLast || next == TSR_PART_EXTENTS || next == TSR_PART_PRESENT))
        return bad(what, i, "the value of the optional behind it",
                   isLast ? "nothing" : "kinds", isLast ? kNothing : i64(kind),
                   i64(next));
    }
    return true;
  }
  static bool isPart(u8 kind, i32 type, u32 rank) {
    constexpr i32 kInt32 = 6, kInt64 = 7, kBool = 9;
    switch (kind) {
    case TSR_PART_STRINGS:
      return type == kInt32 && rank >= 1;
    case TSR_PART_ELEMENTS:
      return rank == 1 && elementBytes(type, 2) == 2 * elementBytes(type, 1);
    case TSR_PART_EXTENTS:
      return type == kInt64 && rank == 2;
    case TSR_PART_PRESENT:
      return type == kBool && rank == 0;
    default: // strings of a sequence
      return type == kInt32 && rank == 2;
    }
  }

  bool tensor(const char *what, u32 i, Table tensor, bool isInput) {
    i32 type = tensor.get<i32>(field::kElementType);
    if (elementBytes(type, 0) < 0)
      return bad(what, i, "an element type of ONNX", "type", i64(type));
    if (tensor.get<u8>(field::kTensorKind) > TSR_PART_STRING_ELEMENTS)
      return bad(what, i, "a known kind", "another");
    u32 index = tensor.get<u32>(field::kTensorBuffer);
    if (!isBuffer(index))
      return bad(what, i, "an existing buffer", "buffer", i64(index));
    const Buffer &buffer = root(index);
    if (isInput ? b.buffers.at(index).kind != BufferKind::Input ||
                      b.buffers.at(index).aliasOf != kNone ||
                      buffer.firstCommand > b.commandBegin
                : buffer.kind != BufferKind::Constant &&
                      buffer.kind != BufferKind::State && !isGrowing(buffer) &&
                      buffer.lastCommand + u64(1) < b.commandEnd)
      return bad(what, i, "a buffer that lives when the host uses it",
                 "buffer, of commands", i64(index), i64(buffer.firstCommand),
                 i64(buffer.lastCommand));
    Vector<Dim> dims = tensor.vector<Dim>(field::kDims);
    TableVector names = tensor.tables(field::kDimNames);
    if (names.count && names.count != dims.count)
      return bad(what, i, "a name for each axis", "names for", i64(names.count),
                 i64(dims.count));
    for (u32 axis = 0; axis < dims.count; ++axis) {
      const Dim &dim = dims.at(axis);
      bool needsRegister = dim.value < 0 && !isInput;
      if (dim.value < -1 || dim.min > dim.max || dim.multiple < 1 ||
          !isRegisterOrNone(dim.reg) || (needsRegister && dim.reg == kNone))
        return bad(what, i, "a contract that can be met", "axis, by", i64(axis),
                   i64(dim.value), i64(dim.min), i64(dim.max),
                   i64(dim.multiple));
    }
    u32 &axes = isInput ? b.inputAxes : b.outputAxes;
    if (u64(axes) + dims.count > 0x00ffffff)
      return bad(what, i, "fewer axes", "too many");
    axes += dims.count;
    return !isInput || defaultValue(i, tensor, dims, type);
  }

  bool defaultValue(u32 i, Table tensor, Vector<Dim> dims, i32 type) {
    u32 index = tensor.get<u32>(field::kDefaultBuffer, kNone);
    Vector<i64> shape = tensor.vector<i64>(field::kDefaultDims);
    if (index == kNone)
      return true;
    i64 count = 1;
    bool good = isBuffer(index) && root(index).kind == BufferKind::Constant &&
                shape.count == dims.count;
    for (u32 axis = 0; good && axis < shape.count; ++axis)
      good = shape[axis] >= 0 &&
             !__builtin_mul_overflow(count, shape[axis], &count);
    i64 bytes = good ? elementBytes(type, count) : -1;
    if (bytes < 0 || u64(bytes) > b.buffers.at(index).sizeBytes)
      return bad("default of input", i, "a constant of its shape", "buffer",
                 i64(index));
    return true;
  }

  tsr_bundle &b;
  bool plain; ///< format version 1
  tsr_error_t *error;
};

} // namespace

i64 elementBytes(i32 elementType, i64 count) {
  i64 bits;
  switch (elementType) {
  case 1:
  case 6:
  case 12: // float, int32, uint32
    bits = 32;
    break;
  case 2:
  case 3:
  case 9: // uint8, int8, bool
  case 17:
  case 18:
  case 19:
  case 20:
  case 24: // float8
    bits = 8;
    break;
  case 4:
  case 5:
  case 10:
  case 16: // uint16, int16, float16, bfloat16
    bits = 16;
    break;
  case 7:
  case 11:
  case 13:
  case 14: // int64, double, uint64, complex64
  case 8:  // string: a handle
    bits = 64;
    break;
  case 15: // complex128
    bits = 128;
    break;
  case 21:
  case 22:
  case 23: // uint4, int4, float4e2m1
    bits = 4;
    break;
  case 25:
  case 26: // uint2, int2
    bits = 2;
    break;
  default:
    return -1;
  }
  i64 total;
  if (count < 0 || __builtin_mul_overflow(count, bits, &total) ||
      u64(total) >= format::kSizeLimit * 8)
    return -1;
  return (total + 7) / 8;
}

tsr_status_t checkPlan(tsr_bundle &bundle, tsr_error_t *error) {
  Table m = bundle.manifest;
  bundle.registers = m.get<u32>(field::kRegisters);
  bundle.buffers = m.vector<Buffer>(field::kBuffers);
  bundle.scalars = m.vector<Scalar>(field::kScalars);
  bundle.commands = m.vector<Command>(field::kCommands);
  bundle.operands = m.vector<u32>(field::kOperands);
  bundle.pools = m.tables(field::kPools);
  bundle.kernels = m.tables(field::kKernels);
  bundle.variants = m.tables(field::kVariants);
  bundle.segments = m.tables(field::kSegments);
  bundle.strings = m.tables(field::kStrings);
  bundle.devices = m.tables(field::kDevices);
  bundle.deviceCount = larger<u32>(bundle.devices.count, 1);
  bundle.maxOperands = bundle.maxScalars = 0;
  bundle.inputAxes = bundle.outputAxes = 0;
  if (bundle.registers > (1u << 24))
    return refuse(error, TSR_ERROR_STRUCTURE, "registers|%u|at most %u",
                  bundle.registers, 1u << 24);
  bool plain = load<u32>(bundle.image + format::kVersionAt) ==
               format::kFormatVersion;
  if (bundle.deviceCount > (plain ? 1 : TSR_MAX_DEVICES))
    return refuse(error, TSR_ERROR_STRUCTURE,
                  "devices|%u|at most %u in this format version|the bundle was "
                  "made by a faulty tool: compile the model again",
                  bundle.deviceCount, u32(plain ? 1 : TSR_MAX_DEVICES));
  if (!PlanChecker(bundle, plain, error).run())
    return TSR_REFUSED;
  return checkDevices(bundle, error);
}

} // namespace tsr

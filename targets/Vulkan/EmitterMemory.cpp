// The emitter's half that speaks spirv: variables, accesses, built-ins.
#include "mlir/Dialect/SPIRV/IR/SPIRVOps.h"
#include "targets/Cpu/Convert.h"
#include "targets/Cpu/Expr.h"
#include "targets/Vulkan/Emitter.h"

using namespace mlir;

namespace tessera::vulkan {

static spirv::ModuleOp moduleOf(OpBuilder &b) {
  Operation *op = b.getInsertionBlock()->getParentOp();
  auto module = dyn_cast<spirv::ModuleOp>(op);
  return module ? module : op->getParentOfType<spirv::ModuleOp>();
}

/// A variable of the module; declared at its start, in the order asked for.
static spirv::GlobalVariableOp declare(OpBuilder &b, Location loc, Type pointee,
                                       spirv::StorageClass storage,
                                       StringRef name) {
  OpBuilder::InsertionGuard guard(b);
  spirv::ModuleOp module = moduleOf(b);
  Operation *function = *module.getOps<spirv::FuncOp>().begin();
  b.setInsertionPoint(function);
  return spirv::GlobalVariableOp::create(
      b, loc, spirv::PointerType::get(pointee, storage), name,
      FlatSymbolRefAttr());
}

Value Emitter::builtin(unsigned which, unsigned axis) {
  Value &vector = builtins[which][0];
  OpBuilder::InsertionGuard guard(b);
  auto function = b.getInsertionBlock()->getParentOp();
  while (!::mlir::isa<spirv::FuncOp>(function))
    function = function->getParentOp();
  Block &entry = cast<spirv::FuncOp>(function).getBody().front();
  if (!vector) {
    auto var =
        declare(b, loc, VectorType::get({3}, i32()), spirv::StorageClass::Input,
                which ? "LocalInvocationId" : "WorkgroupId");
    auto kind =
        which ? spirv::BuiltIn::LocalInvocationId : spirv::BuiltIn::WorkgroupId;
    var->setAttr("built_in", b.getStringAttr(spirv::stringifyBuiltIn(kind)));
    b.setInsertionPointToStart(&entry);
    Value address = spirv::AddressOfOp::create(b, loc, var);
    vector = spirv::LoadOp::create(b, loc, address);
  }
  b.setInsertionPointAfterValue(vector);
  return spirv::CompositeExtractOp::create(
      b, loc, vector, ArrayRef<int32_t>{static_cast<int32_t>(axis)});
}

void Emitter::barrier() {
  spirv::ControlBarrierOp::create(b, loc, spirv::Scope::Workgroup,
                                  spirv::Scope::Workgroup,
                                  spirv::MemorySemantics::AcquireRelease |
                                      spirv::MemorySemantics::WorkgroupMemory);
}

// --- vectors
// ------------------------------------------------------------------------

Value Emitter::lane(Value v, unsigned i) {
  return spirv::CompositeExtractOp::create(
      b, loc, v, ArrayRef<int32_t>{static_cast<int32_t>(i)});
}

Value Emitter::quad(ArrayRef<Value> lanes) {
  return spirv::CompositeConstructOp::create(b, loc, quadOf(lanes[0].getType()),
                                             lanes);
}

Value Emitter::quadSplat(Value scalar) {
  if (::mlir::isa<VectorType>(scalar.getType()))
    return scalar;
  return quad({scalar, scalar, scalar, scalar});
}

Value Emitter::splatLane(Value quad, int i) {
  return spirv::VectorShuffleOp::create(b, loc, quad.getType(), quad, quad,
                                        b.getI32ArrayAttr({i, i, i, i}));
}

// --- storage
// ------------------------------------------------------------------------

/// Float types that lie in memory as integers.
static bool storedAsBits(Type element) {
  return isa<FloatType>(element) && !element.isF16() && !element.isF32() &&
         !element.isF64();
}

Type Emitter::storageType(Type element) {
  if (::mlir::isa<FloatType>(element) && !storedAsBits(element))
    return element;
  unsigned bits =
      ::mlir::isa<FloatType, IntegerType>(element) ? storageBits(element) : 0;
  return bits >= 8 && bits <= 64 ? b.getIntegerType(bits) : Type();
}

Value Emitter::widen(Value raw, Type element) {
  if (element.isF16())
    return arith::ExtFOp::create(b, loc, sameShape(raw, f32()), raw);
  return cpu::widenStorage(*this, raw, element);
}

Value Emitter::narrow(Value v, Type element) {
  if (element.isF16())
    return arith::TruncFOp::create(b, loc, sameShape(v, element), v);
  return cpu::narrowStorage(*this, v, element);
}

Value Emitter::addressOf(Buffer &t) {
  if (!t.address) {
    Type scalar = storageType(t.element);
    Type entry = t.lanes == 4 ? Type(quadOf(scalar)) : scalar;
    unsigned stride = scalar.getIntOrFloatBitWidth() / 8 * t.lanes;
    auto array = spirv::ArrayType::get(entry, t.count / t.lanes, stride);
    auto block =
        spirv::StructType::get({array}, {0}, {},
                               {spirv::StructType::StructDecorationInfo(
                                   spirv::Decoration::Block, b.getUnitAttr())});
    unsigned number = kernel.bindings.size();
    kernel.bindings.push_back(std::move(t.binding));
    auto var = declare(b, loc, block, spirv::StorageClass::StorageBuffer,
                       ("b" + llvm::Twine(number)).str());
    var->setAttr("descriptor_set", b.getI32IntegerAttr(0));
    var->setAttr("binding", b.getI32IntegerAttr(number));
    var->setAttr("restrict", b.getUnitAttr());
    if (!t.written)
      var->setAttr("non_writable", b.getUnitAttr());
    OpBuilder::InsertionGuard guard(b);
    auto function = b.getInsertionBlock()->getParentOp();
    while (!::mlir::isa<spirv::FuncOp>(function))
      function = function->getParentOp();
    b.setInsertionPointToStart(
        &cast<spirv::FuncOp>(function).getBody().front());
    t.address = spirv::AddressOfOp::create(b, loc, var);
  }
  return t.address;
}

Value Emitter::entry(Value array, Index i, bool inStruct) {
  SmallVector<Value> path;
  if (inStruct)
    path.push_back(
        spirv::ConstantOp::create(b, loc, i32(), b.getI32IntegerAttr(0)));
  path.push_back(value(i));
  return spirv::AccessChainOp::create(b, loc, array, path);
}

Value Emitter::loadRaw(Buffer &t, Index i) {
  return spirv::LoadOp::create(b, loc, entry(addressOf(t), i, true));
}

Value Emitter::load(Buffer &t, Index offset) {
  addressOf(t);
  if (t.lanes == 1)
    return widen(loadRaw(t, offset), t.element);
  Value whole = loadRaw(t, div(offset, 4));
  Index which = rem(offset, 4);
  Value raw = which.known() ? lane(whole, which.c)
                            : Value(spirv::VectorExtractDynamicOp::create(
                                  b, loc, whole, value(which)));
  return widen(raw, t.element);
}

Value Emitter::loadQuad(Buffer &t, Index quadIndex) {
  addressOf(t);
  if (t.lanes == 4)
    return widen(loadRaw(t, quadIndex), t.element);
  SmallVector<Value> lanes;
  Index first = mul(quadIndex, 4);
  for (unsigned i = 0; i < 4; ++i)
    lanes.push_back(load(t, add(first, i)));
  return quad(lanes);
}

void Emitter::store(Buffer &t, Index offset, Value v) {
  addressOf(t);
  assert(t.lanes == 1 && "a part of a vector is never stored");
  spirv::StoreOp::create(b, loc, entry(addressOf(t), offset, true),
                         narrow(v, t.element));
}

void Emitter::storeQuad(Buffer &t, Index quadIndex, Value v) {
  addressOf(t);
  if (t.lanes == 4) {
    spirv::StoreOp::create(b, loc, entry(addressOf(t), quadIndex, true),
                           narrow(v, t.element));
    return;
  }
  Index first = mul(quadIndex, 4);
  for (unsigned i = 0; i < 4; ++i)
    store(t, add(first, i), lane(v, i));
}

LogicalResult Emitter::checkSize(uint64_t bytes, StringRef what) {
  // Indices are signed, and a grid is rounded up.
  constexpr uint64_t addressable = (uint64_t(1) << 31) - (uint64_t(1) << 20);
  uint64_t limit = std::min<uint64_t>(device.maxBufferRange, addressable);
  if (bytes <= limit)
    return success();
  return reasons.no() << what << " of " << bytes << " bytes exceeds the GPU's "
                      << limit << " a buffer";
}

Buffer &Emitter::pack(unsigned input, Type element,
                      std::vector<uint8_t> bytes) {
  (void)checkSize(bytes.size(), "a packed constant");
  auto buffer = std::make_unique<Buffer>();
  buffer->element = element;
  buffer->count = bytes.size() * 8 / storageBits(element);
  buffer->binding = {BindingKind::Packed, input, bytes.size(),
                     std::move(bytes)};
  packed.push_back(std::move(buffer));
  return *packed.back();
}

Buffer &Emitter::reinterpret(Buffer &t, Type element) {
  auto buffer = std::make_unique<Buffer>();
  buffer->element = element;
  buffer->count = t.count * storageBits(t.element) / storageBits(element);
  buffer->binding = t.binding;
  packed.push_back(std::move(buffer));
  return *packed.back();
}

Value Emitter::shared(int64_t count, Type type) {
  auto var = declare(b, loc, spirv::ArrayType::get(type, count),
                     spirv::StorageClass::Workgroup,
                     ("s" + llvm::Twine(sharedCount++)).str());
  return spirv::AddressOfOp::create(b, loc, var);
}

Value Emitter::loadShared(Value array, Index i) {
  return spirv::LoadOp::create(b, loc, entry(array, i, false));
}

void Emitter::storeShared(Value array, Index i, Value v) {
  spirv::StoreOp::create(b, loc, entry(array, i, false), v);
}

} // namespace tessera::vulkan

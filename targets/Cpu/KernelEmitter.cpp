#include "targets/Cpu/KernelEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Matchers.h"
#include "targets/Cpu/Convert.h"

using namespace mlir;

namespace tessera::cpu {

// --- types -------------------------------------------------------------------

Type KernelEmitter::valueType(Type element) {
  MLIRContext *ctx = element.getContext();
  if (auto f = dyn_cast<FloatType>(element))
    return f.getWidth() >= 64 ? Type(Float64Type::get(ctx)) : Type(Float32Type::get(ctx));
  if (auto i = dyn_cast<IntegerType>(element)) {
    if (i.getWidth() == 1)
      return IntegerType::get(ctx, 1);
    return IntegerType::get(ctx, std::max(8u, i.getWidth()));
  }
  return element;
}

Type KernelEmitter::withLanes(Type scalar, Lanes lanes) {
  if (lanes.isScalar())
    return scalar;
  return VectorType::get({lanes.n}, scalar, {lanes.scalable});
}

Type KernelEmitter::sameShape(Value like, Type scalar) {
  if (auto v = dyn_cast<VectorType>(like.getType()))
    return v.clone(scalar);
  return scalar;
}

Type KernelEmitter::scalarType(Type type) {
  if (auto v = dyn_cast<VectorType>(type))
    return v.getElementType();
  return type;
}

unsigned KernelEmitter::storageBits(Type element) {
  if (element.isInteger(1))
    return 8;
  if (auto c = dyn_cast<ComplexType>(element))
    return 2 * c.getElementType().getIntOrFloatBitWidth();
  return element.getIntOrFloatBitWidth();
}

// --- constants and integers ----------------------------------------------------

Value KernelEmitter::intConst(Type type, int64_t v) {
  Type scalar = scalarType(type);
  TypedAttr attr = b.getIntegerAttr(scalar, APInt(scalar.getIntOrFloatBitWidth(), v, true, true));
  if (auto vec = dyn_cast<VectorType>(type))
    attr = DenseElementsAttr::get(vec, attr);
  return arith::ConstantOp::create(b, loc, attr);
}

Value KernelEmitter::floatConst(Type type, double v) {
  TypedAttr attr = b.getFloatAttr(scalarType(type), v);
  if (auto vec = dyn_cast<VectorType>(type))
    attr = DenseElementsAttr::get(vec, attr);
  return arith::ConstantOp::create(b, loc, attr);
}

std::optional<int64_t> KernelEmitter::constantOf(Value v) {
  APInt value;
  if (v && matchPattern(v, m_ConstantInt(&value)) && value.getBitWidth() <= 64)
    return value.getSExtValue();
  return std::nullopt;
}

Value KernelEmitter::add(Value a, Value c) { return b.createOrFold<arith::AddIOp>(loc, a, c); }
Value KernelEmitter::sub(Value a, Value c) { return b.createOrFold<arith::SubIOp>(loc, a, c); }
Value KernelEmitter::mul(Value a, Value c) { return b.createOrFold<arith::MulIOp>(loc, a, c); }
Value KernelEmitter::divU(Value a, Value c) { return b.createOrFold<arith::DivUIOp>(loc, a, c); }
Value KernelEmitter::remU(Value a, Value c) { return b.createOrFold<arith::RemUIOp>(loc, a, c); }
Value KernelEmitter::ceilDivU(Value a, Value c) { return divU(add(a, sub(c, 1)), c); }
Value KernelEmitter::minS(Value a, Value c) { return a == c ? a : b.createOrFold<arith::MinSIOp>(loc, a, c); }
Value KernelEmitter::maxS(Value a, Value c) { return a == c ? a : b.createOrFold<arith::MaxSIOp>(loc, a, c); }
Value KernelEmitter::cmp(arith::CmpIPredicate p, Value a, Value c) {
  return b.createOrFold<arith::CmpIOp>(loc, p, a, c);
}
Value KernelEmitter::select(Value c, Value a, Value d) {
  return a == d ? a : b.createOrFold<arith::SelectOp>(loc, c, a, d);
}
Value KernelEmitter::logicalAnd(Value a, Value c) { return b.createOrFold<arith::AndIOp>(loc, a, c); }
Value KernelEmitter::logicalOr(Value a, Value c) { return b.createOrFold<arith::OrIOp>(loc, a, c); }
Value KernelEmitter::logicalNot(Value a) {
  return b.createOrFold<arith::XOrIOp>(loc, a, intConst(a.getType(), 1));
}
Value KernelEmitter::product(ArrayRef<Value> factors) {
  Value p = idx(1);
  for (Value f : factors)
    p = mul(p, f);
  return p;
}

// --- control flow ----------------------------------------------------------------

void KernelEmitter::forLoop(Value lower, Value upper, Value step, Body body) {
  forLoop(lower, upper, step, ValueRange{}, [&](Value iv, ValueRange) {
    body(iv);
    return SmallVector<Value>{};
  });
}

SmallVector<Value> KernelEmitter::forLoop(Value lower, Value upper, Value step, ValueRange init,
                                          BodyIter body) {
  auto l = constantOf(lower), u = constantOf(upper), s = constantOf(step);
  if (l && u && *l >= *u)
    return SmallVector<Value>(init);
  if (l && u && s && *l + *s >= *u)
    return body(lower, init);
  auto loop = scf::ForOp::create(b, loc, lower, upper, step, init);
  OpBuilder::InsertionGuard guard(b);
  Block *block = loop.getBody();
  if (!block->empty() && ::mlir::isa<scf::YieldOp>(block->back()))
    block->back().erase();
  b.setInsertionPointToEnd(block);
  SmallVector<Value> next = body(loop.getInductionVar(), loop.getRegionIterArgs());
  scf::YieldOp::create(b, loc, next);
  return SmallVector<Value>(loop.getResults());
}

void KernelEmitter::forAll(ArrayRef<Value> dims, llvm::function_ref<void(ArrayRef<Value>)> body) {
  SmallVector<Value> index;
  std::function<void()> nest = [&] {
    if (index.size() == dims.size())
      return body(index);
    forLoop(dims[index.size()], [&](Value iv) {
      index.push_back(iv);
      nest();
      index.pop_back();
    });
  };
  nest();
}

void KernelEmitter::ifThen(Value cond, llvm::function_ref<void()> then) {
  if (auto c = constantOf(cond)) {
    if (*c)
      then();
    return;
  }
  auto op = scf::IfOp::create(b, loc, cond, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(op.thenBlock()->getTerminator());
  then();
}

SmallVector<Value> KernelEmitter::ifElse(Value cond, TypeRange types,
                                         llvm::function_ref<SmallVector<Value>()> then,
                                         llvm::function_ref<SmallVector<Value>()> otherwise) {
  if (auto c = constantOf(cond))
    return *c ? then() : otherwise();
  auto op = scf::IfOp::create(b, loc, types, cond, /*withElseRegion=*/true);
  auto fill = [&](Block *block, llvm::function_ref<SmallVector<Value>()> make) {
    OpBuilder::InsertionGuard guard(b);
    if (!block->empty())
      block->back().erase();
    b.setInsertionPointToEnd(block);
    SmallVector<Value> values = make();
    scf::YieldOp::create(b, loc, values);
  };
  fill(op.thenBlock(), then);
  fill(op.elseBlock(), otherwise);
  return SmallVector<Value>(op.getResults());
}

SmallVector<Value>
KernelEmitter::whileLoop(ValueRange init, llvm::function_ref<Value(ValueRange)> cond,
                         llvm::function_ref<SmallVector<Value>(ValueRange)> body) {
  SmallVector<Type> types(init.getTypes());
  SmallVector<Location> locs(types.size(), loc);
  auto op = scf::WhileOp::create(b, loc, types, init);
  OpBuilder::InsertionGuard guard(b);
  Block *before = b.createBlock(&op.getBefore(), {}, types, locs);
  Value c = cond(before->getArguments());
  scf::ConditionOp::create(b, loc, c, before->getArguments());
  Block *after = b.createBlock(&op.getAfter(), {}, types, locs);
  SmallVector<Value> next = body(after->getArguments());
  scf::YieldOp::create(b, loc, next);
  return SmallVector<Value>(op.getResults());
}

void KernelEmitter::failIf(Value cond, int32_t code) {
  if (constantOf(cond) == 0 || !status) // no status: the caller knows that it holds nowhere
    return;
  if (activeLanes && activeLanes.getType() == cond.getType())
    cond = logicalAnd(cond, activeLanes);
  if (auto vec = dyn_cast<VectorType>(cond.getType()))
    cond = vector::ReductionOp::create(b, loc, vector::CombiningKind::OR, cond);
  Value old = rawLoad(i32(), status);
  Value fresh = cmp(arith::CmpIPredicate::eq, old, intConst(i32(), TSR_KERNEL_OK));
  Value take = logicalAnd(cond, fresh);
  rawStore(select(take, intConst(i32(), code), old), status);
}

// --- memory ------------------------------------------------------------------------

Value KernelEmitter::gep(Value ptr, Type element, Value offset) {
  unsigned bits = storageBits(element);
  assert(bits % 8 == 0 && "sub-byte elements have no address");
  if (constantOf(offset) == 0)
    return ptr;
  Type unit = IntegerType::get(b.getContext(), bits);
  if (bits > 64) { // complex: count in halves
    unit = IntegerType::get(b.getContext(), bits / 2);
    offset = mul(offset, 2);
  }
  return LLVM::GEPOp::create(b, loc, ptrType(), unit, ptr, ArrayRef<LLVM::GEPArg>{LLVM::GEPArg(offset)});
}

Value KernelEmitter::rawLoad(Type type, Value ptr, unsigned align) {
  if (!align)
    align = std::max(1u, scalarType(type).getIntOrFloatBitWidth() / 8);
  return LLVM::LoadOp::create(b, loc, type, ptr, align);
}

void KernelEmitter::rawStore(Value value, Value ptr, unsigned align) {
  if (!align)
    align = std::max(1u, scalarType(value.getType()).getIntOrFloatBitWidth() / 8);
  LLVM::StoreOp::create(b, loc, value, ptr, align);
}

Value KernelEmitter::maskedLoad(Type type, Value ptr, Value mask, Value passThru) {
  unsigned align = std::max(1u, scalarType(type).getIntOrFloatBitWidth() / 8);
  return LLVM::MaskedLoadOp::create(b, loc, type, ptr, mask, passThru, align);
}

void KernelEmitter::maskedStore(Value value, Value ptr, Value mask) {
  unsigned align = std::max(1u, scalarType(value.getType()).getIntOrFloatBitWidth() / 8);
  LLVM::MaskedStoreOp::create(b, loc, value, ptr, mask, align);
}

Value KernelEmitter::offsetOf(const TensorRef &t, ArrayRef<Value> index) {
  assert(index.size() == t.rank() && "one index an axis");
  Value offset = idx(0);
  for (auto [i, stride] : llvm::zip(index, t.strides))
    offset = add(offset, mul(i, stride));
  return offset;
}

/// Type of one element in memory; sub-byte elements are handled as the byte
/// that holds one extracted element.
static Type storageType(Type element) {
  MLIRContext *ctx = element.getContext();
  if (element.isF32() || element.isF64())
    return element;
  return IntegerType::get(ctx, std::max(8u, KernelEmitter::storageBits(element)));
}

Value KernelEmitter::loadElement(const TensorRef &t, Value offset) {
  unsigned bits = storageBits(t.element);
  if (bits >= 8)
    return widenStorage(*this, rawLoad(storageType(t.element), gep(t.ptr, t.element, offset)), t.element);
  unsigned per = 8 / bits;
  Value byte = rawLoad(i8(), gep(t.ptr, i8(), divU(offset, idx(per))));
  Value shift = mul(remU(offset, idx(per)), bits);
  Value low = arith::ShRUIOp::create(b, loc, byte, arith::TruncIOp::create(b, loc, i8(), shift));
  low = arith::AndIOp::create(b, loc, low, intConst(i8(), (1 << bits) - 1));
  return widenStorage(*this, low, t.element);
}

void KernelEmitter::storeElement(const TensorRef &t, Value offset, Value value) {
  Value raw = narrowStorage(*this, value, t.element);
  unsigned bits = storageBits(t.element);
  if (bits >= 8)
    return rawStore(raw, gep(t.ptr, t.element, offset));
  unsigned per = 8 / bits;
  Value ptr = gep(t.ptr, i8(), divU(offset, idx(per)));
  Value shift = arith::TruncIOp::create(b, loc, i8(), mul(remU(offset, idx(per)), bits));
  Value mask = intConst(i8(), (1 << bits) - 1);
  Value hole = arith::XOrIOp::create(b, loc, arith::ShLIOp::create(b, loc, mask, shift), intConst(i8(), -1));
  Value keep = arith::AndIOp::create(b, loc, rawLoad(i8(), ptr), hole);
  Value put = arith::ShLIOp::create(b, loc, arith::AndIOp::create(b, loc, raw, mask), shift);
  rawStore(arith::OrIOp::create(b, loc, keep, put), ptr);
}

Value KernelEmitter::loadLanes(const TensorRef &t, Value offset, Lanes lanes, Value mask) {
  if (lanes.isScalar())
    return loadElement(t, offset);
  Type raw = withLanes(storageType(t.element), lanes);
  Value ptr = gep(t.ptr, t.element, offset);
  Value v;
  if (mask) {
    Value zero = ::mlir::isa<FloatType>(scalarType(raw)) ? floatConst(raw, 0) : intConst(raw, 0);
    v = maskedLoad(raw, ptr, mask, zero);
  } else {
    v = rawLoad(raw, ptr);
  }
  return widenStorage(*this, v, t.element);
}

void KernelEmitter::storeLanes(const TensorRef &t, Value offset, Value vector, Value mask) {
  if (!::mlir::isa<VectorType>(vector.getType()))
    return storeElement(t, offset, vector);
  Value raw = narrowStorage(*this, vector, t.element);
  Value ptr = gep(t.ptr, t.element, offset);
  if (mask)
    maskedStore(raw, ptr, mask);
  else
    rawStore(raw, ptr);
}

namespace {
/// How a tensor is addressed at a point: base offset, and its stride along the lanes.
struct Address {
  Value offset;
  Value laneStride; ///< null: the same element in all lanes
};
} // namespace

static Address addressAt(KernelEmitter &e, const TensorRef &t, const Point &p) {
  assert(t.rank() <= p.index.size() && "broadcast goes from lower to higher rank");
  unsigned shift = p.index.size() - t.rank();
  Address a{e.idx(0), {}};
  for (unsigned axis = 0; axis < t.rank(); ++axis) {
    Value dim = t.dims[axis];
    auto size = KernelEmitter::constantOf(dim);
    if (size == 1)
      continue;
    unsigned at = axis + shift;
    Value stride = t.strides[axis];
    bool sameSize = size || (at < p.dims.size() && p.dims[at] == dim);
    if (!sameSize) // may be one at run time: then it is broadcast
      stride = e.select(e.eq(dim, e.idx(1)), e.idx(0), stride);
    a.offset = e.add(a.offset, e.mul(p.index[at], stride));
    if (static_cast<int>(at) == p.laneAxis)
      a.laneStride = stride;
  }
  return a;
}

Value KernelEmitter::loadAt(const TensorRef &t, const Point &p) {
  Address a = addressAt(*this, t, p);
  if (p.laneAxis < 0 || p.lanes.isScalar())
    return loadElement(t, a.offset);
  if (!a.laneStride) // one element for all lanes
    return splat(loadElement(t, a.offset), p.lanes);
  unsigned bits = storageBits(t.element);
  if (constantOf(a.laneStride) == 1 && bits >= 8)
    return loadLanes(t, a.offset, p.lanes, p.mask);
  if (p.lanes.scalable)
    return gatherLanes(t, a.offset, a.laneStride, p);
  Value v = splat(loadElement(t, a.offset), p.lanes);
  for (unsigned i = 1; i < p.lanes.n; ++i) {
    Value offset = add(a.offset, mul(a.laneStride, i));
    if (p.mask) { // a lane that is off reads the first element again
      Value on = vector::ExtractOp::create(b, loc, p.mask, i);
      offset = select(on, offset, a.offset);
    }
    v = vector::InsertOp::create(b, loc, loadElement(t, offset), v, i);
  }
  return v;
}

Value KernelEmitter::gatherLanes(const TensorRef &t, Value offset, Value stride, const Point &p) {
  Type raw = withLanes(storageType(t.element), p.lanes);
  auto idxType = cast<VectorType>(withLanes(i64(), p.lanes));
  Value step = LLVM::StepVectorOp::create(b, loc, idxType);
  Value offsets = arith::MulIOp::create(b, loc, step, splat(stride, p.lanes));
  offsets = arith::AddIOp::create(b, loc, offsets, splat(offset, p.lanes));
  unsigned bits = storageBits(t.element), per = std::max(1u, 8 / bits);
  Value unit = offsets; // of the bytes that hold the elements, where these are smaller
  if (per > 1)
    unit = arith::ShRUIOp::create(b, loc, offsets, intConst(idxType, llvm::Log2_32(per)));
  Type ptrs = VectorType::get({p.lanes.n}, ptrType(), {p.lanes.scalable});
  Type unitType = IntegerType::get(b.getContext(), std::max(8u, bits));
  Value addresses = LLVM::GEPOp::create(b, loc, ptrs, unitType, t.ptr, ArrayRef<LLVM::GEPArg>{LLVM::GEPArg(unit)});
  Value mask = p.mask ? p.mask : intConst(withLanes(i1(), p.lanes), 1);
  Value zero = ::mlir::isa<FloatType>(scalarType(raw)) ? floatConst(raw, 0) : intConst(raw, 0);
  Value v = LLVM::masked_gather::create(b, loc, raw, addresses, mask, ValueRange{zero}, std::max(1u, bits / 8));
  if (per > 1) {
    Value place = arith::AndIOp::create(b, loc, offsets, intConst(idxType, per - 1));
    Value shift = arith::MulIOp::create(b, loc, place, intConst(idxType, bits));
    v = arith::ShRUIOp::create(b, loc, v, arith::TruncIOp::create(b, loc, raw, shift));
    v = arith::AndIOp::create(b, loc, v, intConst(raw, (1 << bits) - 1));
  }
  return widenStorage(*this, v, t.element);
}

void KernelEmitter::storeAt(const TensorRef &t, const Point &p, Value v) {
  assert(t.rank() == p.index.size() && "results have the iteration space's rank");
  Value offset = offsetOf(t, p.index);
  if (p.laneAxis < 0 || p.lanes.isScalar())
    return storeElement(t, offset, v);
  Value stride = t.strides[p.laneAxis];
  unsigned bits = storageBits(t.element);
  if (constantOf(stride) == 1 && bits >= 8)
    return storeLanes(t, offset, v, p.mask);
  Value n = laneCount(p.lanes);
  forLoop(n, [&](Value lane) {
    auto put = [&] {
      Value at = arith::IndexCastOp::create(b, loc, b.getIndexType(), lane);
      Value x = vector::ExtractOp::create(b, loc, v, OpFoldResult(at));
      storeElement(t, add(offset, mul(stride, lane)), x);
    };
    if (!p.mask)
      return put();
    Value at = arith::IndexCastOp::create(b, loc, b.getIndexType(), lane);
    ifThen(vector::ExtractOp::create(b, loc, p.mask, OpFoldResult(at)), put);
  });
}

Value KernelEmitter::laneMask(Value base, Value limit, Lanes lanes) {
  if (lanes.isScalar())
    return lt(base, limit);
  Type type = withLanes(i1(), lanes);
  return LLVM::CallIntrinsicOp::create(b, loc, type, b.getStringAttr("llvm.get.active.lane.mask"),
                                       ValueRange{base, limit})
      .getResult(0);
}

Value KernelEmitter::laneCount(Lanes lanes) {
  if (!lanes.scalable)
    return idx(lanes.n);
  Value vscale = LLVM::vscale::create(b, loc, i64());
  return mul(vscale, lanes.n);
}

Value KernelEmitter::allocaBytes(uint64_t bytes, unsigned align) {
  OpBuilder::InsertionGuard guard(b);
  Operation *f = b.getInsertionBlock()->getParentOp();
  while (!f->hasTrait<OpTrait::IsIsolatedFromAbove>())
    f = f->getParentOp();
  b.setInsertionPointToStart(&f->getRegion(0).front());
  return LLVM::AllocaOp::create(b, loc, ptrType(), i8(), idx(bytes), align);
}

// --- values ------------------------------------------------------------------------

Value KernelEmitter::splat(Value scalar, Lanes lanes) {
  if (lanes.isScalar() || ::mlir::isa<VectorType>(scalar.getType()))
    return scalar;
  return vector::BroadcastOp::create(b, loc, withLanes(scalar.getType(), lanes), scalar);
}

Value KernelEmitter::fma(Value a, Value c, Value d) {
  if (!isa.hasFma)
    return addF(mulF(a, c), d);
  return LLVM::FMAOp::create(b, loc, a.getType(), a, c, d);
}
Value KernelEmitter::addF(Value a, Value c) { return arith::AddFOp::create(b, loc, a, c); }
Value KernelEmitter::subF(Value a, Value c) { return arith::SubFOp::create(b, loc, a, c); }
Value KernelEmitter::mulF(Value a, Value c) { return arith::MulFOp::create(b, loc, a, c); }
Value KernelEmitter::divF(Value a, Value c) { return arith::DivFOp::create(b, loc, a, c); }
Value KernelEmitter::cmpF(arith::CmpFPredicate p, Value a, Value c) {
  return arith::CmpFOp::create(b, loc, p, a, c);
}

// x86 has no NaN-propagating maximum. `a > c ? a : c` gives c when either is
// NaN; choosing a when a is NaN (a != a) completes it: two compares, one or,
// one blend. AArch64's fmax is native.
Value KernelEmitter::maxF(Value a, Value c) {
  if (isa.arch == Arch::AArch64)
    return arith::MaximumFOp::create(b, loc, a, c);
  Value takeA = arith::OrIOp::create(b, loc, cmpF(arith::CmpFPredicate::OGT, a, c),
                                     cmpF(arith::CmpFPredicate::UNO, a, a));
  return arith::SelectOp::create(b, loc, takeA, a, c);
}
Value KernelEmitter::minF(Value a, Value c) {
  if (isa.arch == Arch::AArch64)
    return arith::MinimumFOp::create(b, loc, a, c);
  Value takeA = arith::OrIOp::create(b, loc, cmpF(arith::CmpFPredicate::OLT, a, c),
                                     cmpF(arith::CmpFPredicate::UNO, a, a));
  return arith::SelectOp::create(b, loc, takeA, a, c);
}

Value KernelEmitter::reduceAdd(Value v) {
  if (!::mlir::isa<VectorType>(v.getType()))
    return v;
  return vector::ReductionOp::create(b, loc, vector::CombiningKind::ADD, v, arith::FastMathFlags::reassoc);
}

/// Halves a fixed vector with `combine` until one lane is left.
static Value foldLanes(KernelEmitter &e, Value v, llvm::function_ref<Value(Value, Value)> combine) {
  auto type = cast<VectorType>(v.getType());
  int64_t n = type.getNumElements();
  while (n > 1 && n % 2 == 0) {
    Value low = vector::ExtractStridedSliceOp::create(e.b, e.loc, v, ArrayRef<int64_t>{0}, ArrayRef<int64_t>{n / 2}, ArrayRef<int64_t>{1});
    Value high = vector::ExtractStridedSliceOp::create(e.b, e.loc, v, ArrayRef<int64_t>{n / 2}, ArrayRef<int64_t>{n / 2}, ArrayRef<int64_t>{1});
    v = combine(low, high);
    n /= 2;
  }
  Value result = vector::ExtractOp::create(e.b, e.loc, v, int64_t(0));
  for (int64_t i = 1; i < n; ++i)
    result = combine(result, vector::ExtractOp::create(e.b, e.loc, v, i));
  return result;
}

static Value reduceExtreme(KernelEmitter &e, Value v, bool max, bool isUnsignedInt) {
  auto type = dyn_cast<VectorType>(v.getType());
  if (!type)
    return v;
  using K = vector::CombiningKind;
  bool isFloat = ::mlir::isa<FloatType>(type.getElementType());
  if (type.isScalable() || !isFloat) {
    K kind = isFloat ? (max ? K::MAXIMUMF : K::MINIMUMF)
                     : isUnsignedInt ? (max ? K::MAXUI : K::MINUI) : (max ? K::MAXSI : K::MINSI);
    return vector::ReductionOp::create(e.b, e.loc, kind, v);
  }
  return foldLanes(e, v, [&](Value a, Value c) { return max ? e.maxF(a, c) : e.minF(a, c); });
}

Value KernelEmitter::reduceMax(Value v, bool isUnsignedInt) { return reduceExtreme(*this, v, true, isUnsignedInt); }
Value KernelEmitter::reduceMin(Value v, bool isUnsignedInt) { return reduceExtreme(*this, v, false, isUnsignedInt); }

void KernelEmitter::vectorLoop(Value n, unsigned elementBits, unsigned unroll,
                               llvm::function_ref<void(Value, Lanes, Value)> body) {
  Lanes lanes = isa.lanes(std::max(8u, elementBits));
  auto size = constantOf(n);
  if (lanes.isScalar() || (size && !lanes.scalable && *size < lanes.n && !isa.hasMaskedOps)) {
    forLoop(n, [&](Value i) { body(i, scalarLanes(), {}); });
    return;
  }
  Value width = laneCount(lanes);
  Value done = idx(0);
  if (unroll > 1) {
    Value step = mul(width, unroll);
    Value full = mul(divU(n, step), step);
    forLoop(done, full, step, [&](Value i) {
      for (unsigned u = 0; u < unroll; ++u)
        body(add(i, mul(width, u)), lanes, {});
    });
    done = full;
  }
  Value whole = mul(divU(n, width), width);
  forLoop(done, whole, width, [&](Value i) { body(i, lanes, {}); });
  if (isa.hasMaskedOps) {
    Value rest = lt(whole, n);
    if (constantOf(rest) == 0)
      return;
    ifThen(rest, [&] { body(whole, lanes, laneMask(whole, n, lanes)); });
    return;
  }
  forLoop(whole, n, idx(1), [&](Value i) { body(i, scalarLanes(), {}); });
}

} // namespace tessera::cpu

#include "targets/Vulkan/Fusion.h"
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "targets/Cpu/Kernels/Elementwise.h"
#include "targets/Vulkan/Kernels/Packing.h"
#include "targets/Vulkan/SinglePrecision.h"

using namespace mlir;

namespace tessera::vulkan {

// --- what is read and written
// ----------------------------------------------------------

Fusion::Fusion(tsr::DispatchOp op, Emitter &e) : op(op), e(e) {
  space.assign(e.out[0]->dims.begin(), e.out[0]->dims.end());
  Operation *root = op.getRootOp();
  Operation *yield = op.getBodyBlock()->getTerminator();
  for (Operation &inner : *op.getBodyBlock()) {
    if (&inner == root || &inner == yield ||
        onnx::getConstant(inner.getNumResults() ? inner.getResult(0) : Value()))
      continue;
    for (unsigned i = 0, n = onnx::getNumOperandPositions(&inner); i < n; ++i)
      if (Value operand = onnx::getOptionalOperand(&inner, i);
          isa_and_nonnull<BlockArgument>(operand))
        addAccess(&inner, i, operand);
    if (isRequantise(&inner))
      addCorrections(&inner);
  }
  for (auto [i, v] : llvm::enumerate(yield->getOperands())) {
    if (isa<BlockArgument>(v))
      addAccess(yield, i, v);
    writes.push_back({e.out[i].get(), e.out[i]->strides});
    if (ArrayRef(e.out[i]->dims) != ArrayRef(space) ||
        e.out[i]->strides != e.out[0]->strides) {
      e.reasons.no() << "results of several shapes or layouts";
      valid = false;
    }
  }
}

Fusion::Access Fusion::broadcast(Buffer &t) const {
  Access a{&t, SmallVector<int64_t>(space.size(), 0)};
  for (unsigned i = 0; i < t.rank() && i < space.size(); ++i) {
    unsigned from = t.rank() - 1 - i, to = space.size() - 1 - i;
    a.strides[to] = t.dims[from] == 1 ? 0 : t.strides[from];
  }
  return a;
}

Value Fusion::loadBroadcast(Buffer &t, const Point &p) {
  Access a = broadcast(t);
  if (p.laneAxis >= 0 && isAligned(a, p.laneAxis, space[p.laneAxis]))
    t.useVectors();
  return loadAt(a, p);
}

Value Fusion::loadAlong(Buffer &t, unsigned axis, const Point &p) {
  Access a{&t, SmallVector<int64_t>(space.size(), 0)};
  a.strides[axis] = 1;
  return loadAt(a, p);
}

/// Strides over the space of an operand that is broadcast to it, by numpy's
/// rules or, for the scale and zero point of a (de)quantiser, along its axis.
void Fusion::addAccess(Operation *user, unsigned position, Value operand) {
  Buffer *t = e.in[cast<BlockArgument>(operand).getArgNumber()].get();
  Access a{t, SmallVector<int64_t>(space.size(), 0)};
  StringRef name = user->getName().getStringRef();
  bool quantiser =
      (name == "onnx.QuantizeLinear" || name == "onnx.DequantizeLinear") &&
      position > 0;
  if (quantiser && onnx::getInt(user, "block_size", 0) > 0) {
    e.reasons.no() << "scales for blocks";
    valid = false;
  } else if (quantiser && t->rank() == 1 && t->count > 1) {
    int64_t axis = onnx::getInt(user, "axis", 1);
    if (axis < 0)
      axis += space.size();
    a.strides[axis] = 1;
  } else {
    a = broadcast(*t);
  }
  reads[{user, position}] = std::move(a);
}

void Fusion::addCorrections(Operation *inner) {
  auto constant = [&](unsigned i) -> ElementsAttr {
    Value v = onnx::getOptionalOperand(inner, i);
    if (auto arg = dyn_cast_or_null<BlockArgument>(v))
      v = op.getInputs()[arg.getArgNumber()];
    return v ? onnx::getConstant(v) : ElementsAttr{};
  };
  Corrections list;
  if (failed(findCorrections(inner, constant, list, e.reasons))) {
    valid = false;
    return;
  }
  auto like = reads.find({inner, list.like});
  if (list.channels > 1 && like == reads.end()) {
    e.reasons.no() << "a requantisation by embedded parameters";
    valid = false;
    return;
  }
  Access a{nullptr, SmallVector<int64_t>(space.size(), 0)};
  if (list.channels > 1)
    a.strides = like->second.strides;
  a.buffer = &e.pack(0, e.i32(), bytesOf(list.sums));
  corrections[inner] = {std::move(list), std::move(a)};
}

/// A one-element constant of the body.
static FailureOr<Value> materialise(ElementsAttr attr, const Point &p,
                                    Emitter &e) {
  Type type = cpu::KernelEmitter::withLanes(
      cpu::KernelEmitter::valueType(attr.getElementType()),
      p.laneAxis < 0 ? cpu::Lanes{} : cpu::Lanes{4, false});
  if (Value v = cpu::oneNumber(attr, type, e))
    return v;
  e.reasons.no() << "a constant of " << attr.getNumElements()
                 << " elements inside an elementwise kernel";
  return failure();
}

SmallVector<Value> Fusion::requantiseAll(Operation *inner, ArrayRef<Value> sums,
                                         ArrayRef<Value> factors,
                                         ArrayRef<Value> biases,
                                         ArrayRef<Point> columns) {
  const auto &entry = corrections.find(inner)->second;
  const Corrections &list = entry.first;
  const Access &access = entry.second;
  std::pair<Value, Value> header;
  if (access.buffer->lanes == 4) {
    Value four = e.loadQuad(*access.buffer, 0);
    header = {e.lane(four, 0), e.lane(four, 1)};
  } else {
    header = {e.load(*access.buffer, 0), e.load(*access.buffer, 1)};
  }
  auto listed = [&](Index row, unsigned column) {
    Value v = loadAt(access, columns[column], row, list.channels);
    return columns[column].laneAxis < 0 ? v : e.quadSplat(v);
  };
  return emitRequantise(inner, e, {sums, factors, biases, header, listed},
                        list);
}

FailureOr<Value> Fusion::requantise(Operation *inner, ArrayRef<Value> operands,
                                    const Point &p) {
  if (Value done = requantised.lookup(operands[0]))
    return done;
  if (!corrections.contains(inner))
    return failure();
  return requantiseAll(inner, operands[0], operands[3], operands[4], p)[0];
}

/// Whether quads along `axis` can be loaded of it, and nothing else moves it.
bool Fusion::variesAlong(const Access &a, int axis) const {
  for (auto [k, stride] : llvm::enumerate(a.strides))
    if (static_cast<int>(k) != axis && stride != 0)
      return false;
  return a.strides[axis] == 0 || isAligned(a, axis, space[axis]);
}

void Fusion::requantiseTile(ArrayRef<Value> roots, ArrayRef<Point> columns) {
  Operation *root = op.getRootOp();
  if (!root || !root->getResult(0).hasOneUse() || columns.empty() ||
      columns[0].laneAxis < 0)
    return;
  Operation *inner = *root->getResult(0).getUsers().begin();
  auto list = corrections.find(inner);
  int axis = columns[0].laneAxis;
  if (list == corrections.end() || !variesAlong(list->second.second, axis) ||
      llvm::any_of(writes, [&](const Access &a) {
        return !isAligned(a, axis, space[axis]);
      }))
    return;
  SmallVector<Value> parameters[2];
  for (unsigned i : {0, 1}) {
    Value operand = onnx::getOptionalOperand(inner, 3 + i);
    auto read = reads.find({inner, 3 + i});
    ElementsAttr constant = onnx::getConstant(operand);
    if (read == reads.end() ? !constant || constant.getNumElements() != 1
                            : !variesAlong(read->second, axis))
      return;
    for (const Point &p : columns)
      parameters[i].push_back(read == reads.end()
                                  ? *materialise(constant, p, e)
                                  : e.quadSplat(loadAt(read->second, p)));
  }
  for (auto [from, to] :
       llvm::zip(roots, requantiseAll(inner, roots, parameters[0],
                                      parameters[1], columns)))
    requantised[from] = to;
}

void Fusion::forAllAccesses(llvm::function_ref<void(Access &)> f) {
  for (auto &entry : reads)
    f(entry.second);
  for (Access &a : writes)
    f(a);
  for (auto &entry : corrections)
    f(entry.second.second);
}

void Fusion::mergeAxes() {
  SmallVector<unsigned> order =
      cpu::storageOrder(space.size(), op.getLayoutOf(op.getInputs().size()));
  SmallVector<int64_t> dims;
  SmallVector<unsigned> kept; // innermost axis of each group
  for (unsigned axis : order) {
    if (space[axis] == 1)
      continue;
    bool joins = !kept.empty();
    if (joins)
      forAllAccesses([&](Access &a) {
        joins &= a.strides[kept.back()] == a.strides[axis] * space[axis];
      });
    if (joins) {
      dims.back() *= space[axis];
      kept.back() = axis;
    } else {
      dims.push_back(space[axis]);
      kept.push_back(axis);
    }
  }
  forAllAccesses([&](Access &a) {
    SmallVector<int64_t> strides;
    for (unsigned axis : kept)
      strides.push_back(a.strides[axis]);
    a.strides = strides;
  });
  space = dims;
}

bool Fusion::joinAxes(unsigned first) {
  SmallVector<unsigned> moving;
  int64_t count = 1;
  for (unsigned axis = first; axis < space.size(); ++axis) {
    count *= space[axis];
    if (space[axis] != 1)
      moving.push_back(axis);
  }
  bool joins = true;
  forAllAccesses([&](Access &a) {
    for (unsigned i = 0; i + 1 < moving.size(); ++i)
      joins &= a.strides[moving[i]] ==
               a.strides[moving[i + 1]] * space[moving[i + 1]];
  });
  if (!joins)
    return false;
  forAllAccesses([&](Access &a) {
    int64_t stride = moving.empty() ? 0 : a.strides[moving.back()];
    a.strides.truncate(first);
    a.strides.push_back(stride);
  });
  space.truncate(first);
  space.push_back(count);
  return true;
}

bool Fusion::isAligned(const Access &a, int laneAxis, int64_t laneSize) {
  if (laneSize % 4 || a.buffer->count % 4)
    return false;
  for (auto [axis, stride] : llvm::enumerate(a.strides))
    if (static_cast<int>(axis) == laneAxis ? stride != 1 : stride % 4 != 0)
      return false;
  return true;
}

int Fusion::laneAxis() const {
  for (unsigned axis = 0; axis < space.size(); ++axis)
    if (llvm::all_of(writes, [&](const Access &a) {
          return isAligned(a, axis, space[axis]);
        }))
      return axis;
  return -1;
}

void Fusion::useVectors(int laneAxis) {
  if (laneAxis < 0)
    return;
  llvm::DenseMap<Buffer *, bool> all;
  forAllAccesses([&](Access &a) {
    bool aligned = isAligned(a, laneAxis, space[laneAxis]);
    auto [it, fresh] = all.try_emplace(a.buffer, aligned);
    if (!fresh)
      it->second &= aligned;
  });
  for (auto [buffer, aligned] : all)
    if (aligned)
      buffer->useVectors();
}

// --- loads and stores
// ---------------------------------------------------------------------

Value Fusion::loadAt(const Access &a, const Point &p, Index row,
                     int64_t width) {
  Index from = e.mul(row, width);
  if (p.laneAxis < 0)
    return e.load(*a.buffer, e.add(from, e.offset(p.at, a.strides)));
  SmallVector<Index> at(p.at);
  SmallVector<int64_t> strides(a.strides);
  int64_t stride = strides[p.laneAxis];
  if (stride == 0)
    return e.quadSplat(e.load(*a.buffer, e.add(from, e.offset(at, strides))));
  if (isAligned(a, p.laneAxis, space[p.laneAxis])) {
    for (auto [axis, s] : llvm::enumerate(strides))
      s = static_cast<int>(axis) == p.laneAxis ? 1 : s / 4;
    return e.loadQuad(*a.buffer,
                      e.add(e.mul(row, width / 4), e.offset(at, strides)));
  }
  Index quad = at[p.laneAxis];
  at[p.laneAxis] = 0;
  Index first = e.add(from, e.offset(at, strides));
  SmallVector<Value> lanes;
  int64_t size = space[p.laneAxis];
  for (unsigned i = 0; i < 4; ++i) {
    Index lane = e.add(e.mul(quad, 4), i);
    if (size % 4) // lanes past the end are read somewhere
      lane = e.min(lane, size - 1);
    lanes.push_back(e.load(*a.buffer, e.add(first, e.mul(lane, stride))));
  }
  return e.quad(lanes);
}

void Fusion::storeAt(const Access &a, const Point &p, Value v) {
  if (p.laneAxis < 0)
    return e.store(*a.buffer, e.offset(p.at, a.strides), v);
  SmallVector<int64_t> strides(a.strides);
  for (auto [axis, s] : llvm::enumerate(strides))
    s = static_cast<int>(axis) == p.laneAxis ? 1 : s / 4;
  e.storeQuad(*a.buffer, e.offset(p.at, strides), e.quadSplat(v));
}

FailureOr<Value> Fusion::valueAt(Value v, const Point &p,
                                 llvm::DenseMap<Value, Value> &known) {
  if (auto it = known.find(v); it != known.end())
    return it->second;
  Operation *def = v.getDefiningOp();
  if (!def)
    return failure();
  if (ElementsAttr constant = onnx::getConstant(v))
    return materialise(constant, p, e);
  if (!cpu::isElementwise(def)) {
    e.reasons.no() << "operator " << def->getName().getStringRef()
                   << " beside the root";
    return failure();
  }
  SmallVector<Value> operands;
  for (unsigned i = 0, n = onnx::getNumOperandPositions(def); i < n; ++i) {
    Value operand = onnx::getOptionalOperand(def, i);
    if (!operand || (isRequantise(def) && !readsRequantiseOperand(i))) {
      operands.push_back({});
      continue;
    }
    auto read = reads.find({def, i});
    FailureOr<Value> x = read == reads.end()
                             ? valueAt(operand, p, known)
                             : FailureOr<Value>(loadAt(read->second, p));
    if (failed(x))
      return failure();
    operands.push_back(p.laneAxis < 0 ? *x : e.quadSplat(*x));
  }
  FailureOr<Value> result = Value();
  if (isRequantise(def))
    result = requantise(def, operands, p);
  else if (Value v = emitInSingle(def, operands, e))
    result = v;
  else
    result = cpu::emitElementwiseOp(def, operands, e);
  if (succeeded(result))
    known[v] = *result;
  return result;
}

LogicalResult Fusion::store(Value rootValue, const Point &p) {
  if (!valid)
    return failure();
  bool whole = p.laneAxis < 0 ||
               llvm::all_of(
                   writes,
                   [&](const Access &a) {
                     return isAligned(a, p.laneAxis, space[p.laneAxis]);
                   });
  if (!whole) { // lane by lane
    LogicalResult result = success();
    int64_t size = space[p.laneAxis];
    for (unsigned i = 0; i < 4; ++i) {
      Point one = p;
      one.laneAxis = -1;
      one.at[p.laneAxis] = e.add(e.mul(p.at[p.laneAxis], 4), i);
      Value inside = size % 4 ? e.lt(one.at[p.laneAxis], size) : Value{};
      e.when(inside, [&] {
        if (failed(store(rootValue ? e.lane(rootValue, i) : Value{}, one)))
          result = failure();
      });
    }
    return result;
  }
  llvm::DenseMap<Value, Value> known;
  if (Operation *root = op.getRootOp())
    known[root->getResult(0)] = rootValue;
  Operation *yield = op.getBodyBlock()->getTerminator();
  for (auto [i, v] : llvm::enumerate(yield->getOperands())) {
    auto read = reads.find({yield, i});
    FailureOr<Value> x = read == reads.end()
                             ? valueAt(v, p, known)
                             : FailureOr<Value>(loadAt(read->second, p));
    if (failed(x))
      return failure();
    storeAt(writes[i], p, *x);
  }
  return success();
}

// --- the root's operands
// ---------------------------------------------------------------------

Buffer *rootBuffer(tsr::DispatchOp op, Emitter &e, unsigned operand) {
  auto arg = dyn_cast_or_null<BlockArgument>(
      onnx::getOptionalOperand(op.getRootOp(), operand));
  return arg ? e.in[arg.getArgNumber()].get() : nullptr;
}

Buffer *rootResult(tsr::DispatchOp op, Emitter &e, unsigned result) {
  Value of = onnx::getOptionalResult(op.getRootOp(), result);
  Operation *yield = op.getBodyBlock()->getTerminator();
  for (auto [i, v] : llvm::enumerate(yield->getOperands()))
    if (of && v == of)
      return e.out[i].get();
  return nullptr;
}

Value rootOperand(tsr::DispatchOp op, unsigned operand) {
  auto arg = dyn_cast_or_null<BlockArgument>(
      onnx::getOptionalOperand(op.getRootOp(), operand));
  return arg ? op.getInputs()[arg.getArgNumber()] : Value{};
}

ElementsAttr rootConstant(tsr::DispatchOp op, unsigned operand) {
  Value v = onnx::getOptionalOperand(op.getRootOp(), operand);
  if (isa_and_nonnull<BlockArgument>(v))
    v = rootOperand(op, operand);
  return v ? onnx::getConstant(v) : ElementsAttr{};
}

} // namespace tessera::vulkan

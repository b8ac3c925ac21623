// The kernel of a chain of elementwise operators: one nest over the result's
// elements in memory order, vectorised along the innermost axis.
//
// Axes that every tensor of the dispatch walks contiguously (or is broadcast
// along) are merged first, so that the common case is one flat loop.
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "targets/Cpu/KernelBuilder.h"
#include "targets/Cpu/Kernels/Elementwise.h"

using namespace mlir;

namespace tessera::cpu {

namespace {

/// How one tensor lies along the iteration space, by the dispatch's `dims` codes.
struct Extent {
  enum Kind { Full, Broadcast, Unknown };
  SmallVector<Kind> kinds;                     ///< per iteration axis
  SmallVector<SmallVector<int64_t>> strideSet; ///< sizes inside of it, sorted, ones dropped
};

class ElementwiseKernel final : public KernelBuilder {
public:
  tsr::KernelClass kernelClass(Operation *) const override { return tsr::KernelClass::Elementwise; }
  LogicalResult match(Operation *root, Reasons &reasons) const override {
    return matchElementwise(root, reasons);
  }
  LogicalResult emit(tsr::DispatchOp op, KernelEmitter &e) const override;

private:
  LogicalResult emitNest(tsr::DispatchOp op, KernelEmitter &e, ArrayRef<SmallVector<int64_t>> dims) const;
};

} // namespace

SmallVector<unsigned> storageOrder(unsigned rank, tsr::Layout layout) {
  SmallVector<unsigned> order;
  for (unsigned i = 0; i < rank; ++i)
    order.push_back(i);
  if (layout == tsr::Layout::ChannelsLast && rank > 2) {
    order.erase(order.begin() + 1);
    order.push_back(1);
  }
  return order;
}

static Extent extentOf(ArrayRef<int64_t> dims, tsr::Layout layout, ArrayRef<int64_t> space) {
  Extent x;
  unsigned shift = space.size() - dims.size();
  x.kinds.assign(space.size(), Extent::Broadcast);
  x.strideSet.resize(space.size());
  SmallVector<int64_t> inside;
  for (unsigned axis : llvm::reverse(storageOrder(dims.size(), layout))) {
    unsigned at = axis + shift;
    x.strideSet[at] = inside;
    llvm::sort(x.strideSet[at]);
    if (dims[axis] == 1)
      x.kinds[at] = space[at] == 1 ? Extent::Full : Extent::Broadcast;
    else
      x.kinds[at] = dims[axis] == space[at] || dims[axis] > 1 ? Extent::Full : Extent::Unknown;
    if (dims[axis] != 1)
      inside.push_back(dims[axis]);
  }
  return x;
}

/// Whether the tensor treats axis `outer` and the next inner axis as one.
static bool mergeable(const Extent &x, unsigned outer, unsigned inner, ArrayRef<int64_t> space) {
  if (x.kinds[outer] != x.kinds[inner] || x.kinds[outer] == Extent::Unknown)
    return false;
  if (x.kinds[outer] == Extent::Broadcast)
    return true;
  SmallVector<int64_t> want(x.strideSet[inner]);
  want.push_back(space[inner]);
  llvm::sort(want);
  return want == x.strideSet[outer];
}

/// Whether an operator of the body reads an operand along one particular axis.
static bool readsByAxis(tsr::DispatchOp op) {
  return llvm::any_of(*op.getBodyBlock(), [](Operation &o) {
    StringRef name = o.getName().getStringRef();
    if (name != "onnx.QuantizeLinear" && name != "onnx.DequantizeLinear")
      return false;
    auto scale = cast<RankedTensorType>(o.getOperand(1).getType());
    return scale.getRank() > 0 && !(scale.hasStaticShape() && scale.getNumElements() == 1);
  });
}

static int64_t blockedAxis(tsr::DispatchOp op, unsigned rank) {
  int64_t found = -1;
  for (Operation &o : op.getBodyBlock()->without_terminator())
    if (!o.hasTrait<OpTrait::ConstantLike>() && onnx::getInt(&o, "block_size", 0) > 0) {
      int64_t axis = onnx::getInt(&o, "axis", 1);
      found = axis < 0 ? axis + rank : axis;
    }
  return found;
}

unsigned laneBits(tsr::DispatchOp op) {
  unsigned widest = 8;
  bool has32 = false;
  auto look = [&](Type t) {
    if (auto tensor = dyn_cast<RankedTensorType>(t)) {
      unsigned bits = KernelEmitter::valueType(tensor.getElementType()).getIntOrFloatBitWidth();
      widest = std::max(widest, bits);
      has32 |= bits == 32;
    }
  };
  for (Operation &o : *op.getBodyBlock()) {
    for (Type t : o.getOperandTypes())
      look(t);
    for (Type t : o.getResultTypes())
      look(t);
  }
  return has32 ? 32 : widest;
}

/// Sizes that only a run shows to be one or the whole get a second nest for
/// the common case that nothing is broadcast there: it walks vectors.
LogicalResult ElementwiseKernel::emit(tsr::DispatchOp op, KernelEmitter &e) const {
  unsigned numIn = op.getInputs().size();
  ArrayRef<int64_t> space = op.getDimsOf(numIn);
  SmallVector<SmallVector<int64_t>> dims, whole;
  Value nothingBroadcast;
  for (unsigned i = 0, n = numIn + op.getOutputs().size(); i < n; ++i) {
    dims.emplace_back(op.getDimsOf(i));
    whole.push_back(dims.back());
    Extent x = extentOf(dims.back(), op.getLayoutOf(i), space);
    const TensorRef &t = i < numIn ? e.inputs[i] : e.outputs[i - numIn];
    unsigned shift = space.size() - t.rank();
    for (unsigned axis = shift; axis < space.size(); ++axis)
      if (x.kinds[axis] == Extent::Unknown) {
        whole.back()[axis - shift] = space[axis];
        Value same = e.eq(t.dims[axis - shift], e.outputs[0].dims[axis]);
        nothingBroadcast = nothingBroadcast ? e.logicalAnd(nothingBroadcast, same) : same;
      }
  }
  if (!nothingBroadcast)
    return emitNest(op, e, dims);
  LogicalResult result = success();
  auto version = [&](ArrayRef<SmallVector<int64_t>> sizes) {
    if (failed(emitNest(op, e, sizes)))
      result = failure();
    return SmallVector<Value>{};
  };
  e.ifElse(nothingBroadcast, TypeRange{}, [&] { return version(whole); }, [&] { return version(dims); });
  return result;
}

LogicalResult ElementwiseKernel::emitNest(tsr::DispatchOp op, KernelEmitter &e,
                                          ArrayRef<SmallVector<int64_t>> dims) const {
  unsigned numIn = op.getInputs().size();
  ArrayRef<int64_t> space = op.getDimsOf(numIn);
  unsigned rank = space.size();
  SmallVector<unsigned> order = storageOrder(rank, op.getLayoutOf(numIn));

  SmallVector<Extent> extents;
  for (unsigned i = 0, n = numIn + op.getOutputs().size(); i < n; ++i)
    extents.push_back(extentOf(dims[i], op.getLayoutOf(i), space));

  bool keepAxes = readsByAxis(op);
  // The innermost axis of a group that has more than one element, if any.
  auto unitOf = [&](ArrayRef<unsigned> group) {
    for (unsigned axis : llvm::reverse(group))
      if (space[axis] != 1)
        return axis;
    return group.back();
  };
  SmallVector<SmallVector<unsigned>> groups; // iteration axes, outermost first
  for (unsigned axis : order) {
    // An axis of one element walks nowhere and goes with any other.
    bool merge = !keepAxes && !groups.empty() &&
                 (space[axis] == 1 || space[unitOf(groups.back())] == 1 || llvm::all_of(extents, [&](const Extent &x) {
                    return mergeable(x, unitOf(groups.back()), axis, space);
                  }));
    if (merge)
      groups.back().push_back(axis);
    else
      groups.push_back({axis});
  }

  Fusion fusion(op, e);
  SmallVector<Value> sizes;
  SmallVector<TensorRef> savedIn = e.inputs, savedOut = e.outputs;
  int laneAxis;
  SmallVector<unsigned> loopOrder;
  if (keepAxes) {
    sizes = e.outputs[0].dims;
    loopOrder = order;
    laneAxis = rank ? static_cast<int>(order.back()) : -1;
  } else {
    auto merged = [&](const TensorRef &t, const Extent &x) {
      TensorRef r = t;
      r.dims.clear();
      r.strides.clear();
      unsigned shift = rank - t.rank();
      for (auto &group : groups) {
        // The innermost axis of more than one element gives the stride.
        int unit = -1;
        SmallVector<Value> factors;
        bool broadcast = true;
        for (unsigned axis : group) {
          if (axis < shift)
            continue;
          factors.push_back(t.dims[axis - shift]);
          if (x.kinds[axis] != Extent::Broadcast && space[axis] != 1) {
            broadcast = false;
            unit = axis - shift;
          }
        }
        r.dims.push_back(broadcast ? e.idx(1) : e.product(factors));
        r.strides.push_back(unit < 0 ? e.idx(1) : t.strides[unit]);
      }
      r.layout = tsr::Layout::RowMajor;
      return r;
    };
    for (auto [i, t] : llvm::enumerate(e.inputs))
      t = merged(t, extents[i]);
    for (auto [i, t] : llvm::enumerate(e.outputs))
      t = merged(t, extents[numIn + i]);
    for (unsigned g = 0; g < groups.size(); ++g)
      loopOrder.push_back(g);
    sizes = e.outputs[0].dims;
    laneAxis = static_cast<int>(groups.size()) - 1;
  }
  // Equal sizes must be one SSA value for loadAt to see that nothing is broadcast.
  for (auto *list : {&e.inputs, &e.outputs})
    for (auto [i, t] : llvm::enumerate(*list)) {
      const Extent &x = extents[list == &e.inputs ? i : numIn + i];
      unsigned shift = keepAxes ? rank - t.rank() : 0;
      for (unsigned a = 0; a < t.rank(); ++a) {
        unsigned axis = keepAxes ? a + shift : unitOf(groups[a]);
        if (x.kinds[axis] == Extent::Full && e.constantOf(t.dims[a]) != 1)
          t.dims[a] = sizes[a + shift];
      }
    }

  LogicalResult result = success();
  auto store = [&](const Point &p) {
    if (failed(fusion.storeFused({}, p)))
      result = failure();
  };
  Point p;
  p.dims = sizes;
  p.index.assign(sizes.size(), e.idx(0));
  if (sizes.empty()) {
    store(p);
  } else {
    bool blocked = keepAxes && blockedAxis(op, rank) == laneAxis;
    unsigned bits = laneBits(op);
    unsigned ops = op.getBodyBlock()->getOperations().size();
    std::function<void(unsigned)> nest = [&](unsigned depth) {
      unsigned axis = loopOrder[depth];
      if (depth + 1 < loopOrder.size()) {
        e.forLoop(sizes[axis], [&](Value iv) {
          p.index[axis] = iv;
          nest(depth + 1);
        });
        return;
      }
      auto body = [&](Value i, Lanes lanes, Value mask) {
        p.index[axis] = i;
        p.laneAxis = lanes.isScalar() ? -1 : laneAxis;
        p.lanes = lanes;
        p.mask = mask;
        store(p);
      };
      if (blocked)
        e.forLoop(sizes[axis], [&](Value i) { body(i, e.scalarLanes(), {}); });
      else
        e.vectorLoop(sizes[axis], bits, ops <= 3 ? 2 : 1, body);
    };
    nest(0);
  }
  e.inputs = savedIn;
  e.outputs = savedOut;
  return result;
}

const KernelBuilder &elementwiseKernel() {
  static ElementwiseKernel kernel;
  return kernel;
}

} // namespace tessera::cpu

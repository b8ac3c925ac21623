#include "targets/Vulkan/Kernels/Boxes.h"
#include "dialects/Onnx/IR/OnnxUtils.h"

using namespace mlir;

namespace tessera::vulkan {

int64_t axisOf(Operation *root, StringRef name, int64_t fallback,
               int64_t rank) {
  int64_t axis = onnx::getInt(root, name, fallback);
  return axis < 0 ? axis + rank : axis;
}

std::optional<int64_t> constantInt(tsr::DispatchOp op, Emitter &e,
                                   unsigned operand, int64_t absent) {
  if (!onnx::getOptionalOperand(op.getRootOp(), operand))
    return absent;
  ElementsAttr attr = rootConstant(op, operand);
  auto ints = attr ? onnx::getInts(attr) : std::nullopt;
  if (ints && ints->size() == 1)
    return ints->front();
  e.reasons.no() << "operand " << operand << " of "
                 << op.getRootOp()->getName().getStringRef()
                 << " is known to the run only";
  return std::nullopt;
}

LogicalResult requireAlone(tsr::DispatchOp op, Emitter &e) {
  Operation *root = op.getRootOp();
  for (Operation *next = root->getNextNode(); next; next = next->getNextNode())
    if (!next->hasTrait<OpTrait::IsTerminator>())
      return e.reasons.no()
             << next->getName().getStringRef() << " fused behind "
             << root->getName().getStringRef();
  return success();
}

/// Outermost first in the memory of `to`; axes of one go, and those that both
/// sides walk through as one are joined.
static void normalise(Box &box) {
  llvm::erase_if(box.axes, [](const BoxAxis &a) { return a.size == 1; });
  llvm::stable_sort(
      box.axes, [](const BoxAxis &a, const BoxAxis &c) { return a.to > c.to; });
  SmallVector<BoxAxis> joined;
  for (const BoxAxis &a : box.axes) {
    if (!joined.empty() && joined.back().to == a.to * a.size &&
        joined.back().from == a.from * a.size)
      joined.back() = {joined.back().size * a.size, a.to, a.from};
    else
      joined.push_back(a);
  }
  box.axes = joined;
}

static bool aligned(const Box &box, bool to) {
  if (box.axes.empty() || (to ? box.to : box.from)->count % 4 ||
      (to ? box.toBase : box.fromBase) % 4)
    return false;
  for (const BoxAxis &a : ArrayRef(box.axes).drop_back())
    if ((to ? a.to : a.from) % 4)
      return false;
  const BoxAxis &last = box.axes.back();
  return last.size % 4 == 0 && (to ? last.to : last.from) == 1;
}

static void copyOne(Emitter &e, const Box &box, Index id, bool quads) {
  SmallVector<int64_t> sizes, to, from;
  for (const BoxAxis &a : box.axes) {
    sizes.push_back(a.size);
    to.push_back(a.to);
    from.push_back(a.from);
  }
  if (!quads) {
    SmallVector<Index> at = e.digits(id, sizes);
    Value v = e.load(*box.from, e.add(e.offset(at, from), box.fromBase));
    e.store(*box.to, e.add(e.offset(at, to), box.toBase), v);
    return;
  }
  auto inQuads = [&](SmallVector<int64_t> strides) {
    for (int64_t &s : MutableArrayRef(strides).drop_back())
      s /= 4;
    strides.back() = 1;
    return strides;
  };
  sizes.back() /= 4;
  SmallVector<Index> at = e.digits(id, sizes);
  Value v;
  if (aligned(box, false)) {
    v = e.loadQuad(*box.from,
                   e.add(e.offset(at, inQuads(from)), box.fromBase / 4));
  } else {
    int64_t step = from.back();
    from.back() *= 4;
    Index first = e.add(e.offset(at, from), box.fromBase);
    if (step == 0) {
      v = e.quadSplat(e.load(*box.from, first));
    } else {
      SmallVector<Value> lanes;
      for (unsigned i = 0; i < 4; ++i)
        lanes.push_back(e.load(*box.from, e.add(first, i * step)));
      v = e.quad(lanes);
    }
  }
  e.storeQuad(*box.to, e.add(e.offset(at, inQuads(to)), box.toBase / 4), v);
}

void copyBoxes(Emitter &e, MutableArrayRef<Box> boxes) {
  bool quads = true; // a tensor is written by quads or not at all
  llvm::DenseMap<Buffer *, bool> readsQuads;
  for (Box &box : boxes) {
    normalise(box);
    quads &= aligned(box, true);
    readsQuads.try_emplace(box.from, true).first->second &= aligned(box, false);
  }
  int64_t total = 0;
  SmallVector<int64_t> counts;
  for (Box &box : boxes) {
    int64_t n = 1;
    for (const BoxAxis &a : box.axes)
      n *= a.size;
    counts.push_back(quads ? n / 4 : n);
    total += counts.back();
    if (quads)
      box.to->useVectors();
    if (quads && readsQuads.lookup(box.from))
      box.from->useVectors();
  }
  e.grid(total, [&](Index id) {
    int64_t start = 0;
    for (auto [box, n] : llvm::zip(boxes, counts)) {
      Value inside;
      if (start > 0)
        inside = e.ge(id, start);
      if (start + n < total)
        inside = e.both(inside, e.lt(id, start + n));
      e.when(inside, [&] { copyOne(e, box, e.sub(id, start), quads); });
      start += n;
    }
  });
}

} // namespace tessera::vulkan

// Quantised tensors that are moved: what they mean behind the move, and sums
// and the like that are quantised before it, because rounding is the same
// wherever a number stands. Eight bits are moved then instead of 32, and scales
// a channel need not be followed through reshapes.
#include "targets/Tosa/Lower/Quantised.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace tessera::tosa {

/// Whether the results hold the operand's values and no others.
static bool movesOnly(Operation *op) {
  static const llvm::StringSet<> names = {"Reshape",  "Flatten",      "Squeeze",     "Unsqueeze", "Transpose",
                                          "Split",    "Slice",        "Gather",      "Expand",    "Tile",
                                          "Identity", "DepthToSpace", "SpaceToDepth"};
  return names.contains(op->getName().stripDialect());
}

std::optional<Quantisation> readersQuantisation(Value v, Lowerer &l) {
  std::optional<Quantisation> found;
  for (OpOperand &use : v.getUses()) {
    Operation *user = use.getOwner();
    std::optional<Quantisation> q;
    if (user->getName().getStringRef() == "onnx.QuantizeLinear") {
      Reasons unheard;
      Lowerer quiet(l.b, l.precision, false, unheard);
      q = readQuantisation(user, quiet, 1, 2, Lowerer::typeOf(user->getResult(0)).getElementType());
    } else if (movesOnly(user) && use.getOperandNumber() == 0) {
      q = readersQuantisation(user->getResults(), l);
    }
    if (!q || (found && !(*found == *q)))
      return std::nullopt;
    found = q;
  }
  return found;
}

std::optional<Quantisation> readersQuantisation(ValueRange values, Lowerer &l) {
  std::optional<Quantisation> found;
  for (Value v : values) {
    auto q = readersQuantisation(v, l);
    if (!q || (found && !(*found == *q)))
      return std::nullopt;
    found = q;
  }
  return found;
}

/// Where the elements of index i of `axis` are after a reshape, if on one axis.
static std::optional<int64_t> reshapedAxis(ArrayRef<int64_t> from, ArrayRef<int64_t> to, int64_t axis) {
  int64_t inner = onnx::elementCount(from.drop_front(axis + 1));
  for (size_t i = 0; i < to.size(); ++i)
    if (to[i] == from[axis] && onnx::elementCount(to.drop_front(i + 1)) == inner)
      return i;
  return std::nullopt;
}

/// The meaning of result `index` of `op`, which moves what has scales a
/// channel.
static std::optional<Scaled> movedMeaning(Operation *op, unsigned index, Scaled m) {
  StringRef name = op->getName().stripDialect();
  ArrayRef<int64_t> from = Lowerer::shapeOf(op->getOperand(0)), to = Lowerer::shapeOf(op->getResult(index));
  if (name == "Transpose") {
    SmallVector<int64_t> perm = onnx::getInts(op, "perm");
    auto at = llvm::find(perm, m.axis);
    m.axis = perm.empty() ? (int64_t)from.size() - 1 - m.axis : at - perm.begin();
    return m;
  }
  if (name == "Split") {
    int64_t axis = onnx::getInt(op, "axis", 0), first = 0;
    axis += axis < 0 ? from.size() : 0;
    if (axis != m.axis)
      return m;
    for (unsigned i = 0; i < index; ++i)
      first += Lowerer::shapeOf(op->getResult(i))[axis];
    m.scale = SmallVector<double>(ArrayRef<double>(m.scale).slice(first, to[axis]));
    return m;
  }
  if (name == "Reshape" || name == "Flatten" || name == "Squeeze" || name == "Unsqueeze") {
    auto axis = reshapedAxis(from, to, m.axis);
    m.axis = axis.value_or(0);
    return axis ? std::optional(m) : std::nullopt;
  }
  return std::nullopt;
}

LogicalResult inheritMeaning(Operation *op, Lowerer &l) {
  auto it = l.scaled.find(op->getOperand(0));
  if (it == l.scaled.end())
    return success();
  Scaled meaning = it->second;
  for (OpResult v : op->getResults()) {
    if (!isa<FloatType>(Lowerer::typeOf(v).getElementType()) || l.scaled.contains(v))
      continue; // interpolation has a meaning of its own
    auto moved = meaning.scale.size() > 1 ? movedMeaning(op, v.getResultNumber(), meaning) : meaning;
    if (!moved)
      return l.no() << "moves a tensor whose channels have scales of their own";
    l.scaled[v] = *moved;
  }
  return success();
}

LogicalResult QuantisedOperand::quantiseBefore(Operation *op) {
  if (!movesOnly(op))
    return success();
  Value in = op->getOperand(0);
  auto it = l.scaled.find(in);
  if (it == l.scaled.end() || (it->second.plain() && it->second.scale.size() == 1 && !isSum(l, in)))
    return success();
  auto q = readersQuantisation(op->getResults(), l);
  if (!q)
    return success();
  auto y = quantise(l, in, it->second, *q);
  if (!y)
    return failure();
  Scaled integers;
  integers.scale = {q->scale};
  integers.zeroPoint = q->zeroPoint;
  integers.bound = -q->low() + std::abs(q->zeroPoint);
  operand = in;
  meaning = std::exchange(l.scaled[in], integers);
  forms = l.exchange(in, {{y->perm, y->value}});
  return success();
}

QuantisedOperand::~QuantisedOperand() {
  if (!operand)
    return;
  l.scaled[operand] = meaning;
  l.exchange(operand, std::move(forms));
}

} // namespace tessera::tosa

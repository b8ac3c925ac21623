// Operators on sequences and optionals, see Aggregates.h.
//
// With E the elements and X [n, rank] the extents of a sequence:
//   sizes  = ReduceProd(|X|, 1)        elements of each tensor
//   starts = CumSum(sizes, exclusive)  where it begins in E
// Positions are checked by the Gathers that read sizes and starts: one out of
// range fails the run.
#include "passes/Canonicalise/Aggregates.h"

#include "dialects/Onnx/IR/Unsupported.h"

using namespace mlir;

namespace tessera::onnx {

namespace {

class Sequence {
public:
  Sequence(Aggregates &a, Value v, ShapeBuilder &b) : b(b), elements(a.part(v, 0)), extents(a.part(v, 1)), rank(a.rankOf(v)) {}

  Value count() { return b.sizeOf(extents, 0); }
  Value sizes() {
    if (!sizesValue)
      sizesValue = b.reduce("ReduceProd", b.unary("Abs", extents), {1}, false);
    return sizesValue;
  }
  Value starts() {
    if (!startsValue)
      startsValue = b.exclusiveSums(sizes());
    return startsValue;
  }
  /// Position [1] with negative ones counted from the end.
  Value position(Value p) {
    p = b.vectorOf(p);
    if (!elementType(p).isInteger(64))
      p = b.cast(p, b.i64());
    return b.where(b.compare("Less", p, b.one(0)), b.add(p, count()), p);
  }

  ShapeBuilder &b;
  Value elements, extents;
  std::optional<int64_t> rank;

private:
  Value sizesValue, startsValue;
};

/// The elements of a tensor in a row: [total], or [total, W] for strings.
Value rowOf(ShapeBuilder &b, Value tensor, bool strings) {
  if (!strings)
    return b.flat(tensor);
  int64_t last = rankedType(tensor).getRank() - 1;
  Value shape = b.shapeOf(tensor);
  Value total = b.reduce("ReduceProd", b.slice(shape, b.one(0), b.one(last)), {0}, true);
  return b.reshapeTo(tensor, b.concat({total, b.sizeOf(tensor, last)}), 2);
}

bool holdsStrings(Value v) {
  SeqType s = sequenceIn(v.getType());
  return s && isStrings(s.getElementType());
}

/// [1, rank]: the extents of one tensor.
Value extentsRow(ShapeBuilder &b, Value tensor, int64_t rank) {
  Value shape = b.shapeOf(tensor);
  if (int64_t missing = rank - rankedType(tensor).getRank())
    shape = b.concat({b.ints(SmallVector<int64_t>(missing, -1)), shape});
  return b.unsqueeze(shape, {0});
}

/// Strings of two widths next to each other would need padding: not served.
bool numeric(Operation *op) {
  auto none = [](ValueRange values) { return llvm::none_of(values, [](Value v) { return holdsStrings(v); }); };
  return none(op->getOperands()) && none(op->getResults());
}

Value zeros(ShapeBuilder &b, RankedTensorType t) {
  SmallVector<int64_t> shape;
  for (int64_t d : t.getShape())
    shape.push_back(ShapedType::isDynamic(d) ? 0 : d);
  HostTensor value(t.getElementType(), {1});
  value.mutableData();
  Value v = b.op("ConstantOfShape", {b.ints(shape)}, t.clone(shape),
                 {b.attrs().getNamedAttr("value", value.attribute())});
  return v;
}

LogicalResult noRank(Operation *op) { return unsupported(op, "the rank of the tensors in its sequence is not known"); }
LogicalResult noStrings(Operation *op) { return unsupported(op, "sequences of strings are not supported here"); }

} // namespace

TESSERA_AGGREGATE_RULE(Identity, "Identity") {
  a.set(op->getResult(0), a.parts(op->getOperand(0)));
  return success();
}

TESSERA_AGGREGATE_RULE(SequenceEmpty, "SequenceEmpty") {
  auto types = a.partTypes(op->getResult(0).getType(), a.rankOf(op->getResult(0)).value_or(1));
  if (!types)
    return unsupported(op, "sequences of this element type are not supported");
  SmallVector<Value> parts;
  for (Type t : *types)
    parts.push_back(zeros(b, cast<RankedTensorType>(t)));
  a.set(op->getResult(0), parts);
  return success();
}

TESSERA_AGGREGATE_RULE(SequenceConstruct, "SequenceConstruct") {
  SmallVector<Value> rows, extents;
  std::optional<int64_t> rank = a.rankOf(op->getResult(0));
  for (Value v : op->getOperands()) {
    if (!numeric(op))
      return noStrings(op);
    if (!rankedType(v) || !rank)
      return noRank(op);
    rows.push_back(rowOf(b, v, false));
    extents.push_back(extentsRow(b, v, *rank));
  }
  if (rows.empty())
    return unsupported(op, "it has no inputs");
  a.set(op->getResult(0), {b.concat(rows), b.concat(extents)});
  return success();
}

TESSERA_AGGREGATE_RULE(SequenceLength, "SequenceLength") {
  a.set(op->getResult(0), {b.scalarOf(Sequence(a, op->getOperand(0), b).count())});
  return success();
}

TESSERA_AGGREGATE_RULE(SequenceAt, "SequenceAt") {
  Sequence s(a, op->getOperand(0), b);
  if (!s.rank)
    return noRank(op);
  Value p = b.vectorOf(op->getOperand(1));
  Value begin = b.gather(s.starts(), p), size = b.gather(s.sizes(), p);
  Value row = b.slice(s.elements, begin, b.add(begin, size));
  Value shape = b.gather(s.extents, b.scalarOf(p));
  int64_t rank = *s.rank;
  if (auto t = dyn_cast<RankedTensorType>(op->getResult(0).getType()); t && t.getRank() < rank) {
    shape = t.getRank() ? b.slice(shape, b.one(rank - t.getRank()), b.end()) : b.ints({});
    rank = t.getRank();
  }
  if (holdsStrings(op->getOperand(0))) {
    shape = b.concat({shape, b.sizeOf(s.elements, 1)});
    ++rank;
  }
  a.set(op->getResult(0), {b.reshapeTo(row, shape, rank)});
  return success();
}

TESSERA_AGGREGATE_RULE(SequenceInsert, "SequenceInsert") {
  Sequence s(a, op->getOperand(0), b);
  Value tensor = op->getOperand(1);
  if (!numeric(op))
    return noStrings(op);
  if (!rankedType(tensor) || !s.rank)
    return noRank(op);
  Value row = rowOf(b, tensor, false), extents = extentsRow(b, tensor, *s.rank);
  Value where = getOptionalOperand(op, 2);
  if (!where) {
    a.set(op->getResult(0), {b.concat({s.elements, row}), b.concat({s.extents, extents})});
    return success();
  }
  // Starts of all tensors and the end of the last: n + 1 places.
  Value p = s.position(where);
  Value total = b.sizeOf(s.elements, 0);
  Value places = b.concat({s.starts(), total});
  Value beyond = b.where(b.compare("Less", p, b.one(0)), b.end(), p); // still negative: out of range
  Value begin = b.gather(places, beyond);
  Value elements = b.concat({b.slice(s.elements, b.one(0), begin), row, b.slice(s.elements, begin, b.end())});
  Value rows = b.concat({b.slice(s.extents, b.one(0), p), extents, b.slice(s.extents, p, b.end())});
  a.set(op->getResult(0), {elements, rows});
  return success();
}

TESSERA_AGGREGATE_RULE(SequenceErase, "SequenceErase") {
  Sequence s(a, op->getOperand(0), b);
  Value where = getOptionalOperand(op, 1);
  Value p = where ? s.position(where) : b.sub(s.count(), b.one(1));
  Value beyond = b.where(b.compare("Less", p, b.one(0)), b.end(), p);
  Value begin = b.gather(s.starts(), beyond), after = b.add(begin, b.gather(s.sizes(), beyond));
  Value elements = b.concat({b.slice(s.elements, b.one(0), begin), b.slice(s.elements, after, b.end())});
  Value rows = b.concat({b.slice(s.extents, b.one(0), p), b.slice(s.extents, b.add(p, b.one(1)), b.end())});
  a.set(op->getResult(0), {elements, rows});
  return success();
}

//===-- Splitting and joining -----------------------------------------------===//

namespace {

/// Lengths [n] of the chunks along an axis of extent `size` [1].
Value chunkLengths(ShapeBuilder &b, Value split, Value size) {
  split = elementType(split).isInteger(64) ? split : b.cast(split, b.i64());
  if (rankedType(split).getRank() == 1) { // given; they must add up
    Value sum = b.reduce("ReduceSum", split, {0}, true);
    return b.add(split, b.demand(b.compare("Equal", sum, size)));
  }
  Value s = b.vectorOf(split);
  Value n = b.div(b.sub(b.add(size, s), b.one(1)), s);
  Value done = b.mul(b.range(n), s);
  return b.binary("Min", b.sub(size, done), s);
}

/// For every position of a row of `total` elements in pieces that end at `ends`
/// [n]: which piece it lies in.
Value pieceOf(ShapeBuilder &b, Value positions, Value ends) {
  Value after = b.compare("GreaterOrEqual", b.unsqueeze(positions, {1}), ends);
  return b.reduce("ReduceSum", b.cast(after, b.i64()), {1}, false);
}

/// Products of the extents before and after `axis`, [1] each.
std::pair<Value, Value> outerAndInner(ShapeBuilder &b, Value shape, int64_t axis) {
  Value before = b.reduce("ReduceProd", b.slice(shape, b.one(0), b.one(axis)), {0}, true);
  Value after = b.reduce("ReduceProd", b.slice(shape, b.one(axis + 1), b.end()), {0}, true);
  return {before, after};
}

/// A divisor that is never 0; nothing is divided where it would be.
Value atLeastOne(ShapeBuilder &b, Value v) { return b.binary("Max", v, b.one(1)); }

} // namespace

TESSERA_AGGREGATE_RULE(SplitToSequence, "SplitToSequence") {
  Value x = op->getOperand(0), split = getOptionalOperand(op, 1);
  if (!numeric(op))
    return noStrings(op);
  if (!rankedType(x))
    return unsupportedInput(op, 0, "its rank is not known");
  int64_t rank = rankedType(x).getRank(), axis = getInt(op, "axis", 0);
  axis += axis < 0 ? rank : 0;
  if (axis < 0 || axis >= rank)
    return unsupportedAttribute(op, "axis", "the input has rank " + Twine(rank));
  if (split && (!rankedType(split) || rankedType(split).getRank() > 1))
    return unsupportedInput(op, 1, "expected rank 0 or 1");
  Value size = b.sizeOf(x, axis), shape = b.shapeOf(x);
  Value head = b.slice(shape, b.one(0), b.one(axis)), tail = b.slice(shape, b.one(axis + 1), b.end());
  auto [outer, inner] = outerAndInner(b, shape, axis);
  bool drop = !split && !getInt(op, "keepdims", 1);
  Value lengths = split ? chunkLengths(b, split, size) : b.expandTo(b.one(1), size, 1);
  Value n = b.sizeOf(lengths, 0);
  auto repeated = [&](Value row, int64_t width) {
    return b.expandTo(b.reshapeTo(row, b.ints({1, width}), 2), b.concat({n, b.one(width)}), 2);
  };
  SmallVector<Value> columns;
  if (axis > 0)
    columns.push_back(repeated(head, axis));
  if (!drop)
    columns.push_back(b.unsqueeze(lengths, {1}));
  if (axis + 1 < rank)
    columns.push_back(repeated(tail, rank - axis - 1));
  if (columns.empty()) // scalars: [n, 0]
    columns.push_back(b.reshapeTo(b.slice(lengths, b.one(0), b.one(0)), b.concat({n, b.one(0)}), 2));
  Value extents = b.concat(columns, 1);
  Value row = b.flat(x);
  if (axis > 0) {
    // Position q of piece k, which holds [outer, length, inner]:
    //   q - start = (o * length + l) * inner + i, from x[o, first + l, i]
    Value q = b.range(b.sizeOf(row, 0)), width = b.mul(outer, inner);
    Value starts = b.mul(b.exclusiveSums(lengths), width), ends = b.add(starts, b.mul(lengths, width));
    Value k = pieceOf(b, q, ends);
    Value rest = b.sub(q, b.gather(starts, k)), length = atLeastOne(b, b.gather(lengths, k));
    Value across = b.div(rest, atLeastOne(b, inner)), i = b.sub(rest, b.mul(across, inner));
    Value o = b.div(across, length), l = b.sub(across, b.mul(o, length));
    Value first = b.gather(b.exclusiveSums(lengths), k);
    row = b.gather(row, b.add(b.mul(b.add(b.mul(o, size), b.add(first, l)), inner), i));
  }
  a.set(op->getResult(0), {row, extents});
  return success();
}

TESSERA_AGGREGATE_RULE(ConcatFromSequence, "ConcatFromSequence") {
  Sequence s(a, op->getOperand(0), b);
  if (!numeric(op))
    return noStrings(op);
  if (!s.rank)
    return noRank(op);
  bool fresh = getInt(op, "new_axis", 0);
  int64_t rank = *s.rank + fresh, axis = getInt(op, "axis", 0);
  axis += axis < 0 ? rank : 0;
  if (axis < 0 || axis >= rank)
    return unsupportedAttribute(op, "axis", "the tensors have rank " + Twine(rank));
  Value first = b.gather(s.extents, b.ints({0}, true)); // fails where the sequence is empty
  // All extents but those along the axis agree.
  Value same = b.compare("Equal", s.extents, first);
  if (!fresh) {
    HostTensor free(b.i1(), {rank});
    free.mutableData();
    free.setInteger(axis, 1);
    same = b.compare("Or", same, b.weight(free));
  }
  Value all = b.reduce("ReduceMin", b.reshapeTo(b.cast(same, b.i32()), b.ints({-1}), 1), {0}, true);
  Value zero = rank - fresh > 0 ? b.demand(b.cast(all, b.i1())) : b.one(0);
  if (fresh) {
    Value v = b.reshapeTo(s.elements, b.concat({b.add(s.count(), zero), first}), rank);
    SmallVector<int64_t> perm;
    for (int64_t k = 1; k < rank; ++k)
      perm.push_back(k);
    perm.insert(perm.begin() + axis, 0);
    a.set(op->getResult(0), {b.transpose(v, perm)});
    return success();
  }
  Value lengths = b.gather(s.extents, b.ints({axis}, true), 1); // [n]
  Value total = b.add(b.reduce("ReduceSum", lengths, {0}, true), zero);
  SmallVector<Value> shape;
  if (axis > 0)
    shape.push_back(b.slice(first, b.one(0), b.one(axis)));
  shape.push_back(total);
  if (axis + 1 < rank)
    shape.push_back(b.slice(first, b.one(axis + 1), b.end()));
  Value row = s.elements;
  if (axis > 0) {
    // Position q = (o * total + t) * inner + i, with t in piece k: the inverse of the split.
    auto [outer, inner] = outerAndInner(b, first, axis);
    Value q = b.range(b.sizeOf(row, 0));
    Value across = b.div(q, atLeastOne(b, inner)), i = b.sub(q, b.mul(across, inner));
    Value o = b.div(across, atLeastOne(b, total)), t = b.sub(across, b.mul(o, total));
    Value begins = b.exclusiveSums(lengths), k = pieceOf(b, t, b.add(begins, lengths));
    Value l = b.sub(t, b.gather(begins, k)), length = b.gather(lengths, k);
    Value at = b.add(b.mul(b.add(b.mul(o, length), l), inner), i);
    row = b.gather(row, b.add(b.gather(s.starts(), k), at));
  }
  a.set(op->getResult(0), {b.reshapeTo(row, b.concat(shape), rank)});
  return success();
}

//===-- Optionals -----------------------------------------------------------===//

static Value truth(ShapeBuilder &b, bool v) {
  HostTensor t(b.i1(), {});
  t.setInteger(0, v);
  return b.weight(t);
}

TESSERA_AGGREGATE_RULE(Optional, "Optional") {
  Value result = op->getResult(0);
  SmallVector<Value> parts{truth(b, op->getNumOperands() > 0)};
  if (op->getNumOperands()) {
    llvm::append_range(parts, a.parts(op->getOperand(0)));
    a.set(result, parts);
    return success();
  }
  auto types = a.partTypes(result.getType(), a.rankOf(result).value_or(1));
  if (!types)
    return unsupported(op, "an optional of this type is not supported");
  for (Type t : ArrayRef<Type>(*types).drop_front()) {
    if (!isa<RankedTensorType>(t))
      return unsupported(op, "the rank of the absent value is not known");
    parts.push_back(zeros(b, cast<RankedTensorType>(t)));
  }
  a.set(result, parts);
  return success();
}

TESSERA_AGGREGATE_RULE(OptionalHasElement, "OptionalHasElement") {
  bool optional = op->getNumOperands() && isa<OptType>(op->getOperand(0).getType());
  a.set(op->getResult(0), {optional ? a.part(op->getOperand(0)) : truth(b, op->getNumOperands() > 0)});
  return success();
}

TESSERA_AGGREGATE_RULE(OptionalGetElement, "OptionalGetElement") {
  SmallVector<Value> parts = a.parts(op->getOperand(0));
  if (!isa<OptType>(op->getOperand(0).getType())) {
    a.set(op->getResult(0), parts);
    return success();
  }
  Value present = parts.front();
  parts.erase(parts.begin());
  auto known = getConstantInts(present);
  if (!known || known->front() == 0) { // an absent value fails the run
    Value v = parts.front(), zero = b.demand(present);
    if (!rankedType(v))
      return unsupported(op, "the rank of the optional's value is not known");
    parts.front() = b.reshapeTo(v, b.add(b.shapeOf(v), zero), rankedType(v).getRank());
  }
  a.set(op->getResult(0), parts);
  return success();
}

} // namespace tessera::onnx

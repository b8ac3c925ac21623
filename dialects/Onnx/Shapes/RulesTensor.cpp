// Shapes of the operators of ONNX's tensor category; their contents rules are in
// ContentsTensor.cpp.
#include "dialects/Onnx/Shapes/ShapeContents.h"

using namespace mlir;
using namespace tessera::onnx;

TESSERA_SHAPE_RULES(SameAsInput, "BitCast", "Cast", "CastLike", "Identity", "IsInf", "IsNaN",
                    "ReverseSequence", "ScatterElements", "ScatterND", "TensorScatter", "Trilu") {
  s.set(0, s.dims(0));
}
TESSERA_SHAPE_OPERANDS(Trilu, 0, 1u << 1, "Trilu");
TESSERA_SHAPE_OPERANDS(CastLike, 1u << 1, 0, "CastLike");

TESSERA_SHAPE_RULE(Shape) {
  int64_t rank = s.rank(0);
  auto clamp = [&](int64_t v) { return std::clamp<int64_t>(v < 0 ? v + rank : v, 0, rank); };
  int64_t start = clamp(s.getInt("start")), end = clamp(s.getInt("end", rank));
  s.set(0, {s.c(std::max<int64_t>(end - start, 0))});
}
TESSERA_SHAPE_RULE(Size) { s.set(0, {}); }
TESSERA_SHAPE_OPERANDS(Shape, 1u << 0, 0, "Shape", "Size");

//===----------------------------------------------------------------------===//
// Views
//===----------------------------------------------------------------------===//

// An element of `shape` may be 0 (copy) or -1 (infer). An expression over
// dimensions alone is taken as a plain size; run-time data is taken apart.
TESSERA_SHAPE_RULE(Reshape) {
  SymDims in(s.dims(0)), wanted = s.ints(1);
  bool allowZero = s.getInt("allowzero") != 0;
  Sym total = s.ctx.product(in);

  SymDims out, factors; // factors: 1 where the size is to be inferred
  SmallVector<Sym> inferred; // condition that it is, null if it is not
  for (auto [i, w] : llvm::enumerate(wanted)) {
    bool fromData = false;
    forEachLeaf(w, [&](Sym leaf) { fromData |= leaf->kind == SymKind::Data; });
    Sym copy = i < in.size() ? in[i] : nullptr;
    if (w->isConstant() && w->imm < -1)
      s.contradict("element " + Twine(i) + " of the shape of " + describe(s.op) + " is " +
                   Twine(w->imm));
    if (w->isConstant(-1)) {
      inferred.push_back(s.c(1));
      factors.push_back(s.c(1));
    } else if (w->isConstant(0) && !allowZero) {
      if (!copy)
        s.contradict("element " + Twine(i) + " of the shape of " + describe(s.op) +
                     " is 0 but the input has only " + Twine(in.size()) + " dimensions");
      inferred.push_back(nullptr);
      factors.push_back(copy);
    } else if (fromData) {
      Sym isMinusOne = s.ctx.equal(w, s.c(-1));
      Sym size = w;
      if (!allowZero && copy)
        size = s.ctx.select(s.ctx.equal(w, s.c(0)), copy, w);
      inferred.push_back(isMinusOne->isConstant(0) ? nullptr : isMinusOne);
      factors.push_back(s.ctx.select(isMinusOne, s.c(1), size));
    } else {
      inferred.push_back(nullptr);
      factors.push_back(w);
    }
  }
  unsigned open = llvm::count_if(inferred, [](Sym c) { return c != nullptr; });
  unsigned surely = llvm::count_if(inferred, [](Sym c) { return c && c->isConstant(1); });
  if (surely > 1)
    s.contradict("the shape of " + describe(s.op) + " has more than one -1");
  Sym known = s.ctx.product(factors);
  // Where data decides, the quotient may be computed although it is not used.
  Sym rest = nullptr;
  if (open) {
    if (known->isConstant(0))
      s.contradict("the dimension to infer of " + describe(s.op) + " is undefined: others are 0");
    rest = s.ctx.exactQuotient(total, known);
    if (!rest)
      rest = s.ctx.floorDiv(total, open > surely ? s.ctx.max(known, s.c(1)) : known);
  }
  for (auto [f, c] : llvm::zip(factors, inferred))
    out.push_back(c ? s.ctx.select(c, rest, f) : f);
  Sym count = open ? s.ctx.product(out) : known;
  s.require(s.ctx.equal(count, total), "cannot reshape " + toString(total) + " elements to " +
                                           toString(count) + " in " + describe(s.op));
  s.set(0, out);
}
TESSERA_SHAPE_OPERANDS(Reshape, 1u << 1, 0, "Reshape");

TESSERA_SHAPE_RULE(Flatten) {
  auto in = s.dims(0);
  int64_t rank = in.size(), axis = s.getInt("axis", 1);
  if (axis < 0)
    axis += rank;
  if (axis < 0 || axis > rank)
    s.contradict("axis " + Twine(axis) + " of " + describe(s.op) + " is outside of rank " +
                 Twine(rank));
  s.set(0, {s.ctx.product(in.take_front(axis)), s.ctx.product(in.drop_front(axis))});
}

// Axes that are run-time data, each brought into [0, rank).
static SymDims normalisedAxes(OpShapes &s, unsigned position, int64_t rank) {
  SymDims out;
  for (Sym a : s.ints(position))
    out.push_back(s.ctx.select(s.ctx.less(a, s.c(0)), s.ctx.add(a, s.c(rank)), a));
  return out;
}
static Sym isAmong(OpShapes &s, int64_t axis, ArrayRef<Sym> axes) {
  Sym hit = s.c(0);
  for (Sym a : axes)
    hit = s.ctx.logicalOr(hit, s.ctx.equal(a, s.c(axis)));
  return hit;
}
static Sym countBelow(OpShapes &s, int64_t axis, ArrayRef<Sym> axes) {
  Sym count = s.c(0);
  for (Sym a : axes)
    count = s.ctx.add(count, s.ctx.less(a, s.c(axis)));
  return count;
}

TESSERA_SHAPE_RULE(Squeeze) {
  auto in = s.dims(0);
  SmallVector<bool> drop(in.size(), false);
  if (s.has(1)) {
    auto axes = s.constants(1);
    if (!axes) {
      SymDims given = normalisedAxes(s, 1, in.size()), out;
      for (size_t i = 0; i + given.size() < in.size(); ++i) {
        Sym d = s.c(1);
        for (size_t p = in.size(); p-- > 0;) {
          Sym here = s.ctx.equal(s.ctx.sub(s.c(p), countBelow(s, p, given)), s.c(i));
          d = s.ctx.select(s.ctx.logicalAnd(here, s.ctx.logicalNot(isAmong(s, p, given))), in[p], d);
        }
        out.push_back(d);
      }
      s.require(s.ctx.equal(s.ctx.product(out), s.ctx.product(in)),
                "the dimensions that " + describe(s.op) + " removes must be 1");
      s.set(0, out);
      return;
    }
    for (int64_t a : *axes)
      drop[s.normaliseAxis(a, in.size())] = true;
    for (auto [i, d] : llvm::enumerate(in))
      if (drop[i])
        s.require(s.ctx.equal(d, s.c(1)), "dimension " + Twine(i) + " of the input of " +
                                              describe(s.op) + " must be 1 but is " + toString(d));
  } else {
    // An open dimension is taken to be larger than 1: else the rank would vary.
    for (auto [i, d] : llvm::enumerate(in)) {
      drop[i] = d->isConstant(1);
      if (!drop[i])
        s.require(s.ctx.logicalNot(s.ctx.equal(d, s.c(1))),
                  "dimension " + Twine(i) + " of the input of " + describe(s.op) +
                      " must not be 1: the rank of the result depends on it");
    }
  }
  SymDims out;
  for (auto [d, gone] : llvm::zip(in, drop))
    if (!gone)
      out.push_back(d);
  s.set(0, out);
}

TESSERA_SHAPE_RULE(Unsqueeze) {
  auto in = s.dims(0);
  auto axes = s.constants(1);
  if (!axes) {
    SymDims given = normalisedAxes(s, 1, in.size() + s.ints(1).size()), out;
    for (size_t i = 0; i < in.size() + given.size(); ++i) {
      Sym source = s.ctx.sub(s.c(i), countBelow(s, i, given)), d = s.c(1);
      for (size_t p = in.size(); p-- > 0;)
        d = s.ctx.select(s.ctx.equal(source, s.c(p)), in[p], d);
      out.push_back(s.ctx.select(isAmong(s, i, given), s.c(1), d));
    }
    s.require(s.ctx.equal(s.ctx.product(out), s.ctx.product(in)),
              "the axes of " + describe(s.op) + " must differ and be in range");
    s.set(0, out);
    return;
  }
  int64_t rank = in.size() + axes->size();
  SmallVector<bool> fresh(rank, false);
  for (int64_t a : *axes) {
    int64_t axis = s.normaliseAxis(a, rank);
    if (fresh[axis])
      s.contradict("axis " + Twine(a) + " of " + describe(s.op) + " is given twice");
    fresh[axis] = true;
  }
  SymDims out;
  size_t next = 0;
  for (bool f : fresh)
    out.push_back(f ? s.c(1) : in[next++]);
  s.set(0, out);
}
TESSERA_SHAPE_OPERANDS(Axes, 1u << 1, 0, "Squeeze", "Unsqueeze");

TESSERA_SHAPE_RULE(Transpose) {
  auto in = s.dims(0);
  SmallVector<int64_t> perm = s.getInts("perm");
  if (perm.empty())
    for (int64_t i = in.size(); i-- > 0;)
      perm.push_back(i);
  if (perm.size() != in.size())
    s.contradict("the permutation of " + describe(s.op) + " has " + Twine(perm.size()) +
                 " entries for rank " + Twine(in.size()));
  SymDims out;
  for (int64_t p : perm)
    out.push_back(in[s.normaliseAxis(p, in.size())]);
  s.set(0, out);
}

//===----------------------------------------------------------------------===//
// Joining and cutting
//===----------------------------------------------------------------------===//

TESSERA_SHAPE_RULE(Concat) {
  SymDims out(s.dims(0));
  int64_t axis = s.getAxis("axis", 0, out.size());
  for (unsigned i = 1; i < s.numInputs(); ++i) {
    s.expectRank(i, out.size());
    for (auto [a, d] : llvm::enumerate(s.dims(i)))
      out[a] = static_cast<int64_t>(a) == axis
                   ? s.ctx.add(out[a], d)
                   : s.unify(out[a], d, "dimensions " + Twine(a) + " of the inputs");
  }
  s.set(0, out);
}

TESSERA_SHAPE_RULE(Split) {
  SymDims out(s.dims(0));
  int64_t axis = s.getAxis("axis", 0, out.size());
  Sym whole = out[axis];
  unsigned n = s.op->getNumResults();
  if (s.has(1)) {
    SymDims sizes = s.ints(1);
    if (sizes.size() != n)
      s.contradict("the split of " + describe(s.op) + " has " + Twine(sizes.size()) +
                   " sizes for " + Twine(n) + " results");
    Sym sum = s.c(0);
    for (unsigned i = 0; i < n; ++i) {
      sum = s.ctx.add(sum, sizes[i]);
      out[axis] = sizes[i];
      s.set(i, out);
    }
    s.require(s.ctx.equal(sum, whole), "the sizes of " + describe(s.op) + " add up to " +
                                           toString(sum) + " instead of " + toString(whole));
    return;
  }
  // Equal parts, the last may be shorter.
  Sym part = s.ctx.ceilDiv(whole, s.c(n));
  for (unsigned i = 0; i < n; ++i) {
    out[axis] = i + 1 < n ? part : s.ctx.sub(whole, s.ctx.mul(part, s.c(n - 1)));
    s.set(i, out);
  }
}
TESSERA_SHAPE_OPERANDS(Split, 1u << 1, 0, "Split");

// An index that may count from the end, as an index from the start.
static Sym fromStart(OpShapes &s, Sym index, Sym size) {
  if (index->lower && *index->lower >= 0)
    return index;
  Sym wrapped = s.ctx.add(index, size);
  if (index->upper && *index->upper < 0)
    return wrapped;
  return s.ctx.select(s.ctx.less(index, s.c(0)), wrapped, index);
}

static Sym sliceSize(OpShapes &s, Sym size, Sym start, Sym end, int64_t step) {
  Sym zero = s.c(0);
  auto clamp = [&](Sym index, Sym low, Sym high) {
    if (index->isConstant() && index->imm >= INT32_MAX)
      return high;
    if (index->isConstant() && index->imm <= INT32_MIN + 1)
      return low;
    return s.ctx.min(s.ctx.max(fromStart(s, index, size), low), high);
  };
  if (step > 0) {
    Sym length = s.ctx.sub(clamp(end, zero, size), clamp(start, zero, size));
    return s.ctx.max(s.ctx.ceilDiv(length, s.c(step)), zero);
  }
  Sym last = s.ctx.sub(size, s.c(1));
  Sym length = s.ctx.sub(clamp(start, zero, last), clamp(end, s.c(-1), last));
  if (step == INT64_MIN)
    return s.ctx.min(s.ctx.max(length, zero), s.c(1));
  return s.ctx.max(s.ctx.ceilDiv(length, s.c(-step)), zero);
}

static void sliceByData(OpShapes &s, SymDims out, ArrayRef<Sym> starts, ArrayRef<Sym> ends) {
  SymDims axes = normalisedAxes(s, 3, out.size());
  std::optional<SmallVector<int64_t>> steps;
  if (s.has(4))
    steps = s.constants(4);
  else
    steps = SmallVector<int64_t>(axes.size(), 1);
  if (axes.size() != starts.size() || axes.size() != ends.size() ||
      (steps && steps->size() != axes.size()))
    s.contradict("starts, ends, axes and steps of " + describe(s.op) + " differ in length");
  for (auto [i, d] : llvm::enumerate(out)) {
    if (!steps || llvm::is_contained(*steps, 0)) {
      d = s.extent(0, i, d->upper);
      continue;
    }
    Sym whole = d;
    for (size_t k = 0; k < axes.size(); ++k)
      d = s.ctx.select(s.ctx.equal(axes[k], s.c(i)),
                       sliceSize(s, whole, starts[k], ends[k], (*steps)[k]), d);
  }
  s.set(0, out);
}

TESSERA_SHAPE_RULE(Slice) {
  SymDims out(s.dims(0));
  SymDims starts = s.ints(1), ends = s.ints(2);
  SmallVector<int64_t> axes;
  if (s.has(3)) {
    auto given = s.constants(3);
    if (!given) { // any axis may be cut
      sliceByData(s, out, starts, ends);
      return;
    }
    axes = *given;
  } else {
    for (size_t i = 0; i < starts.size(); ++i)
      axes.push_back(i);
  }
  if (axes.size() != starts.size() || axes.size() != ends.size())
    s.contradict("starts, ends and axes of " + describe(s.op) + " differ in length");
  SymDims steps = s.has(4) ? s.ints(4) : SymDims(axes.size(), s.c(1));
  if (steps.size() != axes.size())
    s.contradict("steps and axes of " + describe(s.op) + " differ in length");
  for (auto [i, a] : llvm::enumerate(axes)) {
    int64_t axis = s.normaliseAxis(a, out.size());
    if (steps[i]->isConstant(0))
      s.contradict("a step of " + describe(s.op) + " is 0");
    if (steps[i]->isConstant())
      out[axis] = sliceSize(s, out[axis], starts[i], ends[i], steps[i]->imm);
    else
      out[axis] = s.extent(0, axis, out[axis]->upper);
  }
  s.set(0, out);
}
TESSERA_SHAPE_OPERANDS(Slice, 1u << 2, 1u << 1 | 1u << 3 | 1u << 4, "Slice");

TESSERA_SHAPE_RULE(Pad) {
  SymDims out(s.dims(0));
  SymDims pads = s.ints(1);
  SmallVector<int64_t> axes;
  if (s.has(3)) {
    auto given = s.constants(3);
    if (!given) {
      SymDims open = normalisedAxes(s, 3, out.size());
      if (pads.size() != 2 * open.size())
        s.contradict("the pads of " + describe(s.op) + " do not fit its axes");
      for (auto [axis, d] : llvm::enumerate(out))
        for (size_t k = 0; k < open.size(); ++k)
          d = s.ctx.add(d, s.ctx.select(s.ctx.equal(open[k], s.c(axis)),
                                        s.ctx.add(pads[k], pads[k + open.size()]), s.c(0)));
      s.set(0, out);
      return;
    }
    axes = *given;
  } else {
    for (size_t i = 0; i < out.size(); ++i)
      axes.push_back(i);
  }
  if (pads.size() != 2 * axes.size())
    s.contradict("the pads of " + describe(s.op) + " are " + Twine(pads.size()) +
                 " numbers instead of " + Twine(2 * axes.size()));
  for (auto [i, a] : llvm::enumerate(axes)) {
    int64_t axis = s.normaliseAxis(a, out.size());
    out[axis] = s.ctx.add(out[axis], s.ctx.add(pads[i], pads[i + axes.size()]));
  }
  s.set(0, out);
}
TESSERA_SHAPE_OPERANDS(Pad, 0, 1u << 1 | 1u << 3, "Pad");

TESSERA_SHAPE_RULE(CenterCropPad) {
  SymDims out(s.dims(0));
  SymDims wanted = s.ints(1);
  SmallVector<int64_t> axes = s.getInts("axes");
  if (axes.empty())
    for (size_t i = 0; i < out.size(); ++i)
      axes.push_back(i);
  if (axes.size() != wanted.size())
    s.contradict("shape and axes of " + describe(s.op) + " differ in length");
  for (auto [a, w] : llvm::zip(axes, wanted))
    out[s.normaliseAxis(a, out.size())] = w;
  s.set(0, out);
}
TESSERA_SHAPE_OPERANDS(CenterCropPad, 1u << 1, 0, "CenterCropPad");

TESSERA_SHAPE_RULE(Tile) {
  SymDims out(s.dims(0));
  SymDims repeats = s.ints(1);
  if (repeats.size() != out.size())
    s.contradict("the repeats of " + describe(s.op) + " are " + Twine(repeats.size()) +
                 " numbers for rank " + Twine(out.size()));
  for (auto [d, r] : llvm::zip(out, repeats))
    d = s.ctx.mul(d, r);
  s.set(0, out);
}
TESSERA_SHAPE_OPERANDS(Tile, 1u << 1, 0, "Tile");

//===----------------------------------------------------------------------===//
// Gathering
//===----------------------------------------------------------------------===//

TESSERA_SHAPE_RULE(Gather) {
  auto data = s.dims(0);
  int64_t axis = s.getAxis("axis", 0, data.size());
  SymDims out(data.take_front(axis));
  llvm::append_range(out, s.dims(1));
  llvm::append_range(out, data.drop_front(axis + 1));
  s.set(0, out);
}
TESSERA_SHAPE_RULE(GatherElements) { s.set(0, s.dims(1)); }
TESSERA_SHAPE_RULE(GatherND) {
  auto data = s.dims(0), indices = s.dims(1);
  if (indices.empty() || !indices.back()->isConstant())
    s.unknown("the last dimension of the indices of " + describe(s.op) + " is not constant");
  int64_t skip = s.getInt("batch_dims") + indices.back()->imm;
  if (skip < 0 || skip > static_cast<int64_t>(data.size()))
    s.contradict("the indices of " + describe(s.op) + " are longer than the input's rank");
  SymDims out(indices.drop_back());
  llvm::append_range(out, data.drop_front(skip));
  s.set(0, out);
}

TESSERA_SHAPE_RULE(Where) { s.set(0, s.broadcastOperands()); }

TESSERA_SHAPE_RULE(OneHot) {
  SymDims out(s.dims(0));
  int64_t axis = s.getAxis("axis", -1, out.size() + 1);
  const Contents *depth = s.engine.findContents(s.in(1), true);
  Sym size = depth && depth->size() == 1 ? floorElement(s.ctx, depth->front()) : s.extent(0, axis);
  out.insert(out.begin() + axis, size);
  s.set(0, out);
}
TESSERA_SHAPE_OPERANDS(OneHot, 1u << 1, 0, "OneHot");

//===----------------------------------------------------------------------===//
// Results as long as the data says
//===----------------------------------------------------------------------===//

TESSERA_SHAPE_RULE(NonZero) {
  auto in = s.dims(0);
  Sym total = s.ctx.product(in);
  Sym count = nullptr;
  if (auto values = s.constants(0))
    count = s.c(llvm::count_if(*values, [](int64_t v) { return v != 0; }));
  else
    count = s.extent(0, 1, total->upper);
  s.set(0, {s.c(in.size()), count});
}

TESSERA_SHAPE_RULE(Compress) {
  auto in = s.dims(0);
  std::optional<int64_t> axis;
  if (s.attr("axis"))
    axis = s.getAxis("axis", 0, in.size());
  Sym count;
  if (auto condition = s.constants(1))
    count = s.c(llvm::count_if(*condition, [](int64_t v) { return v != 0; }));
  else
    count = s.extent(0, axis.value_or(0), axis ? in[*axis]->upper : s.ctx.product(in)->upper);
  SymDims out;
  if (axis) {
    out.assign(in.begin(), in.end());
    out[*axis] = count;
  } else
    out.push_back(count);
  s.set(0, out);
}

TESSERA_SHAPE_RULE(Unique) {
  auto in = s.dims(0);
  Sym length = s.ctx.product(in);
  SymDims values;
  int64_t axis = 0;
  if (s.attr("axis")) {
    axis = s.getAxis("axis", 0, in.size());
    values.assign(in.begin(), in.end());
    length = in[axis];
  } else
    values.push_back(nullptr);
  Sym count = s.extent(0, axis, length->upper);
  values[axis] = count;
  s.set(0, values);
  s.set(1, {count});
  s.set(2, {length});
  s.set(3, {count});
}

//===----------------------------------------------------------------------===//
// Images
//===----------------------------------------------------------------------===//

TESSERA_SHAPE_RULE(DepthToSpace) {
  s.expectRank(0, 4);
  auto in = s.dims(0);
  Sym b = s.c(s.getInt("blocksize", 1));
  s.set(0, {in[0], s.ctx.floorDiv(in[1], s.ctx.mul(b, b)), s.ctx.mul(in[2], b), s.ctx.mul(in[3], b)});
}
TESSERA_SHAPE_RULE(SpaceToDepth) {
  s.expectRank(0, 4);
  auto in = s.dims(0);
  Sym b = s.c(s.getInt("blocksize", 1));
  s.set(0, {in[0], s.ctx.mul(in[1], s.ctx.mul(b, b)), s.ctx.floorDiv(in[2], b),
            s.ctx.floorDiv(in[3], b)});
}

// sizes under a policy that keeps the aspect ratio: the common scale is the
// smallest (not_larger) or largest (not_smaller) of size / in, and a half is
// rounded up.
static SymDims keepAspect(OpShapes &s, ArrayRef<Sym> in, ArrayRef<Sym> sizes, bool smallest) {
  Sym num = sizes[0], den = in[0];
  for (auto [d, w] : llvm::drop_begin(llvm::zip(in, sizes))) {
    Sym mine = s.ctx.mul(w, den), best = s.ctx.mul(num, d);
    Sym better = smallest ? s.ctx.less(mine, best) : s.ctx.less(best, mine);
    num = s.ctx.select(better, w, num);
    den = s.ctx.select(better, d, den);
  }
  SymDims out;
  Sym two = s.c(2);
  for (Sym d : in)
    out.push_back(s.ctx.floorDiv(s.ctx.add(s.ctx.product({two, num, d}), den), s.ctx.mul(two, den)));
  return out;
}

TESSERA_SHAPE_RULE(Resize) {
  SymDims out(s.dims(0));
  SmallVector<int64_t> axes = s.getInts("axes");
  if (axes.empty())
    for (size_t i = 0; i < out.size(); ++i)
      axes.push_back(i);
  for (int64_t &a : axes)
    a = s.normaliseAxis(a, out.size());
  auto given = [&](unsigned position) {
    if (!s.has(position))
      return false;
    auto d = s.dims(position);
    return !(d.size() == 1 && d[0]->isConstant(0));
  };
  auto expectLength = [&](size_t n, const char *what) {
    if (n != axes.size())
      s.contradict(Twine("the ") + what + " of " + describe(s.op) + " are " + Twine(n) +
                   " numbers for " + Twine(axes.size()) + " axes");
  };
  if (given(3)) {
    SymDims sizes = s.ints(3), in;
    expectLength(sizes.size(), "sizes");
    StringRef policy = s.getString("keep_aspect_ratio_policy", "stretch");
    if (policy != "stretch") {
      for (int64_t a : axes)
        in.push_back(out[a]);
      sizes = keepAspect(s, in, sizes, policy == "not_larger");
    }
    for (auto [a, w] : llvm::zip(axes, sizes))
      out[a] = w;
    s.set(0, out);
    return;
  }
  if (!given(2))
    s.contradict(describe(s.op) + " has neither scales nor sizes");
  const Contents *scales = s.engine.findContents(s.in(2), true);
  if (!scales) { // run-time floats
    auto d = s.dims(2);
    if (d.size() == 1 && d[0]->isConstant())
      expectLength(d[0]->imm, "scales");
    for (int64_t a : axes)
      out[a] = s.extent(0, a);
    s.set(0, out);
    return;
  }
  expectLength(scales->size(), "scales");
  bool crop = s.getString("coordinate_transformation_mode") == "tf_crop_and_resize" && given(1);
  for (auto [i, a] : llvm::enumerate(axes)) {
    Element size = mulElements(s.ctx, {out[a]}, (*scales)[i]);
    if (crop) {
      const Contents &roi = s.contents(1);
      expectLength(roi.size() / 2, "regions");
      size = mulElements(s.ctx, size, subElements(s.ctx, roi[i + axes.size()], roi[i]));
    }
    out[a] = floorElement(s.ctx, size);
  }
  s.set(0, out);
}
// Sizes under a policy that keeps the aspect ratio give the kernel its scale.
TESSERA_SHAPE_OPERANDS(Resize, 0, 1u << 1 | 1u << 2 | 1u << 3, "Resize");

TESSERA_SHAPE_RULE(AffineGrid) {
  SymDims size = s.ints(1);
  if (size.size() < 4)
    s.contradict("the size of " + describe(s.op) + " has " + Twine(size.size()) + " elements");
  SymDims out{size[0]};
  llvm::append_range(out, ArrayRef(size).drop_front(2));
  out.push_back(s.c(size.size() - 2));
  s.set(0, out);
}
TESSERA_SHAPE_OPERANDS(AffineGrid, 1u << 1, 0, "AffineGrid");

TESSERA_SHAPE_RULE(GridSample) {
  auto x = s.dims(0), grid = s.dims(1);
  if (x.size() != grid.size() || x.size() < 3)
    s.contradict("ranks of the inputs of " + describe(s.op) + " differ");
  SymDims out{x[0], x[1]};
  llvm::append_range(out, grid.drop_front().drop_back());
  s.set(0, out);
}

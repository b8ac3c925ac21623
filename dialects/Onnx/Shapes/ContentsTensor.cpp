// What the operators of ONNX's tensor category do to the contents of small
// tensors: most only move elements.
#include "dialects/Onnx/Shapes/ShapeContents.h"

using namespace mlir;
using namespace tessera::onnx;

TESSERA_CONTENTS_RULE(Shape) {
  auto in = s.dims(0);
  int64_t rank = in.size();
  auto clamp = [&](int64_t v) { return std::clamp<int64_t>(v < 0 ? v + rank : v, 0, rank); };
  int64_t start = clamp(s.getInt("start")), end = clamp(s.getInt("end", rank));
  Contents out;
  for (int64_t i = start; i < end; ++i)
    out.push_back({in[i]});
  return out;
}
TESSERA_CONTENTS_RULE(Size) { return {Element{s.ctx.product(s.dims(0))}}; }

TESSERA_CONTENTS_RULES(SameElements, "Flatten", "Identity", "Reshape", "Squeeze", "Unsqueeze") {
  return s.contents(0);
}

TESSERA_CONTENTS_RULES(Conversion, "Cast", "CastLike") {
  auto from = cast<TensorType>(s.in(0).getType()).getElementType();
  auto to = cast<TensorType>(s.out(0).getType()).getElementType();
  Contents out = s.contents(0);
  bool toBool = to.isInteger(1);
  for (Element &e : out) {
    if (toBool)
      e = {s.ctx.logicalNot(s.ctx.equal(e.num, s.c(0)))};
    else if (isa<IntegerType>(to) && e.den)
      e = {s.ctx.truncDiv(e.num, e.den)};
  }
  // Narrow floats hold few whole numbers exactly.
  if (isa<FloatType>(to) && to.getIntOrFloatBitWidth() < 32)
    for (Element &e : out)
      if (!e.num->isConstant() || std::abs(e.num->imm) > 256)
        s.unknown("a conversion to a narrow float");
  (void)from;
  return out;
}

TESSERA_CONTENTS_RULE(Concat) {
  auto outDims = staticDims(s, s.out(0));
  int64_t axis = s.getAxis("axis", 0, outDims.size());
  Contents out(countOf(outDims));
  int64_t offset = 0;
  for (unsigned i = 0; i < s.numInputs(); ++i) {
    auto dims = staticDims(s, s.in(i));
    if (countOf(dims) == 0) // an empty list says nothing, whatever its type
      continue;
    const Contents part = s.contents(i);
    size_t next = 0;
    forEachIndex(dims, [&](ArrayRef<int64_t> index) {
      SmallVector<int64_t, 4> at(index);
      at[axis] += offset;
      out[flatIndex(outDims, at)] = part[next++];
    });
    offset += dims[axis];
  }
  return out;
}

TESSERA_CONTENTS_RULE(Gather) {
  auto dims = staticDims(s, s.in(0)), indexDims = staticDims(s, s.in(1));
  int64_t axis = s.getAxis("axis", 0, dims.size());
  auto indices = s.constants(1);
  if (!indices)
    s.unknown("the indices are not constant");
  const Contents data = s.contents(0);
  Contents out;
  forEachIndex(staticDims(s, s.out(0)), [&](ArrayRef<int64_t> index) {
    auto inner = index.slice(axis, indexDims.size());
    int64_t pick = (*indices)[flatIndex(indexDims, inner)];
    if (pick < 0)
      pick += dims[axis];
    if (pick < 0 || pick >= dims[axis])
      s.unknown("an index is out of range");
    SmallVector<int64_t, 4> at(index.take_front(axis));
    at.push_back(pick);
    llvm::append_range(at, index.drop_front(axis + indexDims.size()));
    out.push_back(data[flatIndex(dims, at)]);
  });
  return out;
}

TESSERA_CONTENTS_RULE(GatherElements) {
  auto dims = staticDims(s, s.in(0)), outDims = staticDims(s, s.out(0));
  int64_t axis = s.getAxis("axis", 0, dims.size());
  auto indices = s.constants(1);
  if (!indices)
    s.unknown("the indices are not constant");
  const Contents data = s.contents(0);
  Contents out;
  forEachIndex(outDims, [&](ArrayRef<int64_t> index) {
    SmallVector<int64_t, 4> at(index);
    at[axis] = (*indices)[flatIndex(outDims, index)];
    if (at[axis] < 0)
      at[axis] += dims[axis];
    if (at[axis] < 0 || at[axis] >= dims[axis])
      s.unknown("an index is out of range");
    out.push_back(data[flatIndex(dims, at)]);
  });
  return out;
}

TESSERA_CONTENTS_RULE(GatherND) {
  auto dims = staticDims(s, s.in(0)), indexDims = staticDims(s, s.in(1));
  auto indices = s.constants(1);
  if (!indices || s.getInt("batch_dims") != 0)
    s.unknown("the indices are not constant");
  const Contents data = s.contents(0);
  int64_t k = indexDims.back(), rows = k ? indices->size() / k : 0;
  SmallVector<int64_t, 4> tail(ArrayRef(dims).drop_front(k));
  Contents out;
  for (int64_t row = 0; row < rows; ++row)
    forEachIndex(tail, [&](ArrayRef<int64_t> rest) {
      SmallVector<int64_t, 4> at;
      for (int64_t i = 0; i < k; ++i) {
        int64_t pick = (*indices)[row * k + i];
        pick += pick < 0 ? dims[i] : 0;
        if (pick < 0 || pick >= dims[i])
          s.unknown("an index is out of range");
        at.push_back(pick);
      }
      llvm::append_range(at, rest);
      out.push_back(data[flatIndex(dims, at)]);
    });
  return out;
}

TESSERA_CONTENTS_RULE(ScatterND) {
  auto dims = staticDims(s, s.in(0)), indexDims = staticDims(s, s.in(1));
  auto indices = s.constants(1);
  if (!indices || indexDims.empty() || s.getString("reduction", "none") != "none")
    s.unknown("the indices are not constant");
  Contents out = s.contents(0);
  const Contents updates = s.contents(2);
  int64_t k = indexDims.back(), rows = k ? indices->size() / k : 0;
  SmallVector<int64_t, 4> tail(ArrayRef(dims).drop_front(k));
  size_t next = 0;
  for (int64_t row = 0; row < rows; ++row)
    forEachIndex(tail, [&](ArrayRef<int64_t> rest) {
      SmallVector<int64_t, 4> at;
      for (int64_t i = 0; i < k; ++i) {
        int64_t pick = (*indices)[row * k + i];
        pick += pick < 0 ? dims[i] : 0;
        if (pick < 0 || pick >= dims[i])
          s.unknown("an index is out of range");
        at.push_back(pick);
      }
      llvm::append_range(at, rest);
      out[flatIndex(dims, at)] = updates[next++];
    });
  return out;
}

TESSERA_CONTENTS_RULE(ScatterElements) {
  auto dims = staticDims(s, s.in(0)), indexDims = staticDims(s, s.in(1));
  int64_t axis = s.getAxis("axis", 0, dims.size());
  auto indices = s.constants(1);
  if (!indices || s.getString("reduction", "none") != "none")
    s.unknown("the indices are not constant");
  Contents out = s.contents(0);
  const Contents updates = s.contents(2);
  forEachIndex(indexDims, [&](ArrayRef<int64_t> index) {
    int64_t flat = flatIndex(indexDims, index);
    SmallVector<int64_t, 4> at(index);
    at[axis] = (*indices)[flat];
    at[axis] += at[axis] < 0 ? dims[axis] : 0;
    if (at[axis] < 0 || at[axis] >= dims[axis])
      s.unknown("an index is out of range");
    out[flatIndex(dims, at)] = updates[flat];
  });
  return out;
}

TESSERA_CONTENTS_RULE(Slice) {
  auto dims = staticDims(s, s.in(0)), outDims = staticDims(s, s.out(0));
  auto starts = s.constants(1);
  std::optional<SmallVector<int64_t>> axes, steps;
  if (s.has(3))
    axes = s.constants(3);
  else {
    axes.emplace();
    for (size_t i = 0; starts && i < starts->size(); ++i)
      axes->push_back(i);
  }
  if (s.has(4))
    steps = s.constants(4);
  else if (starts)
    steps = SmallVector<int64_t>(starts->size(), 1);
  if (!starts || !axes || !steps || axes->size() != starts->size() ||
      steps->size() != starts->size())
    s.unknown("the slice is not constant");
  SmallVector<int64_t, 4> first(dims.size(), 0), stride(dims.size(), 1);
  for (auto [i, a] : llvm::enumerate(*axes)) {
    int64_t axis = s.normaliseAxis(a, dims.size());
    int64_t begin = (*starts)[i];
    if (begin < 0)
      begin += dims[axis];
    stride[axis] = (*steps)[i];
    first[axis] = std::clamp<int64_t>(begin, 0, stride[axis] < 0 ? dims[axis] - 1 : dims[axis]);
  }
  const Contents data = s.contents(0);
  Contents out;
  forEachIndex(outDims, [&](ArrayRef<int64_t> index) {
    SmallVector<int64_t, 4> at(index);
    for (size_t axis = 0; axis < at.size(); ++axis)
      at[axis] = index[axis] == 0 ? first[axis] : first[axis] + index[axis] * stride[axis];
    int64_t flat = flatIndex(dims, at);
    if (flat < 0 || flat >= static_cast<int64_t>(data.size()))
      s.unknown("the slice leaves the input");
    out.push_back(data[flat]);
  });
  return out;
}

TESSERA_CONTENTS_RULE(Split) {
  auto dims = staticDims(s, s.in(0)), outDims = staticDims(s, s.out(result));
  int64_t axis = s.getAxis("axis", 0, dims.size()), offset = 0;
  for (unsigned i = 0; i < result; ++i)
    if (Value earlier = s.out(i))
      offset += staticDims(s, earlier)[axis];
  const Contents data = s.contents(0);
  Contents out;
  forEachIndex(outDims, [&](ArrayRef<int64_t> index) {
    SmallVector<int64_t, 4> at(index);
    at[axis] += offset;
    out.push_back(data[flatIndex(dims, at)]);
  });
  return out;
}

TESSERA_CONTENTS_RULE(Transpose) {
  auto dims = staticDims(s, s.in(0)), outDims = staticDims(s, s.out(0));
  SmallVector<int64_t> perm = s.getInts("perm");
  if (perm.empty())
    for (int64_t i = dims.size(); i-- > 0;)
      perm.push_back(i);
  const Contents data = s.contents(0);
  Contents out;
  forEachIndex(outDims, [&](ArrayRef<int64_t> index) {
    SmallVector<int64_t, 4> at(dims.size());
    for (auto [i, p] : llvm::enumerate(perm))
      at[s.normaliseAxis(p, dims.size())] = index[i];
    out.push_back(data[flatIndex(dims, at)]);
  });
  return out;
}

TESSERA_CONTENTS_RULE(Tile) {
  auto dims = staticDims(s, s.in(0));
  const Contents data = s.contents(0);
  Contents out;
  forEachIndex(staticDims(s, s.out(0)), [&](ArrayRef<int64_t> index) {
    SmallVector<int64_t, 4> at(index);
    for (auto [i, d] : llvm::zip(at, dims))
      i %= d;
    out.push_back(data[flatIndex(dims, at)]);
  });
  return out;
}

TESSERA_CONTENTS_RULE(Pad) {
  auto dims = staticDims(s, s.in(0)), outDims = staticDims(s, s.out(0));
  auto pads = s.constants(1);
  if (!pads || s.has(3) || pads->size() != 2 * dims.size() ||
      s.getString("mode", "constant") != "constant")
    s.unknown("the padding is not constant");
  Element fill{s.c(0)};
  if (s.has(2))
    fill = s.contents(2)[0];
  const Contents data = s.contents(0);
  Contents out;
  forEachIndex(outDims, [&](ArrayRef<int64_t> index) {
    SmallVector<int64_t, 4> at(index);
    bool inside = true;
    for (size_t axis = 0; axis < at.size(); ++axis) {
      at[axis] -= (*pads)[axis];
      inside &= at[axis] >= 0 && at[axis] < dims[axis];
    }
    out.push_back(inside ? data[flatIndex(dims, at)] : fill);
  });
  return out;
}

TESSERA_CONTENTS_RULE(Where) {
  return mapBroadcast(s, [&](ArrayRef<Element> e) -> Element {
    if (e[0].num->isConstant())
      return e[0].num->imm ? e[1] : e[2];
    Sym one = s.c(1), dx = e[1].den ? e[1].den : one, dy = e[2].den ? e[2].den : one;
    Element r{s.ctx.select(e[0].num, e[1].num, e[2].num)};
    if (dx != one || dy != one)
      r.den = s.ctx.select(e[0].num, dx, dy);
    return r;
  });
}

TESSERA_CONTENTS_RULE(NonZero) {
  auto dims = staticDims(s, s.in(0));
  auto values = s.constants(0);
  if (!values)
    s.unknown("the input is not constant");
  SmallVector<SmallVector<int64_t>> rows(dims.size());
  size_t next = 0;
  forEachIndex(dims, [&](ArrayRef<int64_t> index) {
    if ((*values)[next++])
      for (auto [row, i] : llvm::zip(rows, index))
        row.push_back(i);
  });
  Contents out;
  for (auto &row : rows)
    for (int64_t i : row)
      out.push_back({s.c(i)});
  return out;
}

// The layout of data whose order depends only on constants.
TESSERA_CONTENTS_RULE(Compress) {
  auto condition = s.constants(1);
  if (!condition || (s.attr("axis") && s.dims(0).size() != 1))
    s.unknown("the condition is not constant");
  const Contents data = s.contents(0);
  Contents out;
  for (auto [e, keep] : llvm::zip(data, *condition))
    if (keep)
      out.push_back(e);
  return out;
}

// Shapes and contents of the reductions.
#include "dialects/Onnx/Shapes/ShapeContents.h"

using namespace mlir;
using namespace tessera::onnx;

// Which axes are reduced; none where that is not known at compile time.
static std::optional<SmallVector<bool>> reducedAxes(OpShapes &s, int64_t rank) {
  SmallVector<bool> reduced(rank, false);
  SmallVector<int64_t> axes;
  bool given = false;
  auto none = [&] { // a list of no axes, whatever it is made of
    auto d = s.dims(1);
    return d.size() == 1 && d[0]->isConstant(0);
  };
  if (s.has(1) && !none()) {
    auto values = s.constants(1);
    if (!values)
      return std::nullopt;
    axes = *values;
    given = !axes.empty();
  } else if (s.attr("axes")) {
    axes = s.getInts("axes");
    given = !axes.empty();
  }
  if (!given)
    return SmallVector<bool>(rank, s.getInt("noop_with_empty_axes") == 0);
  for (int64_t a : axes)
    reduced[s.normaliseAxis(a, rank)] = true;
  return reduced;
}

TESSERA_SHAPE_RULES(Reduce, "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax",
                    "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare") {
  auto in = s.dims(0);
  bool keep = s.getInt("keepdims", 1) != 0;
  SymDims out;
  if (auto reduced = reducedAxes(s, in.size())) {
    for (auto [d, r] : llvm::zip(in, *reduced))
      if (!r)
        out.push_back(d);
      else if (keep)
        out.push_back(s.c(1));
    s.set(0, out);
    return;
  }
  // The axes are run-time data: their number is known, not which.
  SymDims axes = s.ints(1);
  if (axes.empty())
    s.unknown("the axes of " + describe(s.op) + " are not known");
  if (keep) {
    for (auto [i, d] : llvm::enumerate(in)) {
      Sym hit = s.c(0);
      for (Sym a : axes)
        hit = s.ctx.logicalOr(hit, s.ctx.logicalOr(s.ctx.equal(a, s.c(i)),
                                                   s.ctx.equal(a, s.c(int64_t(i) - int64_t(in.size())))));
      out.push_back(s.ctx.select(hit, s.c(1), d));
    }
  } else {
    if (axes.size() > in.size())
      s.contradict(describe(s.op) + " has more axes than its input has dimensions");
    for (size_t i = 0; i < in.size() - axes.size(); ++i)
      out.push_back(s.extent(0, i));
  }
  s.set(0, out);
}
TESSERA_SHAPE_OPERANDS(Reduce, 0, 1u << 1, "ReduceL1", "ReduceL2", "ReduceLogSum",
                       "ReduceLogSumExp", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd",
                       "ReduceSum", "ReduceSumSquare");

TESSERA_CONTENTS_RULES(Reduce, "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum") {
  auto dims = staticDims(s, s.in(0));
  auto reduced = reducedAxes(s, dims.size());
  if (!reduced)
    s.unknown("the axes are not constant");
  Contents data = s.contents(0);
  SmallVector<int64_t, 4> kept;
  for (auto [d, r] : llvm::zip(dims, *reduced))
    kept.push_back(r ? 1 : d);
  StringRef name = s.op->getName().getStringRef();
  SmallVector<std::optional<Element>> out(countOf(kept));
  forEachIndex(dims, [&](ArrayRef<int64_t> index) {
    std::optional<Element> &acc = out[broadcastIndex(kept, index)];
    Element e = data[flatIndex(dims, index)];
    if (!acc) {
      acc = e;
    } else if (name == "onnx.ReduceSum") {
      acc = addElements(s.ctx, *acc, e);
    } else if (name == "onnx.ReduceProd") {
      acc = mulElements(s.ctx, *acc, e);
    } else {
      if (acc->den || e.den)
        s.unknown("a comparison of fractions");
      acc = Element{name == "onnx.ReduceMax" ? s.ctx.max(acc->num, e.num)
                                             : s.ctx.min(acc->num, e.num)};
    }
  });
  Contents values;
  for (auto &e : out) {
    if (!e && name == "onnx.ReduceProd")
      e = Element{s.c(1)};
    else if (!e && name == "onnx.ReduceSum")
      e = Element{s.c(0)};
    if (!e)
      s.unknown("an empty reduction");
    values.push_back(*e);
  }
  return values;
}

TESSERA_SHAPE_RULES(Arg, "ArgMax", "ArgMin") {
  SymDims out(s.dims(0));
  int64_t axis = s.getAxis("axis", 0, out.size());
  if (s.getInt("keepdims", 1))
    out[axis] = s.c(1);
  else
    out.erase(out.begin() + axis);
  s.set(0, out);
}

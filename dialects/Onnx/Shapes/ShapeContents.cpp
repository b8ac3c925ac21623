#include "dialects/Onnx/Shapes/ShapeContents.h"

using namespace mlir;

namespace tessera::onnx {

static Sym denOf(SymContext &ctx, Element e) { return e.den ? e.den : ctx.constant(1); }

Element makeElement(SymContext &ctx, Sym num, Sym den) {
  if (den->isConstant() && den->imm < 0) {
    num = ctx.sub(ctx.constant(0), num);
    den = ctx.sub(ctx.constant(0), den);
  }
  if (Sym q = ctx.exactQuotient(num, den))
    return {q};
  if (Sym q = ctx.exactQuotient(den, num); q && q->isConstant() && q->imm > 0)
    return {ctx.constant(1), q};
  return {num, den};
}

Element addElements(SymContext &ctx, Element a, Element b) {
  Sym da = denOf(ctx, a), db = denOf(ctx, b);
  if (da == db)
    return makeElement(ctx, ctx.add(a.num, b.num), da);
  return makeElement(ctx, ctx.add(ctx.mul(a.num, db), ctx.mul(b.num, da)), ctx.mul(da, db));
}
Element subElements(SymContext &ctx, Element a, Element b) {
  return addElements(ctx, a, {ctx.sub(ctx.constant(0), b.num), b.den});
}
Element mulElements(SymContext &ctx, Element a, Element b) {
  return makeElement(ctx, ctx.mul(a.num, b.num), ctx.mul(denOf(ctx, a), denOf(ctx, b)));
}
Element divElements(SymContext &ctx, Element a, Element b) {
  if (b.num->isConstant(0))
    throw Unknown{"a division by zero"};
  return makeElement(ctx, ctx.mul(a.num, denOf(ctx, b)), ctx.mul(denOf(ctx, a), b.num));
}
Sym floorElement(SymContext &ctx, Element e) {
  return e.den ? ctx.floorDiv(e.num, e.den) : e.num;
}
Sym ceilElement(SymContext &ctx, Element e) { return e.den ? ctx.ceilDiv(e.num, e.den) : e.num; }

SmallVector<int64_t, 4> staticDims(const OpShapes &s, Value v) {
  SmallVector<int64_t, 4> out;
  for (Sym d : s.dims(v)) {
    if (!d->isConstant())
      s.unknown("a dimension is not constant");
    out.push_back(d->imm);
  }
  return out;
}

int64_t countOf(ArrayRef<int64_t> dims) {
  int64_t n = 1;
  for (int64_t d : dims)
    n *= d;
  return n;
}

void forEachIndex(ArrayRef<int64_t> dims, function_ref<void(ArrayRef<int64_t>)> visit) {
  int64_t count = countOf(dims);
  SmallVector<int64_t, 4> index(dims.size(), 0);
  for (int64_t i = 0; i < count; ++i) {
    visit(index);
    for (size_t axis = dims.size(); axis-- > 0;) {
      if (++index[axis] < dims[axis])
        break;
      index[axis] = 0;
    }
  }
}

int64_t flatIndex(ArrayRef<int64_t> dims, ArrayRef<int64_t> index) {
  int64_t flat = 0;
  for (auto [d, i] : llvm::zip(dims, index))
    flat = flat * d + i;
  return flat;
}

int64_t broadcastIndex(ArrayRef<int64_t> dims, ArrayRef<int64_t> index) {
  int64_t flat = 0;
  size_t shift = index.size() - dims.size();
  for (size_t axis = 0; axis < dims.size(); ++axis)
    flat = flat * dims[axis] + (dims[axis] == 1 ? 0 : index[shift + axis]);
  return flat;
}

Contents mapBroadcast(OpShapes &s, function_ref<Element(ArrayRef<Element>)> fn) {
  unsigned n = s.numInputs();
  SmallVector<SmallVector<int64_t, 4>> dims;
  SmallVector<Contents> inputs; // copies: the engine's memory may move
  for (unsigned i = 0; i < n; ++i) {
    inputs.push_back(s.contents(i));
    dims.push_back(staticDims(s, s.in(i)));
  }
  Contents out;
  forEachIndex(staticDims(s, s.out(0)), [&](ArrayRef<int64_t> index) {
    SmallVector<Element, 4> operands;
    for (unsigned i = 0; i < n; ++i)
      operands.push_back(inputs[i][broadcastIndex(dims[i], index)]);
    out.push_back(fn(operands));
  });
  return out;
}

bool isIntegerTensor(Value v) {
  auto type = dyn_cast<TensorType>(v.getType());
  return type && isa<IntegerType>(type.getElementType());
}

} // namespace tessera::onnx

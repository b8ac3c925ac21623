// Shapes and contents of the operators that make tensors from nothing, a shape
// or a scalar.
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "dialects/Onnx/Shapes/ShapeContents.h"

using namespace mlir;
using namespace tessera::onnx;

TESSERA_SHAPE_RULES(Constant, "Constant", "Weight") {
  auto type = dyn_cast<RankedTensorType>(s.op->getResult(0).getType());
  if (auto value = dyn_cast_or_null<ElementsAttr>(s.attr("value")))
    type = RankedTensorType::get(value.getShapedType().getShape(), value.getElementType());
  if (!type || !type.hasStaticShape())
    s.unknown("the value of a constant has no shape");
  SymDims out;
  for (int64_t d : type.getShape())
    out.push_back(s.c(d));
  s.set(0, out);
}

TESSERA_SHAPE_RULE(ConstantOfShape) {
  SymDims out = s.ints(0);
  s.set(0, out);
}
TESSERA_SHAPE_OPERANDS(ConstantOfShape, 1u << 0, 0, "ConstantOfShape");
TESSERA_CONTENTS_RULE(ConstantOfShape) {
  int64_t value = 0;
  if (auto attr = dyn_cast_or_null<ElementsAttr>(s.attr("value"))) {
    if (auto ints = getInts(attr, 1); ints && ints->size() == 1)
      value = ints->front();
    else if (auto floats = getFloats(attr, 1); floats && floats->size() == 1 &&
                                               floats->front() == std::floor(floats->front()) &&
                                               std::fabs(floats->front()) < 1e9)
      value = static_cast<int64_t>(floats->front());
    else
      s.unknown("the value is not a whole number");
  }
  return Contents(countOf(staticDims(s, s.out(0))), Element{s.c(value)});
}

TESSERA_SHAPE_RULE(Range) {
  const Contents *parts[3];
  for (unsigned i = 0; i < 3; ++i)
    parts[i] = s.engine.findContents(s.in(i), true);
  if (!parts[0] || !parts[1] || !parts[2]) { // run-time floats
    s.set(0, {s.extent(0, 0)});
    return;
  }
  Element start = (*parts[0])[0], limit = (*parts[1])[0], delta = (*parts[2])[0];
  if (delta.num->isConstant(0))
    s.contradict("the step of " + describe(s.op) + " is 0");
  Element span = divElements(s.ctx, subElements(s.ctx, limit, start), delta);
  s.set(0, {s.ctx.max(ceilElement(s.ctx, span), s.c(0))});
}
TESSERA_SHAPE_OPERANDS(Range, 1u << 1, 1u << 0 | 1u << 2, "Range");
TESSERA_CONTENTS_RULE(Range) {
  Element value = s.contents(0)[0], delta = s.contents(2)[0];
  Contents out;
  for (int64_t i = 0, n = countOf(staticDims(s, s.out(0))); i < n; ++i) {
    out.push_back(value);
    value = addElements(s.ctx, value, delta);
  }
  return out;
}

TESSERA_SHAPE_RULES(LikeInput, "Bernoulli", "EyeLike", "RandomNormalLike", "RandomUniformLike") {
  s.set(0, s.dims(0));
}

TESSERA_SHAPE_RULES(Random, "RandomNormal", "RandomUniform") {
  SymDims out;
  for (int64_t d : s.getInts("shape"))
    out.push_back(s.c(d));
  s.set(0, out);
}

TESSERA_SHAPE_RULE(Multinomial) { s.set(0, {s.dims(0)[0], s.c(s.getInt("sample_size", 1))}); }

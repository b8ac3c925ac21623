// Shapes and contents of the operators of ONNX's logical category.
#include "dialects/Onnx/Shapes/ShapeContents.h"

using namespace mlir;
using namespace tessera::onnx;

TESSERA_SHAPE_RULES(Binary, "And", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Equal",
                    "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Or", "Xor") {
  s.set(0, s.broadcastOperands());
}
TESSERA_SHAPE_RULES(Unary, "BitwiseNot", "Not") { s.set(0, s.dims(0)); }

TESSERA_CONTENTS_RULE(Not) {
  return mapBroadcast(s, [&](ArrayRef<Element> e) -> Element { return {s.ctx.logicalNot(e[0].num)}; });
}
TESSERA_CONTENTS_RULE(And) {
  return mapBroadcast(
      s, [&](ArrayRef<Element> e) -> Element { return {s.ctx.logicalAnd(e[0].num, e[1].num)}; });
}
TESSERA_CONTENTS_RULE(Or) {
  return mapBroadcast(
      s, [&](ArrayRef<Element> e) -> Element { return {s.ctx.logicalOr(e[0].num, e[1].num)}; });
}
TESSERA_CONTENTS_RULE(Xor) {
  return mapBroadcast(s, [&](ArrayRef<Element> e) -> Element {
    return {s.ctx.logicalNot(s.ctx.equal(e[0].num, e[1].num))};
  });
}

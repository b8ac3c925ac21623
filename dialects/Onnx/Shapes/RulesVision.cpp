// Shapes of the operators of ONNX's object detection category.
#include "dialects/Onnx/Shapes/ShapeRules.h"

using namespace mlir;
using namespace tessera::onnx;

TESSERA_SHAPE_RULE(NonMaxSuppression) {
  auto scores = s.dims(1); // [batch, classes, boxes]
  s.expectRank(1, 3);
  Sym upper = s.ctx.product(scores);
  if (!s.has(2)) {
    s.set(0, {s.c(0), s.c(3)}); // max_output_boxes_per_class defaults to none
    return;
  }
  s.set(0, {s.extent(0, 0, upper->upper), s.c(3)});
}

TESSERA_SHAPE_RULE(RoiAlign) {
  s.set(0, {s.dims(1)[0], s.dims(0)[1], s.c(s.getInt("output_height", 1)),
            s.c(s.getInt("output_width", 1))});
}

// Shapes of quantisation and its inverse.
#include "dialects/Onnx/Shapes/ShapeRules.h"

using namespace mlir;
using namespace tessera::onnx;

TESSERA_SHAPE_RULES(Linear, "QuantizeLinear", "DequantizeLinear", "com.microsoft.QuantizeLinear",
                    "com.microsoft.DequantizeLinear") {
  s.set(0, s.dims(0));
}

TESSERA_SHAPE_RULE(DynamicQuantizeLinear) {
  s.set(0, s.dims(0));
  s.set(1, {});
  s.set(2, {});
}

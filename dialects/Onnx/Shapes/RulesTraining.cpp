// Shapes of the preview operators.
#include "dialects/Onnx/Shapes/ShapeRules.h"

using namespace mlir;
using namespace tessera::onnx;

TESSERA_SHAPE_RULES(FlexAttention, "preview.FlexAttention") {
  auto q = s.dims(0), k = s.dims(1), v = s.dims(2);
  for (Region &region : s.op->getRegions())
    for (Block &block : region) {
      if (block.getNumArguments() > 0)
        s.engine.setDims(block.getArgument(0), {q[0], q[1], q[2], k[2]});
      s.engine.analyseBlock(block);
    }
  s.set(0, {q[0], q[1], q[2], v[3]});
}

// R, T, then as many tensors each of: X, G and the states. New X come first,
// then the new states: the results are shaped as the inputs without the G.
static void optimizer(OpShapes &s, unsigned groups) {
  unsigned inputs = s.numInputs() - 2, n = inputs / groups;
  for (unsigned i = 0; i < n; ++i)
    for (unsigned g = 0; g + 1 < groups; ++g)
      s.set(g * n + i, s.dims(2 + (g == 0 ? 0 : g + 1) * n + i));
}
TESSERA_SHAPE_RULES(Adagrad, "training.Adagrad", "training.Momentum") { optimizer(s, 3); }
TESSERA_SHAPE_RULES(Adam, "training.Adam") { optimizer(s, 4); }

// Shapes of the recurrent operators.
#include "dialects/Onnx/Shapes/ShapeRules.h"

using namespace mlir;
using namespace tessera::onnx;

// Y [seq, directions, batch, hidden], Y_h and Y_c [directions, batch, hidden];
// with layout = 1 the batch comes first.
TESSERA_SHAPE_RULES(Recurrent, "GRU", "LSTM", "RNN", "com.microsoft.DynamicQuantizeLSTM") {
  s.expectRank(0, 3);
  auto x = s.dims(0);
  bool batchFirst = s.getInt("layout") != 0;
  Sym sequence = x[batchFirst ? 1 : 0], batch = x[batchFirst ? 0 : 1];
  Sym directions = s.c(s.getString("direction", "forward") == "bidirectional" ? 2 : 1);
  // R is [directions, gates * hidden, hidden]; the quantised one is transposed.
  Sym hidden = s.c(s.getInt("hidden_size", 0));
  if (hidden->isConstant(0))
    hidden = s.dims(2)[s.op->getName().getStringRef() == "onnx.Custom" ? 1 : 2];
  if (batchFirst)
    s.set(0, {batch, sequence, directions, hidden});
  else
    s.set(0, {sequence, directions, batch, hidden});
  for (unsigned state : {1u, 2u}) {
    if (batchFirst)
      s.set(state, {batch, directions, hidden});
    else
      s.set(state, {directions, batch, hidden});
  }
}

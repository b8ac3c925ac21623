// Shapes around sequences, optionals and strings. The tensors inside of a
// sequence are not followed: what comes out has the shape that is declared, or
// none until somebody asks for it.
#include "dialects/Onnx/Shapes/ShapeContents.h"

using namespace mlir;
using namespace tessera::onnx;

TESSERA_SHAPE_RULES(Opaque, "ConcatFromSequence", "Optional", "OptionalGetElement", "SequenceAt",
                    "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert",
                    "SplitToSequence") {
  if (s.op->getNumOperands() == 1 && s.op->getNumResults() == 1) // an optional that is a tensor
    if (auto d = s.engine.findDims(s.op->getOperand(0));
        d && isa<TensorType>(s.op->getResult(0).getType())) {
      s.set(0, *d);
      return;
    }
  throw Unknown{describe(s.op) + " takes it out of a sequence or an optional", true};
}

TESSERA_SHAPE_RULE(SequenceMap) {
  Region &region = s.op->getRegion(0);
  for (Block &block : region) {
    for (Value v : block.getArguments())
      if (!s.engine.setDeclaredDims(v, SymKind::BlockDim))
        s.engine.setUnknown(v, {"it is an element of a sequence", true});
    s.engine.analyseBlock(block);
  }
}

TESSERA_SHAPE_RULES(Scalar, "OptionalHasElement", "SequenceLength") { s.set(0, {}); }

TESSERA_SHAPE_RULE(ImageDecoder) {
  s.set(0, {s.extent(0, 0), s.extent(0, 1),
            s.c(s.getString("pixel_format", "RGB") == "Grayscale" ? 1 : 3)});
}

TESSERA_SHAPE_RULE(RegexFullMatch) { s.set(0, s.dims(0)); }
TESSERA_SHAPE_RULE(StringConcat) { s.set(0, s.broadcastOperands()); }

// Stop words are removed, so the last dimension shrinks ([1] at least).
TESSERA_SHAPE_RULE(StringNormalizer) {
  SymDims out(s.dims(0));
  auto words = dyn_cast_or_null<ArrayAttr>(s.attr("stopwords"));
  if (words && !words.empty() && !out.empty())
    out.back() = s.extent(0, out.size() - 1);
  s.set(0, out);
}

TESSERA_SHAPE_RULE(StringSplit) {
  auto in = s.dims(0);
  SymDims out(in);
  out.push_back(s.extent(0, in.size()));
  s.set(0, out);
  s.set(1, in);
}

// Float16 between nodes: data is rounded, what only places elements is not.
#include "passes/Precision/HalfRounding.h"
#include "onnx/defs/parser.h"

#include <catch2/catch_test_macros.hpp>

using namespace tessera;

static quantise::ModelProto parse(const char *text) {
  quantise::ModelProto model;
  ::onnx::OnnxParser parser(text);
  REQUIRE(parser.Parse(model).IsOK());
  return model;
}

TEST_CASE("scales of a Resize stay constants when its data is rounded to "
          "float16",
          "[precision]") {
  auto model = parse(R"(<ir_version: 8, opset_import: ["" : 13]>
    g (float[1,1,2,2] x) => (float[1,1,4,4] z)
    <float[0] roi = {}, float[4] scales = {1.0, 1.0, 2.0, 2.0}>
    {
      [resize] y = Resize (x, roi, scales)
      [square] z = Mul (y, y)
    })");
  quantise::ModelProto rounded = model;
  roundToHalf(rounded, quantise::Graph(model), {"resize", "square"});
  int casts = 0;
  for (auto &n : rounded.graph().node()) {
    casts += n.op_type() == "Cast";
    if (n.name() != "resize")
      continue;
    CHECK(n.input(0) != "x");
    CHECK(n.input(1) == "roi");
    CHECK(n.input(2) == "scales");
  }
  // x, y as written, y as read, z: there and back each.
  CHECK(casts == 8);
}

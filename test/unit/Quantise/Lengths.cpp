// Attention over an axis of open length: what is known without samples.
#include "passes/Quantise/Lengths.h"
#include "onnx/defs/parser.h"
#include <catch2/catch_test_macros.hpp>

using namespace tessera::quantise;

namespace {

/// Attention with a cache: the mean of values goes through two moves.
ModelProto attention(const std::string &length) {
  std::string text = R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[1, 4, 8] q, float[1, 8, )" +
                     length + R"(] k, float[1, )" + length +
                     R"(, 8] v) => (float[1, 8, 4] y, float[1, 4, 8] z) {
      scores = MatMul(q, k)
      p = Softmax(scores)
      context = MatMul(p, v)
      turned = Transpose<perm = [0, 2, 1]>(context)
      y = Identity(turned)
      fixed = Softmax<axis = 1>(q)
      z = Identity(fixed)
    })";
  ModelProto model;
  auto status = ::onnx::OnnxParser::Parse(model, text.c_str());
  INFO(status.ErrorMessage());
  REQUIRE(status.IsOK());
  return model;
}

Histogram of(std::vector<float> v) {
  Histogram h;
  h.add(v.data(), int64_t(v.size()));
  return h;
}

} // namespace

TEST_CASE("probabilities over open axes are found", "[quantise]") {
  CHECK(openProbabilities(Graph(attention("past"))) ==
        std::set<std::string>{"p"});
  CHECK(openProbabilities(Graph(attention("16"))).empty());
}

TEST_CASE("products of probabilities stay float in 8 bits", "[quantise]") {
  Graph g(attention("past"));
  auto quantisedAfter = [&](int32_t type, bool pinned, size_t findings) {
    std::vector<Unit> units = findUnits(g);
    for (Unit &u : units) {
      u.quantised = true;
      u.type = type;
      u.pinned = pinned;
    }
    CHECK(separateOpen(g, {"p"}, units).size() == findings);
    std::vector<std::string> names;
    for (const Unit &u : units)
      if (u.kind == UnitKind::Mac && u.quantised)
        names.push_back(g.node(u.root).output(0));
    return names;
  };
  using Names = std::vector<std::string>;
  CHECK(quantisedAfter(TensorProto::INT8, false, 1) == Names{"scores"});
  CHECK(quantisedAfter(TensorProto::INT8, true, 0) ==
        Names{"scores", "context"});
  CHECK(quantisedAfter(TensorProto::INT16, false, 0) ==
        Names{"scores", "context"});
}

TEST_CASE("ranges hold what a length of one would show", "[quantise]") {
  Graph g(attention("past"));
  Ranges ranges;
  ranges["p"] = of(std::vector<float>(1000, 0.05f));
  ranges["v"] = of({-3, 4, 1, 2});
  ranges["turned"] = of(std::vector<float>(16, 0.25f));
  ranges["q"] = of({-1, 1});
  widenOpen(g, {"p"}, ranges);
  for (RangeMethod m :
       {RangeMethod::MinMax, RangeMethod::Percentile, RangeMethod::Mse})
    CHECK(ranges["p"].range(m, 256, false).high >= 0.99f);
  CHECK(ranges["turned"].seen() == Range{-3, 4});
  CHECK(ranges["turned"].count() == 20);
  CHECK(ranges["q"].seen() == Range{-1, 1});
}

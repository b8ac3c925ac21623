// Rotation of what gates make: where, and that it changes nothing.
#include "onnx/defs/parser.h"
#include "passes/Quantise/Rotate.h"
#include <catch2/catch_test_macros.hpp>
#include <cmath>

using namespace tessera::quantise;

namespace {

/// Two products of x, `combined` to y of sixteen channels, and a product of y.
ModelProto block(const std::string &combined) {
  ModelProto model;
  std::string text =
      R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[n, 8] x) => (float[n, 3] z, float[n, 16] w) {
      gate = MatMul(x, a)
      up = MatMul(x, b)
      wide = MatMul(x, c)
      half, other = Split<axis = 1>(wide)
      )" +
      combined +
      R"(
      z = MatMul(y, down)
      w = Identity(y)
    })";
  auto status = ::onnx::OnnxParser::Parse(model, text.c_str());
  INFO(status.ErrorMessage());
  REQUIRE(status.IsOK());
  auto weight = [&](const char *name, int64_t rows, int64_t columns) {
    std::vector<float> v;
    for (int64_t i = 0; i < rows * columns; ++i)
      v.push_back(float(i * 7 % 23) - 11);
    *model.mutable_graph()->add_initializer() =
        makeFloats(name, {rows, columns}, v);
  };
  weight("a", 8, 16);
  weight("b", 8, 16);
  weight("c", 8, 32);
  weight("down", 16, 3);
  return model;
}

size_t rotationsOf(const std::string &combined) {
  ModelProto m = block(combined);
  return rotateGated(m, {}).size();
}

Histogram of(const std::vector<float> &v) {
  Histogram h;
  h.add(v.data(), int64_t(v.size()));
  return h;
}

} // namespace

TEST_CASE("what a gate makes is rotated, what one product makes is not",
          "[quantise]") {
  CHECK(rotationsOf("s = Sigmoid(gate) t = Mul(gate, s) y = Mul(t, up)") == 1);
  CHECK(rotationsOf("s = Sigmoid(half) y = Mul(other, s)") == 1);
  CHECK(rotationsOf("s = Sigmoid(gate) y = Mul(gate, s)") == 0);
  CHECK(rotationsOf("y = Add(gate, up)") == 0);
  // A factor that is no product: a mask, an embedding, a norm.
  CHECK(rotationsOf("m = ReduceMean<axes = [1]>(up) y = Mul(gate, m)") == 0);
}

TEST_CASE("a rotation and its weights make the identity", "[quantise]") {
  ModelProto m = block("y = Mul(gate, up)");
  Graph before(m);
  std::vector<Rotation> made = rotateGated(m, {});
  REQUIRE(made.size() == 1);
  CHECK(made[0].value == "y");
  CHECK(made[0].block == 16);
  Graph after(m);
  int product = after.producer("z");
  CHECK(after.node(product).input(0) == made[0].rotated);
  int turn =
      after.producer(after.node(after.producer(made[0].rotated)).input(0));
  FloatTensor h = *after.floats(after.node(turn).input(1)),
              turned = *after.floats(after.node(product).input(1)),
              plain = *before.floats("down");
  for (int64_t r = 0; r < 16; ++r)
    for (int64_t c = 0; c < 3; ++c) {
      double sum = 0;
      for (int64_t i = 0; i < 16; ++i)
        sum += double(h.values[r * 16 + i]) * turned.values[i * 3 + c];
      CHECK(std::fabs(sum - plain.values[r * 3 + c]) < 1e-4);
    }
  // Who else reads the value reads it as it was.
  CHECK(after.node(after.producer("w")).input(0) == "y");
  std::vector<Unit> units = findUnits(after);
  for (Unit &u : units)
    u.quantised = u.kind == UnitKind::Mac;
  separateRotations(made, units);
  for (const Unit &u : units)
    if (u.kind == UnitKind::Mac)
      CHECK(u.quantised == (u.root != turn));
  ModelProto again = block("y = Mul(gate, up)");
  CHECK(rotateGated(again, {"y"}).empty());
}

TEST_CASE("a rotation stays only if it takes noise away", "[quantise]") {
  std::vector<float> flat, thin(1000, 0.01f);
  for (int i = 0; i < 1000; ++i)
    flat.push_back(std::sin(float(i)));
  thin[3] = 20;
  thin[7] = -20;
  Ranges ranges = {{"thin", of(thin)}, {"flat", of(flat)}};
  CHECK(idleRotations({{"thin", "flat", {}, 16}}, ranges).empty());
  CHECK(idleRotations({{"flat", "flat", {}, 16}}, ranges) ==
        std::set<std::string>{"flat"});
}

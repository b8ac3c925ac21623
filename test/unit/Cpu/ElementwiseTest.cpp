// Every elementwise operator and element type must compile for every variant:
// the linker refuses what would call a library.
#include "test/unit/Cpu/Jit.h"

#include "catch2/catch_test_macros.hpp"
#include <cstdio>
#include <cstring>

using namespace tessera::test;

namespace {

const char *floats[] = {"f16", "bf16", "f32", "f64"};
const char *integers[] = {"i8", "ui8", "i16", "ui16", "i32", "ui32", "i64", "ui64"};

std::vector<OpSpec> everyOperator() {
  std::vector<OpSpec> specs;
  auto add = [&](const char *name, std::vector<std::string> in, const char *out, const char *attributes = "") {
    specs.push_back({std::string("onnx.") + name, std::move(in), out, attributes, {}});
  };
  for (const char *t : floats) {
    for (const char *op : {"Abs", "Neg", "Sign", "Ceil", "Floor", "Round", "Sqrt", "Reciprocal", "Exp", "Log", "Sin", "Cos", "Tan",
                           "Asin", "Acos", "Atan", "Sinh", "Cosh", "Tanh", "Asinh", "Acosh", "Atanh", "Erf", "Relu", "LeakyRelu",
                           "Elu", "Selu", "Celu", "ThresholdedRelu", "HardSigmoid", "HardSwish", "Sigmoid", "Softplus", "Softsign",
                           "Gelu", "Mish", "Swish", "Identity", "Dropout"})
      add(op, {t}, t);
    add("Gelu", {t}, t, "approximate = \"tanh\"");
    add("Mod", {t, t}, t, "fmod = 1 : i64");
    add("Sum", {t, t, t}, t);
    add("Mean", {t, t}, t);
    add("IsNaN", {t}, "i1");
    add("IsInf", {t}, "i1", "detect_negative = 0 : i64");
    for (const char *u : floats)
      add("Pow", {t, u}, t);
    for (const char *u : integers)
      add("Pow", {t, u}, t);
  }
  for (const char *t : integers) {
    for (const char *op : {"Mod", "BitwiseAnd", "BitwiseOr", "BitwiseXor"})
      add(op, {t, t}, t);
    add("Mod", {t, t}, t, "fmod = 1 : i64");
    add("BitwiseNot", {t}, t);
    add("Abs", {t}, t);
    add("Sign", {t}, t);
    add("BitShift", {t, t}, t, "direction = \"LEFT\"");
    add("BitShift", {t, t}, t, "direction = \"RIGHT\"");
  }
  for (const char *t : {"i32", "i64"}) {
    for (const char *u : {"f16", "f32", "f64", "i8", "ui8", "i32", "ui32", "i64", "ui64"})
      add("Pow", {t, u}, t);
    add("Relu", {t}, t);
    add("Neg", {t}, t);
    add("PRelu", {t, t}, t);
  }
  std::vector<const char *> numbers(std::begin(floats), std::end(floats));
  numbers.insert(numbers.end(), std::begin(integers), std::end(integers));
  for (const char *t : numbers) {
    for (const char *op : {"Add", "Sub", "Mul", "Div", "Max", "Min"})
      add(op, {t, t}, t);
    for (const char *op : {"Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual"})
      add(op, {t, t}, "i1");
    add("Where", {"i1", t, t}, t);
    add("Clip", {t, "", t}, t);
    if (std::strcmp(t, "bf16"))
      add("Shrink", {t}, t);
  }
  for (const char *op : {"And", "Or", "Xor", "Equal"})
    add(op, {"i1", "i1"}, "i1");
  add("Not", {"i1"}, "i1");
  std::vector<const char *> all(numbers);
  for (const char *t : {"i1", "i4", "ui4", "i2", "ui2", "f8E4M3FN", "f8E4M3FNUZ", "f8E5M2", "f8E5M2FNUZ", "f8E8M0FNU", "f4E2M1FN"})
    all.push_back(t);
  for (const char *from : all)
    for (const char *to : all)
      add("Cast", {from}, to, "to = 1 : i64");
  add("BitCast", {"f32"}, "i32", "to = 6 : i64");
  add("BitCast", {"ui64"}, "f64", "to = 11 : i64");
  add("BitCast", {"bf16"}, "f16", "to = 10 : i64");
  add("BitCast", {"i8"}, "f8E5M2", "to = 19 : i64");
  return specs;
}

} // namespace

TEST_CASE("every elementwise operator compiles for every variant", "[.][elementwise]") {
  std::vector<OpSpec> specs = everyOperator();
  for (const tessera::cpu::Isa &isa : tessera::cpu::allIsas()) {
    INFO(isa.name.str());
    // In parts, so that a failure names few.
    for (size_t i = 0; i < specs.size(); i += 64) {
      std::vector<OpSpec> part(specs.begin() + i, specs.begin() + std::min(specs.size(), i + 64));
      INFO("from " << part.front().name << " " << part.front().operands[0] << " to " << part.back().name);
      CHECK(Jit(part, isa.name, /*load=*/false).ok());
    }
  }
}

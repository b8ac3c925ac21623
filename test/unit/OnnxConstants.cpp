// Constants are read the same whether an attribute packs, widens or aliases them.
#include "dialects/Onnx/IR/NarrowFloats.h"
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "llvm/ADT/APFloat.h"
#include "mlir/IR/DialectResourceBlobManager.h"

#include <catch2/catch_test_macros.hpp>

using namespace mlir;
using namespace tessera::onnx;

namespace {

struct Constants {
  MLIRContext context;
  Builder b{&context};
  Constants() { context.loadDialect<OnnxDialect>(); }

  RankedTensorType type(int64_t count, Type element) { return RankedTensorType::get({count}, element); }

  // The same bytes as a readable attribute and as a resource.
  std::vector<ElementsAttr> both(RankedTensorType ty, ArrayRef<char> raw) {
    auto resource = DenseResourceElementsAttr::get(
        ty, "r", HeapAsmResourceBlob::allocateAndCopyWithAlign(raw, 8));
    return {makeConstant(ty, raw), resource};
  }

  void checkInts(Type element, std::vector<char> raw, std::vector<int64_t> expected) {
    for (ElementsAttr attr : both(type(expected.size(), element), raw)) {
      auto ints = getInts(attr);
      REQUIRE(ints.has_value());
      CHECK(std::vector<int64_t>(ints->begin(), ints->end()) == expected);
      SmallVector<char> storage;
      auto bytes = getRawBytes(attr, storage);
      REQUIRE(bytes.has_value());
      CHECK(std::vector<char>(bytes->begin(), bytes->end()) == raw);
    }
  }

  void checkFloats(Type element, std::vector<char> raw, std::vector<double> expected) {
    for (ElementsAttr attr : both(type(expected.size(), element), raw)) {
      auto floats = getFloats(attr);
      REQUIRE(floats.has_value());
      CHECK(std::vector<double>(floats->begin(), floats->end()) == expected);
      SmallVector<char> storage;
      auto bytes = getRawBytes(attr, storage);
      REQUIRE(bytes.has_value());
      CHECK(std::vector<char>(bytes->begin(), bytes->end()) == raw);
    }
  }
};

} // namespace

TEST_CASE_METHOD(Constants, "integers of every width") {
  checkInts(b.getI8Type(), {1, -2}, {1, -2});
  checkInts(b.getIntegerType(8, false), {1, -2}, {1, 254});
  checkInts(b.getIntegerType(16, false), {0, 1, -1, -1}, {256, 65535});
  checkInts(b.getI64Type(), {-1, -1, -1, -1, -1, -1, -1, -1}, {-1});
  checkInts(b.getI1Type(), {1, 0, 1}, {1, 0, 1});
}

TEST_CASE_METHOD(Constants, "integers narrower than a byte are packed from the low bits") {
  checkInts(b.getIntegerType(4), {(char)0xe1, 0x03}, {1, -2, 3});
  checkInts(b.getIntegerType(4, false), {(char)0xe1, 0x03}, {1, 14, 3});
  checkInts(b.getIntegerType(2), {(char)0xe4, 0x01}, {0, 1, -2, -1, 1});
  checkInts(b.getIntegerType(2, false), {(char)0xe4, 0x01}, {0, 1, 2, 3, 1});
}

TEST_CASE_METHOD(Constants, "floats of every width") {
  checkFloats(b.getF16Type(), {0, 0x3c, 0, (char)0xc0}, {1, -2});
  checkFloats(b.getBF16Type(), {(char)0x80, 0x3f}, {1});
  checkFloats(b.getF32Type(), {0, 0, 0, 0x3f}, {0.5});
  checkFloats(Float8E4M3FNType::get(&context), {0x38, 0x40}, {1, 2});
  checkFloats(Float4E2M1FNType::get(&context), {0x42, 0x01}, {1, 2, 0.5});
  // Four elements in three bytes, one across a border.
  checkFloats(Float6E2M3FNType::get(&context), {(char)0x08, (char)0x02, (char)0x01}, {1, 1, 2, 0});
}

TEST_CASE_METHOD(Constants, "equal elements are found equal") {
  CHECK(isSplat(makeIntConstant(type(4, b.getI64Type()), {7, 7, 7, 7})));
  CHECK_FALSE(isSplat(makeIntConstant(type(2, b.getI64Type()), {7, 8})));
  // And written out again where all are asked for.
  SmallVector<char> storage;
  auto bytes = getRawBytes(makeIntConstant(type(3, b.getI8Type()), {5, 5, 5}), storage);
  REQUIRE(bytes.has_value());
  CHECK(std::vector<char>(bytes->begin(), bytes->end()) == std::vector<char>{5, 5, 5});
}

TEST_CASE_METHOD(Constants, "a resource of the wrong size is no constant") {
  auto attr = DenseResourceElementsAttr::get(
      type(4, b.getI32Type()), "short",
      HeapAsmResourceBlob::allocateAndCopyWithAlign(ArrayRef<char>{1, 2, 3}, 8));
  SmallVector<char> storage;
  CHECK_FALSE(getRawBytes(attr, storage).has_value());
  CHECK_FALSE(getInts(attr).has_value());
}

TEST_CASE_METHOD(Constants, "sizes that overflow are none") {
  CHECK(getStorageBytes(b.getIntegerType(4), 3) == 2);
  CHECK_FALSE(getStorageBytes(b.getF64Type(), INT64_MAX / 8).has_value());
}

TEST_CASE("every narrow float is widened exactly") {
  auto wide = [](const llvm::fltSemantics &semantics, uint32_t bits) {
    llvm::APFloat v(semantics, llvm::APInt(16, bits));
    bool lossy;
    v.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &lossy);
    return v.convertToDouble();
  };
  auto same = [](double a, double b) { return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b); };
  int wrong = 0;
  for (uint32_t bits = 0; bits < 0x10000; ++bits)
    wrong += !same(fromF16(bits), wide(llvm::APFloat::IEEEhalf(), bits)) +
             !same(fromBf16(bits), wide(llvm::APFloat::BFloat(), bits));
  CHECK(wrong == 0);
}

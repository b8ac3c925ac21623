#include "targets/Vulkan/Words.h"
#include "targets/Vulkan/Device.h"

#include <catch2/catch_test_macros.hpp>

using namespace tessera::vulkan;

// Header, an entry point "main" with ids 7 (Input) and 8 (StorageBuffer) in its
// interface, and the two variables.
static std::vector<uint32_t> module(uint32_t version) {
  return {
      0x07230203, version,       0, 9, 0, 7u << 16 | 15, 5, 1, 0x6e69616d, 0, 7,
      8,          4u << 16 | 59, 2, 7, 1, 4u << 16 | 59, 3, 8, 12};
}

TEST_CASE("a 1.6 module becomes 1.3 with inputs alone in the interface",
          "[vulkan]") {
  std::vector<uint32_t> words = module(0x00010600);
  makeVersion13(words);
  REQUIRE(words == std::vector<uint32_t>{0x07230203, 0x00010300, 0, 9, 0,
                                         6u << 16 | 15, 5, 1, 0x6e69616d, 0, 7,
                                         4u << 16 | 59, 2, 7, 1, 4u << 16 | 59,
                                         3, 8, 12});
}

TEST_CASE("a 1.3 module stays as it is", "[vulkan]") {
  std::vector<uint32_t> words = module(0x00010300);
  makeVersion13(words);
  REQUIRE(words == module(0x00010300));
}

TEST_CASE("features are known by their words", "[vulkan]") {
  Device device;
  REQUIRE(!device.addFeatures("float16,dot"));
  REQUIRE(device.has(Feature::Float16));
  REQUIRE(device.has(Feature::DotProduct));
  REQUIRE(!device.has(Feature::Int8));
  REQUIRE(device.addFeatures("int8,warp") == "warp");
}

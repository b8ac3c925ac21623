// The device segment of an Ethos-U: what was written is read, and no byte of it
// is trusted.
#include "targets/EthosU/Artefact.h"

#include <catch2/catch_test_macros.hpp>

using namespace tessera::ethosu;

namespace {

const VelaConfig config{"ethos-u55-256", "Ethos_U55_High_End_Embedded",
                        "Shared_Sram"};

VelaResult example() {
  VelaResult r;
  r.commands = {'C', 'O', 'P', '1', 1, 2, 3};
  r.weights = std::vector<uint8_t>(21, 7);
  r.scratch = 4112;
  r.scratchFast = 64;
  r.weightsRegion = 0;
  r.scratchRegion = 1;
  r.scratchFastRegion = 2;
  r.inputs = {{16, 4096, 1, 1}, {0, 64, 2, 1}};
  r.outputs = {{0, 1, 1, 1}};
  return r;
}

std::vector<uint8_t> bytesOf() {
  return writeArtefact(config, example(), {9, 8, 7, 6, 5});
}

std::string faultOf(std::vector<uint8_t> bytes) {
  auto a = readArtefact(bytes);
  return a ? "" : llvm::toString(a.takeError());
}

} // namespace

TEST_CASE("an artefact is read as it was written", "[ethos-u]") {
  std::vector<uint8_t> bytes = bytesOf();
  REQUIRE(isArtefact(bytes));
  auto a = readArtefact(bytes);
  REQUIRE(bool(a));
  CHECK(a->config.accelerator == config.accelerator);
  CHECK(a->config.systemConfig == config.systemConfig);
  CHECK(a->config.memoryMode == config.memoryMode);
  CHECK(a->velaVersion == velaVersion);
  CHECK(a->commands == llvm::ArrayRef<uint8_t>(example().commands));
  CHECK(a->weights == llvm::ArrayRef<uint8_t>(example().weights));
  CHECK(a->tosa == llvm::ArrayRef<uint8_t>({9, 8, 7, 6, 5}));
  CHECK(a->scratch == 4112);
  CHECK(a->scratchFast == 64);
  REQUIRE(a->inputs.size() == 2);
  CHECK(a->inputs[0].address == 16);
  CHECK(a->inputs[1].region == 2);
  REQUIRE(a->outputs.size() == 1);
  // FORMAT.md: the head is 368 bytes, then 3 tensors of 24, at the next
  // multiple of 16 the commands.
  CHECK(a->commands.data() - bytes.data() == 448); // 368 + 3 * 24 = 440
  CHECK(a->weights.data() - bytes.data() == 464);  // 448 + 7 = 455
}

TEST_CASE("a damaged artefact is refused by the field", "[ethos-u]") {
  struct Case {
    const char *word;
    size_t at;
    uint8_t value;
  };
  const Case cases[] = {
      {"TSEU", 0, 'X'},
      {"layout 2", 4, 2},
      {"says", 8, 1},
      {"part 0", 272, 1},
      {"part 0", 272 + 7, 0xff},
      {"part 1", 288 + 8 + 7, 0xff},
      {"part 2", 304 + 15, 1},
      {"inputs and outputs", 336 + 12 + 3, 0xff},
      {"tensor 0", 368 + 7, 1},
      {"tensor 0", 368 + 8 + 1, 0xff},
      {"tensor 2", 368 + 48 + 16, 3},
  };
  for (const Case &c : cases) {
    std::vector<uint8_t> bytes = bytesOf();
    bytes[c.at] = c.value;
    std::string fault = faultOf(bytes);
    INFO("byte " << c.at << ": " << fault);
    CHECK(fault.find(c.word) != std::string::npos);
  }
  std::vector<uint8_t> endless = bytesOf();
  std::fill_n(endless.begin() + 16, 64, 'x');
  CHECK(faultOf(endless).find("text 0 has no end") != std::string::npos);
  for (size_t n = 0; n < bytesOf().size(); ++n) {
    std::vector<uint8_t> cut = bytesOf();
    cut.resize(n);
    CHECK(!faultOf(cut).empty());
  }
}

// A bundle that differs from what was written is refused, wherever it differs.
#include "test/unit/Runtime/TestPlan.h"

#include "compiler/Report/Inspect.h"
#include "runtime-stub/format/Header.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <filesystem>
#include <fstream>
#include <random>

using namespace tessera;
using namespace tessera::test;

namespace {

/// Small, but with constants, code, several commands and all kinds of tables;
/// with `devices` also a launch, its artefact, and the copies around it.
PlanMaker smallPlan(bool devices = false) {
  PlanMaker m;
  uint32_t n = m.prepare(ScalarOp::InputDim, 0, 0);
  uint32_t four = m.prepare(ScalarOp::Constant, kNone, kNone, 4);
  uint32_t bytes = m.prepare(ScalarOp::Mul, n, four);
  std::vector<float> weights = {1, 2, 3, 4};
  uint32_t w = m.constant(weights);
  uint32_t x = m.buffer(BufferKind::Input, 0, bytes);
  uint32_t t = m.buffer(BufferKind::Temporary, 0, bytes);
  uint32_t out = m.buffer(BufferKind::Output, 0, bytes);
  m.input("x", 1, {open(n, "n", 0, 4)}, x);
  m.output("y", 1, {open(n)}, out);
  m.dispatch("add_f32", {x, w, t}, {n});
  m.dispatch("add_f32", {t, w, out}, {n});
  m.plan.strings = {"a message"};
  if (devices) {
    m.plan.devices.push_back({"npu", "segments"});
    m.plan.pools.push_back({"npu", 1, 0, 64, false});
    static const char artefact[] = "what a tool chain made of it";
    m.plan.artefacts.push_back({"part", artefact, sizeof(artefact)});
    uint32_t d = m.buffer(BufferKind::Temporary, 0, bytes),
             r = m.buffer(BufferKind::Temporary, 0, bytes);
    m.plan.buffers[d].pool = m.plan.buffers[r].pool = 2;
    m.command({.kind = CommandKind::Copy, .a = out, .b = d, .c = bytes});
    m.command({.kind = CommandKind::Launch, .a = 1, .b = 1, .c = 0, .d = 0, .e = 0});
    m.plan.commands[m.dispatch("add_f32", {d, w, r}, {n})].device = 1;
    m.command({.kind = CommandKind::Fence, .a = 1});
    m.command({.kind = CommandKind::Copy, .a = r, .b = out, .c = bytes});
  }
  m.plan.provenanceOptions = {"--dim", "n=0..4"};
  m.plan.modelHash = "0123";
  m.plan.target = "host";
  return m;
}

} // namespace

TEST_CASE("every changed byte is refused", "[damage]") {
  bool devices = GENERATE(false, true);
  std::string good = smallPlan(devices).bundle();
  Run run(good);
  REQUIRE(run.start({{4}}) == TSR_OK);
  run.fill<float>(0, {0, 0, 0, 1});
  REQUIRE(run.run() == TSR_OK);
  CHECK(run.output<float>(0) ==
        (devices ? std::vector<float>{3, 6, 9, 13}
                 : std::vector<float>{2, 4, 6, 9}));
  auto *bytes = static_cast<uint8_t *>(run.image.data());
  size_t accepted = 0;
  for (size_t i = 0; i < good.size(); ++i) {
    // Padding is long: all of it within 4 KiB of something, the rest sampled.
    bool padding = good[i] == 0 && i > 4096 && good[i - 1] == 0 &&
                   i % 61 != 0 && good.find_first_not_of('\0', i) > i + 4096;
    // With devices, what differs: the manifest, and the artefact at the end.
    if (padding || (devices && i > 8192 && i + 64 < good.size()))
      continue;
    for (uint8_t flip : {uint8_t(1 << (i % 8)), uint8_t(0xff)}) {
      bytes[i] ^= flip;
      run.error.text[0] = 0;
      bool refused = run.open() == TSR_REFUSED && run.error.text[0];
      if (!refused)
        UNSCOPED_INFO("byte " << i);
      accepted += !refused;
      bytes[i] ^= flip;
    }
  }
  CHECK(accepted == 0);
  CHECK(run.open() == TSR_OK);
}

TEST_CASE("truncated and extended bundles are refused", "[damage]") {
  std::string good = smallPlan(GENERATE(false, true)).bundle();
  Run run(good);
  size_t accepted = 0;
  for (int i = 0; i < 200; ++i) {
    run.imageBytes = i < 100 ? size_t(i) * 2 : good.size() * (i - 100) / 100;
    accepted += run.open() != TSR_REFUSED;
  }
  run.imageBytes = good.size() - 1;
  accepted += run.open() != TSR_REFUSED;
  run.imageBytes = good.size() + 1;
  accepted += run.open() != TSR_REFUSED;
  CHECK(accepted == 0);
  CHECK(tsr_bundle_bytes(good.data(), good.size()) == good.size());
  CHECK(tsr_bundle_bytes(good.data(), 100) == 0);
}

TEST_CASE("a manifest that lies with a valid hash is refused or harmless",
          "[damage]") {
  // Bytes of the manifest are changed and the hash renewed: the structure
  // checks stand alone now. What still opens must run or refuse, but not crash.
  std::string good = smallPlan(GENERATE(false, true)).bundle();
  uint64_t manifestBytes;
  std::memcpy(&manifestBytes, good.data() + format::kManifestBytesAt, 8);
  std::mt19937 random(1);
  size_t opened = 0;
  for (int i = 0; i < 4000; ++i) {
    std::string bytes = good;
    for (int changes = random() % 3 + 1; changes > 0; --changes) {
      size_t at = format::kHeaderBytes + random() % manifestBytes;
      static const uint8_t values[] = {0, 1, 2, 4, 0x7f, 0x80, 0xff};
      bytes[at] = random() % 4 ? char(values[random() % 7]) : char(random());
    }
    seal(bytes);
    Run run(bytes);
    if (run.open() != TSR_OK)
      continue;
    ++opened;
    // Kernels trust their operands, so only the loader's own work is tried.
    tsr_needs_t needs = {};
    tsr_bundle_needs(run.bundle, &needs);
    if (needs.instance_bytes > (64u << 20) || run.load() != TSR_OK)
      continue;
    int64_t four = 4;
    tsr_shape_t shape = {&four, 1};
    (void)tsr_prepare(run.instance, &shape, 1, &run.error);
  }
  CHECK(opened > 0);
}

TEST_CASE("a code image that needs anything is refused", "[damage]") {
  auto refusedWith = [](std::vector<uint8_t> image, const char *found) {
    PlanMaker m = smallPlan();
    m.plan.variants[0].image = std::move(image);
    Run run(m.bundle());
    CHECK(run.open() == TSR_REFUSED);
    INFO(run.error.text);
    CHECK(run.error.code == TSR_ERROR_CODE);
    CHECK(std::string(run.error.found).find(found) != std::string::npos);
  };
  std::vector<uint8_t> image = kernelImage();
  refusedWith({}, "too short");
  refusedWith(std::vector<uint8_t>(100, 0), "no little-endian ELF64");
  std::vector<uint8_t> machine = image;
  machine[18] ^= 1;
  refusedWith(machine, "variant's machine");
  // Every program header in turn: executable and writable, or an interpreter.
  uint64_t table;
  std::memcpy(&table, &image[32], 8);
  for (unsigned i = 0; i < image[56]; ++i) {
    uint32_t type, flags = 7, interpreter = 3;
    std::memcpy(&type, &image[table + i * 56], 4);
    std::vector<uint8_t> changed = image;
    std::memcpy(&changed[table + i * 56], &interpreter, 4);
    refusedWith(changed, "interpreter");
    if (type == 1) {
      changed = image;
      std::memcpy(&changed[table + i * 56 + 4], &flags, 4);
      refusedWith(changed, "writable and executable");
      changed = image;
      uint64_t far = uint64_t(1) << 60;
      std::memcpy(&changed[table + i * 56 + 16], &far, 8);
      refusedWith(changed, "segment");
    }
  }
  PlanMaker m = smallPlan();
  m.plan.variants[0].entries[0] = 8; // in the headers
  Run run(m.bundle());
  CHECK(run.open() == TSR_REFUSED);
  CHECK(std::string(run.error.needed).find("executable segment") !=
        std::string::npos);
  // Random bytes of the image changed: refused or accepted, never a crash.
  std::mt19937 random(2);
  for (int i = 0; i < 600; ++i) {
    PlanMaker noisy = smallPlan();
    auto &bytes = noisy.plan.variants[0].image;
    for (int changes = 1 + random() % 3; changes; --changes)
      bytes[random() % (i % 2 ? bytes.size() : 1024)] = uint8_t(random());
    Run attempt(noisy.bundle());
    if (attempt.open() == TSR_OK)
      (void)attempt.load();
  }
}

TEST_CASE("one plan gives one file, and equal constants are stored once",
          "[bundle]") {
  PlanMaker m = smallPlan();
  std::vector<float> weights = {1, 2, 3, 4}, others = {4, 3, 2, 1};
  std::string one = m.bundle();
  CHECK(one == m.bundle());
  std::string path = scratchPath("dedup.tsr");
  auto before = llvm::cantFail(writeBundle(m.plan, path));
  m.constant(weights);
  auto same = llvm::cantFail(writeBundle(m.plan, path));
  CHECK(same.deduplicated == 1);
  CHECK(same.dataBytes == before.dataBytes);
  m.constant(others);
  auto more = llvm::cantFail(writeBundle(m.plan, path));
  CHECK(more.dataBytes > before.dataBytes);
  m.constant(nullptr, 0);
  CHECK(llvm::cantFail(writeBundle(m.plan, path)).dataBytes == more.dataBytes);
  Run run(slurp(path));
  INFO(run.error.text);
  CHECK(run.open() == TSR_OK);
}

TEST_CASE("a failed write leaves the old file", "[bundle]") {
  PlanMaker m = smallPlan();
  std::string path = scratchPath("kept.tsr");
  std::ofstream(path) << "old";
  m.plan.constants[0].size = 3;
  auto failed = writeBundle(m.plan, path);
  CHECK(!failed);
  CHECK(llvm::toString(failed.takeError()).find("16 bytes, its data has 3") !=
        std::string::npos);
  CHECK(slurp(path) == "old");
  auto nowhere =
      writeBundle(smallPlan().plan, scratchPath("no/such/folder/x.tsr"));
  CHECK(!nowhere);
  llvm::consumeError(nowhere.takeError());
}

TEST_CASE("inspect describes a bundle", "[bundle]") {
  std::string path = scratchPath("inspect.tsr");
  PlanMaker m = smallPlan();
  m.plan.outputs[0].elementType = 6;
  m.plan.outputs[0].kind = 1;
  (void)m.bundle();
  llvm::cantFail(writeBundle(m.plan, path));
  std::string text = llvm::cantFail(inspectBundle(path));
  for (const char *part :
       {"x  float32[n=0..4]", "y  int32[?] (strings)", "2x loops", "node_add_f32", "baseline",
        "size depends on the input shapes", "1 of 16 B"}) {
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
  }
  InspectOptions options;
  options.format = InspectFormat::Json;
  options.buffers = true;
  std::string json = llvm::cantFail(inspectBundle(path, options));
  CHECK(json.find("\"dispatches\": 2") != std::string::npos);
  CHECK(json.find("\"part\": \"strings\"") != std::string::npos);
  std::string damaged = slurp(path);
  damaged[200] ^= 1;
  std::ofstream(path, std::ios::binary) << damaged;
  auto refused = inspectBundle(path);
  CHECK(!refused);
  llvm::consumeError(refused.takeError());
}

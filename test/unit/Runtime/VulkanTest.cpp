// Launches for Vulkan devices: which segments the loader refuses, what a device
// makes of the others, and what happens where there is none. The device of
// these tests computes in software.
#include "test/unit/Runtime/TestPlan.h"

#include "compiler/Bundle/VulkanArtefact.h"
#ifdef TSR_HAS_VULKAN
#include "runtime-stub/platform/vulkan/Driver.h"
#endif

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <random>

using namespace tessera;
using namespace tessera::test;
namespace vk = tessera::format::vulkan;

namespace {

constexpr int32_t kF32 = 1;

/// A module that is well formed to the loader, which looks at its head only.
VulkanModule module(const std::string &entry) {
  VulkanModule m;
  m.entry = entry;
  m.localSize = {4, 1, 1};
#ifdef TSR_HAS_VULKAN
  std::string bytes = slurp(TESSERA_BINARY_DIR "/test/unit/test-kernels.spv");
  m.words.resize(bytes.size() / 4);
  std::memcpy(m.words.data(), bytes.data(), bytes.size());
#else
  m.words = {vk::kSpirvMagic, 0x00010300, 0, 1, 0};
#endif
  return m;
}

vk::Binding operand(uint32_t index, uint32_t access, uint64_t bytes) {
  return {vk::From::Operand, index, 0, bytes, access, 0};
}

std::vector<uint8_t> pushed(float value) {
  std::vector<uint8_t> bytes(4);
  std::memcpy(bytes.data(), &value, 4);
  return bytes;
}

/// y = 2x + 1, by the processor, or by a Vulkan device which adds 100, so that
/// a test sees who did it:
///   0 copy x->d  1 launch  2 [d+d->t]  3 [t+one->r]  4 fence  5 copy r->y
struct VulkanPlan : PlanMaker {
  static constexpr uint32_t kCount = 8;
  static constexpr uint64_t kBytes = kCount * 4;
  uint32_t n, bytes, x, y, d, t, r, one;
  VulkanProgram program;
  std::vector<uint8_t> artefact;

  VulkanPlan() {
    plan.devices.push_back({"gpu", vk::kDeviceKind});
    plan.pools.push_back({"gpu", 1, 0, 256, false});
    n = prepare(ScalarOp::Constant, kNone, kNone, kCount);
    bytes = prepare(ScalarOp::Constant, kNone, kNone, kBytes);
    one = constant(std::vector<float>(kCount, 1));
    x = buffer(BufferKind::Input, kBytes);
    y = buffer(BufferKind::Output, kBytes);
    for (uint32_t *b : {&d, &t, &r}) {
      *b = buffer(BufferKind::Temporary, kBytes);
      plan.buffers[*b].pool = 2;
    }
    input("x", kF32, {fixed(kCount)}, x);
    output("y", kF32, {fixed(kCount)}, y);
    for (int i = 0; i < 4; ++i)
      program.addOperand(kBytes);
  }
  /// d + d -> t; t + one + 100 -> r, or with the constant of the segment.
  void addSteps(bool ownConstant = false) {
    uint32_t add = program.addModule(module("add"));
    vk::Binding third = operand(3, vk::kReads, kBytes);
    if (ownConstant) {
      std::vector<uint8_t> raw(kBytes);
      std::vector<float> ones(kCount, 1);
      std::memcpy(raw.data(), ones.data(), kBytes);
      third = {vk::From::Constant, 0, program.addConstant(raw), kBytes,
               vk::kReads,         0};
    }
    program.addStep(add, {kCount / 4, 1, 1},
                    {operand(0, vk::kReads, kBytes),
                     operand(0, vk::kReads, kBytes),
                     operand(1, vk::kWrites, kBytes)},
                    pushed(0));
    program.addStep(add, {kCount / 4, 1, 1},
                    {operand(1, vk::kReads, kBytes), third,
                     operand(2, vk::kWrites, kBytes)},
                    pushed(100));
  }
  std::string finish() {
    artefact = program.write();
    return finishWith(artefact, {d, t, r, one});
  }
  std::string finishWith(const std::vector<uint8_t> &segment,
                         std::vector<uint32_t> known) {
    artefact = segment;
    plan.artefacts = {{"gpu.0", reinterpret_cast<const char *>(artefact.data()),
                       artefact.size(), nullptr}};
    plan.strings.push_back("gpu.0");
    command({.kind = CommandKind::Copy, .a = x, .b = d, .c = bytes});
    uint32_t list = uint32_t(plan.operands.size());
    plan.operands.push_back(uint32_t(known.size()));
    plan.operands.insert(plan.operands.end(), known.begin(), known.end());
    command({.kind = CommandKind::Launch,
             .a = 1,
             .b = 2,
             .c = 0,
             .d = uint32_t(plan.strings.size()) - 1,
             .e = 0,
             .f = list});
    plan.commands[dispatch("add_f32", {d, d, t}, {n})].device = 1;
    plan.commands[dispatch("add_f32", {t, one, r}, {n})].device = 1;
    command({.kind = CommandKind::Fence, .a = 1});
    command({.kind = CommandKind::Copy, .a = r, .b = y, .c = bytes});
    return bundle();
  }
};

std::vector<float> expected(float base, float added) {
  std::vector<float> values;
  for (uint32_t i = 0; i < VulkanPlan::kCount; ++i)
    values.push_back(2 * (base + float(i)) + added);
  return values;
}

std::vector<float> inputs(float base) {
  std::vector<float> values;
  for (uint32_t i = 0; i < VulkanPlan::kCount; ++i)
    values.push_back(base + float(i));
  return values;
}

std::string refusalOf(const std::string &bundle) {
  Run run(bundle);
  run.deviceKinds = vk::kDeviceKind;
  return run.open() == TSR_OK ? "" : run.error.text;
}

} // namespace

TEST_CASE("the processor does the part of a Vulkan device", "[vulkan]") {
  VulkanPlan p;
  p.addSteps();
  Run run(p.finish());
  run.deviceKinds = vk::kDeviceKind;
  INFO(run.error.text);
  REQUIRE(run.start({}) == TSR_OK);
  run.fill<float>(0, inputs(3));
  REQUIRE(run.run() == TSR_OK);
  CHECK(run.output<float>(0) == expected(3, 1));
  tsr_launch_t launch = {};
  REQUIRE(tsr_launch_count(run.bundle) == 1);
  REQUIRE(tsr_launch_query(run.bundle, 0, &launch) == TSR_OK);
  CHECK(launch.operand_count == 4);
  CHECK(launch.artefact_bytes == p.artefact.size());
  CHECK(std::memcmp(launch.artefact, p.artefact.data(), p.artefact.size()) ==
        0);
  tsr_operand_t o = {};
  REQUIRE(tsr_launch_operand(run.instance, 0, 3, &o) == TSR_OK);
  CHECK(o.pool == TSR_NO_POOL);
  CHECK(tsr_launch_operand(run.instance, 0, 4, &o) == TSR_REFUSED);
  CHECK(tsr_launch_operand(run.instance, 1, 0, &o) == TSR_REFUSED);
  CHECK(tsr_launch_query(run.bundle, 1, &launch) == TSR_REFUSED);
}

TEST_CASE("a host without Vulkan devices refuses their kind", "[vulkan]") {
  VulkanPlan p;
  p.addSteps();
  Run run(p.finish());
  REQUIRE(run.open() == TSR_REFUSED);
  CHECK(std::string(run.error.text).find("device 1 ('gpu'): vulkan") == 0);
}

TEST_CASE("segments that leave what they are a part of are refused",
          "[vulkan]") {
  VulkanPlan p;
  p.addSteps();
  std::vector<uint8_t> good = p.program.write();
  vk::Artefact view;
  REQUIRE(vk::check(good.data(), good.size(), view).part == nullptr);
  struct Case {
    const char *part;
    size_t at;
    uint64_t value;
    unsigned size;
  };
  size_t module = view.modulesAt(), step = view.stepsAt(),
         binding = view.bindingsAt();
  const Case cases[] = {
      {"head", 0, 'X', 1},
      {"head", 4, 2, 4},                             // layout
      {"head", 8, good.size() + 1, 8},               // bytes
      {"head", 16, 0xffffffff, 4},                   // operands
      {"head", 20, 0x00ffffff, 4},                   // modules
      {"head", 24, 0x00ffffff, 4},                   // steps
      {"head", 28, 0x00ffffff, 4},                   // bindings
      {"head", 32, 16, 8},                           // constants in tables
      {"head", 40, ~uint64_t(0) - 15, 8},            // their bytes
      {"head", 48, uint64_t(1) << 47, 8},            // scratch
      {"head", 56, 0xfffffff0, 4},                   // push constants
      {"module", module, ~uint64_t(15), 8},          // place
      {"module", module, 0, 8},                      // in the head
      {"module", module + 8, good.size(), 8},        // bytes
      {"module", module + 8, 3, 8},                  // not words
      {"module", module + 16, uint64_t(1) << 40, 8}, // feature
      {"module", module + 24, 0, 4},                 // local size
      {"module", module + 48, 0, 1},                 // no entry
      {"step", step, 1, 4},                          // module
      {"step", step + 4, 0, 4},                      // no groups
      {"step", step + 8, 65536, 4},                  // too many
      {"step", step + 16, 0xffffffff, 4},            // first binding
      {"step", step + 20, 7, 4},                     // bindings
      {"step", step + 24, 0xfffffffc, 4},            // push constants
      {"step", step + 28, 132, 4},                   //
      {"binding", binding, 3, 4},                    // from
      {"binding", binding + 4, 4, 4},                // operand
      {"binding", binding + 8, 1, 8},                // not aligned
      {"binding", binding + 8, ~uint64_t(255), 8},   // offset
      {"binding", binding + 16, VulkanPlan::kBytes + 1, 8}, // bytes
      {"binding", binding + 16, 0, 8},                      //
      {"binding", binding + 24, 4, 4},                      // access
  };
  for (const Case &c : cases) {
    std::vector<uint8_t> bad = good;
    std::memcpy(bad.data() + c.at, &c.value, c.size);
    VulkanPlan q;
    std::string text = refusalOf(q.finishWith(bad, {q.d, q.t, q.r, q.one}));
    INFO(c.part << " at " << c.at);
    CHECK(text.find(std::string("launch in command 1, ") + c.part) == 0);
  }
  VulkanPlan cut;
  CHECK(
      refusalOf(cut.finishWith(
                    std::vector<uint8_t>(good.begin(), good.begin() + 40), {}))
          .find("cut off") != std::string::npos);
}

TEST_CASE("no change of a segment's tables passes a place outside",
          "[vulkan]") {
  VulkanPlan p;
  p.addSteps(true);
  p.program.needScratch(512);
  std::vector<uint8_t> good = p.program.write();
  vk::Artefact view;
  REQUIRE(vk::check(good.data(), good.size(), view).part == nullptr);
  std::mt19937 random(1);
  unsigned accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    std::vector<uint8_t> bytes = good;
    for (unsigned k = 1 + random() % 3; k-- > 0;) {
      static const uint8_t interesting[] = {0, 1, 0x7f, 0x80, 0xff};
      bytes[random() % view.partsAt()] =
          random() % 2 ? interesting[random() % 5] : uint8_t(random());
    }
    if (random() % 8 == 0)
      bytes.resize(random() % bytes.size());
    vk::Artefact a;
    // Exactly as large as it is, for sanitizers.
    std::unique_ptr<uint8_t[]> exact(new uint8_t[bytes.size()]);
    std::copy(bytes.begin(), bytes.end(), exact.get());
    if (vk::check(exact.get(), bytes.size(), a).part)
      continue;
    ++accepted;
    for (uint32_t s = 0; s < a.head.steps; ++s) {
      vk::Step step = a.step(s);
      vk::Module m = a.module(step.module);
      REQUIRE(m.at + m.bytes <= bytes.size());
      REQUIRE(a.pushAt() + step.pushAt + step.pushBytes <= bytes.size());
      for (uint32_t b = 0; b < step.bindings; ++b) {
        vk::Binding binding = a.binding(step.firstBinding + b);
        uint64_t room =
            binding.from == vk::From::Operand    ? a.operand(binding.operand)
            : binding.from == vk::From::Constant ? a.head.constantsBytes
                                                 : a.head.scratchBytes;
        REQUIRE(binding.bytes <= room);
        REQUIRE(binding.offset <= room - binding.bytes);
      }
    }
    REQUIRE(a.head.constantsAt + a.head.constantsBytes <= bytes.size());
  }
  CHECK(accepted > 100); // the test reaches what it is about
}

TEST_CASE("a launch's buffers are those of its device", "[vulkan]") {
  auto make = [](auto change) {
    VulkanPlan p;
    p.addSteps();
    std::vector<uint8_t> segment = p.program.write();
    std::vector<uint32_t> known = {p.d, p.t, p.r, p.one};
    change(p, known);
    return refusalOf(p.finishWith(segment, known));
  };
  CHECK(make([](VulkanPlan &, auto &) {}) == "");
  CHECK(make([](VulkanPlan &p, auto &known) {
          known[0] = p.x;
        }).find("memory of its device") != std::string::npos);
  CHECK(make([](VulkanPlan &, auto &known) {
          known.pop_back();
        }).find("another number of buffers") != std::string::npos);
  CHECK(make([](VulkanPlan &p, auto &known) {
          known[2] = p.one;
        }).find("writes to a constant") != std::string::npos);
  CHECK(make([](VulkanPlan &p, auto &known) {
          known[3] = p.constant(std::vector<float>{1});
        }).find("a buffer that is smaller") != std::string::npos);
  CHECK(make([](VulkanPlan &, auto &known) {
          known[1] = 1000;
        }).find("operands that exist") != std::string::npos);
}

#ifdef TSR_HAS_VULKAN

namespace {

using tsr::vulkan::Driver;

/// A bundle on a software device, through all steps.
struct Driven {
  explicit Driven(const std::string &bundle, uint64_t timeoutNs = 30000000000)
      : run(bundle) {
    run.deviceKinds = vk::kDeviceKind;
    Driver::Options options;
    options.software = true;
    options.timeoutNs = timeoutNs;
    driver = Driver::open(options, why);
  }
  bool start(bool import = false) {
    if (run.open() != TSR_OK)
      return false;
    run.context.drive = [this](tsr_instance_t *instance, uint32_t launch) {
      how = driver->drive(instance, launch);
      return how;
    };
    run.context.queues = &queues;
    tsr_host_t host = tsr::posix::makeHost("", run.context);
    if (run.load(&host) != TSR_OK || run.prepare({}) != TSR_OK)
      return false;
    why = driver->refusal(run.bundle);
    uint64_t bytes = tsr_pool_bytes(run.instance, 2);
    void *memory = nullptr;
    if (import) {
      pages.resize(bytes);
      memory = pages.data();
      bytes = pages.size();
      why += driver->importPool(2, memory, bytes);
    } else {
      memory = driver->poolMemory(2, bytes);
    }
    if (!why.empty() ||
        tsr_set_pool(run.instance, 2, memory, bytes, &run.error) != TSR_OK)
      return false;
    why = driver->prepare(run.instance);
    return why.empty();
  }
  std::vector<float> values(float base) {
    run.fill<float>(0, inputs(base));
    return run.run() == TSR_OK ? run.output<float>(0) : std::vector<float>{};
  }
  tsr::posix::DeviceQueues queues;
  tsr::posix::Pages pages;
  Run run;
  std::unique_ptr<Driver> driver;
  std::string why;
  int how = -1;
};

} // namespace

TEST_CASE("a Vulkan device does its launches", "[vulkan]") {
  bool ownConstant = GENERATE(false, true), import = GENERATE(false, true);
  VulkanPlan p;
  p.addSteps(ownConstant);
  Driven driven(p.finish());
  INFO(driven.why);
  if (!driven.driver)
    SKIP(driven.why);
  if (import && !driven.driver->device().importAlignment())
    SKIP("the device imports no memory");
  bool started = driven.start(import);
  INFO(driven.why << driven.run.error.text);
  REQUIRE(started);
  for (int i = 0; i < 20; ++i)
    CHECK(driven.values(float(i)) == expected(float(i), 101));
  CHECK(driven.how == TSR_DRIVEN_DONE);
  CHECK(driven.driver->pipelineCount() == 1);
  CHECK(driven.driver->barrierCount(0) == 1);
}

TEST_CASE("memory that the device does not see is left to the processor",
          "[vulkan]") {
  VulkanPlan p;
  p.addSteps();
  Driven driven(p.finish());
  if (!driven.driver)
    SKIP(driven.why);
  REQUIRE(driven.start());
  CHECK(driven.values(1) == expected(1, 101));
  tsr::posix::Pages other;
  other.resize(tsr_pool_bytes(driven.run.instance, 2));
  REQUIRE(tsr_set_pool(driven.run.instance, 2, other.data(), other.size(),
                       &driven.run.error) == TSR_OK);
  CHECK(driven.values(2) == expected(2, 1));
  CHECK(driven.how == TSR_DRIVEN_NOT);
}

TEST_CASE("what a device lacks is named", "[vulkan]") {
  auto refusal = [](VulkanModule m, uint32_t groups = 1) {
    VulkanPlan p;
    p.program.addStep(p.program.addModule(m), {groups, 1, 1},
                      {operand(0, vk::kReads, 16)});
    Driven driven(p.finish());
    if (!driven.driver)
      SKIP(driven.why);
    REQUIRE(driven.run.open() == TSR_OK);
    return driven.driver->refusal(driven.run.bundle);
  };
  VulkanModule m = module("add");
  CHECK(refusal(m) == "");
  m.localSize = {1024, 1024, 1};
  CHECK(refusal(m).find(
            "launch 'gpu.0', kernel 'add' invocations of a workgroup: ") == 0);
  m.localSize = {4, 1, 1};
  m.sharedBytes = 1 << 30;
  CHECK(refusal(m).find("bytes of shared memory: ") != std::string::npos);
  m.sharedBytes = 0;
  m.subgroup = 3;
  CHECK(refusal(m).find("subgroup size: ") != std::string::npos);
}

TEST_CASE("a device that does not end its work is lost", "[vulkan]") {
  VulkanPlan p;
  // Slow enough for any machine: 16 * 60,000 additions in memory, many times.
  uint32_t spin = p.program.addModule(module("spin"));
  for (int i = 0; i < 200; ++i)
    p.program.addStep(
        spin, {VulkanPlan::kCount / 4, 1, 1},
        {operand(0, vk::kReads | vk::kWrites, VulkanPlan::kBytes)});
  Driven driven(p.finish(), 1000000);
  if (!driven.driver)
    SKIP(driven.why);
  bool started = driven.start();
  INFO(driven.why);
  REQUIRE(started);
  CHECK(driven.driver->barrierCount(0) == 199);
  CHECK(driven.values(1).empty());
  CHECK(driven.run.error.code == TSR_ERROR_DEVICE);
  CHECK(std::string(driven.run.error.text).find("'gpu'") != std::string::npos);
  CHECK(driven.driver->lossReason().find("VK_TIMEOUT") != std::string::npos);
  // What is lost stays lost: its memory may be written to.
  CHECK(driven.values(1).empty());
  CHECK(driven.how == TSR_DRIVEN_LOST);
  // The pool was the device's; the test waits for it, so that nothing is left.
}

TEST_CASE("steps wait for what they depend on, and no more", "[vulkan]") {
  using tsr::vulkan::Hazards;
  using tsr::vulkan::Slice;
  auto at = [](uint64_t offset, uint64_t bytes) {
    return Slice{VK_NULL_HANDLE, offset, bytes};
  };
  Hazards h;
  CHECK(!h.enter({at(0, 64)}, {at(256, 64)}));
  CHECK(!h.enter({at(0, 64)}, {at(512, 64)}));    // reads the same
  CHECK(h.enter({at(300, 4)}, {at(1024, 64)}));   // after a write
  CHECK(!h.enter({at(512, 64)}, {at(2048, 64)})); // the barrier was for all
  CHECK(h.enter({}, {at(540, 4)}));               // what was read is written
  CHECK(h.enter({}, {at(540, 4)}));               // written twice
  CHECK(!h.enter({at(544, 4)}, {}));              // beside it
}

TEST_CASE("a pipeline cache of another driver is not used", "[vulkan]") {
  VkPhysicalDeviceProperties mine = {};
  mine.vendorID = 7;
  mine.deviceID = 9;
  mine.pipelineCacheUUID[3] = 5;
  VkPipelineCacheHeaderVersionOne header = {
      32, VK_PIPELINE_CACHE_HEADER_VERSION_ONE, 7, 9, {0, 0, 0, 5}};
  auto bytes = [&] {
    return std::string(reinterpret_cast<const char *>(&header), 32);
  };
  using tsr::vulkan::isCacheOf;
  CHECK(isCacheOf(bytes(), mine));
  CHECK(!isCacheOf(bytes().substr(0, 31), mine));
  header.pipelineCacheUUID[15] = 1;
  CHECK(!isCacheOf(bytes(), mine));
  header.pipelineCacheUUID[15] = 0;
  header.vendorID = 8;
  CHECK(!isCacheOf(bytes(), mine));
  header.vendorID = 7;
  header.headerSize = 33;
  CHECK(!isCacheOf(bytes(), mine));
}

#endif

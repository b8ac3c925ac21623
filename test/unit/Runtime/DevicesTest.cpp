// Plans that run on more than one device: what they compute, and which of them
// the loader refuses.
#include "test/unit/Runtime/TestPlan.h"

#include "compiler/Memory/LaunchValidator.h"
#include "compiler/Report/Inspect.h"
#include "runtime-stub/format/Header.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>
#include <cstdlib>
#include <fstream>

using namespace tessera;
using namespace tessera::test;

namespace {

constexpr int32_t kF32 = 1, kI64 = 7;

/// y = 4x + 1 by device 1, z = 2x by the processor beside it:
///   0 copy x->d  1 launch  2 [d+d->t]  3 [t+t->u]  4 [u+one->r]
///   5 x+x->z  6 fence  7 copy r->y
struct DevicePlan : PlanMaker {
  uint32_t n, bytes, x, y, z, d, t, u, r, one;
  DevicePlan() {
    device("npu");
    n = prepare(ScalarOp::Constant, kNone, kNone, 4);
    bytes = prepare(ScalarOp::Constant, kNone, kNone, 16);
    one = constant(std::vector<float>{1, 1, 1, 1});
    x = buffer(BufferKind::Input, 16);
    y = buffer(BufferKind::Output, 16);
    z = buffer(BufferKind::Output, 16);
    for (uint32_t *b : {&d, &t, &u, &r}) {
      *b = buffer(BufferKind::Temporary, 16);
      plan.buffers[*b].pool = 2;
    }
    input("x", kF32, {fixed(4)}, x);
    output("y", kF32, {fixed(4)}, y);
    output("z", kF32, {fixed(4)}, z);
    command({.kind = CommandKind::Copy, .a = x, .b = d, .c = bytes});
    launch(1, 3, 0);
    onDevice(1, dispatch("add_f32", {d, d, t}, {n}));
    onDevice(1, dispatch("add_f32", {t, t, u}, {n}));
    onDevice(1, dispatch("add_f32", {u, one, r}, {n}));
    dispatch("add_f32", {x, x, z}, {n});
    command({.kind = CommandKind::Fence, .a = 1});
    command({.kind = CommandKind::Copy, .a = r, .b = y, .c = bytes});
  }
  uint16_t device(const std::string &name) {
    plan.devices.push_back({name, "segments"});
    uint8_t number = uint8_t(plan.devices.size() - 1);
    plan.pools.push_back({name, number, 0, 64, false});
    return uint16_t(plan.pools.size() - 1);
  }
  void launch(uint32_t device, uint32_t count, uint32_t number) {
    plan.strings.push_back("part" + std::to_string(number));
    command({.kind = CommandKind::Launch,
             .a = device,
             .b = count,
             .d = uint32_t(plan.strings.size()) - 1,
             .e = number});
  }
  void onDevice(uint8_t device, uint32_t at) {
    plan.commands[at].device = device;
  }
  /// Without the compiler's own judge, for plans that are wrong.
  std::string unjudged() {
    computeLifetimes(plan);
    uint64_t end[16] = {};
    for (PlanBuffer &b : plan.buffers) {
      if (b.kind == BufferKind::Constant || b.aliasOf != kNone || b.pool == 1)
        continue;
      b.offset = end[b.pool];
      b.hasOffset = true;
      end[b.pool] += 64;
      plan.pools[b.pool].staticBytes = end[b.pool];
    }
    return writeToString(plan);
  }
};

void checkValues(Run &run, float base) {
  run.fill<float>(0, {base, 2, 3, 4});
  INFO(run.error.text);
  REQUIRE(run.run() == TSR_OK);
  CHECK(run.output<float>(0) == std::vector<float>{4 * base + 1, 9, 13, 17});
  CHECK(run.output<float>(1) == std::vector<float>{2 * base, 4, 6, 8});
}

/// A host whose device works only when it is waited for: whatever the loader
/// does after a launch cannot have read its results.
struct Lazy {
  std::vector<std::pair<void (*)(void *), void *>> waiting;
  unsigned submissions = 0, waits = 0;
  bool fails = false, isLost = false;
  static int submit(void *c, uint32_t, void (*work)(void *), void *argument) {
    auto *lazy = static_cast<Lazy *>(c);
    ++lazy->submissions;
    lazy->waiting.push_back({work, argument});
    return lazy->fails;
  }
  static int wait(void *c, uint32_t) {
    auto *lazy = static_cast<Lazy *>(c);
    ++lazy->waits;
    if (!lazy->isLost)
      for (auto [work, argument] : lazy->waiting)
        work(argument);
    lazy->waiting.clear(); // a lost device is stopped, its work forgotten
    return lazy->isLost;
  }
};

} // namespace

TEST_CASE("a device runs beside the processor", "[devices]") {
  tsr::posix::DeviceQueues queues;
  bool threaded = GENERATE(false, true);
  Run run(DevicePlan().bundle());
  run.context.queues = threaded ? &queues : nullptr;
  INFO(run.error.text);
  REQUIRE(run.start({}) == TSR_OK);
  CHECK(std::string(tsr_device_name(run.bundle, 1)) == "npu");
  CHECK(run.needs.pools[2].device == 1);
  for (int i = 0; i < 50; ++i)
    checkValues(run, float(i));
}

TEST_CASE("the processor goes on while a device works", "[devices]") {
  Lazy lazy;
  Run run(DevicePlan().bundle());
  REQUIRE(run.open() == TSR_OK);
  tsr_host_t host = tsr::posix::makeHost("", run.context);
  host.context = &lazy;
  host.submit = Lazy::submit;
  host.wait = Lazy::wait;
  host.trace = nullptr;
  REQUIRE(run.load(&host) == TSR_OK);
  REQUIRE(run.prepare({}) == TSR_OK);
  checkValues(run, 1);
  CHECK(lazy.submissions == 1);
  lazy.fails = true;
  CHECK(run.run() == TSR_REFUSED);
  CHECK(run.error.code == TSR_ERROR_HOST);
  CHECK(lazy.waiting.empty());
  // A device that is lost is not waited for again, and may come back.
  lazy.fails = false;
  lazy.isLost = true;
  lazy.waits = 0;
  CHECK(run.run() == TSR_REFUSED);
  CHECK(run.error.code == TSR_ERROR_HOST);
  CHECK(std::string(run.error.text).find("'npu' may be lost") != std::string::npos);
  CHECK(lazy.waits == 1);
  lazy.isLost = false;
  checkValues(run, 3);
}

TEST_CASE("the trace tells who did what, and how much was moved",
          "[devices]") {
  Run run(DevicePlan().bundle());
  std::string seen;
  run.context.onTrace = [&](const tsr_trace_event_t &e) {
    seen += std::to_string(e.device) + ":" + e.kernel +
            (e.bytes ? "/" + std::to_string(e.bytes) : "") + " ";
  };
  REQUIRE(run.start({}) == TSR_OK);
  checkValues(run, 1);
  CHECK(seen == "0:copy/16 1:part0 1:add_f32 1:add_f32 1:add_f32 0:add_f32 "
                "1:fence 0:copy/16 ");
}

TEST_CASE("a refusal on a device is reported at the fence", "[devices]") {
  tsr::posix::DeviceQueues queues;
  bool threaded = GENERATE(false, true);
  DevicePlan m;
  uint32_t index = m.buffer(BufferKind::Input, 8),
           there = m.buffer(BufferKind::Temporary, 8),
           out = m.buffer(BufferKind::Temporary, 4);
  m.plan.buffers[there].pool = m.plan.buffers[out].pool = 2;
  m.input("i", kI64, {}, index);
  uint32_t eight = m.prepare(ScalarOp::Constant, kNone, kNone, 8);
  m.command({.kind = CommandKind::Copy, .a = index, .b = there, .c = eight});
  m.launch(1, 1, 1);
  m.onDevice(1, m.dispatch("gather_f32", {m.one, there, out}, {m.n}));
  m.launch(1, 1, 2); // has no meaning after a refusal, and is not run
  m.onDevice(1, m.dispatch("gather_f32", {m.one, there, out}, {m.n}));
  m.command({.kind = CommandKind::Fence, .a = 1});
  Run run(m.bundle());
  run.context.queues = threaded ? &queues : nullptr;
  REQUIRE(run.start({}) == TSR_OK);
  for (int64_t i : {0, 9, 3, -1, 0}) {
    run.fill<float>(0, {1, 2, 3, 4});
    run.fill<int64_t>(1, {i});
    bool good = i >= 0 && i < 4;
    CHECK(run.run() == (good ? TSR_OK : TSR_REFUSED));
    if (!good)
      CHECK(std::string(run.error.text).find("node 'node_gather_f32'") !=
            std::string::npos);
  }
}

TEST_CASE("a run suspends while a device works, and goes on", "[devices]") {
  tsr::posix::DeviceQueues queues;
  DevicePlan m;
  uint32_t big = m.prepare(ScalarOp::Constant, kNone, kNone, 1 << 20);
  uint32_t grown = m.dynamic();
  m.plan.commands.insert(
      m.plan.commands.begin() + 5,
      {.kind = CommandKind::Allocate, .a = grown, .b = big});
  Run run(m.bundle());
  run.context.queues = &queues;
  REQUIRE(run.start({}) == TSR_OK);
  checkValues(run, 5);
  CHECK(run.suspensions == 1);
}

TEST_CASE("a device that reaches into the processor's memory is found out",
          "[devices]") {
  DevicePlan m;
  uint32_t eight = m.prepare(ScalarOp::Constant, kNone, kNone, 8);
  uint32_t four = m.prepare(ScalarOp::Constant, kNone, kNone, 4);
  uint32_t address = m.buffer(BufferKind::Temporary, 8),
           there = m.buffer(BufferKind::Temporary, 8),
           found = m.buffer(BufferKind::Temporary, 4),
           out = m.buffer(BufferKind::Output, 4);
  m.plan.buffers[there].pool = m.plan.buffers[found].pool = 2;
  m.output("peeked", kF32, {}, out);
  m.dispatch("address_i64", {m.x, address}, {});
  m.command({.kind = CommandKind::Copy, .a = address, .b = there, .c = eight});
  m.launch(1, 1, 1);
  m.onDevice(1, m.dispatch("peek_f32", {there, found}, {}));
  m.command({.kind = CommandKind::Fence, .a = 1});
  m.command({.kind = CommandKind::Copy, .a = found, .b = out, .c = four});
  m.dispatch("add_f32", {m.x, m.x, m.z}, {m.n}); // x lives until here
  std::string bytes = m.bundle(), path = scratchPath("peek.tsr"),
              input = scratchPath("x.npy"), text = scratchPath("peek.txt");
  std::ofstream(path, std::ios::binary) << bytes;
  {
    std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': "
                         "(4,), }";
    header.resize(117, ' ');
    header += '\n';
    std::ofstream npy(input, std::ios::binary);
    npy << "\x93NUMPY" << '\1' << '\0' << char(118) << '\0' << header;
    for (float v : {5.0f, 2.0f, 3.0f, 4.0f})
      npy.write(reinterpret_cast<const char *>(&v), 4);
  }
  for (const char *options :
       {"--devices inline", "--devices threads", "--devices inline --poison",
        "--devices threads --poison"}) {
    std::string command = TESSERA_BINARY_DIR "/bin/tsr-run " + path + " " +
                          input + " " + options + " > " + text;
    REQUIRE(std::system(command.c_str()) == 0);
    std::string printed = slurp(text);
    INFO(options << "\n" << printed);
    CHECK(printed.find("y: float32[4] 21 9 13 17") != std::string::npos);
    CHECK(printed.find("z: float32[4] 10 4 6 8") != std::string::npos);
    bool poisoned = std::string(options).find("poison") != std::string::npos;
    CHECK((printed.find("peeked: float32[] 5\n") == std::string::npos) ==
          poisoned);
  }
}

TEST_CASE("plans whose launches are wrong are refused", "[devices]") {
  struct Case {
    const char *part; ///< of the refusal
    void (*damage)(DevicePlan &);
  };
  const Case cases[] = {
      {"touches buffer", [](DevicePlan &m) { m.plan.operands[m.plan.commands[2].b] = m.x; }},
      {"touches buffer", [](DevicePlan &m) { m.plan.operands[m.plan.commands[4].b + 2] = m.y; }},
      {"belongs to device 0", [](DevicePlan &m) { m.plan.commands[3].device = 0; }},
      {"belongs to device 1", [](DevicePlan &m) { m.plan.commands[5].device = 1; }},
      {"belongs to device 1", [](DevicePlan &m) { m.plan.commands[1].b = 2; }},
      {"belongs to device 0", [](DevicePlan &m) { m.plan.commands[1].b = 4; }},
      {"kind, of", [](DevicePlan &m) { m.plan.commands[1].b = 0; }},
      {"kind, of", [](DevicePlan &m) { m.plan.commands[1].b = 7; }},
      {"kind, of", [](DevicePlan &m) { m.plan.commands[1].b = 0xffffffff; }},
      {"kind, of", [](DevicePlan &m) { m.plan.commands[1].a = 0; }},
      {"kind, of", [](DevicePlan &m) { m.plan.commands[1].a = 2; }},
      {"kind, of", [](DevicePlan &m) { m.plan.commands[1].d = 9; }},
      {"launch 1", [](DevicePlan &m) { m.plan.commands[1].e = 1; }},
      {"kind, of", [](DevicePlan &m) { m.plan.commands[6].a = 2; }},
      // No fence for this device: the copy, and the end, come too early.
      {"touches what a device uses", [](DevicePlan &m) { m.plan.commands[6].a = 0; }},
      {"a fence before the end", [](DevicePlan &m) {
         m.plan.commands[6].a = 0;
         m.plan.commands[7].a = m.z;
       }},
      // The processor writes into, or reads from, what the device works on.
      {"touches what a device uses", [](DevicePlan &m) { m.plan.operands[m.plan.commands[5].b + 2] = m.d; }},
      {"touches what a device uses", [](DevicePlan &m) { m.plan.operands[m.plan.commands[5].b] = m.u; }},
      {"touches what a device uses", [](DevicePlan &m) {
         m.plan.commands[5] = {.kind = CommandKind::Fill, .a = m.d, .b = 0, .c = m.bytes};
       }},
      {"touches what a device uses", [](DevicePlan &m) {
         m.plan.commands[5] = {.kind = CommandKind::StoreInt, .a = m.d, .b = m.n, .c = 0, .d = 7};
       }},
      {"touches what a device uses", [](DevicePlan &m) {
         m.plan.scalars.push_back({ScalarOp::LoadInt, m.plan.registers++, m.t, 7, kNone, 0});
         m.plan.commands[5] = {.kind = CommandKind::Scalars, .a = uint32_t(m.plan.scalars.size()) - 1, .b = 1};
       }},
      {"touches what a device uses", [](DevicePlan &m) {
         m.plan.commands[5] = {.kind = CommandKind::Bind, .a = m.d, .b = m.t};
       }},
      // Not for devices.
      {"dispatches and movement in a range", [](DevicePlan &m) {
         m.plan.commands[3] = {.kind = CommandKind::Jump, .a = 4, .device = 1};
       }},
      {"dispatches and movement in a range", [](DevicePlan &m) {
         m.plan.commands[3] = {.kind = CommandKind::Launch, .a = 1, .b = 1, .d = 0, .e = 1, .device = 1};
       }},
      {"dispatches and movement in a range", [](DevicePlan &m) {
         m.plan.commands[3] = {.kind = CommandKind::Fence, .a = 1, .device = 1};
       }},
      {"dispatches and movement in a range", [](DevicePlan &m) {
         m.plan.commands[3] = {.kind = CommandKind::Check, .a = m.n, .b = 0, .device = 1};
       }},
      {"dispatches and movement in a range", [](DevicePlan &m) {
         m.plan.scalars.push_back({ScalarOp::Constant, m.plan.registers++, kNone, kNone, kNone, 0});
         m.plan.commands[3] = {.kind = CommandKind::Scalars, .a = uint32_t(m.plan.scalars.size()) - 1, .b = 1, .device = 1};
       }},
      // Jumps.
      {"goes, launched", [](DevicePlan &m) { m.plan.commands[5] = {.kind = CommandKind::Jump, .a = 6}; }},
      {"goes, launched", [](DevicePlan &m) {
         m.plan.commands[5] = {.kind = CommandKind::BranchZero, .a = m.n, .b = 6};
       }},
      {"jumps to command 3", [](DevicePlan &m) { m.plan.commands[0] = {.kind = CommandKind::Jump, .a = 3}; }},
      {"jumps to command 2", [](DevicePlan &m) {
         m.plan.commands[7] = {.kind = CommandKind::BranchZero, .a = m.n, .b = 2};
       }},
      // A register that changes while the device reads it.
      {"reads register", [](DevicePlan &m) {
         m.plan.scalars.push_back({ScalarOp::Constant, m.n, kNone, kNone, kNone, 3});
         m.plan.commands[5] = {.kind = CommandKind::Scalars, .a = uint32_t(m.plan.scalars.size()) - 1, .b = 1};
       }},
      {"apart from the prepare program", [](DevicePlan &m) {
         m.plan.commands[5] = {.kind = CommandKind::Scalars, .a = 0, .b = 1};
       }},
      // Pools.
      {"an existing device", [](DevicePlan &m) { m.plan.pools[2].device = 2; }},
      {"an existing device", [](DevicePlan &m) { m.plan.pools[1].device = 1; }},
      {"touches buffer", [](DevicePlan &m) { m.plan.pools[2].device = 0; }},
      {"devices", [](DevicePlan &m) { m.plan.devices.resize(9); }},
  };
  for (const Case &c : cases) {
    DevicePlan m;
    c.damage(m);
    Run run(m.unjudged());
    INFO(c.part);
    CHECK(run.open() == TSR_REFUSED);
    INFO(run.error.text);
    CHECK(run.error.code == TSR_ERROR_STRUCTURE);
    CHECK(std::string(run.error.text).find(c.part) != std::string::npos);
  }
  Run good(DevicePlan().unjudged());
  REQUIRE(good.start({}) == TSR_OK);
  checkValues(good, 1);
}

TEST_CASE("the compiler's judge finds what the loader would refuse",
          "[devices][memory]") {
  auto judge = [](void (*damage)(DevicePlan &)) {
    DevicePlan m;
    (void)m.bundle(); // places
    damage(m);
    return validateLaunches(m.plan).value_or("");
  };
  CHECK(judge([](DevicePlan &) {}) == "");
  CHECK(judge([](DevicePlan &m) { m.plan.commands[6].a = 0; })
            .find("while a device uses") != std::string::npos);
  CHECK(judge([](DevicePlan &m) {
          m.plan.commands[6].a = 0;
          m.plan.commands[7].a = m.z;
        }).find("ends the plan") != std::string::npos);
  CHECK(judge([](DevicePlan &m) {
          m.plan.operands[m.plan.commands[2].b] = m.x;
        }).find("memory of another device") != std::string::npos);
  CHECK(judge([](DevicePlan &m) {
          m.plan.commands[5] = {.kind = CommandKind::Jump, .a = 6};
        }).find("jumps") != std::string::npos);
  CHECK(judge([](DevicePlan &m) { m.plan.commands[3].kind = CommandKind::Check; })
            .find("not for devices") != std::string::npos);
  CHECK(judge([](DevicePlan &m) { m.plan.commands[1].b = 2; }) != "");
}

TEST_CASE("the format version says whether a bundle launches", "[devices]") {
  std::string bytes = DevicePlan().bundle();
  CHECK(versionOf(bytes) == 2);
  for (uint32_t version : {0u, 1u, 3u}) {
    std::string changed = bytes;
    std::memcpy(changed.data() + format::kVersionAt, &version, 4);
    seal(changed);
    Run run(changed);
    CHECK(run.open() == TSR_REFUSED);
    CHECK(run.error.code ==
          (version == 1 ? TSR_ERROR_STRUCTURE : TSR_ERROR_VERSION));
  }
  // What needs nothing new is read by loaders that know version 1 alone.
  PlanMaker m;
  m.output("y", kF32, {fixed(4)}, m.buffer(BufferKind::Output, 16));
  CHECK(versionOf(m.bundle()) == 1);
}

TEST_CASE("an artefact lies in the bundle, is hashed and can be taken out",
          "[devices]") {
  DevicePlan m;
  std::string artefact(300000, '\0');
  for (size_t i = 0; i < artefact.size(); ++i)
    artefact[i] = char(i * 7);
  m.plan.artefacts.push_back({"part0", artefact.data(), artefact.size()});
  m.plan.commands[1].c = 0;
  std::string path = scratchPath("artefact.tsr"), out = scratchPath("out.bin");
  std::string bytes = m.bundle();
  std::ofstream(path, std::ios::binary) << bytes;
  Run run(bytes);
  REQUIRE(run.start({}) == TSR_OK);
  checkValues(run, 1);
  std::string text = llvm::cantFail(inspectBundle(path));
  INFO(text);
  CHECK(text.find("part0        on npu, 3 dispatches, artefact in segment 2") !=
        std::string::npos);
  CHECK(!extractSegment(path, 2, out));
  CHECK(slurp(out) == artefact);
  CHECK(llvm::toString(extractSegment(path, 3, out)).find("has 3 segments, none is number 3") !=
        std::string::npos);
  size_t last = bytes.size() - 1;
  bytes[last] ^= 1;
  std::ofstream(path, std::ios::binary) << bytes;
  CHECK(llvm::toString(extractSegment(path, 2, out)).find("chunk 1 differs") !=
        std::string::npos);
  Run damaged(bytes);
  CHECK(damaged.open() == TSR_REFUSED);
  CHECK(damaged.error.code == TSR_ERROR_HASH);
  std::string wrong = writeToString(m.plan);
  // A launch may name no segment but one of its kind.
  for (uint32_t segment : {0u, 1u, 3u}) {
    std::string changed = wrong;
    size_t at = changed.find(std::string("\x01\0\0\0\x03\0\0\0\x02\0\0\0", 12));
    REQUIRE(at != std::string::npos);
    std::memcpy(changed.data() + at + 8, &segment, 4);
    seal(changed);
    Run attempt(changed);
    CHECK(attempt.open() == TSR_REFUSED);
    CHECK(attempt.error.code == TSR_ERROR_STRUCTURE);
  }
}

TEST_CASE("a device that the host neither drives nor plays is refused", "[devices]") {
  const char *kind = "ethos-u55-256/System/Mode";
  DevicePlan m;
  m.plan.devices[1].kind = kind;
  std::string bytes = m.bundle();
  struct Case {
    const char *kinds;
    bool runs;
  };
  for (Case c : {Case{nullptr, false}, {"", false}, {"ethos-u55-256/System/Mod", false},
                 {"ethos-u55-256/System/Mode2 gpu", false}, {"gpu ethos-u55-256/System/Mode", true}, {"*", true}}) {
    INFO((c.kinds ? c.kinds : "none"));
    Run run(bytes);
    run.deviceKinds = c.kinds;
    tsr_status_t status = run.open();
    CHECK(status == (c.runs ? TSR_OK : TSR_REFUSED));
    if (!c.runs) {
      CHECK(run.error.code == TSR_ERROR_FEATURES);
      CHECK(std::string(run.error.text).find(kind) != std::string::npos);
    }
  }
  Run check(bytes); // on a machine that only looks
  CHECK(check.open(/*checkOnly=*/true) == TSR_OK);
  CHECK(std::string(tsr_device_kind(check.bundle, 1)) == kind);
}

// Hand-made plans through bundle and loader.
#include "test/unit/Runtime/TestPlan.h"

#include "runtime-stub/format/Header.h"

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <numeric>
#include <thread>

using namespace tessera;
using namespace tessera::test;

namespace {

constexpr int32_t kF32 = 1, kI64 = 7, kU8 = 2, kI32 = 6, kBool = 9;

/// out = x + y, four floats.
PlanMaker addPlan() {
  PlanMaker m;
  uint32_t n = m.prepare(ScalarOp::Constant, kNone, kNone, 4);
  uint32_t x = m.buffer(BufferKind::Input, 16),
           y = m.buffer(BufferKind::Input, 16);
  uint32_t out = m.buffer(BufferKind::Output, 16);
  m.input("x", kF32, {fixed(4)}, x);
  m.input("y", kF32, {fixed(4)}, y);
  m.output("sum", kF32, {fixed(4)}, out);
  m.dispatch("add_f32", {x, y, out}, {n});
  return m;
}

/// out = x + x, n floats; n from the input's shape.
PlanMaker dynamicShapePlan() {
  PlanMaker m;
  uint32_t n = m.prepare(ScalarOp::InputDim, 0, 0);
  uint32_t four = m.prepare(ScalarOp::Constant, kNone, kNone, 4);
  uint32_t bytes = m.prepare(ScalarOp::Mul, n, four);
  uint32_t x = m.buffer(BufferKind::Input, 0, bytes),
           t = m.buffer(BufferKind::Temporary, 0, bytes);
  uint32_t out = m.buffer(BufferKind::Output, 0, bytes);
  m.input("x", kF32, {open(n, "n", 2, 64, 2)}, x);
  m.output("y", kF32, {open(n)}, out);
  m.dispatch("add_f32", {x, x, t}, {n});
  m.dispatch("add_f32", {t, x, out}, {n});
  return m;
}

/// Input and output are an optional sequence, a sequence of strings, a tensor
/// of strings and an optional tensor; nothing is computed.
struct PartsPlan : PlanMaker {
  PartsPlan() {
    for (bool isInput : {true, false}) {
      add(isInput, 4, kBool, {});
      add(isInput, 2, kF32, {6});
      add(isInput, 3, kI64, {2, 1});
      add(isInput, 5, kI32, {3, 4});
      add(isInput, 3, kI64, {3, 0});
      add(isInput, 1, kI32, {2, 5});
      add(isInput, 4, kBool, {});
      add(isInput, 0, kF32, {2});
    }
  }
  void add(bool isInput, uint8_t kind, int32_t type,
           std::vector<int64_t> shape) {
    std::vector<PlanDim> dims;
    for (int64_t d : shape)
      dims.push_back(fixed(d));
    uint32_t at =
        buffer(isInput ? BufferKind::Input : BufferKind::Output, 128);
    std::vector<PlanTensor> &list = isInput ? plan.inputs : plan.outputs;
    std::string name = "v" + std::to_string(list.size());
    isInput ? input(name, type, dims, at) : output(name, type, dims, at);
    list.back().kind = kind;
  }
};

bool contains(const char *text, const char *part) {
  return std::string(text).find(part) != std::string::npos;
}

} // namespace

TEST_CASE("a static plan runs, again and again", "[loader]") {
  Run run(addPlan().bundle());
  INFO(run.error.text);
  REQUIRE(run.open() == TSR_OK);
  REQUIRE(run.load() == TSR_OK);
  CHECK(run.needs.pools[0].known == 1);
  CHECK(run.needs.pools[0].bytes == 192);
  REQUIRE(run.prepare({}) == TSR_OK);
  for (float base : {1.0f, 10.0f}) {
    run.fill<float>(0, {base, 2, 3, 4});
    run.fill<float>(1, {0.5, 0.5, 0.5, base});
    REQUIRE(run.run() == TSR_OK);
    CHECK(run.output<float>(0) ==
          std::vector<float>{base + 0.5f, 2.5, 3.5, 4 + base});
    CHECK(run.shape == std::vector<int64_t>{4});
  }
}

TEST_CASE("shapes are fixed by prepare and checked against the contract",
          "[loader]") {
  Run run(dynamicShapePlan().bundle());
  REQUIRE(run.open() == TSR_OK);
  REQUIRE(run.load() == TSR_OK);
  CHECK(run.needs.pools[0].known == 0);
  for (int64_t n : {2, 64, 4}) {
    REQUIRE(run.prepare({{n}}) == TSR_OK);
    std::vector<float> x(n);
    std::iota(x.begin(), x.end(), 1.0f);
    run.fill(0, x);
    REQUIRE(run.run() == TSR_OK);
    std::vector<float> y = run.output<float>(0);
    REQUIRE(int64_t(y.size()) == n);
    for (int64_t i = 0; i < n; ++i)
      CHECK(y[i] == 3 * x[i]);
  }
  auto refused = [&](std::vector<std::vector<int64_t>> shapes,
                     const char *found, const char *needed) {
    CHECK(run.prepare(shapes) == TSR_REFUSED);
    CHECK(run.error.code == TSR_ERROR_SHAPE);
    CHECK(std::string(run.error.found) == found);
    CHECK(contains(run.error.needed, needed));
  };
  refused({{66}}, "66", "at most 64");
  CHECK(contains(run.error.field, "input 'x' axis 0 ('n')"));
  refused({{0}}, "0", "at least 2");
  refused({{7}}, "7", "a multiple of 2");
  refused({{2, 2}}, "2", "1");
  refused({}, "no data", "data");
}

TEST_CASE("dimensions of one symbol are equal", "[loader]") {
  PlanMaker m;
  uint32_t n = m.prepare(ScalarOp::InputDim, 0, 0);
  uint32_t four = m.prepare(ScalarOp::Constant, kNone, kNone, 4);
  uint32_t bytes = m.prepare(ScalarOp::Mul, n, four);
  uint32_t x = m.buffer(BufferKind::Input, 0, bytes),
           y = m.buffer(BufferKind::Input, 0, bytes);
  uint32_t out = m.buffer(BufferKind::Output, 0, bytes);
  m.input("x", kF32, {open(n, "n")}, x);
  m.input("y", kF32, {open(n, "n")}, y);
  m.output("sum", kF32, {open(n)}, out);
  m.dispatch("add_f32", {x, y, out}, {n});
  Run run(m.bundle());
  REQUIRE(run.start({{3}, {3}}) == TSR_OK);
  CHECK(run.prepare({{3}, {4}}) == TSR_REFUSED);
  CHECK(contains(run.error.text,
                 "input 'y' axis 0 ('n'): 4, needed: 3, as in another input"));
  REQUIRE(run.prepare({{0}, {0}}) == TSR_OK);
  CHECK(run.run() == TSR_OK);
  CHECK(run.output<float>(0).empty());
}

TEST_CASE("a kernel's refusal names its nodes", "[loader]") {
  PlanMaker m;
  std::vector<float> table = {10, 11, 12};
  uint32_t data = m.constant(table);
  uint32_t n = m.prepare(ScalarOp::Constant, kNone, kNone, 3);
  uint32_t index = m.buffer(BufferKind::Input, 8),
           out = m.buffer(BufferKind::Output, 4);
  m.input("i", kI64, {}, index);
  m.output("x", kF32, {}, out);
  m.dispatch("gather_f32", {data, index, out}, {n});
  Run run(m.bundle());
  REQUIRE(run.start({}) == TSR_OK);
  run.fill<int64_t>(0, {2});
  REQUIRE(run.run() == TSR_OK);
  CHECK(run.output<float>(0) == std::vector<float>{12});
  run.fill<int64_t>(0, {3});
  CHECK(run.run() == TSR_REFUSED);
  CHECK(contains(run.error.text,
                 "node 'node_gather_f32': an index out of range"));
  run.fill<int64_t>(0, {0});
  CHECK(run.run() == TSR_OK);
}

TEST_CASE("a default value stands in for an input", "[loader]") {
  PlanMaker m = addPlan();
  std::vector<float> value = {100, 200, 300, 400};
  m.plan.inputs[1].defaultBuffer = m.constant(value);
  SECTION("read where it lies") {}
  SECTION("copied when something shares its buffer") {
    uint32_t view = m.alias(m.plan.inputs[1].buffer, 0, 16);
    m.plan.operands[1] = view;
  }
  Run run(m.bundle());
  REQUIRE(run.open() == TSR_OK);
  REQUIRE(run.load() == TSR_OK);
  REQUIRE(run.prepare({}) == TSR_OK);
  run.fill<float>(0, {1, 2, 3, 4});
  REQUIRE(run.run() == TSR_OK);
  CHECK(run.output<float>(0) == std::vector<float>{101, 202, 303, 404});
  REQUIRE(run.prepare({{4}, {4}}) == TSR_OK);
  run.fill<float>(0, {1, 2, 3, 4});
  run.fill<float>(1, {1, 1, 1, 1});
  REQUIRE(run.run() == TSR_OK);
  CHECK(run.output<float>(0) == std::vector<float>{2, 3, 4, 5});
}

TEST_CASE("denormals are flushed where the dispatch says so, and only there",
          "[loader]") {
  for (bool flush : {false, true}) {
    PlanMaker m;
    uint32_t n = m.prepare(ScalarOp::Constant, kNone, kNone, 1);
    uint32_t x = m.buffer(BufferKind::Input, 4),
             t = m.buffer(BufferKind::Output, 4);
    uint32_t out = m.buffer(BufferKind::Output, 4);
    m.input("x", kF32, {}, x);
    m.output("flushed", kF32, {}, t);
    m.output("kept", kF32, {}, out);
    m.dispatch("halve_f32", {x, t}, {n}, kNone, flush);
    m.dispatch("halve_f32", {x, out}, {n});
    Run run(m.bundle());
    REQUIRE(run.start({}) == TSR_OK);
    float smallest = std::numeric_limits<float>::min();
    run.fill<float>(0, {smallest});
    REQUIRE(run.run() == TSR_OK);
    CHECK(run.output<float>(0)[0] == (flush ? 0.0f : smallest / 2));
    CHECK(run.output<float>(1)[0] == smallest / 2);
    volatile float here = smallest;
    CHECK(here * 0.5f != 0.0f);
  }
}

TEST_CASE("relocated data is found", "[loader]") {
  PlanMaker m;
  uint32_t n = m.prepare(ScalarOp::Constant, kNone, kNone, 4);
  uint32_t out = m.buffer(BufferKind::Output, 4);
  m.output("names", kU8, {fixed(4)}, out);
  m.dispatch("names_u8", {out}, {n});
  Run run(m.bundle());
  REQUIRE(run.start({}) == TSR_OK);
  REQUIRE(run.run() == TSR_OK);
  CHECK(run.output<char>(0) == std::vector<char>{'z', 'o', 't', 't'});
}

TEST_CASE("workgroups run on threads, and the lowest failure is reported",
          "[loader]") {
  tsr::posix::ThreadPool pool(3);
  for (int64_t bad : {-1, 7}) {
    PlanMaker m;
    uint32_t n = m.prepare(ScalarOp::Constant, kNone, kNone, 100);
    uint32_t fail = m.prepare(ScalarOp::Constant, kNone, kNone, bad);
    uint32_t out = m.buffer(BufferKind::Output, 800);
    m.output("squares", kI64, {fixed(100)}, out);
    m.dispatch("squares_i64", {out}, {fail}, n);
    for (tsr::posix::ThreadPool *threads :
         {(tsr::posix::ThreadPool *)nullptr, &pool}) {
      Run run(m.bundle(), "", threads);
      REQUIRE(run.start({}) == TSR_OK);
      for (int repeat = 0; repeat < 20; ++repeat) {
        if (bad >= 0) {
          CHECK(run.run() == TSR_REFUSED);
          CHECK(contains(run.error.text,
                         "an operand's value that has no meaning"));
          continue;
        }
        REQUIRE(run.run() == TSR_OK);
        auto squares = run.output<int64_t>(0);
        for (int64_t i = 0; i < 100; ++i)
          CHECK(squares[i] == i * i);
      }
    }
  }
}

TEST_CASE("a run suspends until the growing pool is large enough", "[loader]") {
  // compact_f32 finds how many elements are positive; the result is copied to
  // a buffer of exactly that size.
  PlanMaker m;
  uint32_t n = m.prepare(ScalarOp::InputDim, 0, 0);
  uint32_t four = m.prepare(ScalarOp::Constant, kNone, kNone, 4);
  uint32_t bytes = m.prepare(ScalarOp::Mul, n, four);
  uint32_t x = m.buffer(BufferKind::Input, 0, bytes),
           t = m.buffer(BufferKind::Temporary, 0, bytes);
  uint32_t count = m.buffer(BufferKind::Temporary, 8),
           out = m.dynamic(BufferKind::Output);
  m.input("x", kF32, {open(n)}, x);
  m.dispatch("compact_f32", {x, t, count}, {n});
  uint32_t found = m.scalar(ScalarOp::LoadInt, count, kI64, 0);
  uint32_t size = m.scalar(ScalarOp::Mul, found, four);
  m.command({.kind = CommandKind::Allocate, .a = out, .b = size});
  m.command({.kind = CommandKind::Copy, .a = t, .b = out, .c = size});
  m.output("positives", kF32, {open(found)}, out);
  Run run(m.bundle());
  REQUIRE(run.start({{1000}}) == TSR_OK);
  std::vector<float> values(1000, -1.0f);
  values[3] = 5;
  run.fill(0, values);
  REQUIRE(run.run() == TSR_OK);
  CHECK(run.output<float>(0) == std::vector<float>{5});
  CHECK(run.shape == std::vector<int64_t>{1});
  CHECK(run.suspensions == 1);
  // A page is there now; more asks again.
  std::vector<float> many(1000, 2.0f);
  REQUIRE(run.prepare({{1000}}) == TSR_OK);
  run.fill(0, many);
  REQUIRE(run.run() == TSR_OK);
  CHECK(run.output<float>(0) == many);
  REQUIRE(run.prepare({{5}}) == TSR_OK);
  run.fill<float>(0, {-1, -2, -3, -4, -5});
  REQUIRE(run.run() == TSR_OK);
  CHECK(run.output<float>(0).empty());
}

TEST_CASE("a loop appends slices to a growing buffer", "[loader]") {
  // scan: for i in 0..trip: out = concat(out, x)
  PlanMaker m;
  uint32_t zero = m.prepare(ScalarOp::Constant, kNone, kNone, 0);
  uint32_t one = m.prepare(ScalarOp::Constant, kNone, kNone, 1);
  uint32_t four = m.prepare(ScalarOp::Constant, kNone, kNone, 4);
  uint32_t slice = m.prepare(ScalarOp::Constant, kNone, kNone, 16);
  uint32_t x = m.buffer(BufferKind::Input, 16),
           trips = m.buffer(BufferKind::Input, 8);
  uint32_t out = m.dynamic(BufferKind::Output), larger = m.dynamic();
  m.input("x", kF32, {fixed(4)}, x);
  m.input("trips", kI64, {}, trips);
  uint32_t limit = m.scalar(ScalarOp::LoadInt, trips, kI64, 0);
  uint32_t i = m.scalar(ScalarOp::Add, zero, zero),
           at = m.scalar(ScalarOp::Add, zero, zero);
  m.command({.kind = CommandKind::Allocate, .a = out, .b = zero});
  uint32_t head = m.plan.commands.size();
  uint32_t go = m.scalar(ScalarOp::Less, i, limit);
  uint32_t test = m.command({.kind = CommandKind::BranchZero, .a = go});
  uint32_t total = m.scalar(ScalarOp::Add, at, slice);
  m.command({.kind = CommandKind::Allocate, .a = larger, .b = total});
  m.command({.kind = CommandKind::Copy, .a = out, .b = larger, .c = at});
  m.command({.kind = CommandKind::Bind, .a = out, .b = larger});
  m.command({.kind = CommandKind::Copy, .a = x, .b = out, .c = slice, .d = at});
  m.scalar(ScalarOp::Add, total, zero, 0, at);
  m.scalar(ScalarOp::Add, i, one, 0, i);
  m.command({.kind = CommandKind::Jump, .a = head});
  m.plan.commands[test].b = m.plan.commands.size();
  uint32_t length = m.scalar(ScalarOp::Mul, i, four);
  m.output("all", kF32, {open(length)}, out);
  Run run(m.bundle());
  REQUIRE(run.start({{4}, {}}) == TSR_OK);
  for (int64_t count : {0, 1, 300, 3}) {
    run.fill<float>(0, {1, 2, 3, 4});
    run.fill<int64_t>(1, {count});
    INFO(run.error.text);
    REQUIRE(run.run() == TSR_OK);
    auto all = run.output<float>(0);
    REQUIRE(int64_t(all.size()) == 4 * count);
    for (size_t k = 0; k < all.size(); ++k)
      CHECK(all[k] == float(k % 4 + 1));
  }
  CHECK(run.suspensions > 0);
  // The old and the new buffer at most, not one for each iteration.
  CHECK(tsr_pool_bytes(run.instance, 1) <= 3 * 300 * 16);
}

TEST_CASE("planned buffers exchange places", "[loader]") {
  // Two rounds of (a, b) = (b, a + b).
  PlanMaker m;
  uint32_t n = m.prepare(ScalarOp::Constant, kNone, kNone, 1);
  uint32_t four = m.prepare(ScalarOp::Constant, kNone, kNone, 4);
  uint32_t x = m.buffer(BufferKind::Input, 4),
           a = m.buffer(BufferKind::Temporary, 4);
  uint32_t b = m.buffer(BufferKind::Temporary, 4),
           sum = m.buffer(BufferKind::Output, 4);
  m.input("x", kF32, {}, x);
  m.command({.kind = CommandKind::Copy, .a = x, .b = a, .c = four});
  m.command({.kind = CommandKind::Copy, .a = x, .b = b, .c = four});
  for (int round = 0; round < 2; ++round) {
    m.dispatch("add_f32", {a, b, sum}, {n});
    m.command({.kind = CommandKind::Bind, .a = a, .b = b});
    m.command({.kind = CommandKind::Bind, .a = b, .b = sum});
  }
  m.dispatch("add_f32", {a, b, sum}, {n});
  m.output("sum", kF32, {}, sum);
  Run run(m.bundle());
  REQUIRE(run.start({}) == TSR_OK);
  for (int repeat = 0; repeat < 3; ++repeat) {
    run.fill<float>(0, {1});
    REQUIRE(run.run() == TSR_OK);
    CHECK(run.output<float>(0) == std::vector<float>{5});
  }
}

TEST_CASE("checks, fills and stores", "[loader]") {
  PlanMaker m;
  uint32_t three = m.prepare(ScalarOp::Constant, kNone, kNone, 3);
  uint32_t x = m.buffer(BufferKind::Input, 8),
           out = m.buffer(BufferKind::Output, 8);
  m.input("x", kI64, {}, x);
  m.output("y", kU8, {fixed(8)}, out);
  uint32_t value = m.scalar(ScalarOp::LoadInt, x, kI64, 0);
  m.plan.strings.push_back("x must not be zero");
  m.command({.kind = CommandKind::Check, .a = value, .b = 0});
  uint32_t eight = m.scalar(ScalarOp::Constant, kNone, kNone, 8);
  m.command({.kind = CommandKind::Fill, .a = out, .b = 0xab, .c = eight});
  m.command(
      {.kind = CommandKind::StoreInt, .a = out, .b = three, .c = 2, .d = 4});
  Run run(m.bundle());
  REQUIRE(run.start({}) == TSR_OK);
  run.fill<int64_t>(0, {1});
  REQUIRE(run.run() == TSR_OK);
  CHECK(run.output<uint8_t>(0) ==
        std::vector<uint8_t>{0xab, 0xab, 0xab, 0xab, 3, 0, 0xab, 0xab});
  run.fill<int64_t>(0, {0});
  CHECK(run.run() == TSR_REFUSED);
  CHECK(contains(run.error.text, "x must not be zero"));
}

TEST_CASE("shape arithmetic rounds as documented and saturates", "[loader]") {
  struct Case {
    ScalarOp op;
    int64_t a, b, result;
  };
  const int64_t max = INT64_MAX, min = INT64_MIN;
  std::vector<Case> cases = {
      {ScalarOp::FloorDiv, -7, 2, -4}, {ScalarOp::FloorDiv, 7, -2, -4},
      {ScalarOp::FloorDiv, 7, 2, 3},   {ScalarOp::CeilDiv, 7, 2, 4},
      {ScalarOp::CeilDiv, -7, 2, -3},  {ScalarOp::CeilDiv, -7, -2, 4},
      {ScalarOp::TruncDiv, -7, 2, -3}, {ScalarOp::Mod, -7, 3, 2},
      {ScalarOp::Mod, 7, -3, -2},      {ScalarOp::Mod, 6, 3, 0},
      {ScalarOp::Min, -1, 1, -1},      {ScalarOp::Max, -1, 1, 1},
      {ScalarOp::Less, 1, 2, 1},       {ScalarOp::Equal, 1, 2, 0},
      {ScalarOp::Add, max, 1, max},    {ScalarOp::Sub, min, 1, min},
      {ScalarOp::Mul, max, -2, min},   {ScalarOp::TruncDiv, min, -1, max},
      {ScalarOp::Mod, min, -1, 0}};
  PlanMaker m;
  std::vector<uint32_t> results;
  for (const Case &c : cases) {
    uint32_t a = m.prepare(ScalarOp::Constant, kNone, kNone, c.a);
    uint32_t b = m.prepare(ScalarOp::Constant, kNone, kNone, c.b);
    results.push_back(m.prepare(c.op, a, b));
  }
  uint32_t out = m.buffer(BufferKind::Output, 8 * cases.size());
  m.output("y", kI64, {fixed(cases.size())}, out);
  for (size_t i = 0; i < cases.size(); ++i)
    m.command({.kind = CommandKind::StoreInt,
               .a = out,
               .b = results[i],
               .c = uint32_t(i),
               .d = 7});
  Run run(m.bundle());
  REQUIRE(run.start({}) == TSR_OK);
  REQUIRE(run.run() == TSR_OK);
  auto values = run.output<int64_t>(0);
  for (size_t i = 0; i < cases.size(); ++i) {
    INFO("case " << i);
    CHECK(values[i] == cases[i].result);
  }
}

TEST_CASE("two instances share a bundle on two threads", "[loader]") {
  Run run(dynamicShapePlan().bundle());
  REQUIRE(run.open() == TSR_OK);
  REQUIRE(run.load() == TSR_OK);
  auto work = [&](int64_t n, bool *good) {
    tsr::posix::Pages memory, arena;
    tsr_instance_t *instance = nullptr;
    tsr_error_t error = {};
    memory.resize(run.needs.instance_bytes);
    *good = tsr_instance_create(run.bundle, nullptr, memory.data(),
                                memory.size(), &instance, &error) == TSR_OK;
    tsr_shape_t shape = {&n, 1};
    *good &= tsr_prepare(instance, &shape, 1, &error) == TSR_OK;
    arena.resize(tsr_pool_bytes(instance, 0));
    *good &=
        tsr_set_pool(instance, 0, arena.data(), arena.size(), &error) == TSR_OK;
    for (int repeat = 0; repeat < 2000 && *good; ++repeat) {
      tsr_tensor_t x = {}, y = {};
      *good &= tsr_input(instance, 0, &x, &error) == TSR_OK;
      for (int64_t i = 0; i < n; ++i)
        static_cast<float *>(x.data)[i] = float(i + repeat);
      *good &= tsr_run(instance, &error) == TSR_OK &&
               tsr_output(instance, 0, &y, &error) == TSR_OK;
      for (int64_t i = 0; i < n && *good; ++i)
        *good &= static_cast<float *>(y.data)[i] == 3 * float(i + repeat);
    }
  };
  bool first = false, second = false;
  std::thread a(work, 64, &first), b(work, 10, &second);
  a.join();
  b.join();
  CHECK(first);
  CHECK(second);
}

TEST_CASE(
    "a variant that the machine cannot run is refused by the feature's name",
    "[loader]") {
  PlanMaker m = addPlan();
  m.plan.variants[0].features = {"avx2", "warp-drive"};
  std::string bytes = m.bundle();
  Run lacking(bytes, "avx avx2 fma");
  CHECK(lacking.open() == TSR_REFUSED);
  CHECK(lacking.error.code == TSR_ERROR_FEATURES);
  CHECK(contains(lacking.error.text, "not available: warp-drive"));
  CHECK(lacking.open(/*checkOnly=*/true) == TSR_OK);
  Run prefix(bytes, "avx2 warp-drive2");
  CHECK(prefix.open() == TSR_REFUSED);
  Run able(bytes, "warp-drive avx2");
  CHECK(able.open() == TSR_OK);
  // The first variant that runs is taken.
  m.plan.variants.push_back(m.plan.variants[0]);
  m.plan.variants[1].name = "plain";
  m.plan.variants[1].features = {"avx2"};
  Run fallback(m.bundle(), "avx2");
  REQUIRE(fallback.open() == TSR_OK);
  tsr_variant_info_t info = {};
  REQUIRE(tsr_variant_query(fallback.bundle, 1, &info) == TSR_OK);
  CHECK(info.chosen == 1);
  REQUIRE(tsr_variant_query(fallback.bundle, 0, &info) == TSR_OK);
  CHECK(info.runnable == 0);
  CHECK(std::string(info.missing) == "warp-drive");
}

TEST_CASE("calls in the wrong order are refused", "[loader]") {
  Run run(addPlan().bundle());
  REQUIRE(run.open() == TSR_OK);
  tsr_needs_t needs;
  tsr_bundle_needs(run.bundle, &needs);
  tsr::posix::Pages memory;
  memory.resize(needs.instance_bytes);
  tsr_instance_t *instance = nullptr;
  CHECK(tsr_instance_create(run.bundle, nullptr, memory.data(), memory.size(),
                            &instance, &run.error) == TSR_REFUSED);
  REQUIRE(run.load() == TSR_OK);
  CHECK(tsr_run(run.instance, &run.error) == TSR_REFUSED);
  tsr_tensor_t tensor;
  CHECK(tsr_input(run.instance, 0, &tensor, &run.error) == TSR_REFUSED);
  REQUIRE(tsr_prepare(run.instance, nullptr, 0, &run.error) == TSR_OK);
  CHECK(tsr_run(run.instance, &run.error) == TSR_REFUSED);
  CHECK(run.error.code == TSR_ERROR_MEMORY);
  CHECK(tsr_output(run.instance, 0, &tensor, &run.error) == TSR_REFUSED);
  char small[64];
  CHECK(tsr_set_pool(run.instance, 0, small, 8, &run.error) == TSR_REFUSED);
  CHECK(tsr_set_pool(run.instance, 9, small, 8, &run.error) == TSR_REFUSED);
}

TEST_CASE("parts of values have the types, ranks and neighbours of their kinds",
          "[loader]") {
  using Parts = std::vector<PlanTensor>;
  struct Case {
    const char *name, *part; ///< of the refusal
    void (*damage)(Parts &);
  };
  static constexpr auto dims = [](size_t n) {
    return std::vector<PlanDim>(n, fixed(1));
  };
  const char *shape = "type and rank of its kind";
  const char *extents = "the extents (kind 3) behind elements";
  const char *value = "the value of the optional behind it";
  const Case cases[] = {
      {"unknown", "a known kind", [](Parts &t) { t[7].kind = 6; }},
      {"strings of no int32", shape, [](Parts &t) { t[5].elementType = kI64; }},
      {"strings without an axis", shape, [](Parts &t) { t[5].dims = {}; }},
      {"elements of rank 2", shape, [](Parts &t) { t[1].dims = dims(2); }},
      {"elements of rank 0", shape, [](Parts &t) { t[1].dims = {}; }},
      {"elements of half bytes", shape, [](Parts &t) { t[1].elementType = 22; }},
      {"extents of no int64", shape, [](Parts &t) { t[2].elementType = kI32; }},
      {"extents of rank 1", shape, [](Parts &t) { t[2].dims = dims(1); }},
      {"extents of rank 3", shape, [](Parts &t) { t[2].dims = dims(3); }},
      {"present that is no bool", shape, [](Parts &t) { t[0].elementType = kU8; }},
      {"present of rank 1", shape, [](Parts &t) { t[0].dims = dims(1); }},
      {"string elements of no int32", shape, [](Parts &t) { t[3].elementType = kF32; }},
      {"string elements of rank 1", shape, [](Parts &t) { t[3].dims = dims(1); }},
      {"string elements of rank 3", shape, [](Parts &t) { t[3].dims = dims(3); }},
      {"elements, then strings", extents, [](Parts &t) { t.erase(t.begin() + 2); }},
      {"string elements, then strings", extents, [](Parts &t) { t.erase(t.begin() + 4); }},
      {"elements at the end", extents, [](Parts &t) { t[7].kind = 2; t[7].dims = dims(1); }},
      {"string elements at the end", extents, [](Parts &t) { t.resize(4); }},
      {"extents first", "before extents", [](Parts &t) { t.erase(t.begin(), t.begin() + 2); }},
      {"extents behind strings", "before extents", [](Parts &t) { std::swap(t[4], t[5]); std::swap(t[3], t[4]); t.erase(t.begin() + 4); }},
      {"extents twice", "before extents", [](Parts &t) { t.insert(t.begin() + 2, t[2]); }},
      {"present at the end", value, [](Parts &t) { t.pop_back(); }},
      {"present twice", value, [](Parts &t) { t.insert(t.begin(), t[0]); }},
      {"present before extents", value, [](Parts &t) { t.erase(t.begin() + 1); }},
  };
  for (const Case &c : cases)
    for (bool isInput : {true, false}) {
      PartsPlan m;
      c.damage(isInput ? m.plan.inputs : m.plan.outputs);
      Run run(m.bundle());
      INFO(c.name << (isInput ? " as input" : " as output"));
      CHECK(run.open() == TSR_REFUSED);
      INFO(run.error.text);
      CHECK(run.error.code == TSR_ERROR_STRUCTURE);
      CHECK(contains(run.error.text, c.part));
      CHECK(contains(run.error.field, isInput ? "input" : "output"));
    }
  Run good(PartsPlan().bundle());
  INFO(good.error.text);
  CHECK(good.start({}) == TSR_OK);
}

TEST_CASE("values that are no tensors need format version 2", "[loader]") {
  PlanMaker m = addPlan();
  CHECK(versionOf(m.bundle()) == 1);
  for (bool isInput : {true, false}) {
    PartsPlan parts;
    (isInput ? parts.plan.outputs : parts.plan.inputs).clear();
    std::string bytes = parts.bundle();
    CHECK(versionOf(bytes) == 2);
    bytes[format::kVersionAt] = 1;
    seal(bytes);
    Run old(bytes);
    CHECK(old.open() == TSR_REFUSED);
    CHECK(old.error.code == TSR_ERROR_STRUCTURE);
    CHECK(contains(old.error.text, "kind 0 in format version 1"));
  }
}

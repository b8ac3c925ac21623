// Lifetimes of loops' results: what a run needs, found by running small random
// plans step by step, must lie within what computeLifetimes says.
#include "compiler/Memory/PlanMemory.h"

#include <catch2/catch_test_macros.hpp>
#include <random>

using namespace tessera;

namespace {

/// A plan of dispatches and loops. A dispatch writes its last operand and reads the others.
class Program {
public:
  Program() { plan.pools = {{"arena", 0, 0, 64, false}, {"dynamic", 0, 0, 64, true}}; }

  uint32_t buffer(uint32_t aliasOf = kNone) {
    PlanBuffer b;
    b.sizeBytes = 64;
    b.aliasOf = aliasOf;
    plan.buffers.push_back(b);
    plan.constantOf.push_back(kNone);
    return plan.buffers.size() - 1;
  }
  uint32_t dispatch(std::vector<uint32_t> reads, uint32_t write) {
    PlanCommand c{.kind = CommandKind::Dispatch, .a = 0};
    c.b = plan.operands.size();
    reads.push_back(write);
    c.c = reads.size();
    plan.operands.insert(plan.operands.end(), reads.begin(), reads.end());
    plan.commands.push_back(c);
    return plan.commands.size() - 1;
  }
  /// A copy into a part of `to`.
  void append(uint32_t from, uint32_t to) { plan.commands.push_back({.kind = CommandKind::Copy, .a = from, .b = to}); }
  uint32_t openLoop() {
    plan.commands.push_back({.kind = CommandKind::BranchZero, .a = 0});
    return plan.commands.size() - 1;
  }
  void closeLoop(uint32_t head) {
    plan.commands.push_back({.kind = CommandKind::Jump, .a = head});
    plan.commands[head].b = plan.commands.size();
  }
  void output(uint32_t buffer) {
    PlanTensor t;
    t.buffer = buffer;
    plan.outputs.push_back(t);
  }
  std::pair<uint32_t, uint32_t> life(uint32_t b) const { return {plan.buffers[b].firstCommand, plan.buffers[b].lastCommand}; }

  Plan plan;
};

uint32_t rootOf(const Plan &plan, uint32_t b) {
  while (plan.buffers[b].aliasOf != kNone)
    b = plan.buffers[b].aliasOf;
  return b;
}

/// The commands in the order in which a run with `trips` iterations of every loop executes them.
std::vector<uint32_t> trace(const Plan &plan, unsigned trips) {
  std::vector<uint32_t> order;
  std::vector<unsigned> taken(plan.commands.size(), 0);
  for (uint32_t at = 0; at < plan.commands.size();) {
    order.push_back(at);
    const PlanCommand &c = plan.commands[at];
    if (c.kind == CommandKind::BranchZero && taken[at]++ == trips) {
      taken[at] = 0;
      at = c.b;
    } else {
      at = c.kind == CommandKind::Jump ? c.a : at + 1;
    }
  }
  return order;
}

/// Whether every byte that is read is still there: between a write and a read of it no command
/// may run that is outside of the buffer's lifetime.
bool isKept(const Plan &plan, unsigned trips) {
  std::vector<uint32_t> order = trace(plan, trips);
  std::vector<int64_t> written(plan.buffers.size(), -1); // moment of the oldest write that still shows
  auto keeps = [&](uint32_t b, int64_t until, uint32_t reader) {
    const PlanBuffer &root = plan.buffers[b];
    if (written[b] < 0)
      return true;
    for (int64_t t = written[b]; t < until; ++t)
      if (order[t] < root.firstCommand || order[t] > root.lastCommand)
        return false;
    return reader >= root.firstCommand && reader <= root.lastCommand;
  };
  for (int64_t t = 0; t < int64_t(order.size()); ++t) {
    const PlanCommand &c = plan.commands[order[t]];
    if (c.kind == CommandKind::Copy) {
      if (!keeps(rootOf(plan, c.a), t, order[t]))
        return false;
      uint32_t to = rootOf(plan, c.b);
      if (written[to] < 0)
        written[to] = t; // what was appended before stays
    } else if (c.kind == CommandKind::Dispatch) {
      for (uint32_t i = 0; i + 1 < c.c; ++i)
        if (!keeps(rootOf(plan, plan.operands[c.b + i]), t, order[t]))
          return false;
      written[rootOf(plan, plan.operands[c.b + c.c - 1])] = t;
    }
  }
  for (const PlanTensor &o : plan.outputs)
    if (!keeps(rootOf(plan, o.buffer), order.size(), plan.commands.size()))
      return false;
  return true;
}

/// Random nests of loops over buffers that are written before they are read.
class RandomProgram : public Program {
public:
  explicit RandomProgram(unsigned seed) : random(seed) {
    for (int i = 0; i < 3; ++i) {
      known.push_back(buffer());
      dispatch({}, known.back());
    }
    body(3);
    for (uint32_t b : known)
      if (random() % 3 == 0)
        output(b);
  }

private:
  uint32_t any() { return known[random() % known.size()]; }
  void body(int depth) {
    for (int n = 2 + random() % 4; n--;) {
      switch (random() % (depth ? 5 : 3)) {
      case 0:
        dispatch({any(), any()}, any());
        break;
      case 1: {
        uint32_t fresh = buffer(random() % 4 ? kNone : any());
        dispatch({any()}, fresh);
        known.push_back(fresh);
        break;
      }
      case 2:
        append(any(), any());
        break;
      default: {
        size_t before = known.size();
        uint32_t head = openLoop();
        body(depth - 1);
        closeLoop(head);
        // Most of what a body makes is unknown outside: the loop may not have run.
        for (size_t k = known.size(); k-- > before;)
          if (random() % 2)
            known.erase(known.begin() + k);
        break;
      }
      }
    }
  }
  std::mt19937 random;
  std::vector<uint32_t> known;
};

} // namespace

TEST_CASE("an output written in the last loop lives through it and beyond the last command", "[memory]") {
  Program p;
  uint32_t in = p.buffer(), step = p.buffer(), out = p.buffer();
  p.dispatch({}, in);           // 0
  uint32_t head = p.openLoop(); // 1
  p.dispatch({in}, step);       // 2
  p.append(step, out);          // 3
  p.closeLoop(head);            // 4
  p.output(out);
  computeLifetimes(p.plan);
  CHECK(p.life(out) == std::pair(1u, 5u));
  CHECK(p.life(in) == std::pair(0u, 4u));
  CHECK(p.life(step) == std::pair(2u, 3u));
}

TEST_CASE("a result of the inner loop lives through the outer one when the host reads it", "[memory]") {
  Program p;
  uint32_t in = p.buffer(), out = p.buffer(), between = p.buffer();
  p.dispatch({}, in);            // 0
  uint32_t outer = p.openLoop(); // 1
  p.dispatch({in}, between);     // 2
  uint32_t inner = p.openLoop(); // 3
  p.append(between, out);        // 4
  p.closeLoop(inner);            // 5
  p.closeLoop(outer);            // 6
  p.output(out);
  computeLifetimes(p.plan);
  CHECK(p.life(out) == std::pair(1u, 7u));
  CHECK(p.life(between) == std::pair(2u, 5u)); // read in every iteration of the inner loop
}

TEST_CASE("an output that is an alias keeps its storage", "[memory]") {
  Program p;
  uint32_t out = p.buffer(), view = p.buffer(out), other = p.buffer();
  uint32_t head = p.openLoop(); // 0
  p.dispatch({}, out);          // 1
  p.closeLoop(head);            // 2
  p.dispatch({}, other);        // 3
  p.output(view);
  computeLifetimes(p.plan);
  CHECK(p.life(out) == std::pair(0u, 4u));
  CHECK(p.life(other) == std::pair(3u, 3u));
}

TEST_CASE("buffers that a loop exchanges live equally long", "[memory]") {
  Program p;
  uint32_t state = p.buffer(), next = p.buffer();
  p.dispatch({}, state);        // 0
  uint32_t head = p.openLoop(); // 1
  p.dispatch({state}, next);    // 2
  p.plan.commands.push_back({.kind = CommandKind::Bind, .a = state, .b = next}); // 3
  p.closeLoop(head);            // 4
  p.output(state);
  computeLifetimes(p.plan);
  CHECK(p.life(state) == std::pair(0u, 5u));
  CHECK(p.life(next) == std::pair(0u, 5u));
}

TEST_CASE("what a run reads is still there, in random nests of loops", "[memory]") {
  for (unsigned seed = 0; seed < 2000; ++seed) {
    RandomProgram p(seed);
    computeLifetimes(p.plan);
    INFO("seed " << seed);
    for (unsigned trips = 0; trips <= 3; ++trips)
      REQUIRE(isKept(p.plan, trips));
  }
}

TEST_CASE("the judge of lifetimes sees one that ends too early", "[memory]") {
  Program p;
  uint32_t in = p.buffer(), step = p.buffer();
  p.dispatch({}, in);
  uint32_t head = p.openLoop();
  p.dispatch({in}, step);
  p.closeLoop(head);
  computeLifetimes(p.plan);
  CHECK(isKept(p.plan, 2));
  p.plan.buffers[in].lastCommand = 2;
  CHECK_FALSE(isKept(p.plan, 2));
}

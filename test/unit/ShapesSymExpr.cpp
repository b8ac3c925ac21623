// Folding of symbolic integers: equal expressions are one pointer, and folding
// never changes a value.
#include "dialects/Onnx/Shapes/SymExpr.h"

#include "mlir/IR/Block.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/MLIRContext.h"
#include <catch2/catch_test_macros.hpp>
#include <random>

using namespace tessera::onnx;

namespace {

// Leaves are dimensions of the arguments of one block.
struct Fixture {
  mlir::MLIRContext mlir;
  mlir::Block block;
  SymContext ctx;
  Sym n, m, k;
  Fixture() {
    mlir::Builder b(&mlir);
    auto type = mlir::RankedTensorType::get({mlir::ShapedType::kDynamic}, b.getF32Type());
    for (int i = 0; i < 4; ++i)
      block.addArgument(type, b.getUnknownLoc());
    n = ctx.leaf(SymKind::InputDim, block.getArgument(0), 0);
    m = ctx.leaf(SymKind::InputDim, block.getArgument(1), 0);
    k = ctx.leaf(SymKind::InputDim, block.getArgument(2), 0);
  }
  Sym c(int64_t v) { return ctx.constant(v); }
  Sym data(int64_t i) { return ctx.leaf(SymKind::Data, block.getArgument(3), i); }
};

} // namespace

TEST_CASE_METHOD(Fixture, "sums and products have one form", "[shapes]") {
  CHECK(ctx.add(n, n) == ctx.mul(n, c(2)));
  CHECK(ctx.add(ctx.add(n, m), k) == ctx.add(k, ctx.add(m, n)));
  CHECK(ctx.sub(ctx.add(n, m), n) == m);
  CHECK(ctx.sub(n, n) == c(0));
  CHECK(ctx.mul(ctx.add(n, c(1)), m) == ctx.add(ctx.mul(m, n), m));
  CHECK(ctx.mul(n, c(0)) == c(0));
  CHECK(ctx.product({n, c(3), m, c(4)}) == ctx.product({c(12), m, n}));
  CHECK(toString(ctx.sub(ctx.mul(n, c(2)), c(3))) == "%arg0[0]*2 - 3");
}

TEST_CASE_METHOD(Fixture, "exact quotients cancel", "[shapes]") {
  Sym total = ctx.product({n, m, c(64)});
  CHECK(ctx.floorDiv(total, ctx.mul(m, c(16))) == ctx.mul(n, c(4)));
  Sym odd = ctx.product({ctx.add(n, c(1)), m, ctx.add(n, m)});
  CHECK(ctx.floorDiv(odd, ctx.mul(m, ctx.add(n, m))) == ctx.add(n, c(1)));
  CHECK(ctx.mod(ctx.mul(n, c(6)), c(3)) == c(0));
  CHECK(ctx.ceilDiv(ctx.mul(n, m), n) == m);
}

TEST_CASE_METHOD(Fixture, "chains of strided windows fold", "[shapes]") {
  // Two windows of stride 2 are one of stride 4.
  auto window = [&](Sym x) { return ctx.add(ctx.floorDiv(ctx.sub(x, c(1)), c(2)), c(1)); };
  CHECK(window(window(n)) == ctx.add(ctx.floorDiv(ctx.sub(n, c(1)), c(4)), c(1)));
  CHECK(ctx.floorDiv(ctx.add(ctx.mul(n, c(2)), c(5)), c(2)) == ctx.add(n, c(2)));
  CHECK(ctx.floorDiv(ctx.add(ctx.mul(n, c(4)), c(3)), c(6)) ==
        ctx.floorDiv(ctx.add(ctx.mul(n, c(2)), c(1)), c(3)));
}

TEST_CASE_METHOD(Fixture, "bounds decide comparisons", "[shapes]") {
  CHECK(ctx.max(n, c(0)) == n);
  CHECK(ctx.min(n, ctx.add(n, m)) == n);
  CHECK(ctx.min(n, c(INT64_MAX)) == n);
  CHECK(ctx.min(ctx.max(ctx.sub(n, c(1)), c(0)), n) == ctx.max(ctx.sub(n, c(1)), c(0)));
  CHECK(ctx.less(n, c(0)) == c(0));
  CHECK(ctx.less(n, ctx.add(n, c(1))) == c(1));
  CHECK(ctx.equal(n, ctx.add(n, c(1))) == c(0));
  CHECK(ctx.equal(n, m) == ctx.equal(m, n));
  CHECK(ctx.equal(n, c(-1)) == c(0));
  CHECK(ctx.max(ctx.max(n, m), k) == ctx.max(k, ctx.max(m, n)));
}

TEST_CASE_METHOD(Fixture, "selections fold where both ways agree", "[shapes]") {
  Sym isOne = ctx.equal(n, c(1));
  CHECK(ctx.select(isOne, m, m) == m);
  CHECK(ctx.select(ctx.equal(n, m), n, m) == m);
  CHECK(ctx.select(isOne, c(1), c(0)) == isOne);
  CHECK(ctx.equal(ctx.select(isOne, c(-1), m), c(-1)) == isOne);
  CHECK(ctx.logicalNot(ctx.logicalNot(isOne)) == isOne);
  CHECK(ctx.select(ctx.equal(n, c(0)), ctx.mul(n, c(4)), n) == n);
  CHECK(ctx.select(isOne, m, ctx.mul(n, m)) == ctx.mul(n, m));
  CHECK(ctx.select(isOne, m, n) != n);
}

TEST_CASE_METHOD(Fixture, "overflow and division by zero are kept for run time", "[shapes]") {
  Sym big = c(INT64_MAX);
  Sym sum = ctx.add(big, c(1));
  CHECK(!sum->isConstant());
  Sym quotient = ctx.floorDiv(c(1), c(0));
  CHECK(!quotient->isConstant());
  SymEvaluator eval([](Sym) { return std::nullopt; });
  CHECK(!eval(sum));
  CHECK(!eval(quotient));
  CHECK(eval(c(7)) == 7);
}

TEST_CASE_METHOD(Fixture, "folding keeps values", "[shapes]") {
  std::mt19937 random(1);
  auto pick = [&](int lo, int hi) { return int(lo + random() % unsigned(hi - lo + 1)); };
  for (int round = 0; round < 4000; ++round) {
    int64_t values[] = {pick(0, 6), pick(0, 6), pick(1, 9), pick(-5, 5)};
    struct Pair {
      Sym s;
      std::optional<int64_t> v;
    };
    std::vector<Pair> pool = {{n, values[0]}, {m, values[1]}, {k, values[2]}, {data(0), values[3]}};
    for (int i = 0; i < 3; ++i) {
      int64_t v = pick(-3, 4);
      pool.push_back({c(v), v});
    }
    SymEvaluator eval([&](Sym leaf) -> std::optional<int64_t> {
      return values[mlir::cast<mlir::BlockArgument>(leaf->value).getArgNumber()];
    });
    for (int step = 0; step < 10; ++step) {
      Pair a = pool[pick(0, pool.size() - 1)], b = pool[pick(0, pool.size() - 1)],
           d = pool[pick(0, pool.size() - 1)];
      static const SymKind kinds[] = {SymKind::Add, SymKind::Sub, SymKind::Mul, SymKind::FloorDiv,
                                      SymKind::CeilDiv, SymKind::TruncDiv, SymKind::Mod,
                                      SymKind::Min, SymKind::Max, SymKind::Equal, SymKind::Less,
                                      SymKind::Select};
      SymKind kind = kinds[pick(0, 11)];
      Pair r;
      switch (kind) {
      case SymKind::Add: r.s = ctx.add(a.s, b.s); break;
      case SymKind::Sub: r.s = ctx.sub(a.s, b.s); break;
      case SymKind::Mul: r.s = ctx.mul(a.s, b.s); break;
      case SymKind::FloorDiv: r.s = ctx.floorDiv(a.s, b.s); break;
      case SymKind::CeilDiv: r.s = ctx.ceilDiv(a.s, b.s); break;
      case SymKind::TruncDiv: r.s = ctx.truncDiv(a.s, b.s); break;
      case SymKind::Mod: r.s = ctx.mod(a.s, b.s); break;
      case SymKind::Min: r.s = ctx.min(a.s, b.s); break;
      case SymKind::Max: r.s = ctx.max(a.s, b.s); break;
      case SymKind::Equal: r.s = ctx.equal(a.s, b.s); break;
      case SymKind::Less: r.s = ctx.less(a.s, b.s); break;
      default: r.s = ctx.select(a.s, b.s, d.s); break;
      }
      if (kind == SymKind::Select) {
        if (a.v)
          r.v = *a.v ? b.v : d.v;
      } else if (a.v && b.v)
        r.v = applySym(kind, {*a.v, *b.v});
      // Only a defined value must be kept: 0 * (1 / 0) may fold to 0.
      if (!r.v)
        continue;
      REQUIRE(eval(r.s) == r.v);
      if (r.s->lower)
        REQUIRE(*r.s->lower <= *r.v);
      if (r.s->upper)
        REQUIRE(*r.s->upper >= *r.v);
      pool.push_back(r);
    }
  }
}

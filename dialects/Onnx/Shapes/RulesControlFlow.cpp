// Shapes of If, Loop and Scan.
//
// A carried value keeps the dimensions that its body returns unchanged. Which
// ones those are is found by assuming all, analysing the body, and giving up
// those that differ: at most one round more than there are carried dimensions.
#include "dialects/Onnx/Shapes/ShapeRules.h"

using namespace mlir;
using namespace tessera::onnx;

static Block *bodyOf(OpShapes &s, unsigned index) {
  if (index >= s.op->getNumRegions() || s.op->getRegion(index).empty())
    s.contradict(describe(s.op) + " has no body");
  return &s.op->getRegion(index).front();
}

//===----------------------------------------------------------------------===//
// If
//===----------------------------------------------------------------------===//

// Requirements of a branch hold only when it is taken.
static void guard(OpShapes &s, size_t first, Sym taken) {
  auto &all = s.engine.requirements;
  for (size_t i = first; i < all.size(); ++i)
    all[i].condition = s.ctx.logicalOr(all[i].condition, s.ctx.logicalNot(taken));
  llvm::erase_if(all, [](const ShapeRequirement &r) { return r.condition->isConstant(1); });
}

TESSERA_SHAPE_RULE(If) {
  const Contents *known = s.engine.findContents(s.in(0), true);
  Sym cond = known && known->size() == 1 ? known->front().num : nullptr;
  if (cond && !(cond->upper && *cond->upper <= 1))
    cond = s.ctx.logicalNot(s.ctx.equal(cond, s.c(0)));
  Block *branches[] = {bodyOf(s, 0), bodyOf(s, 1)}; // then, else
  for (unsigned b : {0u, 1u}) {
    auto before = s.engine.mark();
    s.engine.analyseBlock(*branches[b]);
    if (!cond)
      continue;
    Sym taken = b == 0 ? cond : s.ctx.logicalNot(cond);
    if (taken->isConstant(0))
      s.engine.rollback(before); // never runs: its faults do not matter
    else if (!taken->isConstant())
      guard(s, before.requirements, taken);
  }
  for (auto [i, result] : llvm::enumerate(s.op->getResults())) {
    if (!isa<TensorType>(result.getType()))
      continue;
    Value yielded[] = {branches[0]->getTerminator()->getOperand(i),
                       branches[1]->getTerminator()->getOperand(i)};
    auto outside = [&](Sym d, int64_t axis) {
      return s.engine.availableAt(d, s.op) ? d : s.extent(i, axis, d->upper);
    };
    if (cond && cond->isConstant()) {
      auto d = s.engine.findDims(yielded[cond->imm ? 0 : 1]);
      if (!d)
        continue;
      SymDims out;
      for (auto [axis, x] : llvm::enumerate(*d))
        out.push_back(outside(x, axis));
      s.engine.setDims(result, out);
      continue;
    }
    auto a = s.engine.findDims(yielded[0]), b = s.engine.findDims(yielded[1]);
    if (!a || !b)
      continue;
    if (a->size() != b->size())
      s.contradict("output " + Twine(i) + " of " + describe(s.op) + " has " + Twine(a->size()) +
                   " dimensions in one branch and " + Twine(b->size()) +
                   " in the other, and the condition is not known");
    SymDims out;
    for (size_t axis = 0; axis < a->size(); ++axis) {
      Sym x = (*a)[axis], y = (*b)[axis];
      if (x == y && s.engine.availableAt(x, s.op))
        out.push_back(x);
      else if (cond && s.engine.availableAt(x, s.op) && s.engine.availableAt(y, s.op))
        out.push_back(s.ctx.select(cond, x, y));
      else
        out.push_back(s.extent(i, axis));
    }
    s.engine.setDims(result, out);
  }
}

TESSERA_CONTENTS_RULE(If) {
  const Contents *known = s.engine.findContents(s.in(0), false);
  if (!known || known->size() != 1 || !known->front().num->isConstant())
    s.unknown("the condition is not constant");
  Block *branch = bodyOf(s, known->front().num->imm ? 0 : 1);
  const Contents *c = s.engine.findContents(branch->getTerminator()->getOperand(result), false);
  if (!c)
    s.unknown("the branch's result is not known");
  for (const Element &e : *c)
    if (!s.engine.availableAt(e.num, s.op) || (e.den && !s.engine.availableAt(e.den, s.op)))
      s.unknown("the branch's result is not known outside");
  return *c;
}

//===----------------------------------------------------------------------===//
// Loop and Scan
//===----------------------------------------------------------------------===//

namespace {

// A value that goes round: `initial` outside, `argument` and `yielded` in the body.
struct Carried {
  Value initial, argument, yielded, result;
  SmallVector<bool> varies;
};

} // namespace

// Analyses `body` until the carried dimensions are stable. `bindOthers` sets
// the dimensions of the other arguments, anew for each round.
static void analyseCarried(OpShapes &s, Block *body, MutableArrayRef<Carried> carried,
                           function_ref<void()> bindOthers) {
  for (;;) {
    auto before = s.engine.mark();
    s.engine.forget(*body->getParent());
    bindOthers();
    for (Carried &c : carried) {
      auto initial = s.engine.findDims(c.initial);
      if (!initial) {
        Unknown why = s.engine.whyUnknown(c.initial);
        if (!s.engine.setDeclaredDims(c.argument, SymKind::BlockDim))
          s.engine.setUnknown(c.argument, why);
        continue;
      }
      c.varies.resize(initial->size(), false);
      SymDims dims(*initial);
      for (auto [axis, d] : llvm::enumerate(dims))
        if (c.varies[axis])
          d = s.ctx.leaf(SymKind::BlockDim, c.argument, axis, 0);
      s.engine.setDims(c.argument, dims);
    }
    s.engine.analyseBlock(*body);

    bool changed = false;
    for (auto [number, c] : llvm::enumerate(carried)) {
      auto in = s.engine.findDims(c.argument), out = s.engine.findDims(c.yielded);
      if (!in || !s.engine.findDims(c.initial))
        continue;
      if (!out) {
        for (size_t axis = 0; axis < c.varies.size(); ++axis) {
          changed |= !c.varies[axis];
          c.varies[axis] = true;
        }
        continue;
      }
      if (in->size() != out->size())
        s.contradict("carried value " + Twine(number) + " of " + describe(s.op) + " enters with " +
                     Twine(in->size()) + " dimensions and leaves with " + Twine(out->size()));
      for (auto [axis, pair] : llvm::enumerate(llvm::zip(*in, *out)))
        if (std::get<0>(pair) != std::get<1>(pair) && !c.varies[axis])
          changed = c.varies[axis] = true;
    }
    if (!changed)
      break;
    s.engine.rollback(before);
  }
  for (Carried &c : carried) {
    auto initial = s.engine.findDims(c.initial);
    if (!initial || !c.result)
      continue;
    SymDims out(*initial);
    for (auto [axis, d] : llvm::enumerate(out))
      if (c.varies[axis])
        d = s.ctx.leaf(SymKind::Extent, c.result, axis, 0);
    s.engine.setDims(c.result, out);
  }
}

// `yielded` once a round, stacked along a new axis.
static void setStacked(OpShapes &s, Value result, Value yielded, int64_t axis, Sym rounds) {
  auto d = s.engine.findDims(yielded);
  if (!d)
    return;
  SymDims out;
  for (Sym x : *d)
    out.push_back(x);
  if (axis < 0)
    axis += out.size() + 1;
  if (axis < 0 || axis > static_cast<int64_t>(out.size()))
    s.contradict("a scan axis of " + describe(s.op) + " is out of range");
  out.insert(out.begin() + axis, rounds);
  for (auto [i, x] : llvm::enumerate(out))
    if (!x || !s.engine.availableAt(x, s.op))
      x = s.ctx.leaf(SymKind::Extent, result, i, 0);
  s.engine.setDims(result, out);
}

static bool alwaysTrue(OpShapes &s, Value cond) {
  if (!cond)
    return true;
  const Contents *known = s.engine.findContents(cond, false);
  return known && known->size() == 1 && known->front().num->isConstant() &&
         known->front().num->imm != 0;
}

TESSERA_SHAPE_RULE(Loop) {
  Block *body = bodyOf(s, 0);
  Operation *yield = body->getTerminator();
  unsigned n = body->getNumArguments() < 2 ? 0 : body->getNumArguments() - 2;
  if (body->getNumArguments() < 2 || yield->getNumOperands() < n + 1 ||
      s.op->getNumResults() + 1 != yield->getNumOperands())
    s.contradict("the body of " + describe(s.op) + " does not fit its inputs and outputs");
  SmallVector<Carried> carried;
  for (unsigned i = 0; i < n; ++i) {
    Value initial = s.in(2 + i);
    if (!initial)
      s.contradict("carried value " + Twine(i) + " of " + describe(s.op) + " has no initial value");
    carried.push_back({initial, body->getArgument(2 + i), yield->getOperand(1 + i),
                       s.op->getResult(i), {}});
  }
  Value iteration = body->getArgument(0), condition = body->getArgument(1);
  analyseCarried(s, body, carried, [&] {
    for (Value v : {iteration, condition})
      if (!s.engine.setDeclaredDims(v, SymKind::BlockDim))
        s.engine.setDims(v, {});
    if (s.engine.findDims(iteration)->empty())
      s.engine.setContents(iteration, {Element{s.ctx.leaf(SymKind::Data, iteration, 0, 0)}});
  });
  // All trips are made if nothing can end the loop early.
  Sym rounds = nullptr;
  Value next = yield->getOperand(0);
  Operation *pass = next.getDefiningOp();
  if (pass && pass->getName().getStringRef() == "onnx.Identity")
    next = pass->getOperand(0);
  if (s.in(0) && alwaysTrue(s, s.in(1)) && (next == condition || alwaysTrue(s, next)))
    if (const Contents *trips = s.engine.findContents(s.in(0), true); trips && trips->size() == 1)
      rounds = s.ctx.max(trips->front().num, s.c(0));
  for (unsigned i = n; i < s.op->getNumResults(); ++i)
    setStacked(s, s.op->getResult(i), yield->getOperand(1 + i), 0, rounds);
}

TESSERA_SHAPE_RULE(Scan) {
  Block *body = bodyOf(s, 0);
  Operation *yield = body->getTerminator();
  unsigned scanned = s.getInt("num_scan_inputs"), total = s.numInputs();
  if (scanned > total || body->getNumArguments() != total ||
      yield->getNumOperands() != s.op->getNumResults() || scanned == 0)
    s.contradict("the body of " + describe(s.op) + " does not fit its inputs and outputs");
  unsigned states = total - scanned;
  SmallVector<int64_t> inAxes = s.getInts("scan_input_axes"), outAxes = s.getInts("scan_output_axes");
  inAxes.resize(scanned, 0);
  outAxes.resize(s.op->getNumResults() - states, 0);
  SmallVector<Carried> carried;
  for (unsigned i = 0; i < states; ++i)
    carried.push_back({s.in(i), body->getArgument(i), yield->getOperand(i), s.op->getResult(i), {}});
  Sym rounds = nullptr;
  SmallVector<SymDims> slices;
  for (unsigned i = 0; i < scanned; ++i) {
    SymDims d(s.dims(states + i));
    int64_t axis = s.normaliseAxis(inAxes[i], d.size());
    rounds = rounds ? s.unify(rounds, d[axis], "lengths of the scanned inputs") : d[axis];
    d.erase(d.begin() + axis);
    slices.push_back(d);
  }
  analyseCarried(s, body, carried, [&] {
    for (unsigned i = 0; i < scanned; ++i)
      s.engine.setDims(body->getArgument(states + i), slices[i]);
  });
  for (unsigned i = states; i < s.op->getNumResults(); ++i)
    setStacked(s, s.op->getResult(i), yield->getOperand(i), outAxes[i - states], rounds);
}

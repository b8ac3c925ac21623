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

// A requirement of a branch holds only when it is taken.
static void guard(OpShapes &s, size_t index, Sym taken) {
  Sym condition = s.engine.requirements[index].condition;
  s.engine.replaceCondition(index, s.ctx.logicalOr(condition, s.ctx.logicalNot(taken)));
}

// Whether a condition is decided by the shapes of the inputs.
static bool byInputDims(Sym cond) {
  bool all = true;
  forEachLeaf(cond, [&](Sym leaf) { all &= leaf->kind == SymKind::InputDim; });
  return all;
}

// Results of an If of which one branch counts are that branch's.
static void adopt(OpShapes &s, Block *branch) {
  for (auto [i, result] : llvm::enumerate(s.op->getResults())) {
    Value yielded = branch->getTerminator()->getOperand(i);
    if (auto d = s.engine.findDims(yielded))
      s.engine.setDims(result, *d);
    else
      s.engine.setUnknown(result, s.engine.whyUnknown(yielded));
  }
}

TESSERA_SHAPE_RULE(If) {
  s.engine.unresolve(s.op);
  const Contents *known = s.engine.findContents(s.in(0), true);
  Sym cond = known && known->size() == 1 ? known->front().num : nullptr;
  if (cond && !(cond->upper && *cond->upper <= 1))
    cond = s.ctx.logicalNot(s.ctx.equal(cond, s.c(0)));
  Block *branches[] = {bodyOf(s, 0), bodyOf(s, 1)}; // then, else
  if (branches[0]->getTerminator()->getNumOperands() != s.op->getNumResults() ||
      branches[1]->getTerminator()->getNumOperands() != s.op->getNumResults())
    s.contradict("the branches of " + describe(s.op) + " do not fit its outputs");
  ShapeEngine::Mark marks[3];
  for (unsigned b : {0u, 1u}) {
    marks[b] = s.engine.mark();
    s.engine.analyseBlock(*branches[b]);
    if (cond && cond->isConstant((b == 0 ? 0 : 1)))
      s.engine.rollback(marks[b]); // never runs: its faults do not matter
  }
  marks[2] = s.engine.mark();
  if (cond && cond->isConstant()) {
    s.engine.resolve(s.op, cond->imm != 0);
    adopt(s, branches[cond->imm ? 0 : 1]);
    return;
  }
  auto dimsOf = [&](unsigned b, unsigned i) {
    return s.engine.findDims(branches[b]->getTerminator()->getOperand(i));
  };

  std::optional<unsigned> differs;
  for (auto [i, result] : llvm::enumerate(s.op->getResults()))
    if (auto a = dimsOf(0, i), b = dimsOf(1, i); a && b && a->size() != b->size() && !differs)
      differs = i;
  bool failed = marks[2].errors != marks[0].errors;
  if (cond && byInputDims(cond) && (differs || failed)) {
    bool taken = s.engine.choose(s.op);
    s.engine.keepOnly(marks[0], marks[taken ? 0 : 1], marks[taken ? 1 : 2]);
    Sym holds = taken ? cond : s.ctx.logicalNot(cond);
    s.engine.resolve(s.op, taken);
    adopt(s, branches[taken ? 0 : 1]);
    s.require(holds, Twine("the condition of ") + describe(s.op) + " must be " +
                         (taken ? "true" : "false") + ", only that branch is compiled: " +
                         toString(holds));
    return;
  }
  if (cond)
    for (size_t i = marks[0].requirements; i < marks[2].requirements; ++i)
      guard(s, i, i < marks[1].requirements ? cond : s.ctx.logicalNot(cond));
  if (differs)
    s.contradict("output " + Twine(*differs) + " of " + describe(s.op) + " has " +
                 Twine(dimsOf(0, *differs)->size()) + " dimensions in one branch and " +
                 Twine(dimsOf(1, *differs)->size()) +
                 " in the other, and the condition is not known");
  for (auto [i, result] : llvm::enumerate(s.op->getResults())) {
    auto a = dimsOf(0, i), b = dimsOf(1, i);
    if (!a || !b)
      continue;
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
  auto taken = s.engine.branchOf(s.op);
  if (!taken)
    s.unknown("the condition is not known");
  Value yielded = bodyOf(s, *taken ? 0 : 1)->getTerminator()->getOperand(result);
  return s.contents(yielded);
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

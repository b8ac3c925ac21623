// Shapes of the operators of ONNX's math category, and what they do to the
// contents of small tensors.
#include "dialects/Onnx/Shapes/ShapeContents.h"

#include <map>

using namespace mlir;
using namespace tessera::onnx;

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

TESSERA_SHAPE_RULES(SameAsInput, "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil",
                    "Celu", "Clip", "Cos", "Cosh", "CumProd", "CumSum", "Elu", "Erf", "Exp",
                    "Floor", "Gelu", "HardSigmoid", "HardSwish", "Hardmax", "LeakyRelu", "Log",
                    "LogSoftmax", "Mish", "Neg", "PRelu", "Reciprocal", "Relu", "Round", "Selu",
                    "Sigmoid", "Sign", "Sin", "Sinh", "Softmax", "Softplus", "Softsign", "Sqrt",
                    "Swish", "Tan", "Tanh", "ThresholdedRelu") {
  s.set(0, s.dims(0));
}

TESSERA_SHAPE_RULES(Broadcasting, "Add", "Div", "Max", "Mean", "Min", "Mod", "Mul", "Pow", "Sub",
                    "Sum") {
  s.set(0, s.broadcastOperands());
}

TESSERA_SHAPE_RULE(SwiGLU) {
  SymDims out(s.dims(0));
  s.expectRank(1, out.size());
  for (auto [d, other] : llvm::zip(out, s.dims(1)))
    d = s.unify(d, other, "dimensions");
  s.set(0, out);
}

TESSERA_SHAPE_OPERANDS(Cumulative, 0, 1u << 1, "CumSum", "CumProd");
TESSERA_SHAPE_OPERANDS(ClipBounds, 0, 1u << 1 | 1u << 2, "Clip");

//===----------------------------------------------------------------------===//
// Contents
//===----------------------------------------------------------------------===//

TESSERA_CONTENTS_RULES(Addition, "Add", "Sum") {
  return mapBroadcast(s, [&](ArrayRef<Element> e) {
    Element sum = e[0];
    for (Element x : e.drop_front())
      sum = addElements(s.ctx, sum, x);
    return sum;
  });
}
TESSERA_CONTENTS_RULE(Sub) {
  return mapBroadcast(s, [&](ArrayRef<Element> e) { return subElements(s.ctx, e[0], e[1]); });
}
TESSERA_CONTENTS_RULE(Mul) {
  return mapBroadcast(s, [&](ArrayRef<Element> e) { return mulElements(s.ctx, e[0], e[1]); });
}
TESSERA_CONTENTS_RULE(Div) {
  bool integer = isIntegerTensor(s.in(0));
  return mapBroadcast(s, [&](ArrayRef<Element> e) -> Element {
    if (!integer)
      return divElements(s.ctx, e[0], e[1]);
    if (e[1].num->isConstant(0))
      s.unknown("a division by zero");
    return {s.ctx.truncDiv(e[0].num, e[1].num)};
  });
}
TESSERA_CONTENTS_RULE(Mod) {
  bool fmod = s.getInt("fmod") != 0;
  return mapBroadcast(s, [&](ArrayRef<Element> e) -> Element {
    if (e[0].den || e[1].den || e[1].num->isConstant(0))
      s.unknown("a remainder of fractions");
    if (!fmod)
      return {s.ctx.mod(e[0].num, e[1].num)};
    return {s.ctx.sub(e[0].num, s.ctx.mul(e[1].num, s.ctx.truncDiv(e[0].num, e[1].num)))};
  });
}

// Fractions are compared over a common denominator; it must be known positive.
static std::pair<Element, Element> commonDenominator(OpShapes &s, Element a, Element b) {
  if (!a.den && !b.den)
    return {a, b};
  auto positive = [](Sym d) { return !d || (d->lower && *d->lower > 0); };
  if (!positive(a.den) || !positive(b.den))
    s.unknown("a comparison of fractions");
  Sym one = s.c(1), da = a.den ? a.den : one, db = b.den ? b.den : one;
  return {{s.ctx.mul(a.num, db)}, {s.ctx.mul(b.num, da)}};
}

static Contents extremum(OpShapes &s, bool max) {
  return mapBroadcast(s, [&](ArrayRef<Element> e) {
    Element best = e[0];
    for (Element x : e.drop_front()) {
      auto [a, b] = commonDenominator(s, best, x);
      if (!best.den && !x.den)
        best = {max ? s.ctx.max(a.num, b.num) : s.ctx.min(a.num, b.num)};
      else
        best = makeElement(s.ctx, max ? s.ctx.max(a.num, b.num) : s.ctx.min(a.num, b.num),
                           s.ctx.mul(best.den ? best.den : s.c(1), x.den ? x.den : s.c(1)));
    }
    return best;
  });
}
TESSERA_CONTENTS_RULE(Max) { return extremum(s, true); }
TESSERA_CONTENTS_RULE(Min) { return extremum(s, false); }

TESSERA_CONTENTS_RULES(Comparison, "Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual") {
  StringRef name = s.op->getName().getStringRef();
  return mapBroadcast(s, [&](ArrayRef<Element> e) -> Element {
    auto [a, b] = commonDenominator(s, e[0], e[1]);
    if (name == "onnx.Equal")
      return {s.ctx.equal(a.num, b.num)};
    if (name == "onnx.Less")
      return {s.ctx.less(a.num, b.num)};
    if (name == "onnx.LessOrEqual")
      return {s.ctx.lessEqual(a.num, b.num)};
    if (name == "onnx.Greater")
      return {s.ctx.less(b.num, a.num)};
    return {s.ctx.lessEqual(b.num, a.num)};
  });
}

TESSERA_CONTENTS_RULE(Neg) {
  return mapBroadcast(s, [&](ArrayRef<Element> e) { return subElements(s.ctx, {s.c(0)}, e[0]); });
}
TESSERA_CONTENTS_RULE(Abs) {
  return mapBroadcast(s, [&](ArrayRef<Element> e) -> Element {
    if (e[0].den && !(e[0].den->lower && *e[0].den->lower > 0))
      s.unknown("the sign of a fraction");
    return {s.ctx.max(e[0].num, s.ctx.sub(s.c(0), e[0].num)), e[0].den};
  });
}
TESSERA_CONTENTS_RULE(Relu) {
  return mapBroadcast(s, [&](ArrayRef<Element> e) -> Element {
    if (e[0].den)
      s.unknown("the sign of a fraction");
    return {s.ctx.max(e[0].num, s.c(0))};
  });
}
TESSERA_CONTENTS_RULE(Sign) {
  return mapBroadcast(s, [&](ArrayRef<Element> e) -> Element {
    if (e[0].den)
      s.unknown("the sign of a fraction");
    return {s.ctx.max(s.ctx.min(e[0].num, s.c(1)), s.c(-1))};
  });
}
TESSERA_CONTENTS_RULE(Floor) {
  return mapBroadcast(s, [&](ArrayRef<Element> e) -> Element { return {floorElement(s.ctx, e[0])}; });
}
TESSERA_CONTENTS_RULE(Ceil) {
  return mapBroadcast(s, [&](ArrayRef<Element> e) -> Element { return {ceilElement(s.ctx, e[0])}; });
}
TESSERA_CONTENTS_RULE(Round) {
  return mapBroadcast(s, [&](ArrayRef<Element> e) -> Element {
    if (!e[0].den)
      return e[0];
    // Half to even only matters where a half can occur: not for odd divisors.
    Sym den = e[0].den;
    if (!den->isConstant() || den->imm % 2 == 0)
      s.unknown("a rounded half");
    return {s.ctx.floorDiv(s.ctx.add(s.ctx.mul(e[0].num, s.c(2)), den), s.ctx.mul(den, s.c(2)))};
  });
}
TESSERA_CONTENTS_RULE(Clip) {
  Contents out = s.contents(0);
  for (unsigned bound : {1u, 2u}) {
    if (!s.has(bound))
      continue;
    Sym limit = s.scalar(bound);
    for (Element &e : out) {
      if (e.den)
        s.unknown("a clipped fraction");
      e.num = bound == 1 ? s.ctx.max(e.num, limit) : s.ctx.min(e.num, limit);
    }
  }
  return out;
}
TESSERA_CONTENTS_RULE(Pow) {
  return mapBroadcast(s, [&](ArrayRef<Element> e) -> Element {
    if (e[1].den || !e[1].num->isConstant() || e[1].num->imm < 0 || e[1].num->imm > 8)
      s.unknown("a power");
    Element p{s.c(1)};
    for (int64_t i = 0; i < e[1].num->imm; ++i)
      p = mulElements(s.ctx, p, e[0]);
    return p;
  });
}
TESSERA_CONTENTS_RULES(Cumulate, "CumSum") {
  auto dims = staticDims(s, s.in(0));
  auto axis = s.constants(1);
  if (dims.size() != 1 || !axis || s.getInt("exclusive") || s.getInt("reverse"))
    s.unknown("a cumulative sum");
  Contents out = s.contents(0);
  for (size_t i = 1; i < out.size(); ++i)
    out[i] = addElements(s.ctx, out[i - 1], out[i]);
  return out;
}

//===----------------------------------------------------------------------===//
// Matrix products
//===----------------------------------------------------------------------===//

static void matMul(OpShapes &s, unsigned left, unsigned right) {
  SymDims a(s.dims(left)), b(s.dims(right));
  if (a.empty() || b.empty())
    s.contradict("an operand of " + describe(s.op) + " is a scalar");
  bool rowVector = a.size() == 1, columnVector = b.size() == 1;
  if (rowVector)
    a.insert(a.begin(), s.c(1));
  if (columnVector)
    b.push_back(s.c(1));
  s.unify(a.back(), b[b.size() - 2], "inner dimensions");
  SymDims out = s.broadcast(ArrayRef(a).drop_back(2), ArrayRef(b).drop_back(2));
  if (!rowVector)
    out.push_back(a[a.size() - 2]);
  if (!columnVector)
    out.push_back(b.back());
  s.set(0, out);
}
TESSERA_SHAPE_RULES(MatMul, "MatMul", "MatMulInteger", "com.microsoft.MatMulInteger16") {
  matMul(s, 0, 1);
}
TESSERA_SHAPE_RULES(QLinearMatMul, "QLinearMatMul", "com.microsoft.QLinearMatMul") {
  matMul(s, 0, 3);
}

TESSERA_SHAPE_RULES(Gemm, "Gemm", "com.microsoft.FusedGemm") {
  s.expectRank(0, 2);
  s.expectRank(1, 2);
  auto a = s.dims(0), b = s.dims(1);
  bool ta = s.getInt("transA") != 0, tb = s.getInt("transB") != 0;
  s.unify(a[ta ? 0 : 1], b[tb ? 1 : 0], "inner dimensions");
  s.set(0, {a[ta ? 1 : 0], b[tb ? 0 : 1]});
}

// "ij,jk->ik", "...ii->...i", "a b, b" and the like.
TESSERA_SHAPE_RULE(Einsum) {
  std::string equation;
  for (char ch : s.getString("equation"))
    if (ch != ' ')
      equation += ch;
  auto [left, right] = StringRef(equation).split("->");
  bool explicitOutput = StringRef(equation).contains("->");
  SmallVector<StringRef> terms;
  left.split(terms, ',');
  if (terms.size() != s.numInputs())
    s.contradict("the equation of " + describe(s.op) + " has " + Twine(terms.size()) +
                 " terms for " + Twine(s.numInputs()) + " inputs");
  std::map<char, Sym> labels;
  std::map<char, unsigned> uses;
  SymDims ellipsis;
  for (auto [i, term] : llvm::enumerate(terms)) {
    auto [head, tail] = term.split("...");
    bool hasEllipsis = term.contains("...");
    auto dims = s.dims(i);
    if (dims.size() < head.size() + tail.size() ||
        (!hasEllipsis && dims.size() != head.size() + tail.size()))
      s.contradict("term '" + term + "' of " + describe(s.op) + " does not fit an input of rank " +
                   Twine(dims.size()));
    auto bind = [&](char label, Sym d) {
      ++uses[label];
      auto [it, fresh] = labels.try_emplace(label, d);
      if (!fresh)
        it->second = s.broadcastDim(it->second, d);
    };
    for (auto [label, d] : llvm::zip(head, dims))
      bind(label, d);
    for (auto [label, d] : llvm::zip(tail, dims.take_back(tail.size())))
      bind(label, d);
    if (hasEllipsis)
      ellipsis = s.broadcast(ellipsis, dims.drop_front(head.size()).drop_back(tail.size()));
  }
  std::string output = right.str();
  if (!explicitOutput) {
    output = "...";
    for (auto [label, count] : uses)
      if (count == 1)
        output += label;
  }
  SymDims out;
  auto [head, tail] = StringRef(output).split("...");
  auto append = [&](StringRef part) {
    for (char label : part) {
      if (!labels.count(label))
        s.contradict("label '" + Twine(label) + "' of the result of " + describe(s.op) +
                     " occurs in no input");
      out.push_back(labels[label]);
    }
  };
  append(head);
  if (StringRef(output).contains("..."))
    out.append(ellipsis);
  append(tail);
  s.set(0, out);
}

TESSERA_SHAPE_RULE(Det) { s.set(0, s.dims(0).drop_back(2)); }

//===----------------------------------------------------------------------===//
// By value
//===----------------------------------------------------------------------===//

TESSERA_SHAPE_RULE(Expand) { s.set(0, s.broadcast(s.dims(0), s.ints(1))); }
TESSERA_SHAPE_OPERANDS(Expand, 1u << 1, 0, "Expand");
TESSERA_CONTENTS_RULE(Expand) {
  Contents data = s.contents(0), out;
  auto dims = staticDims(s, s.in(0));
  forEachIndex(staticDims(s, s.out(0)), [&](ArrayRef<int64_t> index) {
    out.push_back(data[broadcastIndex(dims, index)]);
  });
  return out;
}

TESSERA_SHAPE_RULE(TopK) {
  SymDims out(s.dims(0));
  out[s.getAxis("axis", -1, out.size())] = s.scalar(1);
  s.setAll(out);
}
TESSERA_SHAPE_OPERANDS(TopK, 1u << 1, 0, "TopK");

TESSERA_SHAPE_RULES(Window, "BlackmanWindow", "HammingWindow", "HannWindow") {
  s.set(0, {s.scalar(0)});
}
TESSERA_SHAPE_OPERANDS(Window, 1u << 0, 0, "BlackmanWindow", "HammingWindow", "HannWindow");

TESSERA_SHAPE_RULE(MelWeightMatrix) {
  s.set(0, {s.ctx.add(s.ctx.floorDiv(s.scalar(1), s.c(2)), s.c(1)), s.scalar(0)});
}

//===----------------------------------------------------------------------===//
// Signal
//===----------------------------------------------------------------------===//

TESSERA_SHAPE_RULE(DFT) {
  SymDims out(s.dims(0));
  int64_t rank = out.size();
  Sym axis = s.has(2) ? s.scalar(2) : s.c(-2);
  axis = s.ctx.select(s.ctx.less(axis, s.c(0)), s.ctx.add(axis, s.c(rank)), axis);
  if (axis->isConstant())
    s.normaliseAxis(axis->imm, rank);
  bool onesided = s.getInt("onesided") != 0, inverse = s.getInt("inverse") != 0;
  for (int64_t i = 0; i + 1 < rank; ++i) {
    Sym length = s.has(1) ? s.scalar(1) : out[i];
    if (onesided && inverse && !s.has(1)) // from the half spectrum back
      length = s.ctx.mul(s.ctx.sub(out[i], s.c(1)), s.c(2));
    if (onesided && !inverse)
      length = s.ctx.add(s.ctx.floorDiv(length, s.c(2)), s.c(1));
    out[i] = s.ctx.select(s.ctx.equal(axis, s.c(i)), length, out[i]);
  }
  out.back() = s.c(onesided && inverse ? 1 : 2);
  s.set(0, out);
}
TESSERA_SHAPE_OPERANDS(DFT, 0, 1u << 1 | 1u << 2, "DFT");

TESSERA_SHAPE_RULE(STFT) {
  auto signal = s.dims(0);
  Sym length = s.has(3) ? s.scalar(3) : s.has(2) ? s.dims(2)[0] : nullptr;
  if (!length)
    s.unknown("neither window nor frame length is given");
  Sym frames = s.ctx.add(s.ctx.floorDiv(s.ctx.sub(signal[1], length), s.scalar(1)), s.c(1));
  Sym bins = s.getInt("onesided", 1) ? s.ctx.add(s.ctx.floorDiv(length, s.c(2)), s.c(1)) : length;
  s.set(0, {signal[0], frames, bins, s.c(2)});
}
TESSERA_SHAPE_OPERANDS(STFT, 0, 1u << 1 | 1u << 3, "STFT");

//===----------------------------------------------------------------------===//
// Losses
//===----------------------------------------------------------------------===//

TESSERA_SHAPE_RULES(Loss, "NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss") {
  if (s.getString("reduction", "mean") == "none")
    s.set(0, s.dims(1));
  else
    s.set(0, {});
  if (s.out(1))
    s.set(1, s.dims(0));
}

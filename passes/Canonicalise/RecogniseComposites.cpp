// Composites from their parts, see Passes.td.
//
// Each matcher starts at the last operator of the pattern and walks up. What it
// passes on the way must have no other use, else nothing would be saved.
#include "passes/Canonicalise/Passes.h"

#include "passes/Canonicalise/OnnxBuilder.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

#include <cmath>

using namespace mlir;

namespace tessera::onnx {

#define GEN_PASS_DEF_RECOGNISECOMPOSITES
#include "passes/Canonicalise/Passes.h.inc"

namespace {

bool near(std::optional<double> v, double wanted, double tolerance = 1e-3) {
  return v && std::fabs(*v - wanted) <= tolerance * std::fabs(wanted);
}

// The operator `name` that defines v and serves nothing else.
Operation *only(Value v, StringRef name) {
  Operation *op = definedBy(v, name);
  return op && op->getResult(0).hasOneUse() ? op : nullptr;
}

// One operand is `x`-like and the other a constant: returns (other, constant).
std::optional<std::pair<Value, double>> withScalar(Operation *op) {
  if (auto c = scalarConstant(op->getOperand(1)))
    return std::make_pair(op->getOperand(0), *c);
  if (isOp(op, "Add") || isOp(op, "Mul"))
    if (auto c = scalarConstant(op->getOperand(0)))
      return std::make_pair(op->getOperand(1), *c);
  return std::nullopt;
}

// v = w * factor (or w / (1 / factor)).
std::optional<std::pair<Value, double>> asScaled(Value v) {
  if (Operation *mul = only(v, "Mul"))
    return withScalar(mul);
  if (Operation *div = only(v, "Div"))
    if (auto p = withScalar(div))
      return std::make_pair(p->first, 1 / p->second);
  return std::nullopt;
}

// Factors of a product, constants multiplied up.
void factors(Value v, bool root, SmallVectorImpl<Value> &values, double &constant) {
  Operation *op = root ? definedBy(v, "Mul") : only(v, "Mul");
  if (op && values.size() < 8) {
    factors(op->getOperand(0), false, values, constant);
    factors(op->getOperand(1), false, values, constant);
    return;
  }
  if (Operation *div = root ? definedBy(v, "Div") : only(v, "Div"))
    if (auto c = scalarConstant(div->getOperand(1))) {
      constant /= *c;
      factors(div->getOperand(0), false, values, constant);
      return;
    }
  if (auto c = scalarConstant(v)) {
    constant *= *c;
    return;
  }
  values.push_back(v);
}

bool isErfGelu(Value x, Value onePlus) {
  Operation *add = only(onePlus, "Add");
  auto one = add ? withScalar(add) : std::nullopt;
  if (!one || one->second != 1)
    return false;
  Operation *erf = only(one->first, "Erf");
  auto u = erf ? asScaled(erf->getOperand(0)) : std::nullopt;
  return u && u->first == x && near(u->second, M_SQRT1_2, 1e-4);
}

// x * x * x in any spelling, times a constant factor.
bool isCube(Value v, Value x, double factor) {
  SmallVector<Value> f;
  double c = 1;
  factors(v, false, f, c);
  if (f.size() == 1)
    if (Operation *pow = only(f[0], "Pow"))
      return pow->getOperand(0) == x && scalarConstant(pow->getOperand(1)) == 3.0 &&
             near(c, factor);
  return f.size() == 3 && llvm::all_of(f, [&](Value y) { return y == x; }) && near(c, factor);
}

// 1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)), also as ... * x * (1 + 0.044715 x^2).
bool isTanhGelu(Value x, Value onePlus) {
  Operation *add = only(onePlus, "Add");
  auto one = add ? withScalar(add) : std::nullopt;
  if (!one || one->second != 1)
    return false;
  Operation *tanh = only(one->first, "Tanh");
  if (!tanh)
    return false;
  SmallVector<Value> f;
  double c = 1;
  factors(tanh->getOperand(0), false, f, c);
  if (!near(c, std::sqrt(2 / M_PI), 1e-4))
    return false;
  if (f.size() == 1) {
    Operation *sum = only(f[0], "Add");
    if (!sum)
      return false;
    for (int k : {0, 1})
      if (sum->getOperand(k) == x && isCube(sum->getOperand(1 - k), x, 0.044715))
        return true;
    return false;
  }
  if (f.size() != 2)
    return false;
  for (int k : {0, 1}) {
    if (f[k] != x)
      continue;
    Operation *sum = only(f[1 - k], "Add");
    auto tail = sum ? withScalar(sum) : std::nullopt;
    if (!tail || tail->second != 1)
      continue;
    SmallVector<Value> g;
    double d = 1;
    factors(tail->first, false, g, d);
    if (g.size() == 2 && g[0] == x && g[1] == x && near(d, 0.044715))
      return true;
  }
  return false;
}

bool isSixRelu(Value v, Value x) { // clip(x + 3, 0, 6)
  Operation *clip = only(v, "Clip");
  if (!clip || !operand(clip, 1) || !operand(clip, 2) ||
      scalarConstant(operand(clip, 1)) != 0.0 || scalarConstant(operand(clip, 2)) != 6.0)
    return false;
  Operation *add = only(clip->getOperand(0), "Add");
  auto three = add ? withScalar(add) : std::nullopt;
  return three && three->first == x && three->second == 3;
}

bool isHardSigmoid(Value v, Value x) {
  Operation *h = only(v, "HardSigmoid");
  return h && h->getOperand(0) == x && near(getFloat(h, "alpha", 0.2), 1.0 / 6, 1e-5) &&
         near(getFloat(h, "beta", 0.5), 0.5, 1e-6);
}

// Products: Gelu, Swish, HardSwish.
LogicalResult recogniseProduct(Operation *op, PatternRewriter &r) {
  SmallVector<Value> f;
  double c = 1;
  factors(op->getResult(0), true, f, c);
  if (f.size() != 2 || !isa<FloatType>(elementType(op->getResult(0))))
    return failure();
  OnnxBuilder b(r, op->getLoc());
  for (int k : {0, 1}) {
    Value x = f[k], y = f[1 - k];
    if (x.getType() != op->getResult(0).getType())
      continue;
    Value v;
    if (near(c, 0.5, 1e-6) && isErfGelu(x, y)) {
      v = b.unary("Gelu", x, {b.s("approximate", "none")});
    } else if (near(c, 0.5, 1e-6) && isTanhGelu(x, y)) {
      v = b.unary("Gelu", x, {b.s("approximate", "tanh")});
    } else if ((c == 1 && isHardSigmoid(y, x)) || (near(c, 1.0 / 6, 1e-6) && isSixRelu(y, x))) {
      v = b.unary("HardSwish", x);
    } else if (Operation *sigmoid = c == 1 ? only(y, "Sigmoid") : nullptr) {
      if (sigmoid->getOperand(0) == x) {
        v = b.unary("Swish", x);
      } else if (auto s = asScaled(sigmoid->getOperand(0)); s && s->first == x) {
        v = b.unary("Swish", x, {b.f("alpha", s->second)});
      }
    }
    if (v) {
      replaceRefining(r, op, v);
      return success();
    }
  }
  return failure();
}

// Axes of a reduction that keeps its dimensions; none if not constant.
std::optional<SmallVector<int64_t>> keptAxes(Operation *reduce) {
  RankedTensorType t = rankedType(reduce->getOperand(0));
  if (!t || !getInt(reduce, "keepdims", 1))
    return std::nullopt;
  SmallVector<int64_t> axes;
  if (Value v = operand(reduce, 1)) {
    auto given = getConstantInts(v, 64);
    if (!given || given->empty())
      return std::nullopt;
    axes = *given;
  } else {
    return std::nullopt;
  }
  for (int64_t &a : axes)
    if (a < 0)
      a += t.getRank();
  llvm::sort(axes);
  return axes;
}

// The first of the trailing axes that are all reduced.
std::optional<int64_t> trailingAxis(Operation *reduce) {
  auto axes = keptAxes(reduce);
  if (!axes)
    return std::nullopt;
  int64_t rank = rankedType(reduce->getOperand(0)).getRank();
  for (size_t i = 0; i < axes->size(); ++i)
    if ((*axes)[i] != rank - (int64_t)axes->size() + (int64_t)i)
      return std::nullopt;
  return axes->front();
}

// v = d * d with one or two uses of d.
Value squareOf(Value v) {
  if (Operation *mul = only(v, "Mul"))
    return mul->getOperand(0) == mul->getOperand(1) ? mul->getOperand(0) : Value();
  if (Operation *pow = only(v, "Pow"))
    return scalarConstant(pow->getOperand(1)) == 2.0 ? pow->getOperand(0) : Value();
  return {};
}

struct Deviation { // sqrt(mean(value^2) + epsilon)
  Value value;
  int64_t axis;
  double epsilon;
};

std::optional<Deviation> deviationOf(Value v) {
  Operation *sqrt = definedBy(v, "Sqrt");
  Operation *add = sqrt ? only(sqrt->getOperand(0), "Add") : nullptr;
  auto eps = add ? withScalar(add) : std::nullopt;
  Operation *mean = eps ? only(eps->first, "ReduceMean") : nullptr;
  auto axis = mean ? trailingAxis(mean) : std::nullopt;
  if (!axis)
    return std::nullopt;
  Value d = squareOf(mean->getOperand(0));
  if (!d)
    return std::nullopt;
  return Deviation{d, *axis, eps->second};
}

// `op` is d / deviation(d), or d times its reciprocal.
std::optional<Deviation> normalised(Operation *op) {
  if (isOp(op, "Div")) {
    auto v = deviationOf(op->getOperand(1));
    return v && op->getOperand(1).hasOneUse() && v->value == op->getOperand(0) ? v : std::nullopt;
  }
  for (int k : {0, 1}) {
    Value inverse = op->getOperand(k), root;
    if (Operation *rec = only(inverse, "Reciprocal"))
      root = rec->getOperand(0);
    else if (Operation *div = only(inverse, "Div");
             div && scalarConstant(div->getOperand(0)) == 1.0)
      root = div->getOperand(1);
    if (!root || !root.hasOneUse())
      continue;
    auto v = deviationOf(root);
    if (v && v->value == op->getOperand(1 - k))
      return v;
  }
  return std::nullopt;
}

// The shape of axes [axis, rank), when static.
std::optional<SmallVector<int64_t>> normalisedShape(Value x, int64_t axis) {
  RankedTensorType t = rankedType(x);
  SmallVector<int64_t> shape(t.getShape().drop_front(axis));
  if (llvm::any_of(shape, ShapedType::isDynamic))
    return std::nullopt;
  return shape;
}

bool hasShape(Value v, ArrayRef<int64_t> shape) {
  RankedTensorType t = rankedType(v);
  return t && t.getShape() == shape;
}

Value ones(OnnxBuilder &b, Type element, ArrayRef<int64_t> shape) {
  HostTensor t(element, shape);
  for (int64_t i = 0; i < t.size(); ++i)
    t.setReal(i, 1);
  return b.weight(t);
}

// LayerNormalization (d = x - mean(x)) or RMSNormalization (d = x), with scale
// one; scale and bias are absorbed afterwards.
LogicalResult recogniseNormalisation(Operation *op, PatternRewriter &r) {
  auto n = normalised(op);
  if (!n)
    return failure();
  Type element = elementType(op->getResult(0));
  if (!isa<FloatType>(element))
    return failure();
  OnnxBuilder b(r, op->getLoc());
  Value x = n->value;
  bool centred = false;
  if (Operation *sub = definedBy(n->value, "Sub")) {
    Operation *mean = only(sub->getOperand(1), "ReduceMean");
    // Its two or three uses are the square and the quotient.
    bool inner = llvm::all_of(n->value.getUsers(), [&](Operation *u) {
      return u == op || squareOf(u->getResult(0)) == n->value;
    });
    if (inner && mean && mean->getOperand(0) == sub->getOperand(0) &&
        trailingAxis(mean) == n->axis) {
      centred = true;
      x = sub->getOperand(0);
    }
  }
  auto shape = normalisedShape(x, n->axis);
  if (!shape || x.getType() != op->getResult(0).getType())
    return failure();
  Value scale = ones(b, element, *shape);
  StringRef name = centred ? "LayerNormalization" : "RMSNormalization";
  Value v = b.op(name, {x, scale}, op->getResult(0).getType(),
                 {b.i("axis", n->axis), b.f("epsilon", n->epsilon)});
  replaceRefining(r, op, v);
  return success();
}

// A constant scale (bias) after a normalisation whose own is still one (absent).
LogicalResult absorbScale(Operation *op, PatternRewriter &r) {
  for (int k : {0, 1}) {
    Operation *norm = only(op->getOperand(k), "LayerNormalization");
    if (!norm)
      norm = only(op->getOperand(k), "RMSNormalization");
    if (!norm || norm->getNumResults() != 1 || operand(norm, 2) ||
        uniformConstant(norm->getOperand(1)) != 1.0)
      continue;
    RankedTensorType t = rankedType(norm->getOperand(0));
    int64_t axis = getInt(norm, "axis", -1);
    if (axis < 0)
      axis += t.getRank();
    auto shape = normalisedShape(norm->getOperand(0), axis);
    Value scale = op->getOperand(1 - k);
    if (!shape || !hasShape(scale, *shape) || !getConstant(scale))
      continue;
    OnnxBuilder b(r, op->getLoc());
    SmallVector<NamedAttribute> attrs = {b.i("axis", axis),
                                         b.f("epsilon", getFloat(norm, "epsilon", 1e-5)),
                                         b.i("stash_type", getInt(norm, "stash_type", 1))};
    Value v = b.op(norm->getName().stripDialect(), {norm->getOperand(0), scale},
                   op->getResult(0).getType(), attrs);
    replaceRefining(r, op, v);
    return success();
  }
  return failure();
}

LogicalResult absorbBias(Operation *op, PatternRewriter &r) {
  for (int k : {0, 1}) {
    Operation *norm = only(op->getOperand(k), "LayerNormalization");
    if (!norm || norm->getNumResults() != 1 || operand(norm, 2))
      continue;
    RankedTensorType t = rankedType(norm->getOperand(0));
    int64_t axis = getInt(norm, "axis", -1);
    if (axis < 0)
      axis += t.getRank();
    auto shape = normalisedShape(norm->getOperand(0), axis);
    Value bias = op->getOperand(1 - k);
    if (!shape || !hasShape(bias, *shape) || !getConstant(bias))
      continue;
    OnnxBuilder b(r, op->getLoc());
    SmallVector<NamedAttribute> attrs = {b.i("axis", axis),
                                         b.f("epsilon", getFloat(norm, "epsilon", 1e-5)),
                                         b.i("stash_type", getInt(norm, "stash_type", 1))};
    Value v = b.op("LayerNormalization", {norm->getOperand(0), norm->getOperand(1), bias},
                   op->getResult(0).getType(), attrs);
    replaceRefining(r, op, v);
    return success();
  }
  return failure();
}

// exp(x - max(x)) / sum(exp(x - max(x))) along one axis.
LogicalResult recogniseSoftmax(Operation *op, PatternRewriter &r) {
  Operation *exp = definedBy(op->getOperand(0), "Exp");
  Operation *sum = only(op->getOperand(1), "ReduceSum");
  Operation *sub = exp ? only(exp->getOperand(0), "Sub") : nullptr;
  Operation *max = sub ? only(sub->getOperand(1), "ReduceMax") : nullptr;
  if (!max || !sum || sum->getOperand(0) != exp->getResult(0) ||
      max->getOperand(0) != sub->getOperand(0) ||
      !llvm::all_of(exp->getUsers(), [&](Operation *u) { return u == op || u == sum; }))
    return failure();
  auto axes = keptAxes(sum), other = keptAxes(max);
  if (!axes || axes->size() != 1 || axes != other)
    return failure();
  OnnxBuilder b(r, op->getLoc());
  replaceRefining(r, op, b.op("Softmax", {sub->getOperand(0)}, op->getResult(0).getType(),
                              {b.i("axis", axes->front())}));
  return success();
}

struct RecogniseCompositesPass : impl::RecogniseCompositesBase<RecogniseCompositesPass> {
  using RecogniseCompositesBase::RecogniseCompositesBase;
  void runOnOperation() override {
    if (strict)
      return;
    RewritePatternSet p(&getContext());
    addRewrite(p, "Mul", recogniseProduct, 2);
    addRewrite(p, "Div", recogniseProduct, 2);
    addRewrite(p, "Mul", recogniseNormalisation);
    addRewrite(p, "Div", recogniseNormalisation);
    addRewrite(p, "Mul", absorbScale);
    addRewrite(p, "Add", absorbBias);
    addRewrite(p, "Div", recogniseSoftmax);
    if (failed(applyPatternsGreedily(getOperation(), std::move(p))))
      signalPassFailure();
  }
};

} // namespace

} // namespace tessera::onnx

// Per-channel scaling into the weights that precede it, see Passes.td.
//
//   BEFORE  %c = Conv(%x, %w, %b); %m = Mul(%c, %s); Add(%m, %t)     s, t: [C,1,1]
//   AFTER   Conv(%x, %w * s, %b * s + t)
#include "passes/Canonicalise/Passes.h"

#include "passes/Canonicalise/Dequantised.h"
#include "passes/Canonicalise/OnnxBuilder.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

#include <cmath>
#include <cstring>

using namespace mlir;

namespace tessera::onnx {

#define GEN_PASS_DEF_FOLDSCALING
#include "passes/Canonicalise/Passes.h.inc"

namespace {

// y = x * s + b with s = scale / sqrt(var + epsilon) and b = B - mean * s, all
// of them [C]; constants fold here in double, others are computed at run time.
LogicalResult expandBatchNorm(Operation *op, PatternRewriter &r) {
  Value x = op->getOperand(0);
  RankedTensorType t = rankedType(x);
  if (getInt(op, "training_mode", 0) || op->getNumResults() != 1 || !t || t.getRank() < 2)
    return failure();
  OnnxBuilder b(r, op->getLoc());
  double epsilon = getFloat(op, "epsilon", 1e-5);
  int64_t spatial = std::max<int64_t>(t.getRank() - 2, 0);
  SmallVector<std::optional<HostTensor>> c;
  for (unsigned i = 1; i < 5; ++i)
    c.push_back(constantOf(op->getOperand(i)));
  Value factor, offset;
  Type element = t.getElementType();
  if (llvm::all_of(c, [](auto &v) { return v && v->isFloat(); })) {
    int64_t n = c[0]->size();
    if (llvm::any_of(c, [&](auto &v) { return v->size() != n; }))
      return failure();
    SmallVector<int64_t> shape(1 + spatial, 1);
    shape[0] = n;
    HostTensor s(element, shape), o(element, shape);
    for (int64_t i = 0; i < n; ++i) {
      double k = c[0]->real(i) / std::sqrt(c[3]->real(i) + epsilon);
      s.setReal(i, k);
      o.setReal(i, c[1]->real(i) - c[2]->real(i) * k);
    }
    factor = b.weight(s);
    offset = b.weight(o);
  } else {
    // Statistics may be wider than x: compute in their type, then convert.
    Type wide = elementType(op->getOperand(3));
    auto param = [&](unsigned i) { return b.cast(op->getOperand(i), wide); };
    for (unsigned i = 1; i < 5; ++i)
      if (!rankedType(op->getOperand(i)) || rankedType(op->getOperand(i)).getRank() != 1)
        return failure();
    Value deviation = b.unary("Sqrt", b.add(param(4), b.scalar(wide, epsilon)));
    factor = b.div(param(1), deviation);
    offset = b.sub(param(2), b.mul(param(3), factor));
    SmallVector<int64_t> axes = llvm::to_vector(llvm::seq<int64_t>(1, 1 + spatial));
    factor = b.unsqueeze(b.cast(factor, element), axes);
    offset = b.unsqueeze(b.cast(offset, element), axes);
  }
  Value scaled = b.op("Mul", {x, factor}, t);
  replaceRefining(r, op, b.op("Add", {scaled, offset}, op->getResult(0).getType()));
  return success();
}

bool foldableWeight(Value w) {
  auto t = constantOf(w);
  return t && t->isFloat() && w.hasOneUse();
}

// The constant as one value a channel (or one for all): axis counted from the
// front of an operand of rank `rank`.
std::optional<HostTensor> perChannel(const HostTensor &c, int64_t rank, int64_t axis,
                                     int64_t channels) {
  if (!c.isFloat())
    return std::nullopt;
  for (int64_t i = 0; i < c.size(); ++i)
    if (!std::isfinite(c.real(i)))
      return std::nullopt;
  if (c.size() == 1 && c.rank() <= rank)
    return c.reshaped({1});
  int64_t at = c.rank() - (rank - axis);
  if (at < 0 || c.rank() > rank || c.size() != channels || c.shape()[at] != channels)
    return std::nullopt;
  return c.reshaped({channels});
}

double at(const HostTensor &t, int64_t i) { return t.real(t.size() == 1 ? 0 : i); }

// A producer with weights: how its output channels lie in them.
struct Producer {
  Operation *op;
  HostTensor weight;
  int64_t channels;
  std::function<int64_t(int64_t)> channelOf; // of weight element i
  int64_t channelAxis;                       // in the result
  bool hasBias;
};

std::optional<Producer> producerOf(Value v) {
  Operation *op = v.getDefiningOp();
  RankedTensorType t = rankedType(v);
  if (!op || !t || !v.hasOneUse())
    return std::nullopt;
  bool conv = isOp(op, "Conv"), transposed = isOp(op, "ConvTranspose");
  bool gemm = isOp(op, "Gemm"), matmul = isOp(op, "MatMul");
  if (!conv && !transposed && !gemm && !matmul)
    return std::nullopt;
  auto w = constantOf(op->getOperand(1));
  if (!w || !foldableWeight(op->getOperand(1)))
    return std::nullopt;
  auto form = dequantisedForm(op->getOperand(1));
  if (form && form->block > 0)
    return std::nullopt; // a few bits each, which scaled numbers have no more
  if (form && definedBy(op->getOperand(0), "DequantizeLinear"))
    return std::nullopt; // an integer product, rounded before what follows
  SmallVector<int64_t> shape(w->shape());
  Producer p{op, *w, 0, nullptr, 1, !matmul};
  if (conv) {
    if (shape.size() < 3)
      return std::nullopt;
    p.channels = shape[0];
    int64_t inner = w->size() / std::max<int64_t>(1, shape[0]);
    p.channelOf = [=](int64_t i) { return i / inner; };
  } else if (transposed) { // [C, M/group, ...]
    if (shape.size() < 3)
      return std::nullopt;
    int64_t group = getInt(op, "group", 1), perGroup = shape[1];
    p.channels = perGroup * group;
    int64_t kernel = elementCount(ArrayRef<int64_t>(shape).drop_front(2));
    int64_t inputs = std::max<int64_t>(1, shape[0] / group);
    p.channelOf = [=](int64_t i) {
      int64_t m = i / kernel % perGroup, c = i / kernel / perGroup;
      return c / inputs * perGroup + m;
    };
  } else {
    if (shape.size() != 2)
      return std::nullopt;
    bool transB = gemm && getInt(op, "transB", 0);
    p.channels = shape[transB ? 0 : 1];
    int64_t columns = shape[1];
    p.channelOf = [=](int64_t i) { return transB ? i / columns : i % columns; };
    p.channelAxis = t.getRank() - 1;
    if (matmul && rankedType(op->getOperand(0)) && rankedType(op->getOperand(0)).getRank() < 2)
      return std::nullopt;
  }
  return p;
}

// The producer's bias as one value a channel; zeros when absent. None if it is
// not a foldable constant.
std::optional<HostTensor> biasOf(const Producer &p) {
  Value bias = operand(p.op, 2);
  HostTensor out(p.weight.element(), {p.channels});
  if (!bias)
    return out;
  auto c = constantOf(bias);
  if (!c)
    return std::nullopt;
  auto flat = isOp(p.op, "Gemm") ? perChannel(*c, 2, 1, p.channels)
                                 : perChannel(*c, 1, 0, p.channels);
  if (!flat)
    return std::nullopt;
  double beta = isOp(p.op, "Gemm") ? getFloat(p.op, "beta", 1) : 1;
  for (int64_t i = 0; i < p.channels; ++i)
    out.setReal(i, beta * at(*flat, i));
  return out;
}

void setBias(const Producer &p, const HostTensor &bias, PatternRewriter &r) {
  r.setInsertionPoint(p.op);
  OnnxBuilder b(r, p.op->getLoc());
  Value v = b.weight(bias);
  r.modifyOpInPlace(p.op, [&] {
    if (operand(p.op, 2))
      p.op->setOperand(2, v);
    else
      p.op->insertOperands(2, v);
    if (isOp(p.op, "Gemm"))
      p.op->setAttr("beta", r.getF32FloatAttr(1));
  });
}

LogicalResult foldMul(Operation *op, PatternRewriter &r) {
  auto c = constantOf(op->getOperand(1));
  auto p = producerOf(op->getOperand(0));
  RankedTensorType t = rankedType(op->getOperand(0));
  if (!c || !p || !broadcastsInto(op->getOperand(1), op->getOperand(0)))
    return failure();
  auto s = perChannel(*c, t.getRank(), p->channelAxis, p->channels);
  if (!s)
    return failure();
  std::optional<HostTensor> bias;
  if (operand(p->op, 2)) {
    bias = biasOf(*p);
    if (!bias)
      return failure();
    for (int64_t i = 0; i < p->channels; ++i)
      bias->setReal(i, bias->real(i) * at(*s, i));
  }
  HostTensor w(p->weight.element(), p->weight.shape());
  if (w.element().isF32()) { // the common case, without per-element dispatch
    const char *from = p->weight.data();
    char *to = w.mutableData();
    std::vector<double> factors(p->channels);
    for (int64_t i = 0; i < p->channels; ++i)
      factors[i] = at(*s, i);
    for (int64_t i = 0; i < w.size(); ++i) {
      float v; // mapped payloads have any alignment
      std::memcpy(&v, from + 4 * i, 4);
      v = (float)(v * factors[p->channelOf(i)]);
      std::memcpy(to + 4 * i, &v, 4);
    }
  } else {
    for (int64_t i = 0; i < w.size(); ++i)
      w.setReal(i, p->weight.real(i) * at(*s, p->channelOf(i)));
  }
  r.setInsertionPoint(p->op);
  Value weight = OnnxBuilder(r, p->op->getOperand(1).getLoc()).weight(w);
  r.modifyOpInPlace(p->op, [&] { p->op->setOperand(1, weight); });
  if (bias)
    setBias(*p, *bias, r);
  replaceRefining(r, op, p->op->getResult(0));
  return success();
}

LogicalResult foldAdd(Operation *op, PatternRewriter &r) {
  auto c = constantOf(op->getOperand(1));
  auto p = producerOf(op->getOperand(0));
  RankedTensorType t = rankedType(op->getOperand(0));
  if (!c || !p || !p->hasBias || !broadcastsInto(op->getOperand(1), op->getOperand(0)))
    return failure();
  auto s = perChannel(*c, t.getRank(), p->channelAxis, p->channels);
  auto bias = biasOf(*p);
  if (!s || !bias)
    return failure();
  for (int64_t i = 0; i < p->channels; ++i)
    bias->setReal(i, bias->real(i) + at(*s, i));
  setBias(*p, *bias, r);
  replaceRefining(r, op, p->op->getResult(0));
  return success();
}

// MatMul keeps its bias in an Add of its own: a factor passes through it.
//   BEFORE  Mul(Add(MatMul(x, w), b), s)      AFTER  Add(MatMul(x, w * s), b * s)
LogicalResult mulThroughAdd(Operation *op, PatternRewriter &r) {
  Operation *add = definedBy(op->getOperand(0), "Add");
  auto s = constantOf(op->getOperand(1));
  if (!add || !s || !s->isFloat() || !op->getOperand(0).hasOneUse())
    return failure();
  auto bias = constantOf(add->getOperand(1));
  Value product = add->getOperand(0);
  if (!bias || !definedBy(product, "MatMul") || !producerOf(product) ||
      !broadcastsInto(op->getOperand(1), product) || !broadcastsInto(add->getOperand(1), product))
    return failure();
  auto p = producerOf(product);
  RankedTensorType t = rankedType(product);
  auto scale = perChannel(*s, t.getRank(), p->channelAxis, p->channels);
  auto offset = perChannel(*bias, t.getRank(), p->channelAxis, p->channels);
  if (!scale || !offset)
    return failure();
  HostTensor scaled(bias->element(), {p->channels});
  for (int64_t i = 0; i < p->channels; ++i)
    scaled.setReal(i, at(*offset, i) * at(*scale, i));
  OnnxBuilder b(r, op->getLoc());
  Value mul = b.op("Mul", {product, op->getOperand(1)}, product.getType());
  replaceRefining(r, op, b.op("Add", {mul, b.weight(scaled)}, op->getResult(0).getType()));
  return success();
}

struct FoldScalingPass : impl::FoldScalingBase<FoldScalingPass> {
  using FoldScalingBase::FoldScalingBase;
  void runOnOperation() override {
    RewritePatternSet p(&getContext());
    addRewrite(p, "BatchNormalization", expandBatchNorm);
    if (!strict) {
      addRewrite(p, "Mul", foldMul);
      addRewrite(p, "Mul", mulThroughAdd);
      addRewrite(p, "Add", foldAdd);
    }
    if (failed(applyPatternsGreedily(getOperation(), std::move(p))))
      signalPassFailure();
  }
};

} // namespace

} // namespace tessera::onnx

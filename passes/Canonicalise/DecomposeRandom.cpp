// Random operators, and Dropout in training, as integer arithmetic: element i
// draws from a hash of i and the seed. The same model gives the same numbers on
// every device and in every run; a node without a seed has one of its result's
// name, which no other has. In a loop the numbers of the iterations count as well.
#include "passes/Canonicalise/Aggregates.h"

#include "dialects/Onnx/IR/Unsupported.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/xxhash.h"

using namespace mlir;

namespace tessera::onnx {

namespace {

/// The numbers of the iterations around `op`, inner ones first. None where a body
/// is not a branch or a Loop's: Scan and SequenceMap become Loops, so `op` waits.
std::optional<SmallVector<Value>> iterationsAround(Operation *op) {
  SmallVector<Value> numbers;
  for (Operation *p = op->getParentOp(); !isa<func::FuncOp>(p); p = p->getParentOp()) {
    if (isOp(p, "Loop"))
      numbers.push_back(p->getRegion(0).getArgument(0));
    else if (!isOp(p, "If"))
      return std::nullopt;
  }
  return numbers;
}

/// The import names a node's location by the node, then by its first result.
StringRef resultName(Operation *op) {
  auto node = op->getLoc()->findInstanceOf<NameLoc>();
  auto result = node ? dyn_cast<NameLoc>(node.getChildLoc()) : NameLoc();
  return result ? result.getName().getValue() : getNodeName(op);
}

std::string keyOf(Operation *op) {
  if (auto seed = op->getAttrOfType<FloatAttr>("seed"))
    return "seed " + llvm::toString(seed.getValue().bitcastToAPInt(), 16, false);
  if (auto seed = op->getAttrOfType<IntegerAttr>("seed"))
    return "seed " + std::to_string(seed.getInt());
  return resultName(op).str();
}

class Random {
public:
  Random(Operation *op, PatternRewriter &r, ArrayRef<Value> iterations) : b(r, op->getLoc()) {
    start = (uint32_t)llvm::xxh3_64bits(StringRef(keyOf(op)));
    u32 = r.getIntegerType(32, false);
    for (Value i : iterations) {
      Value x = b.mul(b.cast(b.scalarOf(i), u32), number(0x9e3779b9));
      iteration = hash(b.add(x, iteration ? iteration : number(start)));
    }
  }

  /// `count` numbers of stream `stream`, even in [0, 1), float32 [count].
  Value uniform(Value count, uint32_t stream) {
    Value x = b.cast(b.range(count), u32);
    x = b.add(b.mul(x, number(0x9e3779b9)), number(start + stream * 0x85ebca6bu));
    x = hash(iteration ? b.add(x, iteration) : x);
    Type f32 = b.attrs().getF32Type();
    return b.mul(b.cast(shift(x, 8), f32), b.scalar(f32, 1.0 / (1 << 24)));
  }
  /// Standard normal, by Box and Muller.
  Value normal(Value count) {
    Type f32 = b.attrs().getF32Type();
    Value u = b.sub(b.scalar(f32, 1), uniform(count, 1)), v = uniform(count, 2); // u > 0
    Value radius = b.unary("Sqrt", b.mul(b.scalar(f32, -2), b.unary("Log", u)));
    return b.mul(radius, b.unary("Cos", b.mul(b.scalar(f32, 2 * M_PI), v)));
  }
  /// In the shape of `like`.
  Value shaped(Value flat, Value like) { return b.reshapeTo(flat, b.shapeOf(like), rankedType(like).getRank()); }
  Value countOf(Value like) { return b.reduce("ReduceProd", b.shapeOf(like), {0}, true); }

  ShapeBuilder b;

private:
  Value number(uint32_t v) { return b.scalar(u32, v); }
  Value shift(Value x, uint32_t by) {
    return b.op("BitShift", {x, number(by)}, x.getType(), {b.s("direction", "RIGHT")});
  }
  Value mix(Value x, uint32_t by, uint32_t factor) {
    return b.mul(b.binary("BitwiseXor", x, shift(x, by)), number(factor));
  }
  Value hash(Value x) {
    x = mix(x, 16, 0x7feb352d);
    x = mix(x, 15, 0x846ca68b);
    return b.binary("BitwiseXor", x, shift(x, 16));
  }
  uint32_t start;
  Value iteration; ///< null outside of loops
  Type u32;
};

Value affine(OnnxBuilder &b, Value x, double factor, double term) {
  Type t = elementType(x);
  return b.add(b.mul(x, b.scalar(t, factor)), b.scalar(t, term));
}

/// iterationsAround() gave nothing.
LogicalResult outsideLoops(Operation *op) {
  return unsupported(op, "it draws in a body whose runs cannot be counted");
}

/// RandomUniform, RandomNormal and their Like forms.
LogicalResult draw(Operation *op, PatternRewriter &r) {
  auto type = rankedType(op->getResult(0));
  bool like = op->getNumOperands() == 1, normal = op->getName().getStringRef().contains("Normal");
  if (!type || !isa<FloatType>(type.getElementType()) || (like ? !rankedType(op->getOperand(0)) : !type.hasStaticShape()))
    return failure();
  auto iterations = iterationsAround(op);
  if (!iterations)
    return outsideLoops(op);
  Random random(op, r, *iterations);
  ShapeBuilder &b = random.b;
  Value count = like ? random.countOf(op->getOperand(0)) : b.one(type.getNumElements());
  Value x = normal ? affine(b, random.normal(count), getFloat(op, "scale", 1), getFloat(op, "mean", 0))
                   : affine(b, random.uniform(count, 0), getFloat(op, "high", 1) - getFloat(op, "low", 0), getFloat(op, "low", 0));
  x = b.cast(x, type.getElementType());
  replaceRefining(r, op, like ? random.shaped(x, op->getOperand(0)) : b.reshape(x, type.getShape(), type));
  return success();
}

LogicalResult bernoulli(Operation *op, PatternRewriter &r) {
  Value p = op->getOperand(0);
  if (!rankedType(p))
    return failure();
  auto iterations = iterationsAround(op);
  if (!iterations)
    return outsideLoops(op);
  Random random(op, r, *iterations);
  ShapeBuilder &b = random.b;
  Value u = random.shaped(random.uniform(random.countOf(p), 0), p);
  replaceRefining(r, op, b.cast(b.compare("Less", u, b.cast(p, r.getF32Type())), elementType(op->getResult(0))));
  return success();
}

/// Every sample is the number of classes whose running probability it exceeds.
LogicalResult multinomial(Operation *op, PatternRewriter &r) {
  Value logs = op->getOperand(0);
  int64_t samples = getInt(op, "sample_size", 1);
  if (!rankedType(logs) || rankedType(logs).getRank() != 2)
    return unsupportedInput(op, 0, "expected rank 2");
  if (samples < 1)
    return unsupportedAttribute(op, "sample_size", "at least 1 is expected");
  auto iterations = iterationsAround(op);
  if (!iterations)
    return outsideLoops(op);
  Random random(op, r, *iterations);
  ShapeBuilder &b = random.b;
  Value p = b.unary("Softmax", b.cast(logs, r.getF32Type()), {b.i("axis", 1)});
  Value running = b.op("CumSum", {p, b.ints({1}, true)}, p.getType());
  Value rows = b.sizeOf(logs, 0), size = b.one(samples);
  Value u = b.reshapeTo(random.uniform(b.mul(rows, size), 0), b.concat({rows, size}), 2);
  Value above = b.compare("GreaterOrEqual", b.unsqueeze(u, {2}), b.unsqueeze(running, {1}));
  Value at = b.reduce("ReduceSum", b.cast(above, b.i64()), {2}, false);
  at = b.binary("Min", at, b.sub(b.sizeOf(logs, 1), b.one(1))); // sums fall short of 1 by roundings
  replaceRefining(r, op, b.cast(at, elementType(op->getResult(0))));
  return success();
}

/// Dropout whose mode is, or may be, training.
LogicalResult trainingDropout(Operation *op, PatternRewriter &r) {
  Value x = operand(op, 0), ratio = operand(op, 1), training = operand(op, 2);
  auto known = getConstantInts(training);
  if (!training || !rankedType(x) || !isa<FloatType>(elementType(x)) || (known && known->front() == 0))
    return failure();
  auto iterations = iterationsAround(op);
  if (!iterations)
    return outsideLoops(op);
  Random random(op, r, *iterations);
  ShapeBuilder &b = random.b;
  Type f32 = r.getF32Type();
  Value drop = ratio ? b.scalarOf(b.cast(ratio, f32)) : b.scalar(f32, 0.5);
  Value on = b.scalarOf(training);
  // Every draw is at least a ratio of 0: nothing is dropped then, or outside of training.
  Value rate = b.where(on, drop, b.scalar(f32, 0));
  Value u = random.shaped(random.uniform(random.countOf(x), 0), x);
  Value keep = b.compare("GreaterOrEqual", u, rate);
  Value scale = b.cast(b.div(b.scalar(f32, 1), b.sub(b.scalar(f32, 1), rate)), elementType(x));
  Value y = b.where(keep, b.mul(x, scale), b.scalar(elementType(x), 0));
  SmallVector<Value> results{y};
  if (op->getNumResults() > 1)
    results.push_back(keep);
  replaceRefining(r, op, results);
  return success();
}

} // namespace

void addRandomDecompositions(RewritePatternSet &p) {
  for (StringRef name : {"RandomUniform", "RandomUniformLike", "RandomNormal", "RandomNormalLike"})
    addRewrite(p, name, draw);
  addRewrite(p, "Bernoulli", bernoulli);
  addRewrite(p, "Multinomial", multinomial);
  addRewrite(p, "Dropout", trainingDropout);
}

} // namespace tessera::onnx

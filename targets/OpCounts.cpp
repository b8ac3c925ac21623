#include "targets/OpCounts.h"
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "dialects/Onnx/Shapes/ShapeAnalysis.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace tessera {

// --- sizes
// -----------------------------------------------------------------------

Sizes::Sizes(onnx::ShapeAnalysis &shapes) {
  auto evaluate = std::make_shared<onnx::SymEvaluator>(
      [](onnx::Sym leaf) { return std::max<int64_t>(leaf->lower.value_or(1), 1); });
  dimension = [&shapes, evaluate](Value v, unsigned axis) -> std::optional<int64_t> {
    if (!shapes.hasDims(v) || axis >= shapes.dims(v).size())
      return std::nullopt;
    return (*evaluate)(shapes.dims(v)[axis]);
  };
}

llvm::SmallVector<int64_t, 6> Sizes::of(Value v) const {
  llvm::SmallVector<int64_t, 6> result;
  auto type = v ? dyn_cast<RankedTensorType>(v.getType()) : RankedTensorType();
  if (!type)
    return result;
  for (auto [axis, size] : llvm::enumerate(type.getShape())) {
    if (!ShapedType::isDynamic(size)) {
      result.push_back(size);
      continue;
    }
    assumed = true;
    std::optional<int64_t> known = dimension ? dimension(v, axis) : std::nullopt;
    result.push_back(std::max<int64_t>(known.value_or(1), 1));
  }
  return result;
}

int64_t Sizes::elements(Value v) const {
  int64_t n = 1;
  for (int64_t d : of(v))
    n = llvm::SaturatingMultiply<uint64_t>(n, d);
  return n;
}

// --- arithmetic
// ------------------------------------------------------------------

namespace {

int64_t product(ArrayRef<int64_t> sizes) {
  int64_t n = 1;
  for (int64_t d : sizes)
    n *= d;
  return n;
}

int64_t at(ArrayRef<int64_t> sizes, int64_t fromEnd, int64_t otherwise = 1) {
  return fromEnd <= static_cast<int64_t>(sizes.size()) ? sizes[sizes.size() - fromEnd] : otherwise;
}

class Counter {
public:
  Counter(Operation *op, const Sizes &sizes, int64_t granule) : op(op), sizes(sizes), granule(granule) {}
  OpWork count();

private:
  void convolution(unsigned weights, bool transposed);
  void product(unsigned a, unsigned b);
  void gemm();
  void recurrent(unsigned gates);
  void attention();
  int64_t out() { return op->getNumResults() ? sizes.elements(op->getResult(0)) : 0; }
  int64_t padded(int64_t macs, int64_t in, int64_t outChannels) {
    if (in <= 0 || outChannels <= 0)
      return macs;
    return macs / in / outChannels * llvm::alignTo(in, granule) * llvm::alignTo(outChannels, granule);
  }

  Operation *op;
  const Sizes &sizes;
  int64_t granule;
  OpWork w;
};

/// Weights are [M, C/group, k...]; transposed [C, M/group, k...]. Either way a
/// weight is used once for each position of the smaller side of the map.
void Counter::convolution(unsigned weights, bool transposed) {
  auto filter = sizes.of(onnx::getOptionalOperand(op, weights));
  if (filter.size() < 3 || !op->getNumResults())
    return;
  int64_t group = onnx::getInt(op, "group", 1);
  auto map = sizes.of(transposed ? op->getOperand(0) : op->getResult(0));
  int64_t positions = map.size() > 2 ? map[0] * tessera::product(ArrayRef<int64_t>(map).drop_front(2)) : 1;
  w.macs = positions * tessera::product(filter);
  bool depthwise = group > 1 && (transposed ? filter[0] == group : filter[1] == 1);
  w.kind = depthwise ? WorkKind::Depthwise : WorkKind::Dense;
  w.macsPadded = group == 1 ? padded(w.macs, filter[1], filter[0]) : w.macs;
}

void Counter::product(unsigned a, unsigned b) {
  Value right = onnx::getOptionalOperand(op, b);
  auto left = sizes.of(onnx::getOptionalOperand(op, a));
  int64_t k = at(left, 1), n = at(sizes.of(right), 1);
  w.macs = out() * k;
  w.kind = onnx::getConstant(right) ? WorkKind::Linear : WorkKind::Matmul;
  if (Operation *def = right ? right.getDefiningOp() : nullptr;
      def && def->getName().stripDialect() == "DequantizeLinear" && onnx::getConstant(def->getOperand(0)))
    w.kind = WorkKind::Linear;
  w.macsPadded = padded(w.macs, k, n);
}

void Counter::gemm() {
  auto a = sizes.of(op->getOperand(0)), b = sizes.of(op->getOperand(1));
  int64_t k = onnx::getInt(op, "transA") ? at(a, 2) : at(a, 1);
  int64_t n = onnx::getInt(op, "transB") ? at(b, 2) : at(b, 1);
  w.macs = out() * k;
  w.kind = onnx::getConstant(op->getOperand(1)) ? WorkKind::Linear : WorkKind::Matmul;
  w.macsPadded = padded(w.macs, k, n);
}

/// X is [sequence, batch, input], R [directions, gates * hidden, hidden].
void Counter::recurrent(unsigned gates) {
  auto x = sizes.of(op->getOperand(0)), r = sizes.of(op->getOperand(2));
  if (x.size() != 3 || r.size() != 3)
    return;
  int64_t steps = x[0] * x[1] * r[0], hidden = r[2];
  w.kind = WorkKind::Linear;
  w.macs = w.macsPadded = steps * gates * hidden * (x[2] + hidden);
  w.lutElements = steps * (gates + 1) * hidden;
}

/// Scores and their product with the values: both have one factor of the key
/// length.
void Counter::attention() {
  auto q = sizes.of(op->getOperand(0)), k = sizes.of(op->getOperand(1));
  int64_t keys = k.size() >= 2 ? at(k, 2) : 1;
  w.kind = WorkKind::Matmul;
  w.macs = w.macsPadded = 2 * tessera::product(q) * keys;
  int64_t heads = q.size() == 4 ? q[1] : onnx::getInt(op, "q_num_heads", 1);
  w.lutElements = q.size() >= 2 ? q[0] * heads * at(q, 2) * keys : 0;
}

OpWork Counter::count() {
  static const llvm::StringSet<> functions{
      "Sigmoid", "Tanh", "Swish", "HardSwish", "HardSigmoid", "Gelu",       "Softplus", "Mish", "Elu", "Celu",
      "Selu",    "Exp",  "Log",   "Erf",       "Softmax",     "LogSoftmax", "Pow",      "Sin",  "Cos", "Tan",
      "Asin",    "Acos", "Atan",  "Sinh",      "Cosh",        "Asinh",      "Acosh",    "Atanh"};
  static const llvm::StringSet<> movements{
      "Transpose",    "Concat",         "Split",     "Slice",           "Pad",
      "Expand",       "Tile",           "Gather",    "GatherElements",  "GatherND",
      "DepthToSpace", "SpaceToDepth",   "ScatterND", "ScatterElements", "ReverseSequence",
      "Trilu",        "ConstantOfShape"};
  static const llvm::StringSet<> views{"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity"};
  llvm::StringRef name = op->getName().stripDialect();
  if (name == "Conv" || name == "ConvInteger" || name == "DeformConv")
    convolution(1, /*transposed=*/false);
  else if (name == "QLinearConv")
    convolution(3, /*transposed=*/false);
  else if (name == "ConvTranspose")
    convolution(1, /*transposed=*/true);
  else if (name == "MatMul" || name == "MatMulInteger")
    product(0, 1);
  else if (name == "QLinearMatMul")
    product(0, 3);
  else if (name == "Gemm")
    gemm();
  else if (name == "LSTM" || name == "GRU" || name == "RNN")
    recurrent(name == "LSTM" ? 4 : name == "GRU" ? 3 : 1);
  else if (name == "Attention")
    attention();
  else if (views.contains(name))
    w.kind = WorkKind::View;
  else if (movements.contains(name))
    w.kind = WorkKind::Movement;
  if (functions.contains(name))
    w.lutElements = out();
  w.readsPart = name == "Gather" || name == "GatherElements" || name == "GatherND" || name == "Slice";
  return w;
}

} // namespace

OpWork countWork(Operation *op, const Sizes &sizes, int64_t channelGranule) {
  return Counter(op, sizes, std::max<int64_t>(channelGranule, 1)).count();
}

} // namespace tessera

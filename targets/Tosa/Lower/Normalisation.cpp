// Softmax and normalisations by composition, in float32.
#include "targets/Tosa/Lower/Lowerer.h"

using namespace mlir;

namespace tessera::tosa {
namespace {

LogicalResult lowerSoftmax(Operation *op, Lowerer &l) {
  Value in = op->getOperand(0);
  int64_t rank = Lowerer::rankOf(in), axis = onnx::getInt(op, "axis", -1);
  if (rank == 0)
    return l.no() << "input has rank 0";
  axis += axis < 0 ? rank : 0;
  Perm perm = l.order(in);
  int64_t at = inversePerm(perm)[axis];
  Value x = l.wide(l.get(in, perm));
  Value shifted = l.sub(x, l.reduce("reduce_max", x, at));
  Value e = l.unary("exp", shifted), sum = l.reduce("reduce_sum", e, at);
  bool log = op->getName().stripDialect() == "LogSoftmax";
  Value y = log ? l.sub(shifted, l.unary("log", sum)) : l.mul(e, l.unary("reciprocal", sum));
  l.set(op->getResult(0), l.narrow(y), perm);
  return success();
}

Value mean(Lowerer &l, Value x, ArrayRef<int64_t> axes) {
  double count = 1;
  for (int64_t a : axes) {
    count *= Lowerer::shapeOf(x)[a];
    x = l.reduce("reduce_sum", x, a);
  }
  return l.mul(x, 1 / count);
}

/// (x - mean) / sqrt(variance + epsilon) over `axes`, in float32.
Value normalise(Lowerer &l, Value x, ArrayRef<int64_t> axes, double epsilon, bool centre) {
  Value d = centre ? l.sub(x, mean(l, x, axes)) : x;
  return l.mul(d, l.unary("rsqrt", l.add(mean(l, l.mul(d, d), axes), epsilon)));
}

/// The normalised value is stored before scale and bias, as stash_type says.
LogicalResult lowerLayerNormalization(Operation *op, Lowerer &l) {
  Value in = op->getOperand(0);
  bool centre = op->getName().stripDialect() == "LayerNormalization";
  int64_t rank = Lowerer::rankOf(in), axis = onnx::getInt(op, "axis", -1);
  if (int64_t stash = onnx::getInt(op, "stash_type", 1); stash != 1)
    return l.no() << "stash_type is " << stash;
  for (unsigned i = 1; i < op->getNumResults(); ++i)
    if (!op->getResult(i).use_empty())
      return l.no() << "output " << i << " is wanted";
  axis += axis < 0 ? rank : 0;
  SmallVector<int64_t> axes;
  for (int64_t a = axis; a < rank; ++a)
    axes.push_back(a);
  Value y = l.narrow(normalise(l, l.wide(l.get(in)), axes, onnx::getFloat(op, "epsilon", 1e-5), centre));
  for (unsigned i = 1; i <= 2; ++i)
    if (Value v = onnx::getOptionalOperand(op, i)) {
      Value f = l.align({v}, rank, identityPerm(rank)).operands[0];
      y = i == 1 ? l.mul(y, f) : l.add(y, f);
    }
  l.set(op->getResult(0), y);
  return success();
}

/// A vector of channels as [1, c, 1, ...].
Value perChannel(Lowerer &l, Value v, int64_t rank) {
  Value x = l.get(v);
  SmallVector<int64_t> dims(rank, 1);
  dims[1] = Lowerer::shapeOf(v)[0];
  return x ? l.reshape(x, dims) : Value();
}

LogicalResult lowerInstanceNormalization(Operation *op, Lowerer &l) {
  Value in = op->getOperand(0);
  int64_t rank = Lowerer::rankOf(in);
  SmallVector<int64_t> axes;
  for (int64_t a = 2; a < rank; ++a)
    axes.push_back(a);
  Value y = normalise(l, l.wide(l.get(in)), axes, onnx::getFloat(op, "epsilon", 1e-5), true);
  Value scale = perChannel(l, op->getOperand(1), rank), bias = perChannel(l, op->getOperand(2), rank);
  if (!scale || !bias)
    return failure();
  l.set(op->getResult(0), l.narrow(l.add(l.mul(y, l.wide(scale)), l.wide(bias))));
  return success();
}

/// In inference: x * a + c with a and c found at compile time.
LogicalResult lowerBatchNormalization(Operation *op, Lowerer &l) {
  if (onnx::getInt(op, "training_mode", 0) || op->getNumResults() > 1)
    return l.no() << "training_mode is set";
  Value in = op->getOperand(0);
  double epsilon = onnx::getFloat(op, "epsilon", 1e-5);
  std::optional<HostTensor> p[4];
  for (unsigned i = 0; i < 4; ++i)
    if (!(p[i] = l.constantOf(op->getOperand(i + 1))))
      return l.no() << "input '" << onnx::getOperandName(op, i + 1) << "' is not constant";
  Perm perm = l.order(in);
  SmallVector<int64_t> dims(Lowerer::rankOf(in), 1);
  dims[inversePerm(perm)[1]] = p[0]->size();
  HostTensor a(l.b.getF32Type(), dims), c(l.b.getF32Type(), dims);
  a.mutableData();
  c.mutableData();
  for (int64_t i = 0; i < p[0]->size(); ++i) {
    double factor = p[0]->real(i) / std::sqrt(p[3]->real(i) + epsilon);
    a.setReal(i, factor);
    c.setReal(i, p[1]->real(i) - p[2]->real(i) * factor);
  }
  Value x = l.wide(l.get(in, perm));
  l.set(op->getResult(0), l.narrow(l.add(l.mul(x, l.constant(a)), l.constant(c))), perm);
  return success();
}

RegisterLowering softmax({"Softmax", "LogSoftmax"}, Domain::Float, Elements::Float, {"axis"}, lowerSoftmax);
RegisterLowering layerNormalization({"LayerNormalization", "RMSNormalization"}, Domain::Float, Elements::Float,
                                    {"axis", "epsilon", "stash_type"}, lowerLayerNormalization);
RegisterLowering instanceNormalization({"InstanceNormalization"}, Domain::Float, Elements::Float, {"epsilon"},
                                       lowerInstanceNormalization);
RegisterLowering batchNormalization({"BatchNormalization"}, Domain::Float, Elements::Float,
                                    {"epsilon", "momentum", "training_mode"}, lowerBatchNormalization);

} // namespace
} // namespace tessera::tosa

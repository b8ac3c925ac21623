// MatMul and Gemm on TOSA's batched MATMUL of rank 3.
#include "targets/Tosa/Lower/Lowerer.h"

using namespace mlir;

namespace tessera::tosa {
namespace {

int64_t product(ArrayRef<int64_t> dims) { return onnx::elementCount(dims); }

/// [batch..., r, c] repeated so that its batch axes are those of `batch`, as [b, r, c].
Value flattenBatch(Lowerer &l, Value x, ArrayRef<int64_t> batch) {
  ArrayRef<int64_t> s = Lowerer::shapeOf(x);
  SmallVector<int64_t> dims(batch.size() + 2 - s.size(), 1), multiples;
  dims.append(s.begin(), s.end());
  for (auto [d, n] : llvm::zip(dims, batch))
    multiples.push_back(d == n ? 1 : n);
  multiples.append({1, 1});
  return l.reshape(l.tile(l.reshape(x, dims), multiples), {product(batch), s[s.size() - 2], s.back()});
}

/// Both operands have rank 2 or more. Weights without batch serve all rows at once.
Value buildMatMul(Lowerer &l, Value x, Value y, int64_t zeroX, int64_t zeroY) {
  ArrayRef<int64_t> p = Lowerer::shapeOf(x), q = Lowerer::shapeOf(y);
  SmallVector<int64_t> dims;
  int64_t m = p[p.size() - 2], k = p.back(), n = q.back();
  if (product(q.drop_back(2)) == 1) {
    Value rows = l.reshape(x, {1, product(p.drop_back(1)), k});
    Value z = l.matmul(rows, l.reshape(y, {1, k, n}), zeroX, zeroY);
    dims.assign(p.begin(), p.end());
    dims.back() = n;
    if (q.size() > p.size())
      dims.insert(dims.begin(), q.size() - p.size(), 1);
    return l.reshape(z, dims);
  }
  auto batch = *onnx::broadcastShapes(p.drop_back(2), q.drop_back(2));
  Value z = l.matmul(flattenBatch(l, x, batch), flattenBatch(l, y, batch), zeroX, zeroY);
  dims = batch;
  dims.append({m, n});
  return l.reshape(z, dims);
}

} // namespace

Value buildProduct(Operation *op, Lowerer &l, Value y, int64_t zeroX, int64_t zeroY) {
  Value x = l.get(op->getOperand(0));
  ArrayRef<int64_t> p = Lowerer::shapeOf(x), q = Lowerer::shapeOf(y);
  if (p.size() == 1) // a row
    x = l.reshape(x, {1, p[0]});
  if (q.size() == 1) // a column
    y = l.reshape(y, {q[0], 1});
  return l.reshape(buildMatMul(l, x, y, zeroX, zeroY), Lowerer::shapeOf(op->getResult(0)));
}

namespace {

LogicalResult lowerMatMul(Operation *op, Lowerer &l) {
  if (Lowerer::rankOf(op->getResult(0)) == 0)
    return l.no() << "result has rank 0";
  l.set(op->getResult(0), buildProduct(op, l, l.get(op->getOperand(1)), 0, 0));
  return success();
}

LogicalResult lowerGemm(Operation *op, Lowerer &l) {
  Value x = l.get(op->getOperand(0), onnx::getInt(op, "transA") ? Perm{1, 0} : Perm{0, 1});
  Value y = l.get(op->getOperand(1), onnx::getInt(op, "transB") ? Perm{1, 0} : Perm{0, 1});
  double alpha = onnx::getFloat(op, "alpha", 1), beta = onnx::getFloat(op, "beta", 1);
  Value z = buildMatMul(l, x, y, 0, 0);
  if (alpha != 1)
    z = l.mul(z, alpha);
  if (Value c = onnx::getOptionalOperand(op, 2)) {
    Value bias = l.align({c}, 2, identityPerm(2)).operands[0];
    z = l.add(z, beta == 1 ? bias : l.mul(bias, beta));
  }
  l.set(op->getResult(0), z);
  return success();
}

RegisterLowering matMul({"MatMul"}, Domain::Float, Elements::Float, {}, lowerMatMul);
RegisterLowering gemm({"Gemm"}, Domain::Float, Elements::Float, {"alpha", "beta", "transA", "transB"}, lowerGemm);

} // namespace
} // namespace tessera::tosa

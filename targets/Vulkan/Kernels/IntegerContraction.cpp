// MatMulInteger with a constant matrix on the right (Bytes.h).
#include "targets/Vulkan/Kernels/ByteTile.h"

using namespace mlir;

namespace tessera::vulkan {
namespace {

class IntegerProduct {
public:
  IntegerProduct(tsr::DispatchOp op, Emitter &e)
      : op(op), e(e), fusion(op, e), product(op, e) {}
  LogicalResult emit();

private:
  LogicalResult read();
  void chooseWords();
  SmallVector<Value> load(Index row, Index group);

  tsr::DispatchOp op;
  Emitter &e;
  Fusion fusion;
  ByteProduct product;
  Buffer *words = nullptr; ///< the left operand, if it is made of words
  int64_t m = 0, n = 0, depth = 0, step = 1;
};

LogicalResult IntegerProduct::read() {
  Buffer *b = rootBuffer(op, e, 1), *a = rootBuffer(op, e, 0);
  if (!a || !b || b->rank() != 2 || a->rank() < 1)
    return e.reasons.no()
           << "an integer product whose right operand is no matrix";
  depth = b->dims[0];
  n = b->dims[1];
  m = a->count / std::max<int64_t>(depth, 1);
  for (unsigned i = 0, next = 1; i < a->rank(); ++i) { // rows lie densely
    unsigned axis = a->rank() - 1 - i;
    if (a->strides[axis] != static_cast<int64_t>(next))
      return e.reasons.no() << "an integer product of a transposed tensor";
    next *= a->dims[axis];
  }
  return product.read(n);
}

void IntegerProduct::chooseWords() {
  if (depth % 4)
    return;
  words = &e.reinterpret(*product.left(), e.i32());
  int64_t count = depth / 4;
  step = count % 4 == 0 ? 4 : count % 3 == 0 ? 3 : count % 2 == 0 ? 2 : 1;
  if (step == 4)
    words->useVectors();
}

SmallVector<Value> IntegerProduct::load(Index row, Index group) {
  if (step == 4) {
    Value four = product.signedWords(
        e.loadQuad(*words, e.add(e.mul(row, depth / 16), group)));
    return {e.lane(four, 0), e.lane(four, 1), e.lane(four, 2), e.lane(four, 3)};
  }
  SmallVector<Value> values;
  Index first = e.add(e.mul(row, depth / 4), e.mul(group, step));
  for (int64_t s = 0; s < step && words; ++s)
    values.push_back(product.signedWords(e.load(*words, e.add(first, s))));
  if (!words) { // past the end: something, times zero
    Index at = e.add(e.mul(row, depth), e.mul(group, 4));
    values.push_back(product.gatherWord(at, 1, 4));
  }
  return values;
}

LogicalResult IntegerProduct::emit() {
  if (failed(read()))
    return failure();
  RowTile tile = RowTile::choose(m, n);
  int64_t width = tile.columnQuads * 4;
  if (failed(product.pack(1, PackAxis{1, 0}, {depth, n}, {n, 1}, width)))
    return failure();
  if (product.needsRowSums() && depth % 4)
    return e.reasons.no() << "an integer product over " << depth
                          << " elements with zero points on the right";
  chooseWords();
  fusion.useVectors(fusion.dims().size() - 1);
  tile.setGrid(e, m, 1);
  Index quad = tile.firstQuad(e);
  TileRows rows(e, tile, m);
  ByteTile bytes(e, product, tile);
  SmallVector<Value> sums = bytes.accumulate(
      (depth + 3) / 4 / step, step, quad, bytes.begin(quad),
      [&](int64_t i, Index group) { return load(rows.at(e, i), group); });
  SmallVector<int64_t> outer(fusion.dims().drop_back(1));
  SmallVector<Value> results =
      bytes.finish(sums, quad, fusion, outer.size(), quad,
                   tile.columnQuads * 4 == n ? -1 : (n - 1) / 4);
  return storeTile(e, tile, rows, quad, n, [&](int64_t i, int64_t j) {
    Index at = e.add(quad, j);
    Point p{e.digits(rows.at(e, i), outer), static_cast<int>(outer.size())};
    p.at.push_back(at);
    return fusion.store(results[i * tile.quads + j], p);
  });
}

LogicalResult emitIntegerProduct(tsr::DispatchOp op, Emitter &e) {
  return IntegerProduct(op, e).emit();
}
Register integerProduct({"onnx.MatMulInteger"}, emitIntegerProduct);

} // namespace
} // namespace tessera::vulkan

// MatMul and Gemm in f32 and f16 (f32 accumulation). A constant right operand
// is packed into padded columns; one that the run computes is read as it lies.
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "targets/Vulkan/Kernels/FewBits.h"

using namespace mlir;

namespace tessera::vulkan {
namespace {

struct Matrix {
  Buffer *t = nullptr;
  int64_t rowStride = 0, columnStride = 0;
};

class Product {
public:
  Product(tsr::DispatchOp op, Emitter &e)
      : op(op), e(e), root(op.getRootOp()), fusion(op, e), fewBits(e) {}
  LogicalResult emit();

private:
  LogicalResult read();
  void packRight();
  bool packFewBits(unsigned input);
  Index leftBase(Index row);
  SmallVector<Value> loadLeft(Index base, Index group);
  Value loadRight(Index base, Index group, int64_t s, int64_t j);
  LogicalResult store(Value acc, Index row, Index quad);
  Index batchOffset(Buffer &t, int64_t unit);

  tsr::DispatchOp op;
  Emitter &e;
  Operation *root;
  Fusion fusion;
  bool gemm = false;
  Matrix a, b;
  Buffer *c = nullptr;
  Buffer *packed = nullptr;
  FewBits fewBits;
  bool few = false; ///< the right operand stays in few bits
  int64_t m = 0, n = 0, depth = 0, batches = 1, step = 1;
  RowTile tile;
  SmallVector<Index> batch; ///< index of each batch axis of the result
};

} // namespace

LogicalResult Product::read() {
  gemm = root->getName().getStringRef() == "onnx.Gemm";
  a.t = rootBuffer(op, e, 0);
  b.t = rootBuffer(op, e, 1);
  if (!a.t || !b.t || a.t->rank() < 2 || b.t->rank() < 2)
    return e.reasons.no() << "a product with an operand of rank below 2";
  for (Buffer *t : {a.t, b.t})
    if (!t->element.isF32() && !t->element.isF16())
      return e.reasons.no() << "a product of " << onnx::getTypeName(t->element);
  auto axes = [&](Matrix &x, bool transposed) {
    unsigned r = x.t->rank();
    x.rowStride = x.t->strides[r - (transposed ? 1 : 2)];
    x.columnStride = x.t->strides[r - (transposed ? 2 : 1)];
  };
  bool transA = gemm && onnx::getInt(root, "transA"),
       transB = gemm && onnx::getInt(root, "transB");
  axes(a, transA);
  axes(b, transB);
  m = a.t->dims[a.t->rank() - (transA ? 1 : 2)];
  depth = a.t->dims[a.t->rank() - (transA ? 2 : 1)];
  n = b.t->dims[b.t->rank() - (transB ? 2 : 1)];
  if (depth == 0)
    return e.reasons.no() << "a product over no elements";
  for (int64_t d : fusion.dims().drop_back(2))
    batches *= d;
  if (gemm)
    c = rootBuffer(op, e, 2);
  if (gemm && onnx::getOptionalOperand(root, 2) && !c)
    return e.reasons.no() << "Gemm with an embedded addend";
  return success();
}

/// Numbers that a few bits made, if that costs less than it saves: multiplying
/// them out doubles the operations of a tile, and a quarter of the memory is
/// what few rows wait for.
bool Product::packFewBits(unsigned input) {
  bool transposed = gemm && onnx::getInt(root, "transB");
  if (b.t->rank() != 2 || b.t->strides[1] != 1 ||
      !fewBits.read(op, transposed ? 1 : 0) ||
      (!fewBits.hasBlocks() && tile.rows >= 4))
    return false;
  fewBits.pack(input, tile.columnQuads * 4);
  return true;
}

/// A constant that every batch uses lies as [k][columns, padded to the grid].
void Product::packRight() {
  ElementsAttr value = rootConstant(op, 1);
  bool shared = llvm::all_of(ArrayRef(b.t->dims).drop_back(2),
                             [](int64_t d) { return d == 1; });
  if (!value || !shared)
    return;
  // Operand numbers of the root and of the dispatch may differ.
  unsigned input =
      cast<BlockArgument>(onnx::getOptionalOperand(root, 1)).getArgNumber();
  few = packFewBits(input);
  if (few)
    return;
  auto bytes = packColumns(value, {{depth, b.rowStride}}, {n, b.columnStride},
                           tile.columnQuads * 4);
  if (bytes.empty())
    return;
  packed = &e.pack(input, b.t->element, std::move(bytes));
  packed->useVectors();
}

/// Where this batch begins, in `unit` elements.
Index Product::batchOffset(Buffer &t, int64_t unit) {
  SmallVector<int64_t> strides(batch.size(), 0);
  for (unsigned i = 0; i + 2 < t.rank(); ++i) {
    unsigned from = t.rank() - 3 - i, to = batch.size() - 1 - i;
    strides[to] = t.dims[from] == 1 ? 0 : t.strides[from] / unit;
  }
  return e.offset(batch, strides);
}

/// Where row `row` begins; in quads if it is read so.
Index Product::leftBase(Index row) {
  int64_t unit = a.t->lanes;
  return e.add(batchOffset(*a.t, unit), e.mul(row, a.rowStride / unit));
}

SmallVector<Value> Product::loadLeft(Index base, Index group) {
  if (a.t->lanes == 4)
    return splatLanes(e, e.loadQuad(*a.t, e.add(base, group)));
  SmallVector<Value> values;
  Index at = e.add(base, e.mul(group, step * a.columnStride));
  for (int64_t i = 0; i < step; ++i)
    values.push_back(e.quadSplat(e.load(*a.t, e.add(at, i * a.columnStride))));
  return values;
}

/// `base` is the invocation's first quad.
Value Product::loadRight(Index base, Index group, int64_t s, int64_t j) {
  if (packed)
    return e.loadQuad(*packed,
                      e.add(e.add(e.mul(group, step * tile.columnQuads), base),
                            s * tile.columnQuads + j));
  int64_t unit = b.t->lanes;
  Index row = e.add(
      e.add(batchOffset(*b.t, unit), e.mul(group, step * b.rowStride / unit)),
      s * b.rowStride / unit);
  Index quad = e.min(e.add(base, j), (n - 1) / 4);
  if (unit == 4)
    return e.loadQuad(*b.t, e.add(row, quad));
  SmallVector<Value> lanes;
  for (unsigned i = 0; i < 4; ++i) {
    Index column = e.min(e.add(e.mul(quad, 4), i), n - 1);
    lanes.push_back(e.load(*b.t, e.add(row, e.mul(column, b.columnStride))));
  }
  return e.quad(lanes);
}

LogicalResult Product::store(Value acc, Index row, Index quad) {
  Point p{batch, static_cast<int>(batch.size()) + 1};
  p.at.push_back(row);
  p.at.push_back(quad);
  if (gemm) {
    double alpha = onnx::getFloat(root, "alpha", 1),
           beta = onnx::getFloat(root, "beta", 1);
    Type type = acc.getType();
    if (alpha != 1)
      acc = e.mulF(acc, e.floatConst(type, alpha));
    if (c) {
      Value addend = fusion.loadBroadcast(*c, p);
      acc = e.addF(acc, beta == 1 ? addend
                                  : e.mulF(addend, e.floatConst(type, beta)));
    }
  }
  Type element =
      cast<ShapedType>(root->getResult(0).getType()).getElementType();
  return fusion.store(e.round(acc, element), p);
}

LogicalResult Product::emit() {
  if (failed(read()))
    return failure();
  tile = RowTile::choose(m, n);
  packRight();
  step = depth % 4 ? 1 : 4;
  if (step == 4 && a.columnStride == 1)
    a.t->useVectors();
  if (!packed && !few && n % 4 == 0 && b.columnStride == 1)
    b.t->useVectors();
  fusion.useVectors(fusion.dims().size() - 1);
  tile.setGrid(e, m, batches);
  batch = e.digits(e.groupId(2), fusion.dims().drop_back(2));
  Index quad = tile.firstQuad(e);
  TileRows rows(e, tile, m);
  SmallVector<Index> bases;
  for (int64_t i = 0; i < tile.rows; ++i)
    bases.push_back(leftBase(rows.at(e, i)));
  auto left = [&](int64_t i, Index group) { return loadLeft(bases[i], group); };
  SmallVector<Value> zeros = zeroAccumulators(e, tile);
  SmallVector<Value> acc =
      few ? fewBits.accumulate(tile, quad, step, zeros, left)
          : accumulate(e, tile, depth / step, step, zeros, left,
                       [&](Index group, int64_t s, int64_t j) {
                         return loadRight(quad, group, s, j);
                       });
  return storeTile(e, tile, rows, quad, n, [&](int64_t i, int64_t j) {
    return store(acc[i * tile.quads + j], rows.at(e, i), e.add(quad, j));
  });
}

static LogicalResult emitProduct(tsr::DispatchOp op, Emitter &e) {
  return Product(op, e).emit();
}
static Register product({"onnx.MatMul", "onnx.Gemm"}, emitProduct);

} // namespace tessera::vulkan

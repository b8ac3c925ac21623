// MatMulInteger by dot products of four bytes.
//
//   sum (a - za)(b - zb) = sum a' b' - za' (sum b' - K zb') - zb' sum a'
//
// where a', b' are signed: bytes of unsigned operands have their top bit
// flipped, which takes 128 from them and from their zero point. The right
// operand is packed at compile time as [K / 4][columns] words of four bytes,
// and what the second term needs of it as one row of words. Without the dot
// product of the GPU, bytes are taken apart by shifts.
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "mlir/Dialect/SPIRV/IR/SPIRVOps.h"
#include "targets/Vulkan/Kernels/RowTile.h"

#include <cstring>

using namespace mlir;

namespace tessera::vulkan {
namespace {

class IntegerProduct {
public:
  IntegerProduct(tsr::DispatchOp op, Emitter &e)
      : op(op), e(e), root(op.getRootOp()), fusion(op, e) {}
  LogicalResult emit();

private:
  LogicalResult read();
  void packRight();
  Value leftZero();
  Value word(Index row, Index k);
  Value dot(Value a, Value b, Value sum);
  SmallVector<Value> products(ArrayRef<Index> rows, Index quad);
  int64_t words() const { return (depth + 3) / 4; }

  tsr::DispatchOp op;
  Emitter &e;
  Operation *root;
  Fusion fusion;
  Buffer *a = nullptr, *aWords = nullptr, *b = nullptr, *terms = nullptr,
         *rightZeros = nullptr;
  SmallVector<int64_t> right, rightZero; ///< signed: b', zb' a column (or one)
  int64_t m = 0, n = 0, depth = 0;
  bool leftUnsigned = false;
  RowTile tile;
};

LogicalResult IntegerProduct::read() {
  a = rootBuffer(op, e, 0);
  Buffer *weight = rootBuffer(op, e, 1);
  ElementsAttr value = rootConstant(op, 1);
  if (!a || !weight || !value || weight->rank() != 2 || a->rank() < 2)
    return e.reasons.no()
           << "an integer product whose right operand is no constant matrix";
  if (!a->element.isInteger(8) || !weight->element.isInteger(8))
    return e.reasons.no() << "an integer product of "
                          << onnx::getTypeName(a->element);
  depth = weight->dims[0];
  n = weight->dims[1];
  m = a->count / std::max<int64_t>(depth, 1);
  if (depth == 0 || depth > 1 << 16)
    return e.reasons.no() << "an integer product over " << depth << " elements";
  leftUnsigned = a->element.isUnsignedInteger();
  int64_t flip = weight->element.isUnsignedInteger() ? 128 : 0;
  right = *onnx::getInts(value, int64_t(1) << 31);
  for (int64_t &v : right)
    v -= flip;
  rightZero = {-flip};
  if (onnx::getOptionalOperand(root, 3)) {
    ElementsAttr zero = rootConstant(op, 3);
    auto zeros = zero ? onnx::getInts(zero) : std::nullopt;
    if (!zeros ||
        (zeros->size() != 1 && static_cast<int64_t>(zeros->size()) != n))
      return e.reasons.no()
             << "a zero point of the right operand that is no constant";
    rightZero = *zeros;
    for (int64_t &z : rightZero)
      z -= flip;
  }
  if (auto type = onnx::getOptionalOperand(root, 2))
    if (cast<RankedTensorType>(type.getType()).getNumElements() != 1)
      return e.reasons.no() << "a zero point for each row of the left operand";
  return success();
}

static std::vector<uint8_t> bytesOf(ArrayRef<int32_t> words) {
  std::vector<uint8_t> bytes(words.size() * 4);
  std::memcpy(bytes.data(), words.data(), bytes.size());
  return bytes;
}

void IntegerProduct::packRight() {
  int64_t columns = tile.columnQuads * 4;
  std::vector<int32_t> packed(words() * columns, 0), term(columns, 0),
      zeros(columns, 0);
  for (int64_t j = 0; j < n; ++j) {
    int64_t zero = rightZero[rightZero.size() == 1 ? 0 : j],
            sum = -depth * zero;
    for (int64_t k = 0; k < depth; ++k) {
      int64_t v = right[k * n + j];
      sum += v;
      uint32_t byte = static_cast<uint32_t>(v & 0xff) << (8 * (k % 4));
      int32_t &to = packed[k / 4 * columns + j];
      to = static_cast<int32_t>(static_cast<uint32_t>(to) | byte);
    }
    term[j] = static_cast<int32_t>(sum);
    zeros[j] = static_cast<int32_t>(zero);
  }
  unsigned number =
      cast<BlockArgument>(onnx::getOptionalOperand(root, 1)).getArgNumber();
  auto make = [&](ArrayRef<int32_t> values) {
    Buffer &t = e.pack(number, e.i32(), bytesOf(values));
    t.useVectors();
    return &t;
  };
  b = make(packed);
  terms = make(term);
  if (llvm::any_of(rightZero, [](int64_t z) { return z != 0; }))
    rightZeros = make(zeros);
}

/// za' as i32.
Value IntegerProduct::leftZero() {
  int64_t flip = leftUnsigned ? 128 : 0;
  if (!onnx::getOptionalOperand(root, 2))
    return e.intConst(e.i32(), -flip);
  if (ElementsAttr zero = rootConstant(op, 2))
    return e.intConst(e.i32(), (*onnx::getInts(zero))[0] - flip);
  Value v = e.load(*rootBuffer(op, e, 2), 0);
  if (leftUnsigned)
    v = arith::ExtUIOp::create(e.b, e.loc, e.i32(), v);
  else
    v = arith::ExtSIOp::create(e.b, e.loc, e.i32(), v);
  return e.value(e.sub(v, flip));
}

/// Bytes [4 k, 4 k + 4) of a row, signed.
Value IntegerProduct::word(Index row, Index k) {
  Value w;
  if (aWords) {
    w = e.load(*aWords, e.add(e.mul(row, depth / 4), k));
  } else {
    for (unsigned i = 0; i < 4; ++i) { // past the end: something, times zero
      Index at =
          e.min(e.add(e.mul(row, depth), e.add(e.mul(k, 4), i)), a->count - 1);
      Value byte = arith::ExtUIOp::create(e.b, e.loc, e.i32(), e.load(*a, at));
      if (i)
        byte =
            arith::ShLIOp::create(e.b, e.loc, byte, e.intConst(e.i32(), 8 * i));
      w = w ? Value(arith::OrIOp::create(e.b, e.loc, w, byte)) : byte;
    }
  }
  if (leftUnsigned)
    w = arith::XOrIOp::create(
        e.b, e.loc, w, e.intConst(e.i32(), static_cast<int32_t>(0x80808080)));
  return w;
}

Value IntegerProduct::dot(Value x, Value y, Value sum) {
  if (e.device.has(Feature::DotProduct)) {
    auto format = spirv::PackedVectorFormatAttr::get(
        e.b.getContext(), spirv::PackedVectorFormat::PackedVectorFormat4x8Bit);
    return spirv::SDotAccSatOp::create(e.b, e.loc, e.i32(), x, y, sum, format);
  }
  auto byte = [&](Value w, unsigned i) -> Value {
    if (i < 3)
      w = arith::ShLIOp::create(e.b, e.loc, w, e.intConst(e.i32(), 24 - 8 * i));
    return arith::ShRSIOp::create(e.b, e.loc, w, e.intConst(e.i32(), 24));
  };
  for (unsigned i = 0; i < 4; ++i)
    sum = arith::AddIOp::create(
        e.b, e.loc, sum,
        arith::MulIOp::create(e.b, e.loc, byte(x, i), byte(y, i)));
  return sum;
}

/// rows * quads * 4 sums, then, with zero points of the right operand, the sum
/// of each row.
SmallVector<Value> IntegerProduct::products(ArrayRef<Index> rows, Index quad) {
  int64_t width = tile.quads * 4;
  SmallVector<Value> init(tile.rows * width + (rightZeros ? tile.rows : 0),
                          e.intConst(e.i32(), 0));
  int64_t step = aWords && words() % 4 == 0 ? 4 : 1; // words of a row at a time
  if (step == 4)
    aWords->useVectors();
  return e.loop(
      0, words() / step, 1, init, [&](Index group, ValueRange carried) {
        SmallVector<Value> sums(carried.begin(), carried.end());
        SmallVector<SmallVector<Value>> left(tile.rows);
        for (int64_t i = 0; i < tile.rows; ++i) {
          if (step == 1) {
            left[i].push_back(word(rows[i], group));
            continue;
          }
          Value four =
              e.loadQuad(*aWords, e.add(e.mul(rows[i], depth / 16), group));
          if (leftUnsigned)
            four = arith::XOrIOp::create(
                e.b, e.loc, four,
                e.intConst(four.getType(), static_cast<int32_t>(0x80808080)));
          for (unsigned s = 0; s < 4; ++s)
            left[i].push_back(e.lane(four, s));
        }
        for (int64_t s = 0; s < step; ++s)
          for (int64_t j = 0; j < tile.quads; ++j) {
            Index at = e.add(e.add(e.mul(group, step * tile.columnQuads), quad),
                             s * tile.columnQuads + j);
            Value columns = e.loadQuad(*b, at);
            for (unsigned l = 0; l < 4; ++l) {
              Value column = e.lane(columns, l);
              for (int64_t i = 0; i < tile.rows; ++i) {
                Value &sum = sums[i * width + j * 4 + l];
                sum = dot(left[i][s], column, sum);
              }
            }
          }
        if (rightZeros)
          for (int64_t i = 0; i < tile.rows; ++i)
            for (int64_t s = 0; s < step; ++s)
              sums[tile.rows * width + i] =
                  dot(left[i][s], e.intConst(e.i32(), 0x01010101),
                      sums[tile.rows * width + i]);
        return sums;
      });
}

LogicalResult IntegerProduct::emit() {
  if (failed(read()))
    return failure();
  tile = RowTile::choose(m, n);
  packRight();
  if (rightZeros && depth % 4)
    return e.reasons.no() << "an integer product over " << depth
                          << " elements with zero points on the right";
  if (depth % 4 == 0)
    aWords = &e.reinterpret(*a, e.i32());
  fusion.useVectors(fusion.dims().size() - 1);
  tile.setGrid(e, m, 1);
  Index row = tile.firstRow(e), quad = tile.firstQuad(e);
  SmallVector<Index> rows, clamped;
  for (int64_t i = 0; i < tile.rows; ++i) {
    rows.push_back(e.add(row, i));
    clamped.push_back(e.min(rows.back(), m - 1));
  }
  SmallVector<Value> sums = products(clamped, quad);
  Value zero = leftZero();
  LogicalResult result = success();
  int64_t width = tile.quads * 4;
  for (int64_t i = 0; i < tile.rows; ++i)
    e.when(e.lt(rows[i], m), [&] {
      for (int64_t j = 0; j < tile.quads; ++j) {
        Index at = e.add(quad, j);
        e.when(
            tile.columnQuads * 4 == n ? Value{} : e.lt(at, (n + 3) / 4), [&] {
              Value v = e.quad(ArrayRef(sums).slice(i * width + j * 4, 4));
              auto takeOff = [&](Buffer &t, Value factor) {
                Value product = arith::MulIOp::create(
                    e.b, e.loc, e.loadQuad(t, at), e.quadSplat(factor));
                v = arith::SubIOp::create(e.b, e.loc, v, product);
              };
              takeOff(*terms, zero);
              if (rightZeros)
                takeOff(*rightZeros, sums[tile.rows * width + i]);
              SmallVector<int64_t> outer(fusion.dims().drop_back(1));
              Point p{e.digits(rows[i], outer), static_cast<int>(outer.size())};
              p.at.push_back(at);
              if (failed(fusion.store(v, p)))
                result = failure();
            });
      }
    });
  return result;
}

LogicalResult emitIntegerProduct(tsr::DispatchOp op, Emitter &e) {
  return IntegerProduct(op, e).emit();
}
Register integerProduct({"onnx.MatMulInteger"}, emitIntegerProduct);

} // namespace
} // namespace tessera::vulkan

#include "targets/Vulkan/Kernels/FewBits.h"
#include "dialects/Onnx/IR/OnnxUtils.h"

#include <cstring>

using namespace mlir;

namespace tessera::vulkan {

bool FewBits::read(tsr::DispatchOp op, unsigned sumAxis) {
  from = onnx::dequantisedConstant(rootOperand(op, 1));
  if (!from || from->integers.rank() != 2)
    return false;
  auto element = cast<IntegerType>(from->integers.element());
  bits = element.getWidth();
  if (bits != 2 && bits != 4 && bits != 8)
    return false;
  flip = element.isUnsigned() ? 0 : int64_t(1) << (bits - 1);
  ArrayRef<int64_t> dims = from->integers.shape();
  depth = dims[sumAxis];
  columns = dims[1 - sumAxis];
  strides = {sumAxis == 0 ? columns : 1, sumAxis == 0 ? 1 : depth};
  block = depth;
  if (from->axis < 0) // one for all
    return depth > 0;
  bool alongSum = from->axis == static_cast<int64_t>(sumAxis);
  if (from->block == 0) { // one a column
    blockStrides = {0, 1};
    return depth > 0 && !alongSum;
  }
  if (!alongSum || from->scale.rank() != 2 || from->block % perWord() != 0)
    return false;
  block = from->block;
  int64_t blocks = from->scale.shape()[sumAxis];
  blockStrides = {sumAxis == 0 ? columns : 1, sumAxis == 0 ? 1 : blocks};
  return depth > 0 && blocks == (depth + block - 1) / block &&
         from->scale.shape()[1 - sumAxis] == columns;
}

/// In stripes of columns, so that a transposition reads whole cache lines.
std::vector<uint8_t> FewBits::packIntegers(int64_t width) const {
  constexpr int64_t stripe = 64;
  int64_t rows = (depth + perWord() - 1) / perWord();
  uint32_t mask = (1u << bits) - 1, turn = flip;
  std::vector<uint32_t> packed(rows * width, 0);
  for (int64_t first = 0; first < columns; first += stripe) {
    int64_t count = std::min(stripe, columns - first), apart = strides[1];
    for (int64_t k = 0; k < depth; ++k) {
      const char *q = from->integers.data() + k * strides[0] + first * apart;
      uint32_t *row = packed.data() + k / perWord() * width + first;
      unsigned shift = k % perWord() * bits;
      for (int64_t n = 0; n < count; ++n) // a byte each
        row[n] |= ((static_cast<uint32_t>(q[n * apart]) ^ turn) & mask)
                  << shift;
    }
  }
  std::vector<uint8_t> bytes(packed.size() * 4);
  std::memcpy(bytes.data(), packed.data(), bytes.size());
  return bytes;
}

void FewBits::pack(unsigned input, int64_t width) {
  columnQuads = width / 4;
  words = &e.pack(input, e.i32(), packIntegers(width));
  words->useVectors();

  int64_t blocks = (depth + block - 1) / block;
  size_t size = from->scale.elementBytes();
  std::vector<uint8_t> scale(blocks * width * size, 0);
  for (int64_t i = 0; i < blocks; ++i)
    for (int64_t n = 0; n < columns; ++n)
      std::memcpy(scale.data() + (i * width + n) * size,
                  from->scale.data() +
                      (i * blockStrides[0] + n * blockStrides[1]) * size,
                  size);
  scales = &e.pack(input, from->scale.element(), std::move(scale));
  scales->useVectors();
  packZeros(input, width);
}

/// A byte each, four columns a word, unless all are the same.
void FewBits::packZeros(unsigned input, int64_t width) {
  oneZero = flip;
  if (!from->zero)
    return;
  if (from->zero->isUniform() && from->zero->size() > 0) {
    oneZero = from->zero->integer(0) + flip;
    return;
  }
  int64_t blocks = (depth + block - 1) / block;
  std::vector<uint8_t> bytes(blocks * width, 0);
  for (int64_t i = 0; i < blocks; ++i)
    for (int64_t n = 0; n < columns; ++n)
      bytes[i * width + n] =
          from->zero->integer(i * blockStrides[0] + n * blockStrides[1]) + flip;
  zeros = &e.pack(input, e.i32(), std::move(bytes));
}

static Value lowBits(Emitter &e, Value quad, int64_t bits) {
  return arith::AndIOp::create(e.b, e.loc, quad,
                               e.intConst(quad.getType(), (1 << bits) - 1));
}

static Value toFloat(Emitter &e, Value quad) {
  return arith::SIToFPOp::create(e.b, e.loc, e.quadOf(e.f32()), quad);
}

FewBits::Parameters FewBits::parameters(Index at, Index quad) {
  Index where = e.add(e.mul(at, columnQuads), quad);
  Type type = e.quadOf(e.f32());
  Parameters p{e.loadQuad(*scales, where), {}};
  if (!zeros) {
    if (oneZero != 0)
      p.zero = e.floatConst(type, oneZero);
    return p;
  }
  SmallVector<Value> shifts;
  for (int64_t l = 0; l < 4; ++l)
    shifts.push_back(e.intConst(e.i32(), 8 * l));
  Value four = e.quadSplat(e.load(*zeros, where));
  Value bytes = arith::ShRUIOp::create(e.b, e.loc, four, e.quad(shifts));
  p.zero = toFloat(e, lowBits(e, bytes, 8));
  return p;
}

/// Integer `i` of each word.
Value FewBits::multiplyOut(Value four, int64_t i, const Parameters &p) {
  Value q = four;
  if (i > 0)
    q = arith::ShRUIOp::create(e.b, e.loc, q,
                               e.intConst(q.getType(), i * bits));
  if (i + 1 < perWord())
    q = lowBits(e, q, bits);
  Value v = toFloat(e, q);
  if (p.zero)
    v = e.subF(v, p.zero);
  return e.round(e.mulF(v, p.scale), from->scale.element());
}

/// The first `count` steps of word `word`.
SmallVector<Value> FewBits::addWord(const RowTile &tile, Index quad,
                                    int64_t step, Index word, int64_t count,
                                    ArrayRef<Parameters> p, ValueRange acc,
                                    LoadRow loadRow) {
  SmallVector<Value> sums(acc.begin(), acc.end()), four;
  for (int64_t j = 0; j < tile.quads; ++j)
    four.push_back(
        e.loadQuad(*words, e.add(e.mul(word, columnQuads), e.add(quad, j))));
  for (int64_t first = 0; first < count; first += step) {
    SmallVector<SmallVector<Value>> a;
    for (int64_t i = 0; i < tile.rows; ++i)
      a.push_back(
          loadRow(i, e.add(e.mul(word, perWord() / step), first / step)));
    for (int64_t s = 0; s < step; ++s)
      for (int64_t j = 0; j < tile.quads; ++j) {
        Value b = multiplyOut(four[j], first + s, p[j]);
        for (int64_t i = 0; i < tile.rows; ++i) {
          Value &sum = sums[i * tile.quads + j];
          sum = e.fma(a[i][s], b, sum);
        }
      }
  }
  return sums;
}

SmallVector<Value> FewBits::accumulate(const RowTile &tile, Index quad,
                                       int64_t step, ValueRange acc,
                                       LoadRow loadRow) {
  auto addBlock = [&](Index at, int64_t count, ValueRange sums) {
    SmallVector<Parameters> p;
    for (int64_t j = 0; j < tile.quads; ++j)
      p.push_back(parameters(at, e.add(quad, j)));
    Index first = e.mul(at, block / perWord());
    int64_t whole = count / perWord();
    SmallVector<Value> result =
        e.loop(0, whole, 1, sums, [&](Index i, ValueRange carried) {
          return addWord(tile, quad, step, e.add(first, i), perWord(), p,
                         carried, loadRow);
        });
    if (int64_t rest = count % perWord())
      result = addWord(tile, quad, step, e.add(first, whole), rest, p, result,
                       loadRow);
    return result;
  };
  SmallVector<Value> sums =
      e.loop(0, depth / block, 1, acc, [&](Index at, ValueRange carried) {
        return addBlock(at, block, carried);
      });
  if (int64_t rest = depth % block)
    sums = addBlock(depth / block, rest, sums);
  return sums;
}

} // namespace tessera::vulkan

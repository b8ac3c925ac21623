#include "targets/Vulkan/Kernels/Bytes.h"
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "mlir/Dialect/SPIRV/IR/SPIRVOps.h"

using namespace mlir;

namespace tessera::vulkan {

// --- operands
// ------------------------------------------------------------------------

LogicalResult ByteProduct::read(int64_t columns) {
  a = rootBuffer(op, e, 0);
  b = rootBuffer(op, e, 1);
  value = rootConstant(op, 1);
  SmallVector<char> storage;
  if (!a || !b || !value || !onnx::getRawBytes(value, storage))
    return e.reasons.no()
           << "an integer product whose right operand is no constant";
  for (Buffer *t : {a, b})
    if (onnx::getStorageBits(t->element) != 8)
      return e.reasons.no()
             << "an integer product of " << onnx::getTypeName(t->element);
  leftUnsigned = a->element.isUnsignedInteger();
  rightUnsigned = b->element.isUnsignedInteger();
  int64_t flip = rightUnsigned ? 128 : 0;
  rightZero = {-flip};
  if (onnx::getOptionalOperand(root, 3)) {
    ElementsAttr zero = rootConstant(op, 3);
    auto zeros = zero ? onnx::getInts(zero) : std::nullopt;
    if (!zeros ||
        (zeros->size() != 1 && static_cast<int64_t>(zeros->size()) != columns))
      return e.reasons.no() << "a zero point of the right operand that is no "
                               "constant, a column or one for all";
    rightZero = *zeros;
    for (int64_t &z : rightZero)
      z -= flip;
  }
  if (Value zero = onnx::getOptionalOperand(root, 2))
    if (cast<RankedTensorType>(zero.getType()).getNumElements() != 1)
      return e.reasons.no() << "a zero point for each row of the left operand";
  return success();
}

unsigned ByteProduct::rightNumber() const {
  return cast<BlockArgument>(onnx::getOptionalOperand(root, 1)).getArgNumber();
}

Buffer &ByteProduct::packWordsOf(ArrayRef<int32_t> words) {
  Buffer &t = e.pack(rightNumber(), e.i32(), bytesOf(words));
  t.useVectors();
  return t;
}

static int64_t signedByte(char byte, bool flip) {
  return static_cast<int8_t>(static_cast<uint8_t>(byte) ^ (flip ? 0x80 : 0));
}

/// Sums of each column's b', of all that is in `rows`.
static SmallVector<int64_t> columnSums(ArrayRef<char> raw, bool flip,
                                       ArrayRef<PackAxis> rows,
                                       PackAxis columns) {
  SmallVector<int64_t> offsets{0};
  for (PackAxis axis : rows) {
    SmallVector<int64_t> further;
    for (int64_t offset : offsets)
      for (int64_t i = 0; i < axis.count; ++i)
        further.push_back(offset + i * axis.stride);
    offsets = std::move(further);
  }
  SmallVector<int64_t> sums;
  for (int64_t n = 0; n < columns.count; ++n) {
    const char *column = raw.data() + n * columns.stride;
    int64_t sum = 0;
    for (int64_t offset : offsets)
      sum += signedByte(column[offset], flip);
    sums.push_back(sum);
  }
  return sums;
}

LogicalResult ByteProduct::pack(int64_t groups, ArrayRef<PackAxis> outer,
                                PackAxis depth, PackAxis columns, int64_t width,
                                int64_t slices) {
  // All that is added up before the end, terms included: dot products saturate.
  constexpr int64_t longest = INT32_MAX / (128 * 255 + 128 * 128);
  int64_t length = depth.count;
  for (PackAxis axis : outer.drop_front())
    length *= axis.count;
  if (length == 0 || length > longest)
    return e.reasons.no() << "an integer product over " << length
                          << " elements";
  packed = &e.pack(
      rightNumber(), e.i32(),
      packWords(value, outer, depth, columns, width, rightUnsigned ? 0x80 : 0));
  packed->useVectors();
  packTerms(groups, outer, depth, columns, width, slices);
  return success();
}

void ByteProduct::packTerms(int64_t groups, ArrayRef<PackAxis> outer,
                            PackAxis depth, PackAxis columns, int64_t width,
                            int64_t slices) {
  SmallVector<char> storage;
  ArrayRef<char> raw = *onnx::getRawBytes(value, storage);
  SmallVector<PackAxis> rows(outer.drop_front());
  rows.push_back(depth);
  rows[0].count /= slices;
  int64_t length = 1; // of a slice
  for (PackAxis axis : rows)
    length *= axis.count;
  int64_t size = groups * width;
  SmallVector<int32_t> term((slices + 1) * size, 0), zeros(size, 0);
  auto known = knownLeftZero();
  for (int64_t slice = 0; slice < slices; ++slice)
    for (int64_t g = 0; g < groups; ++g) {
      int64_t first =
          g * outer[0].stride + slice * rows[0].count * rows[0].stride;
      SmallVector<int64_t> sums =
          columnSums(raw.drop_front(first), rightUnsigned, rows, columns);
      for (int64_t n = 0; n < columns.count; ++n) {
        int64_t zero = zeroOf(g * columns.count + n),
                sum = sums[n] - length * zero, at = g * width + n;
        // A known zero point's term is what the sums begin with.
        term[(slice + 1) * size + at] =
            term[slice * size + at] +
            static_cast<int32_t>(known ? -*known * sum : sum);
        zeros[at] = static_cast<int32_t>(zero);
      }
    }
  if (slices == 1)
    term.erase(term.begin(), term.begin() + size);
  termQuads = size / 4;
  if (!known || llvm::any_of(term, [](int32_t t) { return t != 0; }))
    terms = &packWordsOf(term);
  if (llvm::any_of(zeros, [](int32_t z) { return z != 0; }))
    rightZeros = &packWordsOf(zeros);
}

Buffer &ByteProduct::packDifferences(PackAxis rows, PackAxis columns) {
  SmallVector<char> storage;
  ArrayRef<char> raw = *onnx::getRawBytes(value, storage);
  SmallVector<int32_t> words;
  for (int64_t k = 0; k < rows.count; ++k)
    for (int64_t n = 0; n < columns.count; ++n)
      words.push_back(static_cast<int32_t>(
          signedByte(raw[k * rows.stride + n * columns.stride], rightUnsigned) -
          zeroOf(n)));
  return packWordsOf(words);
}

// --- code
// ----------------------------------------------------------------------------

std::optional<int64_t> ByteProduct::knownLeftZero() const {
  int64_t flip = leftUnsigned ? 128 : 0;
  if (!onnx::getOptionalOperand(root, 2))
    return -flip;
  ElementsAttr zero = rootConstant(op, 2);
  auto numbers = zero ? onnx::getInts(zero) : std::nullopt;
  if (!numbers)
    return std::nullopt;
  return (*numbers)[0] - flip;
}

Value ByteProduct::leftZero() {
  if (auto known = knownLeftZero())
    return e.intConst(e.i32(), *known);
  Value v = e.load(*rootBuffer(op, e, 2), 0);
  if (!leftUnsigned)
    return arith::ExtSIOp::create(e.b, e.loc, e.i32(), v);
  v = arith::ExtUIOp::create(e.b, e.loc, e.i32(), v);
  return arith::SubIOp::create(e.b, e.loc, v, e.intConst(e.i32(), 128));
}

Value ByteProduct::zeroWord() {
  if (auto known = knownLeftZero())
    return e.intConst(e.i32(),
                      static_cast<int32_t>((*known & 0xff) * 0x01010101));
  Value byte =
      arith::AndIOp::create(e.b, e.loc, leftZero(), e.intConst(e.i32(), 0xff));
  return arith::MulIOp::create(e.b, e.loc, byte,
                               e.intConst(e.i32(), 0x01010101));
}

Value ByteProduct::signedWords(Value words) {
  if (!leftUnsigned)
    return words;
  return arith::XOrIOp::create(
      e.b, e.loc, words,
      e.intConst(words.getType(), static_cast<int32_t>(0x80808080)));
}

Value ByteProduct::gatherWord(Index at, int64_t stride, int64_t count) {
  Value word;
  for (int64_t i = 0; i < std::min<int64_t>(count, 4); ++i) {
    Index place = e.min(e.add(at, i * stride), a->count - 1);
    Value byte = arith::ExtUIOp::create(e.b, e.loc, e.i32(), e.load(*a, place));
    if (i)
      byte =
          arith::ShLIOp::create(e.b, e.loc, byte, e.intConst(e.i32(), 8 * i));
    word = word ? Value(arith::OrIOp::create(e.b, e.loc, word, byte)) : byte;
  }
  return signedWords(word);
}

Value ByteProduct::difference(Value bytes) {
  Type wide = e.i32();
  if (auto vector = dyn_cast<VectorType>(bytes.getType()))
    wide = e.quadOf(wide);
  Value zero = leftZero();
  Value v;
  if (leftUnsigned) {
    v = arith::ExtUIOp::create(e.b, e.loc, wide, bytes);
    zero = arith::AddIOp::create(e.b, e.loc, zero, e.intConst(e.i32(), 128));
  } else {
    v = arith::ExtSIOp::create(e.b, e.loc, wide, bytes);
  }
  if (isa<VectorType>(wide))
    zero = e.quadSplat(zero);
  return arith::SubIOp::create(e.b, e.loc, v, zero);
}

Value ByteProduct::dot(Value x, Value y, Value sum) {
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

Value ByteProduct::rowSum(Value x, Value sum) {
  return dot(x, e.intConst(e.i32(), 0x01010101), sum);
}

Value ByteProduct::termOf(Index at) {
  auto before = [&](Index slice) {
    return e.loadQuad(*terms, e.add(e.mul(slice, termQuads), at));
  };
  if (!sliced)
    return e.loadQuad(*terms, at);
  return arith::SubIOp::create(e.b, e.loc, before(sliced->second),
                               before(sliced->first));
}

Value ByteProduct::initial(Index at) {
  if (!knownLeftZero() || !terms)
    return {};
  return termOf(at);
}

Value ByteProduct::finish(Value sums, Index at, Value rowSum) {
  auto takeOff = [&](Value term, Value factor) {
    Value product =
        arith::MulIOp::create(e.b, e.loc, term, e.quadSplat(factor));
    sums = arith::SubIOp::create(e.b, e.loc, sums, product);
  };
  if (!knownLeftZero())
    takeOff(termOf(at), leftZero());
  if (rightZeros)
    takeOff(e.loadQuad(*rightZeros, at), rowSum);
  return sums;
}

} // namespace tessera::vulkan

#include "passes/Canonicalise/HostTensor.h"
#include "dialects/Onnx/IR/NarrowFloats.h"

#include "mlir/IR/DialectResourceBlobManager.h"
#include "llvm/ADT/APFloat.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace mlir;

namespace tessera::onnx {

namespace {

// Bytes of one unpacked element, 0 for types that folding does not hold.
size_t unpackedBytes(Type t) {
  if (auto c = dyn_cast<ComplexType>(t))
    return 2 * unpackedBytes(c.getElementType());
  if (!t.isIntOrFloat())
    return 0;
  unsigned bits = t.getIntOrFloatBitWidth();
  if (bits > 64 || bits == 6)
    return 0;
  return bits <= 8 ? 1 : bits / 8;
}

unsigned bitsOf(Type t) { return t.isIntOrFloat() ? t.getIntOrFloatBitWidth() : 8; }

template <typename T> T load(const char *p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
template <typename T> void store(char *p, T v) { std::memcpy(p, &v, sizeof v); }

uint16_t toBf16(double v) {
  llvm::APFloat f(v);
  bool lost;
  f.convert(llvm::APFloat::BFloat(), llvm::APFloat::rmNearestTiesToEven, &lost);
  return (uint16_t)f.bitcastToAPInt().getZExtValue();
}

// Keeps the low bits of a sub-byte integer and extends them to the byte.
char extend(int64_t v, IntegerType t) {
  unsigned w = t.getWidth();
  if (w >= 8)
    return (char)v;
  uint64_t low = (uint64_t)v & ((1u << w) - 1);
  if (w > 1 && !t.isUnsigned() && (low >> (w - 1)))
    low |= ~(uint64_t)((1u << w) - 1);
  return (char)low;
}

} // namespace

SmallVector<int64_t> rowMajorStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> s(shape.size(), 1);
  for (int64_t i = (int64_t)shape.size() - 2; i >= 0; --i)
    s[i] = s[i + 1] * shape[i + 1];
  return s;
}

int64_t elementCount(ArrayRef<int64_t> shape) {
  int64_t n = 1;
  for (int64_t d : shape)
    n *= d;
  return n;
}

std::optional<SmallVector<int64_t>> broadcastShapes(ArrayRef<int64_t> a, ArrayRef<int64_t> b) {
  SmallVector<int64_t> out(std::max(a.size(), b.size()));
  for (size_t i = 0; i < out.size(); ++i) {
    int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1;
    int64_t y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1)
      return std::nullopt;
    out[out.size() - 1 - i] = x == 1 ? y : x;
  }
  return out;
}

bool HostTensor::supported(Type element) { return unpackedBytes(element) != 0; }

HostTensor::HostTensor(Type element, ArrayRef<int64_t> shape)
    : elementType(element), dims(shape), count(elementCount(shape)),
      bytesEach(unpackedBytes(element)) {
  owned = std::make_shared<std::vector<char>>(byteSize());
  bytes = owned->data();
}

char *HostTensor::mutableData() {
  if (!owned || owned.use_count() > 1) {
    owned = std::make_shared<std::vector<char>>(bytes, bytes + byteSize());
    bytes = owned->data();
  }
  return owned->data();
}

std::optional<HostTensor> HostTensor::read(ElementsAttr attr) {
  auto type = dyn_cast<RankedTensorType>(attr.getShapedType());
  if (!type || !type.hasStaticShape() || !supported(type.getElementType()))
    return std::nullopt;
  HostTensor t;
  t.elementType = type.getElementType();
  t.dims.assign(type.getShape().begin(), type.getShape().end());
  t.count = elementCount(t.dims);
  t.bytesEach = unpackedBytes(t.elementType);
  unsigned bits = bitsOf(t.elementType);

  if (auto resource = dyn_cast<DenseResourceElementsAttr>(attr)) {
    AsmResourceBlob *blob = resource.getRawHandle().getBlob();
    if (!blob)
      return std::nullopt;
    ArrayRef<char> raw = blob->getData();
    if (bits >= 8 || t.isBool()) {
      if (raw.size() < t.byteSize())
        return std::nullopt;
      t.bytes = raw.data();
      return t;
    }
    // Sub-byte elements are packed, the first in the low bits, as in raw_data.
    int64_t perByte = 8 / bits, codes = int64_t(1) << bits;
    if (raw.size() < (size_t)llvm::divideCeil(t.count, perByte))
      return std::nullopt;
    t.owned = std::make_shared<std::vector<char>>(t.count);
    t.bytes = t.owned->data();
    auto integer = dyn_cast<IntegerType>(t.elementType);
    std::array<char, 16> unpacked = {};
    for (int64_t v = 0; v < codes; ++v)
      unpacked[v] = integer ? extend(v, integer) : (char)v;
    char *to = t.owned->data();
    for (int64_t i = 0; i < t.count; i += perByte) {
      unsigned packed = (uint8_t)raw[i / perByte];
      for (int64_t end = std::min(t.count, i + perByte), k = i; k < end; ++k, packed >>= bits)
        to[k] = unpacked[packed & (codes - 1)];
    }
    return t;
  }

  auto dense = dyn_cast<DenseElementsAttr>(attr);
  if (!dense)
    return std::nullopt;
  if (t.isBool() || bits < 8) {
    t.owned = std::make_shared<std::vector<char>>(t.count);
    t.bytes = t.owned->data();
    int64_t i = 0;
    if (t.isBool()) {
      for (bool b : dense.getValues<bool>())
        (*t.owned)[i++] = b;
    } else if (auto integer = dyn_cast<IntegerType>(t.elementType)) {
      for (const APInt &v : dense.getValues<APInt>())
        (*t.owned)[i++] = extend((int64_t)v.getZExtValue(), integer);
    } else {
      for (const APFloat &v : dense.getValues<APFloat>())
        (*t.owned)[i++] = (char)v.bitcastToAPInt().getZExtValue();
    }
    return t;
  }
  ArrayRef<char> raw = dense.getRawData();
  if (dense.isSplat()) {
    t.owned = std::make_shared<std::vector<char>>(t.byteSize());
    t.bytes = t.owned->data();
    for (int64_t i = 0; i < t.count; ++i)
      std::memcpy(t.owned->data() + i * t.bytesEach, raw.data(), t.bytesEach);
  } else {
    t.bytes = raw.data();
  }
  return t;
}

ElementsAttr HostTensor::attribute() const {
  RankedTensorType ty = type();
  unsigned bits = bitsOf(elementType);
  // A resource keeps big payloads out of the context's uniquing tables.
  constexpr int64_t kInlineElements = 64;
  if (count > kInlineElements && (bits >= 8 || isBool())) {
    AsmResourceBlob blob =
        HeapAsmResourceBlob::allocateAndCopyWithAlign(ArrayRef<char>(bytes, byteSize()), 64, false);
    return DenseResourceElementsAttr::get(ty, "folded", std::move(blob));
  }
  if (count > kInlineElements) {
    unsigned stored = bits, perByte = 8 / bits;
    std::vector<char> packed(llvm::divideCeil(count, perByte));
    for (int64_t i = 0; i < count; ++i)
      packed[i / perByte] |= (char)(((uint8_t)bytes[i] & ((1u << stored) - 1))
                                    << ((i % perByte) * stored));
    AsmResourceBlob blob = HeapAsmResourceBlob::allocateAndCopyWithAlign(packed, 64, false);
    return DenseResourceElementsAttr::get(ty, "folded", std::move(blob));
  }
  if (isBool()) {
    SmallVector<bool> v;
    for (int64_t i = 0; i < count; ++i)
      v.push_back(bytes[i] != 0);
    return DenseElementsAttr::get(ty, v);
  }
  if (bits < 8) {
    SmallVector<APInt> v;
    for (int64_t i = 0; i < count; ++i)
      v.push_back(APInt(bits, (uint8_t)bytes[i] & ((1u << bits) - 1)));
    if (isInteger())
      return DenseElementsAttr::get(ty, v);
    SmallVector<APFloat> f;
    for (const APInt &x : v)
      f.push_back(APFloat(cast<FloatType>(elementType).getFloatSemantics(), x));
    return DenseElementsAttr::get(ty, f);
  }
  return DenseElementsAttr::getFromRawBuffer(ty, ArrayRef<char>(bytes, byteSize()));
}

double HostTensor::real(int64_t i) const {
  const char *p = bytes + i * bytesEach;
  if (elementType.isF32())
    return load<float>(p);
  if (elementType.isF64())
    return load<double>(p);
  if (elementType.isF16())
    return fromF16(load<uint16_t>(p));
  if (elementType.isBF16())
    return fromBf16(load<uint16_t>(p));
  if (auto f = dyn_cast<FloatType>(elementType)) {
    uint64_t raw = bytesEach == 1 ? load<uint8_t>(p) : load<uint16_t>(p);
    APFloat v(f.getFloatSemantics(), APInt(f.getWidth(), raw, false, true));
    bool lost;
    v.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
    return v.convertToDouble();
  }
  if (isUnsigned())
    return (double)(uint64_t)integer(i);
  return (double)integer(i);
}

int64_t HostTensor::integer(int64_t i) const {
  const char *p = bytes + i * bytesEach;
  bool u = isUnsigned();
  switch (bytesEach) {
  case 1:
    return u || isBool() ? (int64_t)load<uint8_t>(p) : (int64_t)load<int8_t>(p);
  case 2:
    return u ? (int64_t)load<uint16_t>(p) : (int64_t)load<int16_t>(p);
  case 4:
    return u ? (int64_t)load<uint32_t>(p) : (int64_t)load<int32_t>(p);
  default:
    return load<int64_t>(p);
  }
}

/// Rounds to nearest even; weights of whole models pass here.
static uint16_t toF16(double v) {
  uint64_t bits = llvm::bit_cast<uint64_t>(v), fraction = bits & ((uint64_t(1) << 52) - 1);
  uint16_t sign = bits >> 48 & 0x8000;
  int exponent = (int)(bits >> 52 & 0x7ff) - 1023;
  if (exponent == 1024) // NaN stays one, quiet
    return sign | 0x7c00 | (fraction ? 0x200 | fraction >> 42 : 0);
  if (exponent > 15)
    return sign | 0x7c00;
  int drop = 42;
  uint64_t kept = fraction;
  if (exponent < -14) { // subnormal: the leading one becomes explicit
    drop += -14 - exponent;
    kept |= uint64_t(1) << 52;
    if (drop > 53)
      return sign;
  } else {
    kept |= (uint64_t)(exponent + 15) << 52;
  }
  uint64_t rest = kept & ((uint64_t(1) << drop) - 1), half = uint64_t(1) << (drop - 1);
  kept >>= drop;
  kept += rest > half || (rest == half && (kept & 1)); // may carry into the exponent
  return sign | (uint16_t)kept;
}

void HostTensor::setReal(int64_t i, double v) {
  char *p = owned->data() + i * bytesEach;
  if (elementType.isF32())
    return store(p, (float)v);
  if (elementType.isF64())
    return store(p, v);
  if (elementType.isBF16())
    return store(p, toBf16(v));
  if (elementType.isF16())
    return store(p, toF16(v));
  auto f = cast<FloatType>(elementType);
  APFloat a(v);
  bool lost;
  a.convert(f.getFloatSemantics(), APFloat::rmNearestTiesToEven, &lost);
  uint64_t raw = a.bitcastToAPInt().getZExtValue();
  if (bytesEach == 2)
    store(p, (uint16_t)raw);
  else
    store(p, (uint8_t)raw);
}

void HostTensor::setInteger(int64_t i, int64_t v) {
  char *p = owned->data() + i * bytesEach;
  switch (bytesEach) {
  case 1:
    *p = isBool() ? (char)(v != 0) : extend(v, cast<IntegerType>(elementType));
    return;
  case 2:
    return store(p, (int16_t)v);
  case 4:
    return store(p, (int32_t)v);
  default:
    return store(p, v);
  }
}

SmallVector<int64_t> HostTensor::integers() const {
  SmallVector<int64_t> out;
  out.reserve(count);
  for (int64_t i = 0; i < count; ++i)
    out.push_back(integer(i));
  return out;
}

HostTensor HostTensor::reshaped(ArrayRef<int64_t> shape) const {
  HostTensor t = *this;
  t.dims.assign(shape.begin(), shape.end());
  return t;
}

HostTensor HostTensor::strided(ArrayRef<int64_t> shape, int64_t offset,
                               ArrayRef<int64_t> strides) const {
  HostTensor out(elementType, shape);
  if (out.count == 0)
    return out;
  char *dst = out.owned->data();
  size_t w = bytesEach;
  int64_t rank = shape.size();
  int64_t inner = rank ? shape[rank - 1] : 1;
  int64_t step = rank ? strides[rank - 1] : 1;
  SmallVector<int64_t> index(rank, 0);
  int64_t at = offset;
  for (int64_t done = 0; done < out.count; done += inner) {
    const char *src = bytes + at * (int64_t)w;
    if (step == 1) {
      std::memcpy(dst, src, inner * w);
      dst += inner * w;
    } else {
      for (int64_t i = 0; i < inner; ++i, dst += w, src += step * (int64_t)w)
        std::memcpy(dst, src, w);
    }
    for (int64_t a = rank - 2; a >= 0; --a) {
      at += strides[a];
      if (++index[a] < shape[a])
        break;
      at -= strides[a] * shape[a];
      index[a] = 0;
    }
  }
  return out;
}

bool HostTensor::isUniform() const {
  for (int64_t i = 1; i < count; ++i)
    if (std::memcmp(bytes, bytes + i * bytesEach, bytesEach))
      return false;
  return count > 0;
}

std::optional<HostTensor> HostTensor::cast(Type to, bool saturate) const {
  if (to == elementType)
    return *this;
  if (!supported(to) || isa<ComplexType>(to) || isa<ComplexType>(elementType) ||
      isa<Float8E8M0FNUType>(to) || isa<Float8E8M0FNUType>(elementType))
    return std::nullopt;
  HostTensor out(to, dims);
  bool fromFloat = isFloat();
  if (auto f = dyn_cast<FloatType>(to)) {
    bool small = f.getWidth() <= 8;
    double largest = 0;
    if (small) {
      APFloat m = APFloat::getLargest(f.getFloatSemantics());
      bool lost;
      m.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
      largest = m.convertToDouble();
    }
    for (int64_t i = 0; i < count; ++i) {
      if (!fromFloat && !small && f.getWidth() >= 32) {
        // One rounding from 64-bit integers, not two.
        int64_t v = integer(i);
        if (f.isF32())
          store(out.owned->data() + i * 4, isUnsigned() ? (float)(uint64_t)v : (float)v);
        else
          store(out.owned->data() + i * 8, isUnsigned() ? (double)(uint64_t)v : (double)v);
        continue;
      }
      double v = real(i);
      if (f.getWidth() == 4) {
        if (std::isnan(v)) // the specification's data has negative zero here
          v = -0.0;
        v = std::clamp(v, -largest, largest);
      } else if (small && saturate && !std::isnan(v)) {
        v = std::clamp(v, -largest, largest);
      }
      out.setReal(i, v);
    }
    return out;
  }
  auto integerType = llvm::cast<IntegerType>(to);
  unsigned w = integerType.getWidth();
  for (int64_t i = 0; i < count; ++i) {
    if (w == 1) {
      out.setInteger(i, fromFloat ? real(i) != 0 : integer(i) != 0);
      continue;
    }
    if (!fromFloat) {
      out.setInteger(i, integer(i));
      continue;
    }
    double v = real(i);
    if (std::isnan(v)) {
      out.setInteger(i, 0);
      continue;
    }
    v = std::trunc(v);
    if (integerType.isUnsigned() && w >= 8) {
      double top = std::ldexp(1.0, w);
      uint64_t u = v <= 0 ? 0 : v >= top ? (w == 64 ? ~0ull : (1ull << w) - 1) : (uint64_t)v;
      out.setInteger(i, (int64_t)u);
    } else {
      unsigned sw = w < 8 ? 32 : w; // sub-byte integers wrap
      double top = std::ldexp(1.0, sw - 1);
      int64_t s = v >= top    ? (int64_t)(((uint64_t)1 << (sw - 1)) - 1)
                  : v < -top ? -(int64_t)((uint64_t)1 << (sw - 2)) * 2
                             : (int64_t)v;
      out.setInteger(i, s);
    }
  }
  return out;
}

} // namespace tessera::onnx

#include "dialects/Onnx/IR/OnnxUtils.h"
#include "dialects/Onnx/IR/NarrowFloats.h"
#include "dialects/Onnx/IR/OpsCore.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/Support/MathExtras.h"

#include <cstring>

using namespace mlir;

namespace tessera::onnx {

//===----------------------------------------------------------------------===//
// Values by schema position
//===----------------------------------------------------------------------===//

// Sizes of the formal parameters, in values; the last entry of a list without
// segment attribute follows from the total.
static SmallVector<int32_t> segments(Operation *op, StringRef kinds, StringRef attrName,
                                     int32_t total) {
  if (auto sizes = op->getAttrOfType<DenseI32ArrayAttr>(attrName))
    return SmallVector<int32_t>(sizes.asArrayRef());
  int32_t flexible = total - (int32_t)kinds.count('1');
  SmallVector<int32_t> result;
  for (char kind : kinds)
    result.push_back(kind == '1' ? 1 : flexible);
  return result;
}

static SmallVector<int32_t> operandSegments(Operation *op) {
  auto iface = dyn_cast<OnnxOp>(op);
  if (!iface)
    return SmallVector<int32_t>(op->getNumOperands(), 1);
  return segments(op, iface.getInputKinds(), "operandSegmentSizes", op->getNumOperands());
}

static SmallVector<int32_t> resultSegments(Operation *op) {
  auto iface = dyn_cast<OnnxOp>(op);
  if (!iface)
    return SmallVector<int32_t>(op->getNumResults(), 1);
  return segments(op, iface.getOutputKinds(), "resultSegmentSizes", op->getNumResults());
}

// Index of the value at `position`, -1 if absent.
static int indexOf(ArrayRef<int32_t> sizes, unsigned position, int total) {
  int index = 0;
  for (auto [i, size] : llvm::enumerate(sizes)) {
    bool last = i + 1 == sizes.size();
    if (last) { // perhaps variadic
      int k = (int)position - (int)i;
      return k >= 0 && k < size && index + k < total ? index + k : -1;
    }
    if (i == position)
      return size ? index : -1;
    index += size;
  }
  return -1;
}

static unsigned positionOf(ArrayRef<int32_t> sizes, unsigned index) {
  unsigned next = 0;
  for (auto [i, size] : llvm::enumerate(sizes)) {
    if (index < next + size)
      return i + (index - next);
    next += size;
  }
  return sizes.size() + index - next;
}

static unsigned numPositions(ArrayRef<int32_t> sizes) {
  unsigned count = 0;
  for (auto [i, size] : llvm::enumerate(sizes))
    if (size)
      count = i + size;
  return count;
}

Value getOptionalOperand(Operation *op, unsigned position) {
  int index = indexOf(operandSegments(op), position, op->getNumOperands());
  return index < 0 ? Value() : op->getOperand(index);
}

Value getOptionalResult(Operation *op, unsigned position) {
  int index = indexOf(resultSegments(op), position, op->getNumResults());
  return index < 0 ? Value() : op->getResult(index);
}

unsigned getOperandPosition(Operation *op, unsigned index) {
  return positionOf(operandSegments(op), index);
}

unsigned getResultPosition(Operation *op, unsigned index) {
  return positionOf(resultSegments(op), index);
}

unsigned getNumOperandPositions(Operation *op) { return numPositions(operandSegments(op)); }

unsigned getNumResultPositions(Operation *op) { return numPositions(resultSegments(op)); }

StringRef getOperandName(Operation *op, unsigned position) {
  auto iface = dyn_cast<OnnxOp>(op);
  if (!iface || iface.getInputNames().empty())
    return "";
  SmallVector<StringRef> names;
  iface.getInputNames().split(names, ',');
  return names[std::min<size_t>(position, names.size() - 1)];
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

int64_t getInt(Operation *op, StringRef name, int64_t fallback) {
  auto attr = op->getAttrOfType<IntegerAttr>(name);
  return attr ? attr.getInt() : fallback;
}

double getFloat(Operation *op, StringRef name, double fallback) {
  auto attr = op->getAttrOfType<FloatAttr>(name);
  return attr ? attr.getValueAsDouble() : fallback;
}

StringRef getString(Operation *op, StringRef name, StringRef fallback) {
  auto attr = op->getAttrOfType<StringAttr>(name);
  return attr ? attr.getValue() : fallback;
}

SmallVector<int64_t> getInts(Operation *op, StringRef name, ArrayRef<int64_t> fallback) {
  auto attr = op->getAttrOfType<DenseI64ArrayAttr>(name);
  return SmallVector<int64_t>(attr ? attr.asArrayRef() : fallback);
}

SmallVector<float> getFloats(Operation *op, StringRef name) {
  auto attr = op->getAttrOfType<DenseF32ArrayAttr>(name);
  return attr ? SmallVector<float>(attr.asArrayRef()) : SmallVector<float>();
}

SmallVector<StringRef> getStrings(Operation *op, StringRef name) {
  SmallVector<StringRef> result;
  if (auto attr = op->getAttrOfType<ArrayAttr>(name))
    for (Attribute element : attr)
      if (auto text = dyn_cast<StringAttr>(element))
        result.push_back(text.getValue());
  return result;
}

//===----------------------------------------------------------------------===//
// Constants
//===----------------------------------------------------------------------===//

unsigned getStorageBits(Type type) {
  if (auto complex = dyn_cast<ComplexType>(type))
    return 2 * getStorageBits(complex.getElementType());
  if (type.isInteger(1))
    return 8;
  return type.isIntOrFloat() ? type.getIntOrFloatBitWidth() : 0;
}

std::optional<int64_t> getStorageBytes(Type type, int64_t numElements) {
  int64_t bits, rounded;
  if (numElements < 0 || llvm::MulOverflow<int64_t>(numElements, getStorageBits(type), bits) ||
      llvm::AddOverflow<int64_t>(bits, 7, rounded))
    return std::nullopt;
  return rounded / 8;
}

ElementsAttr getConstant(Value value) {
  Operation *op = value ? value.getDefiningOp() : nullptr;
  if (!op)
    return {};
  if (auto weight = dyn_cast<WeightOp>(op))
    return weight.getValue();
  if (op->getName().getStringRef() == "onnx.Constant")
    return op->getAttrOfType<ElementsAttr>("value");
  return {};
}

// Whether DenseElementsAttr keeps elements as raw_data does.
static bool sameLayout(Type type) {
  if (auto complex = dyn_cast<ComplexType>(type))
    type = complex.getElementType();
  return !type.isInteger(1) && getStorageBits(type) >= 8;
}

std::optional<ArrayRef<char>> getRawBytes(ElementsAttr attr, SmallVectorImpl<char> &storage) {
  Type type = attr.getElementType();
  std::optional<int64_t> bytes = getStorageBytes(type, attr.getNumElements());
  if (!bytes || !getStorageBits(type))
    return std::nullopt;
  if (auto resource = dyn_cast<DenseResourceElementsAttr>(attr)) {
    AsmResourceBlob *blob = resource.getRawHandle().getBlob();
    if (!blob || (int64_t)blob->getData().size() != *bytes)
      return std::nullopt;
    return blob->getData();
  }
  auto dense = dyn_cast<DenseIntOrFPElementsAttr>(attr);
  if (!dense)
    return std::nullopt;
  if (sameLayout(type)) {
    ArrayRef<char> raw = dense.getRawData();
    if (!dense.isSplat() || (int64_t)raw.size() == *bytes)
      return raw;
    storage.clear();
    storage.reserve(*bytes);
    while ((int64_t)storage.size() < *bytes)
      storage.append(raw.begin(), raw.end());
    return ArrayRef<char>(storage);
  }
  storage.assign(*bytes, 0);
  int64_t i = 0;
  unsigned bits = getStorageBits(type);
  auto put = [&](uint64_t value) {
    int64_t bit = i++ * bits;
    storage[bit / 8] |= (char)(value << (bit % 8));
    if (bit % 8 + bits > 8) // float6 may straddle
      storage[bit / 8 + 1] |= (char)(value >> (8 - bit % 8));
  };
  if (isa<IntegerType>(type))
    for (const APInt &v : dense.getValues<APInt>())
      put(v.getZExtValue());
  else
    for (const APFloat &v : dense.getValues<APFloat>())
      put(v.bitcastToAPInt().getZExtValue());
  return ArrayRef<char>(storage);
}

// Calls visit(bits) for each element of a type of at most 64 bits.
static void forEachElement(ArrayRef<char> raw, unsigned bits, int64_t count,
                           function_ref<void(uint64_t)> visit) {
  if (bits < 8) {
    uint64_t mask = (1u << bits) - 1;
    for (int64_t i = 0; i < count; ++i) {
      int64_t bit = i * bits;
      uint64_t window = (unsigned char)raw[bit / 8];
      if (bit % 8 + bits > 8)
        window |= (uint64_t)(unsigned char)raw[bit / 8 + 1] << 8;
      visit((window >> (bit % 8)) & mask);
    }
    return;
  }
  unsigned bytes = bits / 8;
  for (int64_t i = 0; i < count; ++i) {
    uint64_t value = 0;
    std::memcpy(&value, raw.data() + i * bytes, bytes);
    visit(value);
  }
}

std::optional<SmallVector<int64_t>> getInts(ElementsAttr attr, int64_t maxElements) {
  auto type = attr ? dyn_cast<IntegerType>(attr.getElementType()) : IntegerType();
  if (!type || type.getWidth() > 64 || attr.getNumElements() > maxElements)
    return std::nullopt;
  SmallVector<char> storage;
  std::optional<ArrayRef<char>> raw = getRawBytes(attr, storage);
  if (!raw)
    return std::nullopt;
  SmallVector<int64_t> result;
  result.reserve(attr.getNumElements());
  bool isSigned = !type.isUnsigned() && type.getWidth() > 1;
  forEachElement(*raw, getStorageBits(type), attr.getNumElements(), [&](uint64_t bits) {
    if (type.getWidth() == 1)
      result.push_back(bits != 0);
    else
      result.push_back(isSigned ? llvm::SignExtend64(bits, type.getWidth()) : (int64_t)bits);
  });
  return result;
}

std::optional<SmallVector<int64_t>> getConstantInts(Value value, int64_t maxElements) {
  return getInts(getConstant(value), maxElements);
}

template <typename Bits> static SmallVector<double> widened(ArrayRef<char> raw, double (*convert)(Bits)) {
  SmallVector<double> result(raw.size() / sizeof(Bits));
  for (size_t i = 0; i < result.size(); ++i) {
    Bits bits;
    std::memcpy(&bits, raw.data() + i * sizeof(Bits), sizeof(Bits));
    result[i] = convert(bits);
  }
  return result;
}

std::optional<SmallVector<double>> getFloats(ElementsAttr attr, int64_t maxElements) {
  auto type = attr ? dyn_cast<FloatType>(attr.getElementType()) : FloatType();
  if (!type || type.getWidth() > 64 || attr.getNumElements() > maxElements)
    return std::nullopt;
  SmallVector<char> storage;
  std::optional<ArrayRef<char>> raw = getRawBytes(attr, storage);
  if (!raw)
    return std::nullopt;
  if (type.isF32())
    return widened<uint32_t>(*raw, fromF32);
  if (type.isF16())
    return widened<uint16_t>(*raw, fromF16);
  if (type.isBF16())
    return widened<uint16_t>(*raw, fromBf16);
  SmallVector<double> result;
  result.reserve(attr.getNumElements());
  const llvm::fltSemantics &semantics = type.getFloatSemantics();
  forEachElement(*raw, getStorageBits(type), attr.getNumElements(), [&](uint64_t bits) {
    APFloat number(semantics, APInt(type.getWidth(), bits, false, /*implicitTrunc=*/true));
    bool lossy;
    number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lossy);
    result.push_back(number.convertToDouble());
  });
  return result;
}

std::optional<SmallVector<double>> getConstantFloats(Value value, int64_t maxElements) {
  return getFloats(getConstant(value), maxElements);
}

std::optional<SmallVector<std::string>> getConstantStrings(Value value) {
  auto attr = dyn_cast_or_null<DenseStringElementsAttr>(getConstant(value));
  if (!attr)
    return std::nullopt;
  SmallVector<std::string> result;
  for (StringRef text : attr.getValues<StringRef>())
    result.push_back(text.str());
  return result;
}

bool isSplat(ElementsAttr attr) {
  if (attr.isSplat())
    return true;
  SmallVector<char> storage;
  std::optional<ArrayRef<char>> raw = getRawBytes(attr, storage);
  if (!raw || raw->empty())
    return false;
  size_t step = std::max(1u, getStorageBits(attr.getElementType()) / 8);
  if (getStorageBits(attr.getElementType()) < 8)
    return attr.getNumElements() == 1;
  return raw->size() == step ||
         !std::memcmp(raw->data(), raw->data() + step, raw->size() - step);
}

ElementsAttr makeConstant(RankedTensorType type, ArrayRef<char> raw, StringRef name) {
  constexpr int64_t kReadable = 64;
  Type element = type.getElementType();
  int64_t count = type.getNumElements();
  unsigned bits = getStorageBits(element);
  if (sameLayout(element)) {
    size_t step = bits / 8;
    bool splat = count > 1 && !std::memcmp(raw.data(), raw.data() + step, raw.size() - step);
    if (splat)
      return DenseElementsAttr::getFromRawBuffer(type, raw.take_front(step));
    if (count <= kReadable)
      return DenseElementsAttr::getFromRawBuffer(type, raw);
  } else if (count <= kReadable) {
    if (element.isInteger(1)) {
      SmallVector<bool> values;
      forEachElement(raw, bits, count, [&](uint64_t v) { values.push_back(v != 0); });
      return DenseElementsAttr::get(type, values);
    }
    if (isa<IntegerType>(element)) {
      SmallVector<APInt> values;
      forEachElement(raw, bits, count, [&](uint64_t v) { values.emplace_back(bits, v, false, true); });
      return DenseElementsAttr::get(type, values);
    }
    SmallVector<APFloat> values;
    forEachElement(raw, bits, count, [&](uint64_t v) {
      values.emplace_back(cast<FloatType>(element).getFloatSemantics(),
                          APInt(element.getIntOrFloatBitWidth(), v, false, true));
    });
    return DenseElementsAttr::get(type, values);
  }
  return DenseResourceElementsAttr::get(
      type, name, HeapAsmResourceBlob::allocateAndCopyWithAlign(raw, 64, /*dataIsMutable=*/false));
}

ElementsAttr makeIntConstant(RankedTensorType type, ArrayRef<int64_t> values) {
  unsigned bits = getStorageBits(type.getElementType());
  SmallVector<char> raw((values.size() * bits + 7) / 8, 0);
  for (auto [i, value] : llvm::enumerate(values)) {
    if (bits >= 8)
      std::memcpy(raw.data() + i * (bits / 8), &value, bits / 8);
    else
      raw[i * bits / 8] |= (char)((value & ((1 << bits) - 1)) << (i * bits % 8));
  }
  return makeConstant(type, raw);
}

ElementsAttr makeInt64Constant(MLIRContext *context, ArrayRef<int64_t> values, bool scalar) {
  SmallVector<int64_t> dims;
  if (!scalar)
    dims.push_back(values.size());
  return DenseElementsAttr::get(RankedTensorType::get(dims, IntegerType::get(context, 64)), values);
}

//===----------------------------------------------------------------------===//
// Words
//===----------------------------------------------------------------------===//

std::string getTypeName(Type type) {
  if (!type)
    return "nothing";
  if (auto tensor = dyn_cast<TensorType>(type)) {
    std::string text = "tensor(" + getTypeName(tensor.getElementType());
    if (!tensor.hasRank())
      return text + ", any shape)";
    text += ", [";
    for (auto [i, dim] : llvm::enumerate(tensor.getShape()))
      text += (i ? "," : "") + (ShapedType::isDynamic(dim) ? std::string("?") : std::to_string(dim));
    return text + "])";
  }
  if (auto seq = dyn_cast<SeqType>(type))
    return "seq(" + getTypeName(seq.getElementType()) + ")";
  if (auto opt = dyn_cast<OptType>(type))
    return "optional(" + getTypeName(opt.getElementType()) + ")";
  if (auto map = dyn_cast<MapType>(type))
    return "map(" + getTypeName(map.getKeyType()) + ", " + getTypeName(map.getValueType()) + ")";
  if (isa<StringType>(type))
    return "string";
  if (type.isInteger(1))
    return "bool";
  if (auto integer = dyn_cast<IntegerType>(type))
    return (integer.isUnsigned() ? "uint" : "int") + std::to_string(integer.getWidth());
  if (auto complex = dyn_cast<ComplexType>(type))
    return "complex" + std::to_string(getStorageBits(complex));
  if (type.isBF16())
    return "bfloat16";
  if (type.isF16() || type.isF32() || type.isF64())
    return "float" + std::to_string(type.getIntOrFloatBitWidth());
  std::string text;
  llvm::raw_string_ostream(text) << type; // f8E4M3FN
  if (isa<FloatType>(type) && text[0] == 'f') {
    text = "float" + text.substr(1);
    for (char &c : text)
      c = (char)tolower((unsigned char)c);
  }
  return text;
}

StringRef getNodeName(Operation *op) {
  if (auto name = op->getLoc()->findInstanceOf<NameLoc>())
    return name.getName().getValue();
  return "";
}

} // namespace tessera::onnx

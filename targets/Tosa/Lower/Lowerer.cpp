#include "targets/Tosa/Lower/Lowerer.h"
#include "mlir/Dialect/Tosa/IR/TosaOps.h"

using namespace mlir;

namespace tessera::tosa {

RankedTensorType Lowerer::resultType(Value v, ArrayRef<int64_t> perm) const {
  RankedTensorType type = typeOf(v);
  SmallVector<int64_t> dims(type.getShape());
  if (!perm.empty())
    for (size_t i = 0; i < perm.size(); ++i)
      dims[i] = type.getDimSize(perm[i]);
  return RankedTensorType::get(dims, device(type.getElementType()));
}

Value Lowerer::get(Value v, ArrayRef<int64_t> perm) {
  Perm wanted = perm.empty() ? identityPerm(rankOf(v)) : Perm(perm);
  if (!forms.has(v)) {
    Value made = materialise(v);
    if (!made)
      return {};
    forms.set(v, made, identityPerm(rankOf(v)));
  }
  return forms.get(v, wanted, [&](Value x, ArrayRef<int64_t> p) { return transpose(x, p); });
}

void Lowerer::set(Value v, Value stored, ArrayRef<int64_t> perm) {
  forms.set(v, stored, perm.empty() ? identityPerm(rankOf(v)) : Perm(perm));
}

Perm Lowerer::order(Value v) const { return forms.has(v) ? Perm(forms.order(v)) : identityPerm(rankOf(v)); }

/// Where contents do not matter, a constant is as good as any of its type.
Value Lowerer::materialise(Value v) {
  ElementsAttr attr = onnx::getConstant(v);
  if (!attr || !HostTensor::supported(attr.getElementType()))
    return {};
  Type to = device(attr.getElementType());
  constexpr int64_t small = 4096;
  if (!contents && attr.getNumElements() > small)
    return placeholder(cast<RankedTensorType>(attr.getType()).clone(to));
  auto t = HostTensor::read(attr);
  if (t && t->element() != to)
    t = t->cast(to);
  return t ? constant(*t) : Value();
}

std::optional<HostTensor> Lowerer::constantOf(Value v) const {
  ElementsAttr attr = v ? onnx::getConstant(v) : ElementsAttr();
  return attr ? HostTensor::read(attr) : std::nullopt;
}

std::optional<SmallVector<int64_t>> Lowerer::constantInts(Operation *op, unsigned position) {
  Value v = onnx::getOptionalOperand(op, position);
  auto values = v ? onnx::getConstantInts(v) : std::nullopt;
  if (!values)
    no() << "input '" << onnx::getOperandName(op, position) << "' is not constant";
  return values;
}

std::optional<double> Lowerer::constantScalar(Operation *op, unsigned position, double absent) {
  Value v = onnx::getOptionalOperand(op, position);
  if (!v)
    return absent;
  auto t = constantOf(v);
  if (!t || t->size() != 1) {
    no() << "input '" << onnx::getOperandName(op, position) << "' is not a constant scalar";
    return std::nullopt;
  }
  return t->isFloat() ? t->real(0) : (double)t->integer(0);
}

//===----------------------------------------------------------------------===//
// Operators
//===----------------------------------------------------------------------===//

Value Lowerer::op(StringRef mnemonic, ValueRange operands, RankedTensorType type,
                  ArrayRef<NamedAttribute> attributes) {
  OperationState state(loc, ("tosa." + mnemonic).str(), operands, TypeRange{type}, attributes);
  return b.create(state)->getResult(0);
}

Value Lowerer::shape(ArrayRef<int64_t> v) {
  auto type = RankedTensorType::get({(int64_t)v.size()}, b.getIndexType());
  OperationState state(loc, "tosa.const_shape");
  state.addAttribute("values", DenseElementsAttr::get(type, v));
  state.addTypes(mlir::tosa::shapeType::get(b.getContext(), v.size()));
  return b.create(state)->getResult(0);
}

Value Lowerer::constant(const HostTensor &t) {
  return op("const", {}, t.type(), attr("values", t.attribute()));
}

Value Lowerer::placeholder(RankedTensorType type) { return op("const", {}, type, attr("values", b.getZeroAttr(type))); }

Value Lowerer::scalar(Type element, double v, int64_t rank) {
  HostTensor t(element, SmallVector<int64_t>(rank, 1));
  t.mutableData();
  if (t.isFloat())
    t.setReal(0, v);
  else
    t.setInteger(0, (int64_t)v);
  return constant(t);
}

Value Lowerer::unary(StringRef mnemonic, Value x) { return op(mnemonic, x, typeOf(x)); }

static SmallVector<int64_t> broadcast(ArrayRef<int64_t> x, ArrayRef<int64_t> y) {
  SmallVector<int64_t> dims;
  for (auto [p, q] : llvm::zip_equal(x, y))
    dims.push_back(p == 1 ? q : p);
  return dims;
}

Value Lowerer::binary(StringRef mnemonic, Value x, Value y, Type element) {
  auto type = RankedTensorType::get(broadcast(shapeOf(x), shapeOf(y)), element ? element : typeOf(x).getElementType());
  if (mnemonic == "mul")
    return op(mnemonic, {x, y, zeroPoint(b.getI8Type())}, type);
  return op(mnemonic, {x, y}, type);
}

Value Lowerer::negate(Value x) {
  Value zero = zeroPoint(typeOf(x).getElementType());
  return op("negate", {x, zero, zero}, typeOf(x));
}

Value Lowerer::select(Value condition, Value x, Value y) {
  auto dims = broadcast(broadcast(shapeOf(condition), shapeOf(x)), shapeOf(y));
  return op("select", {condition, x, y}, RankedTensorType::get(dims, typeOf(x).getElementType()));
}

Value Lowerer::clamp(Value x, double low, double high) {
  Type element = typeOf(x).getElementType();
  auto bound = [&](double v) -> Attribute {
    if (auto f = dyn_cast<FloatType>(element)) {
      llvm::APFloat number(v);
      bool lossy;
      number.convert(f.getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven, &lossy);
      return FloatAttr::get(f, number);
    }
    return b.getIntegerAttr(element, (int64_t)v);
  };
  return op("clamp", x, typeOf(x), {attr("min_val", bound(low)), attr("max_val", bound(high))});
}

Value Lowerer::cast(Value x, Type element) {
  if (typeOf(x).getElementType() == element)
    return x;
  return op("cast", x, typeOf(x).clone(element));
}

Value Lowerer::wide(Value x) { return typeOf(x).getElementType().isF16() ? cast(x, b.getF32Type()) : x; }

Value Lowerer::foldConstant(Value x, ArrayRef<int64_t> dims, int64_t offset, ArrayRef<int64_t> strides) {
  auto source = x.getDefiningOp<mlir::tosa::ConstOp>();
  if (!source)
    return {};
  if (source.getValues().isSplat() && !contents)
    return placeholder(typeOf(x).clone(dims));
  auto t = HostTensor::read(source.getValues());
  if (!t)
    return {};
  return constant(strides.empty() ? t->reshaped(dims) : t->strided(dims, offset, strides));
}

Value Lowerer::reshape(Value x, ArrayRef<int64_t> dims) {
  if (shapeOf(x) == dims)
    return x;
  if (Value folded = foldConstant(x, dims, 0, {}))
    return folded;
  return op("reshape", {x, shape(dims)}, typeOf(x).clone(dims));
}

Value Lowerer::transpose(Value x, ArrayRef<int64_t> perm) {
  if (isIdentity(perm))
    return x;
  SmallVector<int64_t> dims, strides;
  SmallVector<int32_t> perms;
  SmallVector<int64_t> inStrides = onnx::rowMajorStrides(shapeOf(x));
  for (int64_t p : perm) {
    dims.push_back(shapeOf(x)[p]);
    strides.push_back(inStrides[p]);
    perms.push_back(p);
  }
  if (Value folded = foldConstant(x, dims, 0, strides))
    return folded;
  return op("transpose", x, typeOf(x).clone(dims), attr("perms", b.getDenseI32ArrayAttr(perms)));
}

Value Lowerer::slice(Value x, ArrayRef<int64_t> start, ArrayRef<int64_t> size) {
  if (shapeOf(x) == size)
    return x;
  SmallVector<int64_t> strides = onnx::rowMajorStrides(shapeOf(x));
  int64_t offset = 0;
  for (auto [s, n] : llvm::zip_equal(start, strides))
    offset += s * n;
  if (Value folded = foldConstant(x, size, offset, strides))
    return folded;
  return op("slice", {x, shape(start), shape(size)}, typeOf(x).clone(size));
}

Value Lowerer::pad(Value x, ArrayRef<int64_t> before, ArrayRef<int64_t> after, double value) {
  SmallVector<int64_t> pads, dims;
  for (int64_t i = 0; i < rankOf(x); ++i) {
    pads.append({before[i], after[i]});
    dims.push_back(shapeOf(x)[i] + before[i] + after[i]);
  }
  if (shapeOf(x) == ArrayRef<int64_t>(dims))
    return x;
  return op("pad", {x, shape(pads), scalar(typeOf(x).getElementType(), value, 1)}, typeOf(x).clone(dims));
}

Value Lowerer::concat(ArrayRef<Value> parts, int64_t a) {
  if (parts.size() == 1)
    return parts.front();
  SmallVector<int64_t> dims(shapeOf(parts.front()));
  dims[a] = 0;
  for (Value v : parts)
    dims[a] += shapeOf(v)[a];
  return op("concat", parts, typeOf(parts.front()).clone(dims), axis(a));
}

Value Lowerer::tile(Value x, ArrayRef<int64_t> multiples) {
  SmallVector<int64_t> dims;
  for (auto [d, m] : llvm::zip_equal(shapeOf(x), multiples))
    dims.push_back(d * m);
  if (shapeOf(x) == ArrayRef<int64_t>(dims))
    return x;
  return op("tile", {x, shape(multiples)}, typeOf(x).clone(dims));
}

Value Lowerer::reduce(StringRef mnemonic, Value x, int64_t a) {
  SmallVector<int64_t> dims(shapeOf(x));
  dims[a] = 1;
  return op(mnemonic, x, typeOf(x).clone(dims), axis(a));
}

/// float16 products are summed in float32 and stored as float16.
Value Lowerer::matmul(Value x, Value y, int64_t zeroX, int64_t zeroY) {
  Type in = typeOf(x).getElementType();
  Type out = isa<FloatType>(in) ? Type(b.getF32Type()) : b.getIntegerType(in.isInteger(16) ? 48 : 32);
  auto type = RankedTensorType::get({shapeOf(x)[0], shapeOf(x)[1], shapeOf(y)[2]}, out);
  Value product = op("matmul", {x, y, zeroPoint(in, zeroX), zeroPoint(in, zeroY)}, type);
  return in.isF16() ? cast(product, in) : product;
}

Lowerer::Aligned Lowerer::align(ArrayRef<Value> operands, int64_t rank, ArrayRef<int64_t> wanted) {
  Aligned result{{}, wanted.empty() ? identityPerm(rank) : Perm(wanted)};
  int64_t largest = -1;
  for (Value v : operands)
    if (wanted.empty() && rankOf(v) == rank && forms.has(v) && typeOf(v).getNumElements() > largest) {
      largest = typeOf(v).getNumElements();
      result.perm = order(v);
    }
  for (Value v : operands) {
    if (rankOf(v) == rank) {
      result.operands.push_back(get(v, result.perm));
      continue;
    }
    Value x = get(v);
    SmallVector<int64_t> dims(rank - rankOf(v), 1);
    dims.append(shapeOf(v).begin(), shapeOf(v).end());
    result.operands.push_back(x ? transpose(reshape(x, dims), result.perm) : Value());
  }
  return result;
}

} // namespace tessera::tosa

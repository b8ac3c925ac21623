#include "passes/Canonicalise/OnnxBuilder.h"

#include "dialects/Onnx/IR/OpsCore.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include "onnx/onnx_pb.h"

using namespace mlir;

namespace tessera::onnx {

bool isOp(Operation *op, StringRef name) {
  StringRef full = op->getName().getStringRef();
  return full.consume_front("onnx.") && full == name;
}

Operation *definedBy(Value v, StringRef name) {
  Operation *op = v ? v.getDefiningOp() : nullptr;
  return op && isOp(op, name) ? op : nullptr;
}

Type elementType(Value v) {
  auto t = dyn_cast<ShapedType>(v.getType());
  return t ? t.getElementType() : Type();
}

std::optional<HostTensor> constantOf(Value v) {
  ElementsAttr attr = v ? getConstant(v) : ElementsAttr();
  return attr ? HostTensor::read(attr) : std::nullopt;
}

static std::optional<double> firstElement(const HostTensor &t) {
  if (isa<ComplexType>(t.element()))
    return std::nullopt;
  return t.isFloat() ? t.real(0) : (double)t.integer(0);
}

std::optional<double> uniformConstant(Value v) {
  auto t = constantOf(v);
  if (!t || !t->isUniform())
    return std::nullopt;
  return firstElement(*t);
}

std::optional<double> scalarConstant(Value v) {
  auto t = constantOf(v);
  if (!t || t->size() != 1)
    return std::nullopt;
  return firstElement(*t);
}

bool sameStaticShape(Value a, Value b) {
  RankedTensorType x = rankedType(a), y = rankedType(b);
  return x && y && x.hasStaticShape() && x.getShape() == y.getShape();
}

RankedTensorType broadcastType(Type a, Type b, Type element) {
  auto x = dyn_cast<RankedTensorType>(a), y = dyn_cast<RankedTensorType>(b);
  if (!x || !y)
    return {};
  size_t rank = std::max(x.getRank(), y.getRank());
  SmallVector<int64_t> shape(rank);
  for (size_t i = 0; i < rank; ++i) {
    int64_t p = (int64_t)i < x.getRank() ? x.getDimSize(x.getRank() - 1 - i) : 1;
    int64_t q = (int64_t)i < y.getRank() ? y.getDimSize(y.getRank() - 1 - i) : 1;
    int64_t d;
    if (p == 1)
      d = q;
    else if (q == 1 || p == q || ShapedType::isDynamic(q))
      d = p;
    else if (ShapedType::isDynamic(p))
      d = q;
    else
      return {};
    shape[rank - 1 - i] = d;
  }
  return RankedTensorType::get(shape, element);
}

bool broadcastsInto(Value small, Value v) {
  RankedTensorType s = rankedType(small), t = rankedType(v);
  if (!s || !t || s.getRank() > t.getRank())
    return false;
  for (int64_t i = 0; i < s.getRank(); ++i) {
    int64_t p = s.getDimSize(s.getRank() - 1 - i), q = t.getDimSize(t.getRank() - 1 - i);
    if (p != 1 && (p != q || ShapedType::isDynamic(p)))
      return false;
  }
  return true;
}

RankedTensorType matmulType(Value x, Value y, Type element) {
  RankedTensorType p = rankedType(x), q = rankedType(y);
  ArrayRef<int64_t> s = p.getShape(), t = q.getShape();
  SmallVector<int64_t> shape;
  auto batch = broadcastType(
      RankedTensorType::get(s.drop_back(std::min<size_t>(2, s.size())), p.getElementType()),
      RankedTensorType::get(t.drop_back(std::min<size_t>(2, t.size())), p.getElementType()),
      p.getElementType());
  if (batch)
    shape.append(batch.getShape().begin(), batch.getShape().end());
  if (s.size() > 1)
    shape.push_back(s[s.size() - 2]);
  if (t.size() > 1)
    shape.push_back(t.back());
  return RankedTensorType::get(shape, element);
}

NamedAttribute OnnxBuilder::i(StringRef name, int64_t v) {
  return b.getNamedAttr(name, b.getI64IntegerAttr(v));
}
NamedAttribute OnnxBuilder::f(StringRef name, double v) {
  return b.getNamedAttr(name, b.getF32FloatAttr((float)v));
}
NamedAttribute OnnxBuilder::s(StringRef name, StringRef v) {
  return b.getNamedAttr(name, b.getStringAttr(v));
}
NamedAttribute OnnxBuilder::is(StringRef name, ArrayRef<int64_t> v) {
  return b.getNamedAttr(name, b.getDenseI64ArrayAttr(v));
}

// Sizes of the operand (result) groups as AttrSized*Segments wants them.
static SmallVector<int32_t> segments(StringRef kinds, size_t have,
                                     llvm::function_ref<bool(size_t)> present) {
  SmallVector<int32_t> sizes;
  for (size_t k = 0; k < kinds.size(); ++k) {
    if (kinds[k] == '*') {
      int32_t n = 0;
      for (size_t j = k; j < have; ++j)
        n += present(j);
      sizes.push_back(n);
    } else {
      sizes.push_back(k < have && present(k));
    }
  }
  return sizes;
}

static bool manyFlexible(StringRef kinds) { return kinds.size() - kinds.count('1') > 1; }

Operation *OnnxBuilder::create(StringRef name, ArrayRef<Value> operands, TypeRange results,
                               ArrayRef<NamedAttribute> attributes) {
  std::string full = ("onnx." + name).str();
  OperationState state(loc, full);
  for (Value v : operands)
    if (v)
      state.addOperands(v);
  state.addTypes(results);
  state.addAttributes(attributes);
  auto info = RegisteredOperationName::lookup(full, b.getContext());
  assert(info && "not an onnx operator");
  auto *schema = info->getInterface<OnnxOp>();
  if (manyFlexible(schema->getInputKinds()))
    state.addAttribute("operandSegmentSizes",
                       b.getDenseI32ArrayAttr(segments(schema->getInputKinds(), operands.size(),
                                                       [&](size_t k) { return !!operands[k]; })));
  if (manyFlexible(schema->getOutputKinds()))
    state.addAttribute("resultSegmentSizes",
                       b.getDenseI32ArrayAttr(segments(schema->getOutputKinds(), results.size(),
                                                       [&](size_t) { return true; })));
  return b.create(state);
}

Value OnnxBuilder::op(StringRef name, ArrayRef<Value> operands, Type result,
                      ArrayRef<NamedAttribute> attributes) {
  return create(name, operands, result, attributes)->getResult(0);
}

Value OnnxBuilder::weight(const HostTensor &t) {
  return WeightOp::create(b, loc, t.type(), t.attribute());
}

Value OnnxBuilder::scalar(Type element, double v) {
  HostTensor t(element, {});
  t.mutableData();
  if (t.isFloat())
    t.setReal(0, v);
  else
    t.setInteger(0, (int64_t)v);
  return weight(t);
}

Value OnnxBuilder::ints(ArrayRef<int64_t> v, bool scalar) {
  HostTensor t(b.getI64Type(), scalar ? ArrayRef<int64_t>() : ArrayRef<int64_t>((int64_t)v.size()));
  for (size_t k = 0; k < v.size(); ++k)
    t.setInteger(k, v[k]);
  return weight(t);
}

Value OnnxBuilder::binary(StringRef name, Value x, Value y) {
  RankedTensorType type = broadcastType(x.getType(), y.getType(), elementType(x));
  if (!type)
    return op(name, {x, y}, UnrankedTensorType::get(elementType(x)));
  return op(name, {x, y}, type);
}

Value OnnxBuilder::unary(StringRef name, Value x, ArrayRef<NamedAttribute> attributes) {
  return op(name, {x}, x.getType(), attributes);
}

Value OnnxBuilder::cast(Value x, Type element) {
  if (elementType(x) == element)
    return x;
  return op("Cast", {x}, cast_or_null<ShapedType>(x.getType()).clone(element),
            {i("to", onnxTypeCode(element))});
}

Value OnnxBuilder::transpose(Value x, ArrayRef<int64_t> perm) {
  if (llvm::equal(perm, llvm::seq<int64_t>(0, perm.size())))
    return x;
  RankedTensorType t = rankedType(x);
  SmallVector<int64_t> shape;
  for (int64_t p : perm)
    shape.push_back(t.getDimSize(p));
  return op("Transpose", {x}, t.clone(shape), {is("perm", perm)});
}

Value OnnxBuilder::reshape(Value x, ArrayRef<int64_t> shape, Type result) {
  return op("Reshape", {x, ints(shape)}, result);
}

Value OnnxBuilder::unsqueeze(Value x, ArrayRef<int64_t> axes) {
  if (axes.empty())
    return x;
  RankedTensorType t = rankedType(x);
  SmallVector<int64_t> shape;
  int64_t rank = t.getRank() + axes.size(), from = 0;
  for (int64_t a = 0; a < rank; ++a)
    shape.push_back(llvm::is_contained(axes, a) ? 1 : t.getDimSize(from++));
  return op("Unsqueeze", {x, ints(axes)}, t.clone(shape));
}

Value OnnxBuilder::squeeze(Value x, ArrayRef<int64_t> axes) {
  if (axes.empty())
    return x;
  RankedTensorType t = rankedType(x);
  SmallVector<int64_t> shape;
  for (int64_t a = 0; a < t.getRank(); ++a)
    if (!llvm::is_contained(axes, a))
      shape.push_back(t.getDimSize(a));
  return op("Squeeze", {x, ints(axes)}, t.clone(shape));
}

Value OnnxBuilder::reduce(StringRef name, Value x, ArrayRef<int64_t> axes, bool keepDims) {
  RankedTensorType t = rankedType(x);
  SmallVector<int64_t> shape;
  for (int64_t a = 0; a < t.getRank(); ++a) {
    if (!llvm::is_contained(axes, a))
      shape.push_back(t.getDimSize(a));
    else if (keepDims)
      shape.push_back(1);
  }
  return op(name, {x, ints(axes)}, t.clone(shape), {i("keepdims", keepDims)});
}

Value OnnxBuilder::matmul(Value x, Value y) {
  return op("MatMul", {x, y}, matmulType(x, y, elementType(x)));
}

int64_t onnxTypeCode(Type t) {
  using P = ::onnx::TensorProto;
  if (t.isF32())
    return P::FLOAT;
  if (t.isF64())
    return P::DOUBLE;
  if (t.isF16())
    return P::FLOAT16;
  if (t.isBF16())
    return P::BFLOAT16;
  if (auto c = dyn_cast<ComplexType>(t))
    return c.getElementType().isF32() ? P::COMPLEX64 : P::COMPLEX128;
  if (auto n = dyn_cast<IntegerType>(t)) {
    bool u = n.isUnsigned();
    switch (n.getWidth()) {
    case 1:
      return P::BOOL;
    case 2:
      return u ? P::UINT2 : P::INT2;
    case 4:
      return u ? P::UINT4 : P::INT4;
    case 8:
      return u ? P::UINT8 : P::INT8;
    case 16:
      return u ? P::UINT16 : P::INT16;
    case 32:
      return u ? P::UINT32 : P::INT32;
    case 64:
      return u ? P::UINT64 : P::INT64;
    }
  }
  if (isa<StringType>(t))
    return P::STRING;
  if (isa<Float8E4M3FNType>(t))
    return P::FLOAT8E4M3FN;
  if (isa<Float8E4M3FNUZType>(t))
    return P::FLOAT8E4M3FNUZ;
  if (isa<Float8E5M2Type>(t))
    return P::FLOAT8E5M2;
  if (isa<Float8E5M2FNUZType>(t))
    return P::FLOAT8E5M2FNUZ;
  if (isa<Float8E8M0FNUType>(t))
    return P::FLOAT8E8M0;
  if (isa<Float4E2M1FNType>(t))
    return P::FLOAT4E2M1;
  return P::UNDEFINED;
}

Type typeOfOnnxCode(MLIRContext *ctx, int64_t code) {
  using P = ::onnx::TensorProto;
  auto integer = [&](unsigned w, bool isUnsigned) {
    return IntegerType::get(ctx, w, isUnsigned ? IntegerType::Unsigned : IntegerType::Signless);
  };
  switch (code) {
  case P::FLOAT:
    return Float32Type::get(ctx);
  case P::DOUBLE:
    return Float64Type::get(ctx);
  case P::FLOAT16:
    return Float16Type::get(ctx);
  case P::BFLOAT16:
    return BFloat16Type::get(ctx);
  case P::INT8:
    return integer(8, false);
  case P::UINT8:
    return integer(8, true);
  case P::INT16:
    return integer(16, false);
  case P::UINT16:
    return integer(16, true);
  case P::INT32:
    return integer(32, false);
  case P::UINT32:
    return integer(32, true);
  case P::INT64:
    return integer(64, false);
  case P::UINT64:
    return integer(64, true);
  case P::BOOL:
    return integer(1, false);
  case P::INT4:
    return integer(4, false);
  case P::UINT4:
    return integer(4, true);
  default:
    return {};
  }
}

static void refineFunctionType(func::FuncOp func) {
  auto ret = dyn_cast<func::ReturnOp>(func.getBody().back().getTerminator());
  if (!ret)
    return;
  auto type = FunctionType::get(func.getContext(), func.getFunctionType().getInputs(),
                                ret.getOperandTypes());
  if (type != func.getFunctionType())
    func.setType(type);
}

void replaceRefining(RewriterBase &rewriter, Value from, Value to) {
  SmallVector<func::FuncOp> returning;
  if (from.getType() != to.getType())
    for (Operation *user : from.getUsers())
      if (isa<func::ReturnOp>(user))
        returning.push_back(user->getParentOfType<func::FuncOp>());
  rewriter.replaceAllUsesWith(from, to);
  for (func::FuncOp f : returning)
    rewriter.modifyOpInPlace(f, [&] { refineFunctionType(f); });
}

void replaceRefining(RewriterBase &rewriter, Operation *op, ValueRange values) {
  for (auto [from, to] : llvm::zip_equal(op->getResults(), values))
    if (to)
      replaceRefining(rewriter, from, to);
  rewriter.eraseOp(op);
}

namespace {

/// Remembers what a rewrite builds.
class Insertions : public RewriterBase::ForwardingListener {
public:
  explicit Insertions(OpBuilder::Listener *outer) : ForwardingListener(outer) {}
  void notifyOperationInserted(Operation *op, OpBuilder::InsertPoint previous) override {
    made.push_back(op);
    ForwardingListener::notifyOperationInserted(op, previous);
  }
  void notifyOperationErased(Operation *op) override {
    llvm::erase(made, op);
    ForwardingListener::notifyOperationErased(op);
  }
  SmallVector<Operation *> made;
};

struct FunctionPattern : RewritePattern {
  FunctionPattern(StringRef name, Rewrite rewrite, unsigned benefit, MLIRContext *ctx)
      : RewritePattern(name, benefit, ctx), rewrite(rewrite) {}
  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &r) const override {
    OpBuilder::Listener *outer = r.getListener();
    Insertions insertions(outer);
    r.setListener(&insertions);
    LogicalResult result = rewrite(op, r);
    r.setListener(outer);
    // A rewrite may give up late. What it built is unused, but a driver that finds
    // and removes it counts that as a change, and would never come to an end.
    if (failed(result))
      for (Operation *unused : llvm::reverse(insertions.made))
        if (unused->use_empty())
          r.eraseOp(unused);
    return result;
  }
  Rewrite rewrite;
};

} // namespace

void addRewrite(RewritePatternSet &patterns, StringRef opName, Rewrite rewrite, unsigned benefit) {
  patterns.add(std::make_unique<FunctionPattern>(("onnx." + opName).str(), rewrite, benefit,
                                                 patterns.getContext()));
}

} // namespace tessera::onnx

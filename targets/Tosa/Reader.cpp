// Reading: the library's verifier first (offsets, tables, strings, identifier),
// then what the format means. Every number of the file is taken as hostile.
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tosa/IR/TosaOps.h"
#include "mlir/IR/Verifier.h"
#include "targets/Tosa/Schema.h"
#include "targets/Tosa/Serialise.h"

using namespace mlir;

namespace tessera::tosa {
namespace {

using Strings = flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>;

class Reader {
public:
  explicit Reader(MLIRContext *context) : context(context), b(context), loc(UnknownLoc::get(context)) {}
  FailureOr<OwningOpRef<ModuleOp>> read(ArrayRef<uint8_t> bytes);

private:
  InFlightDiagnostic error() { return emitError(loc) << "tosa file: "; }
  const schema::TosaBasicBlock *onlyBlock(ArrayRef<uint8_t> bytes);
  LogicalResult index(const schema::TosaBasicBlock *block);
  RankedTensorType typeOf(const schema::TosaTensor *t);
  FailureOr<SmallVector<Type>> typesOf(const Strings *list, StringRef what);
  LogicalResult readOperator(const schema::TosaOperator *op, unsigned position);
  LogicalResult readConstant(const schema::TosaTensor *t);
  LogicalResult readShape(const schema::TosaShape *s);
  LogicalResult readAttributes(const schema::TosaOperator *op, OperationState &state);
  LogicalResult readWindow(const schema::TosaOperator *op, OperationState &state);
  LogicalResult readAxis(const schema::TosaOperator *op, OperationState &state);
  LogicalResult readClamp(const schema::TosaOperator *op, OperationState &state);
  LogicalResult readRescale(const schema::RescaleAttribute *a, OperationState &state);

  LogicalResult ints(OperationState &state, StringRef name, const flatbuffers::Vector<int32_t> *v, size_t count);
  LogicalResult accumulator(OperationState &state, schema::DType dtype);
  LogicalResult nanMode(OperationState &state, schema::NanPropagationMode mode);
  void axis(OperationState &state, int32_t a) { state.addAttribute("axis", b.getI32IntegerAttr(a)); }

  MLIRContext *context;
  OpBuilder b;
  Location loc;
  llvm::StringMap<const schema::TosaTensor *> tensors;
  llvm::StringMap<const schema::TosaShape *> shapes;
  llvm::StringMap<Value> values;
  std::string where; ///< "operator 3, CONV2D"
};

constexpr int64_t maxRank = 6;
constexpr int64_t maxBytes = int64_t(1) << 33; // no tensor that this compiler makes is larger

StringRef view(const flatbuffers::String *s) { return s ? StringRef(s->c_str(), s->size()) : StringRef(); }

/// Null after a diagnostic.
const schema::TosaBasicBlock *Reader::onlyBlock(ArrayRef<uint8_t> bytes) {
  constexpr unsigned maxDepth = 16, maxTables = 1 << 22;
  flatbuffers::Verifier verifier(bytes.data(), bytes.size(), maxDepth, maxTables);
  if (bytes.size() < 8 || !schema::VerifyTosaGraphBuffer(verifier)) {
    error() << "not a well-formed TOSA flatbuffer of " << bytes.size() << " bytes";
    return nullptr;
  }
  const schema::TosaGraph *graph = schema::GetTosaGraph(bytes.data());
  const schema::Version *v = graph->version();
  if (v->_major() != 1 || v->_minor() != 0 || v->_draft()) {
    error() << "version " << v->_major() << "." << v->_minor() << (v->_draft() ? " draft" : "")
            << ", only 1.0 is read";
    return nullptr;
  }
  if (!graph->regions() || graph->regions()->size() != 1 || !graph->regions()->Get(0)->blocks() ||
      graph->regions()->Get(0)->blocks()->size() != 1) {
    error() << "must have one region of one block";
    return nullptr;
  }
  return graph->regions()->Get(0)->blocks()->Get(0);
}

/// Sizes and type of a tensor, null after a diagnostic.
RankedTensorType Reader::typeOf(const schema::TosaTensor *t) {
  StringRef name = view(t->name());
  Type element = elementOf(t->type(), context);
  if (!element || t->is_unranked() || t->variable() || t->size()) {
    error() << "tensor '" << name << "' has element type " << (unsigned)t->type()
            << ", or is unranked, a variable or kept outside: not read";
    return {};
  }
  SmallVector<int64_t> dims;
  int64_t size = (element.getIntOrFloatBitWidth() + 7) / 8;
  if (t->shape())
    dims.assign(t->shape()->begin(), t->shape()->end());
  for (int64_t d : dims) {
    bool fits = d > 0 && d <= maxBytes / size;
    if (!fits) {
      error() << "tensor '" << name << "' has extent " << d;
      return {};
    }
    size *= d;
  }
  if ((int64_t)dims.size() > maxRank) {
    error() << "tensor '" << name << "' has rank " << dims.size() << ", at most " << maxRank << " is read";
    return {};
  }
  return RankedTensorType::get(dims, element);
}

LogicalResult Reader::index(const schema::TosaBasicBlock *block) {
  if (block->tensors())
    for (const schema::TosaTensor *t : *block->tensors())
      if (view(t->name()).empty() || !tensors.try_emplace(view(t->name()), t).second)
        return error() << "two tensors, or one without a name, are called '" << view(t->name()) << "'";
  if (block->shapes())
    for (const schema::TosaShape *s : *block->shapes())
      if (view(s->name()).empty() || tensors.contains(view(s->name())) ||
          !shapes.try_emplace(view(s->name()), s).second)
        return error() << "two values, or one without a name, are called '" << view(s->name()) << "'";
  return success();
}

FailureOr<SmallVector<Type>> Reader::typesOf(const Strings *list, StringRef what) {
  SmallVector<Type> types;
  if (list)
    for (const flatbuffers::String *s : *list) {
      auto it = tensors.find(view(s));
      if (it == tensors.end())
        return LogicalResult(error() << what << " '" << view(s) << "' is no tensor of the block");
      RankedTensorType type = typeOf(it->second);
      if (!type)
        return failure();
      types.push_back(type);
    }
  return types;
}

LogicalResult Reader::readConstant(const schema::TosaTensor *t) {
  RankedTensorType type = typeOf(t);
  if (!type)
    return failure();
  size_t have = t->data() ? t->data()->size() : 0;
  auto want = onnx::getStorageBytes(type.getElementType(), type.getNumElements());
  if (!want || have != (size_t)*want)
    return error() << where << ": constant '" << view(t->name()) << "' has " << have << " bytes, its type wants "
                   << want.value_or(0);
  ArrayRef<char> raw(reinterpret_cast<const char *>(t->data()->data()), have);
  if (type.getElementType().isInteger(1) && llvm::any_of(raw, [](char c) { return (unsigned char)c > 1; }))
    return error() << where << ": a bool of '" << view(t->name()) << "' is neither 0 nor 1";
  OperationState state(loc, "tosa.const");
  state.addAttribute("values", onnx::makeConstant(type, raw, "tosa"));
  state.addTypes(type);
  values[view(t->name())] = b.create(state)->getResult(0);
  return success();
}

LogicalResult Reader::readShape(const schema::TosaShape *s) {
  size_t have = s->data() ? s->data()->size() : 0;
  constexpr unsigned maxShape = 16;
  if (s->rank() > maxShape || have != s->rank() * sizeof(int64_t))
    return error() << where << ": shape '" << view(s->name()) << "' of rank " << s->rank() << " has " << have
                   << " bytes";
  SmallVector<int64_t> v(s->rank());
  if (have)
    std::memcpy(v.data(), s->data()->data(), have);
  OperationState state(loc, "tosa.const_shape");
  auto type = RankedTensorType::get({(int64_t)v.size()}, b.getIndexType());
  state.addAttribute("values", DenseElementsAttr::get(type, ArrayRef<int64_t>(v)));
  state.addTypes(mlir::tosa::shapeType::get(context, v.size()));
  values[view(s->name())] = b.create(state)->getResult(0);
  return success();
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

LogicalResult Reader::ints(OperationState &state, StringRef name, const flatbuffers::Vector<int32_t> *v,
                           size_t count) {
  if (!v || v->size() != count)
    return error() << where << ": '" << name << "' has " << (v ? v->size() : 0) << " numbers, not " << count;
  state.addAttribute(name, b.getDenseI64ArrayAttr(SmallVector<int64_t>(v->begin(), v->end())));
  return success();
}

LogicalResult Reader::accumulator(OperationState &state, schema::DType dtype) {
  Type t = elementOf(dtype, context);
  if (!t)
    return error() << where << ": acc_type " << (unsigned)dtype << " is not read";
  state.addAttribute("acc_type", TypeAttr::get(t));
  return success();
}

LogicalResult Reader::nanMode(OperationState &state, schema::NanPropagationMode mode) {
  auto parsed = mlir::tosa::symbolizeNanPropagationMode(static_cast<uint32_t>(mode));
  if (!parsed)
    return error() << where << ": nan_mode " << (unsigned)mode << " is unknown";
  state.addAttribute("nan_mode", mlir::tosa::NanPropagationModeAttr::get(context, *parsed));
  return success();
}

LogicalResult Reader::readWindow(const schema::TosaOperator *op, OperationState &state) {
  auto convolution = [&](const auto *a, size_t space) -> LogicalResult {
    if (a->local_bound())
      return error() << where << ": local_bound is not read";
    return failed(ints(state, "pad", a->pad(), 2 * space)) || failed(ints(state, "stride", a->stride(), space)) ||
                   failed(ints(state, "dilation", a->dilation(), space))
               ? failure()
               : accumulator(state, a->acc_type());
  };
  auto pool = [&](const auto *a) -> LogicalResult {
    return success(succeeded(ints(state, "kernel", a->kernel(), 2)) &&
                   succeeded(ints(state, "stride", a->stride(), 2)) && succeeded(ints(state, "pad", a->pad(), 4)));
  };
  switch (op->op()) {
  case schema::Op_CONV2D: return convolution(op->attribute_as_Conv2dAttribute(), 2);
  case schema::Op_CONV3D: return convolution(op->attribute_as_Conv3dAttribute(), 3);
  case schema::Op_DEPTHWISE_CONV2D: return convolution(op->attribute_as_DepthwiseConv2dAttribute(), 2);
  case schema::Op_AVG_POOL2D: {
    const auto *a = op->attribute_as_AvgPool2dAttribute();
    return failed(pool(a)) ? failure() : accumulator(state, a->acc_type());
  }
  case schema::Op_MAX_POOL2D: {
    const auto *a = op->attribute_as_MaxPool2dAttribute();
    return failed(pool(a)) ? failure() : nanMode(state, a->nan_mode());
  }
  default: {
    const auto *a = op->attribute_as_TransposeConv2dAttribute();
    if (a->local_bound())
      return error() << where << ": local_bound is not read";
    return failed(ints(state, "out_pad", a->out_pad(), 4)) || failed(ints(state, "stride", a->stride(), 2))
               ? failure()
               : accumulator(state, a->acc_type());
  }
  }
}

LogicalResult Reader::readAxis(const schema::TosaOperator *op, OperationState &state) {
  switch (op->op()) {
  case schema::Op_ARGMAX:
    axis(state, op->attribute_as_ArgMaxAttribute()->axis());
    return nanMode(state, op->attribute_as_ArgMaxAttribute()->nan_mode());
  case schema::Op_REDUCE_MAX:
    axis(state, op->attribute_as_ReduceMaxAttribute()->axis());
    return nanMode(state, op->attribute_as_ReduceMaxAttribute()->nan_mode());
  case schema::Op_REDUCE_MIN:
    axis(state, op->attribute_as_ReduceMinAttribute()->axis());
    return nanMode(state, op->attribute_as_ReduceMinAttribute()->nan_mode());
  case schema::Op_REDUCE_ALL: axis(state, op->attribute_as_ReduceAllAttribute()->axis()); break;
  case schema::Op_REDUCE_ANY: axis(state, op->attribute_as_ReduceAnyAttribute()->axis()); break;
  case schema::Op_REDUCE_PRODUCT: axis(state, op->attribute_as_ReduceProductAttribute()->axis()); break;
  case schema::Op_REDUCE_SUM: axis(state, op->attribute_as_ReduceSumAttribute()->axis()); break;
  case schema::Op_CONCAT: axis(state, op->attribute_as_ConcatAttribute()->axis()); break;
  default: axis(state, op->attribute_as_ReverseAttribute()->axis()); break;
  }
  return success();
}

LogicalResult Reader::readClamp(const schema::TosaOperator *op, OperationState &state) {
  const auto *a = op->attribute_as_ClampAttribute();
  auto result = cast<RankedTensorType>(state.types.front());
  Type element = result.getElementType();
  for (auto [name, data] : {std::pair("min_val", a->min_val()), std::pair("max_val", a->max_val())}) {
    auto want = onnx::getStorageBytes(element, 1);
    if (!data || element.isInteger(1) || data->size() != (size_t)*want)
      return error() << where << ": '" << name << "' has " << (data ? data->size() : 0) << " bytes, its type wants "
                     << *want;
    ArrayRef<char> raw(reinterpret_cast<const char *>(data->data()), data->size());
    auto number = cast<DenseElementsAttr>(onnx::makeConstant(RankedTensorType::get({1}, element), raw));
    state.addAttribute(name, *number.getValues<Attribute>().begin());
  }
  return nanMode(state, a->nan_mode());
}

LogicalResult Reader::readRescale(const schema::RescaleAttribute *a, OperationState &state) {
  auto mode = mlir::tosa::symbolizeRoundingMode(static_cast<uint32_t>(a->rounding_mode()));
  if (!mode)
    return error() << where << ": rounding_mode " << (unsigned)a->rounding_mode() << " is unknown";
  state.addAttribute("rounding_mode", mlir::tosa::RoundingModeAttr::get(context, *mode));
  state.addAttribute("scale32", b.getBoolAttr(a->scale32()));
  state.addAttribute("per_channel", b.getBoolAttr(a->per_channel()));
  state.addAttribute("input_unsigned", b.getBoolAttr(a->input_unsigned()));
  state.addAttribute("output_unsigned", b.getBoolAttr(a->output_unsigned()));
  return success();
}

LogicalResult Reader::readAttributes(const schema::TosaOperator *op, OperationState &state) {
  if (takesWindow(op->op()))
    return readWindow(op, state);
  if (takesAxis(op->op()))
    return readAxis(op, state);
  switch (op->op()) {
  case schema::Op_CLAMP: return readClamp(op, state);
  case schema::Op_RESCALE: return readRescale(op->attribute_as_RescaleAttribute(), state);
  case schema::Op_MAXIMUM: return nanMode(state, op->attribute_as_MaximumAttribute()->nan_mode());
  case schema::Op_MINIMUM: return nanMode(state, op->attribute_as_MinimumAttribute()->nan_mode());
  case schema::Op_ARITHMETIC_RIGHT_SHIFT:
    state.addAttribute("round", b.getBoolAttr(op->attribute_as_ArithmeticRightShiftAttribute()->round()));
    return success();
  case schema::Op_TRANSPOSE: {
    const auto *perms = op->attribute_as_TransposeAttribute()->perms();
    if (!perms)
      return error() << where << ": 'perms' is missing";
    state.addAttribute("perms", b.getDenseI32ArrayAttr(SmallVector<int32_t>(perms->begin(), perms->end())));
    return success();
  }
  case schema::Op_RESIZE: {
    auto mode = mlir::tosa::symbolizeResizeMode(static_cast<uint32_t>(op->attribute_as_ResizeAttribute()->mode()));
    if (!mode)
      return error() << where << ": resize mode is unknown";
    state.addAttribute("mode", mlir::tosa::ResizeModeAttr::get(context, *mode));
    return success();
  }
  default: return success(); // no fields
  }
}

//===----------------------------------------------------------------------===//
// Operators
//===----------------------------------------------------------------------===//

/// Those whose attributes and results this reader knows.
bool served(schema::Op op) {
  switch (op) {
  case schema::Op_UNKNOWN:
  case schema::Op_FFT2D:
  case schema::Op_RFFT2D:
  case schema::Op_CUSTOM:
  case schema::Op_COND_IF:
  case schema::Op_WHILE_LOOP:
  case schema::Op_VARIABLE:
  case schema::Op_VARIABLE_WRITE:
  case schema::Op_VARIABLE_READ: return false;
  default: return op <= schema::Op_CONST_SHAPE; // later ones are not of TOSA 1.0
  }
}

LogicalResult Reader::readOperator(const schema::TosaOperator *op, unsigned position) {
  where = "operator " + std::to_string(position);
  if (!served(op->op()))
    return error() << where << ": operator code " << (unsigned)op->op() << " is not read";
  where += std::string(", ") + schema::EnumNameOp(op->op());
  if ((unsigned)op->attribute_type() != (unsigned)op->op() || !op->attribute())
    return error() << where << ": has attributes of another operator, " << (unsigned)op->attribute_type();
  if (!op->outputs() || op->outputs()->size() != 1)
    return error() << where << ": has " << (op->outputs() ? op->outputs()->size() : 0) << " results, not 1";
  StringRef result = view(op->outputs()->Get(0));
  if (values.contains(result))
    return error() << where << ": result '" << result << "' is defined before";
  if (op->op() == schema::Op_CONST_SHAPE) {
    auto it = shapes.find(result);
    return it == shapes.end() ? LogicalResult(error() << where << ": '" << result << "' is no shape of the block")
                              : readShape(it->second);
  }
  auto it = tensors.find(result);
  if (it == tensors.end())
    return error() << where << ": '" << result << "' is no tensor of the block";
  if (op->op() == schema::Op_CONST)
    return readConstant(it->second);
  OperationState state(loc, "tosa." + mnemonicOf(op->op()));
  if (op->inputs())
    for (const flatbuffers::String *s : *op->inputs()) {
      Value v = values.lookup(view(s));
      if (!v)
        return error() << where << ": operand '" << view(s) << "' is not defined before";
      state.addOperands(v);
    }
  RankedTensorType type = typeOf(it->second);
  if (!type)
    return failure();
  state.addTypes(type);
  if (failed(readAttributes(op, state)))
    return failure();
  Operation *made = b.create(state);
  values[result] = made->getResult(0);
  if (failed(verify(made)))
    return error() << where << ": breaks a rule of TOSA";
  return success();
}

FailureOr<OwningOpRef<ModuleOp>> Reader::read(ArrayRef<uint8_t> bytes) {
  context->getOrLoadDialect<mlir::tosa::TosaDialect>();
  context->getOrLoadDialect<func::FuncDialect>();
  const schema::TosaBasicBlock *block = onlyBlock(bytes);
  if (!block || failed(index(block)))
    return failure();
  auto inputs = typesOf(block->inputs(), "input"), outputs = typesOf(block->outputs(), "output");
  if (failed(inputs) || failed(outputs))
    return failure();
  OwningOpRef<ModuleOp> module = ModuleOp::create(b, loc);
  b.setInsertionPointToStart(module->getBody());
  auto func = func::FuncOp::create(b, loc, "main", b.getFunctionType(*inputs, *outputs));
  b.setInsertionPointToStart(func.addEntryBlock());
  for (auto [i, arg] : llvm::enumerate(func.getArguments()))
    if (!values.try_emplace(view(block->inputs()->Get(i)), arg).second)
      return LogicalResult(error() << "input '" << view(block->inputs()->Get(i)) << "' appears twice");
  unsigned position = 0;
  if (block->operators())
    for (const schema::TosaOperator *op : *block->operators())
      if (failed(readOperator(op, position++)))
        return failure();
  SmallVector<Value> results;
  for (unsigned i = 0; i < outputs->size(); ++i) {
    Value v = values.lookup(view(block->outputs()->Get(i)));
    if (!v)
      return LogicalResult(error() << "output '" << view(block->outputs()->Get(i)) << "' is computed by nothing");
    results.push_back(v);
  }
  func::ReturnOp::create(b, loc, results);
  if (failed(verify(*module)))
    return failure();
  return module;
}

} // namespace

FailureOr<OwningOpRef<ModuleOp>> readTosa(ArrayRef<uint8_t> bytes, MLIRContext *context) {
  return Reader(context).read(bytes);
}

} // namespace tessera::tosa

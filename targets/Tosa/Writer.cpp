#include "dialects/Onnx/IR/OnnxUtils.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tosa/IR/TosaOps.h"
#include "targets/Tosa/Schema.h"
#include "targets/Tosa/Serialise.h"

using namespace mlir;
using flatbuffers::Offset;

namespace tessera::tosa {
namespace {

class Writer {
public:
  FailureOr<std::vector<uint8_t>> write(func::FuncOp func);

private:
  using Ints = Offset<flatbuffers::Vector<int32_t>>;
  Offset<flatbuffers::String> text(StringRef s) { return f.CreateString(s.data(), s.size()); }
  Ints ints(Operation *op, StringRef name);
  Offset<flatbuffers::Vector<uint8_t>> bytes(ArrayRef<char> raw);
  schema::DType accumulator(Operation *op);
  Offset<void> attribute(Operation *op, schema::Op kind);
  Offset<void> windowAttribute(Operation *op, schema::Op kind);
  Offset<void> axisAttribute(Operation *op, schema::Op kind);
  Offset<void> empty();
  std::string name(Value v);
  LogicalResult addTensor(Value v, ElementsAttr data = {});
  LogicalResult addShape(mlir::tosa::ConstShapeOp op);
  LogicalResult addOperator(Operation *op);

  flatbuffers::FlatBufferBuilder f;
  llvm::DenseMap<Value, std::string> names;
  std::vector<Offset<schema::TosaTensor>> tensors;
  std::vector<Offset<schema::TosaShape>> shapes;
  std::vector<Offset<schema::TosaOperator>> operators;
};

Writer::Ints Writer::ints(Operation *op, StringRef attrName) {
  std::vector<int32_t> values;
  Attribute a = op->getAttr(attrName);
  if (auto wide = dyn_cast_or_null<DenseI64ArrayAttr>(a))
    values.assign(wide.asArrayRef().begin(), wide.asArrayRef().end());
  else if (auto narrow = dyn_cast_or_null<DenseI32ArrayAttr>(a))
    values.assign(narrow.asArrayRef().begin(), narrow.asArrayRef().end());
  return f.CreateVector(values);
}

/// The schema aligns raw data to 8 bytes.
Offset<flatbuffers::Vector<uint8_t>> Writer::bytes(ArrayRef<char> raw) {
  f.ForceVectorAlignment(raw.size(), 1, 8);
  return f.CreateVector(reinterpret_cast<const uint8_t *>(raw.data()), raw.size());
}

std::string Writer::name(Value v) {
  std::string &n = names[v];
  if (n.empty())
    n = "t" + std::to_string(names.size() - 1);
  return n;
}

schema::DType Writer::accumulator(Operation *op) { return dtypeOf(op->getAttrOfType<TypeAttr>("acc_type").getValue()); }

schema::NanPropagationMode nanMode(Operation *op) {
  auto a = op->getAttrOfType<mlir::tosa::NanPropagationModeAttr>("nan_mode");
  return !a || a.getValue() == mlir::tosa::NanPropagationMode::PROPAGATE ? schema::NanPropagationMode_PROPAGATE
                                                                         : schema::NanPropagationMode_IGNORE;
}

int32_t axisOf(Operation *op) { return op->getAttrOfType<IntegerAttr>("axis").getInt(); }
bool flag(Operation *op, StringRef name) {
  auto a = op->getAttrOfType<BoolAttr>(name);
  return a && a.getValue();
}

/// Operators whose attribute table has no fields.
Offset<void> Writer::empty() { return Offset<void>(f.EndTable(f.StartTable())); }

Offset<void> Writer::windowAttribute(Operation *op, schema::Op kind) {
  Ints stride = ints(op, "stride");
  if (kind == schema::Op_TRANSPOSE_CONV2D) {
    Ints pad = ints(op, "out_pad");
    return schema::CreateTransposeConv2dAttribute(f, pad, stride, false, accumulator(op)).Union();
  }
  Ints pad = ints(op, "pad");
  if (kind == schema::Op_AVG_POOL2D || kind == schema::Op_MAX_POOL2D) {
    Ints kernel = ints(op, "kernel");
    if (kind == schema::Op_AVG_POOL2D)
      return schema::CreateAvgPool2dAttribute(f, kernel, stride, pad, accumulator(op)).Union();
    return schema::CreateMaxPool2dAttribute(f, kernel, stride, pad, nanMode(op)).Union();
  }
  Ints dilation = ints(op, "dilation");
  if (kind == schema::Op_CONV2D)
    return schema::CreateConv2dAttribute(f, pad, stride, dilation, false, accumulator(op)).Union();
  if (kind == schema::Op_CONV3D)
    return schema::CreateConv3dAttribute(f, pad, stride, dilation, false, accumulator(op)).Union();
  return schema::CreateDepthwiseConv2dAttribute(f, pad, stride, dilation, false, accumulator(op)).Union();
}

Offset<void> Writer::axisAttribute(Operation *op, schema::Op kind) {
  int32_t axis = axisOf(op);
  switch (kind) {
  case schema::Op_ARGMAX: return schema::CreateArgMaxAttribute(f, axis, nanMode(op)).Union();
  case schema::Op_REDUCE_ALL: return schema::CreateReduceAllAttribute(f, axis).Union();
  case schema::Op_REDUCE_ANY: return schema::CreateReduceAnyAttribute(f, axis).Union();
  case schema::Op_REDUCE_MAX: return schema::CreateReduceMaxAttribute(f, axis, nanMode(op)).Union();
  case schema::Op_REDUCE_MIN: return schema::CreateReduceMinAttribute(f, axis, nanMode(op)).Union();
  case schema::Op_REDUCE_PRODUCT: return schema::CreateReduceProductAttribute(f, axis).Union();
  case schema::Op_REDUCE_SUM: return schema::CreateReduceSumAttribute(f, axis).Union();
  case schema::Op_CONCAT: return schema::CreateConcatAttribute(f, axis).Union();
  default: return schema::CreateReverseAttribute(f, axis).Union();
  }
}

/// A number's bytes as the tensor would hold them.
SmallVector<char> scalarBytes(Attribute a) {
  Type t = cast<TypedAttr>(a).getType();
  SmallVector<char> storage;
  auto raw = onnx::getRawBytes(DenseElementsAttr::get(RankedTensorType::get({1}, t), a), storage);
  return SmallVector<char>(*raw);
}

Offset<void> Writer::attribute(Operation *op, schema::Op kind) {
  if (takesWindow(kind))
    return windowAttribute(op, kind);
  if (takesAxis(kind))
    return axisAttribute(op, kind);
  switch (kind) {
  case schema::Op_MAXIMUM: return schema::CreateMaximumAttribute(f, nanMode(op)).Union();
  case schema::Op_MINIMUM: return schema::CreateMinimumAttribute(f, nanMode(op)).Union();
  case schema::Op_CLAMP: {
    auto low = bytes(scalarBytes(op->getAttr("min_val"))), high = bytes(scalarBytes(op->getAttr("max_val")));
    return schema::CreateClampAttribute(f, low, high, nanMode(op)).Union();
  }
  case schema::Op_ARITHMETIC_RIGHT_SHIFT:
    return schema::CreateArithmeticRightShiftAttribute(f, flag(op, "round")).Union();
  case schema::Op_TRANSPOSE: {
    Ints perms = ints(op, "perms");
    return schema::CreateTransposeAttribute(f, perms).Union();
  }
  case schema::Op_RESIZE: {
    auto mode = op->getAttrOfType<mlir::tosa::ResizeModeAttr>("mode").getValue();
    return schema::CreateResizeAttribute(f, static_cast<schema::ResizeMode>(mode)).Union();
  }
  case schema::Op_RESCALE: {
    auto mode = op->getAttrOfType<mlir::tosa::RoundingModeAttr>("rounding_mode").getValue();
    return schema::CreateRescaleAttribute(f, flag(op, "scale32"), static_cast<schema::RoundingMode>(mode),
                                          flag(op, "per_channel"), flag(op, "input_unsigned"),
                                          flag(op, "output_unsigned"))
        .Union();
  }
  default: return empty();
  }
}

// Enumerations of the dialect and of the file have the same numbers.
static_assert((int)mlir::tosa::ResizeMode::NEAREST_NEIGHBOR == schema::ResizeMode_NEAREST);
static_assert((int)mlir::tosa::ResizeMode::BILINEAR == schema::ResizeMode_BILINEAR);
static_assert((int)mlir::tosa::RoundingMode::SINGLE_ROUND == schema::RoundingMode_SINGLE_ROUND);
static_assert((int)mlir::tosa::RoundingMode::INEXACT_ROUND == schema::RoundingMode_INEXACT_ROUND);
static_assert((int)mlir::tosa::RoundingMode::DOUBLE_ROUND == schema::RoundingMode_DOUBLE_ROUND);

LogicalResult Writer::addTensor(Value v, ElementsAttr data) {
  auto type = dyn_cast<RankedTensorType>(v.getType());
  if (!type || !type.hasStaticShape())
    return emitError(v.getLoc()) << "tosa: a tensor of no static shape: " << v.getType();
  schema::DType dtype = dtypeOf(type.getElementType());
  if (dtype == schema::DType_UNKNOWN)
    return emitError(v.getLoc()) << "tosa: the file has no element type " << type.getElementType();
  Offset<flatbuffers::Vector<uint8_t>> payload = 0;
  if (data) {
    SmallVector<char> storage;
    auto raw = onnx::getRawBytes(data, storage);
    if (!raw)
      return emitError(v.getLoc()) << "tosa: the constant cannot be read";
    payload = bytes(*raw);
  }
  auto n = text(name(v));
  auto dims = f.CreateVector(std::vector<int32_t>(type.getShape().begin(), type.getShape().end()));
  schema::TosaTensorBuilder b(f);
  b.add_name(n);
  b.add_shape(dims);
  b.add_type(dtype);
  if (data)
    b.add_data(payload);
  tensors.push_back(b.Finish());
  return success();
}

LogicalResult Writer::addShape(mlir::tosa::ConstShapeOp op) {
  std::vector<int64_t> values;
  for (const llvm::APInt &v : op.getValues().getValues<llvm::APInt>())
    values.push_back(v.getSExtValue());
  auto data = bytes({reinterpret_cast<const char *>(values.data()), values.size() * sizeof(int64_t)});
  auto n = text(name(op.getResult()));
  shapes.push_back(schema::CreateTosaShape(f, n, values.size(), data));
  return success();
}

LogicalResult Writer::addOperator(Operation *op) {
  StringRef mnemonic = op->getName().stripDialect();
  schema::Op kind = op->getName().getDialectNamespace() == "tosa" ? opOf(mnemonic) : schema::Op_UNKNOWN;
  if (kind == schema::Op_UNKNOWN || op->getNumRegions() || op->getNumResults() != 1)
    return op->emitError() << "tosa: '" << op->getName().getStringRef() << "' has no form in the file";
  if (auto shape = dyn_cast<mlir::tosa::ConstShapeOp>(op)) {
    if (failed(addShape(shape)))
      return failure();
  } else {
    auto constant = dyn_cast<mlir::tosa::ConstOp>(op);
    if (failed(addTensor(op->getResult(0), constant ? constant.getValues() : ElementsAttr())))
      return failure();
  }
  std::vector<std::string> inputs, outputs{name(op->getResult(0))};
  for (Value v : op->getOperands())
    inputs.push_back(name(v));
  auto in = f.CreateVectorOfStrings(inputs), out = f.CreateVectorOfStrings(outputs);
  Offset<void> attr = attribute(op, kind);
  // The union's members are in the order of the operators.
  operators.push_back(
      schema::CreateTosaOperator(f, kind, static_cast<schema::Attribute>(kind), attr, in, out));
  return success();
}

FailureOr<std::vector<uint8_t>> Writer::write(func::FuncOp func) {
  std::vector<std::string> inputs, outputs;
  for (BlockArgument arg : func.getArguments()) {
    if (failed(addTensor(arg)))
      return failure();
    inputs.push_back(name(arg));
  }
  for (Operation &op : func.getBody().front()) {
    if (auto ret = dyn_cast<func::ReturnOp>(op)) {
      for (Value v : ret.getOperands())
        outputs.push_back(name(v));
      continue;
    }
    if (failed(addOperator(&op)))
      return failure();
  }
  auto ops = f.CreateVector(operators);
  auto all = f.CreateVector(tensors);
  auto sizes = f.CreateVector(shapes);
  auto in = f.CreateVectorOfStrings(inputs), out = f.CreateVectorOfStrings(outputs);
  std::vector<Offset<schema::TosaBasicBlock>> blocks{
      schema::CreateTosaBasicBlock(f, f.CreateString("main"), ops, all, in, out, sizes)};
  std::vector<Offset<schema::TosaRegion>> regions{schema::CreateTosaRegionDirect(f, "main", &blocks)};
  auto version = schema::CreateVersion(f, 1, 0, 0, false);
  f.Finish(schema::CreateTosaGraph(f, version, f.CreateVector(regions)), schema::TosaGraphIdentifier());
  return std::vector<uint8_t>(f.GetBufferPointer(), f.GetBufferPointer() + f.GetSize());
}

} // namespace

FailureOr<std::vector<uint8_t>> writeTosa(ModuleOp module) {
  auto func = module.lookupSymbol<func::FuncOp>("main");
  if (!func || !func.getBody().hasOneBlock())
    return LogicalResult(module.emitError() << "tosa: the module has no function 'main' of one block");
  return Writer().write(func);
}

} // namespace tessera::tosa

#include "targets/Rknn/OnnxWriter.h"
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "onnx/defs/schema.h"
#include "onnx/onnx_pb.h"
#include "passes/Canonicalise/OnnxBuilder.h"
#include "targets/Tosa/Lowering.h"

using namespace mlir;

namespace tessera::rknn {

namespace {

class Writer {
public:
  llvm::Expected<std::vector<uint8_t>> run(ArrayRef<Operation *> ops);

private:
  std::string nameOf(Value v);
  void declare(::onnx::ValueInfoProto &info, Value v);
  void initialise(Value v, ElementsAttr data);
  void node(Operation *op);
  void attribute(Operation *op, const ::onnx::OpSchema &schema,
                 NamedAttribute a, ::onnx::NodeProto &node);
  void refuse(const llvm::Twine &what) {
    if (fault.empty())
      fault = what.str();
  }

  ::onnx::ModelProto model;
  llvm::DenseMap<Value, std::string> names;
  std::string fault;
};

} // namespace

std::string Writer::nameOf(Value v) {
  if (!v || isa<NoneType>(v.getType()))
    return "";
  auto [it, fresh] = names.try_emplace(v);
  if (fresh) {
    it->second = "v" + std::to_string(names.size());
    std::string name = it->second; // initialise() may move the table
    if (ElementsAttr data = onnx::getConstant(v))
      initialise(v, data);
    return name;
  }
  return it->second;
}

static void setType(::onnx::TypeProto_Tensor &tensor, RankedTensorType type) {
  tensor.set_elem_type(int32_t(onnx::onnxTypeCode(type.getElementType())));
  auto *shape = tensor.mutable_shape();
  for (int64_t d : type.getShape())
    shape->add_dim()->set_dim_value(d);
}

void Writer::declare(::onnx::ValueInfoProto &info, Value v) {
  auto type = dyn_cast<RankedTensorType>(v.getType());
  if (!type || !type.hasStaticShape())
    return refuse("a tensor at the border has no static shape: " +
                  onnx::getTypeName(v.getType()));
  info.set_name(nameOf(v));
  setType(*info.mutable_type()->mutable_tensor_type(), type);
}

void Writer::initialise(Value v, ElementsAttr data) {
  ::onnx::TensorProto &t = *model.mutable_graph()->add_initializer();
  t.set_name(names.lookup(v));
  t.set_data_type(int32_t(onnx::onnxTypeCode(data.getElementType())));
  for (int64_t d : cast<ShapedType>(data.getType()).getShape())
    t.add_dims(d);
  SmallVector<char> storage;
  auto raw = onnx::getRawBytes(data, storage);
  if (!raw)
    return refuse("a constant of type " +
                  onnx::getTypeName(data.getElementType()));
  t.set_raw_data(raw->data(), raw->size());
}

/// An attribute that this version of the operator has not may only say what is
/// true without it: 0 or nothing.
static bool saysNothing(Attribute a) {
  if (auto i = dyn_cast<IntegerAttr>(a))
    return i.getValue().isZero();
  if (auto s = dyn_cast<StringAttr>(a))
    return s.getValue().empty();
  return false;
}

void Writer::attribute(Operation *op, const ::onnx::OpSchema &schema,
                       NamedAttribute a, ::onnx::NodeProto &node) {
  StringRef name = a.getName().strref();
  if (name.contains('.') || name.ends_with("SegmentSizes"))
    return;
  if (!schema.attributes().count(name.str())) {
    if (!saysNothing(a.getValue()))
      refuse(op->getName().stripDialect() + " of operator set " +
             llvm::Twine(opset) + " has no attribute '" + name + "'");
    return;
  }
  ::onnx::AttributeProto &p = *node.add_attribute();
  p.set_name(name.str());
  if (auto i = dyn_cast<IntegerAttr>(a.getValue())) {
    p.set_type(::onnx::AttributeProto::INT);
    p.set_i(i.getInt());
  } else if (auto f = dyn_cast<FloatAttr>(a.getValue())) {
    p.set_type(::onnx::AttributeProto::FLOAT);
    p.set_f(float(f.getValueAsDouble()));
  } else if (auto s = dyn_cast<StringAttr>(a.getValue())) {
    p.set_type(::onnx::AttributeProto::STRING);
    p.set_s(s.getValue().str());
  } else if (auto is = dyn_cast<DenseI64ArrayAttr>(a.getValue())) {
    p.set_type(::onnx::AttributeProto::INTS);
    for (int64_t v : is.asArrayRef())
      p.add_ints(v);
  } else if (auto fs = dyn_cast<DenseF32ArrayAttr>(a.getValue())) {
    p.set_type(::onnx::AttributeProto::FLOATS);
    for (float v : fs.asArrayRef())
      p.add_floats(v);
  } else {
    refuse(op->getName().stripDialect() + ": attribute '" + name +
           "' is of a kind that is not written");
  }
}

void Writer::node(Operation *op) {
  std::string name = op->getName().stripDialect().str();
  ::onnx::NodeProto *node = model.mutable_graph()->add_node();
  if (name == "Swish" &&
      onnx::getFloat(op, "alpha", 1) == 1) { // newer than the operator set
    std::string x = nameOf(op->getOperand(0)), y = nameOf(op->getResult(0));
    node->set_op_type("Sigmoid");
    node->add_input(x);
    node->add_output(y + "s");
    node = model.mutable_graph()->add_node();
    node->set_op_type("Mul");
    node->add_input(x);
    node->add_input(y + "s");
    node->add_output(y);
    return;
  }
  const ::onnx::OpSchema *schema =
      ::onnx::OpSchemaRegistry::Schema(name, opset);
  if (!schema || op->getNumRegions())
    return refuse(name + " is not in operator set " + llvm::Twine(opset));
  node->set_op_type(name);
  node->set_name(onnx::getNodeName(op).str());
  for (unsigned i = 0; i < onnx::getNumOperandPositions(op); ++i)
    node->add_input(nameOf(onnx::getOptionalOperand(op, i)));
  while (node->input_size() && node->input(node->input_size() - 1).empty())
    node->mutable_input()->RemoveLast();
  for (Value v : op->getResults())
    node->add_output(nameOf(v));
  for (NamedAttribute a : op->getAttrs())
    attribute(op, *schema, a, *node);
}

llvm::Expected<std::vector<uint8_t>> Writer::run(ArrayRef<Operation *> ops) {
  model.set_ir_version(8);
  auto *version = model.add_opset_import();
  version->set_domain("");
  version->set_version(opset);
  model.mutable_graph()->set_name("region");
  tosa::Border border = tosa::findBorder(ops);
  for (Value v : border.inputs)
    declare(*model.mutable_graph()->add_input(), v);
  for (Operation *op : ops)
    if (!op->hasTrait<OpTrait::ConstantLike>())
      node(op);
  for (Value v : border.outputs)
    declare(*model.mutable_graph()->add_output(), v);
  if (!fault.empty())
    return llvm::createStringError(llvm::inconvertibleErrorCode(), fault);
  std::string text;
  if (!model.SerializeToString(&text))
    return llvm::createStringError(llvm::inconvertibleErrorCode(),
                                   "the region is too large for an ONNX file");
  return std::vector<uint8_t>(text.begin(), text.end());
}

llvm::Expected<std::vector<uint8_t>> writeOnnx(ArrayRef<Operation *> ops) {
  return Writer().run(ops);
}

} // namespace tessera::rknn

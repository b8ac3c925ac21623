// What each subject of Subjects.def is of an operator.
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "onnx/defs/schema.h"
#include "targets/Rules.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace llvm;

namespace tessera {

static RankedTensorType tensorType(Value v) { return v ? dyn_cast<RankedTensorType>(v.getType()) : RankedTensorType(); }

bool isConstantOperand(Value value, Precision precision) {
  if (!value)
    return false;
  if (onnx::getConstant(value))
    return true;
  Operation *def = value.getDefiningOp();
  return isQuantised(precision) && def && def->getName().getStringRef() == "onnx.DequantizeLinear" &&
         all_of(def->getOperands(), [](Value v) { return onnx::getConstant(v) != nullptr; });
}

namespace {

/// A tensor of the operator with the name to call it by.
struct Tensor {
  Value value;
  std::string name;
};

class SubjectFinder {
public:
  SubjectFinder(const Constraint &c, Operation *op, Precision precision) : c(c), op(op), precision(precision) {}
  Findings find();

private:
  /// The tensors that `tensor` names, or all that are not constant.
  SmallVector<Tensor> tensors();
  Value operand();
  bool isOperandNamed() const;
  ArrayRef<int64_t> shape(Value v);
  void addDim(const Tensor &t, int64_t axis);
  void ints(StringRef attribute, int64_t fallback);
  SmallVector<int64_t> kernel();
  void pads();
  void grouping();
  void attribute();
  void word();
  void values();
  void broadcast();
  void isStatic();
  void dims(size_t first);
  void spatialProduct();
  void axis();
  void constness();
  void findWindow();
  void findShape();
  std::string ofTensor(StringRef what);

  const Constraint &c;
  Operation *op;
  Precision precision;
  Findings f;
};

} // namespace

SmallVector<Tensor> SubjectFinder::tensors() {
  SmallVector<Tensor> all;
  auto add = [&](Value v, StringRef name) {
    if (c.argument.empty() ? !isConstantOperand(v, precision) && !isa<NoneType>(v.getType()) : name == c.argument)
      all.push_back({v, name.str()});
  };
  for (OpOperand &o : op->getOpOperands())
    add(o.get(), onnx::getOperandName(op, onnx::getOperandPosition(op, o.getOperandNumber())));
  const auto *schema = ::onnx::OpSchemaRegistry::Schema(op->getName().stripDialect().str());
  for (OpResult r : op->getResults()) {
    unsigned at = onnx::getResultPosition(op, r.getResultNumber());
    if (schema && !schema->outputs().empty())
      add(r, schema->outputs()[std::min<size_t>(at, schema->outputs().size() - 1)].GetName());
  }
  return all;
}

bool SubjectFinder::isOperandNamed() const {
  const auto *schema = ::onnx::OpSchemaRegistry::Schema(op->getName().stripDialect().str());
  return schema && any_of(schema->inputs(), [&](auto &p) { return p.GetName() == c.argument; });
}

Value SubjectFinder::operand() {
  SmallVector<Tensor> all = tensors();
  return all.empty() ? Value() : all.front().value;
}

ArrayRef<int64_t> SubjectFinder::shape(Value v) {
  RankedTensorType type = tensorType(v);
  if (type)
    return type.getShape();
  f.faults.push_back("rank of a tensor is not known");
  return {};
}

void SubjectFinder::addDim(const Tensor &t, int64_t axis) {
  int64_t size = shape(t.value)[axis];
  if (ShapedType::isDynamic(size))
    f.faults.push_back(("dimension " + Twine(axis) + " of '" + t.name + "' is not static").str());
  else
    f.numbers.push_back(size);
}

void SubjectFinder::ints(StringRef attribute, int64_t fallback) {
  for (int64_t v : onnx::getInts(op, attribute, {fallback, fallback}))
    f.numbers.push_back(v);
}

SmallVector<int64_t> SubjectFinder::kernel() {
  SmallVector<int64_t> sizes = onnx::getInts(op, "kernel_shape");
  if (!sizes.empty() || op->getNumOperands() < 2)
    return sizes;
  ArrayRef<int64_t> weights = shape(op->getOperand(1));
  return weights.size() > 2 ? SmallVector<int64_t>(weights.drop_front(2)) : SmallVector<int64_t>();
}

/// SAME_* pads as the specification says: so that the output is input / stride.
void SubjectFinder::pads() {
  StringRef mode = onnx::getString(op, "auto_pad", "NOTSET");
  if (!mode.starts_with("SAME")) {
    if (mode == "NOTSET")
      for (int64_t p : onnx::getInts(op, "pads"))
        f.numbers.push_back(p);
    return;
  }
  SmallVector<int64_t> k = kernel();
  ArrayRef<int64_t> input = shape(op->getOperand(0));
  SmallVector<int64_t> ones(k.size(), 1), strides = onnx::getInts(op, "strides", ones),
                                          dilations = onnx::getInts(op, "dilations", ones);
  for (size_t i = 0; i < k.size() && i + 2 < input.size(); ++i) {
    if (ShapedType::isDynamic(input[i + 2])) {
      f.faults.push_back(("dimension " + Twine(i + 2) + " of 'X' is not static").str());
      continue;
    }
    int64_t reach = (k[i] - 1) * dilations[i] + 1, out = (input[i + 2] + strides[i] - 1) / strides[i];
    int64_t total = std::max<int64_t>((out - 1) * strides[i] + reach - input[i + 2], 0);
    f.numbers.push_back((total + 1) / 2); // the larger side
  }
}

void SubjectFinder::grouping() {
  int64_t group = onnx::getInt(op, "group", 1);
  if (group == 1) {
    f.words.push_back("dense");
    return;
  }
  ArrayRef<int64_t> weights = shape(op->getOperand(1));
  bool transposed = op->getName().stripDialect() == "ConvTranspose";
  // Weights are [M, C/group, ...]; transposed [C, M/group, ...].
  bool depthwise = weights.size() > 2 && (transposed ? weights[0] == group : weights[1] == 1);
  f.words.push_back(depthwise ? "depthwise" : "grouped");
}

void SubjectFinder::attribute() {
  mlir::Attribute attr = op->getAttr(c.argument);
  if (auto i = dyn_cast_or_null<IntegerAttr>(attr)) {
    f.numbers.push_back(i.getInt());
  } else if (auto d = dyn_cast_or_null<FloatAttr>(attr)) {
    f.numbers.push_back(d.getValueAsDouble());
  } else if (auto list = dyn_cast_or_null<DenseI64ArrayAttr>(attr)) {
    for (int64_t v : list.asArrayRef())
      f.numbers.push_back(v);
  } else if (auto floats = dyn_cast_or_null<DenseF32ArrayAttr>(attr)) {
    for (float v : floats.asArrayRef())
      f.numbers.push_back(v);
  } else if (const auto *schema = ::onnx::OpSchemaRegistry::Schema(op->getName().stripDialect().str())) {
    auto it = schema->attributes().find(c.argument);
    if (it == schema->attributes().end())
      return;
    const auto &value = it->second.default_value;
    if (value.has_i())
      f.numbers.push_back(value.i());
    else if (value.has_f())
      f.numbers.push_back(value.f());
  }
}

void SubjectFinder::word() {
  if (auto text = op->getAttrOfType<StringAttr>(c.argument)) {
    f.words.push_back(text.getValue().str());
    return;
  }
  if (const auto *schema = ::onnx::OpSchemaRegistry::Schema(op->getName().stripDialect().str()))
    if (auto it = schema->attributes().find(c.argument);
        it != schema->attributes().end() && it->second.default_value.has_s())
      f.words.push_back(it->second.default_value.s());
}

void SubjectFinder::values() {
  Value v = operand();
  if (!v || isa<NoneType>(v.getType()))
    return;
  if (auto integers = onnx::getConstantInts(v, 4096)) {
    f.numbers.append(integers->begin(), integers->end());
  } else if (auto floats = onnx::getConstantFloats(v, 4096)) {
    f.numbers.append(floats->begin(), floats->end());
  } else {
    f.faults.push_back("'" + c.argument + "' is not a constant of at most 4096 elements");
  }
}

void SubjectFinder::broadcast() {
  Value v = operand();
  if (!v || isa<NoneType>(v.getType()))
    return;
  ArrayRef<int64_t> from = shape(v), to = shape(op->getResult(0));
  if (llvm::is_contained(from, ShapedType::kDynamic) || llvm::is_contained(to, ShapedType::kDynamic)) {
    f.faults.push_back("shape of '" + c.argument + "' is not static");
    return;
  }
  if (from == to) {
    f.words.push_back("same");
    return;
  }
  SmallVector<int64_t> aligned(to.size() - std::min(from.size(), to.size()), 1);
  aligned.append(from.begin(), from.end());
  if (llvm::all_of(aligned, [](int64_t d) { return d == 1; })) {
    f.words.push_back("scalar");
    return;
  }
  bool channel = to.size() == 4 && aligned[1] == to[1];
  for (auto [i, d] : llvm::enumerate(aligned))
    channel &= i == 1 || d == 1;
  f.words.push_back(channel ? "channel" : "other");
}

void SubjectFinder::isStatic() {
  for (const Tensor &t : tensors()) {
    RankedTensorType type = tensorType(t.value);
    if (!type) {
      f.faults.push_back("rank of '" + t.name + "' is not known");
      continue;
    }
    for (auto [axis, size] : llvm::enumerate(type.getShape()))
      if (ShapedType::isDynamic(size))
        f.faults.push_back(("dimension " + Twine(axis) + " of '" + t.name + "' is not static").str());
  }
  if (f.faults.empty())
    f.words.push_back("yes");
}

std::string SubjectFinder::ofTensor(StringRef what) {
  return c.argument.empty() ? what.str() : (what + " of '" + c.argument + "'").str();
}

/// Sizes of the window that a convolution or a pool moves.
void SubjectFinder::findWindow() {
  switch (c.subject) {
  case Subject::Kernel:
    f.label = "kernel";
    for (int64_t k : kernel())
      f.numbers.push_back(k);
    return;
  case Subject::DilatedKernel: {
    f.label = "dilated kernel";
    SmallVector<int64_t> k = kernel(), ones(k.size(), 1), d = onnx::getInts(op, "dilations", ones);
    for (auto [size, dilation] : llvm::zip(k, d))
      f.numbers.push_back((size - 1) * dilation + 1);
    return;
  }
  case Subject::Stride:
    f.label = "stride";
    return ints("strides", 1);
  case Subject::Dilation:
    f.label = "dilation";
    return ints("dilations", 1);
  case Subject::Pad:
    f.label = "pad";
    return pads();
  default:
    f.label = "grouping";
    return grouping();
  }
}

/// Adds the dimensions of the tensors from axis `first` on.
void SubjectFinder::dims(size_t first) {
  for (const Tensor &t : tensors())
    for (size_t axis = first; axis < shape(t.value).size(); ++axis)
      addDim(t, axis);
}

void SubjectFinder::spatialProduct() {
  for (const Tensor &t : tensors()) {
    size_t before = f.numbers.size();
    for (size_t axis = 2; axis < shape(t.value).size(); ++axis)
      addDim(t, axis);
    double product = 1;
    while (f.numbers.size() > before)
      product *= f.numbers.pop_back_val();
    if (shape(t.value).size() > 2)
      f.numbers.push_back(product);
  }
}

void SubjectFinder::findShape() {
  switch (c.subject) {
  case Subject::Rank:
    f.label = ofTensor("rank");
    for (const Tensor &t : tensors()) // a variadic operand's tensors are told once
      if (RankedTensorType type = tensorType(t.value); type && !is_contained(f.numbers, double(type.getRank())))
        f.numbers.push_back(type.getRank());
    return;
  case Subject::Dim:
    f.label = ("dimension " + Twine(*c.axis) + " of '" + c.argument + "'").str();
    for (const Tensor &t : tensors()) {
      int64_t rank = shape(t.value).size(), axis = *c.axis < 0 ? *c.axis + rank : *c.axis;
      if (axis >= 0 && axis < rank)
        addDim(t, axis);
    }
    return;
  case Subject::Dims:
    f.label = ofTensor("shape");
    return dims(0);
  case Subject::Spatial:
    f.label = ofTensor("spatial size");
    return dims(2);
  case Subject::SpatialProduct:
    f.label = ofTensor("product of the spatial sizes");
    return spatialProduct();
  case Subject::Broadcast:
    f.label = "shape of '" + c.argument + "'";
    return broadcast();
  default:
    f.label = "static";
    return isStatic();
  }
}

void SubjectFinder::axis() {
  RankedTensorType type = op->getNumOperands() ? tensorType(op->getOperand(0)) : RankedTensorType();
  if (auto attr = op->getAttrOfType<IntegerAttr>("axis"); type && attr)
    f.numbers.push_back(attr.getInt() < 0 ? attr.getInt() + type.getRank() : attr.getInt());
}

void SubjectFinder::constness() {
  Value v = operand();
  bool absent = !v || isa<NoneType>(v.getType()) || (!isOperandNamed() && v.use_empty());
  f.words.push_back(absent ? "absent" : isConstantOperand(v, precision) ? "constant" : "dynamic");
}

Findings SubjectFinder::find() {
  f.label = c.argument;
  switch (c.subject) {
  case Subject::Kernel:
  case Subject::DilatedKernel:
  case Subject::Stride:
  case Subject::Dilation:
  case Subject::Pad:
  case Subject::Grouping:
    findWindow();
    break;
  case Subject::Rank:
  case Subject::Dim:
  case Subject::Dims:
  case Subject::Spatial:
  case Subject::SpatialProduct:
  case Subject::Broadcast:
  case Subject::Static:
    findShape();
    break;
  case Subject::Attribute:
    attribute();
    break;
  case Subject::Word:
    word();
    break;
  case Subject::Axis:
    f.label = "axis";
    axis();
    break;
  case Subject::Value:
    f.label = "'" + c.argument + "'";
    values();
    break;
  case Subject::Constness:
    f.label = "'" + c.argument + "'";
    constness();
    break;
  case Subject::ElementType:
    f.label = ofTensor("element type");
    for (const Tensor &t : tensors())
      if (RankedTensorType type = tensorType(t.value))
        f.words.push_back(onnx::getTypeName(type.getElementType()));
    break;
  }
  return f;
}

Findings findSubject(const Constraint &constraint, Operation *op, Precision precision) {
  return SubjectFinder(constraint, op, precision).find();
}

} // namespace tessera

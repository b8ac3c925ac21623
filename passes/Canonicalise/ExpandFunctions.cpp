// Operators without a kernel that the schema registry defines by a body of
// simpler ones, see Passes.td.
//
// The operator becomes a model of one node that calls the body as a function of
// the model; the importer inlines it, binds attributes, brings the nodes of the
// body (written for an older operator set) to the newest, and infers types.
// Small constant operands go along as initialisers: bodies that depend on the
// context look at them, and inference needs them.
#include "passes/Canonicalise/ExpandFunctions.h"

#include "dialects/Onnx/IR/OnnxUtils.h"
#include "dialects/Onnx/IR/OpsCore.h"
#include "passes/Canonicalise/OnnxBuilder.h"
#include "passes/Canonicalise/Passes.h"
#include "passes/Codegen/Lowering.h"
#include "targets/Cpu/KernelBuilder.h"

#include "llvm/ADT/StringSet.h"
#include "mlir/IR/IRMapping.h"
#include "onnx/defs/schema.h"

using namespace mlir;

namespace tessera::onnx {

#define GEN_PASS_DEF_EXPANDFUNCTIONS
#include "passes/Canonicalise/Passes.h.inc"

static ModelImporter &importer() {
  static ModelImporter theImporter;
  return theImporter;
}
void setModelImporter(ModelImporter i) { importer() = std::move(i); }

namespace {

using ::onnx::AttributeProto;
using ::onnx::FunctionProto;
using ::onnx::ModelProto;
using ::onnx::NodeProto;
using ::onnx::OpSchema;
using ::onnx::TensorProto;
using ::onnx::TypeProto;

constexpr const char *kDomain = "tessera.body";
constexpr int64_t kInitializerElements = 4096;

// "onnx.ml.Binarizer" -> ("ai.onnx.ml", "Binarizer").
const OpSchema *schemaOf(Operation *op) {
  StringRef name = op->getName().getStringRef();
  if (!name.consume_front("onnx."))
    return nullptr;
  std::string domain;
  if (name.consume_front("ml."))
    domain = "ai.onnx.ml";
  else if (name.consume_front("preview.training."))
    domain = "ai.onnx.preview.training";
  else if (name.consume_front("training."))
    domain = "ai.onnx.preview.training";
  else if (name.consume_front("preview."))
    domain = "ai.onnx.preview";
  return ::onnx::OpSchemaRegistry::Schema(name.str(), domain);
}

bool toType(Type t, TypeProto &out) {
  if (auto s = dyn_cast<SeqType>(t))
    return toType(s.getElementType(), *out.mutable_sequence_type()->mutable_elem_type());
  if (auto o = dyn_cast<OptType>(t))
    return toType(o.getElementType(), *out.mutable_optional_type()->mutable_elem_type());
  auto shaped = dyn_cast<ShapedType>(t);
  if (!shaped)
    return false;
  int64_t code = onnxTypeCode(shaped.getElementType());
  if (code == 0)
    return false;
  auto *tensor = out.mutable_tensor_type();
  tensor->set_elem_type(code);
  if (auto ranked = dyn_cast<RankedTensorType>(t)) {
    auto *shape = tensor->mutable_shape();
    for (int64_t d : ranked.getShape()) {
      auto *dim = shape->add_dim();
      if (!ShapedType::isDynamic(d))
        dim->set_dim_value(d);
    }
  }
  return true;
}

bool toTensor(ElementsAttr attr, TensorProto &out) {
  auto t = dyn_cast<RankedTensorType>(attr.getShapedType());
  int64_t code = t ? onnxTypeCode(t.getElementType()) : 0;
  if (code == 0)
    return false;
  out.set_data_type(code);
  for (int64_t d : t.getShape())
    out.add_dims(d);
  if (isa<StringType>(t.getElementType())) {
    auto strings = dyn_cast<DenseStringElementsAttr>(attr);
    if (!strings)
      return false;
    for (StringRef s : strings.getValues<StringRef>())
      out.add_string_data(s.str());
    return true;
  }
  SmallVector<char> storage;
  auto bytes = getRawBytes(attr, storage);
  if (!bytes)
    return false;
  out.set_raw_data(std::string(bytes->data(), bytes->size()));
  return true;
}

bool toAttribute(StringRef name, Attribute a, AttributeProto &out) {
  using A = AttributeProto;
  out.set_name(name.str());
  if (auto i = dyn_cast<IntegerAttr>(a)) {
    out.set_type(A::INT);
    out.set_i(i.getInt());
  } else if (auto f = dyn_cast<FloatAttr>(a)) {
    out.set_type(A::FLOAT);
    out.set_f((float)f.getValueAsDouble());
  } else if (auto s = dyn_cast<StringAttr>(a)) {
    out.set_type(A::STRING);
    out.set_s(s.getValue().str());
  } else if (auto v = dyn_cast<DenseI64ArrayAttr>(a)) {
    out.set_type(A::INTS);
    for (int64_t x : v.asArrayRef())
      out.add_ints(x);
  } else if (auto v = dyn_cast<DenseF32ArrayAttr>(a)) {
    out.set_type(A::FLOATS);
    for (float x : v.asArrayRef())
      out.add_floats(x);
  } else if (auto e = dyn_cast<ElementsAttr>(a)) {
    out.set_type(A::TENSOR);
    return toTensor(e, *out.mutable_t());
  } else if (auto t = dyn_cast<TypeAttr>(a)) {
    out.set_type(A::TYPE_PROTO);
    return toType(t.getValue(), *out.mutable_tp());
  } else if (auto l = dyn_cast<ArrayAttr>(a)) {
    out.set_type(A::STRINGS);
    for (Attribute x : l) {
      auto s = dyn_cast<StringAttr>(x);
      if (!s)
        return false;
      out.add_strings(s.getValue().str());
    }
  } else {
    return false;
  }
  return true;
}

class Expansion {
public:
  explicit Expansion(Operation *op) : op(op), schema(schemaOf(op)) {}

  bool hasBody() const {
    return schema &&
           llvm::all_of(op->getRegions(), [](Region &region) { return region.empty(); }) &&
           (schema->HasFunction() || schema->HasContextDependentFunction());
  }

  // The model that calls the body; false where it cannot be written down.
  bool write(ModelProto &model) {
    auto &graph = *model.mutable_graph();
    NodeProto &node = *graph.add_node();
    node.set_op_type(schema->Name());
    node.set_domain(schema->domain());
    std::vector<TypeProto> types;
    for (unsigned p = 0; p < getNumOperandPositions(op); ++p) {
      Value v = operand(op, p);
      types.emplace_back();
      if (!v) {
        node.add_input("");
        continue;
      }
      std::string name = "x" + std::to_string(p);
      node.add_input(name);
      if (!toType(v.getType(), types.back()))
        return false;
      ElementsAttr constant = getConstant(v);
      if (constant && constant.getNumElements() <= kInitializerElements) {
        TensorProto &t = *graph.add_initializer();
        t.set_name(name);
        if (!toTensor(constant, t))
          return false;
        continue;
      }
      inputs.push_back(v);
      auto &info = *graph.add_input();
      info.set_name(name);
      *info.mutable_type() = types.back();
    }
    for (unsigned p = 0; p < getNumResultPositions(op); ++p) {
      Value v = getOptionalResult(op, p);
      if (!v) {
        node.add_output("");
        continue;
      }
      std::string name = "y" + std::to_string(p);
      node.add_output(name);
      results.push_back(v);
      auto &info = *graph.add_output();
      info.set_name(name);
      if (!toType(v.getType(), *info.mutable_type()))
        return false;
      // Inference finds the shape; what is known here may be another dynamic one.
      info.mutable_type()->mutable_tensor_type()->clear_shape();
    }
    for (auto &[name, a] : schema->attributes()) { // with defaults: bodies refer to them
      if (Attribute set = op->getAttr(name)) {
        if (!toAttribute(name, set, *node.add_attribute()))
          return false;
      } else if (a.default_value.has_name() || a.default_value.type() != AttributeProto::UNDEFINED) {
        *node.add_attribute() = a.default_value;
        node.mutable_attribute(node.attribute_size() - 1)->set_name(name);
      }
    }
    return body(node, types, *model.add_functions()) && finish(model, node);
  }

  LogicalResult expand(IRRewriter &r) {
    ModelProto model;
    if (!write(model))
      return failure();
    auto module = importer()(std::move(model), op->getContext());
    if (failed(module))
      return failure();
    auto functions = (*module)->getOps<func::FuncOp>();
    func::FuncOp f = *functions.begin();
    if (f.getNumArguments() != inputs.size() || f.getNumResults() != results.size())
      return failure();
    IRMapping map;
    for (auto [argument, v] : llvm::zip(f.getArguments(), inputs))
      map.map(argument, v);
    r.setInsertionPoint(op);
    SmallVector<Value> values;
    for (Operation &inner : f.getBody().front()) {
      if (auto ret = dyn_cast<func::ReturnOp>(inner)) {
        for (Value v : ret.getOperands())
          values.push_back(map.lookup(v));
        break;
      }
      Operation *copy = r.clone(inner, map);
      copy->walk([&](Operation *o) { o->setLoc(op->getLoc()); });
    }
    for (auto [from, to] : llvm::zip_equal(results, values))
      if (elementType(from) && elementType(from) != elementType(to))
        return failure();
    for (auto [from, to] : llvm::zip_equal(results, values))
      replaceRefining(r, from, to);
    r.eraseOp(op);
    return success();
  }

private:
  // The newest body of the schema as a function of the model.
  bool body(const NodeProto &node, const std::vector<TypeProto> &types, FunctionProto &out) {
    if (schema->HasContextDependentFunction()) {
      int version = 0;
      for (int v : schema->context_dependent_function_opset_versions())
        version = std::max(version, v);
      ::onnx::FunctionBodyBuildContextImpl context(node, types);
      if (!schema->BuildContextDependentFunction(context, out, version))
        return false;
    } else {
      int version = 0;
      for (int v : schema->function_opset_versions())
        version = std::max(version, v);
      const FunctionProto *f = schema->GetFunction(version, false);
      if (!f)
        return false;
      out = *f;
    }
    return out.node_size() > 0;
  }

  bool finish(ModelProto &model, NodeProto &node) {
    FunctionProto &f = *model.mutable_functions(0);
    f.set_domain(kDomain);
    f.set_name(schema->Name());
    // Formal names and attributes as the call uses them.
    f.clear_attribute();
    f.clear_attribute_proto();
    for (auto &a : node.attribute())
      f.add_attribute(a.name());
    node.set_domain(kDomain);
    // Bodies do not always compute the results that the call leaves out.
    google::protobuf::RepeatedPtrField<std::string> formal, actual;
    for (int i = 0; i < node.output_size() && i < f.output_size(); ++i)
      if (!node.output(i).empty()) {
        *formal.Add() = f.output(i);
        *actual.Add() = node.output(i);
      }
    f.mutable_output()->Swap(&formal);
    node.mutable_output()->Swap(&actual);
    // A body over a variadic parameter has as many inputs as the call.
    if (f.input_size() < node.input_size())
      return false;
    model.set_ir_version(::onnx::IR_VERSION);
    model.mutable_graph()->set_name("body");
    auto *own = model.add_opset_import();
    own->set_domain(kDomain);
    own->set_version(1);
    const auto &known = ::onnx::OpSchemaRegistry::DomainToVersionRange::Instance().Map();
    auto *newest = model.add_opset_import();
    newest->set_domain("");
    newest->set_version(known.at("").second);
    for (auto &[domain, range] : known) {
      if (domain.empty())
        continue;
      auto *import = model.add_opset_import();
      import->set_domain(domain);
      import->set_version(range.second);
    }
    // Bodies of other domains do not always say which ai.onnx they use.
    if (llvm::none_of(f.opset_import(), [](auto &i) { return i.domain().empty(); })) {
      auto *import = f.add_opset_import();
      import->set_domain("");
      import->set_version(schema->domain().empty() ? schema->since_version() : model.opset_import(1).version());
    }
    return true;
  }

  Operation *op;
  const OpSchema *schema;
  SmallVector<Value> inputs, results;
};

bool hasKernel(Operation *op) {
  if (isView(op) || isControlFlow(op) || isa<WeightOp>(op))
    return true;
  cpu::Reasons reasons;
  if (cpu::isElementwise(op))
    return succeeded(cpu::matchElementwise(op, reasons));
  return cpu::findKernel(op, reasons) != nullptr;
}

/// ONNX's body of CenterCropPad mixes the target shape with int64.
void widenShape(Operation *op, IRRewriter &r) {
  if (!isOp(op, "CenterCropPad") || !elementType(op->getOperand(1)).isInteger(32))
    return;
  r.setInsertionPoint(op);
  Value wide = OnnxBuilder(r, op->getLoc()).cast(op->getOperand(1), r.getI64Type());
  r.modifyOpInPlace(op, [&] { op->setOperand(1, wide); });
}

struct ExpandFunctionsPass : impl::ExpandFunctionsBase<ExpandFunctionsPass> {
  using ExpandFunctionsBase::ExpandFunctionsBase;
  void runOnOperation() override {
    if (!importer())
      return;
    // Bodies may use operators that have bodies: until nothing changes. An
    // operator whose expansion failed is not tried again.
    llvm::DenseSet<Operation *> failedOnes;
    llvm::StringSet<> wanted;
    for (const std::string &name : operators)
      wanted.insert(name);
    IRRewriter r(&getContext());
    for (int round = 0; round < 8; ++round) {
      SmallVector<Operation *> work;
      getOperation().walk([&](Operation *op) {
        if (failedOnes.contains(op) || !Expansion(op).hasBody())
          return;
        if (wanted.empty() ? !hasKernel(op) : wanted.contains(op->getName().stripDialect()))
          work.push_back(op);
      });
      if (work.empty())
        return;
      for (Operation *op : work) {
        ScopedDiagnosticHandler quiet(&getContext(), [&](Diagnostic &d) {
          if (!verbose)
            return success();
          llvm::errs() << op->getName() << ": " << d << "\n";
          return success();
        });
        widenShape(op, r);
        if (failed(Expansion(op).expand(r)))
          failedOnes.insert(op);
      }
    }
  }
};

} // namespace

} // namespace tessera::onnx

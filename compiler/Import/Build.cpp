// The inferred model -> module. Nothing is decided here but the form of things.
#include "compiler/Import/Model.h"
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "dialects/Onnx/IR/OpsCore.h"
#include "mlir/IR/DialectResourceBlobManager.h"
#include "mlir/IR/Verifier.h"
#include "onnx/defs/schema.h"

#include <unordered_map>
#include <unordered_set>

using namespace mlir;

namespace tessera::onnx_import {

namespace {

using T = TensorProto;

class Builder {
public:
  Builder(Model &model, const ImportOptions &options, MLIRContext *context)
      : model(model), options(options), context(context), b(context) {}

  OwningOpRef<ModuleOp> run() {
    const GraphProto &graph = model.proto.graph();
    fileLoc = FileLineColLoc::get(b.getStringAttr(model.path), 0, 0);
    OwningOpRef<ModuleOp> module = ModuleOp::create(b, fileLoc);
    (*module)->setAttr("onnx.ir_version", b.getI64IntegerAttr(model.irVersion));
    if (auto it = model.opsets.find(""); it != model.opsets.end())
      (*module)->setAttr("onnx.opset", b.getI64IntegerAttr(it->second));
    (*module)->setAttr("onnx.graph", b.getStringAttr(graph.name()));

    collectTypes(graph);
    SmallVector<Type> inputs;
    for (auto &v : graph.input())
      inputs.push_back(type(v.type(), "input '" + v.name() + "'"));
    b.setInsertionPointToEnd(module->getBody());
    auto fn = func::FuncOp::create(b, fileLoc, "main", b.getFunctionType(inputs, {}));
    Block *entry = fn.addEntryBlock();
    b.setInsertionPointToStart(entry);
    scopes.emplace_back();
    for (auto [v, arg] : llvm::zip(graph.input(), fn.getArguments())) {
      arg.setLoc(loc(v.name()));
      scopes.back()[v.name()] = arg;
    }
    body(graph);
    SmallVector<Value> results;
    SmallVector<Type> resultTypes;
    for (auto &v : graph.output()) {
      results.push_back(lookup(v.name(), nullptr));
      resultTypes.push_back(results.back().getType());
    }
    func::ReturnOp::create(b, fileLoc, results);
    fn.setType(b.getFunctionType(inputs, resultTypes));
    for (auto [i, v] : llvm::enumerate(graph.input()))
      describeInput(fn, i, v);
    for (auto [i, v] : llvm::enumerate(graph.output()))
      fn.setResultAttr(i, "onnx.name", b.getStringAttr(v.name()));
    return module;
  }

private:
  Location loc(const std::string &name) { return NameLoc::get(b.getStringAttr(name)); }
  Location loc(const NodeProto &node) {
    for (auto &output : node.output())
      if (!output.empty())
        return NameLoc::get(b.getStringAttr(locationName(node)), loc(output));
    return loc(locationName(node));
  }

  void describeInput(func::FuncOp fn, unsigned index, const ValueInfoProto &v) {
    fn.setArgAttr(index, "onnx.name", b.getStringAttr(v.name()));
    SmallVector<StringRef> names;
    SmallVector<int64_t> ranges;
    for (auto [axis, dim] : llvm::enumerate(v.type().tensor_type().shape().dim())) {
      names.push_back(dim.has_dim_value() ? StringRef() : StringRef(dim.dim_param()));
      auto it = model.ranges.find({v.name(), (int)axis});
      if (it != model.ranges.end())
        llvm::append_values(ranges, (int64_t)axis, it->second.min, it->second.max,
                            it->second.multiple);
    }
    if (llvm::any_of(names, [](StringRef name) { return !name.empty(); }))
      fn.setArgAttr(index, "onnx.dims", b.getStrArrayAttr(names));
    if (!ranges.empty())
      fn.setArgAttr(index, "onnx.ranges", b.getDenseI64ArrayAttr(ranges));
    auto it = model.defaults.find(v.name());
    if (it == model.defaults.end())
      return;
    ElementsAttr value = tensor(it->second);
    Type declared = fn.getArgument(index).getType();
    if (failed(verifyCompatibleShape(declared, value.getType())) ||
        getElementTypeOrSelf(declared) != value.getElementType())
      throw ImportError("input '" + v.name() + "' is declared as " +
                        onnx::getTypeName(declared) + ", its initialiser is " +
                        onnx::getTypeName(value.getType()));
    fn.setArgAttr(index, "onnx.default", value);
  }

  //===--------------------------------------------------------------------===//
  // Types
  //===--------------------------------------------------------------------===//

  Type element(int t, const std::string &where) {
    switch (t) {
    case T::FLOAT:
      return b.getF32Type();
    case T::DOUBLE:
      return b.getF64Type();
    case T::FLOAT16:
      return b.getF16Type();
    case T::BFLOAT16:
      return b.getBF16Type();
    case T::INT8:
      return b.getI8Type();
    case T::INT16:
      return b.getI16Type();
    case T::INT32:
      return b.getI32Type();
    case T::INT64:
      return b.getI64Type();
    case T::UINT8:
      return b.getIntegerType(8, false);
    case T::UINT16:
      return b.getIntegerType(16, false);
    case T::UINT32:
      return b.getIntegerType(32, false);
    case T::UINT64:
      return b.getIntegerType(64, false);
    case T::BOOL:
      return b.getI1Type();
    case T::INT4:
      return b.getIntegerType(4);
    case T::UINT4:
      return b.getIntegerType(4, false);
    case T::INT2:
      return b.getIntegerType(2);
    case T::UINT2:
      return b.getIntegerType(2, false);
    case T::COMPLEX64:
      return ComplexType::get(b.getF32Type());
    case T::COMPLEX128:
      return ComplexType::get(b.getF64Type());
    case T::STRING:
      return onnx::StringType::get(context);
    case T::FLOAT8E4M3FN:
      return Float8E4M3FNType::get(context);
    case T::FLOAT8E4M3FNUZ:
      return Float8E4M3FNUZType::get(context);
    case T::FLOAT8E5M2:
      return Float8E5M2Type::get(context);
    case T::FLOAT8E5M2FNUZ:
      return Float8E5M2FNUZType::get(context);
    case T::FLOAT8E8M0:
      return Float8E8M0FNUType::get(context);
    case T::FLOAT4E2M1:
      return Float4E2M1FNType::get(context);
    case T::FLOAT6E2M3:
      return Float6E2M3FNType::get(context);
    case T::FLOAT6E3M2:
      return Float6E3M2FNType::get(context);
    default:
      throw ImportError(where + ": element type " + std::to_string(t) + " is not supported");
    }
  }

  Type type(const TypeProto &t, const std::string &where) {
    switch (t.value_case()) {
    case TypeProto::kTensorType: {
      Type e = element(t.tensor_type().elem_type(), where);
      if (!t.tensor_type().has_shape())
        return UnrankedTensorType::get(e);
      SmallVector<int64_t> dims;
      int64_t count = 1;
      bool overflow = false;
      for (auto &d : t.tensor_type().shape().dim()) {
        // Inference of a branch that is never taken may give negative ones.
        bool known = d.has_dim_value() && d.dim_value() >= 0;
        dims.push_back(known ? d.dim_value() : ShapedType::kDynamic);
        if (known)
          overflow |= llvm::MulOverflow<int64_t>(count, std::max<int64_t>(d.dim_value(), 1), count);
      }
      std::optional<int64_t> bytes = onnx::getStorageBytes(e, count);
      if (overflow || !bytes || *bytes > options.maxTensorBytes)
        throw ImportError(where + ": a tensor over the limit of " +
                          std::to_string(options.maxTensorBytes) + " bytes");
      return RankedTensorType::get(dims, e);
    }
    case TypeProto::kSequenceType:
      return onnx::SeqType::get(context, type(t.sequence_type().elem_type(), where));
    case TypeProto::kOptionalType:
      return onnx::OptType::get(context, type(t.optional_type().elem_type(), where));
    case TypeProto::kMapType:
      return onnx::MapType::get(context, element(t.map_type().key_type(), where),
                                type(t.map_type().value_type(), where));
    case TypeProto::kSparseTensorType:
      throw ImportError(where + ": sparse tensors are not supported");
    case TypeProto::VALUE_NOT_SET:
      throw ImportError(where + ": the type is not known");
    default:
      throw ImportError(where + ": opaque types are not supported");
    }
  }

  void collectTypes(const GraphProto &g) {
    for (auto *list : {&g.input(), &g.output(), &g.value_info()})
      for (auto &v : *list)
        if (v.has_type())
          types[v.name()] = &v.type();
  }

  //===--------------------------------------------------------------------===//
  // Constants and attributes
  //===--------------------------------------------------------------------===//

  ElementsAttr tensor(const T &t) {
    std::string where = "tensor '" + t.name() + "'";
    SmallVector<int64_t> dims(t.dims().begin(), t.dims().end());
    auto ty = RankedTensorType::get(dims, element(t.data_type(), where));
    if (t.data_type() == T::STRING) {
      SmallVector<StringRef> strings(t.string_data().begin(), t.string_data().end());
      return DenseStringElementsAttr::get(ty, strings);
    }
    if (ty.getNumElements() == 0)
      return DenseElementsAttr::get(ty, ArrayRef<Attribute>());
    std::vector<char> storage;
    std::shared_ptr<const void> owner;
    ArrayRef<char> bytes = tensorBytes(model, t, storage, owner);
    StringRef name = t.name().empty() ? StringRef("constant") : StringRef(t.name());
    if (!owner)
      return onnx::makeConstant(ty, bytes, name);
    AsmResourceBlob blob(
        bytes, /*dataAlignment=*/1, [owner](void *, size_t, size_t) {}, /*dataIsMutable=*/false);
    return DenseResourceElementsAttr::get(ty, name, std::move(blob));
  }

  Attribute attribute(const AttributeProto &a, const NodeProto &node) {
    using A = AttributeProto;
    switch (a.type()) {
    case A::INT:
      return b.getI64IntegerAttr(a.i());
    case A::FLOAT:
      return b.getF32FloatAttr(a.f());
    case A::STRING:
      return b.getStringAttr(a.s());
    case A::INTS:
      return b.getDenseI64ArrayAttr({a.ints().data(), (size_t)a.ints_size()});
    case A::FLOATS:
      return b.getDenseF32ArrayAttr({a.floats().data(), (size_t)a.floats_size()});
    case A::STRINGS: {
      SmallVector<StringRef> strings(a.strings().begin(), a.strings().end());
      return b.getStrArrayAttr(strings);
    }
    case A::TENSOR:
      return tensor(a.t());
    case A::TENSORS: {
      SmallVector<Attribute> list;
      for (auto &t : a.tensors())
        list.push_back(tensor(t));
      return b.getArrayAttr(list);
    }
    case A::TYPE_PROTO:
      return TypeAttr::get(type(a.tp(), describe(node) + ", attribute '" + a.name() + "'"));
    default:
      fail(node, "attribute '" + a.name() + "' is of a kind that is not supported");
    }
  }

  // All forms of Constant are one.
  ElementsAttr constantValue(const NodeProto &node) {
    for (auto &a : node.attribute()) {
      if (a.name() == "value")
        return tensor(a.t());
      if (a.name() == "value_float")
        return DenseElementsAttr::get(RankedTensorType::get({}, b.getF32Type()), a.f());
      if (a.name() == "value_int")
        return onnx::makeInt64Constant(context, a.i(), /*scalar=*/true);
      if (a.name() == "value_ints")
        return onnx::makeInt64Constant(context, {a.ints().data(), (size_t)a.ints_size()});
      if (a.name() == "value_floats")
        return DenseElementsAttr::get(
            RankedTensorType::get({a.floats_size()}, b.getF32Type()),
            ArrayRef<float>(a.floats().data(), (size_t)a.floats_size()));
      if (a.name() == "value_string")
        return DenseStringElementsAttr::get(
            RankedTensorType::get({}, onnx::StringType::get(context)), StringRef(a.s()));
      if (a.name() == "value_strings") {
        SmallVector<StringRef> strings(a.strings().begin(), a.strings().end());
        return DenseStringElementsAttr::get(
            RankedTensorType::get({a.strings_size()}, onnx::StringType::get(context)), strings);
      }
    }
    fail(node, "the constant has no value");
  }

  //===--------------------------------------------------------------------===//
  // Nodes
  //===--------------------------------------------------------------------===//

  Value lookup(const std::string &name, const NodeProto *user) {
    for (auto &scope : llvm::reverse(scopes))
      if (auto it = scope.find(name); it != scope.end())
        return it->second;
    std::string message = "value '" + name + "' is not defined";
    if (user)
      fail(*user, message);
    throw ImportError(message);
  }

  void body(const GraphProto &g) {
    std::unordered_set<std::string> used;
    std::vector<std::string> names;
    for (auto &node : g.node())
      collectFreeNames(node, names);
    for (auto &v : g.output())
      names.push_back(v.name());
    used.insert(names.begin(), names.end());
    for (auto &t : g.initializer())
      if (used.contains(t.name()))
        scopes.back()[t.name()] = onnx::WeightOp::create(b, loc(t.name()), tensor(t)).getResult();
    for (auto &n : g.node())
      node(n);
  }

  void region(const NodeProto &owner, const GraphProto &g, Region &r) {
    OpBuilder::InsertionGuard guard(b);
    auto savedTypes = types;
    collectTypes(g);
    scopes.emplace_back();
    Block *block = b.createBlock(&r);
    for (auto &v : g.input())
      scopes.back()[v.name()] = block->addArgument(
          type(v.type(), describe(owner) + ", body input '" + v.name() + "'"), loc(v.name()));
    body(g);
    SmallVector<Value> results;
    for (auto &v : g.output())
      results.push_back(lookup(v.name(), &owner));
    onnx::YieldOp::create(b, loc(owner), results);
    scopes.pop_back();
    types = std::move(savedTypes);
  }

  std::string operationName(const NodeProto &node) {
    static const std::unordered_map<std::string, std::string> prefixes = {
        {"", "onnx."},
        {"ai.onnx.ml", "onnx.ml."},
        {"ai.onnx.preview", "onnx.preview."},
        {"ai.onnx.preview.training", "onnx.training."}};
    auto it = prefixes.find(node.domain());
    return it == prefixes.end() ? "" : it->second + node.op_type();
  }

  void node(const NodeProto &n) {
    if (n.domain().empty() && n.op_type() == "Constant") {
      ElementsAttr value = constantValue(n);
      scopes.back()[n.output(0)] = onnx::WeightOp::create(b, loc(n), value).getResult();
      return;
    }
    std::string name = operationName(n);
    auto info = name.empty() ? std::nullopt : RegisteredOperationName::lookup(name, context);
    if (!info && newestVersion(n.domain()))
      fail(n, "unknown operator");
    Location where = loc(n);
    OperationState state(where, info ? name : "onnx.Custom");
    NamedAttrList attributes;
    std::map<std::string, const AttributeProto *, std::greater<>> graphs;
    for (auto &a : n.attribute()) {
      if (a.type() == AttributeProto::GRAPH)
        graphs[a.name()] = &a;
      else
        attributes.append(a.name() == "type" && info ? "type_attr" : a.name(), attribute(a, n));
    }
    if (info) {
      known(n, *info, state, attributes);
      for (auto &[attrName, a] : newestSchema(n)->attributes())
        if (a.type == AttributeProto::GRAPH)
          graphs.try_emplace(attrName); // an absent body is an empty region
    }
    if (!info)
      custom(n, state, attributes);
    SmallVector<const std::string *> results;
    for (auto &output : n.output()) {
      if (output.empty() && info)
        continue;
      results.push_back(&output);
      auto it = types.find(output);
      if (it == types.end() && !output.empty())
        fail(n, "the type of output '" + output + "' cannot be inferred");
      state.addTypes(output.empty() ? Type(b.getNoneType())
                                    : type(*it->second, describe(n) + ", output '" + output + "'"));
    }
    // In the order of the operator's definition: then_branch before else_branch.
    for (size_t i = 0; i < graphs.size(); ++i)
      state.addRegion();
    Operation *op = b.create(state);
    for (auto [output, result] : llvm::zip(results, op->getResults()))
      if (!output->empty())
        scopes.back()[*output] = result;
    for (auto [entry, r] : llvm::zip(graphs, op->getRegions()))
      if (entry.second)
        region(n, entry.second->g(), r);
    checkBodies(n, op);
    checkValues(n, op);
  }

  void known(const NodeProto &n, RegisteredOperationName info, OperationState &state,
             NamedAttrList &attributes) {
    const ::onnx::OpSchema *schema = newestSchema(n);
    auto segments = [](auto &formals, auto &actuals) {
      SmallVector<int32_t> sizes;
      for (auto [i, formal] : llvm::enumerate(formals))
        if (formal.GetOption() == ::onnx::OpSchema::Variadic)
          sizes.push_back(std::max(0, actuals.size() - (int)i));
        else
          sizes.push_back((int)i < actuals.size() && !actuals[i].empty());
      return sizes;
    };
    for (auto [i, input] : llvm::enumerate(n.input())) {
      if (!input.empty()) {
        state.addOperands(lookup(input, &n));
        continue;
      }
      size_t last = schema->inputs().size() - 1;
      auto option = schema->inputs()[std::min(i, last)].GetOption();
      if (option != ::onnx::OpSchema::Optional)
        fail(n, "input '" + schema->inputs()[std::min(i, last)].GetName() + "' is required");
    }
    if (info.hasTrait<OpTrait::AttrSizedOperandSegments>())
      attributes.append("operandSegmentSizes",
                        b.getDenseI32ArrayAttr(segments(schema->inputs(), n.input())));
    if (info.hasTrait<OpTrait::AttrSizedResultSegments>())
      attributes.append("resultSegmentSizes",
                        b.getDenseI32ArrayAttr(segments(schema->outputs(), n.output())));
    state.addAttributes(attributes);
  }

  void custom(const NodeProto &n, OperationState &state, NamedAttrList &attributes) {
    for (auto &input : n.input())
      state.addOperands(input.empty()
                            ? onnx::NoValueOp::create(b, loc(n), b.getNoneType()).getResult()
                            : lookup(input, &n));
    state.addAttribute("domain", b.getStringAttr(n.domain()));
    state.addAttribute("op_type", b.getStringAttr(n.op_type()));
    state.addAttribute("attrs", attributes.getDictionary(context));
  }

  // What neither checker nor inference says about bodies.
  void checkBodies(const NodeProto &n, Operation *op) {
    if (!n.domain().empty() || op->getNumRegions() == 0)
      return;
    auto expect = [&](const char *what, size_t found, size_t wanted) {
      if (found != wanted)
        fail(n, std::string("the body has ") + std::to_string(found) + " " + what + ", " +
                    std::to_string(wanted) + " are needed");
    };
    for (Region &r : op->getRegions()) {
      size_t inputs = r.front().getNumArguments(),
             outputs = r.front().getTerminator()->getNumOperands();
      size_t results = op->getNumResults();
      if (n.op_type() == "If") {
        expect("inputs", inputs, 0);
        expect("outputs", outputs, results);
      } else if (n.op_type() == "Loop") {
        size_t carried = n.input_size() < 2 ? 0 : n.input_size() - 2;
        expect("inputs", inputs, carried + 2);
        expect("outputs", outputs, n.output_size() + 1);
        if (outputs < carried + 1)
          fail(n, "the body has fewer outputs than the loop carries values");
      } else if (n.op_type() == "Scan") {
        expect("inputs", inputs, n.input_size());
        expect("outputs", outputs, n.output_size());
      }
    }
  }

  // Values that no check of types shows to be impossible.
  void checkValues(const NodeProto &n, Operation *op) {
    if (!n.domain().empty() || n.op_type() != "Range")
      return;
    ElementsAttr delta = onnx::getConstant(op->getOperand(2));
    auto ints = onnx::getInts(delta, 1);
    auto floats = onnx::getFloats(delta, 1);
    if ((ints && !ints->empty() && (*ints)[0] == 0) ||
        (floats && !floats->empty() && (*floats)[0] == 0))
      fail(n, "input 'delta' is 0");
  }

  Model &model;
  const ImportOptions &options;
  MLIRContext *context;
  OpBuilder b;
  Location fileLoc = UnknownLoc::get(context);
  std::vector<std::unordered_map<std::string, Value>> scopes;
  std::unordered_map<std::string, const TypeProto *> types;
};

} // namespace

OwningOpRef<ModuleOp> buildModule(Model &model, const ImportOptions &options,
                                  MLIRContext *context) {
  return Builder(model, options, context).run();
}

} // namespace tessera::onnx_import

// The ONNX checker, after what it leaves to others: operator sets that nobody
// knows, and fields that it insists on although every writer may leave them out.
#include "compiler/Import/Model.h"
#include "onnx/checker.h"
#include "onnx/defs/schema.h"

namespace tessera::onnx_import {

namespace {

// "" and "ai.onnx" are one domain.
void normaliseDomain(std::string *domain) {
  if (*domain == "ai.onnx")
    domain->clear();
}

void normaliseDomains(NodeList &nodes) {
  for (NodeProto &node : nodes) {
    if (node.domain() == "ai.onnx")
      normaliseDomain(node.mutable_domain());
    for (AttributeProto &a : *node.mutable_attribute()) {
      if (a.has_g())
        normaliseDomains(*a.mutable_g()->mutable_node());
      for (GraphProto &g : *a.mutable_graphs())
        normaliseDomains(*g.mutable_node());
    }
  }
}

// onnxruntime writes some of its operators into ONNX's domain.
void adoptStrays(ModelProto &proto) {
  bool found = false;
  forEachGraph(*proto.mutable_graph(), [&](GraphProto &g) {
    for (NodeProto &node : *g.mutable_node())
      if (node.domain().empty() && (node.op_type() == "SimplifiedLayerNormalization" ||
                                    node.op_type() == "SkipSimplifiedLayerNormalization")) {
        node.set_domain("com.microsoft");
        found = true;
      }
  });
  for (auto &import : proto.opset_import())
    found &= import.domain() != "com.microsoft";
  if (!found)
    return;
  auto *import = proto.add_opset_import();
  import->set_domain("com.microsoft");
  import->set_version(1);
}

template <typename Imports>
std::map<std::string, int64_t> readOpsets(Imports &imports, const std::string &where) {
  std::map<std::string, int64_t> opsets;
  Imports merged;
  const auto &known = ::onnx::OpSchemaRegistry::DomainToVersionRange::Instance().Map();
  for (auto &import : imports) {
    normaliseDomain(import.mutable_domain());
    auto [it, fresh] = opsets.try_emplace(import.domain(), import.version());
    std::string name = import.domain().empty() ? "ai.onnx" : import.domain();
    if (!fresh && it->second != import.version())
      throw ImportError(where + "imports operator sets " + std::to_string(it->second) + " and " +
                        std::to_string(import.version()) + " of domain " + name);
    if (import.version() < 1)
      throw ImportError(where + "imports operator set " + std::to_string(import.version()) +
                        " of domain " + name + "; they begin at 1");
    auto range = known.find(import.domain());
    if (range != known.end() && import.version() > range->second.second)
      throw ImportError(where + "imports operator set " + std::to_string(import.version()) +
                        " of domain " + name + ", the newest known is " +
                        std::to_string(range->second.second));
    if (fresh)
      *merged.Add() = import;
  }
  imports.Swap(&merged);
  return opsets;
}

// The checker wants a shape for inputs and outputs; without one their rank is
// not known, which is no fault.
class MissingTypes {
public:
  explicit MissingTypes(GraphProto &graph) {
    for (ValueInfoProto &v : *graph.mutable_input())
      addShape(v);
    for (ValueInfoProto &v : *graph.mutable_output())
      if (v.has_type() && v.type().value_case() != TypeProto::VALUE_NOT_SET) {
        addShape(v);
      } else {
        v.mutable_type()->mutable_tensor_type()->set_elem_type(TensorProto::FLOAT);
        v.mutable_type()->mutable_tensor_type()->mutable_shape();
        untyped.push_back(&v);
      }
  }
  ~MissingTypes() {
    for (ValueInfoProto *v : shapeless)
      v->mutable_type()->mutable_tensor_type()->clear_shape();
    for (ValueInfoProto *v : untyped)
      v->clear_type();
  }

private:
  void addShape(ValueInfoProto &v) {
    if (!v.type().has_tensor_type() || v.type().tensor_type().has_shape())
      return;
    v.mutable_type()->mutable_tensor_type()->mutable_shape();
    shapeless.push_back(&v);
  }
  std::vector<ValueInfoProto *> shapeless, untyped;
};

// -1 is how some writers spell an unknown dimension.
void checkDims(TypeProto &type, const std::string &where) {
  if (type.has_tensor_type() && type.tensor_type().has_shape()) {
    for (auto &dim : *type.mutable_tensor_type()->mutable_shape()->mutable_dim()) {
      if (!dim.has_dim_value() || dim.dim_value() >= 0)
        continue;
      if (dim.dim_value() != -1)
        throw ImportError(where + ": negative dimension " + std::to_string(dim.dim_value()));
      dim.clear_value();
    }
  } else if (type.has_sequence_type()) {
    checkDims(*type.mutable_sequence_type()->mutable_elem_type(), where);
  } else if (type.has_optional_type()) {
    checkDims(*type.mutable_optional_type()->mutable_elem_type(), where);
  }
}

// Operators that the checker refuses as deprecated although models hold them
// and their meaning is clear: it does not get to see their domain.
class Deprecated {
public:
  explicit Deprecated(ModelProto &proto) {
    visit(*proto.mutable_graph()->mutable_node());
    for (FunctionProto &f : *proto.mutable_functions()) {
      size_t before = hidden.size();
      visit(*f.mutable_node());
      if (hidden.size() != before)
        importInto(*f.mutable_opset_import());
    }
    if (!hidden.empty())
      importInto(*proto.mutable_opset_import());
  }
  ~Deprecated() {
    for (auto &[node, domain] : hidden)
      node->set_domain(domain);
    for (auto *imports : extended)
      imports->RemoveLast();
  }

private:
  using Imports = google::protobuf::RepeatedPtrField<::onnx::OperatorSetIdProto>;
  static constexpr const char *kDomain = "tessera.deprecated";
  void importInto(Imports &imports) {
    auto *import = imports.Add();
    import->set_domain(kDomain);
    import->set_version(1);
    extended.push_back(&imports);
  }
  void visit(NodeList &nodes) {
    for (NodeProto &node : nodes) {
      const std::string &op = node.op_type();
      bool known = node.domain().empty()
                       ? op == "GroupNormalization"
                       : node.domain() == "ai.onnx.ml" &&
                             (op == "TreeEnsembleClassifier" || op == "TreeEnsembleRegressor");
      if (known) {
        hidden.emplace_back(&node, node.domain());
        node.set_domain(kDomain);
      }
      for (AttributeProto &a : *node.mutable_attribute()) {
        if (a.has_g())
          visit(*a.mutable_g()->mutable_node());
        for (GraphProto &g : *a.mutable_graphs())
          visit(*g.mutable_node());
      }
    }
  }
  std::vector<std::pair<NodeProto *, std::string>> hidden;
  std::vector<Imports *> extended;
};

// The first line is the fault, the node's name comes in a context line.
[[noreturn]] void rethrow(const std::string &text) {
  llvm::StringRef message = text;
  auto [fault, context] = message.split("\n\n==> Context: ");
  std::string clean;
  for (char c : fault.trim())
    clean += c == '\n' ? ' ' : c;
  std::string node;
  if (size_t at = context.find("Name: "); at != llvm::StringRef::npos) {
    auto [name, op] = context.substr(at + 6).split(" OpType: ");
    node = name.str();
    clean = "node '" + node + "' (" + op.split('\n').first.str() + "): " + clean;
  }
  throw ImportError(clean, node);
}

} // namespace

void checkModel(Model &model) {
  ModelProto &proto = model.proto;
  GraphProto &graph = *proto.mutable_graph();
  model.irVersion = proto.ir_version();
  if (model.irVersion < 1)
    throw ImportError("the model has no IR version");
  if (model.irVersion > ::onnx::IR_VERSION)
    throw ImportError("IR version " + std::to_string(model.irVersion) + ", the newest known is " +
                      std::to_string(::onnx::IR_VERSION));
  normaliseDomains(*graph.mutable_node());
  adoptStrays(proto);
  if (!proto.opset_import_size() && model.irVersion < 3)
    proto.add_opset_import()->set_version(1);
  model.opsets = readOpsets(*proto.mutable_opset_import(), "the model ");
  for (FunctionProto &f : *proto.mutable_functions()) {
    normaliseDomains(*f.mutable_node());
    normaliseDomain(f.mutable_domain());
    readOpsets(*f.mutable_opset_import(), "function '" + f.name() + "' ");
  }
  forEachGraph(graph, [](GraphProto &g) {
    for (ValueInfoProto &v : *g.mutable_input())
      if (v.has_type())
        checkDims(*v.mutable_type(), "input '" + v.name() + "'");
    for (ValueInfoProto &v : *g.mutable_output())
      if (v.has_type())
        checkDims(*v.mutable_type(), "output '" + v.name() + "'");
  });

  // Up to IR version 3 every initialiser had to be an input; models were rarely
  // meant to be overridden, and writers rarely obeyed.
  if (model.irVersion <= 3) {
    llvm::StringMap<bool> initializers;
    for (auto &t : graph.initializer())
      initializers[t.name()] = true;
    google::protobuf::RepeatedPtrField<ValueInfoProto> inputs;
    for (ValueInfoProto &v : *graph.mutable_input())
      if (!initializers.contains(v.name()))
        inputs.Add()->Swap(&v);
    graph.mutable_input()->Swap(&inputs);
  }
  proto.set_ir_version(::onnx::IR_VERSION);

  checkWithoutPayloads(model, [&] {
    MissingTypes missing(graph);
    Deprecated deprecated(proto);
    try {
      // Functions may be written for another operator set: see Inline.cpp.
      ::onnx::checker::check_model(proto, /*full_check=*/false,
                                   /*skip_opset_compatibility_check=*/true);
    } catch (const std::exception &e) {
      rethrow(e.what());
    }
  });
}

} // namespace tessera::onnx_import

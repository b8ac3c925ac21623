// Operators with a recipe become calls of functions made for them, which
// Inline.cpp expands. What no recipe covers (an input or attribute outside it)
// leaves the node as it is, and the reason as a warning.
#include "compiler/Import/Contrib.h"
#include "onnx/defs/schema.h"
#include "onnx/shape_inference/implementation.h"

#include <list>
#include <unordered_map>

namespace tessera::onnx_import {

namespace {

using T = TensorProto;

// Types and constants by name, with those of the graphs around.
struct Scope {
  const Scope *outer = nullptr;
  std::unordered_map<std::string, const TypeProto *> types;
  std::unordered_map<std::string, const TensorProto *> constants;

  const TypeProto *type(const std::string &name) const {
    auto it = types.find(name);
    return it != types.end() ? it->second : outer ? outer->type(name) : nullptr;
  }
  const TensorProto *constant(const std::string &name) const {
    auto it = constants.find(name);
    return it != constants.end() ? it->second
           : outer               ? outer->constant(name)
                                 : nullptr;
  }
};

FunctionProto emptyFunction(const std::string &domain, const std::string &op,
                            size_t inputs, size_t outputs) {
  FunctionProto f;
  f.set_domain(domain);
  f.set_name(op);
  auto *import = f.add_opset_import();
  import->set_domain("");
  import->set_version(newestVersion(""));
  for (size_t i = 0; i < inputs; ++i)
    f.add_input("i" + std::to_string(i));
  for (size_t i = 0; i < outputs; ++i)
    f.add_output("o" + std::to_string(i));
  return f;
}

void checkAgainst(const ContribOperator &known, const NodeProto &node) {
  auto refuse = [](const char *what, int i) {
    throw Unsupported{std::string(what) + " " + std::to_string(i)};
  };
  for (int i = known.inputs; i < node.input_size(); ++i)
    if (!node.input(i).empty())
      refuse("input", i);
  for (int i = known.outputs; i < node.output_size(); ++i)
    if (!node.output(i).empty())
      refuse("output", i);
  for (auto &a : node.attribute())
    if (!llvm::is_contained(known.attributes, llvm::StringRef(a.name())))
      throw Unsupported{"attribute '" + a.name() + "'"};
}

class Lowering {
public:
  explicit Lowering(Model &model)
      : model(model), names(*model.proto.mutable_graph()) {
    for (const FunctionProto &f : model.proto.functions())
      taken.insert({f.domain() + ":" + f.name(),
                    true}); // the model's own take precedence
  }

  /// `typed`: the same graph with the types of its values.
  void lower(GraphProto &graph, GraphProto &typed, const Scope *outer) {
    Scope scope;
    scope.outer = outer;
    fill(scope, typed, graph);
    lower(*graph.mutable_node(), typed.mutable_node(), scope);
  }

  void lower(NodeList &nodes, NodeList *typed, const Scope &scope) {
    for (int i = 0; i < nodes.size(); ++i) {
      NodeProto &node = nodes[i];
      if (const ContribOperator *known = findContrib(node);
          known && !taken.contains(node.domain() + ":" + node.op_type()))
        lower(*known, node, scope);
      for (int a = 0; a < node.attribute_size(); ++a) {
        AttributeProto &body = *node.mutable_attribute(a);
        AttributeProto &like = typed ? *(*typed)[i].mutable_attribute(a) : body;
        if (body.has_g())
          lower(*body.mutable_g(), *like.mutable_g(), &scope);
        for (int g = 0; g < body.graphs_size(); ++g)
          lower(*body.mutable_graphs(g), *like.mutable_graphs(g), &scope);
      }
    }
  }

private:
  void fill(Scope &scope, const GraphProto &typed, const GraphProto &graph) {
    for (auto *list : {&typed.input(), &typed.value_info(), &typed.output()})
      for (auto &v : *list)
        if (v.has_type())
          scope.types[v.name()] = &v.type();
    for (auto &t : graph.initializer()) {
      scope.constants[t.name()] = &t;
      TypeProto &type = initializers.emplace_back();
      type.mutable_tensor_type()->set_elem_type(t.data_type());
      auto *shape = type.mutable_tensor_type()->mutable_shape();
      for (int64_t d : t.dims())
        shape->add_dim()->set_dim_value(d);
      scope.types[t.name()] = &type;
    }
    for (auto &node : graph.node())
      if (node.domain().empty() && node.op_type() == "Constant" &&
          node.output_size())
        for (auto &a : node.attribute())
          if (a.name() == "value" && a.has_t())
            scope.constants[node.output(0)] = &a.t();
  }

  void lower(const ContribOperator &known, NodeProto &node,
             const Scope &scope) {
    NodeProto before = node;
    try {
      checkAgainst(known, node);
      Call call;
      for (auto &a : node.attribute())
        call.attributes[a.name()] = a;
      for (auto &name : node.input()) {
        call.inputs.push_back(!name.empty());
        call.types.push_back(name.empty() ? nullptr : scope.type(name));
        call.constants.push_back(name.empty() ? nullptr : scope.constant(name));
      }
      for (auto &name : node.output())
        call.outputs.push_back(!name.empty());
      call.model = &model;
      call.node = &node;
      call.names = &names;
      call.made = &made;
      FunctionProto f = emptyFunction(node.domain(), node.op_type(),
                                      node.input_size(), node.output_size());
      Recipe recipe(call, f);
      recipe.need(0);
      known.write(recipe);
      while (f.input_size() < node.input_size()) // tensors that the recipe made
        f.add_input("i" + std::to_string(f.input_size()));
      f.set_overload("tessera." + std::to_string(count++));
      node.set_overload(f.overload());
      node.clear_attribute();
      *model.proto.add_functions() = std::move(f);
    } catch (const Unsupported &reason) {
      node = before;
      model.warnings.push_back(describe(node) + ": kept as it is, for " +
                               reason.why + " is not supported");
    }
  }

  Model &model;
  NameSet names;
  std::map<std::string, std::string> made;
  llvm::StringMap<bool> taken;
  std::list<TypeProto> initializers;
  int count = 0;
};

} // namespace

static const ContribOperator *findContrib(const std::string &name) {
  static const auto table = [] {
    llvm::StringMap<const ContribOperator *> all;
    for (auto list : {fusedOperators(), quantisedOperators(), packedOperators(),
                      attentionOperators(), cachedAttentionOperators(),
                      tensorOperators(), supportVectorOperators()})
      for (const ContribOperator &o : list)
        all[o.name] = &o;
    return all;
  }();
  return table.lookup(name);
}
const ContribOperator *findContrib(const NodeProto &node) {
  if (node.domain().empty() || !node.overload().empty())
    return nullptr;
  return findContrib(node.domain() == "com.microsoft"
                         ? node.op_type()
                         : node.domain() + "." + node.op_type());
}

void inferContrib(const std::string &op, ::onnx::InferenceContext &context,
                  const ::onnx::ISchemaRegistry *registry) {
  const ContribOperator *known = findContrib(op);
  if (!known)
    return;
  Call call;
  for (const char *name : known->attributes)
    if (const AttributeProto *a = context.getAttribute(name))
      call.attributes[name] = *a;
  for (size_t i = 0; i < context.getNumInputs(); ++i) {
    call.inputs.push_back(context.hasInput(i));
    call.types.push_back(context.getInputType(i));
    call.constants.push_back(context.getInputData(i));
  }
  for (size_t i = 0; i < context.getNumOutputs(); ++i)
    call.outputs.push_back(context.hasOutput(i));
  FunctionProto f = emptyFunction("com.microsoft", op, context.getNumInputs(),
                                  context.getNumOutputs());
  Recipe recipe(call, f);
  try {
    recipe.need(0);
    known->write(recipe);
  } catch (const Unsupported &) {
    return;
  }
  ::onnx::shape_inference::DataValueMap values;
  ::onnx::shape_inference::InferShapeForFunctionNode(
      f, registry, context,
      ::onnx::ShapeInferenceOptions(/*check_type=*/false, /*strict=*/0,
                                    /*data_prop=*/true),
      {}, nullptr, &values);
}

void lowerContrib(Model &model) {
  bool found = false;
  auto look = [&](const NodeList &nodes) {
    for (const NodeProto &node : nodes)
      found |= findContrib(node) != nullptr;
  };
  forEachGraph(*model.proto.mutable_graph(),
               [&](GraphProto &g) { look(g.node()); });
  for (auto &f : model.proto.functions())
    look(f.node());
  if (!found)
    return;
  ModelProto typed = inferLeniently(model.proto);
  Lowering lowering(model);
  lowering.lower(*model.proto.mutable_graph(), *typed.mutable_graph(), nullptr);
  // Nothing is known of the parameters of the model's own functions.
  int functions = typed.functions_size();
  for (int i = 0; i < functions; ++i)
    lowering.lower(*model.proto.mutable_functions(i)->mutable_node(), nullptr,
                   Scope());
}

} // namespace tessera::onnx_import

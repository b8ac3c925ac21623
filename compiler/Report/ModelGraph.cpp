#include "compiler/Report/ModelGraph.h"
#include "compiler/Report/Originals.h"
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace tessera {

static std::string typeText(Type type) {
  auto tensor = dyn_cast<TensorType>(type);
  if (!tensor)
    return onnx::getTypeName(type);
  std::string text = onnx::getTypeName(tensor.getElementType());
  if (!tensor.hasRank())
    return text + "[...]";
  text += "[";
  for (auto [i, dim] : llvm::enumerate(tensor.getShape()))
    text += (i ? ", " : "") + (ShapedType::isDynamic(dim) ? "?" : std::to_string(dim));
  return text + "]";
}

/// The importer keeps the name of a node's first output behind the node's own.
static std::string nameOf(OpResult result) {
  auto node = result.getOwner()->getLoc()->findInstanceOf<NameLoc>();
  if (!node)
    return "";
  auto output = dyn_cast<NameLoc>(node.getChildLoc());
  std::string name = (output ? output : node).getName().str();
  return result.getResultNumber() ? name + ":" + std::to_string(result.getResultNumber()) : name;
}

namespace {
class Collector {
public:
  explicit Collector(ModelGraph &graph) : graph(graph) {}
  void run(ModuleOp module);

private:
  int add(Value v, std::string name, ModelGraph::Role role);
  int indexOf(Value v);
  void addNode(Operation *op);

  ModelGraph &graph;
  llvm::DenseMap<Value, int> values;
  llvm::DenseMap<Operation *, int> nodes;
};
} // namespace

int Collector::add(Value v, std::string name, ModelGraph::Role role) {
  auto [it, isNew] = values.try_emplace(v, graph.values.size());
  if (isNew)
    graph.values.push_back({std::move(name), typeText(v.getType()), role});
  return it->second;
}

/// Constants and arguments of bodies are met when they are read first.
int Collector::indexOf(Value v) {
  auto result = dyn_cast<OpResult>(v);
  if (!result) {
    auto name = v.getLoc()->findInstanceOf<NameLoc>();
    return add(v, name ? name.getName().str() : "", ModelGraph::Role::Computed);
  }
  if (result.getOwner()->getName().stripDialect() == "NoValue")
    return -1;
  return add(v, nameOf(result), isNode(result.getOwner()) ? ModelGraph::Role::Computed : ModelGraph::Role::Constant);
}

void Collector::addNode(Operation *op) {
  int self = nodes[op] = graph.nodes.size();
  ModelGraph::Node node{onnx::getNodeName(op).str(), operatorName(op), {}, {}, {}, -1};
  for (Value v : op->getOperands())
    node.inputs.push_back(indexOf(v));
  for (Value v : op->getResults())
    node.outputs.push_back(indexOf(v));
  if (auto owner = nodes.find(op->getParentOp()); owner != nodes.end())
    node.bodyOf = owner->second;
  graph.nodes.push_back(std::move(node));
  for (Region &body : op->getRegions())
    for (Operation &inner : body.getOps())
      if (inner.hasTrait<OpTrait::IsTerminator>())
        for (Value v : inner.getOperands())
          graph.nodes[self].yields.push_back(indexOf(v));
}

void Collector::run(ModuleOp module) {
  auto main = module.lookupSymbol<func::FuncOp>("main");
  for (BlockArgument arg : main.getArguments()) {
    auto name = main.getArgAttrOfType<StringAttr>(arg.getArgNumber(), "onnx.name");
    graph.inputs.push_back(add(arg, name ? name.str() : "", ModelGraph::Role::Input));
  }
  module->walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (isNode(op))
      addNode(op);
  });
  for (Value v : main.getBody().front().getTerminator()->getOperands())
    graph.outputs.push_back(indexOf(v));
}

ModelGraph::ModelGraph(ModuleOp imported) { Collector(*this).run(imported); }

static void indices(llvm::json::OStream &json, StringRef name, ArrayRef<int> values) {
  json.attributeArray(name, [&] {
    for (int v : values)
      json.value(v);
  });
}

static void printNode(const ModelGraph::Node &node, llvm::json::OStream &json) {
  json.attribute("node", llvm::json::fixUTF8(node.name));
  json.attribute("operator", llvm::json::fixUTF8(node.op));
  indices(json, "inputs", node.inputs);
  indices(json, "outputs", node.outputs);
  if (!node.yields.empty())
    indices(json, "yields", node.yields);
  if (node.bodyOf >= 0)
    json.attribute("body_of", node.bodyOf);
}

void printGraph(const ModelGraph &graph, llvm::json::OStream &json) {
  json.attributeObject("graph", [&] {
    indices(json, "inputs", graph.inputs);
    indices(json, "outputs", graph.outputs);
    json.attributeArray("nodes", [&] {
      for (const ModelGraph::Node &node : graph.nodes)
        json.object([&] { printNode(node, json); });
    });
    json.attributeArray("values", [&] {
      for (const ModelGraph::Value &v : graph.values)
        json.object([&] {
          json.attribute("name", llvm::json::fixUTF8(v.name));
          json.attribute("type", v.type);
          if (v.role == ModelGraph::Role::Constant)
            json.attribute("constant", true);
        });
    });
  });
}

} // namespace tessera

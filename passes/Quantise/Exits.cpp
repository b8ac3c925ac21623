#include "passes/Quantise/Exits.h"
#include "compiler/Import/Model.h"

namespace tessera::quantise {

namespace {

/// One exit: of the node that makes `value`, for the readers in `floats`.
struct Exit {
  std::string value;
  std::vector<Use> floats;
  bool output = false;
};

} // namespace

static std::vector<Exit> findExits(const Graph &g,
                                   const PolicyOptions &policy) {
  std::vector<Unit> units = findUnits(g);
  std::set<int> floating, integer;
  findHazards(g, policy, floating);
  choose(g, units, floating, policy);
  for (const Unit &u : units)
    if (u.quantised)
      integer.insert(u.nodes.begin(), u.nodes.end());
  std::vector<Exit> exits;
  for (const Unit &u : units) {
    if (!u.quantised || u.kind == UnitKind::Move || g.isCaptured(u.output))
      continue;
    Exit exit{u.output, {}, g.isOutput(u.output)};
    for (const Use &use : g.uses(u.output))
      if (!integer.count(use.node))
        exit.floats.push_back(use);
    if (exit.output || !exit.floats.empty())
      exits.push_back(std::move(exit));
  }
  return exits;
}

std::set<std::string> insertExits(ModelProto &model,
                                  const PolicyOptions &policy) {
  Graph g(model);
  std::vector<Exit> exits = findExits(g, policy);
  GraphProto &graph = *model.mutable_graph();
  onnx_import::NameSet names(graph);
  std::map<int, NodeProto> behind; // by the node that makes the value
  std::set<std::string> inserted;
  for (const Exit &exit : exits) {
    int maker = g.producer(exit.value);
    std::string inner = exit.value;
    std::string outer = names.unique(exit.value + "_exit");
    if (exit.output) {
      // The output keeps its name; the value before it gets another.
      std::swap(inner, outer);
      for (std::string &o : *graph.mutable_node(maker)->mutable_output())
        if (o == exit.value)
          o = inner;
      for (const Use &use : g.uses(exit.value))
        graph.mutable_node(use.node)->set_input(use.input, inner);
    }
    for (const Use &use : exit.floats)
      graph.mutable_node(use.node)->set_input(use.input, outer);
    NodeProto &n = behind[maker];
    n.set_op_type("Identity");
    n.set_name(exit.value + "_exit_Identity");
    n.add_input(inner);
    n.add_output(outer);
    inserted.insert(n.name());
  }
  google::protobuf::RepeatedPtrField<NodeProto> nodes;
  for (int i = 0; i < graph.node_size(); ++i) {
    *nodes.Add() = graph.node(i);
    if (auto it = behind.find(i); it != behind.end())
      *nodes.Add() = it->second;
  }
  graph.mutable_node()->Swap(&nodes);
  return inserted;
}

std::map<int, int> exitsOf(const Graph &g, const std::vector<Unit> &units,
                           const std::set<std::string> &names) {
  std::map<std::string, int> makers;
  for (size_t u = 0; u < units.size(); ++u)
    makers[units[u].output] = int(u);
  std::map<int, int> exits;
  for (size_t u = 0; u < units.size(); ++u)
    if (names.count(g.node(units[u].root).name()))
      if (auto it = makers.find(g.node(units[u].root).input(0));
          it != makers.end())
        exits[int(u)] = it->second;
  return exits;
}

} // namespace tessera::quantise

// One name, one value. ONNX lets bodies that do not enclose one another use the
// same names, as both branches of an If often do, and a body hide a name from
// outside. Later phases know values by name alone, so names that were defined
// before are replaced inside their body.
//
//   BEFORE  If(c) <then = { k = 2, y = Tile(x, k) }, else = { k = 3, z =
//   Tile(x, k) }> AFTER   If(c) <then = { k = 2, y = Tile(x, k) }, else = { k_1
//   = 3, z = Tile(x, k_1) }>
#include "compiler/Import/Model.h"

#include <unordered_map>
#include <unordered_set>

namespace tessera::onnx_import {

namespace {

class Separation {
public:
  explicit Separation(GraphProto &graph) : names(graph) {}

  using Renames = std::unordered_map<std::string, std::string>;

  /// `renames`: what replaces names that are visible from outside.
  void run(GraphProto &g, Renames renames) {
    std::unordered_set<std::string> own;
    auto define = [&](const std::string &name) {
      if (name.empty() || !own.insert(name).second)
        return;
      renames.erase(name);
      if (!taken.insert(name).second)
        renames[name] = names.unique(name);
    };
    for (auto &v : g.input())
      define(v.name());
    for (auto &t : g.initializer())
      define(t.name());
    for (auto &node : g.node())
      for (auto &output : node.output())
        define(output);
    apply(g, renames);
  }

private:
  static void rename(std::string &name, const Renames &renames) {
    if (auto it = renames.find(name); it != renames.end())
      name = it->second;
  }

  void apply(GraphProto &g, const Renames &renames) {
    for (auto *list :
         {g.mutable_input(), g.mutable_output(), g.mutable_value_info()})
      for (ValueInfoProto &v : *list)
        rename(*v.mutable_name(), renames);
    for (TensorProto &t : *g.mutable_initializer())
      rename(*t.mutable_name(), renames);
    for (NodeProto &node : *g.mutable_node()) {
      if (node.name().empty()) // it is known by what it defines in the file
        node.set_name(locationName(node));
      for (std::string &input : *node.mutable_input())
        rename(input, renames);
      for (std::string &output : *node.mutable_output())
        rename(output, renames);
      for (AttributeProto &a : *node.mutable_attribute()) {
        if (a.has_g())
          run(*a.mutable_g(), renames);
        for (GraphProto &body : *a.mutable_graphs())
          run(body, renames);
      }
    }
  }

  NameSet names;
  std::unordered_set<std::string> taken;
};

} // namespace

void separateNames(Model &model) {
  GraphProto &graph = *model.proto.mutable_graph();
  bool bodies = false;
  forEachGraph(graph, [&](GraphProto &g) { bodies |= &g != &graph; });
  if (bodies)
    Separation(graph).run(graph, {});
}

} // namespace tessera::onnx_import

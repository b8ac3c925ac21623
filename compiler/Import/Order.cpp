// Names and order. Every name has one definition and every use sees one; nodes
// are sorted topologically, stable, so that a sorted graph stays as it is.
#include "compiler/Import/Model.h"
#include "llvm/ADT/STLExtras.h"

#include <queue>
#include <unordered_map>
#include <unordered_set>

namespace tessera::onnx_import {

std::string locationName(const NodeProto &node) {
  if (!node.name().empty())
    return node.name();
  for (const std::string &output : node.output())
    if (!output.empty())
      return node.op_type() + ":" + output;
  return node.op_type();
}

std::string describe(const NodeProto &node) {
  std::string op = node.domain().empty() ? node.op_type() : node.domain() + "." + node.op_type();
  return "node '" + locationName(node) + "' (" + op + ")";
}

void fail(const NodeProto &node, const std::string &message) {
  throw ImportError(describe(node) + ": " + message, locationName(node));
}

static void visitTensors(AttributeProto &a, const std::string &where,
                         const std::function<void(TensorProto &, const std::string &)> &visit);

static void visitTensors(GraphProto &g,
                         const std::function<void(TensorProto &, const std::string &)> &visit) {
  for (TensorProto &t : *g.mutable_initializer())
    visit(t, "initialiser '" + t.name() + "'");
  for (NodeProto &node : *g.mutable_node())
    for (AttributeProto &a : *node.mutable_attribute())
      visitTensors(a, describe(node), visit);
}

static void visitTensors(AttributeProto &a, const std::string &node,
                         const std::function<void(TensorProto &, const std::string &)> &visit) {
  std::string where = node + ", attribute '" + a.name() + "'";
  if (a.has_t())
    visit(*a.mutable_t(), where);
  for (TensorProto &t : *a.mutable_tensors())
    visit(t, where);
  if (a.has_g())
    visitTensors(*a.mutable_g(), visit);
  for (GraphProto &g : *a.mutable_graphs())
    visitTensors(g, visit);
}

void forEachTensor(ModelProto &model,
                   const std::function<void(TensorProto &, const std::string &)> &visit) {
  visitTensors(*model.mutable_graph(), visit);
  for (FunctionProto &f : *model.mutable_functions())
    for (NodeProto &node : *f.mutable_node())
      for (AttributeProto &a : *node.mutable_attribute())
        visitTensors(a, describe(node), visit);
}

void forEachGraph(GraphProto &graph, const std::function<void(GraphProto &)> &visit) {
  visit(graph);
  for (NodeProto &node : *graph.mutable_node())
    for (AttributeProto &a : *node.mutable_attribute()) {
      if (a.has_g())
        forEachGraph(*a.mutable_g(), visit);
      for (GraphProto &g : *a.mutable_graphs())
        forEachGraph(g, visit);
    }
}

NameSet::NameSet(GraphProto &graph) {
  forEachGraph(graph, [&](GraphProto &g) {
    for (auto &v : g.input())
      names[v.name()] = 1;
    for (auto &t : g.initializer())
      names[t.name()] = 1;
    for (auto &node : g.node())
      for (auto &output : node.output())
        names[output] = 1;
  });
}

std::string NameSet::unique(const std::string &wanted) {
  std::string name = wanted;
  for (int i = 1; !names.try_emplace(name, 1).second; ++i)
    name = wanted + "_" + std::to_string(i);
  return name;
}

//===----------------------------------------------------------------------===//
// Names used from outside
//===----------------------------------------------------------------------===//

static void collectFreeNames(const GraphProto &g, std::vector<std::string> &names) {
  std::unordered_set<std::string> inside;
  for (auto &v : g.input())
    inside.insert(v.name());
  for (auto &t : g.initializer())
    inside.insert(t.name());
  for (auto &node : g.node())
    for (auto &output : node.output())
      inside.insert(output);
  std::vector<std::string> used;
  for (auto &node : g.node())
    collectFreeNames(node, used);
  for (auto &v : g.output())
    used.push_back(v.name());
  for (std::string &name : used)
    if (!inside.contains(name))
      names.push_back(std::move(name));
}

void collectFreeNames(const NodeProto &node, std::vector<std::string> &names) {
  for (auto &input : node.input())
    if (!input.empty())
      names.push_back(input);
  for (auto &a : node.attribute()) {
    if (a.has_g())
      collectFreeNames(a.g(), names);
    for (auto &g : a.graphs())
      collectFreeNames(g, names);
  }
}

//===----------------------------------------------------------------------===//
// Sorting
//===----------------------------------------------------------------------===//

namespace {

// Names defined in one graph and, through `outer`, around it.
struct Scope {
  const Scope *outer = nullptr;
  std::unordered_map<std::string, int> definitions; // node, -1: input or initialiser
  bool sees(const std::string &name) const {
    for (const Scope *s = this; s; s = s->outer)
      if (s->definitions.contains(name))
        return true;
    return false;
  }
};

class Sorter {
public:
  // Only after a node's own graph is in order are its bodies looked at.
  void nodes(NodeList &list, Scope &scope) {
    int count = list.size();
    for (int i = 0; i < count; ++i)
      for (auto &output : list[i].output()) {
        if (output.empty())
          continue;
        auto [it, fresh] = scope.definitions.try_emplace(output, i);
        if (fresh)
          continue;
        fail(list[i], "output '" + output + "' is already " +
                          (it->second < 0 ? "an input or initialiser"
                                          : "an output of " + describe(list[it->second])));
      }

    std::vector<std::vector<int>> users(count);
    std::vector<int> missing(count);
    bool sorted = true;
    std::vector<std::string> names;
    for (int i = 0; i < count; ++i) {
      names.clear();
      collectFreeNames(list[i], names);
      for (const std::string &name : names) {
        auto it = scope.definitions.find(name);
        if (it == scope.definitions.end()) {
          if (!scope.sees(name))
            fail(list[i], "'" + name + "' is used but not defined by any node, input or initialiser");
          continue;
        }
        if (it->second < 0)
          continue;
        users[it->second].push_back(i);
        ++missing[i];
        sorted &= it->second < i;
      }
    }
    if (!sorted)
      reorder(list, users, missing);
    for (NodeProto &node : list)
      for (AttributeProto &a : *node.mutable_attribute()) {
        if (a.has_g())
          graph(*a.mutable_g(), &scope, &node);
        for (GraphProto &g : *a.mutable_graphs())
          graph(g, &scope, &node);
      }
  }

  void graph(GraphProto &g, const Scope *outer, const NodeProto *owner) {
    Scope scope;
    scope.outer = outer;
    auto refuse = [&](const std::string &message) {
      if (owner)
        fail(*owner, message);
      throw ImportError(message);
    };
    for (auto &v : g.input()) {
      if (v.name().empty())
        refuse("a graph input has no name");
      if (!scope.definitions.try_emplace(v.name(), -1).second)
        refuse("two graph inputs are called '" + v.name() + "'");
    }
    std::unordered_set<std::string> initializers;
    for (auto &t : g.initializer()) {
      if (t.name().empty())
        refuse("an initialiser has no name");
      if (!initializers.insert(t.name()).second)
        refuse("two initialisers are called '" + t.name() + "'");
      if (!scope.definitions.try_emplace(t.name(), -1).second && owner)
        refuse("'" + t.name() + "' is both an input and an initialiser of a body");
    }
    nodes(*g.mutable_node(), scope);
    for (ValueInfoProto &v : *g.mutable_output()) {
      if (!scope.sees(v.name()))
        refuse("graph output '" + v.name() + "' is not defined by any node, input or initialiser");
      if (!scope.definitions.contains(v.name()))
        returnOuter(g, v, scope);
    }
  }

private:
  // A body may return a value from outside; the checker wants one of its own.
  static void returnOuter(GraphProto &g, ValueInfoProto &v, Scope &scope) {
    std::string name = v.name() + "/returned";
    while (scope.sees(name))
      name += "_";
    scope.definitions.emplace(name, -1);
    NodeProto &copy = *g.add_node();
    copy.set_op_type("Identity");
    copy.add_input(v.name());
    copy.add_output(name);
    v.set_name(name);
  }

  void reorder(NodeList &list, const std::vector<std::vector<int>> &users,
               std::vector<int> &missing) {
    std::priority_queue<int, std::vector<int>, std::greater<>> ready;
    for (int i = 0; i < list.size(); ++i)
      if (!missing[i])
        ready.push(i);
    std::vector<int> order;
    while (!ready.empty()) {
      int i = ready.top();
      ready.pop();
      order.push_back(i);
      for (int user : users[i])
        if (!--missing[user])
          ready.push(user);
    }
    if ((int)order.size() != list.size())
      reportCycle(list, users, missing);
    NodeList sorted;
    for (int i : order)
      sorted.Add()->Swap(list.Mutable(i));
    list.Swap(&sorted);
  }

  [[noreturn]] void reportCycle(const NodeList &list, const std::vector<std::vector<int>> &users,
                                const std::vector<int> &missing) {
    // Walk back along nodes that wait until one comes twice.
    std::vector<int> source(list.size(), -1);
    for (int i = 0; i < list.size(); ++i)
      if (missing[i])
        for (int user : users[i])
          if (missing[user])
            source[user] = i;
    int at = -1;
    for (int i = 0; i < list.size() && at < 0; ++i)
      if (missing[i] && source[i] >= 0)
        at = i;
    std::vector<int> seen(list.size());
    while (!seen[at]++)
      at = source[at];
    ImportError error("cycle: " + describe(list[at]) + " depends on its own output",
                      locationName(list[at]));
    int next = source[at];
    for (int steps = 0; next != at && steps < 5; ++steps, next = source[next])
      error.notes.push_back("through " + describe(list[next]));
    throw error;
  }
};

} // namespace

void sortModel(ModelProto &model) {
  Sorter().graph(*model.mutable_graph(), nullptr, nullptr);
  for (FunctionProto &f : *model.mutable_functions()) {
    Scope scope;
    for (auto &input : f.input())
      if (!scope.definitions.try_emplace(input, -1).second)
        throw ImportError("function '" + f.name() + "': two inputs are called '" + input + "'");
    Sorter().nodes(*f.mutable_node(), scope);
    for (auto &output : f.output())
      if (!scope.sees(output))
        throw ImportError("function '" + f.name() + "': output '" + output + "' is not defined");
  }
}

} // namespace tessera::onnx_import

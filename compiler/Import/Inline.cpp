// Model-local functions, expanded where they are called. ONNX's own inliner can
// only do so where the operator sets agree or its converter succeeds; here every
// node remembers the version it was written for, and is upgraded afterwards.
#include "compiler/Import/Model.h"
#include "onnx/shape_inference/attribute_binder.h"

#include <unordered_map>
#include <unordered_set>

namespace tessera::onnx_import {

namespace {

constexpr const char *kVersionKey = "tessera.opset";
constexpr int64_t kMaxNodes = 1000000;

using Key = std::tuple<std::string, std::string, std::string>;
Key key(const FunctionProto &f) { return {f.domain(), f.name(), f.overload()}; }
Key key(const NodeProto &n) { return {n.domain(), n.op_type(), n.overload()}; }

class Inliner {
public:
  explicit Inliner(Model &model) : model(model), names(*model.proto.mutable_graph()) {
    for (const FunctionProto &f : model.proto.functions())
      if (!functions.emplace(key(f), &f).second)
        throw ImportError("two functions are called '" + f.name() + "'");
    for (const FunctionProto &f : model.proto.functions())
      size(f);
    int64_t total = count(model.proto.graph().node());
    if (total > kMaxNodes)
      throw ImportError("calls of functions expand to more than " + std::to_string(kMaxNodes) +
                        " nodes");
  }

  void run() {
    GraphProto &graph = *model.proto.mutable_graph();
    expand(*graph.mutable_node());
    model.proto.clear_functions();
  }

private:
  // Nodes after expansion, saturating. The checker has refused recursion.
  int64_t size(const FunctionProto &f) {
    auto it = sizes.find(&f);
    if (it == sizes.end()) {
      int64_t total = count(f.node());
      it = sizes.emplace(&f, total).first;
    }
    return it->second;
  }
  int64_t count(const NodeList &nodes) {
    int64_t total = 0;
    for (const NodeProto &node : nodes) {
      auto it = functions.find(key(node));
      total += it == functions.end() ? 1 : size(*it->second);
      for (auto &a : node.attribute()) {
        if (a.has_g())
          total += count(a.g().node());
        for (auto &g : a.graphs())
          total += count(g.node());
      }
      if (total > kMaxNodes)
        return kMaxNodes + 1;
    }
    return total;
  }

  void expand(NodeList &nodes) {
    NodeList before;
    before.Swap(&nodes);
    for (NodeProto &node : before)
      append(node, nodes);
  }

  void append(NodeProto &node, NodeList &out) {
    auto it = functions.find(key(node));
    if (it != functions.end())
      return call(node, *it->second, out);
    for (AttributeProto &a : *node.mutable_attribute()) {
      if (a.has_g())
        expand(*a.mutable_g()->mutable_node());
      for (GraphProto &g : *a.mutable_graphs())
        expand(*g.mutable_node());
    }
    out.Add()->Swap(&node);
  }

  using Renames = std::unordered_map<std::string, std::string>;

  void call(const NodeProto &node, const FunctionProto &function, NodeList &out) {
    if (node.input_size() > function.input_size() || node.output_size() > function.output_size())
      fail(node, "more inputs or outputs than function '" + function.name() + "' has");
    FunctionProto body = function;
    ::onnx::internal::AttributeMap attributes;
    for (auto &a : function.attribute_proto())
      attributes[a.name()] = &a;
    for (auto &a : node.attribute())
      attributes[a.name()] = &a;
    ::onnx::internal::AttributeBinder(attributes).VisitFunction(body);
    std::string prefix = locationName(node) + "/";
    std::unordered_map<std::string, int64_t> versions;
    for (auto &import : body.opset_import())
      versions[import.domain()] = import.version();

    Renames renames;
    for (int i = 0; i < body.input_size(); ++i)
      renames[body.input(i)] = i < node.input_size() ? node.input(i) : "";
    // An output may be an input, or be listed twice: then a copy takes its name.
    std::vector<std::pair<std::string, std::string>> copies;
    for (int i = 0; i < node.output_size(); ++i) {
      if (node.output(i).empty())
        continue;
      if (renames.contains(body.output(i)))
        copies.emplace_back(renames[body.output(i)], node.output(i));
      else
        renames[body.output(i)] = node.output(i);
    }
    for (NodeProto &inner : *body.mutable_node()) {
      rename(inner, renames, prefix, versions);
      append(inner, out);
    }
    for (auto &[from, to] : copies) {
      if (from.empty())
        fail(node, "output '" + to + "' is an input that the call leaves out");
      NodeProto &copy = *out.Add();
      copy.set_op_type("Identity");
      copy.set_name(prefix + to);
      copy.add_input(from);
      copy.add_output(to);
    }
  }

  void rename(NodeProto &node, Renames &renames, const std::string &prefix,
              const std::unordered_map<std::string, int64_t> &versions) {
    node.set_name(prefix + locationName(node));
    if (auto it = versions.find(node.domain()); it != versions.end())
      setNodeVersion(node, it->second);
    for (std::string &input : *node.mutable_input())
      if (auto it = renames.find(input); it != renames.end())
        input = it->second;
    for (std::string &output : *node.mutable_output()) {
      if (output.empty())
        continue;
      auto [it, fresh] = renames.try_emplace(output);
      if (fresh)
        it->second = names.unique(prefix + output);
      output = it->second;
    }
    for (AttributeProto &a : *node.mutable_attribute()) {
      if (a.has_g())
        rename(*a.mutable_g(), renames, prefix, versions);
      for (GraphProto &g : *a.mutable_graphs())
        rename(g, renames, prefix, versions);
    }
  }

  void rename(GraphProto &g, Renames renames, const std::string &prefix,
              const std::unordered_map<std::string, int64_t> &versions) {
    auto define = [&](std::string *name) {
      std::string fresh = names.unique(prefix + *name);
      renames[*name] = fresh;
      *name = fresh;
    };
    for (ValueInfoProto &v : *g.mutable_input())
      define(v.mutable_name());
    for (TensorProto &t : *g.mutable_initializer())
      define(t.mutable_name());
    // A body's own results hide outer values of the same name.
    for (auto &node : g.node())
      for (auto &output : node.output())
        renames.erase(output);
    for (NodeProto &node : *g.mutable_node())
      rename(node, renames, prefix, versions);
    for (ValueInfoProto &v : *g.mutable_output())
      if (auto it = renames.find(v.name()); it != renames.end())
        v.set_name(it->second);
    g.clear_value_info();
  }

  Model &model;
  std::map<Key, const FunctionProto *> functions;
  std::unordered_map<const FunctionProto *, int64_t> sizes;
  NameSet names;
};

} // namespace

int64_t nodeVersion(const Model &model, const NodeProto &node) {
  for (auto &entry : node.metadata_props())
    if (entry.key() == kVersionKey)
      return std::stoll(entry.value());
  auto it = model.opsets.find(node.domain());
  return it == model.opsets.end() ? 0 : it->second;
}

void setNodeVersion(NodeProto &node, int64_t version) {
  for (auto &entry : *node.mutable_metadata_props())
    if (entry.key() == kVersionKey)
      return entry.set_value(std::to_string(version));
  auto *entry = node.add_metadata_props();
  entry->set_key(kVersionKey);
  entry->set_value(std::to_string(version));
}

void inlineFunctions(Model &model) {
  if (model.proto.functions_size())
    Inliner(model).run();
}

} // namespace tessera::onnx_import

#include "passes/Quantise/Splice.h"

namespace tessera::quantise {

TensorProto makePacked(const std::string &name, int32_t type,
                       const std::vector<int64_t> &dims, const void *data,
                       size_t bytes) {
  TensorProto t;
  t.set_name(name);
  t.set_data_type(type);
  for (int64_t d : dims)
    t.add_dims(d);
  t.set_raw_data(data, bytes);
  return t;
}

NodeProto makeNode(const std::string &op,
                   const std::vector<std::string> &inputs,
                   const std::string &output) {
  NodeProto n;
  n.set_op_type(op);
  n.set_name(output + "_" + op);
  for (auto &i : inputs)
    n.add_input(i);
  n.add_output(output);
  return n;
}

void addInt(NodeProto &node, const char *name, int64_t value) {
  AttributeProto &a = *node.add_attribute();
  a.set_name(name);
  a.set_type(AttributeProto::INT);
  a.set_i(value);
}

google::protobuf::RepeatedPtrField<NodeProto> spliced(const Graph &g,
                                                      const Splice &splice) {
  google::protobuf::RepeatedPtrField<NodeProto> nodes;
  auto add = [&](const std::vector<NodeProto> &list) {
    for (const NodeProto &n : list)
      *nodes.Add() = n;
  };
  auto addBehind = [&](const std::string &value) {
    if (auto it = splice.after.find(value); it != splice.after.end())
      add(it->second);
  };
  add(splice.before);
  for (auto &v : g.graph().input())
    addBehind(v.name());
  for (int i = 0; i < g.nodeCount(); ++i) {
    if (auto it = splice.instead.find(i); it != splice.instead.end()) {
      add(it->second);
    } else {
      NodeProto &n = *nodes.Add();
      n = g.node(i);
      for (int k = 0; k < n.input_size(); ++k)
        if (auto read = splice.reads.find({i, k}); read != splice.reads.end())
          n.set_input(k, read->second);
    }
    for (auto &o : g.node(i).output())
      addBehind(o);
  }
  return nodes;
}

} // namespace tessera::quantise

#include "compiler/Import/Upgrade/Upgrader.h"

namespace tessera::onnx_import {

namespace {

// Version 8 scans a batch: all values have a leading batch dimension. A scan
// over the batch, with states and scanned values cut alike, around today's.
void scan(Upgrader &up, NodeProto &node) {
  if (node.input_size() < 2)
    fail(node, "no value to scan");
  if (!node.input(0).empty())
    fail(node, "input 'sequence_lens': not supported");
  NodeProto inner = node;
  inner.set_name(locationName(node) + "/one");
  removeAttribute(inner, "directions");
  if (AttributeProto *d = findAttribute(node, "directions")) {
    AttributeProto *a = inner.add_attribute();
    *a = *d;
    a->set_name("scan_input_directions");
  }
  inner.clear_input();
  inner.clear_output();
  AttributeProto bodyAttribute;
  bodyAttribute.set_name("body");
  bodyAttribute.set_type(AttributeProto::GRAPH);
  GraphProto &body = *bodyAttribute.mutable_g();
  body.set_name(locationName(node) + "/batch");
  NodeProto outer;
  outer.set_op_type("Scan");
  outer.set_name(locationName(node));
  for (int i = 1; i < node.input_size(); ++i) {
    std::string name = up.unique(inner.name() + "/in");
    body.add_input()->set_name(name);
    inner.add_input(name);
    outer.add_input(node.input(i));
  }
  for (auto &output : node.output()) {
    std::string name = up.unique(inner.name() + "/out");
    inner.add_output(name);
    body.add_output()->set_name(name);
    outer.add_output(output.empty() ? up.unique(inner.name() + "/unused")
                                    : output);
  }
  setAttribute(outer, "num_scan_inputs", (int64_t)outer.input_size());
  body.add_node()->Swap(&inner);
  outer.add_attribute()->Swap(&bodyAttribute);
  up.append(outer);
}

} // namespace

bool upgradeControlFlow(Upgrader &up, NodeProto &node, int64_t version) {
  if (version >= 9 || node.op_type() != "Scan")
    return false;
  scan(up, node);
  return true;
}

} // namespace tessera::onnx_import

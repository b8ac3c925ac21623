#include "compiler/Import/Upgrade/Upgrader.h"

namespace tessera::onnx_import {

// classes_strings maps both ways, as the type of the input says.
static void labelEncoder(Upgrader &up, NodeProto &node) {
  AttributeProto *classes = findAttribute(node, "classes_strings");
  if (!classes)
    return;
  int type = up.elementTypeOf(node.input(0));
  if (type != TensorProto::STRING && type != TensorProto::INT64)
    fail(node, "cannot tell whether input '" + node.input(0) +
                   "' has strings or integers");
  bool fromStrings = type == TensorProto::STRING;
  classes->set_name(fromStrings ? "keys_strings" : "values_strings");
  int count = classes->strings_size();
  AttributeProto *indices = node.add_attribute();
  indices->set_name(fromStrings ? "values_int64s" : "keys_int64s");
  indices->set_type(AttributeProto::INTS);
  for (int i = 0; i < count; ++i)
    indices->add_ints(i);
}

bool upgradeMl(Upgrader &up, NodeProto &node, int64_t version) {
  if (node.op_type() == "LabelEncoder" && version < 2)
    labelEncoder(up, node);
  return false;
}

} // namespace tessera::onnx_import

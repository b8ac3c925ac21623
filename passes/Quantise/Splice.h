// Pieces of ONNX models, and edits of a graph's list of nodes.
#ifndef TESSERA_PASSES_QUANTISE_SPLICE_H
#define TESSERA_PASSES_QUANTISE_SPLICE_H

#include "passes/Quantise/Graph.h"

namespace tessera::quantise {

/// A constant of packed elements.
TensorProto makePacked(const std::string &name, int32_t type,
                       const std::vector<int64_t> &dims, const void *data,
                       size_t bytes);
template <typename T>
TensorProto makePacked(const std::string &name, int32_t type,
                       const std::vector<int64_t> &dims,
                       const std::vector<T> &values) {
  return makePacked(name, type, dims, values.data(), values.size() * sizeof(T));
}

/// A node of the default domain with one output, by which it is named.
NodeProto makeNode(const std::string &op,
                   const std::vector<std::string> &inputs,
                   const std::string &output);
void addInt(NodeProto &node, const char *name, int64_t value);

/// What is to change in a list of nodes.
struct Splice {
  std::vector<NodeProto> before;    ///< ahead of all nodes
  std::map<Use, std::string> reads; ///< what a node reads instead
  std::map<std::string, std::vector<NodeProto>> after; ///< behind a value
  std::map<int, std::vector<NodeProto>> instead;       ///< of a node
};

/// The graph's nodes with the changes, sorted as they were.
google::protobuf::RepeatedPtrField<NodeProto> spliced(const Graph &graph,
                                                      const Splice &splice);

} // namespace tessera::quantise
#endif

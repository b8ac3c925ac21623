// The model as it was given, for people: nodes, values, who reads what.
//
// Reports draw this graph, not the canonicalised one: its names are those that
// the model's author knows.
#ifndef TESSERA_COMPILER_REPORT_MODELGRAPH_H
#define TESSERA_COMPILER_REPORT_MODELGRAPH_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/JSON.h"

#include <string>
#include <vector>

namespace tessera {

struct ModelGraph {
  enum class Role { Computed, Input, Constant };
  struct Value {
    std::string name, type; ///< type as "float32[1, ?, 64]"
    Role role = Role::Computed;
  };
  struct Node {
    std::string name, op;
    std::vector<int> inputs, outputs; ///< indices of values; -1: an optional input that is absent
    std::vector<int> yields;          ///< what its bodies yield
    int bodyOf = -1;                  ///< the node whose body it is in; -1: none
  };
  std::vector<Value> values;
  std::vector<Node> nodes; ///< as Originals has them
  std::vector<int> inputs, outputs;

  ModelGraph() = default;
  explicit ModelGraph(mlir::ModuleOp imported);
};

/// The attribute "graph".
void printGraph(const ModelGraph &graph, llvm::json::OStream &json);

} // namespace tessera
#endif

// The nodes of the model as it was given, and what canonicalisation made of
// each.
//
// A rewrite keeps the name of one node in the locations of what it makes. A
// node whose name is gone was folded, removed, or became part of a later node's
// operator; which, its place in the original graph tells.
#ifndef TESSERA_COMPILER_REPORT_ORIGINALS_H
#define TESSERA_COMPILER_REPORT_ORIGINALS_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringMap.h"

#include <string>
#include <vector>

namespace tessera {

class Originals {
public:
  /// Takes down the nodes of an imported module.
  explicit Originals(mlir::ModuleOp imported);

  struct Node {
    std::string name, op;
    std::vector<unsigned> producers, users; ///< indices of nodes
    bool onlyConstants = true;              ///< no operand but constants and results of nodes
  };
  std::vector<Node> nodes;

  /// What became of a node.
  struct Fate {
    std::string rewrite;                 ///< empty if it is still there as it was
    std::vector<mlir::Operation *> into; ///< empty if nothing is left to run
    bool merged = false;                 ///< `into` bears the names of other nodes
  };
  /// One per node, by the operators of the canonicalised module.
  std::vector<Fate> trace(mlir::ModuleOp canonical) const;

private:
  using Survivors = llvm::StringMap<std::vector<mlir::Operation *>>;
  Fate fateOf(unsigned index, const Survivors &survivors, std::vector<int> &folded) const;
  bool isFolded(unsigned index, const Survivors &survivors, std::vector<int> &known) const;
};

/// "Conv", "com.microsoft.FusedConv".
std::string operatorName(mlir::Operation *op);
/// Whether the audit has a row for it: an onnx operator that is no constant.
bool isNode(mlir::Operation *op);

} // namespace tessera
#endif

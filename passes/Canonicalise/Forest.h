// A tree ensemble between its attributes and the tables of the kernel.
#ifndef TESSERA_PASSES_CANONICALISE_FOREST_H
#define TESSERA_PASSES_CANONICALISE_FOREST_H

#include "dialects/Onnx/IR/TreeTables.h"

#include "mlir/IR/Operation.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace tessera::onnx {

/// Comparisons of ai.onnx.ml 5, by their numbers there.
enum class Branch : uint8_t { LessEqual, Less, GreaterEqual, Greater, Equal, NotEqual, Member };

/// Nodes by index; a child is a node, or -1 - leaf. Nodes may share children.
struct Forest {
  struct Node {
    double split;
    int32_t feature;
    Branch branch;
    bool nanTrue;   ///< a feature that is NaN goes to `yes`
    int32_t yes = 0, no = 0;
  };
  std::vector<Node> nodes;
  std::vector<int32_t> roots;
  std::vector<int32_t> leafBegin{0}; ///< of each leaf's entries, and the end
  std::vector<int32_t> targets;
  std::vector<double> weights;
  int64_t features = 0; ///< largest feature + 1

  int32_t addNode(int64_t feature, Branch branch, bool nanTrue, double split);
  int32_t addLeaf(llvm::ArrayRef<std::pair<int64_t, double>> entries); ///< as a child names it
  bool isBranching(int32_t child) const { return child >= 0; }
};

/// The list of floats `name`, or the tensor `name`_as_tensor.
std::optional<llvm::SmallVector<double>> floatList(mlir::Operation *op, llvm::StringRef name);

/// TreeEnsembleClassifier ("class") and TreeEnsembleRegressor ("target"), and
/// TreeEnsemble of ai.onnx.ml 5. None where an index, a length or a mode is
/// wrong, or where a walk from a root would not end.
std::optional<Forest> readOldForest(mlir::Operation *op, llvm::StringRef prefix, int64_t targets);
std::optional<Forest> readForest(mlir::Operation *op, int64_t targets);

/// Every node as `x <= split`, with no split that is NaN, in the arithmetic of
/// double or float (splits are rounded to it).
void makeLessEqual(Forest &forest, bool isDouble);

/// Nodes in the order of walks, see TreeTables.h.
struct PackedForest {
  std::vector<int32_t> words;
  std::vector<int32_t> roots;
  std::vector<int32_t> treeTargets; ///< Direct only
  Leaves leaves;
  bool wide;
  bool nanTrue, nanFalse; ///< whether any node sends NaN to `yes`, to `no`
};
/// `forest` after makeLessEqual; none if it is too large for 32-bit indices.
std::optional<PackedForest> packForest(const Forest &forest, int64_t targets, bool isDouble);

} // namespace tessera::onnx
#endif

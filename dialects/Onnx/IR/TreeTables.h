// Tables of tessera.TreeEnsemble, which passes/Canonicalise/LowerTrees.cpp makes of
// the ai.onnx.ml operators. Its operands:
//
//   0 X           [N, F] or [F]
//   1 roots       int32 [trees]      first node of each tree
//   2 nodes       int32 [nodes * 2], or [nodes * 4] where `wide`
//   3 base        [targets]
//   4 ...         what leaves hold, by `leaves`:
//       direct    targets int32 [trees]
//       dense     weights [leaves, targets]
//       table     leaf begin int32 [leaves + 1], targets int32 [entries], weights [entries]
//   last labels   int64 [classes]    classifiers only
//
// A step from node i goes to i + delta if x[feature] <= split, else to the one
// after that. There are no other comparisons, and a walk may go
// on from its end: features are read from a copy of the row with one more slot
// that holds minus infinity, and a leaf reads that one and has delta 0.
//
//            narrow               wide
//   split    32 bits              64 bits (double, or float in the lower half)
//   feature  unsigned 16 bits     32 bits
//   delta    16 bits              32 bits
//
// A NaN must go to `yes` at some nodes: these read a copy of the row in which it
// is minus infinity. `nan` says which copies there are, in this order: 1 with
// NaN as it is, 2 with NaN replaced. In place of its split a leaf has its weight
// (direct) or its number as an integer.
#ifndef TESSERA_DIALECTS_ONNX_IR_TREETABLES_H
#define TESSERA_DIALECTS_ONNX_IR_TREETABLES_H

#include <cstdint>

namespace tessera::onnx {

/// What the leaves' tables are; the attribute `leaves`.
enum class Leaves : int64_t {
  Direct, ///< one weight a leaf, in its node; one target a tree
  Dense,  ///< a weight for every target, [leaves, targets]
  Table,  ///< any entries: leaf begin, targets, weights
};

} // namespace tessera::onnx
#endif

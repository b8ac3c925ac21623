// What is quantised together. A unit is one node whose inputs are integers,
// with the elementwise nodes behind it that only it feeds: no QuantizeLinear
// stands inside.
//
//   Conv -> BatchNormalization -> Clip        one unit of kind Mac
//   Add -> Relu                               Join
//   x -> Sigmoid -> Mul(x, .)                 Unary: one table from integer to
//   integer MaxPool, Transpose, Reshape, ...          Move: in and out share
//   one scale Concat                                    Concat: all members
//   share one scale
//
// A quantised unit reads the dequantised form of its inputs; whether its output
// is quantised is decided by those who read it. Everything else reads the value
// itself.
#ifndef TESSERA_PASSES_QUANTISE_UNITS_H
#define TESSERA_PASSES_QUANTISE_UNITS_H

#include "passes/Quantise/Graph.h"

#include <functional>

namespace tessera::quantise {

enum class UnitKind { Mac, Join, Unary, Move, Pool, Concat };
const char *unitKindName(UnitKind kind);

/// A constant operand of a product and the axis that its scales run along.
struct WeightUse {
  Use use;
  std::string name;
  int64_t axis = 0;
  auto operator<=>(const WeightUse &) const = default;
};

struct Unit {
  UnitKind kind = UnitKind::Mac;
  int root = 0;
  std::vector<int> nodes;       ///< in order, the root first
  std::vector<Use> activations; ///< float inputs of the root (Unary: of all
                                ///< nodes) that are no constants
  std::vector<WeightUse> weights;
  std::optional<Use> bias; ///< a constant bias of the root
  std::string output;      ///< value of the last node
  std::string name;        ///< of the root node
  double macs = 0;
  int32_t type = TensorProto::INT8; ///< of its activations
  bool quantised = false;
  bool pinned = false; ///< by a recipe: the search leaves it
  std::string reason;  ///< why it stays float
};

/// All units a model has, in order of their roots; every node is in at most
/// one.
std::vector<Unit> findUnits(const Graph &graph);

/// Whether the operator multiplies and accumulates.
bool isProduct(const NodeProto &node);
/// Whether it only moves or selects elements of its first input.
bool isMove(const NodeProto &node);
/// Whether it works element by element.
bool isElementwise(const NodeProto &node);

/// Extents of a value, as far as they are known.
using ShapeOf =
    std::function<std::optional<std::vector<int64_t>>(const std::string &)>;

/// Multiply-accumulates of a product, 0 where a shape is not known.
double countMacs(const Graph &graph, int node, const ShapeOf &shapeOf);

} // namespace tessera::quantise
#endif

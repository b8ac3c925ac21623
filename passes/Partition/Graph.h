// What the algorithms need to know of a problem beyond its data: who writes and
// who reads each tensor, prices of copies, an order of processing, and the price
// of an answer from its definition.
#ifndef TESSERA_PASSES_PARTITION_GRAPH_H
#define TESSERA_PASSES_PARTITION_GRAPH_H

#include "passes/Partition/Problem.h"

namespace tessera::partition {

/// Beyond every cost: no way. Sums of two stay representable.
constexpr Cost impossible = Cost(1) << 61;

/// Options that may be chosen: [operator][option].
using Allowed = std::vector<std::vector<char>>;

struct Graph {
  explicit Graph(const Problem &problem);

  const Problem &problem;
  std::vector<int> producer;               ///< per tensor: operator, or -1
  std::vector<std::vector<int>> consumers; ///< per tensor, each once, in `order`
  /// Per operator: tensors that other operators write, each once.
  std::vector<std::vector<int>> inputs;
  std::vector<std::vector<int>> slots;   ///< per operator and input: its place in `consumers`
  std::vector<std::vector<int>> outputs; ///< per operator: tensors somebody reads
  std::vector<int> order, position;      ///< topological order and its inverse

  size_t size() const { return problem.ops.size(); }
  size_t stateCount() const { return problem.states.size(); }
  const std::vector<Option> &options(int op) const { return problem.ops[op].options; }
  const Device &deviceOf(const Option &o) const { return problem.devices[o.device]; }
  /// Price of `tensor` in state `to` when it is in `from`; `impossible` if there is no way.
  Cost copyCost(int tensor, int from, int to) const;

private:
  void chooseOrder();
  std::vector<int> sortBySmallestFrontier() const;
  std::vector<int> sortByIndex() const;
  std::vector<int> delaySources(const std::vector<int> &sorted) const;
  double frontierWidth(const std::vector<int> &sorted) const;
};

/// Price of an answer, by the definition alone; nothing if it is not legal.
/// The search's arithmetic is checked against it.
struct Price {
  Cost cost = 0, sensitivity = 0, copyCost = 0, launchCost = 0;
  int segments = 0, copies = 0;
  int64_t copiedElements = 0;
};
std::optional<Price> priceOf(const Graph &graph, const std::vector<int> &choice, const std::vector<int> &segment);

/// Joins segments of one device that share a tensor while the contracted graph
/// stays acyclic; never dearer. Numbers are then in order of first operators.
void joinSegments(const Graph &graph, Solution &solution);

} // namespace tessera::partition
#endif

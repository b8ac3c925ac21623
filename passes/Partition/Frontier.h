// One layer of the frontier search: states, how a state steps over an operator,
// and the table that keeps one survivor for each frontier.
#ifndef TESSERA_PASSES_PARTITION_FRONTIER_H
#define TESSERA_PASSES_PARTITION_FRONTIER_H

#include "passes/Partition/DualBound.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/DenseMap.h"

#include <array>

namespace tessera::partition {

/// Open segments of one state; those with more are dropped (and counted).
constexpr int maxOpen = 15;
/// During a step: the segment of the operator itself.
constexpr int ownSegment = maxOpen;

/// What is known of one live tensor.
struct Entry {
  uint16_t copies = 0; ///< further states it is present in and may be wanted in
  uint16_t reach = 0;  ///< open segments with a path to it (its own not among them)
  uint8_t device = 0, state = 0;
  int8_t segment = -1; ///< open segment that holds its writer, or -1

  uint64_t pack() const {
    return uint64_t(copies) | uint64_t(reach) << 16 | uint64_t(device) << 32 | uint64_t(state) << 40 |
           uint64_t(uint8_t(segment)) << 48;
  }
  static Entry unpack(uint64_t w) {
    return {uint16_t(w), uint16_t(w >> 16), uint8_t(w >> 32), uint8_t(w >> 40), int8_t(uint8_t(w >> 48))};
  }
};

template <typename T> using PerSegment = std::array<T, maxOpen + 1>;
/// Operators minus edges of the launch cover, per open segment.
using Excess = PerSegment<int16_t>;

struct Node {
  Cost paid = 0;   ///< weighted, so far
  Cost future = 0; ///< bound on what remains
  Cost sensitivity = 0;
  int32_t parent = -1; ///< in the layer before
  int32_t next = -1;   ///< with a budget: another survivor of the same frontier
  uint16_t option = 0, joined = 0;
  Excess excess{};

  Cost bound() const { return paid + future; }
};

/// What a step over operator `op` does to every state alike.
struct Step {
  int op = 0;
  std::vector<int> inputAt;   ///< per input: place among the live tensors before
  std::vector<int> keptAt;    ///< live tensors that stay: place before
  std::vector<int> keptInput; ///< per kept tensor: whether the operator reads it
  std::vector<int> live;      ///< tensors that live after
  Cost rest = 0;              ///< bound of operators and tensors not begun
  Cost restSensitivity = 0;   ///< least of the operators that remain
};

/// Bounds of what the remaining readers of the live tensors add, remembered.
class ToGo {
public:
  ToGo(const Graph &g, const DualBound &bound) : g(g), bound(bound), tensors(g.producer.size()) {}
  /// After another reader of `tensor` was passed.
  void pass(int tensor, size_t firstReader);
  Cost get(int tensor, const Entry &e);
  /// States that remaining readers may want, and devices they may be on.
  uint32_t wanted(int tensor) const { return tensors[tensor].wanted; }
  uint32_t devices(int tensor) const { return tensors[tensor].devices; }

private:
  struct PerTensor {
    size_t first = 0;
    uint32_t wanted = 0, devices = 0;
    llvm::DenseMap<uint32_t, Cost> known;
  };
  const Graph &g;
  const DualBound &bound;
  std::vector<PerTensor> tensors;
};

/// A state before the step, taken apart.
struct Parent {
  std::vector<Entry> entries;
  PerSegment<uint16_t> reach{}; ///< open segments that reach this one
  Excess excess{};
  int open = 0;

  void read(const uint64_t *words, size_t count, const Excess &from);
};

/// A state after the step.
struct Child {
  std::vector<Entry> entries;
  Excess excess{};
  PerSegment<int8_t> number{}; ///< new number of each old segment and of the operator's own; -1: sealed
  Cost credit = 0;             ///< launches that are paid and that the bound counts again
  bool overflow = false;       ///< more segments than `maxOpen`
};

class Stepper {
public:
  Stepper(const Graph &g, const DualBound &bound, ToGo &toGo) : g(g), bound(bound), toGo(toGo) {}

  /// Cost of copies for `option`, or `impossible`.
  Cost copies(const Step &step, const Parent &p, const Option &option) const;
  /// Open segments on the option's device that the operator's inputs belong to.
  uint16_t joinable(const Step &step, const Parent &p, const Option &option) const;
  /// Whether the operator may join all of `joined` at once.
  bool legal(const Step &step, const Parent &p, uint16_t joined) const;
  void apply(const Step &step, const Parent &p, const Option &option, uint16_t joined, Child &child) const;
  /// Bound on what remains after the step, or `impossible`.
  Cost future(const Step &step, const Child &child) const;

private:
  uint16_t reachedFrom(const Step &step, const Parent &p, uint16_t joined) const;
  int16_t excessOf(const Step &step, const Parent &p, uint16_t joined) const;
  void renumber(const Step &step, const PerSegment<uint16_t> &reach, const Excess &excess, Child &child) const;

  const Graph &g;
  const DualBound &bound;
  ToGo &toGo;
};

/// Survivors of one layer, found by frontier.
class Layer {
public:
  explicit Layer(bool pareto = false) : pareto(pareto) {}
  void reset(size_t entryCount);
  /// Adds a state unless another beats it.
  void add(llvm::ArrayRef<Entry> entries, const Node &node, Cost lambda);
  /// Keeps what is below `upper`, at most `width` states; returns the least
  /// bound of what the width cut off.
  Cost prune(Cost upper, size_t width);

  size_t size() const { return nodes.size(); }
  const Node &operator[](size_t i) const { return nodes[i]; }
  const uint64_t *words(size_t i) const { return keys.data() + i * entryCount; }

private:
  void grow();
  int32_t &find(const uint64_t *key);
  uint64_t hash(const uint64_t *key) const;
  void replaceSingle(Node &old, const Node &node);
  void addPareto(int32_t head, const uint64_t *key, const Node &node, Cost lambda);

  bool pareto;
  size_t entryCount = 0;
  std::vector<uint64_t> keys, scratch;
  std::vector<Node> nodes;
  std::vector<int32_t> table; ///< open addressing, -1: free
};

} // namespace tessera::partition
#endif

// A lower bound on every answer, and on every completion of a partial one.
//
// The problem without convexity is a sum of local terms: each operator's option,
// and for each tensor one term that joins its writer and all its readers (the
// copies, shared between readers, and the launch terms of a LaunchCover). Each
// term's least value, added up, is a lower bound. Moving parts of the operators'
// costs into the tensors' terms ("shares") changes no answer's price but raises
// the bound; a sweep moves everything it meets forwards or backwards. After a
// backward sweep all costs sit as late as they can, so that the bound of what
// remains splits over the tensors of any frontier: that is what the search asks.
//
// Values are weighted: 1024 x cost + lambda x sensitivity. The factor keeps the
// loss of integer division far below one unit of cost.
#ifndef TESSERA_PASSES_PARTITION_DUALBOUND_H
#define TESSERA_PASSES_PARTITION_DUALBOUND_H

#include "passes/Partition/LaunchCover.h"

namespace tessera::partition {

constexpr Cost weightScale = 1024;

/// Weighted value to cost, rounded up.
inline Cost toCost(Cost weighted) {
  return weighted >= 0 ? (weighted + weightScale - 1) / weightScale : -(-weighted / weightScale);
}

class DualBound {
public:
  /// `allowed` options only; those that another beats are left out as well.
  DualBound(const Graph &graph, const Allowed &allowed, LaunchCover cover, Cost lambda);

  /// Sweeps until the bound stops rising, it reaches `upper`, or `rounds` are
  /// done. Options whose bound reaches `upper` are dropped. False: no answer is
  /// below `upper`.
  bool ascend(int rounds, Cost upper);

  /// Bound on all answers.
  Cost value() const { return bound; }
  bool alive(int op, int option) const { return isAlive[op][option]; }
  Cost weight(int op, int option) const;
  /// Least of what operator `op` keeps of its cost.
  Cost leastKept(int op) const;
  /// Least of the whole term of `tensor`.
  Cost leastTerm(int tensor) const;
  /// Bound on what the readers of `tensor` from `first` on add, when it is
  /// written by a device in a state and present in further states.
  Cost toGo(int tensor, int device, int state, uint32_t present, size_t first) const;
  /// States that the readers from `first` on may want.
  uint32_t wanted(int tensor, size_t first) const;
  const LaunchCover &cover() const { return launchCover; }

private:
  struct Copying; // prices of bringing a tensor into each state

  void dropBeaten(const Allowed &allowed);
  Cost launchTerm(int tensor, size_t slot, int from, int to) const;
  bool sweep(bool backward, Cost upper);
  void absorb(int op, int tensor, size_t slot);
  void giveAway(int op, bool backward);
  Cost compute() const;

  void tabulate(int tensor, int device, size_t first) const;
  Copying pricesOf(int tensor, int state, uint32_t present, size_t first, size_t skip) const;
  Cost minimise(int tensor, int state, uint32_t present, size_t first, size_t skip, Cost *given) const;
  Cost minimiseOne(const Cost *reader, const Copying &copying, Cost *given) const;
  Cost minimiseTwo(const Cost *a, const Cost *b, const Copying &copying) const;
  Cost minimiseSubsets(int tensor, size_t first, size_t skip, const Copying &copying, Cost *given) const;
  Cost minimiseSplit(int tensor, size_t first, size_t skip, const Copying &copying, Cost *given) const;
  std::vector<Cost> producerMarginals(int tensor) const;
  std::vector<Cost> consumerMarginals(int tensor, size_t slot) const;

  const Graph &g;
  LaunchCover launchCover;
  Cost lambda;
  Cost bound = 0;
  Cost divisionLoss = 0; ///< at most this is lost in one sweep
  std::vector<std::vector<char>> isAlive;
  std::vector<std::vector<Cost>> kept; ///< per operator and option: not given to a tensor
  /// Per tensor, slot (0: writer, 1...: readers) and option: the share.
  std::vector<std::vector<std::vector<Cost>>> shares;
  mutable std::vector<Cost> reading; ///< per reader and state: least share
};

} // namespace tessera::partition
#endif

// The launch part of the lower bound.
//
// A cover is a subgraph H of the operators and edges such that every legal
// segment F has (operators of F in H) - (edges of F in H) <= 1. A launch is then
// bounded from below by local terms: + launch for an operator of H on a device
// with segments, - launch for an edge of H whose ends are on the same device.
//
// Two kinds of H, both argued in Rationale.md:
//  * one longest path of each connected part: a legal segment meets a path in
//    one run;
//  * the graph without some ears. An ear is a path a -> ... -> b whose inner
//    operators have no other edges in H, while b stays reachable from a.
// The bound is tight at an answer whose segments hold exactly the ears taken
// away, so H is chosen for a known answer.
#ifndef TESSERA_PASSES_PARTITION_LAUNCHCOVER_H
#define TESSERA_PASSES_PARTITION_LAUNCHCOVER_H

#include "passes/Partition/Graph.h"

namespace tessera::partition {

struct LaunchCover {
  std::vector<char> ops;                ///< per operator: in H
  std::vector<std::vector<char>> edges; ///< per tensor and consumer slot: in H
};

/// The longest paths.
LaunchCover coverByPaths(const Graph &graph);
/// Of both kinds the one whose launch terms are larger at `answer`.
LaunchCover coverFor(const Graph &graph, const Solution &answer);

} // namespace tessera::partition
#endif

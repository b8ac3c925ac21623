// The choices that simpler tools would make, as restrictions of the problem.
#ifndef TESSERA_PASSES_PARTITION_STARTINGANSWERS_H
#define TESSERA_PASSES_PARTITION_STARTINGANSWERS_H

#include "passes/Partition/Graph.h"

namespace tessera::partition {

/// Options on device 0 only; none if an operator has no such option.
std::optional<Allowed> hostOnly(const Graph &graph, const Allowed &allowed);
/// The last device that an operator may run on, there its cheapest option.
Allowed lastDeviceFirst(const Graph &graph, const Allowed &allowed);
/// In order, the option that is cheapest given what was chosen before it:
/// itself, copies of inputs, a launch if no input comes from its device.
Allowed cheapestInOrder(const Graph &graph, const Allowed &allowed);

} // namespace tessera::partition
#endif

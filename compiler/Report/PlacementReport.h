// Reports on a placement: where everything runs, what crosses, what it costs
// against simpler placements; and for one node, its alternatives.
#ifndef TESSERA_COMPILER_REPORT_PLACEMENTREPORT_H
#define TESSERA_COMPILER_REPORT_PLACEMENTREPORT_H

#include "passes/Partition/PlaceModel.h"

namespace tessera {

/// The plan in words.
void printPlacement(const Placement &placement, llvm::raw_ostream &os);
/// The same for programs.
void printPlacementJson(const Placement &placement, llvm::raw_ostream &os);
/// Writes plan.txt, plan.json, problem.json and solution.json into a folder.
llvm::Error writePlacement(const Placement &placement, llvm::StringRef folder);

/// The node's group: where it was placed, what each other place would cost, and
/// what keeps it from the rest. Solves the problem once more for each place.
llvm::Error explainNode(const ModelProblem &model, const Placement &placement, llvm::StringRef node,
                        llvm::raw_ostream &os);

} // namespace tessera
#endif

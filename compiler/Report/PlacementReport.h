// Reports on a placement: where everything runs, what crosses, what it costs
// against simpler placements; and for one node, its alternatives.
#ifndef TESSERA_COMPILER_REPORT_PLACEMENTREPORT_H
#define TESSERA_COMPILER_REPORT_PLACEMENTREPORT_H

#include "compiler/Report/ModelGraph.h"
#include "compiler/Report/Originals.h"
#include "passes/Partition/PlaceModel.h"

namespace tessera {

/// The model whose operators were placed, as it was given.
class PlacedModel {
public:
  PlacedModel(std::string path, mlir::ModuleOp imported) : path(std::move(path)), graph(imported), originals(imported) {}
  /// To be called before anything is placed.
  void canonicalised(mlir::ModuleOp module);

  struct Fate {
    std::string rewrite;           ///< as Originals::Fate
    std::vector<std::string> into; ///< names of nodes whose groups compute it
  };
  std::string path;
  ModelGraph graph;
  std::vector<Fate> fates; ///< per node of the graph

private:
  Originals originals;
};

/// The plan in words.
void printPlacement(const Placement &placement, llvm::raw_ostream &os);
/// The same for programs, on the graph of the model.
void printPlacementJson(const Placement &placement, const PlacedModel &model, llvm::raw_ostream &os, unsigned indent = 2);
/// Writes plan.txt, plan.json, plan.html, problem.json and solution.json into a folder.
llvm::Error writePlacement(const Placement &placement, const PlacedModel &model, llvm::StringRef folder);

/// The node's group: where it was placed, what each other place would cost, and
/// what keeps it from the rest. Solves the problem once more for each place.
llvm::Error explainNode(const ModelProblem &model, const Placement &placement, llvm::StringRef node,
                        llvm::raw_ostream &os);

} // namespace tessera
#endif

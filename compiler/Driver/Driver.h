// compile() as a library call: the pipeline of Phase.def over one model.
#ifndef TESSERA_COMPILER_DRIVER_DRIVER_H
#define TESSERA_COMPILER_DRIVER_DRIVER_H

#include "compiler/Bundle/Plan.h"
#include "passes/Partition/PlaceModel.h"
#include "llvm/ADT/StringRef.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tessera {

enum class Phase {
#define TESSERA_PHASE(id, word, text) id,
#include "compiler/Phase.def"
#undef TESSERA_PHASE
};
llvm::StringRef phaseName(Phase phase);
std::optional<Phase> parsePhase(llvm::StringRef word);

struct QuantiseRequest; // compiler/Driver/QuantiseModel.h
struct QuantisedModel;

struct CompileOptions {
  std::string model;
  std::string output;               ///< bundle path
  std::string target = "host-x86-64";
  std::vector<std::string> dims;    ///< texts of --dim
  std::vector<std::string> variants; ///< restricts the target's ISA variants; empty: all
  bool strict = false;              ///< --fp-mode strict
  bool quick = false;               ///< compile time before run time: for trials
  std::vector<std::string> segments; ///< for tests: nodes that another device computes (wrapNamedNodes)
  std::vector<std::string> pins;    ///< texts of --pin, "NODE=UNIT" or "*=UNIT"
  bool vendorFallback = false;      ///< a vendor's compiler that fails leaves its regions to the CPU
  unsigned vendorSeconds = 120;     ///< and has so long for one region
  std::string reportFolder;         ///< of writePlacement(); or empty
  std::string depfile;
  std::shared_ptr<QuantiseRequest> quantise; ///< --quantize and its options; or null
  std::string viaTosa;              ///< for tests: what is sent through the TOSA file, see parseRoundTrip()
  std::string dumpAfter;            ///< phase word, or empty
  std::optional<Phase> compileTo;   ///< stop after this phase
  llvm::raw_ostream *dumpStream = nullptr;
  std::function<void(Phase)> progress;
};

/// What a compile produced; figures for reports.
struct CompileResult {
  uint64_t bundleBytes = 0, arenaBytes = 0, constantBytes = 0, codeBytes = 0;
  unsigned dispatches = 0, kernels = 0, nodes = 0;
  bool arenaKnown = false;
  std::vector<std::string> inputs; ///< files that were read: the model, then its external data
  std::optional<Placement> placement; ///< of a target with more than one unit
  std::shared_ptr<QuantisedModel> quantised; ///< with options.quantise
};

/// Registers what compile() needs.
std::unique_ptr<mlir::MLIRContext> makeContext();

/// Runs the phases. Failures are diagnostics of `context`; nothing is left at
/// the output path by a failed run.
mlir::FailureOr<CompileResult> compile(const CompileOptions &options, mlir::MLIRContext *context);

/// The two phases of the front end; a caller between them sees the model as it was
/// given.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> importModel(const CompileOptions &options, mlir::MLIRContext *context,
                                                               std::vector<std::string> *inputs = nullptr);
/// `targets`: what it is canonicalised for; none: for any.
llvm::LogicalResult canonicalise(const CompileOptions &options, mlir::ModuleOp module,
                                 llvm::ArrayRef<TargetDescription> targets = {});
/// Both, as far as options.compileTo allows.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> frontEnd(const CompileOptions &options, mlir::MLIRContext *context,
                                                            llvm::ArrayRef<TargetDescription> targets = {});

} // namespace tessera
#endif

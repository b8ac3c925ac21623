// From dispatches to one freestanding ELF image per ISA variant.
#ifndef TESSERA_TARGETS_CPU_COMPILE_H
#define TESSERA_TARGETS_CPU_COMPILE_H

#include "compiler/Bundle/Plan.h"
#include "dialects/Tsr/IR/TsrDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "targets/Cpu/Isa.h"
#include "targets/Cpu/KernelBuilder.h"

namespace tessera::cpu {

/// The builder that serves `op`, or null with reasons.
const KernelBuilder *builderOf(tsr::DispatchOp op, Reasons &reasons);

/// One function to compile: a dispatch, or the extents of its results.
struct KernelSource {
  tsr::DispatchOp op;
  bool extents = false;
};

/// Dialects that kernel IR and its translation need.
void registerCodegenDialects(mlir::DialectRegistry &registry);

/// Emits the kernel of `source` as function `name` into `module`. Diagnoses
/// what the builder cannot do.
llvm::LogicalResult emitKernel(const KernelSource &source, llvm::StringRef name, const Isa &isa, mlir::ModuleOp module);

/// Compiles all kernels for `isa`; entries are in the order of `sources`.
/// The result is a function of the dispatches and the ISA alone. `quick` saves
/// compile time at the cost of slower kernels, for models that run a few times.
mlir::FailureOr<PlanVariant> compileVariant(llvm::ArrayRef<KernelSource> sources, const Isa &isa,
                                            mlir::MLIRContext *context, bool quick = false);

} // namespace tessera::cpu
#endif

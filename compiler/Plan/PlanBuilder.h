// Lowers bound dispatches to the command list that the loader interprets.
#ifndef TESSERA_COMPILER_PLAN_PLANBUILDER_H
#define TESSERA_COMPILER_PLAN_PLANBUILDER_H

#include "compiler/Bundle/Plan.h"
#include "passes/Codegen/Lowering.h"
#include "targets/Cpu/Compile.h"

namespace tessera {

struct TargetDescription;

/// A plan without code: `kernels[i]` is computed by `sources[i]`.
struct BuiltPlan {
  Plan plan;
  std::vector<cpu::KernelSource> sources;
};

/// Builds the plan of `l.func`. Constants alias the module's attributes: the
/// module must outlive the plan. Segments of GPUs are compiled for the units of
/// `target`.
mlir::FailureOr<BuiltPlan> buildPlan(Lowering &l, cpu::Arch arch, const TargetDescription *target = nullptr);

/// ONNX TensorProto.DataType of an MLIR element type, 0 if there is none.
int32_t onnxElementType(mlir::Type element);

} // namespace tessera
#endif

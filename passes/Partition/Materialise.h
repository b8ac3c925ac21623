// Makes a solution of the partition problem true in the model.
//
// BEFORE  operators of a segment among others, float32
// AFTER   %h = onnx.Cast(%x) : float16
//         %r = tsr.segment "npu"(%h) {artefact} { what the artefact says, as onnx operators }
//         %y = onnx.Cast(%r) : float32
//
// A GPU's segment holds the operators as they are. Of any other unit, a segment's
// operators are lowered to the form that its unit's tools take,
// serialised, and read back; the body is made of what was read. So what the
// stand-in device runs is the file in the bundle, or the one that the vendor's
// compiler got, which is part of what it made. A tensor is converted once
// for each form in which a device wants it, by the CPU; tensors between segments
// of one unit keep the device's form.
#ifndef TESSERA_PASSES_PARTITION_MATERIALISE_H
#define TESSERA_PASSES_PARTITION_MATERIALISE_H

#include "passes/Partition/BuildProblem.h"

namespace tessera {

/// Compiles each segment of a GPU or of a unit with a vendor's compiler. Of one that is
/// refused, the groups (a GPU's: those of the refused kernels) lose the option of that device in `model`, with the reason:
/// then the answer is true, and the model to be solved anew. Fails, with a
/// diagnostic, if the tool is out of order. Null `vendors`: nothing to ask.
mlir::FailureOr<bool> dropRefusedSegments(const TargetDescription &target, ModelProblem &model,
                                          const partition::Solution &solution, VendorTools *vendors);

/// What the vendors' compilers estimate for the solution's segments more than its
/// groups cost by themselves (less: negative). `into`, the solution's model or one
/// with more options, gets each segment's price spread over its groups in
/// proportion to theirs.
mlir::FailureOr<partition::Cost> priceSegments(const TargetDescription &target, const ModelProblem &model,
                                               const partition::Solution &solution, VendorTools &vendors,
                                               ModelProblem &into);

/// Fails, with a diagnostic, if a segment does not lower as its groups did.
llvm::LogicalResult materialise(mlir::func::FuncOp func, const TargetDescription &target, const ModelProblem &model,
                                const partition::Solution &solution, VendorTools *vendors);

} // namespace tessera
#endif

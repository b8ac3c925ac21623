// From onnx operators to bound dispatches: the steps between canonicalisation
// and the plan, over one function and its symbolic shapes.
//
// Order and reason: liveness first (operators that only shape others are never
// computed), then groups (fusion needs use counts of live operators only), then
// layouts (a layout belongs to a group's tensors), then sizes (the kernels'
// parameters are the sizes of exactly the tensors that remain).
#ifndef TESSERA_PASSES_CODEGEN_LOWERING_H
#define TESSERA_PASSES_CODEGEN_LOWERING_H

#include "dialects/Onnx/Shapes/ShapeAnalysis.h"
#include "dialects/Tsr/IR/TsrDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace tessera {

struct Lowering {
  mlir::func::FuncOp func;
  std::unique_ptr<onnx::ShapeAnalysis> shapes;
  llvm::DenseSet<mlir::Operation *> live;
  /// Sizes of the run-time symbols of each dispatch, in the order of `dims`.
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<onnx::Sym>> symbols;

  /// Dimensions of any value, also of a dispatch's result or body argument.
  llvm::ArrayRef<onnx::Sym> dims(mlir::Value v);
  /// Whether `op` is a small integer tensor whose every element is an
  /// expression: the plan writes it element by element and no kernel runs.
  bool isWritten(mlir::Operation *op);
  /// The value outside of dispatches that holds `v` (which the analysis may
  /// know by the operator that computed it inside a body).
  mlir::Value resolve(mlir::Value v);
};

/// An operator whose result is its first operand's bytes under another shape.
bool isView(mlir::Operation *op);
/// If, Loop, Scan: operators with bodies that the plan turns into branches.
bool isControlFlow(mlir::Operation *op);

/// Fills `live`, backwards from the function's results.
llvm::LogicalResult findLive(Lowering &l);
/// Wraps live operators into `tsr.dispatch`; reports every operator that no
/// kernel serves, with all reasons.
llvm::LogicalResult formGroups(Lowering &l);
/// Chooses each tensor's layout and inserts relayout dispatches.
llvm::LogicalResult assignLayouts(Lowering &l);
/// Sets `dims` and `symbols` of every dispatch.
llvm::LogicalResult bindShapes(Lowering &l);

/// All of the above on `func`.
mlir::FailureOr<std::unique_ptr<Lowering>> lowerToDispatches(mlir::func::FuncOp func);

} // namespace tessera
#endif

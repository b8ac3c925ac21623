// Symbolic shapes of a whole function: the only place that knows how an ONNX
// operator's result dimensions follow from its operands.
//
// The importer's static inference is trusted where it gave numbers; this
// analysis supplies expressions for what it left open, so that one compiled
// plan serves every shape. Each category file registers one function per
// operator; an operator without one yields Extent leaves (or a refusal where
// the rank is unknown).
#ifndef TESSERA_DIALECTS_ONNX_SHAPES_SHAPEANALYSIS_H
#define TESSERA_DIALECTS_ONNX_SHAPES_SHAPEANALYSIS_H

#include "dialects/Onnx/Shapes/SymExpr.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"

namespace tessera::onnx {

using SymDims = llvm::SmallVector<Sym, 4>;

/// What must hold at run time for the analysis to be right, e.g. that two
/// dimensions which ONNX demands equal are equal.
struct ShapeRequirement {
  Sym condition; ///< non-zero when it holds
  mlir::Operation *op;
  std::string message; ///< lower-case, names node and values' meaning
};

class ShapeAnalysis {
public:
  /// Analyses `func` and everything nested in it. Emits diagnostics and fails
  /// where a rank cannot be known or a shape is contradictory. Result types of
  /// operations are refined in place where a dynamic dimension turned out
  /// to be constant (or an unranked type ranked). An If whose condition is known,
  /// or whose branches give different ranks and whose condition depends on
  /// dimensions alone, is replaced by the one branch that works; that the
  /// condition holds is then among the requirements.
  ///
  /// Where input dimensions decide a rank, one branch is assumed and demanded
  /// by a requirement, which only the caller who keeps the analysis can honour.
  /// A caller that drops it passes `assumed`: it is set then, and the function
  /// is left as it was.
  static mlir::FailureOr<std::unique_ptr<ShapeAnalysis>> run(mlir::func::FuncOp func, bool *assumed = nullptr);
  ~ShapeAnalysis();

  SymContext &context();
  /// One expression per axis. Ranked tensors only; an error and nothing for a
  /// value whose rank is unknown (an element of a sequence, say).
  llvm::ArrayRef<Sym> dims(mlir::Value v);
  bool hasDims(mlir::Value v);
  /// Elements of a small integer (or bool) tensor in row-major order, if known.
  std::optional<llvm::ArrayRef<Sym>> contents(mlir::Value v);
  /// Whether `op` needs the run-time data of operand `index` although its
  /// contents are known symbolically (false: the operand only shapes the result).
  bool needsData(mlir::OpOperand &operand);
  llvm::ArrayRef<ShapeRequirement> requirements();
  /// For an operation created after the analysis: sets its results' dims.
  void setDims(mlir::Value v, llvm::ArrayRef<Sym> dims);
  /// To be called for the results of an operation that is erased: a later one
  /// may get the same address.
  void forget(mlir::Value v);

private:
  ShapeAnalysis();
  struct Impl;
  std::unique_ptr<Impl> impl;
};

} // namespace tessera::onnx
#endif

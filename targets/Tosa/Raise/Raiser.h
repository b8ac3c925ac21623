// What the translations of single TOSA operators build with. As on the way
// there, tensors keep the order of axes in which they were computed.
#ifndef TESSERA_TARGETS_TOSA_RAISE_RAISER_H
#define TESSERA_TARGETS_TOSA_RAISE_RAISER_H

#include "mlir/Dialect/Tosa/IR/TosaOps.h"
#include "passes/Canonicalise/OnnxBuilder.h"
#include "targets/Tosa/Forms.h"

namespace tessera::tosa {

using onnx::HostTensor;

class Raiser {
public:
  explicit Raiser(mlir::OpBuilder &builder) : b(builder, builder.getUnknownLoc()) {}

  onnx::OnnxBuilder b;

  static mlir::RankedTensorType typeOf(mlir::Value v) { return mlir::cast<mlir::RankedTensorType>(v.getType()); }
  static int64_t rankOf(mlir::Value v) { return typeOf(v).getRank(); }
  static llvm::ArrayRef<int64_t> shapeOf(mlir::Value v) { return typeOf(v).getShape(); }

  mlir::Value get(mlir::Value v, llvm::ArrayRef<int64_t> perm = {});
  void set(mlir::Value v, mlir::Value stored, llvm::ArrayRef<int64_t> perm = {});
  Perm order(mlir::Value v) const;
  /// The order of the largest of them.
  Perm order(mlir::ValueRange vs) const;
  /// The type of `v` with its axes in the order `perm`.
  mlir::RankedTensorType typeIn(mlir::Value v, llvm::ArrayRef<int64_t> perm) const;

  /// The constant that a tosa value is.
  std::optional<HostTensor> constantOf(mlir::Value v) const;
  /// The numbers of a constant of 48-bit integers, which HostTensor has not.
  std::optional<llvm::SmallVector<int64_t>> wideConstantOf(mlir::Value v) const;
  std::optional<llvm::SmallVector<int64_t>> shapeValues(mlir::Value v) const;
  /// The number of a constant of one element.
  std::optional<double> scalarOf(mlir::Value v) const;
  /// Whether every element is 0.
  bool isZero(mlir::Value v) const;
  mlir::Value integer(mlir::Type element, int64_t v) { return b.scalar(element, (double)v); }

private:
  Forms forms;
};

/// Translates one operator; failure is followed by a general diagnostic unless it gave one.
using RaiseFn = llvm::LogicalResult (*)(mlir::Operation *, Raiser &);
struct RegisterRaise {
  RegisterRaise(std::initializer_list<llvm::StringRef> mnemonics, RaiseFn fn);
};

} // namespace tessera::tosa
#endif

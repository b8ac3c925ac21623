// Tensors whose axes are kept in another order than their owner names them.
//
// A form of a logical tensor is a value whose axis i is logical axis perm[i].
// Convolutions of ONNX and of TOSA want different orders; both directions of
// the translation keep every tensor in the order in which it was computed and
// transpose only where an operator insists, once per order. Pairs of inverse
// transposes therefore never appear.
#ifndef TESSERA_TARGETS_TOSA_FORMS_H
#define TESSERA_TARGETS_TOSA_FORMS_H

#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"

namespace tessera::tosa {

using Perm = llvm::SmallVector<int64_t, 6>;

Perm identityPerm(int64_t rank);
Perm inversePerm(llvm::ArrayRef<int64_t> perm);
bool isIdentity(llvm::ArrayRef<int64_t> perm);
/// p with which transposing a form of order `from` gives order `to`.
Perm permBetween(llvm::ArrayRef<int64_t> from, llvm::ArrayRef<int64_t> to);
/// NHWC of NCHW, for any number of spatial axes; and back.
Perm channelsLast(int64_t rank);
Perm channelsFirst(int64_t rank);

class Forms {
public:
  struct Form {
    Perm perm;
    mlir::Value stored;
  };
  using All = llvm::SmallVector<Form, 2>;
  using Transpose = llvm::function_ref<mlir::Value(mlir::Value, llvm::ArrayRef<int64_t>)>;

  bool has(mlir::Value logical) const { return forms.contains(logical); }
  void set(mlir::Value logical, mlir::Value stored, llvm::ArrayRef<int64_t> perm);
  /// The order in which `logical` was computed.
  llvm::ArrayRef<int64_t> order(mlir::Value logical) const;
  mlir::Value get(mlir::Value logical, llvm::ArrayRef<int64_t> perm, Transpose transpose);
  /// The forms until now.
  All exchange(mlir::Value logical, All other) { return std::exchange(forms[logical], std::move(other)); }

private:
  llvm::DenseMap<mlir::Value, All> forms;
};

} // namespace tessera::tosa
#endif

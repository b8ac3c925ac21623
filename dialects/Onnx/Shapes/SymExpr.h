// Symbolic integers: dimensions and small integer contents that are known only
// when the inputs are.
//
// Expressions are immutable, interned in a SymContext (equal expressions are
// the same pointer) and folded on construction; sums and products are kept in
// a canonical order, so that n*2 and n+n compare equal.
#ifndef TESSERA_DIALECTS_ONNX_SHAPES_SYMEXPR_H
#define TESSERA_DIALECTS_ONNX_SHAPES_SYMEXPR_H

#include "mlir/IR/Value.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdint>
#include <memory>
#include <optional>

namespace tessera::onnx {

enum class SymKind : uint8_t {
  Constant, ///< `imm`
  InputDim, ///< dimension `imm` of function argument `value`
  Data,     ///< element `imm` of the run-time contents of integer tensor `value`
  Extent,   ///< dimension `imm` of result `value`, found by running its kernel's extent function
  BlockDim, ///< dimension `imm` of block argument `value` of a loop body: may change per iteration
  Add, Sub, Mul, FloorDiv, CeilDiv, TruncDiv, Mod, Min, Max,
  Equal, Less, ///< 0 or 1
  Select    ///< operands: condition, then, else
};

class SymExpr {
public:
  SymKind kind;
  int64_t imm = 0;
  mlir::Value value;                 ///< leaves other than Constant
  llvm::ArrayRef<const SymExpr *> operands;
  unsigned id = 0;                   ///< creation order, for deterministic sorting

  bool isConstant() const { return kind == SymKind::Constant; }
  bool isConstant(int64_t v) const { return isConstant() && imm == v; }
  std::optional<int64_t> constant() const {
    return isConstant() ? std::optional<int64_t>(imm) : std::nullopt;
  }
  /// Smallest and largest possible value where that is known (dimensions are >= 0).
  std::optional<int64_t> lower, upper;
  void print(llvm::raw_ostream &os) const;
};
using Sym = const SymExpr *;

/// Creates and owns expressions. Arithmetic that overflows int64 yields an
/// expression that evaluates with the same overflow check at run time.
class SymContext {
public:
  SymContext();
  ~SymContext();
  Sym constant(int64_t v);
  Sym leaf(SymKind kind, mlir::Value value, int64_t index,
           std::optional<int64_t> lower = std::nullopt,
           std::optional<int64_t> upper = std::nullopt);
  Sym add(Sym a, Sym b);
  Sym sub(Sym a, Sym b);
  Sym mul(Sym a, Sym b);
  Sym floorDiv(Sym a, Sym b);
  Sym ceilDiv(Sym a, Sym b);
  Sym truncDiv(Sym a, Sym b);
  Sym mod(Sym a, Sym b);
  Sym min(Sym a, Sym b);
  Sym max(Sym a, Sym b);
  Sym equal(Sym a, Sym b);
  Sym less(Sym a, Sym b);
  Sym select(Sym c, Sym a, Sym b);
  Sym product(llvm::ArrayRef<Sym> factors);

private:
  struct Impl;
  std::unique_ptr<Impl> impl;
};

} // namespace tessera::onnx
#endif

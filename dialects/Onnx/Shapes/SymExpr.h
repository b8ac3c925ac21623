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
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

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

/// What an expression's operators mean when both operands are numbers: the one
/// definition that folding, the evaluator and the plan's scalars share.
/// Nothing where int64 overflows or a divisor is zero.
std::optional<int64_t> applySym(SymKind kind, llvm::ArrayRef<int64_t> operands);

/// Creates and owns expressions. Every node but Select and the leaves has two
/// operands. Arithmetic that overflows int64 yields an expression that
/// evaluates with the same overflow check at run time.
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

  // Booleans are the numbers 0 and 1.
  Sym logicalNot(Sym a) { return sub(constant(1), a); }
  Sym logicalAnd(Sym a, Sym b) { return min(a, b); }
  Sym logicalOr(Sym a, Sym b) { return max(a, b); }
  Sym lessEqual(Sym a, Sym b) { return logicalNot(less(b, a)); }

  /// Whether a <= b holds for all values of the leaves, as far as bounds tell.
  bool provablyLessEqual(Sym a, Sym b);
  /// a / b as a polynomial identity (b != 0 assumed), or null.
  Sym exactQuotient(Sym a, Sym b);

private:
  struct Impl;
  std::unique_ptr<Impl> impl;
};

/// Evaluates expressions under given values of the leaves; remembers results.
class SymEvaluator {
public:
  using LeafFn = std::function<std::optional<int64_t>(Sym leaf)>;
  explicit SymEvaluator(LeafFn leafValue);
  /// Nothing where a needed leaf is unknown, int64 overflows or a divisor is 0.
  std::optional<int64_t> operator()(Sym expression);

private:
  LeafFn leafValue;
  llvm::DenseMap<Sym, std::optional<int64_t>> known;
};

/// Calls `visit` once for each distinct leaf other than constants.
void forEachLeaf(Sym expression, llvm::function_ref<void(Sym)> visit);

inline llvm::raw_ostream &operator<<(llvm::raw_ostream &os, const SymExpr &e) {
  e.print(os);
  return os;
}
std::string toString(Sym expression);

} // namespace tessera::onnx
#endif

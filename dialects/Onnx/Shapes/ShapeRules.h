// What one operator's shape rule sees, and how it is registered.
//
//   TESSERA_SHAPE_RULE(Flatten) {
//     auto in = s.dims(0);
//     ...
//     s.set(0, {s.ctx.product(head), s.ctx.product(tail)});
//   }
//
// A rule reads dimensions and contents of operands by schema position and sets
// the dimensions of results. It leaves early by exception: Unknown where an
// operand's rank or contents cannot be had (the results then fall back to the
// declared type), Contradiction where the model is wrong. Neither leaves this
// folder. A contents rule gives the elements of a small tensor the same way.
#ifndef TESSERA_DIALECTS_ONNX_SHAPES_SHAPERULES_H
#define TESSERA_DIALECTS_ONNX_SHAPES_SHAPERULES_H

#include "dialects/Onnx/Shapes/ShapeAnalysis.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/Allocator.h"

namespace tessera::onnx {

/// An element of a small tensor: num / den. Integers and bools have den == null
/// (one); the floats of shape arithmetic are such quotients too.
struct Element {
  Sym num = nullptr, den = nullptr;
};
using Contents = llvm::SmallVector<Element, 4>;

/// Larger tensors are never looked into.
inline constexpr int64_t maxContents = 256;

struct Unknown {
  std::string reason;
  /// Comes of a sequence, optional or map: an error only once somebody asks.
  bool deferred = false;
};
struct Contradiction {
  std::string message;
};

class ShapeEngine;
using BranchChoices = std::vector<std::pair<mlir::Operation *, bool>>;

class OpShapes {
public:
  OpShapes(ShapeEngine &engine, mlir::Operation *op, bool allowData = true);

  mlir::Operation *const op;
  SymContext &ctx;

  // Values by schema position.
  mlir::Value in(unsigned position) const;
  mlir::Value out(unsigned position) const;
  bool has(unsigned position) const { return static_cast<bool>(in(position)); }
  unsigned numInputs() const;
  unsigned numOutputs() const;

  // Attributes; of onnx.Custom too.
  mlir::Attribute attr(llvm::StringRef name) const;
  int64_t getInt(llvm::StringRef name, int64_t fallback = 0) const;
  llvm::StringRef getString(llvm::StringRef name, llvm::StringRef fallback = "") const;
  llvm::SmallVector<int64_t> getInts(llvm::StringRef name,
                                     llvm::ArrayRef<int64_t> fallback = {}) const;
  /// Attribute or value `axis` brought into [0, rank).
  int64_t normaliseAxis(int64_t axis, int64_t rank) const;
  int64_t getAxis(llvm::StringRef name, int64_t fallback, int64_t rank) const {
    return normaliseAxis(getInt(name, fallback), rank);
  }

  // Shapes; Unknown where there is none.
  llvm::ArrayRef<Sym> dims(unsigned position) const;
  llvm::ArrayRef<Sym> dims(mlir::Value v) const;
  int64_t rank(unsigned position) const { return dims(position).size(); }
  void expectRank(unsigned position, int64_t rank) const;

  // Contents.
  /// Expressions; leaves of kind Data where nothing better is known (in a
  /// contents rule only if the caller asked for that).
  const Contents &contents(unsigned position) const;
  const Contents &contents(mlir::Value v) const;
  /// Integers among them.
  SymDims ints(unsigned position) const;
  /// All elements as numbers; none if one is not constant.
  std::optional<llvm::SmallVector<int64_t>> constants(unsigned position) const;
  /// The one element of a scalar.
  Sym scalar(unsigned position) const;

  // Results.
  void set(unsigned position, llvm::ArrayRef<Sym> dims);
  void setAll(llvm::ArrayRef<Sym> dims);
  /// An extent found when the operator runs.
  Sym extent(unsigned position, int64_t axis, std::optional<int64_t> upper = std::nullopt);

  // Checks.
  [[noreturn]] void contradict(const llvm::Twine &message) const;
  [[noreturn]] void unknown(const llvm::Twine &reason) const;
  void require(Sym condition, const llvm::Twine &message);
  /// Both are the same dimension by the operator's definition; the simpler one.
  Sym unify(Sym a, Sym b, const llvm::Twine &what);
  Sym broadcastDim(Sym a, Sym b);
  SymDims broadcast(llvm::ArrayRef<Sym> a, llvm::ArrayRef<Sym> b);
  /// Multidirectional, of all present operands from `first` on.
  SymDims broadcastOperands(unsigned first = 0);

  Sym c(int64_t v) const { return ctx.constant(v); }
  ShapeEngine &engine;

private:
  bool allowData;
};

using ShapeRule = void (*)(OpShapes &);
using ContentsRule = Contents (*)(OpShapes &, unsigned result);

/// Everything known of one operator; registered piecewise by name ("Conv",
/// "ml.Scaler", "com.microsoft.FusedConv").
struct OpRules {
  ShapeRule shape = nullptr;
  ContentsRule contents = nullptr;
  /// Bit i: operand at position i only shapes the result.
  uint32_t shapeOperands = 0;
  /// Bit i: the kernel needs operand i unless its contents are constant.
  uint32_t parameterOperands = 0;
};

const OpRules *findRules(mlir::Operation *op);
OpRules &addRules(llvm::StringRef name);

struct RuleRegistrar {
  RuleRegistrar(std::initializer_list<const char *> names, ShapeRule rule) {
    for (const char *name : names)
      addRules(name).shape = rule;
  }
  RuleRegistrar(std::initializer_list<const char *> names, ContentsRule rule) {
    for (const char *name : names)
      addRules(name).contents = rule;
  }
  RuleRegistrar(std::initializer_list<const char *> names, uint32_t shapeOperands,
                uint32_t parameterOperands) {
    for (const char *name : names) {
      addRules(name).shapeOperands |= shapeOperands;
      addRules(name).parameterOperands |= parameterOperands;
    }
  }
};

#define TESSERA_SHAPE_RULES(ID, ...)                                                               \
  static void ID##Shape(::tessera::onnx::OpShapes &s);                                             \
  static const ::tessera::onnx::RuleRegistrar ID##ShapeEntry({__VA_ARGS__}, ID##Shape);            \
  static void ID##Shape([[maybe_unused]] ::tessera::onnx::OpShapes &s)
#define TESSERA_SHAPE_RULE(NAME) TESSERA_SHAPE_RULES(NAME, #NAME)

#define TESSERA_CONTENTS_RULES(ID, ...)                                                            \
  static ::tessera::onnx::Contents ID##Contents(::tessera::onnx::OpShapes &s, unsigned result);    \
  static const ::tessera::onnx::RuleRegistrar ID##ContentsEntry({__VA_ARGS__}, ID##Contents);      \
  static ::tessera::onnx::Contents ID##Contents([[maybe_unused]] ::tessera::onnx::OpShapes &s,     \
                                                [[maybe_unused]] unsigned result)
#define TESSERA_CONTENTS_RULE(NAME) TESSERA_CONTENTS_RULES(NAME, #NAME)

/// Positions whose data the kernel never needs, and those it needs unless constant.
#define TESSERA_SHAPE_OPERANDS(ID, SHAPE, PARAMETER, ...)                                          \
  static const ::tessera::onnx::RuleRegistrar ID##Operands({__VA_ARGS__}, SHAPE, PARAMETER)

/// The state of one analysis, for rules that walk bodies (If, Loop, Scan).
class ShapeEngine {
public:
  SymContext ctx;

  /// Stays valid for the life of the engine.
  std::optional<llvm::ArrayRef<Sym>> findDims(mlir::Value v) const;
  void setDims(mlir::Value v, llvm::ArrayRef<Sym> d);
  void setUnknown(mlir::Value v, Unknown why);
  Unknown whyUnknown(mlir::Value v) const;

  /// The contents of `v`, from memory or by its operator's rule. With
  /// `allowData`, integer tensors of known length always have some.
  const Contents *findContents(mlir::Value v, bool allowData);
  void setContents(mlir::Value v, Contents contents);

  void analyseBlock(mlir::Block &block);
  /// Dimensions as the type declares them; leaves of `kind` for the open ones.
  bool setDeclaredDims(mlir::Value v, SymKind kind);
  /// Forgets all about the values in `region`, before it is analysed again.
  void forget(mlir::Region &region);
  void forget(mlir::Value v);

  /// Which branch of an If is the only one that counts.
  std::optional<bool> branchOf(mlir::Operation *op) const;
  void resolve(mlir::Operation *op, bool branch) { resolved[op] = branch; }
  void unresolve(mlir::Operation *op) { resolved.erase(op); }
  /// In an order in which inner ones come before outer ones.
  llvm::SmallVector<std::pair<mlir::Operation *, bool>> takeResolved() {
    auto all = resolved.takeVector();
    return llvm::SmallVector<std::pair<mlir::Operation *, bool>>(all.begin(), all.end());
  }
  /// The branch that this attempt takes where a dimension decides on a rank.
  bool choose(mlir::Operation *op);
  BranchChoices *choices = nullptr;
  /// Whether the values of all leaves of `s` are visible at `op`.
  bool availableAt(Sym s, mlir::Operation *op) const;

  /// Diagnostics and requirements so far, to undo a speculative analysis.
  struct Mark {
    size_t errors, requirements;
  };
  Mark mark() const { return {errors.size(), requirements.size()}; }
  void rollback(Mark m);
  /// Drops what came since `first` but for [begin, end).
  void keepOnly(Mark first, Mark begin, Mark end);
  void replaceCondition(size_t index, Sym condition);

  void error(mlir::Operation *op, std::string message);
  void require(mlir::Operation *op, Sym condition, std::string message);

  struct Error {
    mlir::Operation *op;
    std::string message;
  };
  std::vector<Error> errors;
  std::vector<ShapeRequirement> requirements;

private:
  void analyseOp(mlir::Operation *op);
  void settle(mlir::Value result, const Unknown &why);
  std::optional<Contents> computeContents(mlir::Value v, bool allowData);

  struct Known {
    std::optional<Contents> contents;
  };
  llvm::BumpPtrAllocator memory;
  llvm::DenseMap<mlir::Value, llvm::ArrayRef<Sym>> dims;
  llvm::DenseMap<mlir::Value, Unknown> reasons;
  llvm::DenseMap<mlir::Value, std::unique_ptr<Known>> pure, demanded;
  llvm::DenseSet<std::pair<Sym, mlir::Block *>> required;
  llvm::MapVector<mlir::Operation *, bool> resolved;
  unsigned depth = 0;
};

/// Binds the arguments of the function: static dimensions, symbols.
void bindArguments(mlir::func::FuncOp func, ShapeEngine &engine);

/// "node 'conv1'" or "onnx.Conv", for messages.
std::string describe(mlir::Operation *op);

} // namespace tessera::onnx
#endif

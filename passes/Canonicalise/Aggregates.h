// Sequences, optionals and strings as plain tensors.
//
//   type                    parts                                  TensorSpec kind
//   tensor of strings [D]   int32 [D, W]: code points, zero-padded  1
//   sequence of tensors     elements [total], one after another     2
//                           extents int64 [n, rank]                 3
//   optional of X           bool: present                           4
//                           the parts of X                          as above
//   sequence of strings     int32 [total, W]                        5
//                           extents int64 [n, rank]                 3
//
// W is the longest string's length; a trailing zero code point does not exist,
// as in numpy's unicode arrays. `rank` is the largest rank in the sequence; a
// tensor of a lower one has extents -1 in front.
// Everything after this pass, the loader included, sees tensors; a host joins
// the parts of a graph input or output by their kinds, which follow each other.
#ifndef TESSERA_PASSES_CANONICALISE_AGGREGATES_H
#define TESSERA_PASSES_CANONICALISE_AGGREGATES_H

#include "passes/Canonicalise/OnnxBuilder.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"

namespace tessera::onnx {

enum class PartKind : uint8_t { Tensor, Strings, Elements, Extents, Present, StringElements };

/// Whether `t` is a tensor of strings.
bool isStrings(mlir::Type t);
/// `t`, or what an optional holds, as a sequence; null where it is none.
SeqType sequenceIn(mlir::Type t);

/// Tensor arithmetic on shapes that only a run knows. Vectors of one int64 stand
/// for sizes and positions.
class ShapeBuilder : public OnnxBuilder {
public:
  using OnnxBuilder::OnnxBuilder;
  using Value = mlir::Value;

  mlir::Type i64() { return attrs().getI64Type(); }
  mlir::Type i32() { return attrs().getI32Type(); }
  mlir::Type i1() { return attrs().getI1Type(); }
  mlir::RankedTensorType open(int64_t rank, mlir::Type element);
  Value one(int64_t v) { return ints({v}); }
  Value shapeOf(Value x);
  Value sizeOf(Value x, int64_t axis); ///< [1]
  Value flat(Value x);                 ///< [total]
  Value scalarOf(Value single);        ///< [] of one element
  Value vectorOf(Value single);        ///< [1] of one element
  Value slice(Value x, Value begin, Value end, int64_t axis = 0);
  Value concat(llvm::ArrayRef<Value> list, int64_t axis = 0);
  Value gather(Value x, Value at, int64_t axis = 0);
  Value reshapeTo(Value x, Value shape, int64_t rank);
  Value expandTo(Value x, Value shape, int64_t rank);
  Value compare(llvm::StringRef name, Value x, Value y);
  Value where(Value condition, Value x, Value y);
  Value range(Value count); ///< 0 .. count - 1 for a [1] or [] count
  Value exclusiveSums(Value v);
  /// int64 [1] zero; the run fails where `condition` (one element) is false.
  Value demand(Value condition);
  Value end() { return one(INT64_MAX); }
};

/// One function whose aggregates become tensors.
class Aggregates {
public:
  explicit Aggregates(mlir::func::FuncOp func) : func(func) {}
  /// Fails where something cannot be lowered; the function is then half done.
  llvm::LogicalResult run();
  /// What could not be lowered.
  mlir::Operation *culprit = nullptr;

  static bool isAggregate(mlir::Type t);
  /// Null types where `t` has no such form.
  std::optional<llvm::SmallVector<mlir::Type>> partTypes(mlir::Type t, std::optional<int64_t> rank);

  /// The tensors that stand for `v`.
  llvm::SmallVector<mlir::Value> parts(mlir::Value v);
  mlir::Value part(mlir::Value v, unsigned i = 0) { return parts(v)[i]; }
  void set(mlir::Value v, llvm::ArrayRef<mlir::Value> to) { map[v].assign(to.begin(), to.end()); }
  /// Largest rank of the tensors of a sequence, or of an optional's sequence.
  std::optional<int64_t> rankOf(mlir::Value sequence);

private:
  llvm::LogicalResult expandMaps();
  void solveRanks();
  llvm::LogicalResult block(mlir::Block &b);
  llvm::LogicalResult operation(mlir::Operation *op);
  llvm::LogicalResult branch(mlir::Operation *op);
  llvm::LogicalResult loop(mlir::Operation *op);
  llvm::LogicalResult arguments(mlir::Block &b, llvm::SmallVectorImpl<llvm::SmallVector<mlir::Type>> *types = nullptr);
  void flattenOperands(mlir::Operation *op);
  llvm::LogicalResult border();
  std::optional<llvm::SmallVector<mlir::Type>> typesOf(mlir::ValueRange values);
  void kinds(mlir::Type t, llvm::SmallVectorImpl<PartKind> &out);
  llvm::LogicalResult argumentAttributes(llvm::ArrayRef<mlir::Type> old);
  void resultAttributes(llvm::ArrayRef<mlir::Type> old);

  int find(mlir::Value v);
  void unify(mlir::Value a, mlir::Value b);
  void know(mlir::Value v, mlir::Type elementTensor);

  mlir::func::FuncOp func;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<mlir::Value>> map;
  llvm::SmallVector<mlir::Operation *> dead;
  llvm::SmallVector<mlir::BlockArgument> deadArguments;
  llvm::DenseMap<mlir::Value, int> ids;
  std::vector<int> parent;
  std::vector<int64_t> ranks;
};

/// Lowers one operator; must set the parts of its results.
using AggregateRule = llvm::LogicalResult (*)(Aggregates &, mlir::Operation *, ShapeBuilder &);
struct RegisterAggregateRule {
  RegisterAggregateRule(llvm::StringRef name, AggregateRule rule);
};
#define TESSERA_AGGREGATE_RULE(NAME, OP)                                                                               \
  static llvm::LogicalResult NAME##Rule(Aggregates &a, Operation *op, ShapeBuilder &b);                                \
  static const RegisterAggregateRule NAME##Entry(OP, NAME##Rule);                                                      \
  static llvm::LogicalResult NAME##Rule([[maybe_unused]] Aggregates &a, Operation *op, ShapeBuilder &b)

} // namespace tessera::onnx
#endif

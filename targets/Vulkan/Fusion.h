// What is fused around a kernel's root: evaluating the rest of a dispatch's
// body at one point, and storing its results.
#ifndef TESSERA_TARGETS_VULKAN_FUSION_H
#define TESSERA_TARGETS_VULKAN_FUSION_H

#include "targets/Vulkan/Requantise.h"

namespace tessera::vulkan {

/// A position of the iteration space, one index an axis of the space. With a
/// `laneAxis` it is four positions: there the index counts quads.
struct Point {
  llvm::SmallVector<Index> at;
  int laneAxis = -1;
};

class Fusion {
public:
  /// The space is the shape of the dispatch's (first) result.
  Fusion(tsr::DispatchOp op, Emitter &e);

  /// Sizes, in the order of the axes.
  llvm::ArrayRef<int64_t> dims() const { return space; }
  /// Puts the axes into the result's memory order and joins those that all
  /// tensors walk through alike. For kernels that do not care what axes mean.
  void mergeAxes();
  /// Joins the axes from `first` on into one, if all tensors walk through them
  /// alike.
  bool joinAxes(unsigned first);
  /// The axis along which the results are contiguous, if its size and all other
  /// strides allow four at a time; else -1.
  int laneAxis() const;
  /// Gives every tensor that is read or written along `laneAxis` its vector
  /// form.
  void useVectors(int laneAxis);

  /// Evaluates what follows the root, whose value at `p` is `root` (null
  /// without a root), and stores all results. Lanes past the end of the lane
  /// axis are left out.
  mlir::LogicalResult store(mlir::Value root, const Point &p);
  /// Where a requantisation by channels follows the root: that of all values of
  /// a tile ([rows][columns], a column at each of `columns`, whose other
  /// indices do not matter), which `store` then finds done.
  void requantiseTile(llvm::ArrayRef<mlir::Value> roots,
                      llvm::ArrayRef<Point> columns);
  /// Tensor `t`, broadcast to the space, at `p`.
  mlir::Value loadBroadcast(Buffer &t, const Point &p);
  /// The vector `t` along `axis` at `p`.
  mlir::Value loadAlong(Buffer &t, unsigned axis, const Point &p);
  /// Value `v` of the body at `p`.
  mlir::FailureOr<mlir::Value>
  valueAt(mlir::Value v, const Point &p,
          llvm::DenseMap<mlir::Value, mlir::Value> &known);

private:
  struct Access {
    Buffer *buffer;
    llvm::SmallVector<int64_t>
        strides; ///< an axis of the space; 0: not moved by it
  };
  using Key = std::pair<mlir::Operation *, unsigned>;
  /// `row` rows of `width` elements further on.
  mlir::Value loadAt(const Access &a, const Point &p, Index row = 0,
                     int64_t width = 0);
  void storeAt(const Access &a, const Point &p, mlir::Value v);
  void addAccess(mlir::Operation *user, unsigned position, mlir::Value operand);
  void addCorrections(mlir::Operation *op);
  mlir::FailureOr<mlir::Value> requantise(mlir::Operation *op,
                                          llvm::ArrayRef<mlir::Value> operands,
                                          const Point &p);
  llvm::SmallVector<mlir::Value>
  requantiseAll(mlir::Operation *op, llvm::ArrayRef<mlir::Value> sums,
                llvm::ArrayRef<mlir::Value> factors,
                llvm::ArrayRef<mlir::Value> biases,
                llvm::ArrayRef<Point> columns);
  bool variesAlong(const Access &a, int axis) const;
  Access broadcast(Buffer &t) const;
  static bool isAligned(const Access &a, int laneAxis, int64_t laneSize);
  void forAllAccesses(llvm::function_ref<void(Access &)> f);

  tsr::DispatchOp op;
  Emitter &e;
  llvm::SmallVector<int64_t> space;
  llvm::DenseMap<Key, Access> reads;
  llvm::SmallVector<Access> writes;
  /// Of the requantisations, with their lists' accesses.
  llvm::DenseMap<mlir::Operation *, std::pair<Corrections, Access>> corrections;
  llvm::DenseMap<mlir::Value, mlir::Value> requantised; ///< by root value
  bool valid = true;
};

/// The buffer of the root's operand, or null if it is absent or a constant of
/// the body.
Buffer *rootBuffer(tsr::DispatchOp op, Emitter &e, unsigned operand);
/// The buffer of the root's result, or null if nothing reads it.
Buffer *rootResult(tsr::DispatchOp op, Emitter &e, unsigned result);
/// The dispatch operand that the root reads there, or null.
mlir::Value rootOperand(tsr::DispatchOp op, unsigned operand);
/// Its constant, embedded in the body or outside; null if it is none.
mlir::ElementsAttr rootConstant(tsr::DispatchOp op, unsigned operand);

} // namespace tessera::vulkan
#endif

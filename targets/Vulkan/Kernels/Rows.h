// Kernels over rows: reductions, softmax, normalisation. A row is what one
// result (or one set of results) is computed from: some axes of a tensor, for
// one position of the others.
#ifndef TESSERA_TARGETS_VULKAN_KERNELS_ROWS_H
#define TESSERA_TARGETS_VULKAN_KERNELS_ROWS_H

#include "targets/Vulkan/KernelBuilder.h"

namespace tessera::vulkan {

struct RowAxis {
  int64_t size, stride; ///< of the tensor that is read
  unsigned axis;        ///< its number there
};

/// Who computes a row: a workgroup together, one invocation, or one invocation
/// four rows that lie side by side.
enum class RowMode { Group, Single, Quad };

class Rows {
public:
  /// `reduced` are the axes of `t` that make up a row.
  Rows(Emitter &e, Buffer &t, llvm::ArrayRef<int64_t> reduced);

  RowMode mode = RowMode::Single;
  int64_t length = 1, count = 1; ///< elements of a row, rows
  /// Rows in whole quads need other tensors that are indexed by rows to allow
  /// it.
  bool allowQuads = true;

  /// Sets mode and grid, and calls `body` for every row.
  void forRows(llvm::function_ref<void()> body);
  /// Of the current row: index of every axis of `t`, 0 along the row. In Quad
  /// mode `quadAxis` counts quads.
  llvm::SmallVector<Index> at;
  int quadAxis = -1;

  using Map = llvm::function_ref<mlir::Value(mlir::Value x, Index i)>;
  using Combine = llvm::function_ref<mlir::Value(mlir::Value, mlir::Value)>;
  /// Combines map(x) over the row; `init` is a scalar that combine leaves
  /// alone. With elements read as quads, `i` counts quads (see `step`).
  mlir::Value reduce(mlir::Value init, Map map, Combine combine);
  /// `body` for all elements of the row, which is spread over those who compute
  /// it.
  void each(llvm::function_ref<void(mlir::Value x, Index i)> body);
  /// Whether only one invocation of those at a row should store its result.
  mlir::Value isFirst();
  /// Elements that x of `each` and `reduce` stands for along the row: 4 or 1.
  int64_t step() const { return wideRow ? 4 : 1; }
  /// Offset of row element `i` (in units of `step`) within a tensor of these
  /// strides along the axes of `t`, in quads where `quads`.
  Index offsetOf(llvm::ArrayRef<int64_t> strides, Index i, bool quads);
  /// Whether tensors are accessed by quads: along the row, or across rows.
  bool quads() const { return wideRow || mode == RowMode::Quad; }
  /// Whether a tensor of these strides can be, in the mode chosen.
  bool fitsQuads(const Buffer &t, llvm::ArrayRef<int64_t> strides) const;
  /// A value of the row as what `each` and `reduce` give.
  mlir::Value spread(mlir::Value v) { return quads() ? e.quadSplat(v) : v; }

private:
  void choose();
  mlir::Value load(Index i);
  mlir::Value acrossGroup(mlir::Value v, Combine combine);

  Emitter &e;
  Buffer &t;
  llvm::SmallVector<RowAxis> row, kept;
  bool wideRow = false;
  int64_t threads = 1;
};

} // namespace tessera::vulkan
#endif

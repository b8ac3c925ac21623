// The register tile that products and convolutions share: some rows of a
// matrix, each with some quads of columns, in the accumulators of one
// invocation.
//
//   acc[i][j] += a[i][k] * b[k][j]        i < rows, j < quads, b in vectors of
//   four
//
// Rows that the grid has beyond the last are read from the rows before. Columns
// of packed constants are padded to the grid. Accumulators are f32.
#ifndef TESSERA_TARGETS_VULKAN_KERNELS_ROWTILE_H
#define TESSERA_TARGETS_VULKAN_KERNELS_ROWTILE_H

#include "targets/Vulkan/Kernels/Packing.h"

namespace tessera::vulkan {

struct RowTile {
  int64_t rows = 1, quads = 1;    ///< of one invocation
  int64_t localX = 8, localY = 8; ///< invocations along columns and rows
  int64_t columnQuads =
      1; ///< of the whole grid: what packed columns are padded to

  /// A tile for a product of `rows` x `columns`, of `most` quads if it has four
  /// rows or more.
  static RowTile choose(int64_t rows, int64_t columns, int64_t most = 2);
  /// Sets the grid; `depth` products along its third axis.
  void setGrid(Emitter &e, int64_t rows, int64_t depth) const;
  Index firstRow(Emitter &e) const { return e.mul(e.globalId(1), rows); }
  Index firstQuad(Emitter &e) const { return e.mul(e.globalId(0), quads); }
};

/// The rows of an invocation, `first` to `first + tile.rows`, which all exist:
/// the last of the grid begin earlier than the grid says, and some of their
/// rows are others' to store.
struct TileRows {
  Index start; ///< by the grid
  Index first;
  int64_t count = 0;  ///< of all rows
  bool even = false;  ///< tiles do not overlap
  bool exact = false; ///< nor does the grid have more of them

  TileRows(Emitter &e, const RowTile &tile, int64_t count);
  Index at(Emitter &e, int64_t i) const { return e.add(first, i); }
};

/// Calls `store` for what of the tile exists and is this invocation's to store.
/// `quad` is its first quad, of `columns` columns. The tile as a whole is
/// stored if `inside`, a row if `rowInside` (null values: always).
mlir::LogicalResult
storeTile(Emitter &e, const RowTile &tile, mlir::Value inside,
          llvm::function_ref<mlir::Value(int64_t i)> rowInside, Index quad,
          int64_t columns,
          llvm::function_ref<mlir::LogicalResult(int64_t i, int64_t j)> store);
mlir::LogicalResult
storeTile(Emitter &e, const RowTile &tile, const TileRows &rows, Index quad,
          int64_t columns,
          llvm::function_ref<mlir::LogicalResult(int64_t i, int64_t j)> store);

/// Steps are counted in groups of `step`: values a[i][group * step + 0 .. step)
/// in f32, each four times.
using LoadRow =
    llvm::function_ref<llvm::SmallVector<mlir::Value>(int64_t i, Index group)>;
/// Quad b[group * step + s][first + j] in f32.
using LoadColumns =
    llvm::function_ref<mlir::Value(Index group, int64_t s, int64_t j)>;

/// Adds the products of `groups` * `step` steps to `acc` ([rows][quads]).
llvm::SmallVector<mlir::Value> accumulate(Emitter &e, const RowTile &tile,
                                          int64_t groups, int64_t step,
                                          mlir::ValueRange acc, LoadRow loadRow,
                                          LoadColumns loadColumns);

/// The lanes of a quad, each four times.
llvm::SmallVector<mlir::Value> splatLanes(Emitter &e, mlir::Value quad);

/// rows * quads accumulators of zero.
llvm::SmallVector<mlir::Value> zeroAccumulators(Emitter &e,
                                                const RowTile &tile);

} // namespace tessera::vulkan
#endif

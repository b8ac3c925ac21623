// The register tile that products and convolutions share: some rows of a
// matrix, each with some quads of columns, in the accumulators of one
// invocation.
//
//   acc[i][j] += a[i][k] * b[k][j]        i < rows, j < quads, b in vectors of
//   four
//
// Rows are clamped when they are read and left out when they are stored.
// Columns of packed constants are padded to the grid. Accumulators are f32.
#ifndef TESSERA_TARGETS_VULKAN_KERNELS_ROWTILE_H
#define TESSERA_TARGETS_VULKAN_KERNELS_ROWTILE_H

#include "targets/Vulkan/KernelBuilder.h"

namespace tessera::vulkan {

struct RowTile {
  int64_t rows = 1, quads = 1;    ///< of one invocation
  int64_t localX = 8, localY = 8; ///< invocations along columns and rows
  int64_t columnQuads =
      1; ///< of the whole grid: what packed columns are padded to

  /// A tile for a product of `rows` x `columns`.
  static RowTile choose(int64_t rows, int64_t columns);
  /// Sets the grid; `depth` products along its third axis.
  void setGrid(Emitter &e, int64_t rows, int64_t depth) const;
  Index firstRow(Emitter &e) const { return e.mul(e.globalId(1), rows); }
  Index firstQuad(Emitter &e) const { return e.mul(e.globalId(0), quads); }
};

/// Steps are counted in groups of `step`: values a[i][group * step + 0 .. step)
/// in f32.
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

/// rows * quads accumulators of zero.
llvm::SmallVector<mlir::Value> zeroAccumulators(Emitter &e,
                                                const RowTile &tile);

/// `element` (f32 or f16) bytes of get(k, column) as [depth][columnQuads * 4];
/// zero past `columns`.
std::vector<uint8_t>
packColumns(mlir::Type element, int64_t depth, int64_t columns,
            int64_t columnQuads,
            llvm::function_ref<double(int64_t, int64_t)> get);

} // namespace tessera::vulkan
#endif

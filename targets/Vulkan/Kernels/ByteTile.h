// The register tile of integer products: accumulators of 32 bits and words of
// four bytes along the sum. Sums go through loops as quads of columns, which
// are fewer values to carry; a dot product takes one column.
#ifndef TESSERA_TARGETS_VULKAN_KERNELS_BYTETILE_H
#define TESSERA_TARGETS_VULKAN_KERNELS_BYTETILE_H

#include "targets/Vulkan/Kernels/Bytes.h"
#include "targets/Vulkan/Kernels/RowTile.h"

namespace tessera::vulkan {

class ByteTile {
public:
  ByteTile(Emitter &e, ByteProduct &product, const RowTile &tile)
      : e(e), product(product), tile(tile) {}

  /// Accumulators to begin with, [rows][quads], and the rows' own sums if those
  /// are needed; the invocation's quads begin at `quad` of
  /// [groups][columns / 4].
  llvm::SmallVector<mlir::Value> begin(Index quad);
  /// Words [group * step, + step) of row i.
  using LoadWords = llvm::function_ref<llvm::SmallVector<mlir::Value>(
      int64_t i, Index group)>;
  /// Adds `groups` * `step` words; the packed words begin at quad `first`.
  llvm::SmallVector<mlir::Value> accumulate(int64_t groups, int64_t step,
                                            Index first, mlir::ValueRange sums,
                                            LoadWords load);
  /// All results, [rows][quads]. `fusion` requantises them where it can: the
  /// lane axis of the results is `axis`, the first quad along it `channel`, and
  /// `last` the last that there is, or -1 if the grid has no more.
  llvm::SmallVector<mlir::Value> finish(llvm::ArrayRef<mlir::Value> sums,
                                        Index quad, Fusion &fusion,
                                        unsigned axis, Index channel,
                                        Index last);

private:
  int64_t count() const { return tile.rows * tile.quads; }
  Emitter &e;
  ByteProduct &product;
  const RowTile &tile;
};

} // namespace tessera::vulkan
#endif

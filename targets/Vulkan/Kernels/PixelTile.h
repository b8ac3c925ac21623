// Output pixels as the rows of a register tile: where they read, tap by tap.
//
//   Linear  one tap, pixel for pixel: rows of a matrix
//   Strip   neighbours along the last axis: they share all but one coordinate,
//           taps that are outside along the other axes are not gone through,
//           and only the pixels at the ends of a strip can have some outside
//           along the last
//   Flat    any pixels, each with coordinates of its own
#ifndef TESSERA_TARGETS_VULKAN_KERNELS_PIXELTILE_H
#define TESSERA_TARGETS_VULKAN_KERNELS_PIXELTILE_H

#include "targets/Vulkan/Kernels/RowTile.h"
#include "targets/Vulkan/Kernels/Windows.h"

namespace tessera::vulkan {

class PixelTile {
public:
  /// For `columns` channels of an image; may join the spatial axes of `fusion`.
  /// `skips`: taps outside of the image may be left out. `quads`: of channels,
  /// a pixel.
  PixelTile(Emitter &e, Fusion &fusion, const Windows &s, const Buffer &x,
            int64_t columns, bool skips, int64_t quads = 2);

  const RowTile &tile() const { return t; }
  /// Sets the grid, with `depth` images, and finds the pixels. Offsets of `x`
  /// are in entries of `unit` elements from then on; the image is at `base`.
  void begin(int64_t depth, int64_t unit, llvm::function_ref<Index()> base);

  /// `tap` is its number, `from[i]` where row i reads its first channel,
  /// `inside[i]` (null: always) whether that is inside the image; where it is
  /// not, `from[i]` is some place that exists.
  using Body = llvm::function_ref<llvm::SmallVector<mlir::Value>(
      Index tap, llvm::ArrayRef<Index> from, llvm::ArrayRef<mlir::Value> inside,
      mlir::ValueRange carried)>;
  llvm::SmallVector<mlir::Value> forTaps(mlir::ValueRange init, Body body);

  /// `at`: of the pixel, as many indices as `fusion` has spatial axes.
  mlir::LogicalResult
  store(int64_t columns,
        llvm::function_ref<mlir::LogicalResult(int64_t i, int64_t j, Index quad,
                                               llvm::ArrayRef<Index> at)>
            store);
  Index quad() const { return firstQuad; }
  /// Whether taps along the first axis are left out, and after `begin` which
  /// are not.
  bool skipsFirst() const {
    return form == Form::Strip && skips && s.padded[0] && last() > 0;
  }
  std::pair<Index, Index> firstTaps() { return *s.reach(e, starts[0][0], 0); }

private:
  enum class Form { Linear, Strip, Flat };
  bool isLinear(const Fusion &fusion) const;
  bool makesStrips() const;
  void findStrip();
  bool leaves(int64_t i) const;
  mlir::Value insideOf(int64_t i, llvm::ArrayRef<Index> tap);
  llvm::SmallVector<mlir::Value> atTap(llvm::ArrayRef<Index> tap,
                                       mlir::ValueRange carried, Body body);
  unsigned last() const { return s.w.axes() - 1; }
  int64_t strips() const { return s.strips(last(), t.rows); }

  Emitter &e;
  const Windows &s;
  llvm::SmallVector<int64_t> strides; ///< of `x`, spatial
  RowTile t;
  Form form = Form::Flat;
  bool skips;
  int64_t pixels = 1, unit = 1;
  Index firstQuad = 0;
  std::optional<TileRows> rows;
  mlir::Value stripInside; ///< whether there is this strip
  Index stripStart = 0;    ///< first pixel of it by the grid
  llvm::SmallVector<llvm::SmallVector<Index>> at, starts; ///< of each row
  llvm::SmallVector<Index> bases;
};

} // namespace tessera::vulkan
#endif

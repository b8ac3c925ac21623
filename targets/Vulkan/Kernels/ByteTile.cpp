#include "targets/Vulkan/Kernels/ByteTile.h"

using namespace mlir;

namespace tessera::vulkan {

SmallVector<Value> ByteTile::begin(Index quad) {
  SmallVector<Value> sums(tile.rows * width());
  for (int64_t j = 0; j < tile.quads; ++j) {
    Value first = product.initial(e.add(quad, j));
    for (unsigned l = 0; l < 4; ++l) {
      Value lane = first ? e.lane(first, l) : e.intConst(e.i32(), 0);
      for (int64_t i = 0; i < tile.rows; ++i)
        sums[i * width() + j * 4 + l] = lane;
    }
  }
  if (product.needsRowSums())
    sums.append(tile.rows, e.intConst(e.i32(), 0));
  return sums;
}

SmallVector<Value> ByteTile::accumulate(int64_t groups, int64_t step,
                                        Index first, ValueRange init,
                                        LoadWords load) {
  return e.loop(0, groups, 1, init, [&](Index group, ValueRange carried) {
    SmallVector<Value> sums(carried.begin(), carried.end());
    SmallVector<SmallVector<Value>> left;
    for (int64_t i = 0; i < tile.rows; ++i)
      left.push_back(load(i, group));
    Index row = e.add(first, e.mul(group, step * tile.columnQuads));
    for (int64_t s = 0; s < step; ++s)
      for (int64_t j = 0; j < tile.quads; ++j) {
        Value columns =
            e.loadQuad(product.words(), e.add(row, s * tile.columnQuads + j));
        for (unsigned l = 0; l < 4; ++l) {
          Value column = e.lane(columns, l);
          for (int64_t i = 0; i < tile.rows; ++i) {
            Value &sum = sums[i * width() + j * 4 + l];
            sum = product.dot(left[i][s], column, sum);
          }
        }
      }
    if (product.needsRowSums())
      for (int64_t i = 0; i < tile.rows; ++i)
        for (int64_t s = 0; s < step; ++s) {
          Value &sum = sums[tile.rows * width() + i];
          sum = product.rowSum(left[i][s], sum);
        }
    return sums;
  });
}

SmallVector<Value> ByteTile::finish(ArrayRef<Value> sums, Index quad,
                                    Fusion &fusion, unsigned axis,
                                    Index channel, Index last) {
  SmallVector<Value> results;
  for (int64_t i = 0; i < tile.rows; ++i)
    for (int64_t j = 0; j < tile.quads; ++j)
      results.push_back(product.finish(
          e.quad(sums.slice(i * width() + j * 4, 4)), e.add(quad, j),
          product.needsRowSums() ? sums[tile.rows * width() + i] : Value{}));
  SmallVector<Point> columns;
  for (int64_t j = 0; j < tile.quads; ++j) {
    Point p{SmallVector<Index>(fusion.dims().size(), Index(0)),
            static_cast<int>(axis)};
    p.at[axis] = e.add(channel, j);
    if (!last.is(-1))
      p.at[axis] = e.min(p.at[axis], last);
    columns.push_back(std::move(p));
  }
  fusion.requantiseTile(results, columns);
  return results;
}

} // namespace tessera::vulkan

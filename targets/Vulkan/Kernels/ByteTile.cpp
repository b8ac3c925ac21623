#include "targets/Vulkan/Kernels/ByteTile.h"

using namespace mlir;

namespace tessera::vulkan {

SmallVector<Value> ByteTile::begin(Index quad) {
  SmallVector<Value> sums(count(), e.intConst(e.quadOf(e.i32()), 0));
  for (int64_t j = 0; j < tile.quads; ++j)
    if (Value first = product.initial(e.add(quad, j)))
      for (int64_t i = 0; i < tile.rows; ++i)
        sums[i * tile.quads + j] = first;
  if (product.needsRowSums())
    sums.append(tile.rows, e.intConst(e.i32(), 0));
  return sums;
}

SmallVector<Value> ByteTile::accumulate(int64_t groups, int64_t step,
                                        Index first, ValueRange init,
                                        LoadWords load) {
  return e.loop(0, groups, 1, init, [&](Index group, ValueRange carried) {
    SmallVector<SmallVector<Value>> left;
    for (int64_t i = 0; i < tile.rows; ++i)
      left.push_back(load(i, group));
    SmallVector<Value> columns; // sums of [rows][quads * 4]
    for (Value sum : carried.take_front(count()))
      for (unsigned l = 0; l < 4; ++l)
        columns.push_back(e.lane(sum, l));
    Index row = e.add(first, e.mul(group, step * tile.columnQuads));
    for (int64_t s = 0; s < step; ++s)
      for (int64_t j = 0; j < tile.quads; ++j) {
        Value four =
            e.loadQuad(product.words(), e.add(row, s * tile.columnQuads + j));
        for (unsigned l = 0; l < 4; ++l) {
          Value right = e.lane(four, l);
          for (int64_t i = 0; i < tile.rows; ++i) {
            Value &sum = columns[(i * tile.quads + j) * 4 + l];
            sum = product.dot(left[i][s], right, sum);
          }
        }
      }
    SmallVector<Value> sums;
    for (int64_t k = 0; k < count(); ++k)
      sums.push_back(e.quad(ArrayRef(columns).slice(k * 4, 4)));
    for (auto [i, rowSum] : llvm::enumerate(carried.drop_front(count()))) {
      sums.push_back(rowSum);
      for (int64_t s = 0; s < step; ++s)
        sums.back() = product.rowSum(left[i][s], sums.back());
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
      results.push_back(
          product.finish(sums[i * tile.quads + j], e.add(quad, j),
                         product.needsRowSums() ? sums[count() + i] : Value{}));
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

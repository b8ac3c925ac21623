#include "targets/Vulkan/Kernels/RowTile.h"

using namespace mlir;

namespace tessera::vulkan {

static int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// 4 x 2 quads: 3 loads for 32 multiply-adds of four, about 80 registers.
RowTile RowTile::choose(int64_t rows, int64_t columns, int64_t most) {
  RowTile t;
  int64_t quads = ceilDiv(columns, 4);
  t.quads = quads >= 2 ? most : 1;
  t.rows = rows >= 4 ? (t.quads == most ? 4 : 8) : rows;
  if (rows < 4)
    t.quads = 1; // too few rows for a tile: more invocations
  t.rows = std::min(t.rows, rows);
  int64_t across = ceilDiv(quads, t.quads), down = ceilDiv(rows, t.rows);
  t.localX = 1;
  while (t.localX < 16 && t.localX < across)
    t.localX *= 2;
  if (down > 1)
    t.localX = std::min<int64_t>(t.localX, 8);
  t.localY = std::max<int64_t>(1, 64 / t.localX);
  while (t.localY > 1 && t.localY / 2 >= down)
    t.localY /= 2;
  while (t.localX * t.localY < 64 && t.localX < across)
    t.localX *= 2;
  t.columnQuads = ceilDiv(across, t.localX) * t.localX * t.quads;
  return t;
}

void RowTile::setGrid(Emitter &e, int64_t count, int64_t depth) const {
  e.kernel.local = {static_cast<uint32_t>(localX),
                    static_cast<uint32_t>(localY), 1};
  e.kernel.groups = {
      static_cast<uint32_t>(columnQuads / (localX * quads)),
      static_cast<uint32_t>(ceilDiv(ceilDiv(count, rows), localY)),
      static_cast<uint32_t>(depth)};
}

TileRows::TileRows(Emitter &e, const RowTile &tile, int64_t count)
    : start(tile.firstRow(e)), first(start), count(count),
      even(count % tile.rows == 0),
      exact(e.kernel.groups[1] * tile.localY * tile.rows == count) {
  if (!exact)
    first = e.min(start, count - tile.rows);
}

LogicalResult
storeTile(Emitter &e, const RowTile &tile, Value inside,
          llvm::function_ref<Value(int64_t)> rowInside, Index quad,
          int64_t columns,
          llvm::function_ref<LogicalResult(int64_t, int64_t)> store) {
  int64_t quads = ceilDiv(columns, 4);
  bool whole = tile.columnQuads == quads, together = quads % tile.quads == 0;
  if (!whole && together)
    inside = e.both(inside, e.lt(quad, quads));
  LogicalResult result = success();
  auto storeRow = [&](int64_t i) {
    for (int64_t j = 0; j < tile.quads; ++j)
      e.when(whole || together ? Value{} : e.lt(e.add(quad, j), quads), [&] {
        if (failed(store(i, j)))
          result = failure();
      });
  };
  e.when(inside, [&] {
    for (int64_t i = 0; i < tile.rows; ++i)
      e.when(rowInside(i), [&] { storeRow(i); });
  });
  return result;
}

LogicalResult
storeTile(Emitter &e, const RowTile &tile, const TileRows &rows, Index quad,
          int64_t columns,
          llvm::function_ref<LogicalResult(int64_t, int64_t)> store) {
  auto rowInside = [&](int64_t i) {
    return rows.even ? Value{} : e.ge(rows.at(e, i), rows.start);
  };
  return storeTile(e, tile, rows.exact ? Value{} : e.lt(rows.start, rows.count),
                   rowInside, quad, columns, store);
}

SmallVector<Value> splatLanes(Emitter &e, Value quad) {
  SmallVector<Value> all;
  for (int i = 0; i < 4; ++i)
    all.push_back(e.splatLane(quad, i));
  return all;
}

SmallVector<Value> zeroAccumulators(Emitter &e, const RowTile &tile) {
  Value zero = e.floatConst(e.quadOf(e.f32()), 0);
  return SmallVector<Value>(tile.rows * tile.quads, zero);
}

SmallVector<Value> accumulate(Emitter &e, const RowTile &tile, int64_t groups,
                              int64_t step, ValueRange acc, LoadRow loadRow,
                              LoadColumns loadColumns) {
  return e.loop(0, groups, 1, acc, [&](Index group, ValueRange carried) {
    SmallVector<Value> sums(carried.begin(), carried.end());
    SmallVector<SmallVector<Value>> a;
    for (int64_t i = 0; i < tile.rows; ++i)
      a.push_back(loadRow(i, group));
    for (int64_t s = 0; s < step; ++s) {
      SmallVector<Value> b;
      for (int64_t j = 0; j < tile.quads; ++j)
        b.push_back(loadColumns(group, s, j));
      for (int64_t i = 0; i < tile.rows; ++i) {
        Value left = a[i][s];
        for (int64_t j = 0; j < tile.quads; ++j) {
          Value &sum = sums[i * tile.quads + j];
          sum = e.fma(left, b[j], sum);
        }
      }
    }
    return sums;
  });
}

} // namespace tessera::vulkan

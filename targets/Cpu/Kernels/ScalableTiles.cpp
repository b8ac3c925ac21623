// Tiles of scalable vectors: one code for every vector length.
//
// How many vectors cover the columns is only known when the kernel runs. Known
// column counts leave few possibilities for the last, narrower tile (one a
// width): each has its own code, chosen at run time.
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "targets/Cpu/Kernels/RegisterTile.h"

using namespace mlir;

namespace tessera::cpu {

/// Instructions of a step of a scalable tile: per four steps a load a row, four
/// loads a column vector and about five of the loop itself.
static double scalableTileCost(unsigned rows, unsigned vectors) {
  return rows * vectors + 0.25 * rows + vectors + 1.25;
}

static std::pair<unsigned, double> bestScalableRows(const Isa &isa, std::optional<int64_t> rows, unsigned vectors) {
  int64_t count = rows.value_or(240);
  std::pair<unsigned, double> best{1, 1e300};
  for (unsigned r = maxTileRows(isa, vectors); r >= 1; --r) {
    double cost = static_cast<double>((count + r - 1) / r) * scalableTileCost(r, vectors);
    if (cost < best.second)
      best = {r, cost};
  }
  return best;
}

/// Vectors left over by tiles of `full` vectors at each width that a vector may have.
static SmallVector<unsigned> leftVectors(int64_t columns, unsigned full) {
  SmallVector<unsigned> left;
  for (int64_t width = 4; width <= kPanel; width *= 2)
    left.push_back((columns % (full * width) + width - 1) / width);
  return left;
}

/// Vectors of a full scalable tile: the best sum over the widths.
static unsigned bestScalableVectors(const Isa &isa, std::optional<int64_t> rows, std::optional<int64_t> columns) {
  unsigned best = 3;
  double bestCost = 1e300;
  for (unsigned v = 1; columns && v <= 4; ++v) {
    double cost = 0, each = bestScalableRows(isa, rows, v).second;
    SmallVector<unsigned> left = leftVectors(*columns, v);
    for (int64_t width = 4, i = 0; width <= kPanel; width *= 2, ++i) {
      double sum = static_cast<double>(*columns / (v * width)) * each;
      sum += left[i] ? bestScalableRows(isa, rows, left[i]).second : 0;
      cost += sum * static_cast<double>(width);
    }
    if (cost < bestCost * 0.999)
      best = v, bestCost = cost;
  }
  return best;
}

Value scalableWidth(KernelEmitter &e) {
  Value vscale = LLVM::vscale::create(e.b, e.loc, e.i64());
  auto atLeast = [&](int64_t n) { return e.cmp(arith::CmpIPredicate::sge, vscale, e.idx(n)); };
  return e.select(atLeast(4), e.idx(16), e.select(atLeast(2), e.idx(8), e.idx(4)));
}

namespace {
/// Tiles of scalable vectors over all rows and columns of a space.
class ScalableTiles {
public:
  ScalableTiles(KernelEmitter &e, const TileSpace &space, std::optional<int64_t> rows,
                llvm::function_ref<void(const Tile &)> body)
      : e(e), space(space), rows(rows), columns(KernelEmitter::constantOf(space.columns)), body(body),
        full(bestScalableVectors(e.isa, rows, columns)), unitRows(bestScalableRows(e.isa, rows, full).first) {}

  void run() {
    width = scalableWidth(e);
    unit = e.mul(width, full);
    allLanes = e.laneMask(e.idx(0), width, space.lanes);
    whole = e.divU(space.columns, unit);
    blockCount = e.ceilDivU(space.columns, unit);
    blockBegin = e.idx(0), blockEnd = blockCount;
    Value rowBegin = e.idx(0), rowEnd = space.rows;
    if (space.split == Split::Rows) {
      auto [b, t] = workgroupShare(e, e.ceilDivU(space.rows, e.idx(unitRows)));
      rowBegin = e.mul(b, unitRows), rowEnd = e.minS(e.mul(t, unitRows), space.rows);
    } else if (space.split == Split::Columns) {
      std::tie(blockBegin, blockEnd) = workgroupShare(e, blockCount);
    }
    if (!space.rowChunk || (rows && *rows <= space.rowChunk))
      return ofChunk(rowBegin, rowEnd, 0);
    int64_t chunk = (space.rowChunk + unitRows - 1) / unitRows * unitRows;
    e.forLoop(rowBegin, rowEnd, e.idx(chunk), [&](Value begin) {
      ofChunk(begin, e.minS(e.add(begin, chunk), rowEnd), chunk);
    });
  }

private:
  /// All columns of this workgroup for rows [begin, end).
  void ofChunk(Value begin, Value end, int64_t chunk) {
    blocks(full, e.mul(blockBegin, unit), e.mul(e.minS(blockEnd, whole), unit), false, begin, end, chunk);
    auto rest = [&] { left(begin, end, chunk); };
    if (space.split == Split::Columns)
      e.ifThen(e.eq(blockEnd, blockCount), rest);
    else
      rest();
  }

  void left(Value begin, Value end, int64_t chunk) {
    Value first = e.mul(whole, unit);
    if (!columns)
      return blocks(1, first, space.columns, true, begin, end, chunk);
    SmallVector<unsigned> counts = leftVectors(*columns, full);
    llvm::sort(counts);
    counts.erase(llvm::unique(counts), counts.end());
    Value count = e.ceilDivU(e.sub(space.columns, first), width);
    for (unsigned n : counts)
      if (n)
        e.ifThen(e.eq(count, e.idx(n)), [&] { blocks(n, first, space.columns, true, begin, end, chunk); });
  }

  void blocks(unsigned vectors, Value columnBegin, Value columnEnd, bool masked, Value rowBegin, Value rowEnd,
              int64_t chunk) {
    unsigned r = bestScalableRows(e.isa, rows, vectors).first;
    bool exact = rows && *rows % r == 0 && (!chunk || chunk % r == 0) &&
                 (space.split != Split::Rows || unitRows % r == 0);
    e.forLoop(columnBegin, columnEnd, e.mul(width, vectors), [&](Value column) {
      Tile tile{r, vectors, {}, exact ? Value{} : rowEnd, column, space.lanes, {}, width};
      tile.mask.assign(vectors, allLanes);
      if (masked) {
        Value last = tile.columnOf(e, vectors - 1);
        tile.mask.back() = e.laneMask(last, e.minS(space.columns, e.add(last, width)), space.lanes);
      }
      e.forLoop(rowBegin, rowEnd, e.idx(r), [&](Value row) {
        tile.row = row;
        body(tile);
      });
    });
  }

  KernelEmitter &e;
  const TileSpace &space;
  std::optional<int64_t> rows, columns;
  llvm::function_ref<void(const Tile &)> body;
  unsigned full, unitRows;
  Value width, unit, allLanes, whole, blockCount, blockBegin, blockEnd;
};
} // namespace

void forScalableTiles(KernelEmitter &e, const TileSpace &space, std::optional<int64_t> rows,
                      llvm::function_ref<void(const Tile &)> body) {
  ScalableTiles(e, space, rows, body).run();
}

} // namespace tessera::cpu

// Tiles of scalable vectors: one code for every vector length.
//
// How many vectors cover the columns is only known when the kernel runs. Known
// column counts leave few possibilities for the last, narrower tile (one a
// width): each has its own code, chosen at run time.
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "targets/Cpu/Kernels/RegisterTile.h"

using namespace mlir;

namespace tessera::cpu {

// --- the reduction -----------------------------------------------------------------

/// Registers z0 to z7 alone can be multiplied by a lane. Accumulators that live
/// in them force rows out to the stack at every use, and so do rows that are
/// loaded before the last are done with; LLVM's scheduler and register
/// allocation foresee neither. This says that the accumulators live above, and
/// that no later load comes before their values are there. It is no instruction.
static SmallVector<Value> settle(KernelEmitter &e, ValueRange acc) {
  std::string outputs, inputs;
  for (unsigned n = 0; n < acc.size(); ++n) {
    outputs += "={z" + std::to_string(8 + n) + "},";
    inputs += std::to_string(n) + ",";
  }
  Type type = acc[0].getType();
  if (acc.size() > 1)
    type = LLVM::LLVMStructType::getLiteral(e.b.getContext(), SmallVector<Type>(acc.getTypes()));
  Value all = LLVM::InlineAsmOp::create(e.b, e.loc, type, acc, "", outputs + inputs + "~{memory}",
                                        /*has_side_effects=*/true, /*is_align_stack=*/false,
                                        LLVM::TailCallKind::None, LLVM::AsmDialectAttr{}, ArrayAttr{})
                  .getResult(0);
  if (acc.size() == 1)
    return {all};
  SmallVector<Value> settled;
  for (int64_t n = 0, count = acc.size(); n < count; ++n)
    settled.push_back(LLVM::ExtractValueOp::create(e.b, e.loc, all, n));
  return settled;
}

/// Most rows of a tile of `vectors` vectors: rows in z0 to z7, the accumulators
/// and a column's vectors above.
static unsigned mostRows(unsigned vectors) {
  static constexpr unsigned most[] = {8, 8, 6, 5};
  return most[vectors - 1];
}

/// Four elements from `ptr` on in every 128 bits.
static Value loadFour(KernelEmitter &e, Value ptr, Lanes lanes) {
  Value all = e.intConst(KernelEmitter::withLanes(e.i1(), lanes), 1);
  return LLVM::CallIntrinsicOp::create(e.b, e.loc, KernelEmitter::withLanes(e.f32(), lanes),
                                       e.b.getStringAttr("llvm.aarch64.sve.ld1rq"), ValueRange{all, ptr})
      .getResult(0);
}

/// Four steps with one load a row, multiplied by its lanes.
static SmallVector<Value> fourSteps(KernelEmitter &e, ValueRange acc, const TileRows &rows, const TileColumns &columns,
                                    Value k) {
  unsigned vectors = columns.ptr.size();
  SmallVector<Value> a, next(acc);
  for (Value ptr : rows.ptr)
    a.push_back(loadFour(e, e.gep(ptr, rows.element, k), columns.lanes));
  for (unsigned u = 0; u < 4; ++u) {
    Value lane = e.intConst(e.i32(), u);
    SmallVector<Value> b;
    for (unsigned j = 0; j < vectors; ++j) {
      TensorRef t{columns.ptr[j], columns.element, {}, {}};
      b.push_back(e.loadLanes(t, e.mul(e.add(k, u), columns.step), columns.lanes, columns.mask[j]));
    }
    for (unsigned i = 0; i < rows.ptr.size(); ++i)
      for (unsigned j = 0; j < vectors; ++j) {
        Value &sum = next[i * vectors + j];
        sum = LLVM::CallIntrinsicOp::create(e.b, e.loc, sum.getType(), e.b.getStringAttr("llvm.aarch64.sve.fmla.lane"),
                                            ValueRange{sum, b[j], a[i], lane})
                  .getResult(0);
      }
  }
  return next;
}

SmallVector<Value> accumulateScalable(KernelEmitter &e, ValueRange acc, const TileRows &rows,
                                      const TileColumns &columns, Value count) {
  auto known = KernelEmitter::constantOf(count);
  Value eights = e.mul(e.divU(count, e.idx(8)), 8), fours = e.mul(e.divU(count, e.idx(4)), 4);
  SmallVector<Value> next = settle(e, acc);
  next.insert(next.begin(), e.idx(0));
  // Counted to equality: LLVM then needs no counter beside the addresses.
  if (!known || *known >= 8)
    next = e.whileLoop(
        next, [&](ValueRange c) { return e.cmp(arith::CmpIPredicate::ne, c[0], eights); },
        [&](ValueRange c) {
          SmallVector<Value> s = fourSteps(e, c.drop_front(), rows, columns, c[0]);
          s = settle(e, s);
          s = settle(e, fourSteps(e, s, rows, columns, e.add(c[0], 4)));
          s.insert(s.begin(), e.add(c[0], 8));
          return s;
        });
  next.erase(next.begin());
  SmallVector<Type> types(next.size(), next[0].getType());
  next = e.ifElse(
      e.lt(eights, fours), types, [&] { return fourSteps(e, next, rows, columns, eights); }, [&] { return next; });
  return e.forLoop(fours, count, e.idx(1), next,
                   [&](Value k, ValueRange c) { return accumulateStep(e, c, rows, columns, k); });
}

// --- going through the space -----------------------------------------------------------

/// Instructions of a step of a scalable tile: per four steps a load a row, four
/// loads a column vector and about five of the loop itself.
static double scalableTileCost(unsigned rows, unsigned vectors) {
  return rows * vectors + 0.25 * rows + vectors + 1.25;
}

static std::pair<unsigned, double> bestScalableRows(std::optional<int64_t> rows, unsigned vectors) {
  int64_t count = rows.value_or(240);
  std::pair<unsigned, double> best{1, 1e300};
  for (unsigned r = mostRows(vectors); r >= 1; --r) {
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
static unsigned bestScalableVectors(std::optional<int64_t> rows, std::optional<int64_t> columns) {
  unsigned best = 2;
  double bestCost = 1e300;
  for (unsigned v = 1; columns && v <= 4; ++v) {
    double cost = 0, each = bestScalableRows(rows, v).second;
    SmallVector<unsigned> left = leftVectors(*columns, v);
    for (int64_t width = 4, i = 0; width <= kPanel; width *= 2, ++i) {
      double sum = static_cast<double>(*columns / (v * width)) * each;
      sum += left[i] ? bestScalableRows(rows, left[i]).second : 0;
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
        full(bestScalableVectors(rows, columns)), unitRows(bestScalableRows(rows, full).first) {}

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
    unsigned r = bestScalableRows(rows, vectors).first;
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

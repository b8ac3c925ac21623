#include "targets/Cpu/Kernels/RegisterTile.h"
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <cstring>

using namespace mlir;

namespace tessera::cpu {

Lanes tileLanes(const Isa &isa, Type accumulator) {
  return {isa.vectorBits / accumulator.getIntOrFloatBitWidth(), false};
}

Lanes columnLanes(const Isa &isa, Type accumulator) {
  Lanes lanes = tileLanes(isa, accumulator);
  lanes.scalable = isa.scalable && accumulator.isF32();
  return lanes;
}

Value zeroOf(KernelEmitter &e, Type type) {
  return isa<FloatType>(KernelEmitter::scalarType(type)) ? e.floatConst(type, 0) : e.intConst(type, 0);
}

Type accumulatorOf(Type element) { return KernelEmitter::valueType(element); }

Value multiplyAdd(KernelEmitter &e, Value a, Value c, Value acc) {
  if (isa<FloatType>(KernelEmitter::scalarType(acc.getType())))
    return e.fma(a, c, acc);
  return arith::AddIOp::create(e.b, e.loc, arith::MulIOp::create(e.b, e.loc, a, c), acc);
}

// --- the reduction ---------------------------------------------------------------

SmallVector<Value> accumulateStep(KernelEmitter &e, ValueRange acc, const TileRows &rows, const TileColumns &columns,
                                  Value k) {
  unsigned vectors = columns.ptr.size();
  Value rowOffset = e.mul(k, rows.step), columnOffset = e.mul(k, columns.step);
  SmallVector<Value> b;
  for (unsigned j = 0; j < vectors; ++j) {
    TensorRef t{columns.ptr[j], columns.element, {}, {}};
    Value v = e.loadLanes(t, columnOffset, columns.lanes, columns.mask.empty() ? Value{} : columns.mask[j]);
    b.push_back(columns.convert ? columns.convert(v, j) : v);
  }
  SmallVector<Value> next(acc);
  for (unsigned i = 0; i < rows.ptr.size(); ++i) {
    TensorRef t{rows.ptr[i], rows.element, {}, {}};
    Value a = e.loadElement(t, rowOffset);
    if (rows.convert)
      a = rows.convert(a, i);
    Value splat = e.splat(a, columns.lanes);
    for (unsigned j = 0; j < vectors; ++j)
      next[i * vectors + j] = (columns.multiply ? columns.multiply : multiplyAdd)(e, splat, b[j], next[i * vectors + j]);
  }
  return next;
}

/// Four steps with one vector load a row: AArch64 multiplies by a lane.
static SmallVector<Value> fourSteps(KernelEmitter &e, ValueRange acc, const TileRows &rows,
                                    const TileColumns &columns, Value k) {
  unsigned vectors = columns.ptr.size();
  SmallVector<Value> a, next(acc);
  for (Value ptr : rows.ptr)
    a.push_back(e.rawLoad(VectorType::get({4}, e.f32()), e.gep(ptr, rows.element, k)));
  for (unsigned u = 0; u < 4; ++u) {
    SmallVector<Value> b;
    for (unsigned j = 0; j < vectors; ++j) {
      TensorRef t{columns.ptr[j], columns.element, {}, {}};
      b.push_back(e.loadLanes(t, e.mul(e.add(k, u), columns.step), columns.lanes,
                              columns.mask.empty() ? Value{} : columns.mask[j]));
    }
    for (unsigned i = 0; i < rows.ptr.size(); ++i) {
      Value lane = vector::ExtractOp::create(e.b, e.loc, a[i], int64_t(u));
      Value splat = e.splat(lane, columns.lanes);
      for (unsigned j = 0; j < vectors; ++j)
        next[i * vectors + j] = multiplyAdd(e, splat, b[j], next[i * vectors + j]);
    }
  }
  return next;
}

SmallVector<Value> accumulate(KernelEmitter &e, ValueRange acc, const TileRows &rows, const TileColumns &columns,
                              Value count) {
  auto n = KernelEmitter::constantOf(count);
  if (n && *n <= 4) {
    SmallVector<Value> next(acc);
    for (int64_t k = 0; k < *n; ++k)
      next = accumulateStep(e, next, rows, columns, e.idx(k));
    return next;
  }
  Value done = e.idx(0);
  SmallVector<Value> next(acc);
  bool byLane = e.isa.arch == Arch::AArch64 && rows.element.isF32() && columns.element.isF32() && !rows.convert &&
                !columns.convert && KernelEmitter::constantOf(rows.step) == 1 && !columns.lanes.isScalar();
  if (byLane && columns.lanes.scalable)
    return accumulateScalable(e, acc, rows, columns, count);
  if (byLane) {
    done = e.mul(e.divU(count, e.idx(4)), 4);
    next = e.forLoop(e.idx(0), done, e.idx(4), next,
                     [&](Value k, ValueRange c) { return fourSteps(e, c, rows, columns, k); });
  }
  return e.forLoop(done, count, e.idx(1), next,
                   [&](Value k, ValueRange c) { return accumulateStep(e, c, rows, columns, k); });
}

// --- going through the space -----------------------------------------------------

namespace {
/// Shape of the tiles of a run of columns.
struct Shape {
  unsigned rows, vectors;
};
} // namespace

/// What bounds a tile: the machine, and whether a product has a register of its
/// own before it is added.
struct Limits {
  const Isa &isa;
  bool separateProduct;
};

static unsigned maxRows(const Limits &limits, unsigned vectors) {
  const Isa &isa = limits.isa;
  // accumulators + one load a column vector + one splat (+ one product) must fit
  // the registers.
  // AArch64 keeps four steps of every row in a register and multiplies by a lane.
  int spare = static_cast<int>(isa.vectorRegisters) - static_cast<int>(vectors) - (limits.separateProduct ? 2 : 1);
  int perRow = static_cast<int>(vectors) + (isa.arch == Arch::AArch64 ? 1 : 0);
  return std::clamp(spare / perRow, 1, 8);
}

/// Cycles of one step of a tile on a core with two multiply-adds and two loads
/// a cycle and a latency of four, plus a share of what is outside the loop.
static double tileCost(unsigned rows, unsigned vectors) {
  double work = 0.5 * rows * vectors, loads = 0.5 * (rows + vectors);
  return std::max({work, loads, 4.0}) + 0.3;
}

static std::pair<unsigned, double> bestRows(const Limits &limits, std::optional<int64_t> rows, unsigned vectors) {
  unsigned limit = maxRows(limits, vectors);
  int64_t count = rows.value_or(240);
  std::pair<unsigned, double> best{1, 1e300};
  for (unsigned r = limit; r >= 1; --r) {
    double cost = static_cast<double>((count + r - 1) / r) * tileCost(r, vectors);
    if (cost < best.second)
      best = {r, cost};
  }
  return best;
}

/// Vectors a full tile has, for `total` column vectors (0: unknown, many).
static unsigned bestVectors(const Limits &limits, std::optional<int64_t> rows, int64_t total) {
  int64_t count = total ? total : 240;
  unsigned best = 1;
  double bestCost = 1e300;
  for (unsigned v = 1; v <= 8 && v <= count && v + 2 < limits.isa.vectorRegisters; ++v) {
    double cost = static_cast<double>(count / v) * bestRows(limits, rows, v).second;
    if (count % v)
      cost += bestRows(limits, rows, count % v).second;
    if (cost < bestCost * 0.999)
      best = v, bestCost = cost;
  }
  return best;
}

std::pair<Value, Value> workgroupShare(KernelEmitter &e, Value count) {
  if (!e.workgroups || KernelEmitter::constantOf(e.workgroups) == 1)
    return {e.idx(0), count};
  Value begin = e.divU(e.mul(e.workgroup, count), e.workgroups);
  Value end = e.divU(e.mul(e.add(e.workgroup, 1), count), e.workgroups);
  return {begin, end};
}

static void forTilesOfRows(KernelEmitter &e, const TileSpace &space, std::optional<int64_t> rows,
                           llvm::function_ref<void(const Tile &)> body) {
  unsigned lanes = space.lanes.n;
  auto columns = KernelEmitter::constantOf(space.columns);
  int64_t total = columns ? (*columns + lanes - 1) / lanes : 0;
  if (columns && !total)
    return;
  Limits limits{e.isa, space.separateProduct || !e.isa.hasFma};
  unsigned full = bestVectors(limits, rows, total);
  unsigned unitRows = bestRows(limits, rows, full).first;

  // What this workgroup does: a range of rows, or of full-width column blocks.
  Value rowBegin = e.idx(0), rowEnd = space.rows;
  Value blockCount = e.ceilDivU(space.columns, e.idx(full * lanes));
  Value blockBegin = e.idx(0), blockEnd = blockCount;
  if (space.split == Split::Rows) {
    auto [b, t] = workgroupShare(e, e.ceilDivU(space.rows, e.idx(unitRows)));
    rowBegin = e.mul(b, unitRows), rowEnd = e.minS(e.mul(t, unitRows), space.rows);
  } else if (space.split == Split::Columns) {
    std::tie(blockBegin, blockEnd) = workgroupShare(e, blockCount);
  }

  auto run = [&](unsigned vectors, Value columnBegin, Value columnEnd, bool masked, Value chunkBegin, Value chunkEnd,
                 int64_t chunk) {
    unsigned r = bestRows(limits, rows, vectors).first;
    bool exact = rows && *rows % r == 0 && (!chunk || chunk % r == 0) &&
                 (space.split != Split::Rows || unitRows % r == 0);
    e.forLoop(columnBegin, columnEnd, e.idx(vectors * lanes), [&](Value column) {
      SmallVector<Value> mask(vectors);
      if (masked) {
        bool known = columns && *columns % lanes == 0;
        if (!known)
          mask.back() = space.lanes.isScalar() ? Value{}
                                               : e.laneMask(e.add(column, (vectors - 1) * lanes), space.columns, space.lanes);
      }
      e.forLoop(chunkBegin, chunkEnd, e.idx(r), [&](Value row) {
        body({r, vectors, row, exact ? Value{} : chunkEnd, column, space.lanes, mask, {}});
      });
    });
  };
  auto columnsOfChunk = [&](Value chunkBegin, Value chunkEnd, int64_t chunk) {
    // Blocks whose every lane is a column, then what is left.
    Value whole = e.divU(space.columns, e.idx(full * lanes));
    run(full, e.mul(blockBegin, full * lanes), e.mul(e.minS(blockEnd, whole), full * lanes), false, chunkBegin,
        chunkEnd, chunk);
    auto rest = [&] {
      Value begin = e.mul(whole, full * lanes);
      if (columns) {
        int64_t left = *columns % (full * lanes);
        run((left + lanes - 1) / lanes, begin, space.columns, true, chunkBegin, chunkEnd, chunk);
      } else {
        run(1, begin, space.columns, true, chunkBegin, chunkEnd, chunk);
      }
    };
    if (columns && *columns % (full * lanes) == 0)
      return;
    if (space.split == Split::Columns)
      e.ifThen(e.eq(blockEnd, blockCount), rest);
    else
      rest();
  };
  auto extent = KernelEmitter::constantOf(space.rows);
  if (!space.rowChunk || (extent && *extent <= space.rowChunk))
    return columnsOfChunk(rowBegin, rowEnd, 0);
  int64_t chunk = (space.rowChunk + unitRows - 1) / unitRows * unitRows;
  e.forLoop(rowBegin, rowEnd, e.idx(chunk), [&](Value begin) {
    columnsOfChunk(begin, e.minS(e.add(begin, chunk), rowEnd), chunk);
  });
}

/// `rows` is the count where it is known.
static void forTilesOfKind(KernelEmitter &e, const TileSpace &space, std::optional<int64_t> rows,
                           llvm::function_ref<void(const Tile &)> body) {
  if (space.lanes.scalable)
    forScalableTiles(e, space, rows, body);
  else
    forTilesOfRows(e, space, rows, body);
}

void forTiles(KernelEmitter &e, const TileSpace &space, llvm::function_ref<void(const Tile &)> body) {
  auto rows = KernelEmitter::constantOf(space.rows);
  if (rows || !space.singleRowVariant)
    return forTilesOfKind(e, space, rows, body);
  e.ifElse(
      e.eq(space.rows, e.idx(1)), TypeRange{},
      [&] {
        TileSpace one = space;
        one.rows = e.idx(1);
        forTilesOfKind(e, one, 1, body);
        return SmallVector<Value>{};
      },
      [&] {
        forTilesOfKind(e, space, std::nullopt, body);
        return SmallVector<Value>{};
      });
}

// --- storing -----------------------------------------------------------------------

bool isHeavyEpilogue(tsr::DispatchOp op) {
  static const std::set<StringRef> light = {
      "onnx.Add", "onnx.Sub", "onnx.Mul",      "onnx.Relu",      "onnx.Clip",  "onnx.Max",      "onnx.Min",
      "onnx.Neg", "onnx.Abs", "onnx.Identity", "onnx.LeakyRelu", "onnx.PRelu", "onnx.Constant", "onnx.Weight",
      "onnx.HardSwish", "onnx.HardSigmoid"};
  unsigned cost = 0;
  for (Operation *o = op.getRootOp()->getNextNode(); o && !o->hasTrait<OpTrait::IsTerminator>(); o = o->getNextNode())
    cost += light.count(o->getName().getStringRef()) ? 1 : 10;
  return cost > 4;
}

LogicalResult storeTile(KernelEmitter &e, tsr::DispatchOp op, Fusion &fusion, const Tile &tile, ValueRange acc,
                        llvm::function_ref<Point(Value row, Value column)> pointOf,
                        llvm::function_ref<FailureOr<Value>(Value acc, const Point &p)> finish) {
  unsigned vectors = tile.vectors, lanes = tile.lanes.scalable ? kPanel : tile.lanes.n;
  bool failed = false;
  auto put = [&](Value v, Value row, unsigned j) {
    Point p = pointOf(row, tile.columnOf(e, j));
    p.lanes = tile.lanes;
    p.mask = tile.mask[j];
    FailureOr<Value> result = finish(v, p);
    failed |= mlir::failed(result) || mlir::failed(fusion.storeFused(*result, p));
  };
  if (!isHeavyEpilogue(op) || tile.rows == 1) {
    for (unsigned i = 0; i < tile.rows; ++i) {
      Value row = e.add(tile.row, i);
      auto all = [&] {
        for (unsigned j = 0; j < vectors; ++j)
          put(acc[i * vectors + j], row, j);
      };
      if (tile.rowLimit && i)
        e.ifThen(e.lt(row, tile.rowLimit), all);
      else
        all();
    }
    return failure(failed);
  }
  // The accumulators go through memory, so that the epilogue is emitted once.
  Type type = acc[0].getType(), scalar = KernelEmitter::scalarType(type);
  unsigned bytes = scalar.getIntOrFloatBitWidth() / 8;
  Value buffer = e.allocaBytes(static_cast<uint64_t>(tile.rows) * vectors * lanes * bytes);
  for (unsigned n = 0; n < acc.size(); ++n) {
    Value to = e.gep(buffer, scalar, e.idx(n * lanes));
    if (tile.lanes.scalable)
      e.maskedStore(acc[n], to, tile.mask[n % vectors]);
    else
      e.rawStore(acc[n], to);
  }
  Value count = e.idx(tile.rows);
  if (tile.rowLimit)
    count = e.minS(count, e.sub(tile.rowLimit, tile.row));
  e.forLoop(count, [&](Value i) {
    for (unsigned j = 0; j < vectors; ++j) {
      Value at = e.add(e.mul(i, vectors * lanes), j * lanes);
      Value from = e.gep(buffer, scalar, at);
      Value v = tile.lanes.scalable ? e.maskedLoad(type, from, tile.mask[j], zeroOf(e, type)) : e.rawLoad(type, from);
      put(v, e.add(tile.row, i), j);
    }
  });
  return failure(failed);
}

// --- panels --------------------------------------------------------------------------

TileColumns panelColumns(KernelEmitter &e, const Tile &tile, Value base, Type element, Value steps) {
  TileColumns columns{{}, element, e.idx(kPanel), tile.lanes, {}, {}, nullptr};
  if (tile.lanes.scalable)
    columns.mask = tile.mask; // else whole loads: panels are padded
  for (unsigned j = 0; j < tile.vectors; ++j) {
    // Column c is in panel c / kPanel; a vector never straddles two panels.
    Value c = tile.columnOf(e, j);
    Value panel = e.divU(c, e.idx(kPanel)), within = e.remU(c, e.idx(kPanel));
    columns.ptr.push_back(e.gep(base, element, e.add(e.mul(e.mul(panel, steps), kPanel), within)));
  }
  return columns;
}

Type panelElement(Type element) {
  if (auto f = dyn_cast<FloatType>(element); f && f.getWidth() < 32)
    return Float32Type::get(element.getContext());
  return element;
}

Packed packPanels(ElementsAttr value, int64_t groups, int64_t steps, int64_t columns,
                  llvm::function_ref<int64_t(int64_t, int64_t, int64_t)> source) {
  Type element = value.getElementType();
  SmallVector<char> storage, widened;
  ArrayRef<char> bytes = onnx::getRawBytes(value, storage).value_or(ArrayRef<char>{});
  if (panelElement(element) != element) {
    auto floats = onnx::getFloats(value, INT64_MAX);
    widened.resize(floats->size() * 4);
    for (auto [i, f] : llvm::enumerate(*floats)) {
      float narrow = static_cast<float>(f);
      std::memcpy(widened.data() + 4 * i, &narrow, 4);
    }
    bytes = widened;
  }
  int64_t size = KernelEmitter::storageBits(panelElement(element)) / 8;
  int64_t panels = (columns + kPanel - 1) / kPanel;
  Packed packed;
  packed.bytes.assign(std::max<int64_t>(groups * panels * steps * kPanel * size, 1), 0);
  if (bytes.empty())
    return packed;
  for (int64_t g = 0; g < groups; ++g)
    for (int64_t p = 0; p < panels; ++p)
      for (int64_t k = 0; k < steps; ++k) {
        uint8_t *to = packed.bytes.data() + ((g * panels + p) * steps + k) * kPanel * size;
        for (int64_t c = p * kPanel, end = std::min(columns, c + kPanel); c < end; ++c, to += size)
          std::memcpy(to, bytes.data() + source(g, k, c) * size, size);
      }
  return packed;
}

void emitPackPanels(KernelEmitter &e, const TensorRef &source, Value base, Value steps, Value columns,
                    llvm::function_ref<Value(Value step, Value column)> offset) {
  Type element = panelElement(source.element);
  TensorRef to{base, element, {}, {}};
  e.forLoop(e.ceilDivU(columns, e.idx(kPanel)), [&](Value panel) {
    Value first = e.mul(panel, kPanel);
    e.forLoop(e.idx(kPanel), [&](Value c) {
      Value column = e.add(first, c);
      Value target = e.add(e.mul(e.mul(panel, steps), kPanel), c);
      auto fill = [&](bool real) {
        e.forLoop(steps, [&](Value k) {
          Value v = real ? e.loadElement(source, offset(k, column)) : zeroOf(e, KernelEmitter::valueType(element));
          e.storeElement(to, e.add(target, e.mul(k, kPanel)), v);
        });
        return SmallVector<Value>{};
      };
      e.ifElse(e.lt(column, columns), TypeRange{}, [&] { return fill(true); }, [&] { return fill(false); });
    });
  });
}

// --- looking at the dispatch ------------------------------------------------------------

/// Whether operand `position` of a (de)quantiser follows an axis outside [first, last].
static bool quantiserAxisOutside(Operation *op, unsigned position, unsigned first, unsigned last) {
  StringRef name = op->getName().getStringRef();
  if (position == 0 || (name != "onnx.QuantizeLinear" && name != "onnx.DequantizeLinear"))
    return false;
  auto type = dyn_cast<RankedTensorType>(op->getOperand(0).getType());
  if (!type || onnx::getInt(op, "block_size") != 0)
    return false;
  int64_t axis = onnx::getInt(op, "axis", 1);
  axis += axis < 0 ? type.getRank() : 0;
  return axis < first || axis > last;
}

bool axesFlatten(tsr::DispatchOp op, unsigned rank, unsigned first, unsigned last) {
  if (first >= last)
    return true;
  unsigned inputs = op.getInputs().size();
  ArrayRef<int64_t> whole = op.getDimsOf(inputs);
  if (whole.size() != rank)
    return false;
  auto fits = [&](unsigned tensor) {
    ArrayRef<int64_t> dims = op.getDimsOf(tensor);
    if (dims.size() > rank)
      return false;
    unsigned shift = rank - dims.size();
    bool full = true, broadcast = true;
    for (unsigned axis = first; axis <= last; ++axis) {
      if (whole[axis] == 1)
        continue;
      int64_t d = axis < shift ? 1 : dims[axis - shift];
      full &= d == whole[axis];
      broadcast &= d == 1;
    }
    if (broadcast)
      return true;
    // Contiguous among themselves: spatial axes are in both layouts, others in
    // row-major only.
    return full && (op.getLayoutOf(tensor) == tsr::Layout::RowMajor || (first >= 2 && shift == 0));
  };
  for (unsigned r = 0; r < op.getOutputs().size(); ++r)
    if (op.getDimsOf(inputs + r).size() != rank || !fits(inputs + r))
      return false;
  for (Operation *o = op.getRootOp()->getNextNode(); o && !o->hasTrait<OpTrait::IsTerminator>(); o = o->getNextNode())
    for (auto [i, operand] : llvm::enumerate(o->getOperands()))
      if (auto arg = dyn_cast<BlockArgument>(operand);
          arg && !quantiserAxisOutside(o, onnx::getOperandPosition(o, i), first, last) && !fits(arg.getArgNumber()))
        return false;
  return true;
}

unsigned flatAxis(tsr::DispatchOp op, unsigned first, unsigned last) {
  ArrayRef<int64_t> whole = op.getDimsOf(op.getInputs().size());
  for (unsigned axis = last; axis > first; --axis)
    if (whole[axis] != 1)
      return axis;
  return first;
}

int dispatchOperand(tsr::DispatchOp op, unsigned position) {
  auto arg = dyn_cast_or_null<BlockArgument>(onnx::getOptionalOperand(op.getRootOp(), position));
  return arg ? static_cast<int>(arg.getArgNumber()) : -1;
}

ElementsAttr dispatchConstant(tsr::DispatchOp op, unsigned operand) {
  return onnx::getConstant(op.getInputs()[operand]);
}

} // namespace tessera::cpu

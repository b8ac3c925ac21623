#include "targets/Cpu/Kernels/OuterProduct.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "targets/Cpu/Kernels/Sme.h"

using namespace mlir;

namespace tessera::cpu {

bool isStreaming(const Isa &isa) { return isa.hasSme2 && isa.scalable; }

bool epilogueStreams(tsr::DispatchOp op, unsigned laneAxis, ArrayRef<unsigned> rootOperands) {
  unsigned inputs = op.getInputs().size();
  ArrayRef<int64_t> whole = op.getDimsOf(inputs);
  Operation *root = op.getRootOp();
  auto fits = [&](unsigned tensor, Type type) {
    ArrayRef<int64_t> dims = op.getDimsOf(tensor);
    if (!cast<RankedTensorType>(type).getElementType().isF32() || dims.size() > whole.size())
      return false;
    unsigned shift = whole.size() - dims.size();
    if (laneAxis < shift || dims[laneAxis - shift] == 1)
      return true;
    bool channelsLast = op.getLayoutOf(tensor) == tsr::Layout::ChannelsLast;
    unsigned contiguous = channelsLast ? 1 : dims.size() - 1;
    return dims[laneAxis - shift] == whole[laneAxis] && laneAxis - shift == contiguous;
  };
  for (auto [r, type] : llvm::enumerate(op.getOutputs().getTypes()))
    if (op.getDimsOf(inputs + r).size() != whole.size() || !fits(inputs + r, type))
      return false;
  for (unsigned position : rootOperands)
    if (int operand = dispatchOperand(op, position); operand >= 0 && !fits(operand, op.getInputs()[operand].getType()))
      return false;
  for (Operation *o = root->getNextNode(); o && !o->hasTrait<OpTrait::IsTerminator>(); o = o->getNextNode()) {
    for (Value v : o->getOperands())
      if (auto arg = dyn_cast<BlockArgument>(v); arg && !fits(arg.getArgNumber(), arg.getType()))
        return false;
    for (Type t : o->getResultTypes())
      if (auto tensor = dyn_cast<RankedTensorType>(t);
          tensor && !tensor.getElementType().isF32() && !tensor.getElementType().isInteger(1))
        return false;
  }
  return true;
}

onnx::Sym packedRowsBytes(onnx::SymContext &c, onnx::Sym steps) {
  onnx::Sym groups = c.ceilDiv(steps, c.constant(4));
  return c.mul(c.max(groups, c.constant(1)), c.constant(4 * kOuterRows * 4));
}

/// Rows of a block.
static Value rowsOfBlock(KernelEmitter &e, Value vl) { return e.minS(e.mul(vl, 2), e.idx(kOuterRows)); }

// --- packing rows ------------------------------------------------------------------

RowPacker::RowPacker(KernelEmitter &e, Value packed)
    : e(e), packed(packed), vl(e.laneCount(sme::lanes)), blockRows(rowsOfBlock(e, vl)) {}

void RowPacker::forRowTiles(Value rows, llvm::function_ref<void(Value, Value, Value)> body) {
  e.forLoop(e.ceilDivU(rows, vl), [&](Value tile) {
    Value first = e.mul(tile, vl);
    body(tile, first, e.minS(vl, e.sub(rows, first)));
  });
}

/// Where the vector of `step` (a multiple of four) of row tile `tile` is.
Value RowPacker::address(Value tile, Value step) {
  return e.gep(packed, e.f32(), e.add(e.mul(step, blockRows), e.mul(tile, e.mul(vl, 4))));
}

void RowPacker::packRuns(Value rows, Value first, Value count, llvm::function_ref<Value(Value)> rowPointer) {
  forRowTiles(rows, [&](Value tile, Value firstRow, Value rowCount) {
    // Rows go into ZA as they lie, four tiles of vl steps side by side, and
    // come out of it by columns.
    e.forLoop(e.idx(0), count, e.mul(vl, 4), [&](Value done) {
      SmallVector<Value> begin, mask;
      for (unsigned j = 0; j < 4; ++j) {
        begin.push_back(e.add(done, e.mul(vl, j)));
        mask.push_back(e.laneMask(begin[j], count, sme::lanes));
      }
      e.forLoop(rowCount, [&](Value row) {
        Value from = rowPointer(e.add(firstRow, row));
        for (unsigned j = 0; j < 4; ++j)
          sme::loadRow(e, mask[j], e.gep(from, e.f32(), begin[j]), j, row);
      });
      for (unsigned j = 0; j < 4; ++j) {
        Value steps = e.minS(vl, e.sub(count, begin[j]));
        e.forLoop(e.idx(0), steps, e.idx(4), [&](Value step) {
          sme::storeFour(e, sme::readColumns(e, j, step), address(tile, e.add(first, e.add(begin[j], step))));
        });
      }
    });
  });
}

void RowPacker::packColumns(Value rows, Value count, Value base, Value stepStride) {
  forRowTiles(rows, [&](Value tile, Value firstRow, Value rowCount) {
    Value mask = e.laneMask(e.idx(0), rowCount, sme::lanes);
    Type type = sme::vectorType(e);
    e.forLoop(e.idx(0), count, e.idx(4), [&](Value step) {
      SmallVector<Value> four;
      for (unsigned i = 0; i < 4; ++i) { // past the last step: it again, never used
        Value k = e.minS(e.add(step, i), e.sub(count, 1));
        Value from = e.gep(base, e.f32(), e.add(firstRow, e.mul(k, stepStride)));
        four.push_back(e.maskedLoad(type, from, mask, e.floatConst(type, 0)));
      }
      sme::storeFour(e, four, address(tile, step));
    });
  });
}

void RowPacker::packElements(Value rows, Value count, llvm::function_ref<Value(Value, Value)> load) {
  forRowTiles(rows, [&](Value tile, Value firstRow, Value rowCount) {
    e.forLoop(count, [&](Value step) {
      Value within = e.remU(step, e.idx(4));
      Value to = e.gep(address(tile, e.sub(step, within)), e.f32(), e.mul(within, vl));
      e.forLoop(rowCount, [&](Value row) {
        e.rawStore(load(e.add(firstRow, row), step), e.gep(to, e.f32(), row));
      });
    });
  });
}

// --- the nest ------------------------------------------------------------------------

namespace {

class OuterNest {
public:
  OuterNest(KernelEmitter &e, tsr::DispatchOp op, Fusion &fusion, const OuterSpace &space,
            llvm::function_ref<void(Value, Value)> pack, llvm::function_ref<Point(Value, Value)> pointOf,
            llvm::function_ref<FailureOr<Value>(Value, const Point &)> finish)
      : e(e), op(op), fusion(fusion), space(space), pack(pack), pointOf(pointOf), finish(finish) {}

  LogicalResult run() {
    vl = e.laneCount(sme::lanes);
    width = scalableWidth(e);
    blockRows = rowsOfBlock(e, vl);
    groups = e.divU(space.steps, e.idx(4));
    stride = space.stride ? space.stride : e.idx(kPanel);
    Value rowBegin = e.idx(0), rowEnd = space.rows, columnBegin = e.idx(0), columnEnd = space.columns;
    Value blockColumns = e.mul(width, 2);
    auto share = [&](Value extent, Value unit, Value &begin, Value &end) {
      auto [b, t] = workgroupShare(e, e.ceilDivU(extent, unit));
      begin = e.mul(b, unit), end = e.minS(e.mul(t, unit), extent);
    };
    if (space.split == Split::Rows)
      share(space.rows, blockRows, rowBegin, rowEnd);
    else if (space.split == Split::Columns)
      share(space.columns, blockColumns, columnBegin, columnEnd);
    e.forLoop(rowBegin, rowEnd, blockRows, [&](Value first) {
      row = first;
      rows = e.minS(blockRows, e.sub(rowEnd, row));
      pack(row, rows);
      e.forLoop(columnBegin, columnEnd, blockColumns, [&](Value c) {
        column[0] = c, column[1] = e.add(c, width);
        block();
      });
    });
    return failure(failed);
  }

private:
  void block() {
    for (unsigned j = 0; j < 2; ++j) {
      mask[j] = e.laneMask(column[j], e.minS(space.columns, e.add(column[j], width)), sme::lanes);
      if (space.stride) {
        b[j] = e.gep(space.base, e.f32(), column[j]);
        continue;
      }
      Value panel = e.divU(column[j], e.idx(kPanel)), within = e.remU(column[j], e.idx(kPanel));
      b[j] = e.gep(space.base, e.f32(), e.add(e.mul(e.mul(panel, space.steps), kPanel), within));
    }
    sme::zero(e);
    twoRows = e.lt(vl, rows);
    twoColumns = e.lt(column[1], space.columns);
    choose(twoRows, [&] { choose(twoColumns, [&] { whole(); }, [&] { reduce(2, 1); }); },
           [&] { choose(twoColumns, [&] { reduce(1, 2); }, [&] { reduce(1, 1); }); });
    store();
  }

  void choose(Value cond, llvm::function_ref<void()> yes, llvm::function_ref<void()> no) {
    e.ifElse(
        cond, TypeRange{}, [&] { return yes(), SmallVector<Value>{}; }, [&] { return no(), SmallVector<Value>{}; });
  }

  /// 2 x 2 tiles: four-vector loads where panels fit the vector length.
  void whole() {
    if (space.stride)
      return reduce(2, 2);
    choose(e.eq(vl, e.idx(kPanel)), [&] { wholePanels(false); }, [&] {
      choose(e.eq(vl, e.idx(kPanel / 2)), [&] { wholePanels(true); }, [&] { reduce(2, 2); });
    });
  }

  /// Two vectors are one panel (`half`: a vector is half a panel) or two.
  void wholePanels(bool half) {
    int64_t lanes = half ? kPanel / 2 : kPanel;
    // Opaque addresses keep second loads as offsets of the first, and a count to
    // equality needs no compare: four instructions beside loads and products.
    Value secondRows = sme::opaque(e, e.idx(4 * lanes));
    Value secondColumns = half ? secondRows : sme::opaque(e, e.mul(space.steps, kPanel));
    auto more = [&](ValueRange g) { return e.cmp(arith::CmpIPredicate::ne, g[0], groups); };
    e.whileLoop({e.idx(0), space.packed, b[0]}, more, [&](ValueRange at) {
      Value a = at[1], panel = at[2];
      SmallVector<Value> a0 = sme::loadFour(e, a), a1 = sme::loadFour(e, e.gep(a, e.f32(), secondRows));
      SmallVector<Value> x = sme::loadFour(e, panel), y = sme::loadFour(e, e.gep(panel, e.f32(), secondColumns));
      for (unsigned k = 0; k < 4; ++k) {
        Value b0 = half ? (k < 2 ? x : y)[2 * (k % 2)] : x[k], b1 = half ? (k < 2 ? x : y)[2 * (k % 2) + 1] : y[k];
        sme::outerProduct(e, 0, a0[k], b0);
        sme::outerProduct(e, 1, a0[k], b1);
        sme::outerProduct(e, 2, a1[k], b0);
        sme::outerProduct(e, 3, a1[k], b1);
      }
      return SmallVector<Value>{e.add(at[0], 1), sme::opaque(e, e.gep(a, e.f32(), e.idx(8 * lanes))),
                                sme::opaque(e, e.gep(panel, e.f32(), e.idx(half ? 8 * lanes : 4 * lanes)))};
    });
    tail(2, 2);
  }

  Value rowVectors(unsigned rowTile, Value group) {
    return e.gep(space.packed, e.f32(), e.add(e.mul(group, e.mul(blockRows, 4)), e.mul(vl, 4 * rowTile)));
  }

  void step(ArrayRef<Value> a, unsigned columnTiles, Value k) {
    for (unsigned j = 0; j < columnTiles; ++j) {
      Type type = sme::vectorType(e);
      Value v = e.maskedLoad(type, e.gep(b[j], e.f32(), e.mul(k, stride)), mask[j], e.floatConst(type, 0));
      for (unsigned i = 0; i < a.size(); ++i)
        sme::outerProduct(e, 2 * i + j, a[i], v);
    }
  }

  void reduce(unsigned rowTiles, unsigned columnTiles) {
    e.forLoop(groups, [&](Value g) {
      SmallVector<SmallVector<Value>> a;
      for (unsigned i = 0; i < rowTiles; ++i)
        a.push_back(sme::loadFour(e, rowVectors(i, g)));
      for (unsigned k = 0; k < 4; ++k) {
        SmallVector<Value> now;
        for (unsigned i = 0; i < rowTiles; ++i)
          now.push_back(a[i][k]);
        step(now, columnTiles, e.add(e.mul(g, 4), k));
      }
    });
    tail(rowTiles, columnTiles);
  }

  /// Steps past the last group of four.
  void tail(unsigned rowTiles, unsigned columnTiles) {
    Value done = e.mul(groups, 4);
    e.forLoop(done, space.steps, e.idx(1), [&](Value k) {
      SmallVector<Value> a;
      for (unsigned i = 0; i < rowTiles; ++i) {
        Value from = e.gep(rowVectors(i, groups), e.f32(), e.mul(e.sub(k, done), vl));
        a.push_back(e.rawLoad(sme::vectorType(e), from));
      }
      step(a, columnTiles, k);
    });
  }

  void put(Value v, Value at, Value firstColumn, Value active) {
    Point p = pointOf(at, firstColumn);
    p.lanes = sme::lanes;
    p.mask = active;
    FailureOr<Value> result = finish(v, p);
    failed |= mlir::failed(result) || mlir::failed(fusion.storeFused(*result, p));
  }

  void store() {
    if (isHeavyEpilogue(op))
      return storeByTile();
    storeRows(0, e.minS(vl, rows));
    e.ifThen(twoRows, [&] { storeRows(1, e.sub(rows, vl)); });
  }

  void storeRows(unsigned rowTile, Value count) {
    Value first = e.add(row, e.mul(vl, rowTile));
    Value fours = e.mul(e.divU(count, e.idx(4)), 4);
    e.forLoop(e.idx(0), fours, e.idx(4), [&](Value r) {
      SmallVector<SmallVector<Value>> v;
      for (unsigned j = 0; j < 2; ++j)
        v.push_back(sme::readRows(e, 2 * rowTile + j, r));
      for (unsigned i = 0; i < 4; ++i)
        for (unsigned j = 0; j < 2; ++j)
          put(v[j][i], e.add(first, e.add(r, i)), column[j], mask[j]);
    });
    e.forLoop(fours, count, e.idx(1), [&](Value r) {
      for (unsigned j = 0; j < 2; ++j)
        put(sme::readRow(e, 2 * rowTile + j, r), e.add(first, r), column[j], mask[j]);
    });
  }

  /// The epilogue emitted once for the four tiles.
  void storeByTile() {
    e.forLoop(e.idx(4), [&](Value tile) {
      Value right = e.remU(tile, e.idx(2)), first = e.mul(e.divU(tile, e.idx(2)), vl);
      Value c = e.add(column[0], e.mul(right, width));
      Value active = e.laneMask(c, e.minS(space.columns, e.add(c, width)), sme::lanes);
      Value count = e.select(e.lt(c, space.columns), e.minS(vl, e.sub(rows, first)), e.idx(0));
      e.forLoop(e.idx(0), count, e.idx(1), [&](Value r) {
        // All four are read: a branch a tile would differ in the tile's number
        // alone, and MLIR makes a variable of what has to be an immediate.
        auto read = [&](unsigned low) {
          return e.select(e.eq(right, e.idx(0)), sme::readRow(e, low, r), sme::readRow(e, low + 1, r));
        };
        Value v = e.select(e.eq(first, e.idx(0)), read(0), read(2));
        put(v, e.add(row, e.add(first, r)), c, active);
      });
    });
  }

  KernelEmitter &e;
  tsr::DispatchOp op;
  Fusion &fusion;
  const OuterSpace &space;
  llvm::function_ref<void(Value, Value)> pack;
  llvm::function_ref<Point(Value, Value)> pointOf;
  llvm::function_ref<FailureOr<Value>(Value, const Point &)> finish;
  Value vl, width, blockRows, groups, stride;
  Value row, rows, twoRows, twoColumns; ///< of the block
  Value column[2], b[2], mask[2];       ///< per column tile
  bool failed = false;
};

} // namespace

LogicalResult outerProducts(KernelEmitter &e, tsr::DispatchOp op, Fusion &fusion, const OuterSpace &space,
                            llvm::function_ref<void(Value, Value)> pack, llvm::function_ref<Point(Value, Value)> pointOf,
                            llvm::function_ref<FailureOr<Value>(Value, const Point &)> finish) {
  return OuterNest(e, op, fusion, space, pack, pointOf, finish).run();
}

} // namespace tessera::cpu

// Matrix products by SME outer products, for kernels that run in streaming mode.
//
// With `vl` f32 lanes the accumulators are a block of 2 x 2 ZA tiles, vl x vl
// each. A's rows are packed column-wise, so that one step of the reduction is
// two vectors of A, two of B and four outer products:
//
//               b0     b1           columns, from panels (RegisterTile.h) or rows of B
//        a0    za0    za1
//        a1    za2    za3
//
// Packed rows: for a block of 2 * vl rows
//
//     [steps / 4][2 row tiles][4 steps][vl rows]
//
// so that one four-vector store fills, and one four-vector load reads, four
// steps of a row tile. Where a vector of the processor is longer than 32 lanes
// a block has one row tile; column vectors cover at most a panel (kPanel).
#ifndef TESSERA_TARGETS_CPU_KERNELS_OUTERPRODUCT_H
#define TESSERA_TARGETS_CPU_KERNELS_OUTERPRODUCT_H

#include "targets/Cpu/Kernels/RegisterTile.h"

namespace tessera::cpu {

/// Most rows of a block: two row tiles of 32 lanes or one of 64, which bounds the scratch memory.
inline constexpr int64_t kOuterRows = 64;

/// Whether code for `isa` is that of a streaming kernel (KernelBuilder::streams).
bool isStreaming(const Isa &isa);

/// Whether the epilogue of `op` can run in streaming mode with lanes along
/// `laneAxis` of the result: f32 throughout, every operand that is read there
/// contiguous or broadcast along the lanes. `rootOperands`: operands of the
/// root that its own finish reads likewise.
bool epilogueStreams(tsr::DispatchOp op, unsigned laneAxis, llvm::ArrayRef<unsigned> rootOperands);

/// Bytes for the packed rows of one workgroup.
onnx::Sym packedRowsBytes(onnx::SymContext &ctx, onnx::Sym steps);

struct OuterSpace {
  mlir::Value rows, columns, steps;
  mlir::Value base;   ///< B: panels, or element (0, 0) of a matrix with contiguous columns
  mlir::Value stride; ///< null: panels; else elements from one step to the next
  mlir::Value packed; ///< packedRowsBytes() of scratch memory
  Split split = Split::None;
};

/// Packs rows of A of one block: what OuterSpace::packed receives.
class RowPacker {
public:
  RowPacker(KernelEmitter &e, mlir::Value packed);
  /// Steps [first, first + count) of rows [0, rows) of the block, which lie
  /// contiguously from rowPointer(row) on. `first` is a multiple of four, and
  /// so is `count` unless the run is the last one.
  void packRuns(mlir::Value rows, mlir::Value first, mlir::Value count,
                llvm::function_ref<mlir::Value(mlir::Value row)> rowPointer);
  /// All steps of rows that are themselves contiguous at each step (A transposed).
  void packColumns(mlir::Value rows, mlir::Value count, mlir::Value base, mlir::Value stepStride);
  /// Element by element, whatever the strides.
  void packElements(mlir::Value rows, mlir::Value count, llvm::function_ref<mlir::Value(mlir::Value row, mlir::Value step)> load);

private:
  /// Calls body(tile, first row, row count) for the block's row tiles.
  void forRowTiles(mlir::Value rows, llvm::function_ref<void(mlir::Value, mlir::Value, mlir::Value)> body);
  mlir::Value address(mlir::Value tile, mlir::Value step);

  KernelEmitter &e;
  mlir::Value packed, vl, blockRows;
};

/// Goes through the space in blocks: `pack(row, rows)` packs the block's rows,
/// then all of its columns are computed and stored through the epilogue
/// (`pointOf` and `finish` as for storeTile).
llvm::LogicalResult outerProducts(KernelEmitter &e, tsr::DispatchOp op, Fusion &fusion, const OuterSpace &space,
                                  llvm::function_ref<void(mlir::Value row, mlir::Value rows)> pack,
                                  llvm::function_ref<Point(mlir::Value row, mlir::Value column)> pointOf,
                                  llvm::function_ref<mlir::FailureOr<mlir::Value>(mlir::Value acc, const Point &p)> finish);

} // namespace tessera::cpu
#endif

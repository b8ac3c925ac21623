// Register tiles: the inner loops of contraction and convolution.
//
// A tile is `rows` x `vectors` accumulators that stay in registers while the
// reduction runs:
//
//              column vectors (loaded, `lanes` columns each)
//                  b0        b1
//     row 0  a0   c00       c01       a: one scalar a row and step, splat
//     row 1  a1   c10       c11       b: `vectors` loads a step
//     ...                             rows * vectors multiply-adds a step
//
// Columns come from panels of kPanel columns, [panel][k][kPanel], zero padded
// at the last one. Panels do not depend on the vector length: a tile that is
// wider than a panel reads neighbouring panels. Rows are arbitrary pointers, so
// that a row may be a matrix row or the pixel under a convolution tap.
//
// Scalable column vectors cover `Tile::width` columns each: all lanes up to
// kPanel, a power of two, so that none straddles two panels; lanes past it are
// off. All their loads and stores have masks, which cost nothing there.
#ifndef TESSERA_TARGETS_CPU_KERNELS_REGISTERTILE_H
#define TESSERA_TARGETS_CPU_KERNELS_REGISTERTILE_H

#include "targets/Cpu/KernelBuilder.h"

namespace tessera::cpu {

/// Columns of a panel of packed weights.
inline constexpr int64_t kPanel = 16;

/// Lanes of one register as fixed vector (128 bits where scalable).
Lanes tileLanes(const Isa &isa, mlir::Type accumulator);
/// Lanes of a tile's column vectors: scalable where the ISA and the
/// accumulator allow it, else tileLanes().
Lanes columnLanes(const Isa &isa, mlir::Type accumulator);

/// acc + a * c in floating point or integers (scalars or vectors).
mlir::Value multiplyAdd(KernelEmitter &e, mlir::Value a, mlir::Value c, mlir::Value acc);
mlir::Value zeroOf(KernelEmitter &e, mlir::Type type);
/// Type in which products of `element` are summed: f32 for small floats, else itself.
mlir::Type accumulatorOf(mlir::Type element);

/// A loaded value (value type of its element) made ready for multiplyAdd.
using Convert = std::function<mlir::Value(mlir::Value loaded, unsigned which)>;

struct TileRows {
  llvm::SmallVector<mlir::Value> ptr; ///< row i at step 0
  mlir::Type element;
  mlir::Value step; ///< elements between steps
  Convert convert;  ///< may be null
};

struct TileColumns {
  llvm::SmallVector<mlir::Value> ptr; ///< vector j at step 0
  mlir::Type element;
  mlir::Value step;
  Lanes lanes;
  llvm::SmallVector<mlir::Value> mask; ///< per vector, null for whole loads
  Convert convert;
  /// acc + a * c where that is not plain arithmetic; may be null.
  mlir::Value (*multiply)(KernelEmitter &, mlir::Value a, mlir::Value c, mlir::Value acc) = nullptr;
};

/// acc[i * vectors + j] += sum over k < count of rows_i[k] * columns_j[k].
/// Short constant counts are unrolled.
llvm::SmallVector<mlir::Value> accumulate(KernelEmitter &e, mlir::ValueRange acc, const TileRows &rows,
                                          const TileColumns &columns, mlir::Value count);

/// One step of it, at element `k`.
llvm::SmallVector<mlir::Value> accumulateStep(KernelEmitter &e, mlir::ValueRange acc, const TileRows &rows,
                                              const TileColumns &columns, mlir::Value k);
/// The same as accumulate for scalable f32 columns and contiguous f32 rows (ScalableTiles.cpp).
llvm::SmallVector<mlir::Value> accumulateScalable(KernelEmitter &e, mlir::ValueRange acc, const TileRows &rows,
                                                  const TileColumns &columns, mlir::Value count);

/// One tile of the iteration space rows x columns.
struct Tile {
  unsigned rows, vectors;
  mlir::Value row;      ///< first row
  mlir::Value rowLimit; ///< rows from here on are not stored; null: all are
  mlir::Value column;   ///< first column
  Lanes lanes;
  llvm::SmallVector<mlir::Value> mask; ///< per vector, null: all lanes in range
  mlir::Value width; ///< columns of a vector where lanes are scalable, else null

  /// First column of vector `j`.
  mlir::Value columnOf(KernelEmitter &e, unsigned j) const {
    return width ? e.add(column, e.mul(width, j)) : e.add(column, j * lanes.n);
  }
};

enum class Split { None, Rows, Columns };

struct TileSpace {
  mlir::Value rows, columns;
  mlir::Type accumulator;
  Lanes lanes;              ///< normally columnLanes()
  Split split = Split::None;  ///< what workgroups share out
  int64_t rowChunk = 0;       ///< rows gone through for all columns before the next; 0: all
  bool singleRowVariant = false; ///< own code for a row count that turns out to be one
  bool rowPointers = true;    ///< rows need a general register each
  bool separateProduct = false; ///< a product is not added by the instruction that makes it
};

/// Goes through the space in tiles that suit it: columns outside, rows inside.
void forTiles(KernelEmitter &e, const TileSpace &space, llvm::function_ref<void(const Tile &)> body);

/// The same for scalable lanes (ScalableTiles.cpp); `rows` where known.
void forScalableTiles(KernelEmitter &e, const TileSpace &space, std::optional<int64_t> rows,
                      llvm::function_ref<void(const Tile &)> body);
/// Columns of a scalable vector: its lanes, at most a panel.
mlir::Value scalableWidth(KernelEmitter &e);

/// Share [begin, end) of `count` units of the running workgroup.
std::pair<mlir::Value, mlir::Value> workgroupShare(KernelEmitter &e, mlir::Value count);

/// Stores a tile through the dispatch's epilogue. `pointOf` gives the result's
/// index of a row and a column, `finish` turns accumulators into the root's
/// result (bias, scale); both may be called within a loop over rows.
llvm::LogicalResult storeTile(KernelEmitter &e, tsr::DispatchOp op, Fusion &fusion, const Tile &tile,
                              mlir::ValueRange acc,
                              llvm::function_ref<Point(mlir::Value row, mlir::Value column)> pointOf,
                              llvm::function_ref<mlir::FailureOr<mlir::Value>(mlir::Value acc, const Point &p)> finish);

/// Whether the epilogue is so long that it should be emitted once a tile rather
/// than once an accumulator.
bool isHeavyEpilogue(tsr::DispatchOp op);

/// Pointers of a tile's column vectors in panels at `base`, `steps` steps each.
TileColumns panelColumns(KernelEmitter &e, const Tile &tile, mlir::Value base, mlir::Type element, mlir::Value steps);

/// [groups][ceil(columns/kPanel)][steps][kPanel] from source(group, step, column),
/// in the accumulator's type for small floats, else in the element's own.
Packed packPanels(mlir::ElementsAttr value, int64_t groups, int64_t steps, int64_t columns,
                  llvm::function_ref<int64_t(int64_t group, int64_t step, int64_t column)> source);
/// Type of the elements that packPanels writes.
mlir::Type panelElement(mlir::Type element);
/// The same done by the kernel, into `base`; `offset` gives the source's offset in elements.
void emitPackPanels(KernelEmitter &e, const TensorRef &source, mlir::Value base, mlir::Value steps,
                    mlir::Value columns, llvm::function_ref<mlir::Value(mlir::Value step, mlir::Value column)> offset);

/// Whether the results, and every operand that the epilogue reads, let axes
/// [first, last] of the result (rank `rank`) be counted as one: whole and
/// contiguous there, or broadcast along all of them.
bool axesFlatten(tsr::DispatchOp op, unsigned rank, unsigned first, unsigned last);

/// Axis of [first, last] that carries the common index of flattened axes; the others are 0.
unsigned flatAxis(tsr::DispatchOp op, unsigned first, unsigned last);

/// Position of root operand `position` among the dispatch's operands, or -1.
int dispatchOperand(tsr::DispatchOp op, unsigned position);
/// Constant of dispatch operand `operand`, or null.
mlir::ElementsAttr dispatchConstant(tsr::DispatchOp op, unsigned operand);

} // namespace tessera::cpu
#endif

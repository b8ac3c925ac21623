// Integer products of 8-bit numbers by dot products of four bytes.
//
//   sum (a - za)(b - zb) = sum a' b' - za' (sum b' - K zb') - zb' sum a'
//
// where a', b' are signed: bytes of unsigned operands have their top bit
// flipped, which takes 128 from them and from their zero point. The right
// operand is a constant, packed as words of four bytes along the sum. Without
// the dot product of the GPU, bytes are taken apart by shifts.
#ifndef TESSERA_TARGETS_VULKAN_KERNELS_BYTES_H
#define TESSERA_TARGETS_VULKAN_KERNELS_BYTES_H

#include "targets/Vulkan/Kernels/Packing.h"

namespace tessera::vulkan {

/// The operands of MatMulInteger or ConvInteger: a, b, za, zb.
class ByteProduct {
public:
  ByteProduct(tsr::DispatchOp op, Emitter &e)
      : op(op), e(e), root(op.getRootOp()) {}

  /// Checks operands; `columns` zero points of the right one at most.
  mlir::LogicalResult read(int64_t columns);
  Buffer *left() const { return a; }
  const Buffer &right() const { return *b; }
  /// Packs the right operand as [outer][depth / 4][width] words, in `groups`
  /// (the first of `outer`) of columns each with its own zero points. Every sum
  /// goes over all `outer` axes but the groups, and the depth; or, if there are
  /// several `slices` of them, over those that `onlySlices` says.
  mlir::LogicalResult pack(int64_t groups, llvm::ArrayRef<PackAxis> outer,
                           PackAxis depth, PackAxis columns, int64_t width,
                           int64_t slices = 1);
  void onlySlices(std::pair<Index, Index> those) { sliced = those; }
  /// The right operand less its zero points, in 32 bits: [rows][columns].
  Buffer &packDifferences(PackAxis rows, PackAxis columns);
  Buffer &words() const { return *packed; }
  /// Whether the sums of a' are needed.
  bool needsRowSums() const { return rightZeros; }

  /// What the accumulators of quad `at` of [groups][width / 4] begin with; null
  /// for zeros.
  mlir::Value initial(Index at);
  /// Four finished sums of it. `rowSum` is the sum of a', if needed.
  mlir::Value finish(mlir::Value sums, Index at, mlir::Value rowSum);
  /// za' in 32 bits.
  mlir::Value leftZero();
  /// Four times za' as bytes: what stands for an element outside of an image.
  mlir::Value zeroWord();
  /// A word, or four, of a as it lies: a'.
  mlir::Value signedWords(mlir::Value words);
  /// Four neighbours along an axis of `a`, where it has no such words; only the
  /// first `count` mean something, and what is past the end of `a` does not.
  mlir::Value gatherWord(Index at, int64_t stride, int64_t count);
  /// A byte of a, or four of them, less its zero point, in 32 bits.
  mlir::Value difference(mlir::Value bytes);
  /// sum + x . y
  mlir::Value dot(mlir::Value x, mlir::Value y, mlir::Value sum);
  mlir::Value rowSum(mlir::Value x, mlir::Value sum);

private:
  std::optional<int64_t> knownLeftZero() const;
  int64_t zeroOf(int64_t column) const {
    return rightZero[rightZero.size() == 1 ? 0 : column];
  }
  Buffer &packWordsOf(llvm::ArrayRef<int32_t> words);
  void packTerms(int64_t groups, llvm::ArrayRef<PackAxis> outer, PackAxis depth,
                 PackAxis columns, int64_t width, int64_t slices);
  mlir::Value termOf(Index at);
  unsigned rightNumber() const;

  tsr::DispatchOp op;
  Emitter &e;
  mlir::Operation *root;
  Buffer *a = nullptr, *b = nullptr;
  Buffer *packed = nullptr, *rightZeros = nullptr;
  /// sum b' - K zb', of all slices; or, of several, of those before each one.
  Buffer *terms = nullptr;
  int64_t termQuads = 0; ///< a slice
  std::optional<std::pair<Index, Index>> sliced;
  mlir::ElementsAttr value;             ///< of the right operand
  llvm::SmallVector<int64_t> rightZero; ///< zb', a column or one for all
  bool leftUnsigned = false, rightUnsigned = false;
};

} // namespace tessera::vulkan
#endif

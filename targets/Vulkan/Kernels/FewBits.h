// A constant right operand that was made from integers of 2, 4 or 8 bits: it
// stays packed in memory, and is multiplied out in registers.
//
//   b[k][n] = (q[k][n] - zero[k / block][n]) * scale[k / block][n]
//
// That is DequantizeLinear, from which the constant was folded
// (passes/Canonicalise/Dequantised.h), so the numbers are the constant's. A
// word holds neighbours along the sum of one column, the first in the low bits;
// four words, of a quad of columns, are one load. Signed integers are packed
// with their top bit flipped, as their zero points.
#ifndef TESSERA_TARGETS_VULKAN_KERNELS_FEWBITS_H
#define TESSERA_TARGETS_VULKAN_KERNELS_FEWBITS_H

#include "passes/Canonicalise/Dequantised.h"
#include "targets/Vulkan/Kernels/RowTile.h"

namespace tessera::vulkan {

class FewBits {
public:
  explicit FewBits(Emitter &e) : e(e) {}

  /// Whether root operand 1, a matrix, is made so and in blocks that these
  /// words can follow. The sum goes along `sumAxis` (0 or 1) of it.
  bool read(tsr::DispatchOp op, unsigned sumAxis);
  /// Whether a scale is for a part of the sum only.
  bool hasBlocks() const { return block < depth; }
  /// Packs in place of dispatch operand `input`; columns are padded to `width`.
  void pack(unsigned input, int64_t width);
  /// Adds all products to `acc` ([rows][quads]). The invocation's quads begin
  /// at `quad`; `loadRow` counts in groups of `step`, 1 or 4.
  llvm::SmallVector<mlir::Value> accumulate(const RowTile &tile, Index quad,
                                            int64_t step, mlir::ValueRange acc,
                                            LoadRow loadRow);

private:
  /// Of a block, a quad of columns.
  struct Parameters {
    mlir::Value scale, zero; ///< no zero: it is 0 everywhere
  };
  int64_t perWord() const { return 32 / bits; }
  std::vector<uint8_t> packIntegers(int64_t width) const;
  void packZeros(unsigned input, int64_t width);
  Parameters parameters(Index block, Index quad);
  mlir::Value multiplyOut(mlir::Value words, int64_t i, const Parameters &p);
  llvm::SmallVector<mlir::Value> addWord(const RowTile &tile, Index quad,
                                         int64_t step, Index word,
                                         int64_t count,
                                         llvm::ArrayRef<Parameters> p,
                                         mlir::ValueRange acc, LoadRow loadRow);

  Emitter &e;
  std::optional<onnx::Dequantised> from;
  int64_t bits = 0, flip = 0, depth = 0, columns = 0, block = 0;
  /// Strides of integers and of parameters, along the sum and the columns.
  std::array<int64_t, 2> strides = {0, 0}, blockStrides = {0, 0};
  int64_t columnQuads = 0;
  Buffer *words = nullptr, *scales = nullptr, *zeros = nullptr;
  double oneZero = 0; ///< the zero point of all, without `zeros`
};

} // namespace tessera::vulkan
#endif

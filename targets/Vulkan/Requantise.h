// tessera.Requantise on a GPU, which has no double: sums of integers to
// quantised integers, the same as the CPU's for every sum
// (targets/Cpu/ElementwiseRequantise.cpp says what is exact).
//
// The float32 formula is right but for a few sums just beside a half, and both
// ways rise with the sum. So the compiler goes through the borders between two
// results, of every channel, and lists the sums for which the formula is one
// off; the shader looks a sum up where it comes near enough to a half.
#ifndef TESSERA_TARGETS_VULKAN_REQUANTISE_H
#define TESSERA_TARGETS_VULKAN_REQUANTISE_H

#include "targets/Vulkan/Emitter.h"

namespace tessera::vulkan {

bool isRequantise(mlir::Operation *op);
/// Whether a shader reads this operand of `op`, or the compiler alone does.
bool readsRequantiseOperand(unsigned position);

/// What a shader needs beside the operands: rows of one number a channel. The
/// first numbers are the header, so that all lists can share a shader: how many
/// rows there are, and the bits of how near to the middle of two
/// integers a listed sum comes, as a distance from the nearest.
struct Corrections {
  /// [header rows + 2 * rows][channels]; of a pair of rows the first has sums
  /// whose result is one more, the second those with one less.
  std::vector<int32_t> sums;
  int64_t rows = 0, channels = 1;
  unsigned like = 0; ///< operand that has the channels
  int64_t headerRows() const { return channels > 1 ? 1 : 2; }
};

/// `constant`: an operand's, or null. Fails with a reason where results cannot
/// be made the CPU's.
mlir::LogicalResult
findCorrections(mlir::Operation *op,
                llvm::function_ref<mlir::ElementsAttr(unsigned)> constant,
                Corrections &list, Reasons &reasons);

/// Sums with their factors and biases in float32.
struct RequantisedSums {
  llvm::ArrayRef<mlir::Value> sums;            ///< [i][columns]
  llvm::ArrayRef<mlir::Value> factors, biases; ///< [columns]
  /// The header's two numbers.
  std::pair<mlir::Value, mlir::Value> header;
  /// Row `row` of the list for the sums of a column.
  llvm::function_ref<mlir::Value(Index row, unsigned column)> listed;
};

/// The results for `tile.sums`.
llvm::SmallVector<mlir::Value> emitRequantise(mlir::Operation *op, Emitter &e,
                                              const RequantisedSums &tile,
                                              const Corrections &list);

} // namespace tessera::vulkan
#endif

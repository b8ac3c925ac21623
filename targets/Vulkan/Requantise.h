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

/// What a shader needs beside the operands.
struct Corrections {
  /// [rows][up, down][channels]: sums whose result is one more, one less.
  std::vector<int32_t> sums;
  int64_t rows = 0, channels = 1;
  unsigned like = 0;  ///< operand that has the channels
  float nearHalf = 0; ///< distance from the nearest integer of all such sums
};

/// `constant`: an operand's, or null. Fails with a reason where results cannot
/// be made the CPU's.
mlir::LogicalResult
findCorrections(mlir::Operation *op,
                llvm::function_ref<mlir::ElementsAttr(unsigned)> constant,
                Corrections &list, Reasons &reasons);

/// The result for `sum`, with its factor and bias in float32. `correction(i)`
/// loads row i of the list for these sums.
mlir::Value
emitRequantise(mlir::Operation *op, Emitter &e, mlir::Value sum,
               mlir::Value factor, mlir::Value bias, const Corrections &list,
               llvm::function_ref<mlir::Value(Index row)> correction);

} // namespace tessera::vulkan
#endif

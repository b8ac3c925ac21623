// SME2 instructions on f32 ZA tiles, as calls of LLVM's intrinsics.
#ifndef TESSERA_TARGETS_CPU_KERNELS_SME_H
#define TESSERA_TARGETS_CPU_KERNELS_SME_H

#include "targets/Cpu/KernelEmitter.h"

namespace tessera::cpu::sme {

/// Lanes of f32 vectors.
inline constexpr Lanes lanes{4, true};
inline mlir::Type vectorType(KernelEmitter &e) { return KernelEmitter::withLanes(e.f32(), lanes); }

/// Clears all of ZA.
void zero(KernelEmitter &e);
/// za[tile] += a (rows) x c (columns).
void outerProduct(KernelEmitter &e, unsigned tile, mlir::Value a, mlir::Value c);
/// Loads the lanes of `mask` from `ptr` on into row `row` of a tile, zero elsewhere.
void loadRow(KernelEmitter &e, mlir::Value mask, mlir::Value ptr, unsigned tile, mlir::Value row);
/// Row `row` of a tile.
mlir::Value readRow(KernelEmitter &e, unsigned tile, mlir::Value row);
/// Four rows or columns from `first` on, a multiple of four.
llvm::SmallVector<mlir::Value> readRows(KernelEmitter &e, unsigned tile, mlir::Value first);
llvm::SmallVector<mlir::Value> readColumns(KernelEmitter &e, unsigned tile, mlir::Value first);
/// A number or pointer that LLVM takes for unknown: no constant to be made
/// again in every turn of a loop, no address to be split into several.
mlir::Value opaque(KernelEmitter &e, mlir::Value v);
/// Four consecutive vectors.
llvm::SmallVector<mlir::Value> loadFour(KernelEmitter &e, mlir::Value ptr);
void storeFour(KernelEmitter &e, mlir::ValueRange four, mlir::Value ptr);

} // namespace tessera::cpu::sme
#endif

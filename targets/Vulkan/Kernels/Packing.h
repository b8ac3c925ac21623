// Constants of products and convolutions as the kernels read them: rows along
// the sum, columns padded to the grid.
#ifndef TESSERA_TARGETS_VULKAN_KERNELS_PACKING_H
#define TESSERA_TARGETS_VULKAN_KERNELS_PACKING_H

#include "targets/Vulkan/KernelBuilder.h"

namespace tessera::vulkan {

/// So many elements, so far apart in the constant.
struct PackAxis {
  int64_t count, stride;
};

/// The constant's elements, of one to four bytes, as [rows, an axis after
/// another][width]; zero past the columns. Empty if its bytes are not at hand.
std::vector<uint8_t> packColumns(mlir::ElementsAttr constant,
                                 llvm::ArrayRef<PackAxis> rows,
                                 PackAxis columns, int64_t width);

/// Bytes as [outer rows][depth / 4, rounded up][width] words of four
/// neighbours along the depth, zero past its end. `flip` is added to each
/// byte's bits by XOR.
std::vector<uint8_t> packWords(mlir::ElementsAttr constant,
                               llvm::ArrayRef<PackAxis> outer, PackAxis depth,
                               PackAxis columns, int64_t width, uint8_t flip);

/// Numbers in f32 as [rows][width].
std::vector<uint8_t> packFloats(llvm::ArrayRef<double> numbers, int64_t rows,
                                int64_t width);
std::vector<uint8_t> bytesOf(llvm::ArrayRef<int32_t> words);

} // namespace tessera::vulkan
#endif

#include "targets/Vulkan/Kernels/Packing.h"
#include "dialects/Onnx/IR/OnnxUtils.h"

#include <cstring>

using namespace mlir;

namespace tessera::vulkan {

/// Calls `body` with the offset of every row, the last axis the fastest.
static void forRows(ArrayRef<PackAxis> rows,
                    llvm::function_ref<void(int64_t)> body,
                    int64_t offset = 0) {
  if (rows.empty())
    return body(offset);
  for (int64_t i = 0; i < rows[0].count; ++i)
    forRows(rows.drop_front(), body, offset + i * rows[0].stride);
}

static int64_t countOf(ArrayRef<PackAxis> rows) {
  int64_t count = 1;
  for (PackAxis a : rows)
    count *= a.count;
  return count;
}

/// Columns in blocks, so that a transposition reads whole cache lines.
constexpr int64_t block = 16;

template <typename T>
static void copyColumns(const char *from, uint8_t *to, ArrayRef<PackAxis> rows,
                        PackAxis columns, int64_t width) {
  if (columns.stride == 1)
    return forRows(rows, [&](int64_t offset) {
      std::memcpy(to, from + offset * sizeof(T), columns.count * sizeof(T));
      to += width * sizeof(T);
    });
  for (int64_t first = 0; first < columns.count; first += block) {
    int64_t last = std::min(first + block, columns.count);
    uint8_t *row = to;
    forRows(rows, [&](int64_t offset) {
      for (int64_t n = first; n < last; ++n)
        std::memcpy(row + n * sizeof(T),
                    from + (offset + n * columns.stride) * sizeof(T),
                    sizeof(T));
      row += width * sizeof(T);
    });
  }
}

std::vector<uint8_t> packColumns(ElementsAttr constant, ArrayRef<PackAxis> rows,
                                 PackAxis columns, int64_t width) {
  SmallVector<char> storage;
  auto raw = onnx::getRawBytes(constant, storage);
  if (!raw)
    return {};
  unsigned size = onnx::getStorageBits(constant.getElementType()) / 8;
  std::vector<uint8_t> bytes(countOf(rows) * width * size, 0);
  auto copy = size == 4   ? copyColumns<uint32_t>
              : size == 2 ? copyColumns<uint16_t>
                          : copyColumns<uint8_t>;
  copy(raw->data(), bytes.data(), rows, columns, width);
  return bytes;
}

std::vector<uint8_t> packWords(ElementsAttr constant, ArrayRef<PackAxis> outer,
                               PackAxis depth, PackAxis columns, int64_t width,
                               uint8_t flip) {
  SmallVector<char> storage;
  auto raw = onnx::getRawBytes(constant, storage);
  if (!raw)
    return {};
  int64_t words = (depth.count + 3) / 4;
  std::vector<uint8_t> bytes(countOf(outer) * words * width * 4, 0);
  for (int64_t first = 0; first < columns.count; first += block) {
    int64_t last = std::min(first + block, columns.count);
    uint8_t *to = bytes.data();
    forRows(outer, [&](int64_t offset) {
      for (int64_t k = 0; k < depth.count; ++k) {
        uint8_t *row = to + k / 4 * width * 4 + k % 4;
        const char *from = raw->data() + offset + k * depth.stride;
        for (int64_t n = first; n < last; ++n)
          row[n * 4] = static_cast<uint8_t>(from[n * columns.stride]) ^ flip;
      }
      to += words * width * 4;
    });
  }
  return bytes;
}

std::vector<uint8_t> packFloats(ArrayRef<double> numbers, int64_t rows,
                                int64_t width) {
  int64_t columns = static_cast<int64_t>(numbers.size()) / rows;
  std::vector<uint8_t> bytes(rows * width * 4, 0);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t n = 0; n < columns; ++n) {
      float v = static_cast<float>(numbers[i * columns + n]);
      std::memcpy(bytes.data() + (i * width + n) * 4, &v, 4);
    }
  return bytes;
}

std::vector<uint8_t> bytesOf(ArrayRef<int32_t> words) {
  std::vector<uint8_t> bytes(words.size() * 4);
  std::memcpy(bytes.data(), words.data(), bytes.size());
  return bytes;
}

} // namespace tessera::vulkan

// A constant tensor in the compiler's memory: what folding computes with.
//
// Elements are unpacked: every element takes `elementBytes` whole bytes, also
// bool (0 or 1) and the types below eight bits (integers sign- or
// zero-extended, small floats as their bits). Conversions between element
// types follow the numerics of the runtime (design: float to integer saturates
// and maps NaN to 0, to int4 and int2 wraps, float8 saturates on request).
#ifndef TESSERA_PASSES_CANONICALISE_HOSTTENSOR_H
#define TESSERA_PASSES_CANONICALISE_HOSTTENSOR_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace tessera::onnx {

class HostTensor {
public:
  /// Zero-filled tensor. The element type must be supported().
  HostTensor(mlir::Type element, llvm::ArrayRef<int64_t> shape);

  static bool supported(mlir::Type element);
  /// Reads any dense attribute of a supported element type.
  static std::optional<HostTensor> read(mlir::ElementsAttr attr);
  /// Dense attribute for few elements, a resource for many.
  mlir::ElementsAttr attribute() const;

  mlir::Type element() const { return elementType; }
  llvm::ArrayRef<int64_t> shape() const { return dims; }
  int64_t rank() const { return dims.size(); }
  int64_t size() const { return count; }
  size_t elementBytes() const { return bytesEach; }
  size_t byteSize() const { return count * bytesEach; }
  mlir::RankedTensorType type() const {
    return mlir::RankedTensorType::get(dims, elementType);
  }
  const char *data() const { return bytes; }
  /// Copies on first write when the bytes belong to someone else.
  char *mutableData();

  bool isFloat() const { return mlir::isa<mlir::FloatType>(elementType); }
  bool isBool() const { return elementType.isInteger(1); }
  bool isUnsigned() const { return elementType.isUnsignedInteger(); }
  bool isInteger() const { return mlir::isa<mlir::IntegerType>(elementType); }

  /// Element as the wider kind; the caller picks the kind that fits.
  double real(int64_t i) const;
  int64_t integer(int64_t i) const;
  /// Rounds to nearest even into the element type. `real` never saturates.
  void setReal(int64_t i, double v);
  /// Wraps modulo the width.
  void setInteger(int64_t i, int64_t v);

  llvm::SmallVector<int64_t> integers() const;
  /// The same elements under another shape of equal size.
  HostTensor reshaped(llvm::ArrayRef<int64_t> shape) const;
  /// out[i0,i1,...] = this[offset + sum(i_k * strides_k)], in elements.
  HostTensor strided(llvm::ArrayRef<int64_t> shape, int64_t offset,
                     llvm::ArrayRef<int64_t> strides) const;
  /// Whether all elements have the same bits.
  bool isUniform() const;
  /// Cast's meaning of a conversion; nullopt where folding does not serve the pair.
  std::optional<HostTensor> cast(mlir::Type to, bool saturate = true) const;

private:
  HostTensor() = default;
  mlir::Type elementType;
  llvm::SmallVector<int64_t> dims;
  int64_t count = 0;
  size_t bytesEach = 0;
  const char *bytes = nullptr;
  std::shared_ptr<std::vector<char>> owned; ///< null: the bytes belong to an attribute
};

llvm::SmallVector<int64_t> rowMajorStrides(llvm::ArrayRef<int64_t> shape);
int64_t elementCount(llvm::ArrayRef<int64_t> shape);
/// Multidirectional broadcasting; nullopt when the shapes do not agree.
std::optional<llvm::SmallVector<int64_t>>
broadcastShapes(llvm::ArrayRef<int64_t> a, llvm::ArrayRef<int64_t> b);

} // namespace tessera::onnx
#endif

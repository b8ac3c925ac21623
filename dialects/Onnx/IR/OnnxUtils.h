// Reading operators without their C++ class: values by schema position,
// attributes with defaults, constants.
//
// Bytes of constants are always in ONNX's raw_data layout: little endian, bool
// as one byte, narrower types packed as one bit stream, low bits first.
#ifndef TESSERA_DIALECTS_ONNX_IR_ONNXUTILS_H
#define TESSERA_DIALECTS_ONNX_IR_ONNXUTILS_H

#include "dialects/Onnx/IR/OnnxDialect.h"

#include <optional>
#include <string>

namespace tessera::onnx {

// Values by position in the operator's schema. A variadic parameter is last in
// ONNX; its k-th value has position (its own position + k).

/// Null when the operand is absent.
mlir::Value getOptionalOperand(mlir::Operation *op, unsigned position);
/// Null when the result is absent.
mlir::Value getOptionalResult(mlir::Operation *op, unsigned position);
/// Position of operand number `index` (an index into op->getOperands()).
unsigned getOperandPosition(mlir::Operation *op, unsigned index);
unsigned getResultPosition(mlir::Operation *op, unsigned index);
/// Positions in use, absent ones before the last included.
unsigned getNumOperandPositions(mlir::Operation *op);
unsigned getNumResultPositions(mlir::Operation *op);
/// "scale", "inputs"; empty when the operator has no schema.
llvm::StringRef getOperandName(mlir::Operation *op, unsigned position);

// Attributes. `fallback` is for those without a default in the schema.
int64_t getInt(mlir::Operation *op, llvm::StringRef name, int64_t fallback = 0);
double getFloat(mlir::Operation *op, llvm::StringRef name, double fallback = 0);
llvm::StringRef getString(mlir::Operation *op, llvm::StringRef name,
                          llvm::StringRef fallback = "");
llvm::SmallVector<int64_t> getInts(mlir::Operation *op, llvm::StringRef name,
                                   llvm::ArrayRef<int64_t> fallback = {});
llvm::SmallVector<float> getFloats(mlir::Operation *op, llvm::StringRef name);
llvm::SmallVector<llvm::StringRef> getStrings(mlir::Operation *op, llvm::StringRef name);

// Constants.

/// The tensor that `value` always has; null if unknown. Sees onnx.Weight and
/// onnx.Constant with `value` (the importer makes all other forms a Weight).
mlir::ElementsAttr getConstant(mlir::Value value);
/// Integers or bools, sign- or zero-extended as the element type says. None if
/// not constant, not integer, or more than `maxElements`.
std::optional<llvm::SmallVector<int64_t>> getConstantInts(mlir::Value value,
                                                          int64_t maxElements = 1 << 20);
std::optional<llvm::SmallVector<int64_t>> getInts(mlir::ElementsAttr attr,
                                                  int64_t maxElements = 1 << 20);
/// Any floating-point type, exactly, as double.
std::optional<llvm::SmallVector<double>> getConstantFloats(mlir::Value value,
                                                           int64_t maxElements = 1 << 20);
std::optional<llvm::SmallVector<double>> getFloats(mlir::ElementsAttr attr,
                                                   int64_t maxElements = 1 << 20);
std::optional<llvm::SmallVector<std::string>> getConstantStrings(mlir::Value value);
/// Whether all elements have the same bits (a splat attribute, or a short scan).
bool isSplat(mlir::ElementsAttr attr);

/// The payload in raw_data layout. Aliases the attribute where its own layout is
/// the same, else fills `storage`. Empty optional for strings.
std::optional<llvm::ArrayRef<char>> getRawBytes(mlir::ElementsAttr attr,
                                                llvm::SmallVectorImpl<char> &storage);
/// Inverse: a constant over bytes in raw_data layout, copied. Small ones become
/// readable DenseElementsAttr, large ones dense_resource named `name`.
mlir::ElementsAttr makeConstant(mlir::RankedTensorType type, llvm::ArrayRef<char> rawBytes,
                                llvm::StringRef name = "c");
mlir::ElementsAttr makeIntConstant(mlir::RankedTensorType type, llvm::ArrayRef<int64_t> values);
/// 1-D or, for `scalar`, 0-D int64.
mlir::ElementsAttr makeInt64Constant(mlir::MLIRContext *context, llvm::ArrayRef<int64_t> values,
                                     bool scalar = false);

/// Bits an element takes in raw_data layout (bool 8, complex64 64, i4 4);
/// 0 for strings and other types without a size.
unsigned getStorageBits(mlir::Type elementType);
/// Bytes of `numElements` elements, rounded up; none on overflow.
std::optional<int64_t> getStorageBytes(mlir::Type elementType, int64_t numElements);

/// "float32", "uint8", ... for messages; nested types in ONNX's notation.
std::string getTypeName(mlir::Type type);
/// Name of the original node, empty if none.
llvm::StringRef getNodeName(mlir::Operation *op);

} // namespace tessera::onnx

#endif

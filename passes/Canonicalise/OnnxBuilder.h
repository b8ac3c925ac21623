// Building and matching onnx operators in rewrites, by name and schema
// position, with result types inferred where that is a matter of broadcasting.
#ifndef TESSERA_PASSES_CANONICALISE_ONNXBUILDER_H
#define TESSERA_PASSES_CANONICALISE_ONNXBUILDER_H

#include "dialects/Onnx/IR/OnnxUtils.h"
#include "passes/Canonicalise/HostTensor.h"

#include "mlir/IR/PatternMatch.h"

namespace tessera::onnx {

/// Whether `op` is the operator `name` of ai.onnx ("Conv").
bool isOp(mlir::Operation *op, llvm::StringRef name);
/// The operator `name` that defines `v`, or null.
mlir::Operation *definedBy(mlir::Value v, llvm::StringRef name);
/// Operand at a schema position; null when absent.
inline mlir::Value operand(mlir::Operation *op, unsigned position) {
  return getOptionalOperand(op, position);
}

inline mlir::RankedTensorType rankedType(mlir::Value v) {
  return mlir::dyn_cast<mlir::RankedTensorType>(v.getType());
}
mlir::Type elementType(mlir::Value v);
/// The constant value of `v`, if it has one and `v` is present.
std::optional<HostTensor> constantOf(mlir::Value v);
/// All elements equal: that element as double. Float or integer constants.
std::optional<double> uniformConstant(mlir::Value v);
/// A constant of one element of any rank.
std::optional<double> scalarConstant(mlir::Value v);
/// Dimensions that are equal for certain: both static and equal.
bool sameStaticShape(mlir::Value a, mlir::Value b);
/// Broadcast of two ranked types with dynamic extents; null on contradiction.
mlir::RankedTensorType broadcastType(mlir::Type a, mlir::Type b, mlir::Type element);
/// The type of MatMul(a, b), both ranked.
mlir::RankedTensorType matmulType(mlir::Value a, mlir::Value b, mlir::Type element);
/// Whether broadcasting `small` against `v` cannot change the shape of `v`.
bool broadcastsInto(mlir::Value small, mlir::Value v);

class OnnxBuilder {
public:
  OnnxBuilder(mlir::OpBuilder &builder, mlir::Location loc) : b(builder), loc(loc) {}

  mlir::Builder &attrs() { return b; }
  mlir::OpBuilder &builder() { return b; }
  mlir::Location location() const { return loc; }
  mlir::NamedAttribute i(llvm::StringRef name, int64_t v);
  mlir::NamedAttribute f(llvm::StringRef name, double v);
  mlir::NamedAttribute s(llvm::StringRef name, llvm::StringRef v);
  mlir::NamedAttribute is(llvm::StringRef name, llvm::ArrayRef<int64_t> v);

  /// Null operands are absent optional ones.
  mlir::Operation *create(llvm::StringRef name, llvm::ArrayRef<mlir::Value> operands,
                          mlir::TypeRange results,
                          llvm::ArrayRef<mlir::NamedAttribute> attributes = {});
  mlir::Value op(llvm::StringRef name, llvm::ArrayRef<mlir::Value> operands, mlir::Type result,
                 llvm::ArrayRef<mlir::NamedAttribute> attributes = {});

  mlir::Value weight(const HostTensor &t);
  mlir::Value scalar(mlir::Type element, double v);
  mlir::Value ints(llvm::ArrayRef<int64_t> v, bool scalar = false);

  /// Broadcasting binary operator with the element type of `a`.
  mlir::Value binary(llvm::StringRef name, mlir::Value a, mlir::Value b);
  mlir::Value add(mlir::Value x, mlir::Value y) { return binary("Add", x, y); }
  mlir::Value sub(mlir::Value x, mlir::Value y) { return binary("Sub", x, y); }
  mlir::Value mul(mlir::Value x, mlir::Value y) { return binary("Mul", x, y); }
  mlir::Value div(mlir::Value x, mlir::Value y) { return binary("Div", x, y); }
  /// Shape-preserving operator.
  mlir::Value unary(llvm::StringRef name, mlir::Value x,
                    llvm::ArrayRef<mlir::NamedAttribute> attributes = {});
  mlir::Value cast(mlir::Value x, mlir::Type element);
  mlir::Value transpose(mlir::Value x, llvm::ArrayRef<int64_t> perm);
  /// Static shapes, or one that Reshape's own -1 and 0 describe; `result` is its type.
  mlir::Value reshape(mlir::Value x, llvm::ArrayRef<int64_t> shape, mlir::Type result);
  mlir::Value unsqueeze(mlir::Value x, llvm::ArrayRef<int64_t> axes);
  mlir::Value squeeze(mlir::Value x, llvm::ArrayRef<int64_t> axes);
  mlir::Value reduce(llvm::StringRef name, mlir::Value x, llvm::ArrayRef<int64_t> axes,
                     bool keepDims);
  mlir::Value matmul(mlir::Value a, mlir::Value b);

private:
  mlir::OpBuilder &b;
  mlir::Location loc;
};

/// Code of an element type in ONNX's TensorProto (attribute `to` of Cast).
int64_t onnxTypeCode(mlir::Type element);
mlir::Type typeOfOnnxCode(mlir::MLIRContext *context, int64_t code);

/// Replaces all uses though the new type may know more dimensions; functions
/// that return the value change their type with it.
void replaceRefining(mlir::RewriterBase &rewriter, mlir::Value from, mlir::Value to);
void replaceRefining(mlir::RewriterBase &rewriter, mlir::Operation *op,
                     mlir::ValueRange values);

/// A rewrite of one operator given as a function.
using Rewrite = mlir::LogicalResult (*)(mlir::Operation *, mlir::PatternRewriter &);
void addRewrite(mlir::RewritePatternSet &patterns, llvm::StringRef opName, Rewrite rewrite,
                unsigned benefit = 1);

} // namespace tessera::onnx
#endif

// What the lowerings of single operators build with, and how they register.
//
// A lowering reads its operands as TOSA values (`get`), builds operators, and
// says which value an onnx result is (`set`). Orders of axes are handled by
// Forms: a convolution sets its result in NHWC order, an elementwise operator
// works in the order of its operand.
#ifndef TESSERA_TARGETS_TOSA_LOWER_LOWERER_H
#define TESSERA_TARGETS_TOSA_LOWER_LOWERER_H

#include "dialects/Onnx/IR/OnnxUtils.h"
#include "passes/Canonicalise/HostTensor.h"
#include "targets/Tosa/Forms.h"
#include "targets/Tosa/Lowering.h"

namespace tessera::tosa {

using onnx::HostTensor;

/// A float tensor that exists only as the meaning of an integer one:
/// value = scale * (integer - zeroPoint), then clamped to [low, high].
struct Scaled {
  llvm::SmallVector<double> scale{1}; ///< one, or one a channel
  int64_t axis = 1;                   ///< the channels' axis, if there are many
  int64_t zeroPoint = 0;
  int64_t bound = 128;        ///< |integer - zeroPoint| is at most this
  double low = -INFINITY, high = INFINITY;
  double error = 0;           ///< how far the meaning may be from ONNX's, absolute
  /// Elementwise operators still to be applied, in order. Softmax, which can only be
  /// the first, stands for e^(v - offset).
  llvm::SmallVector<mlir::Operation *> pending;
  double offset = 0;

  bool plain() const { return low == -INFINITY && high == INFINITY && pending.empty(); }
};

class Lowerer {
public:
  Lowerer(mlir::OpBuilder builder, Precision precision, bool contents, Reasons &reasons)
      : b(builder), loc(builder.getUnknownLoc()), precision(precision), reasons(reasons), contents(contents) {}

  mlir::OpBuilder b;
  mlir::Location loc;
  mlir::Type stored; ///< element type on the device of the result of the operator being lowered
  const Precision precision;
  Reasons &reasons;
  Reasons::Stream no() { return reasons.no(); }

  // --- values of the onnx graph ---------------------------------------------

  /// The tosa value of an onnx one, or of a constant, axes in the order `perm`
  /// (none: as ONNX has them).
  mlir::Value get(mlir::Value v, llvm::ArrayRef<int64_t> perm = {});
  void set(mlir::Value v, mlir::Value stored, llvm::ArrayRef<int64_t> perm = {});
  /// What stands for `v` from now on; gives what did.
  Forms::All exchange(mlir::Value v, Forms::All other) { return forms.exchange(v, std::move(other)); }
  /// The order in which `v` was computed; identity for constants.
  Perm order(mlir::Value v) const;
  /// Meanings of integer tensors, only where the precision is quantised.
  llvm::DenseMap<mlir::Value, Scaled> scaled;
  /// Operators whose work another has done.
  llvm::SmallPtrSet<mlir::Operation *, 4> merged;

  static mlir::RankedTensorType typeOf(mlir::Value v) { return mlir::cast<mlir::RankedTensorType>(v.getType()); }
  static int64_t rankOf(mlir::Value v) { return typeOf(v).getRank(); }
  static llvm::ArrayRef<int64_t> shapeOf(mlir::Value v) { return typeOf(v).getShape(); }
  mlir::Type device(mlir::Type element) const { return deviceElement(element, precision); }
  /// The result's tosa type in the order `perm`.
  mlir::RankedTensorType resultType(mlir::Value v, llvm::ArrayRef<int64_t> perm = {}) const;

  // --- building -------------------------------------------------------------

  mlir::Value op(llvm::StringRef mnemonic, mlir::ValueRange operands, mlir::RankedTensorType type,
                 llvm::ArrayRef<mlir::NamedAttribute> attributes = {});
  mlir::NamedAttribute attr(llvm::StringRef name, mlir::Attribute a) { return b.getNamedAttr(name, a); }
  mlir::NamedAttribute ints(llvm::StringRef name, llvm::ArrayRef<int64_t> v) { return attr(name, b.getDenseI64ArrayAttr(v)); }
  mlir::NamedAttribute axis(int64_t a) { return attr("axis", b.getI32IntegerAttr(a)); }
  mlir::Value shape(llvm::ArrayRef<int64_t> v);
  mlir::Value constant(const HostTensor &t);
  /// A constant of rank `rank` and one element.
  mlir::Value scalar(mlir::Type element, double v, int64_t rank);
  mlir::Value scalarLike(mlir::Value x, double v) { return scalar(typeOf(x).getElementType(), v, rankOf(x)); }
  /// One element, rank 1: what operators with zero points ask for.
  mlir::Value zeroPoint(mlir::Type element, int64_t v = 0) { return scalar(element, (double)v, 1); }

  /// Elementwise, same shape and element type.
  mlir::Value unary(llvm::StringRef mnemonic, mlir::Value x);
  /// Elementwise with broadcasting among equal ranks.
  mlir::Value binary(llvm::StringRef mnemonic, mlir::Value x, mlir::Value y, mlir::Type element = {});
  mlir::Value add(mlir::Value x, mlir::Value y) { return binary("add", x, y); }
  mlir::Value sub(mlir::Value x, mlir::Value y) { return binary("sub", x, y); }
  mlir::Value mul(mlir::Value x, mlir::Value y) { return binary("mul", x, y); }
  mlir::Value mul(mlir::Value x, double v) { return mul(x, scalarLike(x, v)); }
  mlir::Value add(mlir::Value x, double v) { return add(x, scalarLike(x, v)); }
  mlir::Value negate(mlir::Value x);
  mlir::Value select(mlir::Value condition, mlir::Value x, mlir::Value y);
  mlir::Value clamp(mlir::Value x, double low, double high);
  mlir::Value cast(mlir::Value x, mlir::Type element);
  /// float16 to float32 for what takes several roundings; anything else stays.
  mlir::Value wide(mlir::Value x);
  /// Back to the element type of the operator's result.
  mlir::Value narrow(mlir::Value x) { return cast(x, stored); }
  mlir::Value reshape(mlir::Value x, llvm::ArrayRef<int64_t> shape);
  mlir::Value transpose(mlir::Value x, llvm::ArrayRef<int64_t> perm);
  mlir::Value slice(mlir::Value x, llvm::ArrayRef<int64_t> start, llvm::ArrayRef<int64_t> size);
  mlir::Value pad(mlir::Value x, llvm::ArrayRef<int64_t> before, llvm::ArrayRef<int64_t> after, double value);
  mlir::Value concat(llvm::ArrayRef<mlir::Value> parts, int64_t axis);
  mlir::Value tile(mlir::Value x, llvm::ArrayRef<int64_t> multiples);
  mlir::Value reduce(llvm::StringRef mnemonic, mlir::Value x, int64_t axis);
  mlir::Value matmul(mlir::Value x, mlir::Value y, int64_t zeroX = 0, int64_t zeroY = 0);

  /// Operands of an elementwise operator: brought to the rank and the order of
  /// its result, the order chosen by the largest operand.
  struct Aligned {
    llvm::SmallVector<mlir::Value> operands;
    Perm perm;
  };
  /// In the order `wanted` if one is given.
  Aligned align(llvm::ArrayRef<mlir::Value> operands, int64_t rank, llvm::ArrayRef<int64_t> wanted = {});

  // --- constants ------------------------------------------------------------

  std::optional<HostTensor> constantOf(mlir::Value v) const;
  /// Present and constant integers; else a reason that names the operand.
  std::optional<llvm::SmallVector<int64_t>> constantInts(mlir::Operation *op, unsigned position);
  /// A constant scalar, `absent` where the operand is not given; else a reason that names the operand.
  std::optional<double> constantScalar(mlir::Operation *op, unsigned position, double absent);

private:
  mlir::Value materialise(mlir::Value constant);
  /// A constant x under other sizes, or null; element i of an axis is offset + i * stride.
  mlir::Value foldConstant(mlir::Value x, llvm::ArrayRef<int64_t> dims, int64_t offset,
                           llvm::ArrayRef<int64_t> strides);
  mlir::Value placeholder(mlir::RankedTensorType type);

  bool contents; ///< whether values of constants matter, or only their types
  Forms forms;
};

using LoweringFn = llvm::LogicalResult (*)(mlir::Operation *, Lowerer &);
/// Element types (of ONNX) that an operator's non-constant tensors may have.
enum class Elements { Float, FloatOrInt, Bool, Any };
/// Under which precisions a lowering is the one to use.
enum class Domain { Float, Integer, Both };

struct LoweringEntry {
  LoweringFn fn = nullptr;
  Elements elements;
  llvm::SmallVector<llvm::StringRef> attributes; ///< those that it understands
};

/// One for each category of operators, beside its lowerings.
struct RegisterLowering {
  RegisterLowering(std::initializer_list<llvm::StringRef> names, Domain domain, Elements elements,
                   std::initializer_list<llvm::StringRef> attributes, LoweringFn fn);
};
/// Null when there is none.
const LoweringEntry *findLowering(mlir::Operation *op, Precision precision);

// Shared among categories.

/// A sliding window over one spatial axis so that TOSA's exact extents hold:
/// what the input is cut to, and what is padded.
struct WindowAxis {
  int64_t size, before, after; ///< extent used of the input, padding
};
struct Window {
  llvm::SmallVector<int64_t> kernel, stride, dilation;
  llvm::SmallVector<WindowAxis> axes;
};
/// Attributes of Conv, MaxPool, AveragePool; none if refused.
std::optional<Window> readWindow(mlir::Operation *op, Lowerer &l, llvm::ArrayRef<int64_t> kernel);
/// `x` is channels last: cuts what no window touches.
mlir::Value cutToWindow(Lowerer &l, mlir::Value x, const Window &window);
/// [n, w, c] as [n, 1, w, c], others as they are; and back.
mlir::Value asImage(Lowerer &l, mlir::Value x);
mlir::Value fromImage(Lowerer &l, mlir::Value x, int64_t rank);
/// A weight as a tosa value with its axes in some order.
using WeightIn = llvm::function_ref<mlir::Value(llvm::ArrayRef<int64_t> perm)>;
/// The convolution itself on prepared values. `x` is channels last. Result channels last.
mlir::FailureOr<mlir::Value> buildConvolution(mlir::Operation *op, Lowerer &l, mlir::Value x, int64_t zeroX,
                                              WeightIn weight, mlir::Value bias, mlir::Type result,
                                              int64_t zeroWeight = 0);
/// MatMul of the first operand, perhaps a vector, with `y` in the result's shape.
mlir::Value buildProduct(mlir::Operation *op, Lowerer &l, mlir::Value y, int64_t zeroX, int64_t zeroY);
/// Clip's bounds, in order: where they cross, ONNX gives the upper one everywhere.
std::optional<std::pair<double, double>> clipBounds(mlir::Operation *op, Lowerer &l, double lowest, double highest);
/// Axes of a reduction; none after a reason. Empty if it reduces nothing.
std::optional<llvm::SmallVector<int64_t>> reductionAxes(mlir::Operation *op, Lowerer &l);
/// Reduces x (in the order `perm`) over ONNX's axes, keeping them as 1.
mlir::Value reduceAxes(Lowerer &l, llvm::StringRef mnemonic, mlir::Value x, llvm::ArrayRef<int64_t> perm,
                       llvm::ArrayRef<int64_t> axes);
/// Sets the result, without the reduced axes unless keepdims.
void finishReduction(mlir::Operation *op, Lowerer &l, mlir::Value y, llvm::ArrayRef<int64_t> perm);
llvm::LogicalResult buildArgMax(mlir::Operation *op, Lowerer &l);
/// Says why not all types of `op`, an operator of the dialect, are of TOSA 1.0's profiles.
llvm::LogicalResult checkProfiles(mlir::Operation *op, Reasons &reasons);

} // namespace tessera::tosa
#endif

// The interface between fusion groups and the code that computes them.
//
// A builder serves some ONNX operators as roots of a dispatch. It is found by
// the root's operation name and registered by a static `RegisterKernel` beside
// its definition; nothing else lists operators. What a builder refuses in
// `match` or fails to emit does not run on the CPU: the audit calls the same
// code.
#ifndef TESSERA_TARGETS_CPU_KERNELBUILDER_H
#define TESSERA_TARGETS_CPU_KERNELBUILDER_H

#include "dialects/Onnx/Shapes/SymExpr.h"
#include "dialects/Tsr/IR/TsrDialect.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "targets/Cpu/KernelEmitter.h"
#include "llvm/ADT/SmallVector.h"

namespace tessera::cpu {

/// Collects the reasons why an operator cannot be served, one a constraint.
class Reasons {
public:
  /// `reasons.no() << "dilation " << d << " exceeds 2"` adds a reason and
  /// converts to failure().
  struct Stream {
    std::string &text;
    template <typename T> Stream &operator<<(const T &v) {
      llvm::raw_string_ostream(text) << v;
      return *this;
    }
    operator llvm::LogicalResult() const { return llvm::failure(); }
  };
  Stream no() { all.emplace_back(); return {all.back()}; }
  bool empty() const { return all.empty(); }
  std::vector<std::string> all;
};

/// Symbolic sizes of a dispatch's operands and results, for what is planned
/// rather than compiled (scratch bytes, workgroup counts).
struct DispatchSizes {
  onnx::SymContext &ctx;
  llvm::SmallVector<llvm::SmallVector<onnx::Sym, 4>> operands, results;
  Arch arch = Arch::X86_64; ///< scratch may differ
};

/// A constant operand in the form the kernel wants, made at compile time.
struct Packed {
  std::vector<uint8_t> bytes;
};

class KernelBuilder {
public:
  virtual ~KernelBuilder() = default;

  virtual tsr::KernelClass kernelClass(mlir::Operation *root) const = 0;

  /// Whether `root` (an onnx operator, inside or outside a dispatch) can be
  /// computed; adds *all* failing constraints. Must look at every attribute
  /// and element type: what is not understood is refused.
  virtual llvm::LogicalResult match(mlir::Operation *root, Reasons &reasons) const = 0;

  /// Whether elementwise operators on the root's single result may be fused
  /// (emitted at the store through `emitEpilogue`).
  virtual bool fusesEpilogue(mlir::Operation *root) const { return false; }
  /// Whether an elementwise producer of root operand `operand` may be fused
  /// (evaluated at each load through `loadFused`). The value may be computed
  /// more than once.
  virtual bool fusesPrologue(mlir::Operation *root, unsigned operand) const { return false; }

  /// Root operands (ONNX operand positions) that must be constants embedded in
  /// the kernel if they are constant at all: axes, pads, small scalars. Large
  /// constants and weights stay operands.
  virtual bool embedsConstant(mlir::Operation *root, unsigned operand) const { return false; }

  /// Layout the builder wants for the root's operand / result (only asked for
  /// rank >= 3 tensors); RowMajor is always possible unless said otherwise.
  virtual tsr::Layout preferredLayout(mlir::Operation *root) const { return tsr::Layout::RowMajor; }
  /// Whether the kernel is right and fast for operands and results that are all channels-last.
  virtual bool acceptsChannelsLast(mlir::Operation *root) const { return false; }

  /// Bytes that replace constant operand `operand` (position in the dispatch),
  /// or nothing to pass it as it is. Must not depend on the ISA variant, only
  /// on the architecture family.
  virtual std::optional<Packed> pack(tsr::DispatchOp op, unsigned operand, mlir::ElementsAttr value,
                                     Arch arch) const { return std::nullopt; }
  /// Whether `pack` would replace that operand (decides the kernel's code, so
  /// it may look only at shapes and at whether the operand is constant).
  virtual bool packs(tsr::DispatchOp op, unsigned operand, Arch arch) const { return false; }

  /// Scratch bytes of one run, or null for none.
  virtual onnx::Sym scratchBytes(tsr::DispatchOp op, const DispatchSizes &sizes) const { return nullptr; }
  /// Workgroups the dispatch may be split into, or null for one.
  virtual onnx::Sym workgroups(tsr::DispatchOp op, const DispatchSizes &sizes) const { return nullptr; }

  /// Emits the loops. `e` is positioned in the kernel's body.
  virtual llvm::LogicalResult emit(tsr::DispatchOp op, KernelEmitter &e) const = 0;

  /// For roots whose result sizes only the data tell (NonZero, ...): number of
  /// i64 extents, and a kernel that writes them to output 0 (i64[count]); it
  /// has the same inputs. Extent k of the analysis is (result, axis) in the
  /// order of the Extent leaves of the root's results.
  virtual unsigned extentCount(mlir::Operation *root) const { return 0; }
  virtual llvm::LogicalResult emitExtents(tsr::DispatchOp op, KernelEmitter &e) const { return llvm::failure(); }
  /// Scratch bytes of the extents kernel, or null; only the operands' sizes are given.
  virtual onnx::Sym extentScratchBytes(tsr::DispatchOp op, const DispatchSizes &sizes) const { return nullptr; }

  /// Whether the kernel of `op` is to run in SME streaming mode on `isa`: the
  /// whole function is locally streaming with a fresh ZA, and the emitter's ISA
  /// has scalable vectors of the streaming length. Only asked where isa.hasSme2.
  virtual bool streams(tsr::DispatchOp op, const Isa &isa) const { return false; }

  /// Flush subnormals to zero while it runs (contraction, convolution,
  /// normalisation, recurrent only; never casts or elementwise).
  virtual bool flushesDenormals(mlir::Operation *root) const { return false; }
};

/// Registers `builder` for operation names such as "onnx.Conv".
struct RegisterKernel {
  RegisterKernel(std::initializer_list<llvm::StringRef> operations, std::unique_ptr<KernelBuilder> builder);
};
#define TESSERA_KERNEL(Class, ...)                                                                 \
  static ::tessera::cpu::RegisterKernel register##Class({__VA_ARGS__}, std::make_unique<Class>())

/// Builders for that root, in registration-independent (name, priority) order;
/// the first whose match() succeeds serves it. Usually one.
llvm::ArrayRef<const KernelBuilder *> kernelsFor(mlir::Operation *root);
/// The builder that serves `root`, or null with reasons.
const KernelBuilder *findKernel(mlir::Operation *root, Reasons &reasons);

// --- elementwise operators -------------------------------------------------

/// Emits one elementwise ONNX operator on values of equal lanes. Operand
/// values are in value types; absent optional operands are null. Registered
/// per operator in Elementwise*.cpp.
using ElementwiseFn = std::function<mlir::FailureOr<mlir::Value>(mlir::Operation *, llvm::ArrayRef<mlir::Value>, KernelEmitter &)>;
using ElementwiseMatch = std::function<llvm::LogicalResult(mlir::Operation *, Reasons &)>;
struct RegisterElementwise {
  RegisterElementwise(std::initializer_list<llvm::StringRef> operations, ElementwiseMatch match, ElementwiseFn emit);
};
bool isElementwise(mlir::Operation *op);
llvm::LogicalResult matchElementwise(mlir::Operation *op, Reasons &reasons);
mlir::FailureOr<mlir::Value> emitElementwiseOp(mlir::Operation *op, llvm::ArrayRef<mlir::Value> operands, KernelEmitter &e);

/// Moves `p`, a point of `op`'s result, to where operand `position` is read.
/// Most operators broadcast and need nothing; the scale and zero point of a
/// (de)quantiser follow an axis or its blocks.
llvm::LogicalResult mapElementwiseOperand(mlir::Operation *op, unsigned position, mlir::Value operand, Point &p,
                                          KernelEmitter &e);

/// Evaluates the part of a dispatch body that is fused around the root.
class Fusion {
public:
  Fusion(tsr::DispatchOp op, KernelEmitter &e) : op(op), e(e) {}
  /// Value of body value `v` at point `p` of v's own iteration space: a block
  /// argument is loaded (broadcast), a constant materialised, an elementwise
  /// operator evaluated recursively. `known` gives values already at hand.
  mlir::FailureOr<mlir::Value> valueAt(mlir::Value v, const Point &p,
                                       llvm::DenseMap<mlir::Value, mlir::Value> *known = nullptr);
  /// Prologue: the root's operand `operand` at `p` (indices of that operand's own shape).
  mlir::FailureOr<mlir::Value> loadFused(unsigned rootOperand, const Point &p);
  /// Epilogue: `rootValue` is the root's result at `p`; evaluates what follows
  /// and stores all of the dispatch's results there.
  llvm::LogicalResult storeFused(mlir::Value rootValue, const Point &p);
  bool hasEpilogue();
  /// Kernel tensor of the root's operand if it is a plain block argument, else null.
  const TensorRef *plainOperand(unsigned rootOperand);
  /// Constant of the root's operand if it is embedded in the body, else null.
  mlir::ElementsAttr constantOperand(unsigned rootOperand);

private:
  tsr::DispatchOp op;
  KernelEmitter &e;
};

} // namespace tessera::cpu
#endif

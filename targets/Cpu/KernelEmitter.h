// Builds the body of one kernel as scf + arith + math + vector + llvm IR.
//
// Conventions
//  * Indices, sizes and strides are i64 SSA values; constants fold on the way
//    (`constantOf`), so one builder text serves static and dynamic shapes.
//  * An element of a tensor is held in a register in its *value type*:
//        ONNX type                     value type
//        float, double                 f32, f64
//        float16, bfloat16, float8*,   f32, always exactly representable in
//        float4*                       the storage type (see `round`)
//        (u)int8 .. (u)int64           signless i8 .. i64
//        (u)int4, (u)int2              i8, sign- or zero-extended
//        bool                          i1 (stored as one byte 0 or 1)
//    or a vector of it. Signedness comes from the MLIR element type (ui8, i8).
//  * Nothing here calls a library: `Math.h` expands transcendental functions.
//  * Offsets and strides count elements of the storage type (packed sub-byte
//    types: elements too; load/store find byte and nibble).
#ifndef TESSERA_TARGETS_CPU_KERNELEMITTER_H
#define TESSERA_TARGETS_CPU_KERNELEMITTER_H

#include "dialects/Tsr/IR/TsrDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Value.h"
#include "runtime-stub/include/tessera/kernel_abi.h"
#include "targets/Cpu/Isa.h"

#include <functional>
#include <optional>

namespace tessera::cpu {

/// A tensor as a kernel sees it: base pointer, logical sizes and strides. The
/// layout shows only in the strides.
struct TensorRef {
  mlir::Value ptr;                    ///< !llvm.ptr to element (0, ..., 0)
  mlir::Type element;                 ///< MLIR element type of the ONNX tensor
  llvm::SmallVector<mlir::Value> dims;    ///< i64
  llvm::SmallVector<mlir::Value> strides; ///< i64, in elements
  tsr::Layout layout = tsr::Layout::RowMajor;
  unsigned rank() const { return dims.size(); }
};

/// A position of an iteration space: one logical index an axis. Along axis
/// `laneAxis` the lanes of a vector cover consecutive indices, starting at
/// index[laneAxis]; -1 means a scalar position. `mask` (vector of i1, may be
/// null) switches lanes off.
/// `dims` are the iteration space's sizes where the caller has them: a tensor
/// axis of the same (SSA) size is then known not to be broadcast.
struct Point {
  llvm::SmallVector<mlir::Value> index;
  llvm::SmallVector<mlir::Value> dims;
  int laneAxis = -1;
  Lanes lanes;
  mlir::Value mask;
};

class KernelEmitter {
public:
  KernelEmitter(mlir::OpBuilder &b, mlir::Location loc, const Isa &isa) : b(b), loc(loc), isa(isa) {}

  mlir::OpBuilder &b;
  mlir::Location loc;
  const Isa &isa;

  // --- the kernel's operands (set up by the driver) --------------------------
  /// Operand `i` of the dispatch; for a packed constant only `ptr` has meaning.
  llvm::SmallVector<TensorRef> inputs;
  llvm::SmallVector<TensorRef> outputs;
  mlir::Value scratch;    ///< !llvm.ptr, 64-byte aligned, or null
  mlir::Value workgroup;  ///< i64
  mlir::Value workgroups; ///< i64, the count this kernel was planned with
  llvm::SmallVector<mlir::Value> symbols; ///< run-time sizes, i64

  // --- types ---------------------------------------------------------------
  mlir::Type i1() { return b.getI1Type(); }
  mlir::Type i8() { return b.getI8Type(); }
  mlir::Type i32() { return b.getI32Type(); }
  mlir::Type i64() { return b.getI64Type(); }
  mlir::Type f32() { return b.getF32Type(); }
  mlir::Type f64() { return b.getF64Type(); }
  mlir::Type ptrType() { return mlir::LLVM::LLVMPointerType::get(b.getContext()); }
  /// Value type of an ONNX element type (table above).
  static mlir::Type valueType(mlir::Type element);
  /// `scalar` with lanes: itself when scalar, else vector<[n]xscalar>.
  static mlir::Type withLanes(mlir::Type scalar, Lanes lanes);
  /// The type of `like`'s shape (scalar or vector) with element type `scalar`.
  static mlir::Type sameShape(mlir::Value like, mlir::Type scalar);
  static mlir::Type scalarType(mlir::Type scalarOrVector);
  static bool isUnsigned(mlir::Type element) { return element.isUnsignedInteger(); }
  static bool isFloat(mlir::Type element) { return mlir::isa<mlir::FloatType>(element); }
  /// Bits of one element in memory (bool: 8; int4: 4).
  static unsigned storageBits(mlir::Type element);
  Lanes scalarLanes() const { return {1, false}; }

  // --- integers ------------------------------------------------------------
  mlir::Value idx(int64_t v) { return intConst(i64(), v); }
  mlir::Value intConst(mlir::Type type, int64_t v);   ///< scalar or splat vector
  mlir::Value floatConst(mlir::Type type, double v);  ///< scalar or splat vector
  /// Constant of the value type of `element` (converted with that type's rounding), shaped like lanes.
  static std::optional<int64_t> constantOf(mlir::Value v);
  mlir::Value add(mlir::Value a, mlir::Value c); ///< i64 arithmetic, folded
  mlir::Value sub(mlir::Value a, mlir::Value c);
  mlir::Value mul(mlir::Value a, mlir::Value c);
  mlir::Value divU(mlir::Value a, mlir::Value c); ///< non-negative operands
  mlir::Value remU(mlir::Value a, mlir::Value c);
  mlir::Value ceilDivU(mlir::Value a, mlir::Value c);
  mlir::Value minS(mlir::Value a, mlir::Value c);
  mlir::Value maxS(mlir::Value a, mlir::Value c);
  mlir::Value add(mlir::Value a, int64_t c) { return add(a, idx(c)); }
  mlir::Value sub(mlir::Value a, int64_t c) { return sub(a, idx(c)); }
  mlir::Value mul(mlir::Value a, int64_t c) { return mul(a, idx(c)); }
  mlir::Value cmp(mlir::arith::CmpIPredicate p, mlir::Value a, mlir::Value c);
  mlir::Value lt(mlir::Value a, mlir::Value c) { return cmp(mlir::arith::CmpIPredicate::slt, a, c); }
  mlir::Value eq(mlir::Value a, mlir::Value c) { return cmp(mlir::arith::CmpIPredicate::eq, a, c); }
  mlir::Value select(mlir::Value c, mlir::Value a, mlir::Value d);
  mlir::Value logicalAnd(mlir::Value a, mlir::Value c);
  mlir::Value logicalOr(mlir::Value a, mlir::Value c);
  mlir::Value logicalNot(mlir::Value a);
  mlir::Value product(llvm::ArrayRef<mlir::Value> factors);

  // --- control flow --------------------------------------------------------
  using Body = llvm::function_ref<void(mlir::Value iv)>;
  using BodyIter = llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::Value iv, mlir::ValueRange carried)>;
  /// for (iv = lower; iv < upper; iv += step). A loop that is known to run
  /// once is emitted without a loop, one known to run never not at all.
  void forLoop(mlir::Value lower, mlir::Value upper, mlir::Value step, Body body);
  void forLoop(mlir::Value upper, Body body) { forLoop(idx(0), upper, idx(1), body); }
  llvm::SmallVector<mlir::Value> forLoop(mlir::Value lower, mlir::Value upper, mlir::Value step,
                                         mlir::ValueRange init, BodyIter body);
  /// Nested loops over all of `dims`, outermost first.
  void forAll(llvm::ArrayRef<mlir::Value> dims, llvm::function_ref<void(llvm::ArrayRef<mlir::Value>)> body);
  void ifThen(mlir::Value cond, llvm::function_ref<void()> then);
  llvm::SmallVector<mlir::Value> ifElse(mlir::Value cond, mlir::TypeRange types,
                                        llvm::function_ref<llvm::SmallVector<mlir::Value>()> then,
                                        llvm::function_ref<llvm::SmallVector<mlir::Value>()> otherwise);
  /// `while (cond(carried)) carried = body(carried)`.
  llvm::SmallVector<mlir::Value> whileLoop(mlir::ValueRange init,
                                           llvm::function_ref<mlir::Value(mlir::ValueRange)> cond,
                                           llvm::function_ref<llvm::SmallVector<mlir::Value>(mlir::ValueRange)> body);
  /// Remembers status `code` (kernel_abi.h) for the kernel's result if `cond`
  /// holds; execution goes on, so the caller must keep its accesses in bounds
  /// (clamp the index). The first code stays.
  void failIf(mlir::Value cond, int32_t code);
  /// Mask of the operator now emitted (Fusion sets it), or null: lanes that are
  /// off hold anything and must not fail.
  mlir::Value activeLanes;

  // --- memory --------------------------------------------------------------
  /// ptr + offset elements of `element` (whole-byte types only).
  mlir::Value gep(mlir::Value ptr, mlir::Type element, mlir::Value offset);
  /// Raw typed access, `type` scalar or vector of int/float storage types.
  mlir::Value rawLoad(mlir::Type type, mlir::Value ptr, unsigned align = 0);
  void rawStore(mlir::Value value, mlir::Value ptr, unsigned align = 0);
  mlir::Value maskedLoad(mlir::Type type, mlir::Value ptr, mlir::Value mask, mlir::Value passThru);
  void maskedStore(mlir::Value value, mlir::Value ptr, mlir::Value mask);
  /// Offset in elements of logical index `index` (sizes of 1 are NOT broadcast here).
  mlir::Value offsetOf(const TensorRef &t, llvm::ArrayRef<mlir::Value> index);
  /// One element at `offset`, converted to its value type. Any element type.
  mlir::Value loadElement(const TensorRef &t, mlir::Value offset);
  void storeElement(const TensorRef &t, mlir::Value offset, mlir::Value value);
  /// Scalar load/store by logical index.
  mlir::Value load(const TensorRef &t, llvm::ArrayRef<mlir::Value> index) { return loadElement(t, offsetOf(t, index)); }
  void store(const TensorRef &t, llvm::ArrayRef<mlir::Value> index, mlir::Value v) { storeElement(t, offsetOf(t, index), v); }
  /// Contiguous lanes starting at `offset`, as vector of value type (whole-byte types).
  mlir::Value loadLanes(const TensorRef &t, mlir::Value offset, Lanes lanes, mlir::Value mask = {});
  void storeLanes(const TensorRef &t, mlir::Value offset, mlir::Value vector, mlir::Value mask = {});
  /// Load at a point of an iteration space of which `t` is broadcast (numpy
  /// rules, aligned at the trailing axis). Contiguous, splat or gathered along
  /// the lane axis, as the strides say.
  mlir::Value loadAt(const TensorRef &t, const Point &p);
  /// Store at a point; `t` has the iteration space's rank.
  void storeAt(const TensorRef &t, const Point &p, mlir::Value v);
  /// Mask of the lanes i with base + i < limit.
  mlir::Value laneMask(mlir::Value base, mlir::Value limit, Lanes lanes);
  /// Number of lanes as i64 (constant, or n * vscale).
  mlir::Value laneCount(Lanes lanes);
  /// Stack or scratch-like local array (fixed size, in the entry block).
  mlir::Value allocaBytes(uint64_t bytes, unsigned align = 64);

  // --- values (scalar or vector of value type) -------------------------------
  mlir::Value splat(mlir::Value scalar, Lanes lanes);
  /// Rounds an f32 value to what storage type `element` can hold (no-op for f32).
  mlir::Value round(mlir::Value v, mlir::Type element);
  /// a * b + c: fused where the ISA has it, else two roundings.
  mlir::Value fma(mlir::Value a, mlir::Value c, mlir::Value d);
  mlir::Value addF(mlir::Value a, mlir::Value c);
  mlir::Value subF(mlir::Value a, mlir::Value c);
  mlir::Value mulF(mlir::Value a, mlir::Value c);
  mlir::Value divF(mlir::Value a, mlir::Value c);
  mlir::Value cmpF(mlir::arith::CmpFPredicate p, mlir::Value a, mlir::Value c);
  /// NaN-propagating maximum and minimum (ONNX Max, Relu, MaxPool ...).
  mlir::Value maxF(mlir::Value a, mlir::Value c);
  mlir::Value minF(mlir::Value a, mlir::Value c);
  /// Horizontal reductions of a vector (a scalar is returned as it is).
  mlir::Value reduceAdd(mlir::Value vector);
  mlir::Value reduceMax(mlir::Value vector, bool isUnsignedInt = false);
  mlir::Value reduceMin(mlir::Value vector, bool isUnsignedInt = false);
  /// ONNX Cast between value types, by design.md §5 (saturating float->int, NaN -> 0 ...).
  mlir::Value cast(mlir::Value v, mlir::Type fromElement, mlir::Type toElement, bool saturate = true);

  /// For loops over one contiguous axis of `n` elements: calls `body(offset,
  /// lanes, mask)` with full vectors `unroll` at a time, then single vectors,
  /// then the tail (masked where that is cheap, else scalar lanes {1}).
  void vectorLoop(mlir::Value n, unsigned elementBits, unsigned unroll,
                  llvm::function_ref<void(mlir::Value offset, Lanes lanes, mlir::Value mask)> body);

  /// The lanes at offset, offset + stride, ... (for scalable vectors).
  mlir::Value gatherLanes(const TensorRef &t, mlir::Value offset, mlir::Value stride, const Point &p);

private:
  friend class KernelFunction;
  mlir::Value status; ///< !llvm.ptr to the i32 result
};

} // namespace tessera::cpu
#endif

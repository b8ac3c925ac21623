// Builds the body of one compute shader: spirv memory and built-ins around
// scf + arith + math + vector, which `Lower.h` turns into spirv.
//
// Conventions
//  * Indices are 32-bit; what is known at compile time stays a number (Index),
//    so that address arithmetic folds while it is built.
//  * A tensor is a flat array of scalars or of vectors of four (`Buffer`).
//    Values in registers have the CPU emitter's value types (float16 is f32
//    that float16 can hold, bool is i1), so the elementwise formulas are the
//    CPU's.
//  * All float arithmetic is marked NoContraction when lowered: drivers
//    re-associate otherwise, which breaks what the formulas rely on. `fma` is
//    a fused operation of its own.
#ifndef TESSERA_TARGETS_VULKAN_EMITTER_H
#define TESSERA_TARGETS_VULKAN_EMITTER_H

#include "targets/Cpu/KernelEmitter.h"
#include "targets/Vulkan/Compile.h"

namespace tessera::vulkan {

/// A 32-bit index: a value of type i32, if it has one, plus a number. So the
/// rows and columns of a tile share all arithmetic but one addition.
struct Index {
  mlir::Value v;
  int64_t c = 0;
  Index(int64_t c) : c(c) {}
  Index(mlir::Value v, int64_t c = 0) : v(v), c(c) {}
  bool known() const { return !v; }
  bool is(int64_t n) const { return !v && c == n; }
};

/// A tensor bound to the kernel. Offsets count elements.
struct Buffer {
  Binding binding;    ///< becomes one of the kernel's at the first access
  mlir::Type element; ///< of the ONNX tensor
  int64_t count = 0;  ///< elements
  bool written = false;
  unsigned lanes =
      1; ///< elements of one array entry: 1, or 4 if `count` allows
  llvm::SmallVector<int64_t> dims, strides;
  mlir::Value address; ///< made at the first access; fixes `lanes`
  unsigned rank() const { return dims.size(); }
  /// Asks for vectors of four before the first access; false if that cannot be.
  bool useVectors();
};

class Emitter : public cpu::KernelEmitter {
public:
  Emitter(mlir::OpBuilder &b, mlir::Location loc, const Device &device,
          Kernel &kernel, Reasons &reasons);

  const Device &device;
  Kernel
      &kernel; ///< groups, local and packed bindings are the builder's to set
  Reasons &reasons;
  llvm::SmallVector<std::unique_ptr<Buffer>> in, out; ///< of the dispatch

  // --- indices ---------------------------------------------------------------
  mlir::Value value(Index i); ///< as i32
  Index add(Index a, Index b);
  Index sub(Index a, Index b);
  Index mul(Index a, Index b);
  Index div(Index a, Index b); ///< of numbers >= 0
  Index rem(Index a, Index b);
  Index min(Index a, Index b); ///< signed
  Index max(Index a, Index b);
  mlir::Value lt(Index a, Index b); ///< signed; i1
  mlir::Value ge(Index a, Index b);
  mlir::Value both(mlir::Value a,
                   mlir::Value b); ///< a && b; either may be null for true
  /// Sum of at[i] * strides[i].
  Index offset(llvm::ArrayRef<Index> at, llvm::ArrayRef<int64_t> strides);
  /// Digits of `linear` in the mixed radix `dims`, the last the fastest.
  llvm::SmallVector<Index> digits(Index linear, llvm::ArrayRef<int64_t> dims);

  // --- the grid --------------------------------------------------------------
  Index groupId(unsigned axis);
  Index localId(unsigned axis);
  /// group * local size + local id; local must have been set.
  Index globalId(unsigned axis);
  /// Sets a one-dimensional grid of at least `threads` invocations, calls
  /// `body` with the number of those that are in range.
  void grid(int64_t threads, llvm::function_ref<void(Index)> body,
            unsigned local = 64);
  /// One invocation for each position of `sizes`, an axis of `like` each, whose
  /// neighbours in memory are neighbours in the grid.
  void gridLike(
      const Buffer &like, llvm::ArrayRef<int64_t> sizes,
      llvm::function_ref<void(Index id, llvm::SmallVector<Index> at)> body);

  // --- control ---------------------------------------------------------------
  using Step = llvm::function_ref<llvm::SmallVector<mlir::Value>(
      Index, mlir::ValueRange)>;
  /// for (i = first; i < end; i += step): values carried. One of one trip is no
  /// loop. More iterations than drivers run in an invocation (lavapipe: 65535
  /// of all its loops together, nested or one behind the other) are refused.
  llvm::SmallVector<mlir::Value> loop(Index first, int64_t end, int64_t step,
                                      mlir::ValueRange init, Step body);
  /// A loop by ones between bounds that the run computes, of `most` trips at
  /// most.
  llvm::SmallVector<mlir::Value> loopBetween(Index first, Index end,
                                             int64_t most,
                                             mlir::ValueRange init, Step body);
  /// `then` where `condition` (null: always) holds.
  void when(mlir::Value condition, llvm::function_ref<void()> then);
  mlir::Value choose(mlir::Value condition, mlir::Type type,
                     llvm::function_ref<mlir::Value()> then,
                     llvm::function_ref<mlir::Value()> otherwise);
  void barrier();

  // --- memory ----------------------------------------------------------------
  mlir::Value load(Buffer &t, Index offset); ///< one element, as value type
  /// Four elements from `4 * quad`.
  mlir::Value loadQuad(Buffer &t, Index quad);
  void store(Buffer &t, Index offset, mlir::Value v);
  void storeQuad(Buffer &t, Index quad, mlir::Value v);
  /// What lies in the array, unconverted.
  mlir::Value loadRaw(Buffer &t, Index entry);
  /// A constant that takes the place of operand `input`.
  Buffer &pack(unsigned input, mlir::Type element, std::vector<uint8_t> bytes);
  /// The bytes of `t`, which must be read by no other name, as elements of
  /// another type.
  Buffer &reinterpret(Buffer &t, mlir::Type element);
  /// `count` entries that a workgroup shares, of a scalar or vector type.
  mlir::Value shared(int64_t count, mlir::Type type);
  mlir::Value loadShared(mlir::Value array, Index i);
  void storeShared(mlir::Value array, Index i, mlir::Value v);

  // --- vectors ---------------------------------------------------------------
  mlir::Type quadOf(mlir::Type scalar) {
    return mlir::VectorType::get({4}, scalar);
  }
  mlir::Value lane(mlir::Value quad, unsigned i);
  mlir::Value quad(llvm::ArrayRef<mlir::Value> lanes);
  mlir::Value quadSplat(mlir::Value scalar);
  /// Lane `i` of `quad` four times.
  mlir::Value splatLane(mlir::Value quad, int i);
  /// Selects scalars or vectors by a scalar condition.
  mlir::Value pick(mlir::Value condition, mlir::Value a, mlir::Value b);
  /// Combines the four lanes.
  mlir::Value
  across(mlir::Value quad,
         llvm::function_ref<mlir::Value(mlir::Value, mlir::Value)> combine);

  /// Type of an array entry for `element`, or null with a reason.
  mlir::Type storageType(mlir::Type element);
  /// Fails, with a reason, if no binding has room for that many bytes.
  mlir::LogicalResult checkSize(uint64_t bytes, llvm::StringRef what);

private:
  mlir::Value compare(mlir::arith::CmpIPredicate predicate, Index a, Index c);
  llvm::SmallVector<mlir::Value> countedLoop(Index first, Index end,
                                             int64_t step, int64_t trips,
                                             mlir::ValueRange init, Step body);
  mlir::Value builtin(unsigned which, unsigned axis);
  mlir::Value addressOf(Buffer &t);
  mlir::Value entry(mlir::Value array, Index i, bool inStruct);
  mlir::Value widen(mlir::Value raw, mlir::Type element);
  mlir::Value narrow(mlir::Value v, mlir::Type element);
  llvm::SmallVector<std::unique_ptr<Buffer>> packed;
  mlir::Value builtins[2][3];
  unsigned sharedCount = 0;
  int64_t repeats = 1; ///< of what is emitted now: trips of the loops around it
  int64_t iterations = 0; ///< of an invocation, at most, in the loops so far
};

/// What CPU formulas see of the GPU: fused multiply-add, native float16.
const cpu::Isa &formulaIsa();

} // namespace tessera::vulkan
#endif

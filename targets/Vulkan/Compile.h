// From one dispatch to one compute shader: the contract of the GPU's code
// generator.
//
// In: a `tsr.dispatch` after `tsr-bind-shapes` whose sizes are all static, and
// the device's limits. Out: SPIR-V 1.3 words for Vulkan 1.1 with everything a
// host needs to record the dispatch, or all reasons why there is none. The
// audit's verdict is this very function: what it compiles runs, and nothing
// else does.
//
// What the host has to do
//  * Bind storage buffer `i` of descriptor set 0 to `bindings[i]`: a range of
//    exactly `bytes` bytes, at an offset that is a multiple of 16 and of the
//    device's minStorageBufferOffsetAlignment. Input and output i are the
//    dispatch's operands and results; Packed is a constant that the compiler
//    made, to be uploaded once, in place of constant operand `index`.
//  * No output may overlap an input or another output: kernels declare their
//    buffers `Restrict`, inputs also `NonWritable`.
//  * Dispatch `groups` workgroups. The local size is in the module. If one
//    count is 0 there is nothing to do (`words` is empty then).
//  * A barrier (compute to compute, shader write to shader read and write)
//    between kernels that depend on each other. Kernels assume nothing about
//    the subgroup's size and keep no state.
//  * Enable the device features named in `features`; for `dot` also
//    VK_KHR_shader_integer_dot_product, for 8-bit storage below Vulkan 1.2
//    VK_KHR_8bit_storage, for 16-bit and 8-bit arithmetic
//    VK_KHR_shader_float16_int8.
//
// Tensors lie in buffers as in the CPU's memory: dense, in the dispatch's
// layout, bool as one byte. There are no push or specialization constants: all
// sizes are in the code.
#ifndef TESSERA_TARGETS_VULKAN_COMPILE_H
#define TESSERA_TARGETS_VULKAN_COMPILE_H

#include "dialects/Tsr/IR/TsrDialect.h"
#include "mlir/IR/MLIRContext.h"
#include "targets/Vulkan/Device.h"
#include "targets/Vulkan/Reasons.h"

namespace tessera::vulkan {

enum class BindingKind : uint8_t { Input, Output, Packed };

struct Binding {
  BindingKind kind;
  unsigned index; ///< operand of the dispatch, or result for Output
  uint64_t bytes;
  std::vector<uint8_t> packed; ///< contents of a Packed binding
};

struct Kernel {
  std::vector<uint32_t> words; ///< SPIR-V 1.3
  std::string entry = "main";
  std::array<uint32_t, 3> groups = {0, 0, 0};
  std::array<uint32_t, 3> local = {1, 1, 1};
  std::vector<Binding>
      bindings; ///< by binding number; operands that no code reads have none
  std::vector<Feature> features; ///< needed, ascending
};

/// To be called once for a context before `compileDispatch`, which may then run
/// on several threads.
void loadDialects(mlir::MLIRContext *context);

/// Compiles `op` for `device`. Adds every reason found to `reasons` and fails
/// if the GPU cannot compute it. Emits no diagnostics for that. The result is a
/// function of the dispatch, its constant operands and `device`.
mlir::FailureOr<Kernel> compileDispatch(tsr::DispatchOp op,
                                        const Device &device, Reasons &reasons);

} // namespace tessera::vulkan
#endif

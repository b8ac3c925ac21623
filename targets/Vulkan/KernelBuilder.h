// The interface between dispatches and the shaders that compute them: the same
// dispatches and kernel classes as the CPU's.
//
// A builder serves some ONNX operators as roots; it registers itself by a
// static `Register` beside its definition and nothing else lists operators. Its
// one method decides and does: it emits the shader, or says why not.
#ifndef TESSERA_TARGETS_VULKAN_KERNELBUILDER_H
#define TESSERA_TARGETS_VULKAN_KERNELBUILDER_H

#include "targets/Vulkan/Fusion.h"

namespace tessera::vulkan {

/// Emits the kernel of `op`, whose root it serves, and sets the grid. Must look
/// at every attribute and operand of the root: what is not understood is
/// refused, with a reason. Element types have been checked against the device.
using EmitFn = mlir::LogicalResult (*)(tsr::DispatchOp op, Emitter &e);

struct Register {
  Register(std::initializer_list<llvm::StringRef> operations, EmitFn emit);
};
/// The builder for operators named so ("onnx.Conv"), or null.
EmitFn findBuilder(llvm::StringRef operation);
/// A chain of elementwise operators without a root.
mlir::LogicalResult emitElementwise(tsr::DispatchOp op, Emitter &e);

} // namespace tessera::vulkan
#endif

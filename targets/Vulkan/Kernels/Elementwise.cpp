// Chains of elementwise operators: one invocation for four elements, or for one
// where rows are not made of quads.
#include "targets/Vulkan/KernelBuilder.h"

using namespace mlir;

namespace tessera::vulkan {

LogicalResult emitElementwise(tsr::DispatchOp op, Emitter &e) {
  Fusion fusion(op, e);
  fusion.mergeAxes();
  int lanes = fusion.laneAxis();
  fusion.useVectors(lanes);
  SmallVector<int64_t> dims(fusion.dims());
  if (lanes >= 0)
    dims[lanes] /= 4;
  int64_t threads = 1;
  for (int64_t d : dims)
    threads *= d;
  LogicalResult result = success();
  e.grid(threads, [&](Index id) {
    result = fusion.store({}, {e.digits(id, dims), lanes});
  });
  return result;
}

} // namespace tessera::vulkan

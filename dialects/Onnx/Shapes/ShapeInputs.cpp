// The symbols of the function's arguments.
//
// An open dimension is a leaf; its bounds are those of `--dim`, else [0, 2^31).
// Names of dimensions (dim_param) are documentation: models use one name for
// sizes that differ, and are right under the operators' own rules. So every open
// dimension is a symbol of its own. Bounds (onnx.ranges) are an attribute of the
// argument, described in compiler/Import/Import.h.
#include "dialects/Onnx/Shapes/ShapeRules.h"

using namespace mlir;

namespace tessera::onnx {

// Larger dimensions than this are refused when the inputs are set; exporters
// write INT32_MAX for "to the end" in Slice.
static constexpr int64_t maxDimension = INT32_MAX;

void bindArguments(func::FuncOp func, ShapeEngine &engine) {
  for (BlockArgument arg : func.getArguments()) {
    auto type = dyn_cast<RankedTensorType>(arg.getType());
    if (!type) {
      engine.setUnknown(arg, {"it is an input without a declared rank", !isa<TensorType>(arg.getType())});
      continue;
    }
    unsigned number = arg.getArgNumber();
    auto ranges = func.getArgAttrOfType<DenseI64ArrayAttr>(number, "onnx.ranges");
    SymDims dims;
    for (auto [axis, size] : llvm::enumerate(type.getShape())) {
      if (!ShapedType::isDynamic(size)) {
        dims.push_back(engine.ctx.constant(size));
        continue;
      }
      int64_t min = 0, max = maxDimension;
      for (int64_t i = 0; ranges && i + 3 < ranges.size(); i += 4)
        if (ranges[i] == static_cast<int64_t>(axis)) {
          min = std::max<int64_t>(ranges[i + 1], 0);
          max = std::min(ranges[i + 2], maxDimension);
        }
      Sym leaf = engine.ctx.leaf(SymKind::InputDim, arg, axis, min, max);
      dims.push_back(leaf);
    }
    engine.setDims(arg, dims);
  }
}

} // namespace tessera::onnx

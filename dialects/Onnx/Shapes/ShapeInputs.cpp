// The symbols of the function's arguments.
//
// An open dimension is a leaf; its bounds are those of `--dim`, else [0, 2^31).
// Dimensions of one name are one symbol, the first; that the others equal it is
// a requirement. Attributes of the argument, written by the importer:
//   onnx.dim_names  = ["batch", "", "seq"]        one a dimension, "" for none
//   onnx.dim_bounds = array<i64: min, max, multiple, ...>  three a dimension
#include "dialects/Onnx/Shapes/ShapeRules.h"

using namespace mlir;

namespace tessera::onnx {

// Larger dimensions than this are refused when the inputs are set; exporters
// write INT32_MAX for "to the end" in Slice.
static constexpr int64_t maxDimension = INT32_MAX;

void bindArguments(func::FuncOp func, ShapeEngine &engine) {
  llvm::StringMap<Sym> named;
  for (BlockArgument arg : func.getArguments()) {
    auto type = dyn_cast<RankedTensorType>(arg.getType());
    if (!type) {
      engine.setUnknown(arg, {"it is an input without a declared rank", !isa<TensorType>(arg.getType())});
      continue;
    }
    unsigned number = arg.getArgNumber();
    auto names = func.getArgAttrOfType<ArrayAttr>(number, "onnx.dim_names");
    auto bounds = func.getArgAttrOfType<DenseI64ArrayAttr>(number, "onnx.dim_bounds");
    SymDims dims;
    for (auto [axis, size] : llvm::enumerate(type.getShape())) {
      if (!ShapedType::isDynamic(size)) {
        dims.push_back(engine.ctx.constant(size));
        continue;
      }
      int64_t min = 0, max = maxDimension;
      if (bounds && bounds.size() == 3 * type.getRank()) {
        min = std::max<int64_t>(bounds[3 * axis], 0);
        max = std::min(bounds[3 * axis + 1], maxDimension);
      }
      Sym leaf = engine.ctx.leaf(SymKind::InputDim, arg, axis, min, max);
      StringRef name;
      if (names && axis < names.size())
        if (auto text = dyn_cast<StringAttr>(names[axis]))
          name = text.getValue();
      if (!name.empty()) {
        auto [it, fresh] = named.try_emplace(name, leaf);
        if (!fresh) {
          engine.require(func, engine.ctx.equal(leaf, it->second),
                         ("input dimensions named '" + name + "' must be equal: " + toString(leaf) +
                          " and " + toString(it->second))
                             .str());
          leaf = it->second;
        }
      }
      dims.push_back(leaf);
    }
    engine.setDims(arg, dims);
  }
}

} // namespace tessera::onnx

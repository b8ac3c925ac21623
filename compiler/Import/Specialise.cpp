// --dim: dimensions that the user fixes or bounds.
#include "compiler/Import/Model.h"

namespace tessera {

mlir::FailureOr<DimSpec> parseDimSpec(llvm::StringRef text, std::string &error) {
  auto refuse = [&](const std::string &why) -> mlir::FailureOr<DimSpec> {
    error = "--dim " + text.str() + ": " + why;
    return mlir::failure();
  };
  auto [name, value] = text.rsplit('=');
  if (name.empty() || value.empty() || name.size() == text.size())
    return refuse("expected NAME=VALUE, NAME=MIN..MAX or NAME=MIN..MAX:MULTIPLE");
  DimSpec spec;
  spec.name = name.str();
  auto [range, multiple] = value.split(':');
  if (!multiple.empty() && (multiple.getAsInteger(10, spec.multiple) || spec.multiple < 1))
    return refuse("the multiple must be a positive number");
  auto [low, high] = range.split("..");
  bool isRange = range.contains("..");
  if (low.getAsInteger(10, spec.min) || (isRange && high.getAsInteger(10, spec.max)))
    return refuse("expected NAME=VALUE, NAME=MIN..MAX or NAME=MIN..MAX:MULTIPLE");
  if (!isRange)
    spec.max = spec.min;
  if (spec.min < 0 || spec.max < spec.min)
    return refuse("the range is empty or negative");
  int64_t rest = spec.min % spec.multiple;
  if (rest && spec.max - spec.min < spec.multiple - rest)
    return refuse("no multiple of " + std::to_string(spec.multiple) + " is in the range");
  return spec;
}

namespace onnx_import {

namespace {

void substitute(TypeProto &type, const std::string &name, int64_t value) {
  if (type.has_tensor_type()) {
    for (auto &dim : *type.mutable_tensor_type()->mutable_shape()->mutable_dim())
      if (dim.has_dim_param() && dim.dim_param() == name)
        dim.set_dim_value(value);
  } else if (type.has_sequence_type()) {
    substitute(*type.mutable_sequence_type()->mutable_elem_type(), name, value);
  } else if (type.has_optional_type()) {
    substitute(*type.mutable_optional_type()->mutable_elem_type(), name, value);
  }
}

bool hasShape(const TypeProto &type) {
  return type.has_tensor_type() && type.tensor_type().has_shape();
}

void substitute(GraphProto &graph, const std::string &name, int64_t value) {
  forEachGraph(graph, [&](GraphProto &g) {
    for (auto *list : {g.mutable_input(), g.mutable_output(), g.mutable_value_info()})
      for (ValueInfoProto &v : *list)
        if (!v.type().has_tensor_type() || hasShape(v.type()))
          substitute(*v.mutable_type(), name, value);
  });
}

[[noreturn]] void unknownDim(const GraphProto &graph, const std::string &name) {
  std::string known;
  for (auto &v : graph.input()) {
    if (!hasShape(v.type()))
      continue;
    for (auto [i, dim] : llvm::enumerate(v.type().tensor_type().shape().dim()))
      if (!dim.has_dim_value())
        known += (known.empty() ? "" : ", ") +
                 (dim.dim_param().empty() ? v.name() + "." + std::to_string(i) : dim.dim_param());
  }
  ImportError error("--dim " + name + ": no input has such a dimension");
  error.notes.push_back(known.empty() ? "all dimensions of the inputs are fixed"
                                      : "dynamic dimensions: " + known);
  throw error;
}

} // namespace

void specialiseDims(Model &model, const ImportOptions &options) {
  GraphProto &graph = *model.proto.mutable_graph();
  for (const DimSpec &spec : options.dims) {
    std::string param = spec.name;
    bool found = false;
    for (auto &v : graph.input())
      if (hasShape(v.type()))
        for (auto &dim : v.type().tensor_type().shape().dim())
          found |= dim.has_dim_param() && dim.dim_param() == param;
    if (!found) {
      auto [input, axisText] = llvm::StringRef(spec.name).rsplit('.');
      int axis;
      if (axisText.getAsInteger(10, axis))
        unknownDim(graph, spec.name);
      for (ValueInfoProto &v : *graph.mutable_input()) {
        if (v.name() != input || !hasShape(v.type()))
          continue;
        auto &shape = *v.mutable_type()->mutable_tensor_type()->mutable_shape();
        if (axis < -shape.dim_size() || axis >= shape.dim_size())
          throw ImportError("--dim " + spec.name + ": input '" + v.name() + "' has rank " +
                            std::to_string(shape.dim_size()));
        if (axis < 0)
          axis += shape.dim_size();
        auto &dim = *shape.mutable_dim(axis);
        found = true;
        param.clear();
        if (dim.has_dim_value()) {
          if (dim.dim_value() < spec.min || dim.dim_value() > spec.max ||
              dim.dim_value() % spec.multiple)
            throw ImportError("--dim " + spec.name + ": the model fixes this dimension at " +
                              std::to_string(dim.dim_value()));
        } else if (!dim.dim_param().empty() && dim.dim_param() != "?") { // "?": of no name
          param = dim.dim_param();
        } else if (spec.isStatic()) {
          dim.set_dim_value(spec.min);
        } else {
          model.ranges[{v.name(), axis}] = spec;
        }
      }
      if (!found)
        unknownDim(graph, spec.name);
      if (param.empty())
        continue;
    }
    if (spec.isStatic()) {
      substitute(graph, param, spec.min);
      continue;
    }
    for (auto &v : graph.input())
      if (hasShape(v.type()))
        for (auto [i, dim] : llvm::enumerate(v.type().tensor_type().shape().dim()))
          if (dim.has_dim_param() && dim.dim_param() == param)
            model.ranges[{v.name(), (int)i}] = spec;
  }
}

} // namespace onnx_import
} // namespace tessera

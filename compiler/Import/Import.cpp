#include "compiler/Import/Import.h"
#include "compiler/Import/FromMemory.h"
#include "compiler/Import/Model.h"
#include "dialects/Onnx/IR/OnnxDialect.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;

namespace tessera {

using namespace onnx_import;

// An initialiser that is an input as well can be overridden by the caller, so
// nothing may be derived from its value.
static void separateDefaults(Model &model, const ImportOptions &options) {
  GraphProto &graph = *model.proto.mutable_graph();
  llvm::StringMap<bool> inputs;
  for (auto &v : graph.input())
    inputs[v.name()] = true;
  google::protobuf::RepeatedPtrField<TensorProto> constants;
  for (TensorProto &t : *graph.mutable_initializer()) {
    if (!inputs.contains(t.name()))
      constants.Add()->Swap(&t);
    else
      model.defaults[t.name()].Swap(&t);
  }
  if (options.freezeInitializers) {
    for (auto &[name, t] : model.defaults)
      constants.Add()->Swap(&t);
    google::protobuf::RepeatedPtrField<ValueInfoProto> rest;
    for (ValueInfoProto &v : *graph.mutable_input())
      if (!model.defaults.contains(v.name()))
        rest.Add()->Swap(&v);
    graph.mutable_input()->Swap(&rest);
    model.defaults.clear();
  }
  graph.mutable_initializer()->Swap(&constants);
}

// All phases; `load` puts the protobuf into the model.
static FailureOr<OwningOpRef<ModuleOp>> import(Model &model, const ImportOptions &options,
                                               MLIRContext *context,
                                               llvm::function_ref<void()> load) {
  context->loadDialect<onnx::OnnxDialect, func::FuncDialect>();
  Builder b(context);
  Location file = FileLineColLoc::get(b.getStringAttr(model.path), 0, 0);
  auto report = [&](const std::string &message, const std::string &node,
                    ArrayRef<std::string> notes) {
    Location loc = node.empty() ? file : Location(NameLoc::get(b.getStringAttr(node), file));
    InFlightDiagnostic diagnostic = emitError(loc) << message;
    for (const std::string &note : notes)
      diagnostic.attachNote(loc) << note;
  };

  OwningOpRef<ModuleOp> module;
  try {
    load();
    sortModel(model.proto);
    checkModel(model);
    separateNames(model);
    separateDefaults(model, options);
    lowerContrib(model);
    inlineFunctions(model);
    specialiseDims(model, options);
    upgradeModel(model);
    inferTypes(model);
    module = buildModule(model, options, context);
  } catch (const ImportError &e) {
    report(e.what(), e.node, e.notes);
    return failure();
  } catch (const std::bad_alloc &) {
    report("out of memory", "", {});
    return failure();
  } catch (const std::exception &e) {
    report(std::string("the model cannot be read: ") + e.what(), "", {});
    return failure();
  }
  for (const std::string &warning : model.warnings)
    emitWarning(file) << warning;
  if (failed(verify(*module)))
    return failure();
  return module;
}

FailureOr<OwningOpRef<ModuleOp>> importOnnx(StringRef path, const ImportOptions &options,
                                            MLIRContext *context,
                                            std::vector<std::string> *externalFiles) {
  Model model;
  model.path = path.str();
  size_t slash = model.path.rfind('/');
  model.folder = slash == std::string::npos ? "." : slash == 0 ? "/" : model.path.substr(0, slash);
  auto module = import(model, options, context, [&] { loadModel(model, options); });
  if (succeeded(module) && externalFiles) {
    llvm::sort(model.externalFiles);
    *externalFiles = std::move(model.externalFiles);
  }
  return module;
}

FailureOr<OwningOpRef<ModuleOp>> importFromMemory(::onnx::ModelProto proto, StringRef origin,
                                                  const ImportOptions &options, MLIRContext *context) {
  Model model;
  model.path = origin.str();
  return import(model, options, context, [&] {
    model.irVersion = proto.ir_version();
    model.proto.Swap(&proto);
  });
}

FailureOr<OwningOpRef<ModuleOp>> importModel(::onnx::ModelProto proto, MLIRContext *context) {
  std::string name = proto.graph().name();
  return importFromMemory(std::move(proto), name, ImportOptions(), context);
}

} // namespace tessera

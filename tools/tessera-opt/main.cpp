// Runs passes over textual IR: the driver of the lit tests.
//
//   tessera-opt [PASSES] FILE.mlir
//   tessera-opt --import MODEL.onnx [--dim NAME=VALUE]... [--freeze] [--full] [--quiet]
//               [--then PIPELINE]
//   tessera-opt --tosa-read [--ethosu-check CONFIG]... FILE.tosa...
//   tessera-opt --gpu-kernels DIR [--features WORD,...] [--dim NAME=VALUE]... MODEL.onnx
//
// The second form prints the imported module (after the passes of PIPELINE), large
// weights left out unless --full; several models may be named, then only failures
// are printed. The third prints the module of a TOSA file, or for each accelerator
// ("ethos-u55-256") whether it can run the file, or every reason why not. The fourth
// writes the model's shaders (GpuKernels.h).
#include "compiler/Import/Import.h"
#include "compiler/Registration.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "tools/tessera-opt/GpuKernels.h"
#include "tools/tessera-opt/TosaFiles.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;

static int importModels(ArrayRef<StringRef> args) {
  tessera::ImportOptions options;
  SmallVector<StringRef> paths;
  StringRef pipeline;
  bool quiet = false, full = false;
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i] == "--dim" && i + 1 < args.size()) {
      std::string error;
      auto spec = tessera::parseDimSpec(args[++i], error);
      if (failed(spec)) {
        llvm::errs() << error << "\n";
        return 2;
      }
      options.dims.push_back(*spec);
    } else if (args[i] == "--freeze") {
      options.freezeInitializers = true;
    } else if (args[i] == "--full") {
      full = true;
    } else if (args[i] == "--quiet") {
      quiet = true;
    } else if (args[i] == "--then" && i + 1 < args.size()) {
      pipeline = args[++i];
    } else {
      paths.push_back(args[i]);
    }
  }
  DialectRegistry registry;
  tessera::registerDialects(registry);
  tessera::registerPasses();
  unsigned failures = 0;
  for (StringRef path : paths) {
    MLIRContext context(registry, MLIRContext::Threading::DISABLED);
    llvm::SourceMgr sources;
    SourceMgrDiagnosticHandler handler(sources, &context, llvm::errs());
    auto module = tessera::importOnnx(path, options, &context);
    if (succeeded(module) && !pipeline.empty()) {
      PassManager passes(&context, ModuleOp::getOperationName());
      if (failed(parsePassPipeline(pipeline, passes)) || failed(passes.run(**module)))
        module = failure();
    }
    if (failed(module)) {
      ++failures;
      if (paths.size() > 1)
        llvm::outs() << "FAIL " << path << "\n";
      continue;
    }
    if (!quiet && paths.size() == 1) {
      OpPrintingFlags flags;
      if (!full)
        flags.elideLargeElementsAttrs(16).elideLargeResourceString(64);
      (*module)->print(llvm::outs(), flags);
    }
  }
  if (paths.size() > 1)
    llvm::outs() << paths.size() - failures << " of " << paths.size() << " models imported\n";
  return failures ? 1 : 0;
}

int main(int argc, char **argv) {
  if (argc > 1 && StringRef(argv[1]) == "--import") {
    SmallVector<StringRef> args(argv + 2, argv + argc);
    return importModels(args);
  }
  if (argc > 1 && StringRef(argv[1]) == "--tosa-read")
    return readTosaFiles(SmallVector<StringRef>(argv + 2, argv + argc));
  if (argc > 1 && StringRef(argv[1]) == "--gpu-kernels")
    return writeGpuKernels(SmallVector<StringRef>(argv + 2, argv + argc));
  DialectRegistry registry;
  tessera::registerDialects(registry);
  tessera::registerPasses();
  return asMainReturnCode(MlirOptMain(argc, argv, "Tessera pass driver\n", registry));
}

// libFuzzer on import: any bytes give a module or diagnostics, in little time and
// memory. The bytes go through a file, since loading maps it.
#include "compiler/Import/Import.h"
#include "compiler/Registration.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"

#include <cstdio>
#include <memory>
#include <string>
#include <unistd.h>

using namespace mlir;

static std::unique_ptr<MLIRContext> freshContext() {
  DialectRegistry registry;
  tessera::registerDialects(registry);
  auto context = std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  context->loadAllAvailableDialects();
  return context;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const std::string path = "/dev/shm/tessera-import-" + std::to_string(getpid()) + ".onnx";
  static std::unique_ptr<MLIRContext> context;
  static unsigned runs = 0;
  if (runs++ % 500 == 0) // a context keeps every type and attribute it ever saw
    context = freshContext();
  FILE *file = fopen(path.c_str(), "wb");
  if (!file)
    return 0;
  fwrite(data, 1, size, file);
  fclose(file);
  ScopedDiagnosticHandler quiet(context.get(), [](Diagnostic &) { return success(); });
  tessera::ImportOptions options;
  options.maxTensorBytes = 1 << 26;
  (void)tessera::importOnnx(path, options, context.get());
  remove(path.c_str());
  return 0;
}

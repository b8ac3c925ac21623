// libFuzzer on import: any bytes give a module or diagnostics, in little time and
// memory. The bytes go through a file in memory, since loading maps it; its name
// is the same in every run, for a run to repeat another.
#include "compiler/Import/Import.h"
#include "compiler/Registration.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"

#include <cstdlib>
#include <memory>
#include <string>
#include <sys/mman.h>
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
  static const int fd = memfd_create("model", MFD_CLOEXEC);
  static const std::string path = "/proc/self/fd/" + std::to_string(fd);
  static std::unique_ptr<MLIRContext> context;
  static unsigned runs = 0;
  if (runs++ % 500 == 0) // a context keeps every type and attribute it ever saw
    context = freshContext();
  if (ftruncate(fd, 0) || pwrite(fd, data, size, 0) != (ssize_t)size)
    abort();
  ScopedDiagnosticHandler quiet(context.get(), [](Diagnostic &) { return success(); });
  tessera::ImportOptions options;
  options.maxTensorBytes = 1 << 26;
  (void)tessera::importOnnx(path, options, context.get());
  return 0;
}

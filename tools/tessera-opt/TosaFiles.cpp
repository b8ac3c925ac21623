#include "tools/tessera-opt/TosaFiles.h"
#include "compiler/Registration.h"
#include "mlir/IR/DialectRegistry.h"
#include "targets/EthosU/Limits.h"
#include "targets/Tosa/Serialise.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace tessera;

namespace {

/// "FILE CONFIG: placeable", or "FILE CONFIG: " and a reason, a line each.
void printVerdict(StringRef path, const ethosu::Accelerator &accelerator,
                  ModuleOp module) {
  SmallVector<std::string> reasons;
  module.walk([&](Operation *op) {
    llvm::append_range(reasons, ethosu::violations(op, accelerator));
  });
  if (reasons.empty())
    reasons.push_back("placeable");
  for (const std::string &reason : reasons)
    llvm::outs() << path << " " << accelerator.config << ": " << reason << "\n";
}

LogicalResult readFile(StringRef path,
                       ArrayRef<ethosu::Accelerator> accelerators,
                       MLIRContext &context) {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer) {
    llvm::errs() << path.str() << ": " << buffer.getError().message() << "\n";
    return failure();
  }
  StringRef text = (*buffer)->getBuffer();
  auto module = tosa::readTosa(
      {reinterpret_cast<const uint8_t *>(text.data()), text.size()}, &context);
  if (failed(module)) {
    llvm::errs() << path.str() << ": cannot be read\n";
    return failure();
  }
  for (const ethosu::Accelerator &a : accelerators)
    printVerdict(path, a, **module);
  if (accelerators.empty()) {
    (*module)->print(
        llvm::outs(),
        OpPrintingFlags().elideLargeElementsAttrs(16).elideLargeResourceString(
            64));
    llvm::outs() << "\n";
  }
  return success();
}

} // namespace

int readTosaFiles(ArrayRef<StringRef> args) {
  SmallVector<StringRef> paths;
  SmallVector<ethosu::Accelerator> accelerators;
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i] != "--ethosu-check") {
      paths.push_back(args[i]);
      continue;
    }
    StringRef config = i + 1 < args.size() ? args[++i] : "";
    auto found = ethosu::findAccelerator(config);
    if (!found) {
      llvm::errs() << "accelerator '" << config << "' is none of";
      for (const ethosu::Accelerator &a : ethosu::allAccelerators())
        llvm::errs() << " " << a.config;
      llvm::errs() << "\n";
      return 2;
    }
    accelerators.push_back(*found);
  }
  DialectRegistry registry;
  registerDialects(registry);
  bool ok = true;
  for (StringRef path : paths) {
    MLIRContext context(registry, MLIRContext::Threading::DISABLED);
    ok &= succeeded(readFile(path, accelerators, context));
  }
  return ok ? 0 : 1;
}

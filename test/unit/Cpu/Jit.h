// Compiles one elementwise operator for a CPU variant of this machine and runs
// it: kernels are checked here without importer, plan or loader.
#ifndef TESSERA_TEST_UNIT_CPU_JIT_H
#define TESSERA_TEST_UNIT_CPU_JIT_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/MLIRContext.h"
#include "targets/Cpu/Compile.h"

#include <string>
#include <vector>

namespace tessera::test {

/// "onnx.Exp" over element types such as {"f32"} -> "f32". All operands are
/// 1-D of run-time length n, or scalars where `scalar` says so ("" = absent).
struct OpSpec {
  std::string name;
  std::vector<std::string> operands;
  std::string result;
  std::string attributes; ///< MLIR text without braces
  std::vector<bool> scalar;
};

using Kernel = int32_t (*)(void *const *, const int64_t *, uint64_t);

/// One image for many operators.
class Jit {
public:
  /// Without `load` the image is only made, for any variant.
  Jit(const std::vector<OpSpec> &specs, llvm::StringRef isa, bool load = true);
  ~Jit();
  bool ok() const { return made; }
  /// Runs operator `i`; `buffers` are its present operands, then the result.
  int32_t run(size_t i, std::vector<const void *> buffers, int64_t n) const;

private:
  bool made = false;
  void *image = nullptr;
  std::vector<uint64_t> entries;
  uint64_t base = 0;
};

/// Variants that this machine can run.
std::vector<std::string> runnableIsas();

} // namespace tessera::test
#endif

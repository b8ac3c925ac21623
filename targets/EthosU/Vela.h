// Vela, the vendor's compiler for Ethos-U, as a child process.
//
// The child is a Python interpreter with ethos-u-vela in it, which serves one
// TOSA file after the other over a socket (VelaWorker.py). It may hang, die or
// talk nonsense: a call ends by its deadline, the child is killed with all of
// its process group, and what it says is read as a stranger's. It writes no
// file.
#ifndef TESSERA_TARGETS_ETHOSU_VELA_H
#define TESSERA_TARGETS_ETHOSU_VELA_H

#include "targets/VendorError.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"

#include <memory>
#include <string>
#include <vector>

namespace tessera::ethosu {

/// The version whose limits and bytes are known; no other is accepted.
constexpr const char *velaVersion = "5.2.0";

/// What Vela compiles for: its words, all given (its defaults differ by
/// family).
struct VelaConfig {
  std::string accelerator; ///< "ethos-u55-256"
  std::string
      systemConfig; ///< section of Arm/vela.ini, "Ethos_U55_High_End_Embedded"
  std::string memoryMode; ///< "Shared_Sram"
};

/// An input or output in the memory of a region.
struct VelaTensor {
  uint64_t address = 0, size = 0; ///< bytes
  uint32_t region = 0, elementSize = 0;
};

/// A compiled file.
struct VelaResult {
  std::vector<uint8_t> commands, weights;
  uint64_t scratch = 0, scratchFast = 0; ///< bytes
  uint32_t weightsRegion = 0, scratchRegion = 0, scratchFastRegion = 0;
  std::vector<VelaTensor> inputs, outputs; ///< in the order of the file's
  int64_t cycles = 0;                      ///< estimated, memory included
  int64_t macs = 0, npuOps = 0;
  double clock = 0; ///< Hz

  /// Estimated time of one run.
  double nanoseconds() const { return double(cycles) * 1e9 / clock; }
};

using VelaError = VendorError;

struct VelaOptions {
  /// A Python interpreter whose environment has ethos-u-vela. If empty:
  /// $TESSERA_VELA_PYTHON, then the interpreter beside `vela` on $PATH.
  std::string python;
  unsigned seconds = 120; ///< for one file, and for the start
};

class Vela {
public:
  explicit Vela(VelaOptions options);
  ~Vela();
  Vela(const Vela &) = delete;

  /// Compiles one TOSA file. Starts the child at need. Errors are VelaErrors.
  llvm::Expected<VelaResult> compile(llvm::ArrayRef<uint8_t> tosa,
                                     const VelaConfig &config);
  /// Starts the child, if it does not run: that it can be had, and is the
  /// version wanted.
  llvm::Error start();

private:
  struct Child;
  VelaOptions options;
  std::unique_ptr<Child> child; ///< null before the start and after a death
};

} // namespace tessera::ethosu
#endif

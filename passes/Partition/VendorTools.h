// The vendors' compilers of a target's units, as the partitioner asks them: may
// this region go there, what does it cost, what are its bytes.
#ifndef TESSERA_PASSES_PARTITION_VENDORTOOLS_H
#define TESSERA_PASSES_PARTITION_VENDORTOOLS_H

#include "mlir/IR/Operation.h"
#include "targets/EthosU/Vela.h"
#include "targets/Rknn/Toolkit.h"
#include "targets/Target.h"

#include <map>
#include <set>

namespace tessera {

/// What a tool made of a region.
struct VendorCode {
  std::vector<uint8_t> artefact; ///< for the bundle
  int64_t costNs = 0; ///< its estimate of one run; 0 if it makes none
};

/// Remembers what it was asked: groups repeat, and a segment is asked for
/// before and after it is cut out.
class VendorTools {
public:
  /// `fallback`: a tool that is missing or breaks refuses every region, with a
  /// warning by the caller (see broken()), instead of being an error.
  VendorTools(const ethosu::VelaOptions &vela, bool fallback)
      : vela(vela), rknn(vela.seconds), fallback(fallback) {}

  /// Whether the unit has such a compiler. That of rknn need not be installed:
  /// then nothing is asked, and no code is made.
  static bool serves(const Unit &unit) {
    return unit.backend == "ethos-u" ||
           (unit.backend == "rknn" && rknn::Toolkit::isNamed());
  }
  /// Whether that compiler says what a region costs.
  static bool estimates(const Unit &unit) { return unit.backend == "ethos-u"; }
  /// Whether code of the unit would be the vendor's, which is not there to make
  /// it.
  static bool isAbsent(const Unit &unit) {
    return unit.backend == "rknn" && !rknn::Toolkit::isNamed();
  }

  struct Answer {
    const VendorCode *code = nullptr; ///< null: refused
    std::string reason;
  };
  /// `ops`, and the TOSA file that they lower to. An error is a fault of the
  /// tool, not of the region.
  llvm::Expected<Answer> compile(const Unit &unit,
                                 llvm::ArrayRef<mlir::Operation *> ops,
                                 llvm::ArrayRef<uint8_t> tosa);

  /// What speaks against operators that lower for the unit; empty if nothing
  /// does.
  llvm::Expected<std::string> refusal(const Unit &unit,
                                      llvm::ArrayRef<mlir::Operation *> ops,
                                      Precision precision);

  /// With `fallback`: what was wrong with the tool, once; empty if nothing was.
  const std::string &broken() const { return brokenBy; }

private:
  llvm::Expected<VendorCode> byVela(const Unit &unit,
                                    llvm::ArrayRef<uint8_t> tosa);
  llvm::Expected<VendorCode> byRknn(const Unit &unit,
                                    llvm::ArrayRef<mlir::Operation *> ops,
                                    llvm::ArrayRef<uint8_t> tosa);

  ethosu::Vela vela;
  rknn::Toolkit rknn;
  bool fallback;
  std::string brokenBy;
  std::map<std::string, VendorCode> made; ///< by device kind and file
  std::map<std::string, std::string> refused;
};

} // namespace tessera
#endif

// The vendors' compilers of a target's units, as the partitioner asks them: may
// this region go there, what does it cost, what are its bytes.
#ifndef TESSERA_PASSES_PARTITION_VENDORTOOLS_H
#define TESSERA_PASSES_PARTITION_VENDORTOOLS_H

#include "targets/EthosU/Vela.h"
#include "targets/Target.h"

#include <map>
#include <set>

namespace tessera {

/// What a tool made of a TOSA file.
struct VendorCode {
  std::vector<uint8_t> artefact; ///< for the bundle
  int64_t costNs = 0;            ///< its estimate of one run
};

/// Remembers what it was asked: groups repeat, and a segment is asked for
/// before and after it is cut out.
class VendorTools {
public:
  /// `fallback`: a tool that is missing or breaks refuses every region, with a
  /// warning by the caller (see broken()), instead of being an error.
  VendorTools(const ethosu::VelaOptions &vela, bool fallback)
      : vela(vela), fallback(fallback) {}

  static bool serves(const Unit &unit) { return unit.backend == "ethos-u"; }

  struct Answer {
    const VendorCode *code = nullptr; ///< null: refused
    std::string reason;
  };
  /// An error is a fault of the tool, not of the region.
  llvm::Expected<Answer> compile(const Unit &unit,
                                 llvm::ArrayRef<uint8_t> tosa);

  /// With `fallback`: what was wrong with the tool, once; empty if nothing was.
  const std::string &broken() const { return brokenBy; }

private:
  ethosu::Vela vela;
  bool fallback;
  std::string brokenBy;
  std::map<std::string, VendorCode> made; ///< by device kind and file
  std::map<std::string, std::string> refused;
};

} // namespace tessera
#endif

// A region's way through the file: lowered, written, read back.
#ifndef TESSERA_TARGETS_TOSA_SEGMENT_H
#define TESSERA_TARGETS_TOSA_SEGMENT_H

#include "targets/Tosa/Lowering.h"
#include <vector>

namespace tessera::tosa {

struct Segment {
  Border border;
  std::vector<uint8_t> file;                 ///< the artefact
  mlir::OwningOpRef<mlir::ModuleOp> readBack; ///< function `main` of what `file` says
};

/// Failures of the lowering are reasons; those of the file are diagnostics and a reason.
mlir::FailureOr<Segment> buildSegment(llvm::ArrayRef<mlir::Operation *> ops, Precision precision, Reasons &reasons);

/// Sends what lowers through the file and back, see the pass tosa-round-trip.
struct RoundTripOptions {
  Precision precision = Precision::F32;
  std::string dump;
  int64_t only = -1, minimum = 1;
};
/// "f16", "int8,dump=DIR", "f32,only=3": none if it is no such text.
std::optional<RoundTripOptions> parseRoundTrip(llvm::StringRef text);
llvm::LogicalResult roundTrip(mlir::Operation *func, const RoundTripOptions &options);

/// Registers `tosa-round-trip` for tessera-opt.
void registerTosaPasses();

} // namespace tessera::tosa
#endif

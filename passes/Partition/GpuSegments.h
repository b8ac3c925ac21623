// Whether operators compile for a GPU, asked by compiling them.
//
// The question is put to a copy, wrapped and lowered just as a placed segment
// is. A group's answer is its verdict; that of a whole segment says whether the
// groups still compile beside each other, where layouts may be others.
#ifndef TESSERA_PASSES_PARTITION_GPUSEGMENTS_H
#define TESSERA_PASSES_PARTITION_GPUSEGMENTS_H

#include "dialects/Tsr/IR/TsrDialect.h"
#include "targets/Target.h"

namespace tessera {

/// The word for a unit's segments in the bundle.
bool isGpu(const Unit &unit);

struct GpuFault {
  llvm::SmallVector<size_t> ops; ///< numbers of those it is at; empty: of all
  std::string reason;
};

/// All that keeps `ops`, which lie in one block, from running on the unit as
/// one segment with floats stored in `precision`; empty if nothing does.
std::vector<GpuFault> findGpuFaults(llvm::ArrayRef<mlir::Operation *> ops,
                                    const Unit &unit, Precision precision);
/// Only the reasons, each once.
std::vector<std::string> gpuFaults(llvm::ArrayRef<mlir::Operation *> ops,
                                   const Unit &unit, Precision precision);

/// Gives a segment of quantised operators the CPU's form in integers, if the
/// unit computes all of it so.
void fuseForGpu(tsr::SegmentOp segment, const Unit &unit);

} // namespace tessera
#endif

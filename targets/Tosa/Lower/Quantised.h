// What the integer lowerings share.
#ifndef TESSERA_TARGETS_TOSA_LOWER_QUANTISED_H
#define TESSERA_TARGETS_TOSA_LOWER_QUANTISED_H

#include "targets/Tosa/Lower/Lowerer.h"

namespace tessera::tosa {

struct Quantisation {
  double scale = 1;
  int64_t zeroPoint = 0;
};
/// Scale and zero point of a whole int8 tensor, from constant operands.
std::optional<Quantisation> readQuantisation(mlir::Operation *op, Lowerer &l, unsigned scale, unsigned zero);

/// factor = multiplier / 2^shift with 31 bits; false if RESCALE cannot have it.
bool multiplierOf(double factor, int64_t &multiplier, int64_t &shift);
/// RESCALE by one factor, or by one a channel on the last axis; null after a reason.
mlir::Value rescale(Lowerer &l, mlir::Value x, llvm::ArrayRef<double> factors, int64_t zeroIn, int64_t zeroOut,
                    mlir::Type out);

/// A float constant as integers of 8 bits times a scale for each index of `axis`.
struct QuantisedWeight {
  HostTensor integers;
  llvm::SmallVector<double> scale;
  int64_t largestSum; ///< of absolute values over one index of the axis
  double error;       ///< largest sum of what the floats are off over one index of the axis
};
/// None, with a reason, if the floats are not multiples of some step each.
std::optional<QuantisedWeight> quantiseWeight(Lowerer &l, const HostTensor &w, int64_t axis);
/// A constant that is added to an accumulator of `channels` channels on the last
/// axis of its own (one number, or one a channel), in the steps of `meaning`,
/// which takes account of it; zeros for a null one. None after a reason.
std::optional<HostTensor> quantiseBias(Lowerer &l, mlir::Value bias, int64_t channels, Scaled &meaning);

/// What each int8 means after the operators still to be applied; none after a reason.
std::optional<HostTensor> meaningsOf(Lowerer &l, const Scaled &m);

} // namespace tessera::tosa
#endif

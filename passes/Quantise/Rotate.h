// Rotation of what gated products make, before it is read as integers.
//
// In a gated block, down(silu(gate(x)) * up(x)), the elements that `down` reads
// are products of two sums: most are near zero and a few far out, so that one
// scale of 256 steps loses 10 dB against a sum's. An orthonormal Hadamard
// matrix over blocks of channels in front, and the same in the weights behind,
// changes nothing but makes sums of them again (QuaRot, Ashkboos et al., 2024).
// The small product in front stays float.
#ifndef TESSERA_PASSES_QUANTISE_ROTATE_H
#define TESSERA_PASSES_QUANTISE_ROTATE_H

#include "passes/Quantise/Policy.h"

namespace tessera::quantise {

/// A value and what the products that read it as rows read instead.
struct Rotation {
  std::string value, rotated;
  std::vector<std::string> nodes; ///< that make it, by name
  int64_t block = 0;
};

/// Rotates what products by constant matrices read and a gate makes, except
/// `without`.
std::vector<Rotation> rotateGated(ModelProto &model,
                                  const std::set<std::string> &without);

/// Values whose rotation takes less than 2 dB from the error of 256 steps.
std::set<std::string> idleRotations(const std::vector<Rotation> &rotations,
                                    const Ranges &ranges);

/// The products that rotate stay float.
void separateRotations(const std::vector<Rotation> &rotations,
                       std::vector<Unit> &units);

} // namespace tessera::quantise
#endif

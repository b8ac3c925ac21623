// What an Ethos-U does of TOSA 1.0: the limits of its hardware and of Vela 5.2,
// as predicates over operators of the `tosa` dialect. Vela does not check all
// of what the hardware documents (kernels, pools, weight sums), so that what it
// compiles is not yet what the device computes: these predicates decide.
// Rationale.md says where each limit comes from.
#ifndef TESSERA_TARGETS_ETHOSU_LIMITS_H
#define TESSERA_TARGETS_ETHOSU_LIMITS_H

#include "mlir/IR/BuiltinOps.h"
#include "targets/EthosU/Accelerator.h"
#include "llvm/ADT/SmallVector.h"

#include <string>

namespace tessera::ethosu {

/// All that keeps one operator from running on the accelerator, each with the
/// value found and the limit: "kernel height 65 exceeds 64 (Ethos-U55
/// CONV_2D)". Empty: it runs there. Constants and the function around them are
/// no operators and have none.
llvm::SmallVector<std::string> violations(mlir::Operation *tosaOp,
                                          const Accelerator &accelerator);

/// So many int8 weights for one output never sum up to more than is possible,
/// 127 * 65,536 in absolute values of 128 at most: their values need no look.
constexpr int64_t alwaysSummable = 127 * 65536 / 128;

} // namespace tessera::ethosu
#endif

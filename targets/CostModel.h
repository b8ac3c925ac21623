// Estimated time of fusion groups, copies, conversions and launches.
//
// For a group on a unit at a precision:
//
//   compute = sum macsPadded / (peak_macs * u_kind)
//   memory  = bytes / (bandwidth * u_bw)
//   time    = sqrt(compute^2 + memory^2) + vector bytes / vector_rate
//           + function elements / lut_rate + t_op + the rules' own times
//
// `bytes` are the constants the group reads and, unless all of its activations
// fit on the chip, those that cross its border. Vector operators pay for the
// bytes they carry across the border; what stays inside is in registers. A view
// costs nothing on a CPU. GB/s are bytes per ns, so no factor appears. Results
// are integers in ns, at least 1 for what is not free, so that plans compare
// exactly.
#ifndef TESSERA_TARGETS_COSTMODEL_H
#define TESSERA_TARGETS_COSTMODEL_H

#include "targets/OpCounts.h"
#include "targets/Target.h"

namespace tessera {

/// Where a group's time goes. All in ns.
struct GroupCost {
  double compute = 0, memory = 0, vector = 0, lut = 0, op = 0, rules = 0;
  int64_t macs = 0, macsPadded = 0, bytes = 0;
  int64_t ns = 0;
};

/// Time of `ops`, one fusion group, in any order. On a CPU an operator with
/// bodies is priced by the operators in them, each alone: all of a Loop's or
/// Scan's, once; of an If the dearer branch. The unit must have parameters for
/// the precision.
GroupCost groupCost(const TargetDescription &target, unsigned unit, Precision precision,
                    llvm::ArrayRef<mlir::Operation *> ops, const Sizes &sizes = {});
int64_t groupCostNs(const TargetDescription &target, unsigned unit, Precision precision,
                    llvm::ArrayRef<mlir::Operation *> ops, const Sizes &sizes = {});

/// Whether a product is computed in integers by units whose code this compiler
/// makes (passes/FuseQuantised): one of bytes, or one by a constant between
/// DequantizeLinear and QuantizeLinear.
bool isIntegerProduct(mlir::Operation *op);

/// The precision in which a CPU computes the group as it stands: int8 if there
/// is an integer product in it, f16 if a result is, else f32.
Precision cpuPrecision(llvm::ArrayRef<mlir::Operation *> ops);

/// A submission to the unit; 0 for a CPU.
int64_t launchNs(const TargetDescription &target, unsigned unit);

/// A cost that is linear in a count, rounded up: fixedNs + count * ps / 1000.
struct LinearCost {
  int64_t fixedNs = 0, ps = 0;
  int64_t at(int64_t count) const { return fixedNs + (count * ps + 999) / 1000; }
};
/// Copying bytes from one unit's memory to another's; nothing if it is the
/// same. There must be a link (the parser sees to it for a pair with the CPU).
LinearCost copyCost(const TargetDescription &target, unsigned fromUnit, unsigned toUnit);
/// Converting elements between storage types on a CPU: read, write, one
/// operator.
LinearCost conversionCost(const TargetDescription &target, unsigned cpuUnit, unsigned fromBytes, unsigned toBytes);

} // namespace tessera
#endif

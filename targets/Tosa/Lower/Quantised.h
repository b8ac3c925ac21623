// What the integer lowerings share.
#ifndef TESSERA_TARGETS_TOSA_LOWER_QUANTISED_H
#define TESSERA_TARGETS_TOSA_LOWER_QUANTISED_H

#include "targets/Tosa/Lower/Lowerer.h"

namespace tessera::tosa {

struct Quantisation {
  double scale = 1;
  int64_t zeroPoint = 0;
  unsigned bits = 8; ///< 8 or 16

  bool operator==(const Quantisation &) const = default;
  int64_t low() const { return -(int64_t(1) << (bits - 1)); }
  int64_t high() const { return -low() - 1; }
  /// A real number, no NaN, as QuantizeLinear gives it.
  int64_t integerOf(double v) const;
  double realOf(int64_t i) const { return scale * (double)(i - zeroPoint); }
  mlir::Type element(Lowerer &l) const { return l.b.getIntegerType(bits); }
  /// How far a result may be from ONNX's before it is rounded, in steps.
  double errorLimit() const { return bits == 8 ? 0.25 : 16; }
};
/// Scale and zero point of a whole tensor of `element`, from constant operands.
std::optional<Quantisation> readQuantisation(mlir::Operation *op, Lowerer &l, unsigned scale, unsigned zero,
                                             mlir::Type element);

/// Of the integers that `v` is computed in: 8 and 16 are as DequantizeLinear read
/// them, 32 and 48 are sums.
unsigned bitsOf(Lowerer &l, mlir::Value v);
inline bool isSum(Lowerer &l, mlir::Value v) { return bitsOf(l, v) > 16; }
/// The order in which `v` was computed, or one whose last axis is that of its scales.
Perm channelsAtEnd(Lowerer &l, mlir::Value v, const Scaled &m);

/// factor = multiplier / 2^shift with so many bits; false if RESCALE cannot have it.
bool multiplierOf(double factor, int64_t &multiplier, int64_t &shift, int bits = 31);
/// RESCALE takes less than 2^(shift - 1), which is less than this many steps of its
/// result whatever the multiplier.
constexpr double rescaleLimit = 536870912.0;
/// RESCALE by one factor, or by one a channel on the last axis; null after a reason.
/// Multipliers have 31 bits, of a 48-bit `x` 15.
mlir::Value rescale(Lowerer &l, mlir::Value x, llvm::ArrayRef<double> factors, int64_t zeroIn, int64_t zeroOut,
                    mlir::Type out);

/// A float constant as integers of 8 bits times a scale for each index of `axis`.
struct QuantisedWeight {
  HostTensor integers;
  llvm::SmallVector<double> scale;
  int64_t largestSum; ///< of absolute values over one index of the axis
  double error;       ///< largest sum of what the floats are off over one index of the axis
};
/// Of a constant. None, with a reason, if the floats are not multiples of some step each.
std::optional<QuantisedWeight> quantiseWeight(Lowerer &l, mlir::Value weight, int64_t axis);
/// What sums of products of `x`, which is plain, with a weight mean: a scale for each index of its axis.
Scaled meaningOfProducts(const Scaled &x, const QuantisedWeight &w);
/// The type of sums of products with integers of `element`: 32 bits, 48 if it has 16.
mlir::Type sumType(Lowerer &l, mlir::Type element);
/// Whether sums up to `bound` fit a type.
llvm::LogicalResult checkSum(Lowerer &l, int64_t bound, mlir::Type sum);
/// A constant that is added to a sum of `channels` channels on the last axis of
/// its own (one number, or one a channel), in the steps of `meaning`, which takes
/// account of it; zeros for a null one. Null after a reason.
mlir::Value quantiseBias(Lowerer &l, mlir::Value bias, int64_t channels, Scaled &meaning, mlir::Type sum);
/// The operand as an 8-bit or 16-bit tensor whose meaning needs nothing more.
std::optional<Scaled> plainOperand(mlir::Operation *op, Lowerer &l, unsigned position);

/// What each int8 means after the operators still to be applied; none after a reason.
std::optional<HostTensor> meaningsOf(Lowerer &l, const Scaled &m);
/// Notes that `op`, of one operand that is not constant, is still to be applied.
llvm::LogicalResult tabulate(mlir::Operation *op, Lowerer &l);
/// A tosa value with its axes in the order `perm`.
struct Ordered {
  mlir::Value value;
  Perm perm;
};
/// What `v` means, quantised; none after a reason.
std::optional<Ordered> quantise(Lowerer &l, mlir::Value v, const Scaled &m, const Quantisation &q);
/// The same of what has operators still to be applied.
std::optional<Ordered> quantiseByTable(Lowerer &l, mlir::Value v, const Scaled &m, const Quantisation &q);

/// The quantisation that all who read `v`, or what it is moved to, give it; none
/// if there is not exactly one.
std::optional<Quantisation> readersQuantisation(mlir::Value v, Lowerer &l);
std::optional<Quantisation> readersQuantisation(mlir::ValueRange values, Lowerer &l);
/// Under a quantised precision an operator that only moves values (MaxPool: selects
/// them in their order, which it checks) hands on what they mean.
llvm::LogicalResult inheritMeaning(mlir::Operation *op, Lowerer &l);
/// While this lives, the operand of an operator that moves it towards quantisers of
/// one quantisation is quantised, unless it is 8 or 16 bits that need nothing more.
class QuantisedOperand {
public:
  explicit QuantisedOperand(Lowerer &l) : l(l) {}
  ~QuantisedOperand();
  QuantisedOperand(const QuantisedOperand &) = delete;
  llvm::LogicalResult quantiseBefore(mlir::Operation *op);

private:
  Lowerer &l;
  mlir::Value operand; ///< null: nothing was done
  Scaled meaning;
  Forms::All forms;
};

/// Each position of an image repeated: by RESIZE in the forms that small devices
/// have (factors 2, 4, 8 of one image), else by TILE.
mlir::Value repeatPositions(Lowerer &l, mlir::Value x, int64_t rows, int64_t columns);

/// Linear interpolation along an axis by a whole factor f is a repetition of each
/// position and a mean of f neighbours, since the triangle of interpolation is a
/// box of width f averaged over another:
///
///   x        a        b        c
///   repeated a   a    b   b    c   c
///   result   (1,2,1)/4 of three neighbours      f = 2, half_pixel
struct Interpolation {
  int64_t factor = 1, divisor = 1; ///< of positions; of the taps' sum
  llvm::SmallVector<int64_t> taps;
  bool front = false, behind = false; ///< whether the edge is repeated once
  int64_t skip = 0;                   ///< positions before the first window
};
/// None if the transformation is not of that kind.
std::optional<Interpolation> interpolationOf(llvm::StringRef transform, int64_t in, int64_t out);
/// The Resize `op` by both axes of the image, to `out`.
llvm::LogicalResult interpolate(mlir::Operation *op, Lowerer &l, const Interpolation (&axes)[2],
                                llvm::ArrayRef<int64_t> out);

} // namespace tessera::tosa
#endif

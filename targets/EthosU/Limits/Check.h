// What the checks of all operator families share.
#ifndef TESSERA_TARGETS_ETHOSU_LIMITS_CHECK_H
#define TESSERA_TARGETS_ETHOSU_LIMITS_CHECK_H

#include "mlir/IR/BuiltinTypes.h"
#include "targets/EthosU/Limits.h"
#include "llvm/ADT/Twine.h"

namespace tessera::ethosu {

/// One operator, one accelerator, and what was found wrong.
class Check {
public:
  Check(mlir::Operation *op, const Accelerator &accelerator,
        llvm::SmallVector<std::string> &faults);

  mlir::Operation *const op;
  /// U55 and U65 have the same limits; U85 is another design.
  bool isU85() const { return family == Family::U85; }

  /// "what (Ethos-U55 CONV2D)".
  void no(const llvm::Twine &what);
  /// "what 65 exceeds 64 (Ethos-U55 CONV2D)".
  void atMost(const llvm::Twine &what, int64_t found, int64_t limit);

  static std::string typeName(mlir::Type t);
  llvm::ArrayRef<int64_t> shapeOf(mlir::Value v) const;
  mlir::Type elementOf(mlir::Value v) const;
  llvm::ArrayRef<int64_t> operandShape(unsigned i) const {
    return shapeOf(op->getOperand(i));
  }
  llvm::ArrayRef<int64_t> resultShape() const {
    return shapeOf(op->getResult(0));
  }
  llvm::SmallVector<int64_t> ints(llvm::StringRef attribute) const;
  int64_t axis() const;

private:
  Family family;
  std::string where;
  llvm::SmallVector<std::string> &faults;
};

/// The largest extent of height, width and depth that one hardware operation
/// addresses.
constexpr int64_t maxAxis = 65536;

// TOSA's level 8K, which both Vela and the device are made for.
constexpr int64_t maxKernel = 8192, maxStride = 8192, maxScale = 256,
                  maxTensors = 64;

// One function a family. Element types and ranks have been checked before.
void checkConv2d(Check &c);
void checkConv3d(Check &c);
void checkDepthwiseConv2d(Check &c);
void checkTransposeConv2d(Check &c);
void checkMatmul(Check &c);
void checkPool(Check &c);
void checkResize(Check &c);
void checkTranspose(Check &c);
void checkReverse(Check &c);
void checkArgmax(Check &c);
void checkReduceSum(Check &c);
void checkShift(Check &c);
void checkConcat(Check &c);
void checkRescale(Check &c);

} // namespace tessera::ethosu
#endif

#include "targets/EthosU/Limits.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tosa/IR/TosaOps.h"
#include "targets/EthosU/Limits/Check.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace tessera::ethosu {
namespace {

/// Element types, as a set.
enum Types : unsigned {
  none = 0,
  i1 = 1,
  i4 = 2,
  i8 = 4,
  i16 = 8,
  i32 = 16,
  i48 = 32
};
constexpr unsigned small = i8 | i16, integers = i8 | i16 | i32,
                   all = integers | i1;
constexpr int result = -1;

/// One operator: the types of one operand (or the result), and what else is
/// limited. An operator that a family has not takes no type there.
struct Entry {
  StringRef op;
  int position;
  unsigned u55, u85; ///< U65 is as U55
  void (*check)(Check &) = nullptr;
};
const Entry entries[] = {
    {"abs", 0, i32, i32},
    {"add", 0, i32, i32},
    {"argmax", 0, i8, small, checkArgmax},
    {"arithmetic_right_shift", 0, i32, integers, checkShift},
    {"avg_pool2d", 0, small, small, checkPool},
    {"bitwise_and", 0, none, integers},
    {"bitwise_not", 0, none, integers},
    {"bitwise_or", 0, none, integers},
    {"bitwise_xor", 0, none, integers},
    {"cast", 0, integers, all},
    {"cast", result, integers, all},
    {"clamp", 0, small, small},
    {"clz", 0, i32, i32},
    {"concat", 0, integers, all, checkConcat},
    {"conv2d", 0, small, small, checkConv2d},
    {"conv3d", 0, small, small, checkConv3d},
    {"depthwise_conv2d", 0, small, small, checkDepthwiseConv2d},
    {"equal", 0, none, i32},
    {"gather", 0, none, integers},
    {"greater", 0, none, i32},
    {"greater_equal", 0, none, i32},
    {"identity", 0, integers, all},
    {"intdiv", 0, none, i32},
    {"logical_and", 0, none, i1},
    {"logical_left_shift", 0, i32, integers},
    {"logical_not", 0, none, i1},
    {"logical_or", 0, none, i1},
    {"logical_right_shift", 0, none, integers},
    {"logical_xor", 0, none, i1},
    {"matmul", 0, i8, small, checkMatmul},
    {"max_pool2d", 0, small, small, checkPool},
    {"maximum", 0, i32, i32},
    {"minimum", 0, i32, i32},
    {"mul", 0, integers, integers},
    {"negate", 0, integers, integers},
    {"pad", 0, integers, all},
    {"reduce_all", 0, none, i1},
    {"reduce_any", 0, none, i1},
    {"reduce_max", 0, small, integers},
    {"reduce_min", 0, small, integers},
    {"reduce_sum", 0, i32, i32, checkReduceSum},
    {"rescale", 0, integers | i48, integers | i48, checkRescale},
    {"rescale", result, integers, integers},
    {"reshape", 0, integers, all},
    {"resize", 0, small, small, checkResize},
    {"reverse", 0, integers, all, checkReverse},
    {"scatter", 0, none, integers},
    {"select", 1, none, all},
    {"slice", 0, integers, all},
    {"sub", 0, i32, i32},
    {"table", 0, small, small},
    {"tile", 0, integers, all},
    {"transpose", 0, integers, all, checkTranspose},
    {"transpose_conv2d", 0, small, small, checkTransposeConv2d},
};

/// Operands from `first` on that must be constant: zero points, multipliers,
/// shifts and what padding is filled with.
struct Constants {
  StringRef op;
  unsigned first;
};
const Constants constants[] = {
    {"avg_pool2d", 1},       {"conv2d", 3}, {"conv3d", 3},
    {"depthwise_conv2d", 3}, {"matmul", 2}, {"mul", 2},
    {"negate", 1},           {"pad", 2},    {"rescale", 1},
    {"transpose_conv2d", 3},
};

void checkConstants(Check &c) {
  for (const Constants &entry : constants)
    if (entry.op == c.op->getName().stripDialect())
      for (unsigned i = entry.first; i < c.op->getNumOperands(); ++i)
        if (!c.op->getOperand(i).getDefiningOp<mlir::tosa::ConstOp>())
          c.no("operand " + Twine(i) + " is not constant");
}

unsigned setOf(Type t) {
  auto integer = dyn_cast<IntegerType>(t);
  switch (integer && integer.isSignless() ? integer.getWidth() : 0) {
  case 1:
    return i1;
  case 4:
    return i4;
  case 8:
    return i8;
  case 16:
    return i16;
  case 32:
    return i32;
  case 48:
    return i48;
  default:
    return none;
  }
}

std::string namesOf(unsigned set) {
  std::string names;
  for (auto [bit, name] :
       {std::pair(i1, "i1"), std::pair(i4, "i4"), std::pair(i8, "i8"),
        std::pair(i16, "i16"), std::pair(i32, "i32"), std::pair(i48, "i48")})
    if (set & bit)
      names += (names.empty() ? "" : ", ") + std::string(name);
  return names;
}

/// False if what follows makes no sense: tensors without static shape.
bool checkTensors(Check &c) {
  constexpr int64_t maxRank = 6; // of TOSA's level 8K
  SmallVector<Type> types(c.op->getOperandTypes());
  llvm::append_range(types, c.op->getResultTypes());
  bool sane = true;
  int64_t rank = 0;
  for (Type t : types) {
    if (isa<mlir::tosa::shapeType>(t))
      continue;
    auto tensor = dyn_cast<RankedTensorType>(t);
    if (tensor && tensor.hasStaticShape()) {
      rank = std::max(rank, tensor.getRank());
    } else if (sane) {
      c.no("a tensor without static shape");
      sane = false;
    }
  }
  c.atMost("rank", rank, maxRank);
  return sane;
}

/// 48-bit numbers live in accumulators: a convolution or product makes them,
/// and a RESCALE takes them. U55 and U65 have no other place for them; U85
/// could keep them in memory as 64 bits, but nothing outside of it knows such a
/// tensor.
void checkAccumulators(Check &c) {
  for (Value v : c.op->getOperands())
    if (auto t = dyn_cast<RankedTensorType>(v.getType());
        t && t.getElementType().isInteger(48) && isa<BlockArgument>(v))
      c.no("an input of the segment of type i48");
  for (Value v : c.op->getResults()) {
    auto t = dyn_cast<RankedTensorType>(v.getType());
    if (!t || !t.getElementType().isInteger(48) ||
        isa<mlir::tosa::ConstOp>(c.op))
      continue;
    for (Operation *user : v.getUsers())
      if (isa<func::ReturnOp>(user))
        c.no("a result of the segment of type i48");
      else if (!c.isU85() && !isa<mlir::tosa::RescaleOp>(user))
        c.no("a result of type i48 that " +
             user->getName().stripDialect().upper() +
             " reads instead of RESCALE");
  }
}

} // namespace

SmallVector<std::string> violations(Operation *op,
                                    const Accelerator &accelerator) {
  SmallVector<std::string> faults;
  if (op->getName().getDialectNamespace() != "tosa" ||
      isa<mlir::tosa::ConstOp, mlir::tosa::ConstShapeOp>(op))
    return faults;
  Check c(op, accelerator, faults);
  if (!checkTensors(c))
    return faults;
  void (*check)(Check &) = nullptr;
  bool known = false;
  for (const Entry &entry : entries) {
    if (entry.op != op->getName().stripDialect())
      continue;
    unsigned allowed = c.isU85() ? entry.u85 : entry.u55;
    known |= allowed != none;
    Type found =
        c.elementOf(entry.position == result ? op->getResult(0)
                                             : op->getOperand(entry.position));
    if (allowed != none && !(allowed & setOf(found)))
      c.no((entry.position == result ? "a result" : "an operand") +
           Twine(" of type ") + Check::typeName(found) + ", known are " +
           namesOf(allowed));
    if (entry.check)
      check = entry.check;
  }
  if (!known)
    c.no("the device has no such operator");
  checkConstants(c);
  checkAccumulators(c);
  if (check && known)
    check(c);
  return faults;
}

} // namespace tessera::ethosu

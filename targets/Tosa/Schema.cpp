#include "targets/Tosa/Schema.h"
#include "mlir/IR/Builders.h"

using namespace mlir;

namespace tessera::tosa {

schema::DType dtypeOf(Type t) {
  if (t.isF32())
    return schema::DType_FP32;
  if (t.isF16())
    return schema::DType_FP16;
  if (t.isBF16())
    return schema::DType_BF16;
  auto integer = dyn_cast<IntegerType>(t);
  if (!integer || !integer.isSignless())
    return schema::DType_UNKNOWN;
  switch (integer.getWidth()) {
  case 1: return schema::DType_BOOL;
  case 4: return schema::DType_INT4;
  case 8: return schema::DType_INT8;
  case 16: return schema::DType_INT16;
  case 32: return schema::DType_INT32;
  case 48: return schema::DType_INT48;
  default: return schema::DType_UNKNOWN;
  }
}

Type elementOf(schema::DType dtype, MLIRContext *context) {
  Builder b(context);
  switch (dtype) {
  case schema::DType_FP32: return b.getF32Type();
  case schema::DType_FP16: return b.getF16Type();
  case schema::DType_BF16: return b.getBF16Type();
  case schema::DType_BOOL: return b.getI1Type();
  case schema::DType_INT4: return b.getIntegerType(4);
  case schema::DType_INT8: return b.getI8Type();
  case schema::DType_INT16: return b.getI16Type();
  case schema::DType_INT32: return b.getI32Type();
  case schema::DType_INT48: return b.getIntegerType(48);
  default: return {};
  }
}

schema::Op opOf(StringRef mnemonic) {
  std::string upper = mnemonic.upper();
  for (schema::Op op : schema::EnumValuesOp())
    if (upper == schema::EnumNameOp(op))
      return op;
  return schema::Op_UNKNOWN;
}

std::string mnemonicOf(schema::Op op) {
  if (op <= schema::Op_UNKNOWN || op > schema::Op_MAX)
    return "";
  return StringRef(schema::EnumNameOp(op)).lower();
}

bool takesWindow(schema::Op op) {
  switch (op) {
  case schema::Op_AVG_POOL2D:
  case schema::Op_MAX_POOL2D:
  case schema::Op_CONV2D:
  case schema::Op_CONV3D:
  case schema::Op_DEPTHWISE_CONV2D:
  case schema::Op_TRANSPOSE_CONV2D: return true;
  default: return false;
  }
}

bool takesAxis(schema::Op op) {
  switch (op) {
  case schema::Op_ARGMAX:
  case schema::Op_REDUCE_ALL:
  case schema::Op_REDUCE_ANY:
  case schema::Op_REDUCE_MAX:
  case schema::Op_REDUCE_MIN:
  case schema::Op_REDUCE_PRODUCT:
  case schema::Op_REDUCE_SUM:
  case schema::Op_CONCAT:
  case schema::Op_REVERSE: return true;
  default: return false;
  }
}

} // namespace tessera::tosa

#include "dialects/Tsr/IR/TsrDialect.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tessera::tsr;

#include "dialects/Tsr/IR/TsrDialect.cpp.inc"
#include "dialects/Tsr/IR/TsrEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/Tsr/IR/TsrAttrs.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/Tsr/IR/TsrOps.cpp.inc"

void TsrDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/Tsr/IR/TsrAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/Tsr/IR/TsrOps.cpp.inc"
      >();
}

Operation *DispatchOp::getRootOp() {
  int64_t root = static_cast<int64_t>(getRoot());
  if (root < 0)
    return nullptr;
  return &*std::next(getBodyBlock()->begin(), root);
}

ArrayRef<int64_t> DispatchOp::getDimsOf(unsigned i) {
  return cast<DenseI64ArrayAttr>((*getDims())[i]).asArrayRef();
}

Layout DispatchOp::getLayoutOf(unsigned i) {
  auto layouts = getLayouts();
  return layouts ? static_cast<Layout>((*layouts)[i]) : Layout::RowMajor;
}

LogicalResult DispatchOp::verify() {
  Block *block = getBodyBlock();
  if (block->getNumArguments() != getInputs().size())
    return emitOpError() << "has " << getInputs().size() << " operands but its body takes "
                         << block->getNumArguments();
  for (auto [arg, in] : llvm::zip(block->getArguments(), getInputs()))
    if (arg.getType() != in.getType())
      return emitOpError() << "operand type " << in.getType() << " differs from the body's "
                           << arg.getType();
  auto yield = dyn_cast<YieldOp>(block->getTerminator());
  if (!yield || yield.getValues().getTypes() != getOutputs().getTypes())
    return emitOpError("yields other types than its results");
  int64_t bodySize = static_cast<int64_t>(block->getOperations().size()) - 1;
  int64_t root = static_cast<int64_t>(getRoot());
  if (root < -1 || root >= bodySize)
    return emitOpError() << "root " << root << " is outside a body of " << bodySize << " operators";
  unsigned values = getInputs().size() + getOutputs().size();
  if (auto dims = getDims(); dims && dims->size() != values)
    return emitOpError() << "has dims for " << dims->size() << " of " << values << " values";
  if (auto layouts = getLayouts(); layouts && layouts->size() != values)
    return emitOpError() << "has layouts for " << layouts->size() << " of " << values << " values";
  return success();
}

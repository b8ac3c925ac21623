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

ArrayRef<char> SegmentOp::getArtefactBytes() {
  Attribute artefact = getArtefact().value_or(Attribute());
  if (auto text = dyn_cast_or_null<StringAttr>(artefact))
    return {text.data(), text.size()};
  if (auto resource = dyn_cast_or_null<DenseResourceElementsAttr>(artefact))
    if (AsmResourceBlob *blob = resource.getRawHandle().getBlob())
      return blob->getData();
  return {};
}

/// What the plan could not give a place or an order in a device's memory.
static LogicalResult verifyStatic(SegmentOp segment) {
  WalkResult result = segment.getBody().walk([&](Operation *op) -> WalkResult {
    for (Type type : op->getResultTypes()) {
      auto tensor = dyn_cast<TensorType>(type);
      if (isa<NoneType>(type) || (tensor && tensor.hasStaticShape()))
        continue;
      return op->emitOpError() << "in a tsr.segment has a result of type " << type << ", not of a static tensor";
    }
    if (op->getNumRegions() && !isa<DispatchOp>(op))
      return op->emitOpError("has a body: control flow stays outside of tsr.segment");
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

LogicalResult SegmentOp::verify() {
  Block *block = getBodyBlock();
  if (block->getArgumentTypes() != getInputs().getTypes())
    return emitOpError("body takes other types than its operands");
  auto yield = dyn_cast<YieldOp>(block->getTerminator());
  if (!yield || yield.getValues().getTypes() != getOutputs().getTypes())
    return emitOpError("yields other types than its results");
  int64_t device = getDevice();
  if (device < 1 || device >= maxDevices)
    return emitOpError() << "names device " << device << ", not one from 1 to " << maxDevices - 1
                         << " (0 is the CPU)";
  if (getUnit().empty())
    return emitOpError("has an empty unit name");
  if (auto artefact = getArtefact()) {
    auto resource = dyn_cast<DenseResourceElementsAttr>(*artefact);
    bool bytes = resource && resource.getElementType().isInteger(8);
    if (!isa<StringAttr>(*artefact) && !bytes)
      return emitOpError("has an artefact that is neither a string nor a resource of bytes");
  }
  return verifyStatic(*this);
}

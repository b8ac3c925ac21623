#include "targets/EthosU/Limits/Check.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"

using namespace mlir;

namespace tessera::ethosu {

Check::Check(Operation *op, const Accelerator &accelerator,
             SmallVector<std::string> &faults)
    : op(op), family(accelerator.family),
      where((" (" + familyName(family) + " " +
             op->getName().stripDialect().upper() + ")")
                .str()),
      faults(faults) {}

void Check::no(const Twine &what) { faults.push_back((what + where).str()); }

std::string Check::typeName(Type t) {
  std::string s;
  llvm::raw_string_ostream(s) << t;
  return s;
}

void Check::atMost(const Twine &what, int64_t found, int64_t limit) {
  if (found > limit)
    no(what + " " + Twine(found) + " exceeds " + Twine(limit));
}

ArrayRef<int64_t> Check::shapeOf(Value v) const {
  return cast<RankedTensorType>(v.getType()).getShape();
}
Type Check::elementOf(Value v) const {
  return cast<RankedTensorType>(v.getType()).getElementType();
}

SmallVector<int64_t> Check::ints(StringRef attribute) const {
  Attribute a = op->getAttr(attribute);
  if (auto wide = dyn_cast_or_null<DenseI64ArrayAttr>(a))
    return SmallVector<int64_t>(wide.asArrayRef());
  auto narrow = cast<DenseI32ArrayAttr>(a);
  return SmallVector<int64_t>(narrow.asArrayRef().begin(),
                              narrow.asArrayRef().end());
}

int64_t Check::axis() const {
  return op->getAttrOfType<IntegerAttr>("axis").getInt();
}

} // namespace tessera::ethosu

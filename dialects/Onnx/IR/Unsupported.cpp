#include "dialects/Onnx/IR/Unsupported.h"

#include "mlir/IR/BuiltinAttributes.h"

using namespace mlir;

namespace tessera::onnx {

// Long lists and tables would drown the reason.
static std::string textOf(Attribute a) {
  constexpr size_t most = 60;
  std::string text;
  llvm::raw_string_ostream out(text);
  if (!a) {
    return "absent";
  } else if (auto s = dyn_cast<StringAttr>(a)) {
    out << "'" << s.getValue() << "'";
  } else if (auto list = dyn_cast<ArrayAttr>(a)) {
    out << "[";
    llvm::interleaveComma(list, out, [&](Attribute x) { out << textOf(x); });
    out << "]";
  } else if (auto list = dyn_cast<ElementsAttr>(a)) {
    out << "a tensor of " << list.getNumElements() << " elements";
  } else {
    a.print(out, /*elideType=*/true);
  }
  return text.size() <= most ? text : text.substr(0, most) + "...";
}

LogicalResult unsupported(Operation *op, const Twine &why) {
  op->setAttr(kUnsupportedAttr, StringAttr::get(op->getContext(), why));
  return failure();
}

LogicalResult unsupportedAttribute(Operation *op, StringRef name, const Twine &why) {
  return unsupported(op, "attribute '" + name + "' is " + textOf(op->getAttr(name)) + ": " + why);
}

LogicalResult unsupportedInput(Operation *op, unsigned index, const Twine &why) {
  std::string type;
  if (index < op->getNumOperands())
    llvm::raw_string_ostream(type) << op->getOperand(index).getType();
  return unsupported(op, "input " + Twine(index) + " of type " + (type.empty() ? "none" : type) + ": " + why);
}

StringRef whyUnsupported(Operation *op) {
  auto why = op->getAttrOfType<StringAttr>(kUnsupportedAttr);
  return why ? why.getValue() : StringRef();
}

} // namespace tessera::onnx

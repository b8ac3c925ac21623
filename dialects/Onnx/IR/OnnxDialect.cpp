#include "dialects/Onnx/IR/OnnxDialect.h"
#include "dialects/Onnx/IR/OpsCore.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

#include "dialects/Onnx/IR/OnnxDialect.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/Onnx/IR/OnnxTypes.cpp.inc"
#include "dialects/Onnx/IR/OnnxInterfaces.cpp.inc"

using namespace mlir;

namespace tessera::onnx {

void registerGeneratedOps(OnnxDialect &dialect); // generated

void OnnxDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/Onnx/IR/OnnxTypes.cpp.inc"
      >();
  registerGeneratedOps(*this);
}

Operation *OnnxDialect::materializeConstant(OpBuilder &builder, Attribute value,
                                            Type type, Location loc) {
  auto elements = dyn_cast<ElementsAttr>(value);
  if (!elements || elements.getType() != type)
    return nullptr;
  return WeightOp::create(builder, loc, type, elements);
}

OpFoldResult WeightOp::fold(FoldAdaptor) { return getValueAttr(); }

LogicalResult WeightOp::verify() {
  if (getValue().getShapedType() != getResult().getType())
    return emitOpError() << "value of type " << getValue().getShapedType()
                         << " does not match result type " << getResult().getType();
  return success();
}

static constexpr StringLiteral kOperandSegments = "operandSegmentSizes";
static constexpr StringLiteral kResultSegments = "resultSegmentSizes";

static size_t countFlexible(StringRef kinds) { return kinds.size() - kinds.count('1'); }

ParseResult parseOp(OpAsmParser &parser, OperationState &state,
                    StringRef inputKinds, StringRef outputKinds) {
  SmallVector<OpAsmParser::UnresolvedOperand> operands;
  SmallVector<int32_t> present; // one flag a position
  auto operand = [&]() -> ParseResult {
    if (succeeded(parser.parseOptionalKeyword("none"))) {
      present.push_back(0);
      return success();
    }
    present.push_back(1);
    return parser.parseOperand(operands.emplace_back());
  };
  SMLoc where = parser.getCurrentLocation();
  FunctionType type;
  if (parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Paren, operand) ||
      parser.parseOptionalAttrDict(state.attributes) || parser.parseColonType(type) ||
      parser.resolveOperands(operands, type.getInputs(), where, state.operands))
    return failure();
  state.addTypes(type.getResults());

  Builder &b = parser.getBuilder();
  if (countFlexible(inputKinds) > 1 && !state.attributes.get(kOperandSegments)) {
    SmallVector<int32_t> segments;
    for (auto [i, kind] : llvm::enumerate(inputKinds)) {
      int32_t size = 0;
      if (kind == '*')
        for (size_t j = i; j < present.size(); ++j)
          size += present[j];
      else if (i < present.size())
        size = present[i];
      segments.push_back(size);
    }
    state.addAttribute(kOperandSegments, b.getDenseI32ArrayAttr(segments));
  }
  if (countFlexible(outputKinds) > 1 && !state.attributes.get(kResultSegments)) {
    SmallVector<int32_t> segments;
    int32_t left = type.getNumResults();
    for (char kind : outputKinds) {
      int32_t size = kind == '*' ? left : std::min(left, 1);
      segments.push_back(size);
      left -= size;
    }
    state.addAttribute(kResultSegments, b.getDenseI32ArrayAttr(segments));
  }
  while (true) {
    std::unique_ptr<Region> region;
    OptionalParseResult parsed = parser.parseOptionalRegion(region);
    if (!parsed.has_value())
      return success();
    if (failed(*parsed))
      return failure();
    state.addRegion(std::move(region));
  }
}

void printOp(OpAsmPrinter &printer, Operation *op, StringRef inputKinds,
             StringRef outputKinds) {
  SmallVector<StringRef> elided;
  SmallVector<int32_t> segments;
  auto sizes = op->getAttrOfType<DenseI32ArrayAttr>(kOperandSegments);
  if (sizes && countFlexible(inputKinds) > 1) {
    elided.push_back(kOperandSegments);
    segments.assign(sizes.asArrayRef().begin(), sizes.asArrayRef().end());
  } else {
    segments.push_back(op->getNumOperands());
  }
  while (!segments.empty() && !segments.back())
    segments.pop_back();
  printer << '(';
  unsigned next = 0;
  bool first = true;
  for (int32_t size : segments) {
    if (!first)
      printer << ", ";
    first = false;
    if (!size)
      printer << "none";
    for (int32_t i = 0; i < size && next < op->getNumOperands(); ++i)
      printer << (i ? ", " : "") << op->getOperand(next++);
  }
  printer << ')';
  // Absent results at the end need no words.
  if (auto results = op->getAttrOfType<DenseI32ArrayAttr>(kResultSegments)) {
    bool absent = false, plain = true;
    for (int32_t size : results.asArrayRef()) {
      plain &= !(absent && size);
      absent |= !size;
    }
    if (plain && countFlexible(outputKinds) > 1)
      elided.push_back(kResultSegments);
  }
  // Attributes with the schema's default value are left out as well.
  OperationState state(op->getLoc(), op->getName());
  Operation *defaults = Operation::create(state);
  SmallVector<NamedAttribute> attributes;
  for (NamedAttribute attr : op->getAttrs())
    if (defaults->getAttr(attr.getName()) != attr.getValue())
      attributes.push_back(attr);
  defaults->destroy();
  printer.printOptionalAttrDict(attributes, elided);
  printer << " : ";
  printer.printFunctionalType(op);
  for (Region &region : op->getRegions()) {
    printer << ' ';
    printer.printRegion(region);
  }
}

} // namespace tessera::onnx

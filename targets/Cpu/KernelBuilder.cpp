#include "targets/Cpu/KernelBuilder.h"
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "dialects/Onnx/IR/Unsupported.h"
#include "targets/Cpu/Kernels/Elementwise.h"

using namespace mlir;

namespace tessera::cpu {

// --- registries --------------------------------------------------------------

namespace {
struct KernelTable {
  std::vector<std::unique_ptr<KernelBuilder>> builders;
  llvm::StringMap<SmallVector<const KernelBuilder *>> byName;
};
struct ElementwiseEntry {
  ElementwiseMatch match;
  ElementwiseFn emit;
};
} // namespace

static KernelTable &kernelTable() {
  static KernelTable table;
  return table;
}

static llvm::StringMap<ElementwiseEntry> &elementwiseTable() {
  static llvm::StringMap<ElementwiseEntry> table;
  return table;
}

/// "onnx.Conv", or "com.microsoft.FusedConv" for an onnx.Custom.
static std::string registryName(Operation *op) {
  StringRef name = op->getName().getStringRef();
  if (name != "onnx.Custom")
    return name.str();
  return (op->getAttrOfType<StringAttr>("domain").getValue() + "." +
          op->getAttrOfType<StringAttr>("op_type").getValue())
      .str();
}

RegisterKernel::RegisterKernel(std::initializer_list<StringRef> operations,
                               std::unique_ptr<KernelBuilder> builder) {
  KernelTable &table = kernelTable();
  for (StringRef name : operations)
    table.byName[name].push_back(builder.get());
  table.builders.push_back(std::move(builder));
}

RegisterElementwise::RegisterElementwise(std::initializer_list<StringRef> operations,
                                         ElementwiseMatch match, ElementwiseFn emit) {
  for (StringRef name : operations)
    elementwiseTable()[name] = {match, emit};
}

ArrayRef<const KernelBuilder *> kernelsFor(Operation *root) {
  auto it = kernelTable().byName.find(registryName(root));
  return it == kernelTable().byName.end() ? ArrayRef<const KernelBuilder *>{} : it->second;
}

const KernelBuilder *findKernel(Operation *root, Reasons &reasons) {
  ArrayRef<const KernelBuilder *> candidates = kernelsFor(root);
  if (candidates.empty()) {
    StringRef why = onnx::whyUnsupported(root);
    reasons.no() << "no kernel for operator " << registryName(root) << (why.empty() ? "" : ": ") << why;
    return nullptr;
  }
  // Which of several builders serves a root must not depend on link order:
  // kernel classes are distinct among them and their order decides.
  SmallVector<const KernelBuilder *> sorted(candidates);
  llvm::stable_sort(sorted, [&](auto *a, auto *c) { return a->kernelClass(root) < c->kernelClass(root); });
  Reasons all;
  for (const KernelBuilder *builder : sorted) {
    Reasons mine;
    if (succeeded(builder->match(root, mine)) && mine.empty())
      return builder;
    all.all.insert(all.all.end(), mine.all.begin(), mine.all.end());
  }
  reasons.all.insert(reasons.all.end(), all.all.begin(), all.all.end());
  return nullptr;
}

bool isElementwise(Operation *op) { return elementwiseTable().contains(registryName(op)); }

LogicalResult matchElementwise(Operation *op, Reasons &reasons) {
  auto it = elementwiseTable().find(registryName(op));
  if (it == elementwiseTable().end())
    return reasons.no() << "operator " << registryName(op) << " is not elementwise";
  if (failed(it->second.match(op, reasons)) || !reasons.empty())
    return failure();
  return success();
}

FailureOr<Value> emitElementwiseOp(Operation *op, ArrayRef<Value> operands, KernelEmitter &e) {
  auto it = elementwiseTable().find(registryName(op));
  if (it == elementwiseTable().end())
    return op->emitError("operator ") << registryName(op) << " is not elementwise";
  return it->second.emit(op, operands, e);
}

// --- fusion ----------------------------------------------------------------------

Value oneNumber(ElementsAttr attr, Type type, KernelEmitter &e) {
  if (isa<FloatType>(attr.getElementType())) {
    auto v = onnx::getFloats(attr);
    return v && v->size() == 1 ? e.floatConst(type, (*v)[0]) : Value();
  }
  auto v = onnx::getInts(attr);
  return v && v->size() == 1 ? e.intConst(type, (*v)[0]) : Value();
}

/// Embedded one-element constant in value type with the point's lanes.
static FailureOr<Value> materialise(ElementsAttr attr, const Point &p, KernelEmitter &e, Operation *op) {
  Type element = attr.getElementType();
  Type type = KernelEmitter::withLanes(KernelEmitter::valueType(element), p.laneAxis < 0 ? Lanes{} : p.lanes);
  if (Value v = oneNumber(attr, type, e))
    return v;
  return op->emitError("constant of ") << attr.getNumElements() << " elements of "
                                       << onnx::getTypeName(element) << " inside an elementwise kernel";
}

FailureOr<Value> Fusion::valueAt(Value v, const Point &p, llvm::DenseMap<Value, Value> *known) {
  llvm::DenseMap<Value, Value> local;
  if (!known)
    known = &local;
  if (auto it = known->find(v); it != known->end())
    return it->second;
  FailureOr<Value> result = failure();
  if (auto arg = dyn_cast<BlockArgument>(v)) {
    result = e.loadAt(e.inputs[arg.getArgNumber()], p);
  } else if (ElementsAttr constant = onnx::getConstant(v)) {
    result = materialise(constant, p, e, v.getDefiningOp());
  } else {
    Operation *def = v.getDefiningOp();
    SmallVector<Value> operands;
    for (unsigned i = 0, n = onnx::getNumOperandPositions(def); i < n; ++i) {
      Value operand = onnx::getOptionalOperand(def, i);
      if (!operand) {
        operands.push_back({});
        continue;
      }
      Point at = p;
      if (failed(mapElementwiseOperand(def, i, operand, at, e)))
        return failure();
      // A mapped point is another place: values known at `p` do not hold there.
      bool moved = at.index != p.index || at.laneAxis != p.laneAxis;
      FailureOr<Value> x = valueAt(operand, at, moved ? nullptr : known);
      if (failed(x))
        return failure();
      operands.push_back(e.splat(*x, p.laneAxis < 0 ? Lanes{} : p.lanes));
    }
    e.activeLanes = p.laneAxis < 0 ? Value{} : p.mask;
    result = emitElementwiseOp(def, operands, e);
    e.activeLanes = {};
  }
  if (succeeded(result))
    (*known)[v] = *result;
  return result;
}

FailureOr<Value> Fusion::loadFused(unsigned rootOperand, const Point &p) {
  return valueAt(onnx::getOptionalOperand(op.getRootOp(), rootOperand), p);
}

LogicalResult Fusion::storeFused(Value rootValue, const Point &p) {
  llvm::DenseMap<Value, Value> known;
  if (Operation *root = op.getRootOp())
    known[root->getResult(0)] = rootValue;
  for (auto [value, out] : llvm::zip(op.getBodyBlock()->getTerminator()->getOperands(), e.outputs)) {
    FailureOr<Value> v = valueAt(value, p, &known);
    if (failed(v))
      return failure();
    e.storeAt(out, p, e.splat(*v, p.laneAxis < 0 ? Lanes{} : p.lanes));
  }
  return success();
}

bool Fusion::hasEpilogue() {
  Operation *root = op.getRootOp();
  return !root || root->getNextNode() != op.getBodyBlock()->getTerminator();
}

const TensorRef *Fusion::plainOperand(unsigned rootOperand) {
  auto arg = dyn_cast_or_null<BlockArgument>(onnx::getOptionalOperand(op.getRootOp(), rootOperand));
  return arg ? &e.inputs[arg.getArgNumber()] : nullptr;
}

ElementsAttr Fusion::constantOperand(unsigned rootOperand) {
  Value v = onnx::getOptionalOperand(op.getRootOp(), rootOperand);
  return v ? onnx::getConstant(v) : ElementsAttr{};
}

// --- operands that are not simply broadcast -------------------------------------

/// Axis attribute of a (de)quantiser made non-negative.
LogicalResult mapElementwiseOperand(Operation *op, unsigned position, Value operand, Point &p, KernelEmitter &e) {
  StringRef name = op->getName().getStringRef();
  bool quantiser = name == "onnx.QuantizeLinear" || name == "onnx.DequantizeLinear";
  if (!quantiser || position == 0)
    return success();
  auto type = cast<RankedTensorType>(operand.getType());
  auto whole = cast<RankedTensorType>(op->getOperand(0).getType());
  if (type.getRank() == 0 || (type.hasStaticShape() && type.getNumElements() == 1)) {
    p.index.assign(type.getRank(), e.idx(0)); // one scale for all
    p.dims.clear();
    p.laneAxis = -1;
    return success();
  }
  int64_t axis = onnx::getInt(op, "axis", 1), block = onnx::getInt(op, "block_size", 0);
  if (axis < 0)
    axis += whole.getRank();
  unsigned shift = p.index.size() - whole.getRank();
  if (block > 0) { // scales have the data's rank, coarser along the axis
    unsigned at = axis + shift;
    if (static_cast<int>(at) == p.laneAxis && !p.lanes.isScalar())
      return op->emitError("vector lanes along the blocked axis");
    p.index[at] = e.divU(p.index[at], e.idx(block));
    p.dims.clear();
    return success();
  }
  if (type.getRank() != 1)
    return op->emitError("scale of rank ") << type.getRank() << " without block_size";
  unsigned at = axis + shift;
  Value i = p.index[at];
  bool lanesHere = static_cast<int>(at) == p.laneAxis;
  Value dim = at < p.dims.size() ? p.dims[at] : Value{};
  p.index.assign(1, i);
  p.dims.clear();
  if (dim)
    p.dims.push_back(dim);
  p.laneAxis = lanesHere ? 0 : -1;
  return success();
}

} // namespace tessera::cpu

#include "targets/Tosa/Lowering.h"
#include "llvm/ADT/SetVector.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tosa/IR/TosaOps.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "targets/Tosa/Lower/Quantised.h"
#include "targets/Tosa/Schema.h"

using namespace mlir;

namespace tessera::tosa {

static bool isConstant(Value v) { return !!onnx::getConstant(v); }

Border findBorder(ArrayRef<Operation *> ops) {
  llvm::SmallPtrSet<Operation *, 16> inside(ops.begin(), ops.end());
  llvm::SetVector<Value> inputs;
  Border border;
  for (Operation *op : ops) {
    if (op->hasTrait<OpTrait::ConstantLike>())
      continue;
    for (Value v : op->getOperands())
      if (!isConstant(v) && !(v.getDefiningOp() && inside.contains(v.getDefiningOp())))
        inputs.insert(v);
    for (Value v : op->getResults())
      if (llvm::any_of(v.getUsers(), [&](Operation *user) { return !inside.contains(user); }))
        border.outputs.push_back(v);
  }
  border.inputs = inputs.takeVector();
  return border;
}

Type deviceElement(Type element, Precision precision) {
  if (element.isF32() && precision == Precision::F16)
    return Float16Type::get(element.getContext());
  if (element.isInteger(64))
    return IntegerType::get(element.getContext(), 32);
  return element;
}

//===----------------------------------------------------------------------===//
// Registry
//===----------------------------------------------------------------------===//

using Table = llvm::StringMap<LoweringEntry>;
static Table &table(bool integer) {
  static Table tables[2];
  return tables[integer];
}

RegisterLowering::RegisterLowering(std::initializer_list<StringRef> names, Domain domain, Elements elements,
                                   std::initializer_list<StringRef> attributes, LoweringFn fn) {
  for (StringRef name : names)
    for (bool integer : {false, true})
      if (domain == Domain::Both || (domain == Domain::Integer) == integer)
        table(integer)[("onnx." + name).str()] = {fn, elements, SmallVector<StringRef>(attributes)};
}

const LoweringEntry *findLowering(Operation *op, Precision precision) {
  Table &t = table(isQuantised(precision));
  auto it = t.find(op->getName().getStringRef());
  return it == t.end() ? nullptr : &it->second;
}

//===----------------------------------------------------------------------===//
// Checks that are the same for every operator
//===----------------------------------------------------------------------===//

static bool elementServed(Type t, Elements elements, Precision precision) {
  bool isFloat = t.isF32() || t.isF16(), isBool = t.isInteger(1);
  bool isInt = t.isSignlessInteger(8) || t.isSignlessInteger(32) ||
               (t.isSignlessInteger(16) && precision == Precision::Int16);
  switch (elements) {
  case Elements::Float: return isFloat;
  case Elements::FloatOrInt: return isFloat || isInt;
  case Elements::Bool: return isBool;
  case Elements::Any: return isFloat || isInt || isBool;
  }
  llvm_unreachable("every class is covered");
}

static void checkValue(Value v, StringRef what, const LoweringEntry &entry, Lowerer &l) {
  constexpr int64_t maxRank = 6; // of TOSA's level 8K
  auto type = dyn_cast<RankedTensorType>(v.getType());
  if (!type || !type.hasStaticShape()) {
    l.no() << what << " has no static shape: " << onnx::getTypeName(v.getType());
    return;
  }
  if (type.getRank() > maxRank)
    l.no() << what << " has rank " << type.getRank() << ", TOSA has at most " << maxRank;
  if (type.getNumElements() == 0)
    l.no() << what << " is empty";
  if (!elementServed(type.getElementType(), entry.elements, l.precision))
    l.no() << what << " has element type " << onnx::getTypeName(type.getElementType());
}

/// What Lowerer::get() can make of a constant, contents aside.
static void checkConstant(Value v, StringRef what, Lowerer &l) {
  Type element = Lowerer::typeOf(v).getElementType();
  if (!HostTensor::supported(element) || dtypeOf(l.device(element)) == schema::DType_UNKNOWN)
    l.no() << what << " is a constant of element type " << onnx::getTypeName(element) << ", which TOSA has not";
}

static LogicalResult checkOp(Operation *op, const LoweringEntry &entry, Lowerer &l) {
  size_t before = l.reasons.all.size();
  for (NamedAttribute a : op->getAttrs()) {
    StringRef name = a.getName().strref();
    if (!name.contains('.') && !name.ends_with("SegmentSizes") && !llvm::is_contained(entry.attributes, name))
      l.no() << "attribute '" << name << "' is not understood";
  }
  for (auto [i, v] : llvm::enumerate(op->getOperands())) {
    std::string what = ("input '" + onnx::getOperandName(op, onnx::getOperandPosition(op, i)) + "'").str();
    if (isConstant(v))
      checkConstant(v, what, l);
    else
      checkValue(v, what, entry, l);
  }
  for (auto [i, v] : llvm::enumerate(op->getResults())) {
    bool index = op->getName().getStringRef() == "onnx.ArgMax"; // int64 by definition, int32 on the device
    if (!index)
      checkValue(v, "output " + std::to_string(i), entry, l);
  }
  return success(l.reasons.all.size() == before);
}

/// Whether `op` gives 48-bit integers another shape, which RESCALE does behind
/// itself instead; who else reads them finds no such operator.
static bool awaitsRescale(Operation *op) {
  return isa<mlir::tosa::ReshapeOp>(op) && Lowerer::typeOf(op->getResult(0)).getElementType().isInteger(48);
}

/// TOSA's profiles on what was built behind `last`; null: from the start of the block.
static LogicalResult checkBuilt(Lowerer &l, Operation *last) {
  Block *block = l.b.getInsertionBlock();
  for (Operation *op = last ? last->getNextNode() : block->empty() ? nullptr : &block->front(); op;
       op = op->getNextNode())
    if (!awaitsRescale(op) && failed(checkProfiles(op, l.reasons)))
      return failure();
  return success();
}

static LogicalResult lowerOp(Operation *op, Lowerer &l) {
  const LoweringEntry *entry = findLowering(op, l.precision);
  if (!entry)
    return l.no() << "has no lowering to TOSA in precision " << precisionName(l.precision);
  if (failed(checkOp(op, *entry, l)))
    return failure();
  if (isQuantised(l.precision))
    for (Value v : op->getOperands())
      if (isa<FloatType>(Lowerer::typeOf(v).getElementType()) && !isConstant(v) && !l.scaled.contains(v) &&
          op->getName().getStringRef() != "onnx.QuantizeLinear")
        return l.no() << "reads a float tensor that no DequantizeLinear of the region gives";
  l.loc = op->getLoc();
  l.stored = l.device(Lowerer::typeOf(op->getResult(0)).getElementType());
  size_t before = l.reasons.all.size();
  Block *block = l.b.getInsertionBlock();
  Operation *last = block->empty() ? nullptr : &block->back();
  QuantisedOperand operand(l);
  if (isQuantised(l.precision) && failed(operand.quantiseBefore(op)))
    return failure();
  if (failed(entry->fn(op, l)))
    return l.reasons.all.size() > before ? failure() : LogicalResult(l.no() << "cannot be expressed");
  if (failed(checkBuilt(l, last)))
    return failure();
  if (isQuantised(l.precision) && findLowering(op, Precision::F32) &&
      findLowering(op, Precision::F32)->fn == entry->fn)
    return inheritMeaning(op, l);
  return success();
}

/// "Conv 'layer1/conv': " before every reason that `op` added.
static void nameReasons(Operation *op, Reasons &reasons, size_t from) {
  std::string prefix = op->getName().stripDialect().str();
  if (StringRef node = onnx::getNodeName(op); !node.empty())
    prefix += " '" + node.str() + "'";
  for (size_t i = from; i < reasons.all.size(); ++i)
    reasons.all[i] = prefix + ": " + reasons.all[i];
}

static func::FuncOp startFunction(OpBuilder &b, const Border &border, Precision precision) {
  SmallVector<Type> inputs, outputs;
  auto type = [&](Value v) -> Type {
    auto t = cast<RankedTensorType>(v.getType());
    return t.clone(deviceElement(t.getElementType(), precision));
  };
  for (Value v : border.inputs)
    inputs.push_back(type(v));
  for (Value v : border.outputs)
    outputs.push_back(type(v));
  auto func = func::FuncOp::create(b, b.getUnknownLoc(), "main", b.getFunctionType(inputs, outputs));
  b.setInsertionPointToStart(func.addEntryBlock());
  return func;
}

static LogicalResult checkBorder(const Border &border, Precision precision, Reasons &reasons) {
  size_t before = reasons.all.size();
  auto check = [&](Value v, StringRef what) {
    auto type = dyn_cast<RankedTensorType>(v.getType());
    if (!type || !type.hasStaticShape())
      reasons.no() << what << " of the region has no static shape: " << onnx::getTypeName(v.getType());
    else if (type.getRank() == 0)
      reasons.no() << what << " of the region has rank 0";
    else if (isQuantised(precision) && isa<FloatType>(type.getElementType()))
      reasons.no() << what << " of the region is " << onnx::getTypeName(type.getElementType())
                   << ": only integers cross the border under " << precisionName(precision);
    else if (what == "an input" && type.getElementType().isInteger(64))
      reasons.no() << what << " of the region is int64, which TOSA has not";
  };
  for (Value v : border.inputs)
    check(v, "an input");
  for (Value v : border.outputs)
    check(v, "an output");
  if (border.outputs.empty())
    reasons.no() << "nothing reads a result of the region";
  return success(reasons.all.size() == before);
}

/// Constants and orders of axes that a lowering asked for and did not use.
static void eraseDead(func::FuncOp func) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(func.getBody().front())))
    if (isOpTriviallyDead(&op))
      op.erase();
}

static FailureOr<OwningOpRef<ModuleOp>> lower(ArrayRef<Operation *> ops, const Border &border, Precision precision,
                                              bool contents, Reasons &reasons) {
  bool ok = succeeded(checkBorder(border, precision, reasons));
  for (Operation *op : ops)
    if (!op->hasTrait<OpTrait::ConstantLike>() && !findLowering(op, precision)) {
      size_t from = reasons.all.size();
      reasons.no() << "has no lowering to TOSA in precision " << precisionName(precision);
      nameReasons(op, reasons, from);
      ok = false;
    }
  if (!ok)
    return failure();
  MLIRContext *context = border.outputs.front().getContext();
  context->getOrLoadDialect<mlir::tosa::TosaDialect>();
  context->getOrLoadDialect<func::FuncDialect>();
  OpBuilder b(context);
  OwningOpRef<ModuleOp> module = ModuleOp::create(b.getUnknownLoc());
  b.setInsertionPointToStart(module->getBody());
  func::FuncOp func = startFunction(b, border, precision);
  Lowerer l(b, precision, contents, reasons);
  for (auto [v, arg] : llvm::zip_equal(border.inputs, func.getArguments()))
    l.set(v, arg);
  for (Operation *op : ops) {
    if (op->hasTrait<OpTrait::ConstantLike>())
      continue;
    size_t from = reasons.all.size();
    if (failed(lowerOp(op, l))) {
      nameReasons(op, reasons, from);
      return failure(); // what follows would fail for want of this result
    }
  }
  SmallVector<Value> results;
  for (Value v : border.outputs) {
    Value x = l.get(v);
    assert(x && "every lowering sets its results");
    // Names of results in the file are theirs alone.
    if (isa<BlockArgument>(x) || llvm::is_contained(results, x) || x.getDefiningOp<mlir::tosa::ConstOp>())
      x = l.unary("identity", x);
    results.push_back(x);
  }
  func::ReturnOp::create(l.b, b.getUnknownLoc(), results);
  eraseDead(func);
  for (Operation &op : func.getBody().front())
    if (awaitsRescale(&op) && failed(checkProfiles(&op, reasons)))
      return failure();
  // The dialect's own verifier has the last word on what TOSA allows.
  std::string said;
  ScopedDiagnosticHandler handler(context, [&](Diagnostic &d) {
    if (said.empty())
      said = d.str();
    return success();
  });
  if (failed(verify(*module)))
    return LogicalResult(reasons.no() << "the TOSA dialect refuses the result: " << said);
  return module;
}

FailureOr<OwningOpRef<ModuleOp>> lowerToTosa(ArrayRef<Operation *> ops, const Border &border, Precision precision,
                                             Reasons &reasons) {
  return lower(ops, border, precision, /*contents=*/true, reasons);
}

LogicalResult canLower(ArrayRef<Operation *> ops, Precision precision, Reasons &reasons) {
  return lower(ops, findBorder(ops), precision, /*contents=*/false, reasons);
}

LogicalResult canLower(ArrayRef<Operation *> ops, Precision precision, DeviceCheck device, bool contents,
                       Reasons &reasons) {
  auto module = lower(ops, findBorder(ops), precision, contents, reasons);
  if (failed(module))
    return failure();
  size_t before = reasons.all.size();
  (*module)->walk([&](Operation *op) {
    for (const std::string &fault : device(op))
      if (!llvm::is_contained(reasons.all, fault))
        reasons.no() << fault;
  });
  return success(reasons.all.size() == before);
}

} // namespace tessera::tosa

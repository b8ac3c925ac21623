#include "targets/Rules.h"
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "onnx/defs/schema.h"
#include "passes/Canonicalise/Dequantised.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace llvm;

namespace tessera {

bool hasOnlyIntegers(const TargetDescription &target) {
  return all_of(drop_begin(target.units), [](const Unit &u) { return all_of(u.precisions, isQuantised); });
}

/// Without the noise of a binary fraction: 0.1666667, 3.
static std::string text(double v) {
  if (v == std::floor(v) && std::abs(v) < 1e15)
    return std::to_string(static_cast<int64_t>(v));
  std::string s;
  raw_string_ostream(s) << llvm::format("%.7g", v);
  return s;
}

static std::string joinNumbers(ArrayRef<double> values, StringRef separator) {
  return join(map_range(values, text), separator);
}

/// A limit for each element, as the elements are printed: 31x31.
static std::string limitText(double limit, size_t count) {
  return join(SmallVector<std::string>(count, text(limit)), "x");
}

static void checkNumbers(const Constraint &c, const Findings &f, SmallVectorImpl<std::string> &reasons) {
  if (f.numbers.empty())
    return;
  std::string found = f.label + " " + joinNumbers(f.numbers, "x");
  if (c.max && any_of(f.numbers, [&](double v) { return v > *c.max; }))
    reasons.push_back(found + " exceeds " + limitText(*c.max, f.numbers.size()));
  if (c.min && any_of(f.numbers, [&](double v) { return v < *c.min; }))
    reasons.push_back(found + " is below " + limitText(*c.min, f.numbers.size()));
  if (c.multiple && any_of(f.numbers, [&](double v) { return std::fmod(v, *c.multiple) != 0; }))
    reasons.push_back(found + " is not a multiple of " + text(*c.multiple));
  auto allowed = [&](double v) {
    return any_of(c.numbers, [&](double n) { return std::abs(v - n) <= 1e-6 * std::max(1.0, std::abs(n)); });
  };
  if (c.numbers.empty() || all_of(f.numbers, allowed))
    return;
  reasons.push_back(c.numbers.size() == 1 ? found + " is not " + text(c.numbers[0])
                                          : found + " is none of " + joinNumbers(c.numbers, ", "));
}

/// Whether a constraint without `tensor` holds for each tensor on its own.
static bool isOfAnyTensor(Subject subject) {
  return subject == Subject::Rank || subject == Subject::Dims || subject == Subject::SpatialProduct ||
         subject == Subject::ElementType;
}

static std::string resultName(OpResult r) {
  Operation *op = r.getOwner();
  const auto *schema = ::onnx::OpSchemaRegistry::Schema(op->getName().stripDialect().str());
  if (!schema || schema->outputs().empty())
    return "result";
  size_t at = onnx::getResultPosition(op, r.getResultNumber());
  return schema->outputs()[std::min(at, schema->outputs().size() - 1)].GetName();
}

static StringRef operandName(OpOperand &o) {
  return onnx::getOperandName(o.getOwner(), onnx::getOperandPosition(o.getOwner(), o.getOperandNumber()));
}

/// Names of the tensors that are not constant, each once.
static SmallVector<std::string> tensorNames(Operation *op, Precision precision) {
  SmallVector<std::string> names;
  auto add = [&](Value v, StringRef name) {
    if (!isa<NoneType>(v.getType()) && !isConstantOperand(v, precision) && !is_contained(names, name))
      names.push_back(name.str());
  };
  for (OpOperand &o : op->getOpOperands())
    add(o.get(), operandName(o));
  for (OpResult r : op->getResults())
    add(r, resultName(r));
  return names;
}

void checkConstraint(const Constraint &c, Operation *op, Precision precision, SmallVectorImpl<std::string> &reasons) {
  if (c.argument.empty() && isOfAnyTensor(c.subject)) {
    Constraint one = c;
    for (std::string &name : tensorNames(op, precision)) {
      one.argument = std::move(name);
      checkConstraint(one, op, precision, reasons);
    }
    return;
  }
  Findings f = findSubject(c, op, precision);
  for (std::string &fault : f.faults)
    if (!is_contained(reasons, fault))
      reasons.push_back(fault);
  checkNumbers(c, f, reasons);
  for (const std::string &word : f.words)
    if (!c.words.empty() && !is_contained(c.words, word))
      reasons.push_back(f.label + " is " + word + ", not " + join(c.words, " or "));
}

static bool holds(ArrayRef<Constraint> constraints, Operation *op, Precision precision) {
  return all_of(constraints, [&](const Constraint &c) {
    SmallVector<std::string> reasons;
    checkConstraint(c, op, precision, reasons);
    return reasons.empty();
  });
}

const OpRule *findRule(const Unit &unit, Operation *op, Precision precision) {
  StringRef name = op->getName().stripDialect();
  for (const OpRule &rule : unit.ops)
    if (is_contained(rule.ops, name) && is_contained(rule.precisions, precision) && holds(rule.when, op, precision))
      return &rule;
  return nullptr;
}

// --- element types
// ---------------------------------------------------------------

/// Whether a quantised tensor may have these elements.
static bool isStored(mlir::Type element, Precision precision) {
  return element.isInteger(8) || (precision == Precision::Int16 && element.isInteger(16));
}
static mlir::Type elementOf(Value v) {
  auto type = dyn_cast<ShapedType>(v.getType());
  return type ? type.getElementType() : mlir::Type();
}
static bool isFloat(Value v) { return isa_and_nonnull<FloatType>(elementOf(v)); }

/// How many float operators may stand between a DequantizeLinear and a
/// QuantizeLinear: an operator with its activation and what merges them.
constexpr unsigned islandDepth = 4;

/// Whether the float value comes from such integers within a few operators.
static bool comesFromIntegers(Value v, Precision precision, unsigned depth = islandDepth) {
  if (onnx::getConstant(v))
    return true;
  Operation *def = v.getDefiningOp();
  if (!def)
    return false;
  if (def->getName().getStringRef() == "onnx.DequantizeLinear")
    return isStored(elementOf(def->getOperand(0)), precision);
  return depth && all_of(def->getOperands(), [&](Value o) { return !isFloat(o) || comesFromIntegers(o, precision, depth - 1); });
}

/// Whether the float value is only read as such integers within a few operators.
static bool becomesIntegers(Value v, Precision precision, unsigned depth = islandDepth) {
  return !v.use_empty() && all_of(v.getUsers(), [&](Operation *user) {
    if (user->getName().getStringRef() == "onnx.QuantizeLinear")
      return isStored(elementOf(user->getResult(0)), precision);
    return depth && !user->hasTrait<OpTrait::IsTerminator>() &&
           all_of(user->getResults(), [&](Value r) { return isFloat(r) && becomesIntegers(r, precision, depth - 1); });
  });
}

static void checkType(Value v, StringRef name, bool isResult, const OpRule &rule, Precision precision,
                      SmallVectorImpl<std::string> &reasons) {
  mlir::Type element = elementOf(v);
  if (!element) {
    reasons.push_back(("'" + name + "' of type " + onnx::getTypeName(v.getType()) + " is not a tensor").str());
    return;
  }
  std::string type = onnx::getTypeName(element);
  if (auto it = rule.dtypes.find(name.str()); it != rule.dtypes.end()) {
    if (!is_contained(it->second, type))
      reasons.push_back(("element type " + type + " of '" + name + "' is none of " + join(it->second, ", ")).str());
    return;
  }
  if (precision == Precision::F32 && !element.isF32())
    reasons.push_back(("element type " + type + " of '" + name + "' is not float32").str());
  if (precision == Precision::F16 && !element.isF32() && !element.isF16())
    reasons.push_back(("element type " + type + " of '" + name + "' is none of float32, float16").str());
  bool leavesAsItIs = isResult && onnx::isIntegerSum(v.getDefiningOp());
  if (!isQuantised(precision) || isStored(element, precision) || leavesAsItIs)
    return;
  bool known =
      isa<FloatType>(element) && (isResult ? becomesIntegers(v, precision) : comesFromIntegers(v, precision));
  std::string bits = precision == Precision::Int8 ? "8 bits" : "8 or 16 bits";
  if (!known)
    reasons.push_back((isResult ? "'" + name + "' is " + type + " and is not quantised to " + bits + " by its readers"
                                : "'" + name + "' is " + type + " and does not come from " + bits)
                          .str());
}

static void checkTypes(Operation *op, const OpRule &rule, Precision precision, SmallVectorImpl<std::string> &reasons) {
  for (OpOperand &o : op->getOpOperands()) {
    if (isa<NoneType>(o.get().getType()) || isConstantOperand(o.get(), precision))
      continue;
    checkType(o.get(), operandName(o), /*isResult=*/false, rule, precision, reasons);
  }
  for (OpResult r : op->getResults())
    checkType(r, resultName(r), /*isResult=*/true, rule, precision, reasons);
}

SmallVector<std::string> failingRules(const TargetDescription &target, unsigned unitIndex, Operation *op,
                                      Precision precision) {
  const Unit &unit = target.units[unitIndex];
  SmallVector<std::string> reasons;
  if (unit.backend == "cpu")
    return reasons;
  StringRef name = op->getName().stripDialect();
  const OpRule *rule = findRule(unit, op, precision);
  static const OpRule anything;
  if (!rule && unit.backend == "vulkan")
    return reasons; // in the types that it has, of which the code generator knows
  if (!rule && unit.decidesItself())
    rule = &anything;
  if (!rule) {
    SmallVector<std::string> others;
    for (const OpRule &r : unit.ops)
      if (is_contained(r.ops, name))
        for (Precision p : r.precisions)
          if (p != precision && !is_contained(others, precisionName(p)))
            others.push_back(precisionName(p).str());
    reasons.push_back(
        others.empty()
            ? ("operator " + name + " is not in the unit's list").str()
            : ("operator " + name + " runs in " + join(others, ", ") + ", not " + precisionName(precision)).str());
    return reasons;
  }
  if (!rule->refuse.empty()) {
    reasons.push_back(("operator " + name + ": " + rule->refuse).str());
    return reasons;
  }
  for (const Constraint &c : unit.always)
    checkConstraint(c, op, precision, reasons);
  for (const Constraint &c : rule->require)
    checkConstraint(c, op, precision, reasons);
  checkTypes(op, *rule, precision, reasons);
  return reasons;
}

} // namespace tessera

#include "targets/CostModel.h"
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "passes/Canonicalise/Dequantised.h"
#include "targets/Rules.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SmallPtrSet.h"

#include <cmath>

using namespace mlir;

namespace tessera {

static Type elementOf(Value v) {
  auto type = dyn_cast<ShapedType>(v.getType());
  return type ? type.getElementType() : Type();
}

static bool is(Operation *op, StringRef name) { return op && op->getName().stripDialect() == name; }

static bool isByte(Type element) {
  auto integer = dyn_cast_or_null<IntegerType>(element);
  return integer && integer.getWidth() == 8;
}

namespace {

class GroupPricer {
public:
  GroupPricer(const TargetDescription &target, unsigned unit, Precision precision, ArrayRef<Operation *> ops,
              const Sizes &sizes)
      : target(target), unit(target.units[unit]), params(this->unit.params.at(precision)), precision(precision),
        ops(ops), sizes(sizes) {
    members.insert(ops.begin(), ops.end());
  }
  GroupCost run();

private:
  double storedBytes(Value v) const;
  bool isConstant(Value v) const { return isConstantOperand(v, precision); }
  bool crosses(OpResult r) const {
    return llvm::any_of(r.getUsers(), [&](Operation *user) { return !members.contains(user); });
  }
  /// Whether the unit reads the integers that a constant was made from.
  bool readsIntegers(Value constant) const;
  double rateOf(WorkKind kind, const CostParams &of) const;
  void add(Operation *op);
  void addMemory();

  const TargetDescription &target;
  const Unit &unit;
  const CostParams &params;
  Precision precision;
  ArrayRef<Operation *> ops;
  const Sizes &sizes;
  llvm::SmallPtrSet<Operation *, 16> members;
  llvm::MapVector<Value, double> constants,
      activations; ///< bytes at the border, once a tensor
  GroupCost cost;
  bool onlyViews = true;
};

} // namespace

bool GroupPricer::readsIntegers(Value v) const {
  auto form = onnx::dequantisedForm(v);
  if (!form)
    return false;
  if (isQuantised(precision))
    return true;
  return unit.kind == UnitKind::Gpu && llvm::all_of(v.getUsers(), [&](Operation *user) {
           return (form->block > 0 && (is(user, "MatMul") || is(user, "Gemm"))) ||
                  (unit.params.contains(Precision::Int8) && isIntegerProduct(user));
         });
}

double GroupPricer::storedBytes(Value v) const {
  Type element = elementOf(v);
  if (readsIntegers(v))
    element = onnx::dequantisedForm(v)->element;
  unsigned bits = element ? onnx::getStorageBits(element) : 0;
  if (isa_and_nonnull<FloatType>(element) && !onnx::getConstant(v))
    bits = std::min<unsigned>(bits, precision == Precision::F32 ? bits : 8 * ::tessera::storedBytes(precision));
  if (isa_and_nonnull<FloatType>(element) && precision == Precision::F16)
    bits = std::min(bits, 16u); // weights too; biases of int8 stay wide
  return sizes.elements(v) * bits / 8.0;
}

/// GMAC/s.
double GroupPricer::rateOf(WorkKind kind, const CostParams &of) const {
  const Quantity &share = kind == WorkKind::Dense       ? of.uDense
                          : kind == WorkKind::Depthwise ? of.uDepthwise
                          : kind == WorkKind::Matmul    ? of.uMatmul
                                                        : of.uLinear;
  return of.peakMacs.value * share.value;
}

void GroupPricer::add(Operation *op) {
  OpWork work = countWork(op, sizes, static_cast<int64_t>(unit.channelGranule.value));
  onlyViews &= work.kind == WorkKind::View;
  cost.macs += work.macs;
  cost.macsPadded += work.macsPadded;
  if (work.macsPadded) {
    auto bytes = unit.params.find(Precision::Int8);
    bool inBytes = unit.kind == UnitKind::Gpu && bytes != unit.params.end() && isIntegerProduct(op);
    cost.compute += work.macsPadded / rateOf(work.kind, inBytes ? bytes->second : params);
  }
  cost.lut += work.lutElements / params.lutRate.value;
  if (const OpRule *rule = findRule(unit, op, precision))
    cost.rules += rule->time.value * 1000;
  double written = 0, border = 0;
  for (OpResult r : op->getResults())
    written += storedBytes(r);
  for (auto [i, v] : llvm::enumerate(op->getOperands())) {
    Operation *def = v.getDefiningOp();
    if (isa<NoneType>(v.getType()) || (def && members.contains(def)))
      continue;
    double bytes = storedBytes(v);
    if (work.readsPart && i == 0)
      bytes = std::min(bytes, written);
    auto &known = isConstant(v) ? constants[v] : activations[v];
    known = std::max(known, bytes);
    border += bytes;
  }
  for (OpResult r : op->getResults())
    if (crosses(r)) {
      activations[r] = storedBytes(r);
      border += storedBytes(r);
    }
  if (work.kind == WorkKind::Vector)
    cost.vector += border / params.vectorRate.value;
}

void GroupPricer::addMemory() {
  double weights = 0, moving = 0;
  for (auto [tensor, bytes] : constants)
    weights += bytes;
  for (auto [tensor, bytes] : activations)
    moving += bytes;
  double bytes = weights + (moving > unit.onChip.value * 1024 ? moving : 0);
  cost.bytes = std::llround(bytes);
  cost.memory = bytes / (target.memories[unit.memory].bandwidth.value * params.uBandwidth.value);
}

GroupCost GroupPricer::run() {
  for (Operation *op : ops)
    add(op);
  if (onlyViews && unit.kind == UnitKind::Cpu)
    return {};
  addMemory();
  cost.op = params.opTime.value * 1000;
  double total = std::hypot(cost.compute, cost.memory) + cost.vector + cost.lut + cost.op + cost.rules;
  cost.ns = std::max<int64_t>(std::llround(total), 1);
  return cost;
}

// --- interface
// -------------------------------------------------------------------

static bool isPriced(Operation &op) {
  return !op.hasTrait<OpTrait::IsTerminator>() && !op.hasTrait<OpTrait::ConstantLike>() &&
         op.getName().getStringRef().starts_with("onnx.") && op.getName().stripDialect() != "NoValue" &&
         op.getName().stripDialect() != "Constant";
}

/// Bodies' operators, each alone.
static int64_t bodyNs(const TargetDescription &target, unsigned unit, Region &region, const Sizes &sizes) {
  int64_t ns = 0;
  for (Operation &op : region.getOps())
    if (isPriced(op))
      ns += groupCostNs(target, unit, cpuPrecision(&op), {&op}, sizes);
  return ns;
}

GroupCost groupCost(const TargetDescription &target, unsigned unit, Precision precision, ArrayRef<Operation *> ops,
                    const Sizes &sizes) {
  if (ops.size() != 1 || !ops[0]->getNumRegions())
    return GroupPricer(target, unit, precision, ops, sizes).run();
  GroupCost cost;
  bool alternatives = ops[0]->getName().stripDialect() == "If";
  for (Region &region : ops[0]->getRegions()) {
    int64_t ns = bodyNs(target, unit, region, sizes);
    cost.ns = alternatives ? std::max(cost.ns, ns) : cost.ns + ns;
  }
  cost.ns = std::max<int64_t>(cost.ns, 1);
  return cost;
}

int64_t groupCostNs(const TargetDescription &target, unsigned unit, Precision precision, ArrayRef<Operation *> ops,
                    const Sizes &sizes) {
  return groupCost(target, unit, precision, ops, sizes).ns;
}

/// Whether `v` is made from bytes, by one scale or one a channel.
static bool isFromBytes(Value v) {
  if (auto form = onnx::dequantisedForm(v))
    return form->block == 0 && isByte(form->element);
  Operation *def = v.getDefiningOp();
  return is(def, "DequantizeLinear") && isByte(elementOf(def->getOperand(0))) &&
         onnx::getInt(def, "block_size", 0) == 0;
}

/// Whether all that reads `v` makes bytes of it, with bounds before that or not.
static bool goesToBytes(Value v) {
  return !v.use_empty() && llvm::all_of(v.getUsers(), [&](Operation *user) {
    if (is(user, "QuantizeLinear"))
      return user->getOperand(0) == v && isByte(elementOf(user->getResult(0)));
    return (is(user, "Relu") || is(user, "Clip")) && goesToBytes(user->getResult(0));
  });
}

bool isIntegerProduct(Operation *op) {
  if (onnx::isIntegerSum(op) || is(op, "QLinearConv") || is(op, "QLinearMatMul"))
    return true;
  if (!is(op, "Conv") && !is(op, "MatMul") && !is(op, "Gemm"))
    return false;
  Value right = op->getOperand(1);
  return isConstantOperand(right, Precision::Int8) && isFromBytes(op->getOperand(0)) && isFromBytes(right) &&
         goesToBytes(op->getResult(0));
}

Precision cpuPrecision(ArrayRef<Operation *> ops) {
  if (llvm::any_of(ops, isIntegerProduct))
    return Precision::Int8;
  bool half = llvm::any_of(ops, [](Operation *op) {
    return llvm::any_of(op->getResults(), [](Value v) {
      Type element = elementOf(v);
      return element && element.isF16();
    });
  });
  return half ? Precision::F16 : Precision::F32;
}

int64_t launchNs(const TargetDescription &target, unsigned unit) {
  return std::llround(target.units[unit].launch.value * 1000);
}

LinearCost copyCost(const TargetDescription &target, unsigned fromUnit, unsigned toUnit) {
  unsigned from = target.units[fromUnit].memory, to = target.units[toUnit].memory;
  if (from == to)
    return {};
  const Link *link = target.link(from, to);
  assert(link && "the parser demands links with the CPU's memory");
  return {link->fixedNs, link->psPerByte};
}

LinearCost conversionCost(const TargetDescription &target, unsigned cpuUnit, unsigned fromBytes, unsigned toBytes) {
  const CostParams &params = target.units[cpuUnit].params.at(Precision::F32);
  return {std::llround(params.opTime.value * 1000),
          std::llround((fromBytes + toBytes) * 1000 / params.vectorRate.value)};
}

} // namespace tessera

// One walk in program order: each operator's rule gives the dimensions of its
// results; what the importer declared is merged in. Contents of small tensors
// are computed on demand only, by pulling through the operators that make them,
// so a model that does no shape arithmetic pays nothing for it. Types are
// refined last, since loop bodies are analysed more than once.
#include "dialects/Onnx/Shapes/ShapeAnalysis.h"
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "dialects/Onnx/Shapes/ShapeRules.h"
#include "llvm/ADT/StringMap.h"

#include <cmath>

using namespace mlir;

namespace tessera::onnx {

//===----------------------------------------------------------------------===//
// Registry
//===----------------------------------------------------------------------===//

static llvm::StringMap<OpRules> &registry() {
  static llvm::StringMap<OpRules> rules;
  return rules;
}

OpRules &addRules(StringRef name) { return registry()[name]; }

const OpRules *findRules(Operation *op) {
  StringRef name = op->getName().getStringRef();
  std::string key;
  if (name == "onnx.Custom") {
    auto domain = op->getAttrOfType<StringAttr>("domain");
    auto type = op->getAttrOfType<StringAttr>("op_type");
    if (!domain || !type)
      return nullptr;
    key = (domain.getValue() + "." + type.getValue()).str();
    name = key;
  } else if (!name.consume_front("onnx."))
    return nullptr;
  auto it = registry().find(name);
  return it == registry().end() ? nullptr : &it->second;
}

std::string describe(Operation *op) {
  StringRef name = getNodeName(op);
  return name.empty() ? op->getName().getStringRef().str() : ("node '" + name + "'").str();
}

//===----------------------------------------------------------------------===//
// Engine: dimensions
//===----------------------------------------------------------------------===//

std::optional<ArrayRef<Sym>> ShapeEngine::findDims(Value v) const {
  auto it = dims.find(v);
  return it == dims.end() ? std::nullopt : std::optional(it->second);
}

void ShapeEngine::setDims(Value v, ArrayRef<Sym> d) {
  dims[v] = d.copy(memory);
  reasons.erase(v);
}

void ShapeEngine::setUnknown(Value v, Unknown why) { reasons[v] = std::move(why); }

Unknown ShapeEngine::whyUnknown(Value v) const {
  auto it = reasons.find(v);
  return it == reasons.end() ? Unknown{"its rank is not known"} : it->second;
}

void ShapeEngine::error(Operation *op, std::string message) {
  errors.push_back({op, std::move(message)});
}

void ShapeEngine::require(Operation *op, Sym condition, std::string message) {
  if (condition->isConstant()) {
    if (!condition->imm)
      throw Contradiction{std::move(message)};
    return;
  }
  if (condition->lower && *condition->lower > 0)
    return;
  if (required.insert({condition, op->getBlock()}).second)
    requirements.push_back({condition, op, std::move(message)});
}

void ShapeEngine::rollback(Mark m) {
  errors.resize(m.errors);
  for (size_t i = m.requirements; i < requirements.size(); ++i)
    required.erase({requirements[i].condition, requirements[i].op->getBlock()});
  requirements.erase(requirements.begin() + m.requirements, requirements.end());
}

void ShapeEngine::keepOnly(Mark first, Mark begin, Mark end) {
  rollback(end);
  errors.erase(errors.begin() + first.errors, errors.begin() + begin.errors);
  for (size_t i = first.requirements; i < begin.requirements; ++i)
    required.erase({requirements[i].condition, requirements[i].op->getBlock()});
  requirements.erase(requirements.begin() + first.requirements,
                     requirements.begin() + begin.requirements);
}

void ShapeEngine::replaceCondition(size_t index, Sym condition) {
  ShapeRequirement &r = requirements[index];
  required.erase({r.condition, r.op->getBlock()});
  r.condition = condition;
  required.insert({condition, r.op->getBlock()});
}

bool ShapeEngine::availableAt(Sym s, Operation *op) const {
  bool all = true;
  forEachLeaf(s, [&](Sym leaf) {
    Value v = leaf->value;
    Region *home = v.getParentRegion();
    all &= home && home->isAncestor(op->getParentRegion());
  });
  return all;
}

void ShapeEngine::forget(Value v) {
  dims.erase(v);
  reasons.erase(v);
  pure.erase(v);
  demanded.erase(v);
}

void ShapeEngine::forget(Region &region) {
  auto drop = [&](Value v) { forget(v); };
  for (Block &block : region) {
    for (Value v : block.getArguments())
      drop(v);
    for (Operation &op : block) {
      for (Value v : op.getResults())
        drop(v);
      for (Region &inner : op.getRegions())
        forget(inner);
    }
  }
}

std::optional<bool> ShapeEngine::branchOf(Operation *op) const {
  auto it = resolved.find(op);
  return it == resolved.end() ? std::nullopt : std::optional(it->second);
}

bool ShapeEngine::choose(Operation *op) {
  for (auto [chosen, branch] : *choices)
    if (chosen == op)
      return branch;
  choices->push_back({op, true});
  return true;
}

bool ShapeEngine::setDeclaredDims(Value v, SymKind kind) {
  auto type = dyn_cast<RankedTensorType>(v.getType());
  if (!type)
    return false;
  SymDims d;
  for (auto [axis, size] : llvm::enumerate(type.getShape()))
    d.push_back(ShapedType::isDynamic(size) ? ctx.leaf(kind, v, axis, 0) : ctx.constant(size));
  setDims(v, d);
  return true;
}

// Merges what the rule found with what the type declares; falls back to the
// latter where the rule found nothing.
void ShapeEngine::settle(Value result, const Unknown &why) {
  if (!isa<TensorType>(result.getType())) {
    setUnknown(result, {"it is a " + getTypeName(result.getType()), true});
    return;
  }
  auto found = dims.find(result);
  if (found == dims.end()) {
    if (!setDeclaredDims(result, SymKind::Extent))
      setUnknown(result, why);
    return;
  }
  auto declared = dyn_cast<RankedTensorType>(result.getType());
  if (!declared)
    return;
  SymDims d(found->second);
  Operation *op = result.getDefiningOp();
  unsigned number = cast<OpResult>(result).getResultNumber();
  if (declared.getRank() != static_cast<int64_t>(d.size()))
    throw Contradiction{("output " + Twine(number) + " of " + describe(op) + " is declared with " +
                         Twine(declared.getRank()) + " dimensions but has " + Twine(d.size()))
                            .str()};
  for (auto [axis, size] : llvm::enumerate(declared.getShape())) {
    if (ShapedType::isDynamic(size) || d[axis]->isConstant(size))
      continue;
    std::string message = ("output " + Twine(number) + " of " + describe(op) + " is declared " +
                           Twine(size) + " long on axis " + Twine(axis) + " but is " +
                           toString(d[axis]))
                              .str();
    require(op, ctx.equal(d[axis], ctx.constant(size)), message);
    d[axis] = ctx.constant(size);
  }
  setDims(result, d);
}

void ShapeEngine::analyseOp(Operation *op) {
  Unknown why{"no shape rule for " + op->getName().getStringRef().str()};
  try {
    const OpRules *rules = findRules(op);
    if (rules && rules->shape) {
      why.reason = "the shape rule of " + op->getName().getStringRef().str() + " leaves it open";
      OpShapes shapes(*this, op);
      try {
        rules->shape(shapes);
      } catch (Unknown &u) {
        why = std::move(u);
      }
    } else {
      for (Value v : op->getOperands())
        if (!findDims(v) && reasons.count(v) && reasons[v].deferred)
          why.deferred = true;
      for (Region &region : op->getRegions())
        for (Block &block : region) {
          for (Value v : block.getArguments())
            if (!setDeclaredDims(v, SymKind::BlockDim))
              setUnknown(v, {"it is an argument of a body whose operator has no shape rule",
                             why.deferred});
          analyseBlock(block);
        }
    }
    for (Value result : op->getResults())
      settle(result, why);
  } catch (Contradiction &c) {
    error(op, std::move(c.message));
    for (Value result : op->getResults())
      if (!findDims(result) && !setDeclaredDims(result, SymKind::Extent))
        setUnknown(result, {"its operator is in error", true});
  }
}

void ShapeEngine::analyseBlock(Block &block) {
  for (Operation &op : block)
    if (!op.hasTrait<OpTrait::IsTerminator>())
      analyseOp(&op);
}

//===----------------------------------------------------------------------===//
// Engine: contents
//===----------------------------------------------------------------------===//

// The range of an integer type, none for 64 bits.
static std::optional<std::pair<int64_t, int64_t>> rangeOf(IntegerType type) {
  unsigned width = type.getWidth();
  if (width >= 64)
    return std::nullopt;
  if (type.isUnsigned() || width == 1)
    return std::pair<int64_t, int64_t>(0, (int64_t(1) << width) - 1);
  return std::pair<int64_t, int64_t>(-(int64_t(1) << (width - 1)), (int64_t(1) << (width - 1)) - 1);
}

// A float as a quotient: exactly, or the short fraction that rounds to it
// (0.1f stands for 1/10: floor(n * 0.1f) in single precision is then right
// where the exact value of 0.1f would be off by one).
static std::optional<Element> quotientOf(SymContext &ctx, double value) {
  if (!std::isfinite(value))
    return std::nullopt;
  if (value == std::floor(value) && std::fabs(value) < 9e15)
    return Element{ctx.constant(static_cast<int64_t>(value))};
  for (int64_t den : {2, 4, 8, 16, 32, 64, 128, 256, 3, 5, 6, 7, 9, 10, 12, 20, 100, 1000}) {
    double num = std::round(value * den);
    if (std::fabs(num) < 1e9 && (num / den == value || static_cast<float>(num / den) == static_cast<float>(value)))
      return Element{ctx.constant(static_cast<int64_t>(num)), ctx.constant(den)};
  }
  int exponent;
  double mantissa = std::frexp(value, &exponent); // value = mantissa * 2^exponent
  int shift = 0;
  while (mantissa != std::floor(mantissa) && shift < 54) {
    mantissa *= 2;
    ++shift;
  }
  int denLog = shift - exponent;
  if (denLog < 0 || denLog > 40)
    return std::nullopt;
  return Element{ctx.constant(static_cast<int64_t>(mantissa)), ctx.constant(int64_t(1) << denLog)};
}

const Contents *ShapeEngine::findContents(Value v, bool allowData) {
  auto lookup = [&](auto &map) -> Known * {
    auto it = map.find(v);
    return it == map.end() ? nullptr : it->second.get();
  };
  Known *known = lookup(pure);
  if (known && (known->contents || !allowData))
    return known->contents ? &*known->contents : nullptr;
  if (allowData)
    if (Known *more = lookup(demanded))
      return more->contents ? &*more->contents : nullptr;
  if (!known) {
    auto result = std::make_unique<Known>();
    result->contents = computeContents(v, false);
    known = (pure[v] = std::move(result)).get();
    if (known->contents || !allowData)
      return known->contents ? &*known->contents : nullptr;
  }
  auto result = std::make_unique<Known>();
  result->contents = computeContents(v, true);
  Known *more = (demanded[v] = std::move(result)).get();
  return more->contents ? &*more->contents : nullptr;
}

void ShapeEngine::setContents(Value v, Contents contents) {
  auto known = std::make_unique<Known>();
  known->contents = std::move(contents);
  pure[v] = std::move(known);
}

std::optional<Contents> ShapeEngine::computeContents(Value v, bool allowData) {
  auto type = dyn_cast<TensorType>(v.getType());
  auto d = findDims(v);
  if (!type || !d)
    return std::nullopt;
  auto integer = dyn_cast<IntegerType>(type.getElementType());
  if (!integer && !isa<FloatType>(type.getElementType()))
    return std::nullopt;
  int64_t count = 1;
  for (Sym s : *d) {
    if (!s->isConstant() || s->imm > maxContents)
      return std::nullopt;
    count *= s->imm;
    if (count > maxContents)
      return std::nullopt;
  }

  Contents result;
  if (count == 0)
    return result;
  if (getConstant(v)) {
    if (integer) {
      auto ints = getConstantInts(v, maxContents);
      if (!ints)
        return std::nullopt;
      for (int64_t i : *ints)
        result.push_back({ctx.constant(i)});
    } else {
      auto floats = getConstantFloats(v, maxContents);
      if (!floats)
        return std::nullopt;
      for (double f : *floats) {
        auto q = quotientOf(ctx, f);
        if (!q)
          return std::nullopt;
        result.push_back(*q);
      }
    }
    return result;
  }

  Operation *op = v.getDefiningOp();
  const OpRules *rules = op ? findRules(op) : nullptr;
  if (rules && rules->contents && depth < 300) {
    ++depth;
    bool known = true;
    try {
      OpShapes shapes(*this, op, allowData);
      result = rules->contents(shapes, getResultPosition(op, cast<OpResult>(v).getResultNumber()));
      if (static_cast<int64_t>(result.size()) != count)
        known = false;
    } catch (Unknown &) {
      known = false;
    } catch (Contradiction &) { // reported by the shape rule
      known = false;
    }
    --depth;
    // Wrap-around is not modelled: what might leave the type's range is unknown.
    if (known && integer) {
      auto range = rangeOf(integer);
      for (const Element &e : result)
        if (e.den || (range && (e.num->isConstant() || integer.getWidth() < 32) &&
                      !(e.num->lower && *e.num->lower >= range->first && e.num->upper &&
                        *e.num->upper <= range->second)))
          known = false;
    }
    if (known)
      return result;
    result.clear();
  }
  if (!allowData || !integer || (integer.getWidth() != 1 && integer.getWidth() < 8))
    return std::nullopt;
  auto range = rangeOf(integer);
  for (int64_t i = 0; i < count; ++i)
    result.push_back({ctx.leaf(SymKind::Data, v, i, range ? std::optional(range->first) : std::nullopt,
                               range ? std::optional(range->second) : std::nullopt)});
  return result;
}

//===----------------------------------------------------------------------===//
// OpShapes
//===----------------------------------------------------------------------===//

OpShapes::OpShapes(ShapeEngine &engine, Operation *op, bool allowData)
    : op(op), ctx(engine.ctx), engine(engine), allowData(allowData) {}

Value OpShapes::in(unsigned position) const {
  Value v = getOptionalOperand(op, position);
  return v && isa<NoneType>(v.getType()) ? Value() : v;
}
Value OpShapes::out(unsigned position) const { return getOptionalResult(op, position); }
unsigned OpShapes::numInputs() const { return getNumOperandPositions(op); }
unsigned OpShapes::numOutputs() const { return getNumResultPositions(op); }

Attribute OpShapes::attr(StringRef name) const {
  if (Attribute a = op->getAttr(name))
    return a;
  if (auto custom = op->getAttrOfType<DictionaryAttr>("attrs"))
    return custom.get(name);
  return {};
}
int64_t OpShapes::getInt(StringRef name, int64_t fallback) const {
  auto a = dyn_cast_or_null<IntegerAttr>(attr(name));
  return a ? a.getInt() : fallback;
}
StringRef OpShapes::getString(StringRef name, StringRef fallback) const {
  auto a = dyn_cast_or_null<StringAttr>(attr(name));
  return a ? a.getValue() : fallback;
}
SmallVector<int64_t> OpShapes::getInts(StringRef name, ArrayRef<int64_t> fallback) const {
  Attribute a = attr(name);
  if (auto ints = dyn_cast_or_null<DenseI64ArrayAttr>(a))
    return SmallVector<int64_t>(ints.asArrayRef());
  if (auto list = dyn_cast_or_null<ArrayAttr>(a)) {
    SmallVector<int64_t> out;
    for (Attribute e : list)
      if (auto i = dyn_cast<IntegerAttr>(e))
        out.push_back(i.getInt());
    return out;
  }
  return SmallVector<int64_t>(fallback);
}

int64_t OpShapes::normaliseAxis(int64_t axis, int64_t rank) const {
  int64_t a = axis < 0 ? axis + rank : axis;
  if (a < 0 || a >= rank)
    contradict("axis " + Twine(axis) + " of " + describe(op) + " is outside of rank " + Twine(rank));
  return a;
}

ArrayRef<Sym> OpShapes::dims(Value v) const {
  if (auto d = engine.findDims(v))
    return *d;
  throw engine.whyUnknown(v);
}
ArrayRef<Sym> OpShapes::dims(unsigned position) const {
  Value v = in(position);
  if (!v)
    contradict("input " + Twine(position) + " of " + describe(op) + " is missing");
  return dims(v);
}

void OpShapes::expectRank(unsigned position, int64_t rank) const {
  int64_t found = dims(position).size();
  if (found != rank)
    contradict("input " + Twine(position) + " of " + describe(op) + " has " + Twine(found) +
               " dimensions instead of " + Twine(rank));
}

const Contents &OpShapes::contents(Value v) const {
  if (const Contents *c = engine.findContents(v, allowData))
    return *c;
  unknown("the contents of a value are not known");
}

const Contents &OpShapes::contents(unsigned position) const {
  Value v = in(position);
  if (!v)
    contradict("input " + Twine(position) + " of " + describe(op) + " is missing");
  if (const Contents *c = engine.findContents(v, allowData))
    return *c;
  unknown("the contents of input " + Twine(position) + " of " + describe(op) + " are not known");
}

SymDims OpShapes::ints(unsigned position) const {
  SymDims out;
  for (const Element &e : contents(position)) {
    if (e.den)
      unknown("input " + Twine(position) + " of " + describe(op) + " is not integer");
    out.push_back(e.num);
  }
  return out;
}

std::optional<SmallVector<int64_t>> OpShapes::constants(unsigned position) const {
  Value v = in(position);
  const Contents *known = v ? engine.findContents(v, false) : nullptr;
  if (!known)
    return std::nullopt;
  SmallVector<int64_t> out;
  for (const Element &e : *known) {
    if (e.den || !e.num->isConstant())
      return std::nullopt;
    out.push_back(e.num->imm);
  }
  return out;
}

Sym OpShapes::scalar(unsigned position) const {
  SymDims all = ints(position);
  if (all.size() != 1)
    contradict("input " + Twine(position) + " of " + describe(op) + " has " + Twine(all.size()) +
               " elements instead of 1");
  return all.front();
}

void OpShapes::set(unsigned position, ArrayRef<Sym> d) {
  if (Value v = out(position))
    engine.setDims(v, d);
}
void OpShapes::setAll(ArrayRef<Sym> d) {
  for (Value v : op->getResults())
    engine.setDims(v, d);
}
Sym OpShapes::extent(unsigned position, int64_t axis, std::optional<int64_t> upper) {
  Value v = out(position);
  return v ? ctx.leaf(SymKind::Extent, v, axis, 0, upper) : c(0);
}

void OpShapes::contradict(const Twine &message) const { throw Contradiction{message.str()}; }
void OpShapes::unknown(const Twine &reason) const { throw Unknown{reason.str()}; }
void OpShapes::require(Sym condition, const Twine &message) {
  engine.require(op, condition, message.str());
}

Sym OpShapes::unify(Sym a, Sym b, const Twine &what) {
  if (a == b)
    return a;
  require(ctx.equal(a, b), what + " of " + describe(op) + " must agree: " + toString(a) + " and " +
                               toString(b));
  if (a->isConstant())
    return a;
  return b->isConstant() || b->id < a->id ? b : a;
}

Sym OpShapes::broadcastDim(Sym a, Sym b) {
  if (a == b || b->isConstant(1))
    return a;
  if (a->isConstant(1))
    return b;
  auto message = [&] {
    return "dimensions " + toString(a) + " and " + toString(b) + " of " + describe(op) +
           " do not broadcast";
  };
  Sym isOne[] = {ctx.equal(a, c(1)), ctx.equal(b, c(1))};
  Sym same = ctx.equal(a, b);
  if (b->isConstant())
    std::swap(a, b), std::swap(isOne[0], isOne[1]);
  if (a->isConstant()) { // not 1
    require(ctx.logicalOr(same, isOne[1]), message());
    return a;
  }
  require(ctx.logicalOr(same, ctx.logicalOr(isOne[0], isOne[1])), message());
  if (a->id > b->id)
    std::swap(a, b), std::swap(isOne[0], isOne[1]);
  return ctx.select(isOne[0], b, a);
}

SymDims OpShapes::broadcast(ArrayRef<Sym> a, ArrayRef<Sym> b) {
  if (a.size() < b.size())
    std::swap(a, b);
  SymDims out(a);
  size_t shift = a.size() - b.size();
  for (size_t i = 0; i < b.size(); ++i)
    out[shift + i] = broadcastDim(a[shift + i], b[i]);
  return out;
}

SymDims OpShapes::broadcastOperands(unsigned first) {
  SymDims out;
  for (unsigned i = first, n = numInputs(); i < n; ++i)
    if (has(i))
      out = broadcast(out, dims(i));
  return out;
}

//===----------------------------------------------------------------------===//
// ShapeAnalysis
//===----------------------------------------------------------------------===//

struct ShapeAnalysis::Impl {
  ShapeEngine engine;
  DenseMap<Value, std::unique_ptr<std::optional<SymDims>>> published;
};

ShapeAnalysis::ShapeAnalysis() : impl(std::make_unique<Impl>()) {}
ShapeAnalysis::~ShapeAnalysis() = default;
SymContext &ShapeAnalysis::context() { return impl->engine.ctx; }
ArrayRef<ShapeRequirement> ShapeAnalysis::requirements() { return impl->engine.requirements; }
void ShapeAnalysis::setDims(Value v, ArrayRef<Sym> d) {
  impl->engine.forget(v);
  impl->published.erase(v);
  impl->engine.setDims(v, d);
}
void ShapeAnalysis::forget(Value v) {
  impl->engine.forget(v);
  impl->published.erase(v);
}
bool ShapeAnalysis::hasDims(Value v) { return impl->engine.findDims(v).has_value(); }

ArrayRef<Sym> ShapeAnalysis::dims(Value v) {
  if (auto d = impl->engine.findDims(v))
    return *d;
  if (auto type = dyn_cast<RankedTensorType>(v.getType());
      type && (type.hasStaticShape() || isa<OpResult>(v))) {
    // Created after the analysis; an open dimension is found by the kernel.
    impl->engine.setDeclaredDims(v, SymKind::Extent);
    return *impl->engine.findDims(v);
  }
  emitError(v.getLoc()) << "the shape is not known: " << impl->engine.whyUnknown(v).reason;
  return {};
}

std::optional<ArrayRef<Sym>> ShapeAnalysis::contents(Value v) {
  auto type = dyn_cast<TensorType>(v.getType());
  if (!type || !isa<IntegerType>(type.getElementType()))
    return std::nullopt;
  auto &slot = impl->published[v];
  if (!slot) {
    slot = std::make_unique<std::optional<SymDims>>();
    if (impl->engine.findDims(v))
      if (const Contents *c = impl->engine.findContents(v, false)) {
        slot->emplace();
        for (const Element &e : *c)
          (*slot)->push_back(e.num);
      }
  }
  if (!*slot)
    return std::nullopt;
  return ArrayRef<Sym>(**slot);
}

bool ShapeAnalysis::needsData(OpOperand &operand) {
  if (isa<NoneType>(operand.get().getType()))
    return false;
  Operation *op = operand.getOwner();
  const OpRules *rules = findRules(op);
  if (!rules)
    return true;
  unsigned position = getOperandPosition(op, operand.getOperandNumber());
  if (position >= 32)
    return true;
  // A shape that only the kernel finds is made of the operands' data.
  auto findsExtents = [&] {
    return llvm::any_of(op->getResults(), [&](Value r) {
      return isa<RankedTensorType>(r.getType()) && llvm::any_of(dims(r), [&](Sym d) {
               return d->kind == SymKind::Extent && d->value.getDefiningOp() == op;
             });
    });
  };
  if (rules->shapeOperands >> position & 1)
    return findsExtents();
  if (rules->parameterOperands >> position & 1)
    if (const Contents *c = impl->engine.findContents(operand.get(), false))
      return !llvm::all_of(*c, [](const Element &e) {
        return e.num->isConstant() && (!e.den || e.den->isConstant());
      });
  return true;
}

static void refineType(Value v, ArrayRef<Sym> d) {
  auto type = dyn_cast<TensorType>(v.getType());
  if (!type)
    return;
  auto ranked = dyn_cast<RankedTensorType>(type);
  SmallVector<int64_t> shape;
  for (Sym s : d)
    shape.push_back(s->isConstant() ? s->imm : ShapedType::kDynamic);
  if (ranked && ranked.getShape() == ArrayRef<int64_t>(shape))
    return;
  v.setType(RankedTensorType::get(shape, type.getElementType(),
                                  ranked ? ranked.getEncoding() : Attribute()));
}

static void forEachValue(Region &region, function_ref<void(Value)> visit) {
  for (Block &block : region) {
    for (Value v : block.getArguments())
      visit(v);
    for (Operation &op : block) {
      for (Value v : op.getResults())
        visit(v);
      for (Region &inner : op.getRegions())
        forEachValue(inner, visit);
    }
  }
}

static void refineRegion(ShapeEngine &engine, Region &region) {
  forEachValue(region, [&](Value v) {
    if (auto d = engine.findDims(v))
      refineType(v, *d);
  });
}

static void collectUnknown(ShapeEngine &engine, Region &region, std::vector<Value> &unknown) {
  for (Block &block : region) {
    for (Value v : block.getArguments())
      if (!engine.findDims(v) && isa<TensorType>(v.getType()) && !engine.whyUnknown(v).deferred)
        unknown.push_back(v);
    for (Operation &op : block) {
      for (Value v : op.getResults())
        if (!engine.findDims(v) && isa<TensorType>(v.getType()) && !engine.whyUnknown(v).deferred)
          unknown.push_back(v);
      std::optional<bool> branch = engine.branchOf(&op);
      for (auto [i, inner] : llvm::enumerate(op.getRegions()))
        if (!branch || *branch == (i == 0)) // what is never run may be wrong
          collectUnknown(engine, inner, unknown);
    }
  }
}

// Replaces the If operations whose branch is decided by that branch.
static void inlineBranches(ShapeEngine &engine) {
  for (auto [op, taken] : engine.takeResolved()) {
    Region &region = op->getRegion(taken ? 0 : 1);
    Operation *yield = region.front().getTerminator();
    for (auto [result, value] : llvm::zip(op->getResults(), yield->getOperands()))
      result.replaceAllUsesWith(value);
    yield->erase();
    op->getBlock()->getOperations().splice(op->getIterator(), region.front().getOperations());
    for (Region &r : op->getRegions())
      engine.forget(r);
    for (Value result : op->getResults())
      engine.forget(result);
    for (ShapeRequirement &r : engine.requirements)
      if (r.op == op)
        r.op = op->getParentOp();
    op->erase();
  }
}

FailureOr<std::unique_ptr<ShapeAnalysis>> ShapeAnalysis::run(func::FuncOp func, bool *assumed) {
  std::unique_ptr<ShapeAnalysis> analysis;
  std::vector<Value> unknown;
  // Where a dimension decides on a rank, one branch is tried after the other;
  // the first choice (all "then") is the one whose errors are reported.
  BranchChoices choices;
  std::unique_ptr<ShapeAnalysis> first;
  std::vector<Value> firstUnknown;
  for (unsigned attempt = 0;; ++attempt) {
    analysis.reset(new ShapeAnalysis());
    ShapeEngine &engine = analysis->impl->engine;
    if (func.isExternal())
      return analysis;
    engine.choices = &choices;
    bindArguments(func, engine);
    engine.analyseBlock(func.getBody().front());
    unknown.clear();
    if (engine.errors.empty())
      collectUnknown(engine, func.getBody(), unknown);
    if (engine.errors.empty() && unknown.empty())
      break;
    if (attempt == 0) {
      first = std::move(analysis);
      firstUnknown = unknown;
    }
    // The next combination, as a binary counter from the last choice on.
    while (!choices.empty() && !choices.back().second)
      choices.pop_back();
    if (choices.empty() || attempt == 15) {
      for (const ShapeEngine::Error &e : first->impl->engine.errors)
        e.op->emitError(e.message);
      for (Value v : firstUnknown)
        emitError(v.getLoc()) << "the rank of a result of "
                              << (v.getDefiningOp() ? describe(v.getDefiningOp()) : "a body")
                              << " cannot be known: " << first->impl->engine.whyUnknown(v).reason;
      return failure();
    }
    choices.back().second = false;
  }
  ShapeEngine &engine = analysis->impl->engine;
  engine.choices = nullptr;
  if (assumed && !choices.empty()) {
    *assumed = true;
    return analysis;
  }
  inlineBranches(engine);
  refineRegion(engine, func.getBody());
  Block &body = func.getBody().front();
  func.setType(FunctionType::get(func.getContext(), body.getArgumentTypes(),
                                 body.getTerminator()->getOperandTypes()));
  return analysis;
}

} // namespace tessera::onnx

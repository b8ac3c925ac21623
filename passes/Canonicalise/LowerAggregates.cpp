// The pass that replaces sequences, optionals and strings by tensors
// (Aggregates.h): types, control flow, the function's border. The operators'
// rules are in LowerSequences.cpp and LowerStrings.cpp.
#include "passes/Canonicalise/Aggregates.h"
#include "passes/Canonicalise/Passes.h"

#include "dialects/Onnx/IR/OpsCore.h"
#include "dialects/Onnx/IR/Unsupported.h"

#include "mlir/IR/IRMapping.h"

#include "llvm/ADT/StringMap.h"

using namespace mlir;

namespace tessera::onnx {

#define GEN_PASS_DEF_LOWERAGGREGATES
#include "passes/Canonicalise/Passes.h.inc"

static llvm::StringMap<AggregateRule> &rules() {
  static llvm::StringMap<AggregateRule> all;
  return all;
}
RegisterAggregateRule::RegisterAggregateRule(StringRef name, AggregateRule rule) { rules()[name] = rule; }

//===-- Types ---------------------------------------------------------------===//

bool isStrings(Type t) {
  auto shaped = dyn_cast<ShapedType>(t);
  return shaped && isa<StringType>(shaped.getElementType());
}

bool Aggregates::isAggregate(Type t) { return isa<SeqType, OptType, MapType>(t) || isStrings(t); }

std::optional<SmallVector<Type>> Aggregates::partTypes(Type t, std::optional<int64_t> rank) {
  MLIRContext *ctx = func.getContext();
  Type i32 = IntegerType::get(ctx, 32), i64 = IntegerType::get(ctx, 64);
  constexpr int64_t open = ShapedType::kDynamic;
  if (auto o = dyn_cast<OptType>(t)) {
    auto inner = partTypes(o.getElementType(), rank);
    if (!inner || isa<OptType>(o.getElementType()))
      return std::nullopt;
    inner->insert(inner->begin(), RankedTensorType::get({}, IntegerType::get(ctx, 1)));
    return inner;
  }
  if (auto s = dyn_cast<SeqType>(t)) {
    auto tensor = dyn_cast<ShapedType>(s.getElementType());
    if (!tensor)
      return std::nullopt;
    Type elements = isStrings(tensor) ? RankedTensorType::get({open, open}, i32)
                                      : RankedTensorType::get({open}, tensor.getElementType());
    return SmallVector<Type>{elements, RankedTensorType::get({open, rank.value_or(open)}, i64)};
  }
  if (isStrings(t)) {
    auto ranked = dyn_cast<RankedTensorType>(t);
    if (!ranked)
      return std::nullopt;
    SmallVector<int64_t> shape(ranked.getShape());
    shape.push_back(open);
    return SmallVector<Type>{RankedTensorType::get(shape, i32)};
  }
  if (isa<MapType>(t))
    return std::nullopt;
  return SmallVector<Type>{t};
}

void Aggregates::kinds(Type t, SmallVectorImpl<PartKind> &out) {
  if (auto o = dyn_cast<OptType>(t)) {
    out.push_back(PartKind::Present);
    return kinds(o.getElementType(), out);
  }
  if (auto s = dyn_cast<SeqType>(t)) {
    out.push_back(isStrings(s.getElementType()) ? PartKind::StringElements : PartKind::Elements);
    out.push_back(PartKind::Extents);
    return;
  }
  out.push_back(isStrings(t) ? PartKind::Strings : PartKind::Tensor);
}

SmallVector<Value> Aggregates::parts(Value v) {
  auto it = map.find(v);
  return it == map.end() ? SmallVector<Value>{v} : it->second;
}

//===-- Ranks of the tensors in a sequence ----------------------------------===//

SeqType sequenceIn(Type t) {
  if (auto o = dyn_cast<OptType>(t))
    t = o.getElementType();
  return dyn_cast<SeqType>(t);
}

int Aggregates::find(Value v) {
  auto [it, fresh] = ids.try_emplace(v, parent.size());
  if (fresh) {
    parent.push_back(it->second);
    ranks.push_back(-1);
  }
  int i = it->second;
  while (parent[i] != i)
    i = parent[i];
  // Exporters write shape [] into sequence types without meaning scalars.
  if (fresh)
    if (SeqType s = sequenceIn(v.getType()))
      if (auto t = dyn_cast<RankedTensorType>(s.getElementType()); t && t.getRank() > 0)
        ranks[i] = t.getRank();
  return i;
}

void Aggregates::know(Value v, Type elementTensor) {
  auto t = dyn_cast<RankedTensorType>(elementTensor);
  if (!t)
    return;
  int64_t &rank = ranks[find(v)];
  rank = std::max(rank, t.getRank());
}

void Aggregates::unify(Value x, Value y) {
  if (!sequenceIn(x.getType()) || !sequenceIn(y.getType()))
    return;
  int a = find(x), b = find(y);
  if (a == b)
    return;
  ranks[a] = std::max(ranks[a], ranks[b]);
  parent[b] = a;
}

std::optional<int64_t> Aggregates::rankOf(Value sequence) {
  int64_t rank = ranks[find(sequence)];
  return rank < 0 ? std::nullopt : std::optional(rank);
}

void Aggregates::solveRanks() {
  func.walk([&](Operation *op) {
    StringRef name = op->getName().stripDialect();
    auto yields = [&](Region &r) { return r.front().getTerminator()->getOperands(); };
    if (name == "If") {
      for (Region &r : op->getRegions())
        for (auto [from, to] : llvm::zip(yields(r), op->getResults()))
          unify(from, to);
    } else if (name == "Loop") {
      Block &body = op->getRegion(0).front();
      for (unsigned k = 2; k < body.getNumArguments(); ++k) {
        if (Value initial = getOptionalOperand(op, k))
          unify(body.getArgument(k), initial);
        unify(body.getArgument(k), yields(op->getRegion(0))[k - 1]);
        unify(body.getArgument(k), op->getResult(k - 2));
      }
    } else if (name == "SequenceInsert" || name == "SequenceConstruct") {
      for (Value v : op->getOperands()) {
        unify(op->getResult(0), v);
        if (!isa<SeqType>(v.getType()) && (name != "SequenceInsert" || v == op->getOperand(1)))
          know(op->getResult(0), v.getType());
      }
    } else if (name == "SequenceAt") {
      know(op->getOperand(0), op->getResult(0).getType());
    } else if (name == "SequenceErase" || name == "Identity" || name == "Optional" || name == "OptionalGetElement") {
      if (op->getNumOperands())
        unify(op->getResult(0), op->getOperand(0));
    } else if (name == "SplitToSequence") {
      auto t = rankedType(op->getOperand(0));
      bool drop = !getOptionalOperand(op, 1) && !getInt(op, "keepdims", 1);
      if (t)
        know(op->getResult(0), drop && t.getRank() ? t.clone(t.getShape().drop_front()) : t);
    } else if (name == "ConcatFromSequence") {
      auto t = rankedType(op->getResult(0));
      if (t && t.getRank())
        know(op->getOperand(0), getInt(op, "new_axis", 0) ? t.clone(t.getShape().drop_front()) : t);
    }
  });
}

//===-- SequenceMap as Loop -------------------------------------------------===//

//   BEFORE  %y = SequenceMap(%s, %x) { ^(%e, %x'): ... Yield(%r) }
//   AFTER   %y = Loop(SequenceLength(%s), none, SequenceEmpty) { ^(%i, %c, %acc):
//             %e = SequenceAt(%s, %i) ... Yield(true, SequenceInsert(%acc, %r)) }
static LogicalResult mapToLoop(Operation *op) {
  IRRewriter r(op->getContext());
  r.setInsertionPoint(op);
  ShapeBuilder b(r, op->getLoc());
  Block &body = op->getRegion(0).front();
  if (body.getNumArguments() != op->getNumOperands() || !isa<SeqType>(op->getOperand(0).getType()) ||
      body.getTerminator()->getNumOperands() != op->getNumResults())
    return unsupported(op, "its body does not take one element of each input and give one of each output");
  Value count = b.op("SequenceLength", {op->getOperand(0)}, RankedTensorType::get({}, b.i64()));
  SmallVector<Value> initial;
  for (Value result : op->getResults()) {
    auto seq = dyn_cast<SeqType>(result.getType());
    auto element = seq ? dyn_cast<ShapedType>(seq.getElementType()) : ShapedType();
    if (!element)
      return unsupported(op, "the type of the elements of an output is not known");
    initial.push_back(b.op("SequenceEmpty", {}, seq, {b.i("dtype", onnxTypeCode(element.getElementType()))}));
  }
  OperationState state(op->getLoc(), "onnx.Loop");
  state.addOperands(count);
  state.addOperands(initial);
  state.addTypes(op->getResultTypes());
  state.addAttribute("operandSegmentSizes", r.getDenseI32ArrayAttr({1, 0, (int32_t)initial.size()}));
  state.addRegion();
  Operation *loop = r.create(state);
  SmallVector<Type> types{RankedTensorType::get({}, b.i64()), RankedTensorType::get({}, b.i1())};
  llvm::append_range(types, op->getResultTypes());
  Block *block = r.createBlock(&loop->getRegion(0), {}, types, SmallVector<Location>(types.size(), op->getLoc()));
  SmallVector<Value> arguments;
  for (auto [v, argument] : llvm::zip(op->getOperands(), body.getArguments()))
    arguments.push_back(isa<SeqType>(v.getType()) ? b.op("SequenceAt", {v, block->getArgument(0)}, argument.getType()) : v);
  r.mergeBlocks(&body, block, arguments);
  Operation *yield = block->getTerminator();
  r.setInsertionPoint(yield);
  HostTensor yes(b.i1(), {});
  yes.setInteger(0, 1);
  SmallVector<Value> results{b.weight(yes)};
  for (auto [k, v] : llvm::enumerate(SmallVector<Value>(yield->getOperands())))
    results.push_back(b.op("SequenceInsert", {block->getArgument(2 + k), v}, op->getResult(k).getType()));
  r.replaceOpWithNewOp<YieldOp>(yield, results);
  r.replaceOp(op, loop->getResults());
  return success();
}

LogicalResult Aggregates::expandMaps() {
  SmallVector<Operation *> maps;
  func.walk([&](Operation *op) { // inner ones first
    if (op->getName().getStringRef() == "onnx.SequenceMap")
      maps.push_back(op);
  });
  for (Operation *op : maps)
    if (failed(mapToLoop(op))) {
      culprit = op;
      return failure();
    }
  return success();
}

//===-- Blocks, operations, control flow ------------------------------------===//

std::optional<SmallVector<Type>> Aggregates::typesOf(ValueRange values) {
  SmallVector<Type> out;
  for (Value v : values) {
    auto types = partTypes(v.getType(), sequenceIn(v.getType()) ? rankOf(v) : std::nullopt);
    if (!types)
      return std::nullopt;
    llvm::append_range(out, *types);
  }
  return out;
}

/// New arguments beside the aggregates among the old; the old ones go at the end.
LogicalResult Aggregates::arguments(Block &b, SmallVectorImpl<SmallVector<Type>> *types) {
  for (unsigned i = 0; i < b.getNumArguments(); ++i) {
    BlockArgument old = b.getArgument(i);
    auto parts = typesOf(ValueRange{old});
    if (!parts)
      return failure();
    if (types)
      types->push_back(*parts);
    if (!isAggregate(old.getType()))
      continue;
    SmallVector<Value> fresh;
    for (Type t : *parts)
      fresh.push_back(b.insertArgument(++i, t, old.getLoc()));
    set(old, fresh);
    deadArguments.push_back(old);
  }
  return success();
}

void Aggregates::flattenOperands(Operation *op) {
  SmallVector<Value> operands;
  for (Value v : op->getOperands())
    llvm::append_range(operands, parts(v));
  op->setOperands(operands);
}

/// Spreads the results of the rebuilt operation `to` over those of `from`, which
/// it has in the form of `carriers`.
static void spread(Aggregates &a, Operation *from, ArrayRef<Value> carriers, Operation *to) {
  unsigned next = 0;
  for (auto [old, carrier] : llvm::zip(from->getResults(), carriers)) {
    unsigned count = a.partTypes(carrier.getType(), std::nullopt)->size();
    bool unwrap = isa<OptType>(carrier.getType()) && !isa<OptType>(old.getType());
    SmallVector<Value> parts(to->getResults().slice(next + unwrap, count - unwrap));
    next += count;
    a.set(old, parts);
    if (!Aggregates::isAggregate(old.getType()))
      old.replaceAllUsesWith(parts[0]);
  }
}

LogicalResult Aggregates::branch(Operation *op) {
  auto types = typesOf(op->getResults());
  if (!types)
    return unsupported(op, "a result of this type is not supported");
  OpBuilder b(op);
  OperationState state(op->getLoc(), op->getName().getStringRef());
  state.addOperands(op->getOperands());
  state.addTypes(*types);
  state.addAttributes(op->getAttrs());
  for (unsigned i = 0; i < op->getNumRegions(); ++i)
    state.addRegion();
  Operation *fresh = b.create(state);
  for (auto [from, to] : llvm::zip(op->getRegions(), fresh->getRegions())) {
    to.takeBody(from);
    if (failed(block(to.front())))
      return failure();
  }
  spread(*this, op, SmallVector<Value>(op->getResults()), fresh);
  dead.push_back(op);
  return success();
}

/// A body may take an optional and hand on the value itself: it is wrapped, and
/// `present` is dropped from the loop's result.
static void wrapYields(Operation *loop) {
  Block &body = loop->getRegion(0).front();
  Operation *yield = body.getTerminator();
  OpBuilder builder(yield);
  OnnxBuilder b(builder, loop->getLoc());
  for (unsigned k = 2; k < body.getNumArguments(); ++k) {
    Value v = yield->getOperand(k - 1);
    if (isa<OptType>(body.getArgument(k).getType()) && !isa<OptType>(v.getType()))
      yield->setOperand(k - 1, b.op("Optional", {v}, OptType::get(loop->getContext(), v.getType())));
  }
}

LogicalResult Aggregates::loop(Operation *op) {
  wrapYields(op);
  Block &before = op->getRegion(0).front();
  SmallVector<Value> carriers(op->getResults());
  for (unsigned k = 2; k < before.getNumArguments(); ++k)
    carriers[k - 2] = before.getArgument(k);
  auto types = typesOf(carriers);
  auto segments = op->getAttrOfType<DenseI32ArrayAttr>("operandSegmentSizes");
  if (!types || !segments || segments.size() != 3)
    return unsupported(op, "a carried value of this type is not supported");
  unsigned head = segments[0] + segments[1];
  SmallVector<Value> operands(op->getOperands().take_front(head));
  for (Value v : op->getOperands().drop_front(head))
    llvm::append_range(operands, parts(v));
  OpBuilder b(op);
  OperationState state(op->getLoc(), op->getName().getStringRef());
  state.addOperands(operands);
  state.addTypes(*types);
  state.addAttributes(op->getAttrs());
  state.attributes.set("operandSegmentSizes",
                       b.getDenseI32ArrayAttr({segments[0], segments[1], (int32_t)(operands.size() - head)}));
  state.addRegion();
  Operation *fresh = b.create(state);
  fresh->getRegion(0).takeBody(op->getRegion(0));
  Block &body = fresh->getRegion(0).front();
  if (failed(arguments(body)) || failed(block(body)))
    return failure();
  spread(*this, op, carriers, fresh);
  dead.push_back(op);
  return success();
}

LogicalResult Aggregates::operation(Operation *op) {
  bool touched = llvm::any_of(op->getOperands(), [&](Value v) { return isAggregate(v.getType()); }) ||
                 llvm::any_of(op->getResults(), [&](Value v) { return isAggregate(v.getType()); });
  StringRef name = op->getName().stripDialect();
  // Operators on optionals take plain tensors too.
  bool always = name == "OptionalHasElement" || name == "OptionalGetElement";
  if (!touched && !always) {
    for (Region &r : op->getRegions())
      for (Block &b : r)
        if (failed(block(b)))
          return failure();
    return success();
  }
  if (op->hasTrait<OpTrait::IsTerminator>()) {
    flattenOperands(op);
    return success();
  }
  if (name == "If")
    return branch(op);
  if (name == "Loop")
    return loop(op);
  auto it = rules().find(name);
  if (it == rules().end())
    return unsupported(op, "not supported on strings, sequences, optionals or maps");
  OpBuilder builder(op);
  ShapeBuilder b(builder, op->getLoc());
  if (failed(it->second(*this, op, b)))
    return failure();
  for (Value old : op->getResults())
    if (!isAggregate(old.getType()))
      old.replaceAllUsesWith(part(old));
  dead.push_back(op);
  return success();
}

LogicalResult Aggregates::block(Block &b) {
  for (Operation &op : llvm::make_early_inc_range(b))
    if (failed(operation(&op))) {
      if (!culprit)
        culprit = &op;
      return failure();
    }
  return success();
}

//===-- The function's border -----------------------------------------------===//

static SmallVector<NamedAttribute> partAttributes(MLIRContext *ctx, DictionaryAttr old, StringRef suffix, PartKind kind) {
  Builder b(ctx);
  SmallVector<NamedAttribute> out{b.getNamedAttr("onnx.kind", b.getI64IntegerAttr((int64_t)kind))};
  if (auto name = old.getAs<StringAttr>("onnx.name"))
    out.push_back(b.getNamedAttr("onnx.name", b.getStringAttr(name.getValue() + suffix)));
  return out;
}

/// Attributes of argument or result `i`; the function's type may be newer than they are.
static DictionaryAttr dictionary(ArrayAttr all, unsigned i, MLIRContext *ctx) {
  return all && i < all.size() ? cast<DictionaryAttr>(all[i]) : DictionaryAttr::get(ctx);
}

static StringRef suffixOf(PartKind kind) {
  return kind == PartKind::Extents ? ".extents" : kind == PartKind::Present ? ".present" : "";
}

LogicalResult Aggregates::argumentAttributes(ArrayRef<Type> old) {
  MLIRContext *ctx = func.getContext();
  SmallVector<DictionaryAttr> all, before;
  for (unsigned i = 0; i < old.size(); ++i)
    before.push_back(dictionary(func.getArgAttrsAttr(), i, ctx));
  for (auto [t, attrs] : llvm::zip(old, before)) {
    if (!isAggregate(t)) {
      all.push_back(attrs);
      continue;
    }
    if (attrs.get("onnx.default"))
      return failure();
    SmallVector<PartKind> list;
    kinds(t, list);
    for (PartKind kind : list) {
      NamedAttrList fresh(partAttributes(ctx, attrs, suffixOf(kind), kind));
      bool keeps = kind == PartKind::Strings || (kind == PartKind::Tensor && !isa<OptType>(t));
      for (StringRef name : {"onnx.dims", "onnx.ranges"})
        if (Attribute a = attrs.get(name); a && keeps)
          fresh.set(name, a);
      all.push_back(fresh.getDictionary(ctx));
    }
  }
  func.setArgAttrsAttr(ArrayAttr::get(ctx, SmallVector<Attribute>(all.begin(), all.end())));
  return success();
}

void Aggregates::resultAttributes(ArrayRef<Type> old) {
  MLIRContext *ctx = func.getContext();
  SmallVector<DictionaryAttr> all;
  for (auto [i, t] : llvm::enumerate(old)) {
    auto attrs = dictionary(func.getResAttrsAttr(), i, ctx);
    if (!isAggregate(t)) {
      all.push_back(attrs);
      continue;
    }
    SmallVector<PartKind> list;
    kinds(t, list);
    for (PartKind kind : list)
      all.push_back(DictionaryAttr::get(ctx, partAttributes(ctx, attrs, suffixOf(kind), kind)));
  }
  func.setResAttrsAttr(ArrayAttr::get(ctx, SmallVector<Attribute>(all.begin(), all.end())));
}

LogicalResult Aggregates::border() {
  SmallVector<Type> oldArguments(func.getArgumentTypes()), oldResults(func.getResultTypes());
  Block &entry = func.getBody().front();
  SmallVector<SmallVector<Type>> types;
  if (failed(arguments(entry, &types)) || failed(block(entry)))
    return failure();
  for (Operation *op : dead)
    op->dropAllReferences();
  for (Operation *op : dead) {
    op->dropAllUses();
    op->erase();
  }
  for (BlockArgument old : llvm::reverse(deadArguments)) {
    assert(old.use_empty() && "every user was lowered");
    old.getOwner()->eraseArgument(old.getArgNumber());
  }
  if (failed(argumentAttributes(oldArguments)))
    return failure();
  resultAttributes(oldResults);
  func.setFunctionType(FunctionType::get(func.getContext(), SmallVector<Type>(entry.getArgumentTypes()),
                                         SmallVector<Type>(entry.getTerminator()->getOperandTypes())));
  return success();
}

LogicalResult Aggregates::run() {
  if (failed(expandMaps()))
    return failure();
  solveRanks();
  return border();
}

//===-- The pass ------------------------------------------------------------===//

namespace {

bool hasAggregates(func::FuncOp func) {
  auto any = [](TypeRange types) { return llvm::any_of(types, Aggregates::isAggregate); };
  if (any(func.getArgumentTypes()) || any(func.getResultTypes()))
    return true;
  return func
      .walk([&](Operation *op) {
        StringRef name = op->getName().stripDialect();
        bool found = any(op->getResultTypes()) || name == "OptionalHasElement" || name == "OptionalGetElement";
        return found ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

/// Carries the reason from the copy to the function, and says to the others of
/// the function whom they owe it that they stay.
void blame(func::FuncOp func, Operation *culprit, const IRMapping &mapping) {
  std::string why = whyUnsupported(culprit).str();
  std::string stays = ("operator " + culprit->getName().getStringRef() + " of node '" + getNodeName(culprit) +
                       "' keeps sequences, optionals and strings from becoming tensors")
                          .str();
  culprit->emitWarning(stays) << (why.empty() ? "" : ": ") << why;
  func.walk([&](Operation *op) {
    auto any = [](TypeRange types) { return llvm::any_of(types, Aggregates::isAggregate); };
    if (mapping.lookupOrNull(op) == culprit && !why.empty())
      (void)unsupported(op, why);
    else if (any(op->getOperandTypes()) || any(op->getResultTypes()))
      (void)unsupported(op, stays);
  });
}

struct LowerAggregatesPass : impl::LowerAggregatesBase<LowerAggregatesPass> {
  using LowerAggregatesBase::LowerAggregatesBase;
  void runOnOperation() override {
    func::FuncOp func = getOperation();
    if (!hasAggregates(func))
      return;
    // All or nothing: on a copy, which takes the function's place.
    IRMapping mapping;
    OwningOpRef<func::FuncOp> copy(func.clone(mapping));
    Aggregates lowering(*copy);
    if (failed(lowering.run())) {
      if (lowering.culprit)
        blame(func, lowering.culprit, mapping);
      return;
    }
    func.getBody().takeBody(copy->getBody());
    func->setAttrs((*copy)->getAttrDictionary());
  }
};

} // namespace

} // namespace tessera::onnx

// Tree ensembles as tables, see Passes.td, with the form of dialects/Onnx/IR/TreeTables.h.
#include "passes/Canonicalise/Forest.h"
#include "passes/Canonicalise/OnnxBuilder.h"
#include "passes/Canonicalise/Passes.h"

#include "dialects/Onnx/IR/OpsCore.h"
#include "dialects/Onnx/IR/Unsupported.h"

#include "llvm/ADT/StringSwitch.h"

using namespace mlir;

namespace tessera::onnx {

#define GEN_PASS_DEF_LOWERTREES
#include "passes/Canonicalise/Passes.h.inc"

namespace {

template <typename T> Value table(OpBuilder &b, Location loc, Type element, ArrayRef<int64_t> dims, const std::vector<T> &data) {
  auto type = RankedTensorType::get(dims, element);
  ArrayRef<char> raw(reinterpret_cast<const char *>(data.data()), data.size() * sizeof(T));
  return WeightOp::create(b, loc, makeConstant(type, raw, "trees")).getResult();
}

Value floatTable(OpBuilder &b, Location loc, bool isDouble, const std::vector<double> &data) {
  int64_t n = data.size();
  if (isDouble)
    return table(b, loc, b.getF64Type(), {n}, data);
  return table(b, loc, b.getF32Type(), {n}, std::vector<float>(data.begin(), data.end()));
}

/// What the attributes say of an ensemble beside its trees.
struct Ensemble {
  bool classifier;
  int64_t targets, aggregate, post;
  SmallVector<int64_t> labels;
  SmallVector<StringRef> names; ///< of the classes, when these are words: labels are their numbers then
  std::vector<double> base; ///< as given until settleBase
};

/// Checks the base values: one a target, or one for the score of a binary classifier
/// that scores class 0 alone (what converters write). On other numbers, on a score
/// of class 1 alone and on its probit, text and runtimes all differ.
bool settleBase(Ensemble &e, bool binary, const Forest &forest) {
  size_t given = e.base.size(), targets = e.targets;
  if (binary && (forest.targets.front() != 0 || e.post == 4 || given > 1))
    return false;
  if (given && given != targets && !binary)
    return false;
  e.base.resize(targets, 0);
  return true;
}

std::optional<Ensemble> readEnsemble(Operation *op) {
  StringRef name = op->getName().stripDialect();
  Ensemble e;
  e.classifier = name == "ml.TreeEnsembleClassifier";
  e.labels = getInts(op, "classlabels_int64s");
  if (e.classifier && e.labels.empty()) {
    e.names = getStrings(op, "classlabels_strings");
    e.labels = llvm::to_vector(llvm::seq<int64_t>(0, e.names.size()));
  }
  e.targets = e.classifier ? e.labels.size() : getInt(op, "n_targets", 1);
  if (e.targets < (e.classifier ? 2 : 1))
    return std::nullopt;
  auto given = floatList(op, "base_values");
  if (!given)
    return std::nullopt;
  e.base.assign(given->begin(), given->end());
  if (name == "ml.TreeEnsemble") {
    e.aggregate = getInt(op, "aggregate_function", 1);
    e.post = getInt(op, "post_transform", 0);
  } else {
    e.aggregate = llvm::StringSwitch<int64_t>(getString(op, "aggregate_function", "SUM"))
                      .Case("AVERAGE", 0).Case("SUM", 1).Case("MIN", 2).Case("MAX", 3).Default(-1);
    e.post = llvm::StringSwitch<int64_t>(getString(op, "post_transform", "NONE"))
                 .Case("NONE", 0).Case("SOFTMAX", 1).Case("LOGISTIC", 2).Case("SOFTMAX_ZERO", 3).Case("PROBIT", 4).Default(-1);
  }
  if (e.aggregate < 0 || e.aggregate > 3 || e.post < 0 || e.post > 4)
    return std::nullopt;
  return e;
}

SmallVector<Value> tablesOf(OpBuilder &b, Location loc, bool isDouble, const Forest &forest, const PackedForest &packed, const Ensemble &e) {
  auto ints = [&](const std::vector<int32_t> &v) {
    static const std::vector<int32_t> nothing(1, 0); // a table needs an address
    const std::vector<int32_t> &data = v.empty() ? nothing : v;
    return table(b, loc, b.getI32Type(), {static_cast<int64_t>(data.size())}, data);
  };
  SmallVector<Value> tables{ints(packed.roots), ints(packed.words), floatTable(b, loc, isDouble, e.base)};
  if (packed.leaves == Leaves::Direct) {
    tables.push_back(ints(packed.treeTargets));
  } else {
    if (packed.leaves == Leaves::Table) {
      tables.push_back(ints(forest.leafBegin));
      tables.push_back(ints(forest.targets));
    }
    tables.push_back(floatTable(b, loc, isDouble, forest.weights.empty() ? std::vector<double>(1, 0) : forest.weights));
  }
  if (e.classifier)
    tables.push_back(table(b, loc, b.getI64Type(), {e.targets}, std::vector<int64_t>(e.labels.begin(), e.labels.end())));
  return tables;
}

void unsupportedBase(Operation *op, int64_t targets) {
  (void)unsupported(op, "base values and leaves do not settle the scores of " + Twine(targets) +
                            " targets in a way on which runtimes agree");
}

/// Leaves `op` as it is, with the reason, where something is missing.
void lower(Operation *op) {
  auto x = dyn_cast<RankedTensorType>(op->getOperand(0).getType());
  auto refuse = [&](const Twine &why) { (void)unsupported(op, why); };
  if (!x || x.getRank() < 1 || x.getRank() > 2)
    return (void)unsupportedInput(op, 0, "expected rank 1 or 2");
  auto e = readEnsemble(op);
  if (!e)
    return refuse("its labels, base values, aggregate_function or post_transform are not among those that are supported");
  auto forest = op->getName().stripDialect() == "ml.TreeEnsemble" ? readForest(op, e->targets)
                                                                  : readOldForest(op, e->classifier ? "class" : "target", e->targets);
  if (!forest || forest->roots.empty())
    return refuse("the lists that describe its trees do not fit each other, or a walk through them would not end");
  if (!x.isDynamicDim(x.getRank() - 1) && x.getDimSize(x.getRank() - 1) < forest->features)
    return refuse("its trees ask for feature " + Twine(forest->features - 1) + ", the input has " +
                  Twine(x.getDimSize(x.getRank() - 1)));
  bool binary = e->classifier && e->targets == 2 && !forest->targets.empty() && llvm::all_equal(forest->targets);
  if (!settleBase(*e, binary, *forest))
    return unsupportedBase(op, e->targets);
  bool isDouble = x.getElementType().isF64();
  makeLessEqual(*forest, isDouble);
  auto packed = packForest(*forest, e->targets, isDouble);
  if (!packed)
    return refuse("its trees are too large for their tables");

  // Result types are known here better than from the schema.
  int64_t batch = x.getRank() == 2 ? x.getDimSize(0) : 1;
  SmallVector<Type> types;
  for (Value r : op->getResults()) {
    auto old = cast<TensorType>(r.getType());
    bool scores = !e->classifier || getResultPosition(op, cast<OpResult>(r).getResultNumber()) == 1;
    types.push_back(scores ? RankedTensorType::get({batch, e->targets}, old.getElementType())
                           : RankedTensorType::get({batch}, e->names.empty() ? old.getElementType() : IntegerType::get(op->getContext(), 64)));
  }
  if (e->classifier && types.size() != 2)
    return;
  OpBuilder b(op);
  Location loc = op->getLoc();
  SmallVector<Value> operands{op->getOperand(0)};
  operands.append(tablesOf(b, loc, isDouble, *forest, *packed, *e));
  auto option = [&](StringRef name, int64_t value) { return b.getNamedAttr(name, b.getI64IntegerAttr(value)); };
  bool positive = llvm::all_of(forest->weights, [](double w) { return w >= 0; });
  auto attrs = b.getDictionaryAttr({option("aggregate", e->aggregate), option("post", e->post), option("binary", binary),
                                    option("positive", positive), option("features", forest->features),
                                    option("classifier", e->classifier), option("wide", packed->wide),
                                    option("leaves", static_cast<int64_t>(packed->leaves)),
                                    option("nan", (packed->nanFalse ? 1 : 0) | (packed->nanTrue ? 2 : 0))});
  auto custom = CustomOp::create(b, loc, types, b.getStringAttr("tessera"), b.getStringAttr("TreeEnsemble"), attrs, operands, 0);
  SmallVector<Value> results(custom->getResults());
  if (!e->names.empty()) {
    Type string = StringType::get(op->getContext());
    auto list = DenseStringElementsAttr::get(RankedTensorType::get({static_cast<int64_t>(e->names.size())}, string), e->names);
    OnnxBuilder builder(b, loc);
    results[0] = builder.op("Gather", {WeightOp::create(b, loc, list), results[0]}, RankedTensorType::get({batch}, string),
                            {builder.i("axis", 0)});
  }
  op->replaceAllUsesWith(results);
  op->erase();
}

struct LowerTreesPass : impl::LowerTreesBase<LowerTreesPass> {
  using LowerTreesBase::LowerTreesBase;
  void runOnOperation() override {
    func::FuncOp func = getOperation();
    SmallVector<Operation *> trees, maps;
    func.walk([&](Operation *op) {
      StringRef name = op->getName().stripDialect();
      if (name.starts_with("ml.TreeEnsemble"))
        trees.push_back(op);
      else if (name == "ml.ZipMap")
        maps.push_back(op);
    });
    for (Operation *op : trees)
      lower(op);
    // A ZipMap that only leaves the function: the matrix itself is handed out.
    bool changed = false;
    for (Operation *op : maps) {
      if (!llvm::all_of(op->getUsers(), [](Operation *u) { return isa<func::ReturnOp>(u); }))
        continue;
      op->replaceAllUsesWith(ValueRange{op->getOperand(0)});
      op->erase();
      changed = true;
    }
    if (changed) {
      auto ret = cast<func::ReturnOp>(func.getBody().front().getTerminator());
      func.setFunctionType(FunctionType::get(&getContext(), func.getFunctionType().getInputs(),
                                             SmallVector<Type>(ret.getOperandTypes())));
    }
  }
};

} // namespace

} // namespace tessera::onnx

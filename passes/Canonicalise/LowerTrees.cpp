// Tree ensembles as tables, see Passes.td.
//
// The attributes of the ai.onnx.ml operators become constant operands of
// tessera.TreeEnsemble:
//
//   0 X           [N, F] or [F]
//   1 roots       int32 [trees]
//   2 nodes       int32 [nodes, 4]   feature, mode | (NaN goes to true) << 3, true, false
//   3 splits      [nodes]            float, or double if X is
//   4 leaf begin  int32 [leaves + 1]
//   5 targets     int32 [entries]
//   6 weights     [entries]
//   7 base        [targets]
//   8 labels      int64 [classes]    classifiers only
//
// A child is a node, or -1 - leaf. A set membership becomes a chain of equality
// nodes. Every index is checked here; the kernel trusts the tables.
#include "passes/Canonicalise/OnnxBuilder.h"
#include "passes/Canonicalise/Passes.h"

#include "dialects/Onnx/IR/OpsCore.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;

namespace tessera::onnx {

#define GEN_PASS_DEF_LOWERTREES
#include "passes/Canonicalise/Passes.h.inc"

namespace {

// Modes of the kernel's nodes.
enum Mode { LessEqual, Less, GreaterEqual, Greater, Equal, NotEqual, Member };

struct Tables {
  std::vector<int32_t> roots, nodes, leafBegin{0}, targets;
  std::vector<double> splits, weights;
  int64_t features = 0; ///< largest feature + 1

  int32_t addNode(int64_t feature, int mode, bool nanTrue, double split) {
    features = std::max(features, feature + 1);
    nodes.insert(nodes.end(), {static_cast<int32_t>(feature), mode | (nanTrue ? 8 : 0), 0, 0});
    splits.push_back(split);
    return splits.size() - 1;
  }
  int32_t addLeaf(ArrayRef<std::pair<int64_t, double>> entries) {
    for (auto [target, weight] : entries) {
      targets.push_back(target);
      weights.push_back(weight);
    }
    leafBegin.push_back(targets.size());
    return -1 - static_cast<int32_t>(leafBegin.size() - 2);
  }
};

std::optional<SmallVector<double>> floatList(Operation *op, StringRef name) {
  if (auto tensor = op->getAttrOfType<ElementsAttr>((name + "_as_tensor").str()))
    return getFloats(tensor, INT64_MAX);
  SmallVector<float> values = getFloats(op, name);
  return SmallVector<double>(values.begin(), values.end());
}

/// TreeEnsembleClassifier and TreeEnsembleRegressor.
bool readOld(Operation *op, StringRef prefix, int64_t targets, Tables &t) {
  SmallVector<int64_t> trees = getInts(op, "nodes_treeids"), ids = getInts(op, "nodes_nodeids");
  SmallVector<int64_t> features = getInts(op, "nodes_featureids"), yes = getInts(op, "nodes_truenodeids"),
                       no = getInts(op, "nodes_falsenodeids"), nan = getInts(op, "nodes_missing_value_tracks_true");
  SmallVector<StringRef> modes = getStrings(op, "nodes_modes");
  auto splits = floatList(op, "nodes_values");
  size_t n = trees.size();
  if (!splits || ids.size() != n || features.size() != n || yes.size() != n || no.size() != n ||
      modes.size() != n || splits->size() != n || (!nan.empty() && nan.size() != n) || n > (1u << 30))
    return false;
  llvm::DenseMap<std::pair<int64_t, int64_t>, int32_t> place;
  place.reserve(n);
  for (size_t i = 0; i < n; ++i)
    if (!place.try_emplace({trees[i], ids[i]}, i).second)
      return false;

  SmallVector<int64_t> entryTrees = getInts(op, (prefix + "_treeids").str()),
                       entryNodes = getInts(op, (prefix + "_nodeids").str()),
                       entryTargets = getInts(op, (prefix + "_ids").str());
  auto weights = floatList(op, (prefix + "_weights").str());
  size_t m = entryTrees.size();
  if (!weights || entryNodes.size() != m || entryTargets.size() != m || weights->size() != m)
    return false;
  // Entries by node, in the order they are written.
  std::vector<int32_t> begin(n + 1, 0), order(m);
  std::vector<int32_t> owner(m);
  for (size_t k = 0; k < m; ++k) {
    auto it = place.find({entryTrees[k], entryNodes[k]});
    if (it == place.end() || entryTargets[k] < 0 || entryTargets[k] >= targets)
      return false;
    owner[k] = it->second;
    ++begin[owner[k] + 1];
  }
  for (size_t i = 0; i < n; ++i)
    begin[i + 1] += begin[i];
  std::vector<int32_t> fill(begin.begin(), begin.end() - 1);
  for (size_t k = 0; k < m; ++k)
    order[fill[owner[k]]++] = k;

  // Nodes first, so that children can be named.
  std::vector<int32_t> code(n);
  SmallVector<std::pair<int64_t, double>> entries;
  for (size_t i = 0; i < n; ++i) {
    if (modes[i] == "LEAF") {
      entries.clear();
      for (int32_t k = begin[i]; k < begin[i + 1]; ++k)
        entries.push_back({entryTargets[order[k]], (*weights)[order[k]]});
      code[i] = t.addLeaf(entries);
      continue;
    }
    int mode = llvm::StringSwitch<int>(modes[i])
                   .Case("BRANCH_LEQ", LessEqual)
                   .Case("BRANCH_LT", Less)
                   .Case("BRANCH_GTE", GreaterEqual)
                   .Case("BRANCH_GT", Greater)
                   .Case("BRANCH_EQ", Equal)
                   .Case("BRANCH_NEQ", NotEqual)
                   .Default(-1);
    if (mode < 0 || features[i] < 0 || features[i] > INT32_MAX)
      return false;
    code[i] = t.addNode(features[i], mode, !nan.empty() && nan[i], (*splits)[i]);
  }
  std::vector<bool> isChild(n, false);
  for (size_t i = 0; i < n; ++i) {
    if (code[i] < 0)
      continue;
    auto a = place.find({trees[i], yes[i]}), b = place.find({trees[i], no[i]});
    if (a == place.end() || b == place.end())
      return false;
    t.nodes[4 * code[i] + 2] = code[a->second];
    t.nodes[4 * code[i] + 3] = code[b->second];
  }
  // The root of a tree is its first node.
  llvm::DenseSet<int64_t> seen;
  for (size_t i = 0; i < n; ++i)
    if (seen.insert(trees[i]).second)
      t.roots.push_back(code[i]);
  return true;
}

/// TreeEnsemble of ai.onnx.ml 5.
bool readNew(Operation *op, int64_t targets, Tables &t) {
  auto modesAttr = op->getAttrOfType<ElementsAttr>("nodes_modes"), splitsAttr = op->getAttrOfType<ElementsAttr>("nodes_splits"),
       weightsAttr = op->getAttrOfType<ElementsAttr>("leaf_weights"), membersAttr = op->getAttrOfType<ElementsAttr>("membership_values");
  if (!modesAttr || !splitsAttr || !weightsAttr)
    return false;
  auto modes = getInts(modesAttr, INT64_MAX);
  auto splits = getFloats(splitsAttr, INT64_MAX), weights = getFloats(weightsAttr, INT64_MAX);
  SmallVector<double> members;
  if (membersAttr) {
    auto values = getFloats(membersAttr, INT64_MAX);
    if (!values)
      return false;
    members = *values;
  }
  SmallVector<int64_t> features = getInts(op, "nodes_featureids"), yes = getInts(op, "nodes_truenodeids"),
                       no = getInts(op, "nodes_falsenodeids"), yesLeaf = getInts(op, "nodes_trueleafs"),
                       noLeaf = getInts(op, "nodes_falseleafs"), nan = getInts(op, "nodes_missing_value_tracks_true"),
                       leafTargets = getInts(op, "leaf_targetids"), roots = getInts(op, "tree_roots");
  if (!modes || !splits || !weights)
    return false;
  size_t n = modes->size(), leaves = leafTargets.size();
  if (splits->size() != n || features.size() != n || yes.size() != n || no.size() != n || yesLeaf.size() != n ||
      noLeaf.size() != n || (!nan.empty() && nan.size() != n) || weights->size() != leaves || n > (1u << 30))
    return false;
  for (size_t i = 0; i < leaves; ++i) {
    if (leafTargets[i] < 0 || leafTargets[i] >= targets)
      return false;
    t.addLeaf({{leafTargets[i], (*weights)[i]}});
  }
  size_t nextMember = 0;
  std::vector<int32_t> first(n), last(n); // of each node's chain
  for (size_t i = 0; i < n; ++i) {
    bool nanTrue = !nan.empty() && nan[i];
    if (features[i] < 0 || features[i] > INT32_MAX || (*modes)[i] < 0 || (*modes)[i] > Member)
      return false;
    if ((*modes)[i] != Member) {
      first[i] = last[i] = t.addNode(features[i], (*modes)[i], nanTrue, (*splits)[i]);
      continue;
    }
    first[i] = t.splits.size();
    while (nextMember < members.size() && !std::isnan(members[nextMember]))
      t.addNode(features[i], Equal, nanTrue, members[nextMember++]);
    ++nextMember; // the delimiter
    last[i] = static_cast<int32_t>(t.splits.size()) - 1;
    if (last[i] < first[i])
      return false;
  }
  for (size_t i = 0; i < n; ++i) {
    auto child = [&](int64_t id, bool leaf) -> std::optional<int32_t> {
      if (id < 0 || id >= static_cast<int64_t>(leaf ? leaves : n))
        return std::nullopt;
      return leaf ? -1 - static_cast<int32_t>(id) : first[id];
    };
    auto a = child(yes[i], yesLeaf[i]), b = child(no[i], noLeaf[i]);
    if (!a || !b)
      return false;
    for (int32_t k = first[i]; k <= last[i]; ++k) {
      t.nodes[4 * k + 2] = *a;
      t.nodes[4 * k + 3] = k < last[i] ? k + 1 : *b;
    }
  }
  for (int64_t root : roots) {
    if (root < 0 || root >= static_cast<int64_t>(n))
      return false;
    t.roots.push_back(first[root]);
  }
  return true;
}

/// A walk from a root must end: the children of a node are reached once.
bool isForest(const Tables &t) {
  std::vector<uint8_t> state(t.splits.size(), 0);
  std::vector<std::pair<int32_t, int>> stack;
  for (int32_t root : t.roots) {
    if (root < 0 || state[root] == 2)
      continue;
    stack.push_back({root, 0});
    state[root] = 1;
    while (!stack.empty()) {
      auto &[node, next] = stack.back();
      if (next == 2) {
        state[node] = 2;
        stack.pop_back();
        continue;
      }
      int32_t child = t.nodes[4 * node + 2 + next++];
      if (child < 0 || state[child] == 2)
        continue;
      if (state[child] == 1)
        return false;
      state[child] = 1;
      stack.push_back({child, 0});
    }
  }
  return true;
}

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

/// Leaves `op` as it is (no kernel serves it then) where something is missing.
void lower(Operation *op) {
  StringRef name = op->getName().stripDialect();
  bool classifier = name == "ml.TreeEnsembleClassifier", newest = name == "ml.TreeEnsemble";
  auto x = dyn_cast<RankedTensorType>(op->getOperand(0).getType());
  if (!x || x.getRank() < 1 || x.getRank() > 2)
    return;
  SmallVector<int64_t> labels = getInts(op, "classlabels_int64s");
  int64_t targets = classifier ? labels.size() : getInt(op, "n_targets", 1);
  if (targets <= 0 || (classifier && targets < 2))
    return;
  Tables t;
  bool good = newest ? readNew(op, targets, t) : readOld(op, classifier ? "class" : "target", targets, t);
  if (!good || !isForest(t) || t.roots.empty())
    return;
  if (!x.isDynamicDim(x.getRank() - 1) && x.getDimSize(x.getRank() - 1) < t.features)
    return;
  std::vector<double> base(targets, 0);
  auto given = floatList(op, "base_values");
  if (!given || given->size() > base.size() || (!given->empty() && given->size() != 1 && given->size() != base.size()))
    return;
  for (size_t i = 0; i < base.size() && !given->empty(); ++i)
    base[i] = given->size() == 1 && classifier ? (i == 0 ? (*given)[0] : 0) : (*given)[std::min(i, given->size() - 1)];
  int64_t aggregate = 1, post = 0;
  if (newest) {
    aggregate = getInt(op, "aggregate_function", 1);
    post = getInt(op, "post_transform", 0);
  } else {
    aggregate = llvm::StringSwitch<int64_t>(getString(op, "aggregate_function", "SUM"))
                    .Case("AVERAGE", 0).Case("SUM", 1).Case("MIN", 2).Case("MAX", 3).Default(-1);
    post = llvm::StringSwitch<int64_t>(getString(op, "post_transform", "NONE"))
               .Case("NONE", 0).Case("SOFTMAX", 1).Case("LOGISTIC", 2).Case("SOFTMAX_ZERO", 3).Case("PROBIT", 4).Default(-1);
  }
  if (aggregate < 0 || aggregate > 3 || post < 0 || post > 4)
    return;
  bool binary = classifier && targets == 2 && llvm::all_equal(t.targets);
  bool positive = llvm::all_of(t.weights, [](double w) { return w >= 0; });

  OpBuilder b(op);
  Location loc = op->getLoc();
  bool isDouble = x.getElementType().isF64();
  SmallVector<Value> operands{op->getOperand(0)};
  int64_t nodes = t.splits.size();
  if (!nodes) // every tree is a leaf: the tables still need an address
    t.nodes.assign(4, 0), t.splits.push_back(0), nodes = 1;
  if (t.targets.empty())
    t.targets.push_back(0), t.weights.push_back(0);
  operands.push_back(table(b, loc, b.getI32Type(), {static_cast<int64_t>(t.roots.size())}, t.roots));
  operands.push_back(table(b, loc, b.getI32Type(), {nodes, 4}, t.nodes));
  operands.push_back(floatTable(b, loc, isDouble, t.splits));
  operands.push_back(table(b, loc, b.getI32Type(), {static_cast<int64_t>(t.leafBegin.size())}, t.leafBegin));
  operands.push_back(table(b, loc, b.getI32Type(), {static_cast<int64_t>(t.targets.size())}, t.targets));
  operands.push_back(floatTable(b, loc, isDouble, t.weights));
  operands.push_back(floatTable(b, loc, isDouble, base));
  if (classifier)
    operands.push_back(table(b, loc, b.getI64Type(), {targets}, std::vector<int64_t>(labels.begin(), labels.end())));
  auto attrs = b.getDictionaryAttr({b.getNamedAttr("aggregate", b.getI64IntegerAttr(aggregate)),
                                    b.getNamedAttr("post", b.getI64IntegerAttr(post)),
                                    b.getNamedAttr("binary", b.getI64IntegerAttr(binary)),
                                    b.getNamedAttr("positive", b.getI64IntegerAttr(positive)),
                                    b.getNamedAttr("features", b.getI64IntegerAttr(t.features)),
                                    b.getNamedAttr("classifier", b.getI64IntegerAttr(classifier))});
  // Result types are known here better than from the schema.
  int64_t batch = x.getRank() == 2 ? x.getDimSize(0) : 1;
  SmallVector<Type> types;
  for (Value r : op->getResults()) {
    auto old = cast<TensorType>(r.getType());
    bool scores = !classifier || getResultPosition(op, cast<OpResult>(r).getResultNumber()) == 1;
    types.push_back(scores ? RankedTensorType::get({batch, targets}, old.getElementType())
                           : RankedTensorType::get({batch}, old.getElementType()));
  }
  if (classifier && types.size() != 2)
    return;
  auto custom = CustomOp::create(b, loc, types, b.getStringAttr("tessera"), b.getStringAttr("TreeEnsemble"), attrs, operands, 0);
  op->replaceAllUsesWith(custom->getResults());
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

// The attributes of the tree operators as a Forest. Every index is checked here:
// what is packed from a Forest is trusted by the kernel.
#include "passes/Canonicalise/Forest.h"
#include "passes/Canonicalise/OnnxBuilder.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;

namespace tessera::onnx {

int32_t Forest::addNode(int64_t feature, Branch branch, bool nanTrue, double split) {
  features = std::max(features, feature + 1);
  nodes.push_back({split, static_cast<int32_t>(feature), branch, nanTrue});
  return nodes.size() - 1;
}

int32_t Forest::addLeaf(ArrayRef<std::pair<int64_t, double>> entries) {
  for (auto [target, weight] : entries) {
    targets.push_back(target);
    weights.push_back(weight);
  }
  leafBegin.push_back(targets.size());
  return -1 - static_cast<int32_t>(leafBegin.size() - 2);
}

std::optional<SmallVector<double>> floatList(Operation *op, StringRef name) {
  if (auto tensor = op->getAttrOfType<ElementsAttr>((name + "_as_tensor").str()))
    return getFloats(tensor, INT64_MAX);
  SmallVector<float> values = getFloats(op, name);
  return SmallVector<double>(values.begin(), values.end());
}

namespace {

constexpr size_t maxNodes = 1u << 29; // each may become two

/// A walk from a root ends: no node is its own descendant.
bool isAcyclic(const Forest &f) {
  std::vector<uint8_t> state(f.nodes.size(), 0);
  std::vector<std::pair<int32_t, int>> stack;
  for (int32_t root : f.roots) {
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
      int32_t child = next++ ? f.nodes[node].no : f.nodes[node].yes;
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

std::optional<Branch> branchOf(StringRef mode) {
  return llvm::StringSwitch<std::optional<Branch>>(mode)
      .Case("BRANCH_LEQ", Branch::LessEqual)
      .Case("BRANCH_LT", Branch::Less)
      .Case("BRANCH_GTE", Branch::GreaterEqual)
      .Case("BRANCH_GT", Branch::Greater)
      .Case("BRANCH_EQ", Branch::Equal)
      .Case("BRANCH_NEQ", Branch::NotEqual)
      .Default(std::nullopt);
}

using Places = llvm::DenseMap<std::pair<int64_t, int64_t>, int32_t>;

/// Leaf entries of the older operators, by node, in the order they are written.
struct Entries {
  std::vector<int32_t> begin, order;
  SmallVector<int64_t> targets;
  SmallVector<double> weights;

  SmallVector<std::pair<int64_t, double>> of(size_t node) const {
    SmallVector<std::pair<int64_t, double>> list;
    for (int32_t k = begin[node]; k < begin[node + 1]; ++k)
      list.push_back({targets[order[k]], weights[order[k]]});
    return list;
  }
};

std::optional<Entries> readEntries(Operation *op, StringRef prefix, int64_t targets, size_t nodes, const Places &place) {
  SmallVector<int64_t> trees = getInts(op, (prefix + "_treeids").str()), ids = getInts(op, (prefix + "_nodeids").str());
  Entries e;
  e.targets = getInts(op, (prefix + "_ids").str());
  auto weights = floatList(op, (prefix + "_weights").str());
  size_t m = trees.size();
  if (!weights || ids.size() != m || e.targets.size() != m || weights->size() != m)
    return std::nullopt;
  e.weights = std::move(*weights);
  e.begin.assign(nodes + 1, 0);
  e.order.resize(m);
  std::vector<int32_t> owner(m);
  for (size_t k = 0; k < m; ++k) {
    auto it = place.find({trees[k], ids[k]});
    if (it == place.end() || e.targets[k] < 0 || e.targets[k] >= targets)
      return std::nullopt;
    owner[k] = it->second;
    ++e.begin[owner[k] + 1];
  }
  for (size_t i = 0; i < nodes; ++i)
    e.begin[i + 1] += e.begin[i];
  std::vector<int32_t> fill(e.begin.begin(), e.begin.end() - 1);
  for (size_t k = 0; k < m; ++k)
    e.order[fill[owner[k]]++] = k;
  return e;
}

/// The delimited sets of TreeEnsemble, taken one after another.
class MemberSets {
public:
  explicit MemberSets(SmallVector<double> values) : values(std::move(values)) {}
  ArrayRef<double> next() {
    size_t begin = at;
    while (at < values.size() && !std::isnan(values[at]))
      ++at;
    ArrayRef<double> set = ArrayRef<double>(values).slice(begin, at - begin);
    at = std::min(at + 1, values.size()); // over the delimiter
    return set;
  }

private:
  SmallVector<double> values;
  size_t at = 0;
};

} // namespace

std::optional<Forest> readOldForest(Operation *op, StringRef prefix, int64_t targets) {
  SmallVector<int64_t> trees = getInts(op, "nodes_treeids"), ids = getInts(op, "nodes_nodeids");
  SmallVector<int64_t> features = getInts(op, "nodes_featureids"), yes = getInts(op, "nodes_truenodeids"),
                       no = getInts(op, "nodes_falsenodeids"), nan = getInts(op, "nodes_missing_value_tracks_true");
  SmallVector<StringRef> modes = getStrings(op, "nodes_modes");
  auto splits = floatList(op, "nodes_values");
  size_t n = trees.size();
  if (!splits || ids.size() != n || features.size() != n || yes.size() != n || no.size() != n || modes.size() != n ||
      splits->size() != n || (!nan.empty() && nan.size() != n) || n > maxNodes)
    return std::nullopt;
  Places place;
  place.reserve(n);
  for (size_t i = 0; i < n; ++i)
    if (!place.try_emplace({trees[i], ids[i]}, i).second)
      return std::nullopt;
  auto entries = readEntries(op, prefix, targets, n, place);
  if (!entries)
    return std::nullopt;

  // Nodes first, so that children can be named.
  Forest f;
  std::vector<int32_t> code(n);
  for (size_t i = 0; i < n; ++i) {
    if (modes[i] == "LEAF") {
      code[i] = f.addLeaf(entries->of(i));
      continue;
    }
    auto branch = branchOf(modes[i]);
    if (!branch || features[i] < 0 || features[i] > INT32_MAX)
      return std::nullopt;
    code[i] = f.addNode(features[i], *branch, !nan.empty() && nan[i], (*splits)[i]);
  }
  for (size_t i = 0; i < n; ++i) {
    if (code[i] < 0)
      continue;
    auto a = place.find({trees[i], yes[i]}), b = place.find({trees[i], no[i]});
    if (a == place.end() || b == place.end())
      return std::nullopt;
    f.nodes[code[i]].yes = code[a->second];
    f.nodes[code[i]].no = code[b->second];
  }
  // The root of a tree is its first node.
  llvm::DenseSet<int64_t> seen;
  for (size_t i = 0; i < n; ++i)
    if (seen.insert(trees[i]).second)
      f.roots.push_back(code[i]);
  if (!isAcyclic(f))
    return std::nullopt;
  return f;
}

std::optional<Forest> readForest(Operation *op, int64_t targets) {
  auto modesAttr = op->getAttrOfType<ElementsAttr>("nodes_modes"), splitsAttr = op->getAttrOfType<ElementsAttr>("nodes_splits"),
       weightsAttr = op->getAttrOfType<ElementsAttr>("leaf_weights"), membersAttr = op->getAttrOfType<ElementsAttr>("membership_values");
  if (!modesAttr || !splitsAttr || !weightsAttr)
    return std::nullopt;
  auto modes = getInts(modesAttr, INT64_MAX);
  auto splits = getFloats(splitsAttr, INT64_MAX), weights = getFloats(weightsAttr, INT64_MAX);
  auto members = membersAttr ? getFloats(membersAttr, INT64_MAX) : std::optional(SmallVector<double>());
  SmallVector<int64_t> features = getInts(op, "nodes_featureids"), yes = getInts(op, "nodes_truenodeids"),
                       no = getInts(op, "nodes_falsenodeids"), yesLeaf = getInts(op, "nodes_trueleafs"),
                       noLeaf = getInts(op, "nodes_falseleafs"), nan = getInts(op, "nodes_missing_value_tracks_true"),
                       leafTargets = getInts(op, "leaf_targetids"), roots = getInts(op, "tree_roots");
  if (!modes || !splits || !weights || !members)
    return std::nullopt;
  size_t n = modes->size(), leaves = leafTargets.size();
  if (splits->size() != n || features.size() != n || yes.size() != n || no.size() != n || yesLeaf.size() != n ||
      noLeaf.size() != n || (!nan.empty() && nan.size() != n) || weights->size() != leaves || n > maxNodes)
    return std::nullopt;
  Forest f;
  for (size_t i = 0; i < leaves; ++i) {
    if (leafTargets[i] < 0 || leafTargets[i] >= targets)
      return std::nullopt;
    f.addLeaf({{leafTargets[i], (*weights)[i]}});
  }
  // A set membership is a chain of equalities.
  MemberSets sets(std::move(*members));
  std::vector<int32_t> first(n), last(n);
  for (size_t i = 0; i < n; ++i) {
    bool nanTrue = !nan.empty() && nan[i];
    if (features[i] < 0 || features[i] > INT32_MAX || (*modes)[i] < 0 || (*modes)[i] > static_cast<int64_t>(Branch::Member))
      return std::nullopt;
    auto branch = static_cast<Branch>((*modes)[i]);
    first[i] = f.nodes.size();
    if (branch == Branch::Member)
      for (double value : sets.next())
        f.addNode(features[i], Branch::Equal, nanTrue, value);
    else
      f.addNode(features[i], branch, nanTrue, (*splits)[i]);
    last[i] = static_cast<int32_t>(f.nodes.size()) - 1;
    if (last[i] < first[i] || f.nodes.size() > maxNodes)
      return std::nullopt;
  }
  for (size_t i = 0; i < n; ++i) {
    auto child = [&](int64_t id, bool leaf) -> std::optional<int32_t> {
      if (id < 0 || id >= static_cast<int64_t>(leaf ? leaves : n))
        return std::nullopt;
      return leaf ? -1 - static_cast<int32_t>(id) : first[id];
    };
    auto a = child(yes[i], yesLeaf[i]), b = child(no[i], noLeaf[i]);
    if (!a || !b)
      return std::nullopt;
    for (int32_t k = first[i]; k <= last[i]; ++k) {
      f.nodes[k].yes = *a;
      f.nodes[k].no = k < last[i] ? k + 1 : *b;
    }
  }
  for (int64_t root : roots) {
    if (root < 0 || root >= static_cast<int64_t>(n))
      return std::nullopt;
    f.roots.push_back(first[root]);
  }
  if (!isAcyclic(f))
    return std::nullopt;
  return f;
}

} // namespace tessera::onnx

// A Forest in the order of walks. The form is described in dialects/Onnx/IR/TreeTables.h.
#include "passes/Canonicalise/Forest.h"

#include "llvm/ADT/bit.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace tessera::onnx {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

double before(double split, bool isDouble) {
  return isDouble ? std::nextafter(split, -infinity) : std::nextafter(static_cast<float>(split), -std::numeric_limits<float>::infinity());
}

void swapBranches(Forest::Node &n) {
  std::swap(n.yes, n.no);
  n.nanTrue = !n.nanTrue;
}

/// What is not NaN goes to `no`.
void makeNever(Forest::Node &n) {
  swapBranches(n);
  n.split = infinity;
}

} // namespace

void makeLessEqual(Forest &forest, bool isDouble) {
  for (size_t i = 0, end = forest.nodes.size(); i < end; ++i) {
    Forest::Node n = forest.nodes[i];
    if (!isDouble)
      n.split = static_cast<float>(n.split);
    if (n.branch == Branch::NotEqual)
      swapBranches(n);
    Branch branch = n.branch;
    n.branch = Branch::LessEqual;
    bool lowest = n.split == -infinity;
    if (std::isnan(n.split)) {
      makeNever(n);
    } else if (branch == Branch::Less) {
      lowest ? makeNever(n) : void(n.split = before(n.split, isDouble));
    } else if (branch == Branch::Greater) {
      swapBranches(n);
    } else if (branch == Branch::GreaterEqual) {
      n.split = lowest ? infinity : before(n.split, isDouble);
      if (!lowest)
        swapBranches(n);
    } else if ((branch == Branch::Equal || branch == Branch::NotEqual) && !lowest) {
      // x <= split, and then not x <= the one before it.
      Forest::Node second = n;
      second.split = before(n.split, isDouble);
      std::swap(second.yes, second.no);
      second.nanTrue = false;
      n.yes = forest.nodes.size();
      forest.nodes.push_back(second);
    }
    forest.nodes[i] = n;
  }
}

namespace {

class Packer {
public:
  Packer(const Forest &forest, int64_t targets, bool isDouble)
      : forest(forest), targets(targets), isDouble(isDouble), place(forest.nodes.size(), -1), below(forest.nodes.size(), -1) {}
  std::optional<PackedForest> run();

private:
  enum class Kind : uint8_t { Node, Leaf, Jump, Unused };
  struct Slot {
    Kind kind;
    int32_t index; ///< of the node or leaf; a jump's destination
  };
  void placeTree(int32_t root);
  Slot slotOf(int32_t child);
  bool allLeavesDense() const;
  bool treesHaveOneTarget(PackedForest &packed);
  int64_t deltaOf(size_t at) const;
  bool isNarrow(int64_t leafSlot) const;
  void write(PackedForest &packed, int64_t leafSlot);

  const Forest &forest;
  int64_t targets;
  bool isDouble;
  bool shared = false; ///< trees have nodes in common
  std::vector<Slot> slots;
  std::vector<int32_t> place, below; ///< of each node, and of its children
  std::vector<int32_t> roots, treeEnds;
};

/// What the next slot holds for `child`.
Packer::Slot Packer::slotOf(int32_t child) {
  if (child < 0)
    return {Kind::Leaf, -1 - child};
  if (place[child] >= 0) {
    shared = true;
    return {Kind::Jump, child};
  }
  place[child] = slots.size();
  return {Kind::Node, child};
}

/// The children of a node are neighbours; those of `yes` come next, so that
/// half of all steps stay in a cache line or the one after it.
void Packer::placeTree(int32_t root) {
  if (root >= 0 && place[root] >= 0) {
    shared = true;
    roots.push_back(place[root]);
    treeEnds.push_back(slots.size());
    return;
  }
  roots.push_back(slots.size());
  slots.push_back(slotOf(root));
  slots.push_back({Kind::Unused, 0}); // pairs stay aligned
  std::vector<int32_t> stack;
  if (root >= 0)
    stack.push_back(root);
  while (!stack.empty()) {
    const Forest::Node &node = forest.nodes[stack.back()];
    below[stack.back()] = slots.size();
    stack.pop_back();
    Slot yes = slotOf(node.yes);
    slots.push_back(yes);
    Slot no = slotOf(node.no);
    slots.push_back(no);
    for (Slot child : {no, yes})
      if (child.kind == Kind::Node)
        stack.push_back(child.index);
  }
  treeEnds.push_back(slots.size());
}

bool Packer::allLeavesDense() const {
  size_t leaves = forest.leafBegin.size() - 1;
  if (targets < 2 || forest.targets.size() != leaves * targets)
    return false;
  for (size_t i = 0; i < forest.targets.size(); ++i)
    if (forest.targets[i] != static_cast<int64_t>(i % targets))
      return false;
  for (size_t i = 0; i <= leaves; ++i)
    if (forest.leafBegin[i] != static_cast<int64_t>(i * targets))
      return false;
  return true;
}

bool Packer::treesHaveOneTarget(PackedForest &packed) {
  if (shared)
    return false;
  for (size_t t = 0; t < roots.size(); ++t) {
    int32_t target = -1;
    for (int32_t at = roots[t]; at < treeEnds[t]; ++at) {
      if (slots[at].kind != Kind::Leaf)
        continue;
      int32_t entry = forest.leafBegin[slots[at].index];
      if (forest.leafBegin[slots[at].index + 1] != entry + 1 || (target >= 0 && forest.targets[entry] != target))
        return false;
      target = forest.targets[entry];
    }
    packed.treeTargets.push_back(target);
  }
  return true;
}

int64_t Packer::deltaOf(size_t at) const {
  const Slot &slot = slots[at];
  int64_t here = at;
  return slot.kind == Kind::Node ? below[slot.index] - here : slot.kind == Kind::Jump ? place[slot.index] - here : 0;
}

bool Packer::isNarrow(int64_t leafSlot) const {
  if (isDouble || leafSlot > UINT16_MAX)
    return false;
  for (size_t at = 0; at < slots.size(); ++at)
    if (int64_t delta = deltaOf(at); delta < INT16_MIN || delta > INT16_MAX)
      return false;
  return true;
}

void Packer::write(PackedForest &packed, int64_t leafSlot) {
  bool both = packed.nanTrue && packed.nanFalse;
  packed.words.reserve(slots.size() * (packed.wide ? 4 : 2));
  for (size_t at = 0; at < slots.size(); ++at) {
    const Slot &slot = slots[at];
    double split = slot.kind == Kind::Jump ? infinity : 0;
    int64_t feature = leafSlot, delta = deltaOf(at);
    uint64_t bits = 0;
    if (slot.kind == Kind::Node) {
      const Forest::Node &node = forest.nodes[slot.index];
      split = node.split;
      feature = node.feature + (both && node.nanTrue ? forest.features : 0);
    } else if (slot.kind == Kind::Leaf && packed.leaves == Leaves::Direct) {
      split = forest.weights[forest.leafBegin[slot.index]];
    }
    bits = isDouble ? llvm::bit_cast<uint64_t>(split) : llvm::bit_cast<uint32_t>(static_cast<float>(split));
    if (slot.kind == Kind::Leaf && packed.leaves != Leaves::Direct)
      bits = slot.index;
    else if (slot.kind == Kind::Leaf && std::isnan(split))
      delta = -1; // no comparison holds: the step adds one
    packed.words.push_back(static_cast<int32_t>(bits));
    if (packed.wide) {
      packed.words.push_back(static_cast<int32_t>(bits >> 32));
      packed.words.push_back(static_cast<int32_t>(feature));
      packed.words.push_back(static_cast<int32_t>(delta));
    } else {
      packed.words.push_back(static_cast<int32_t>(feature | (static_cast<uint64_t>(delta & 0xffff) << 16)));
    }
  }
}

std::optional<PackedForest> Packer::run() {
  for (int32_t root : forest.roots) {
    placeTree(root);
    if (slots.size() > (1u << 30))
      return std::nullopt;
  }
  PackedForest packed;
  packed.roots = roots;
  packed.nanTrue = llvm::any_of(forest.nodes, [](const Forest::Node &n) { return n.nanTrue; });
  packed.nanFalse = llvm::any_of(forest.nodes, [](const Forest::Node &n) { return !n.nanTrue; });
  int64_t leafSlot = forest.features * (packed.nanTrue && packed.nanFalse ? 2 : 1);
  if (leafSlot > INT32_MAX)
    return std::nullopt;
  packed.leaves = treesHaveOneTarget(packed) ? Leaves::Direct : allLeavesDense() ? Leaves::Dense : Leaves::Table;
  packed.wide = !isNarrow(leafSlot);
  write(packed, leafSlot);
  return packed;
}

} // namespace

std::optional<PackedForest> packForest(const Forest &forest, int64_t targets, bool isDouble) {
  return Packer(forest, targets, isDouble).run();
}

} // namespace tessera::onnx

#include "passes/Partition/Islands.h"
#include "llvm/ADT/IntEqClasses.h"
#include "llvm/ADT/MapVector.h"
#include "targets/Rules.h"

using namespace mlir;

namespace tessera {

using Groups = std::vector<llvm::SmallVector<Operation *>>;

static bool isFloat(Value v) {
  auto type = dyn_cast<ShapedType>(v.getType());
  return type && isa<FloatType>(type.getElementType());
}

static bool isQuantisation(Operation *op) {
  StringRef name = op->getName().stripDialect();
  return name == "QuantizeLinear" || name == "DequantizeLinear";
}

/// A unit of the target that computes all of `ops` in integers, by its rules.
static bool integersServe(ArrayRef<Operation *> ops, const TargetDescription &target) {
  for (unsigned u = 1; u < target.units.size(); ++u)
    for (Precision p : target.units[u].precisions)
      if (isQuantised(p) &&
          llvm::all_of(ops, [&](Operation *op) { return failingRules(target, u, op, p).empty(); }))
        return true;
  return false;
}

/// Whether the group has a float tensor that another group computes or reads.
static bool floatsCross(ArrayRef<Operation *> ops, const llvm::DenseMap<Operation *, int> &groupOf) {
  for (Operation *op : ops) {
    int own = groupOf.lookup(op);
    for (Value v : op->getOperands()) {
      Operation *def = v.getDefiningOp();
      auto it = groupOf.find(def);
      if (isFloat(v) && (!def || (it != groupOf.end() && it->second != own)))
        return true;
    }
    for (Value v : op->getResults())
      for (Operation *user : v.getUsers())
        if (auto it = groupOf.find(user); isFloat(v) && (it == groupOf.end() || it->second != own))
          return true;
  }
  return false;
}

/// Whether a path leaves the operators and comes back.
static bool isConvex(ArrayRef<Operation *> ops) {
  llvm::SmallPtrSet<Operation *, 16> members(ops.begin(), ops.end()), behind;
  Block *block = ops.front()->getBlock();
  for (Operation *op = ops.front(); op != ops.back()->getNextNode(); op = op->getNextNode()) {
    bool onMember = false, onBehind = false;
    op->walk([&](Operation *inner) {
      for (Value v : inner->getOperands())
        if (Operation *def = v.getDefiningOp(); def && def->getBlock() == block) {
          onMember |= members.contains(def);
          onBehind |= behind.contains(def);
        }
    });
    if (members.contains(op) && onBehind)
      return false;
    if (!members.contains(op) && (onMember || onBehind))
      behind.insert(op);
  }
  return true;
}

static llvm::DenseMap<Operation *, int> numberGroups(const Groups &groups) {
  llvm::DenseMap<Operation *, int> groupOf;
  for (auto [g, ops] : llvm::enumerate(groups))
    for (Operation *op : ops)
      groupOf[op] = int(g);
  return groupOf;
}

static void sortGroup(llvm::SmallVector<Operation *> &ops) {
  llvm::sort(ops, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
}

static void moveDequantisationToReaders(Groups &groups) {
  auto groupOf = numberGroups(groups);
  for (size_t g = 0; g < groups.size(); ++g)
    for (Operation *op : SmallVector<Operation *>(groups[g])) {
      if (op->getName().stripDialect() != "DequantizeLinear" || !op->getResult(0).hasOneUse())
        continue;
      auto reader = groupOf.find(*op->getUsers().begin());
      if (reader == groupOf.end() || reader->second == int(g))
        continue;
      llvm::erase(groups[g], op);
      groups[reader->second].push_back(op);
      groupOf[op] = reader->second;
    }
  llvm::erase_if(groups, [](const auto &ops) { return ops.empty(); });
  llvm::for_each(groups, sortGroup);
}

void mergeIslands(Groups &groups, const TargetDescription &target) {
  bool integers = llvm::any_of(llvm::drop_begin(target.units), [](const Unit &u) { return llvm::any_of(u.precisions, isQuantised); });
  if (!integers || llvm::none_of(groups, [](const auto &ops) { return llvm::any_of(ops, isQuantisation); }))
    return;
  moveDequantisationToReaders(groups);
  auto groupOf = numberGroups(groups);
  std::vector<char> serves;
  for (ArrayRef<Operation *> ops : groups)
    serves.push_back(integersServe(ops, target));
  llvm::IntEqClasses classes(groups.size());
  for (auto [g, ops] : llvm::enumerate(groups))
    for (Operation *op : ops)
      for (Value v : op->getOperands())
        if (auto it = groupOf.find(v.getDefiningOp()); isFloat(v) && it != groupOf.end())
          if (serves[g] && serves[it->second])
            classes.join(unsigned(g), unsigned(it->second));
  classes.compress();
  llvm::MapVector<unsigned, SmallVector<Operation *>> islands;
  for (auto [g, ops] : llvm::enumerate(groups))
    llvm::append_range(islands[classes[unsigned(g)]], ops);
  // Islands that cannot be one operator fall apart into their groups again.
  auto joined = groupOf;
  for (auto &[island, ops] : islands)
    for (Operation *op : ops)
      joined[op] = int(island);
  Groups result;
  for (auto &[island, ops] : islands) {
    sortGroup(ops);
    if (!floatsCross(ops, joined) && isConvex(ops)) {
      result.push_back(ops);
      continue;
    }
    for (auto [g, members] : llvm::enumerate(groups))
      if (classes[unsigned(g)] == island)
        result.push_back(members);
  }
  groups = std::move(result);
}

} // namespace tessera

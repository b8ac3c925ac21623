// Forms fusion groups: a root operator with the elementwise operators on its
// result, or a chain of elementwise operators over one iteration space.
//
// A group grows in topological order. An elementwise operator joins a group
// that computes one of its operands if it has the group's iteration space and
// if no path leaves the group and comes back (the graph of groups stays
// acyclic); values that others need become further results of the dispatch.
// Of several groups the latest is joined, groups with a root first: their
// result is the larger saving.
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "llvm/ADT/MapVector.h"
#include "passes/Codegen/Lowering.h"
#include "passes/Partition/OpKinds.h"
#include "targets/Cpu/KernelBuilder.h"

using namespace mlir;
using tessera::onnx::Sym;

namespace tessera {

namespace {

constexpr unsigned maxOps = 32;      // body size: beyond it registers spill
constexpr unsigned maxOperands = 12; // pointers held in registers

struct Group {
  SmallVector<Operation *> ops; ///< in original order
  Operation *root = nullptr;
  const cpu::KernelBuilder *builder = nullptr;
  bool grows = false;        ///< elementwise operators may join
  SmallVector<Sym> space;    ///< iteration space
  unsigned first = 0, last = 0; ///< positions in the block
};

class BlockGrouper {
public:
  BlockGrouper(Lowering &l, Block &block) : l(l), block(block) {}
  LogicalResult run();

private:
  LogicalResult classify(Operation *op);
  void joinOrStart(Operation *op);
  bool canJoin(Operation *op, int group);
  bool fits(const Group &g, Operation *op);
  /// A search for a group that something depends on.
  struct Search {
    int target;
    unsigned begin; ///< what stands before it depends on nothing of the target
    llvm::DenseSet<int> seen;
    llvm::DenseSet<Operation *> seenOps;
  };
  Search searchFor(int target);
  bool dependsOn(Operation *op, Search &search);
  void absorbProducers(Operation *op, int group);
  void emitAll();
  void emitOp(Operation *op);
  void emitSizes(Operation *op);
  void emitGroup(int id);
  void build(Group &g);
  Value undefined(Type type);
  void dropUnread(Operation *op);
  ArrayRef<Operation *> unitOf(Operation *const &op);
  bool waits(Operation *op, llvm::DenseSet<Operation *> &seen);
  void noteEmitted(Operation *op);

  Lowering &l;
  Block &block;
  std::vector<Group> groups;
  llvm::DenseMap<Operation *, int> groupOf;
  llvm::DenseMap<Operation *, unsigned> position;
  llvm::DenseSet<Operation *> emittedOps;
  llvm::DenseSet<int> emittedGroups;
  llvm::SmallPtrSet<Operation *, 4> underWay; ///< segments that nothing has waited for
  llvm::MapVector<Type, Value> undefinedOf;
  bool failedAny = false;
};

} // namespace

LogicalResult BlockGrouper::run() {
  unsigned n = 0;
  SmallVector<Operation *> ops;
  for (Operation &op : block) {
    position[&op] = n++;
    ops.push_back(&op);
  }
  for (Operation *op : ops) {
    if (!l.live.contains(op) || isConstantOp(op) || op->hasTrait<OpTrait::IsTerminator>())
      continue;
    dropUnread(op);
    if (l.isWritten(op) || isView(op))
      continue;
    if (isControlFlow(op) || isa<tsr::SegmentOp>(op)) { // groups never cross a border
      for (Region &region : op->getRegions())
        for (Block &body : region)
          if (failed(BlockGrouper(l, body).run()))
            failedAny = true;
      continue;
    }
    if (failed(classify(op)))
      failedAny = true;
  }
  if (failedAny)
    return failure();
  emitAll();
  return success();
}

/// Operands that only shape the result are never computed.
void BlockGrouper::dropUnread(Operation *op) {
  if (isControlFlow(op) || isa<tsr::SegmentOp>(op))
    return;
  for (OpOperand &operand : op->getOpOperands()) {
    Operation *def = operand.get().getDefiningOp();
    if (def && !isConstantOp(def) && !l.live.contains(def))
      operand.set(undefined(operand.get().getType()));
  }
}

Value BlockGrouper::undefined(Type type) {
  Value &v = undefinedOf[type];
  if (!v) {
    OpBuilder b = OpBuilder::atBlockBegin(&block);
    v = tsr::UndefinedOp::create(b, UnknownLoc::get(type.getContext()), type);
  }
  return v;
}

LogicalResult BlockGrouper::classify(Operation *op) {
  cpu::Reasons reasons;
  for (Value v : op->getResults())
    if (!isa<RankedTensorType>(v.getType()))
      reasons.no() << "result of type " << onnx::getTypeName(v.getType()) << " has no buffer form";
  if (cpu::isElementwise(op)) {
    if (reasons.empty() && succeeded(cpu::matchElementwise(op, reasons))) {
      joinOrStart(op);
      return success();
    }
  } else if (reasons.empty()) {
    if (const cpu::KernelBuilder *builder = cpu::findKernel(op, reasons)) {
      Group g;
      g.ops = {op};
      g.root = op;
      g.builder = builder;
      g.first = g.last = position[op];
      unsigned liveResults = llvm::count_if(op->getResults(), [](Value v) { return !v.use_empty(); });
      g.grows = op->getNumResults() == 1 && liveResults == 1 && builder->fusesEpilogue(op);
      ArrayRef<Sym> dims = l.dims(op->getResult(0));
      g.space.assign(dims.begin(), dims.end());
      groupOf[op] = groups.size();
      groups.push_back(std::move(g));
      return success();
    }
  }
  InFlightDiagnostic diag = op->emitError("operator ")
                            << op->getName().getStringRef() << " of node '" << onnx::getNodeName(op)
                            << "' cannot run on the CPU";
  for (const std::string &r : reasons.all)
    diag.attachNote() << r;
  return failure();
}

/// A group is emitted as a whole, so that its first operator waits for what its
/// last one reads: the search goes back past every group that reaches over the
/// place where it would end.
BlockGrouper::Search BlockGrouper::searchFor(int target) {
  unsigned begin = groups[target].first;
  for (bool moved = true; moved;) {
    moved = false;
    for (const Group &g : llvm::reverse(groups))
      if (!g.ops.empty() && g.first < begin && g.last >= begin) {
        begin = g.first;
        moved = true;
      }
  }
  return {target, begin, {}, {}};
}

/// Whether what `op` reads depends on the search's target.
bool BlockGrouper::dependsOn(Operation *op, Search &search) {
  bool found = false;
  auto look = [&](Value v) {
    Operation *def = v.getDefiningOp();
    if (found || !def)
      return;
    def = block.findAncestorOpInBlock(*def);
    if (!def || position.lookup(def) < search.begin)
      return;
    auto it = groupOf.find(def);
    if (it == groupOf.end()) {
      if (search.seenOps.insert(def).second)
        found |= dependsOn(def, search);
      return;
    }
    if (it->second == search.target) {
      found = true;
      return;
    }
    if (!search.seen.insert(it->second).second)
      return;
    for (Operation *member : groups[it->second].ops)
      if (!found)
        found |= dependsOn(member, search);
  };
  auto self = groupOf.find(op);
  for (Value v : op->getOperands()) {
    Operation *def = v.getDefiningOp();
    auto it = def ? groupOf.find(def) : groupOf.end();
    if (self != groupOf.end() && it != groupOf.end() && it->second == self->second)
      continue; // within its own group
    look(v);
  }
  for (Region &region : op->getRegions())
    region.walk([&](Operation *inner) {
      for (Value v : inner->getOperands())
        look(v);
    });
  return found;
}

bool BlockGrouper::fits(const Group &g, Operation *op) {
  if (!g.grows || g.ops.size() >= maxOps)
    return false;
  ArrayRef<Sym> dims = l.dims(op->getResult(0));
  if (ArrayRef<Sym>(g.space) != dims)
    return false;
  llvm::SmallDenseSet<Value> operands;
  auto count = [&](Operation *o) {
    for (Value v : o->getOperands()) {
      Operation *def = v.getDefiningOp();
      if (!def || !llvm::is_contained(g.ops, def))
        operands.insert(v);
    }
  };
  for (Operation *o : g.ops)
    count(o);
  count(op);
  return operands.size() <= maxOperands;
}

bool BlockGrouper::canJoin(Operation *op, int group) {
  Group &g = groups[group];
  if (!fits(g, op))
    return false;
  Search search = searchFor(group);
  for (Value v : op->getOperands()) {
    Operation *def = v.getDefiningOp();
    if (!def)
      continue;
    def = block.findAncestorOpInBlock(*def);
    if (!def)
      continue;
    auto it = groupOf.find(def);
    if (it != groupOf.end() && it->second == group)
      continue;
    if (it != groupOf.end()) {
      if (search.seen.insert(it->second).second)
        for (Operation *member : groups[it->second].ops)
          if (dependsOn(member, search))
            return false;
    } else if (position.lookup(def) >= search.begin && search.seenOps.insert(def).second && dependsOn(def, search)) {
      return false;
    }
  }
  return true;
}

void BlockGrouper::joinOrStart(Operation *op) {
  SmallVector<int> candidates;
  for (Value v : op->getOperands())
    if (Operation *def = v.getDefiningOp())
      if (auto it = groupOf.find(def); it != groupOf.end() && !llvm::is_contained(candidates, it->second))
        candidates.push_back(it->second);
  llvm::sort(candidates, [&](int a, int b) {
    bool rootA = groups[a].root, rootB = groups[b].root;
    return rootA != rootB ? rootA : groups[a].last > groups[b].last;
  });
  for (int id : candidates)
    if (canJoin(op, id)) {
      groups[id].ops.push_back(op);
      groups[id].last = position[op];
      groupOf[op] = id;
      absorbProducers(op, id);
      return;
    }
  Group g;
  g.ops = {op};
  g.first = g.last = position[op];
  g.grows = true;
  ArrayRef<Sym> dims = l.dims(op->getResult(0));
  g.space.assign(dims.begin(), dims.end());
  groupOf[op] = groups.size();
  groups.push_back(std::move(g));
}

/// Takes in elementwise groups that only feed `group`, so that their results
/// are never stored.
void BlockGrouper::absorbProducers(Operation *op, int group) {
  for (Value v : op->getOperands()) {
    Operation *def = v.getDefiningOp();
    auto it = def ? groupOf.find(def) : groupOf.end();
    if (it == groupOf.end() || it->second == group)
      continue;
    int other = it->second;
    Group &from = groups[other], &to = groups[group];
    if (from.root || from.space != to.space || from.ops.size() + to.ops.size() > maxOps)
      continue;
    bool onlyFeeds = llvm::all_of(from.ops, [&](Operation *o) {
      return llvm::all_of(o->getUsers(), [&](Operation *user) {
        auto u = groupOf.find(user);
        return u != groupOf.end() && (u->second == group || u->second == other);
      });
    });
    // What the root reads is computed before the kernel: in it there is nothing ahead of the root.
    bool rootReads = to.root && llvm::any_of(to.root->getOperands(), [&](Value x) { return llvm::is_contained(from.ops, x.getDefiningOp()); });
    // `from` must not depend on `to` (it feeds it alone, so the other way is direct).
    Search search = searchFor(group);
    bool cyclic = llvm::any_of(from.ops, [&](Operation *o) { return dependsOn(o, search); });
    if (!onlyFeeds || rootReads || cyclic)
      continue;
    llvm::SmallDenseSet<Value> operands;
    for (auto *g : {&from, &to})
      for (Operation *o : g->ops)
        for (Value x : o->getOperands())
          if (Operation *d = x.getDefiningOp(); !d || (!llvm::is_contained(from.ops, d) && !llvm::is_contained(to.ops, d)))
            operands.insert(x);
    if (operands.size() > maxOperands)
      continue;
    for (Operation *o : from.ops) {
      groupOf[o] = group;
      to.ops.push_back(o);
    }
    llvm::sort(to.ops, [&](Operation *a, Operation *b) {
      if (a == to.root || b == to.root)
        return a == to.root && b != to.root; // absorbed operators follow the root
      return position[a] < position[b];
    });
    to.first = std::min(to.first, from.first);
    to.last = std::max(to.last, from.last);
    from.ops.clear();
  }
}

// --- building dispatches in an order that respects all dependences -----------------

/// What the sizes of `op`'s tensors are read from comes before it.
void BlockGrouper::emitSizes(Operation *op) {
  llvm::DenseSet<Sym> seen;
  std::function<void(Sym)> visit = [&](Sym s) {
    if (!seen.insert(s).second)
      return;
    if (s->kind == onnx::SymKind::Data || s->kind == onnx::SymKind::Extent)
      if (Operation *def = s->value.getDefiningOp())
        if (Operation *here = block.findAncestorOpInBlock(*def); here && here != op)
          emitOp(here);
    for (Sym operand : s->operands)
      visit(operand);
  };
  for (Value v : op->getResults())
    if (isa<RankedTensorType>(v.getType()))
      for (Sym d : l.dims(v))
        visit(d);
  if (l.isWritten(op))
    for (Sym element : *l.shapes->contents(op->getResult(0)))
      visit(element);
}

ArrayRef<Operation *> BlockGrouper::unitOf(Operation *const &op) {
  auto it = groupOf.find(op);
  return it == groupOf.end() ? ArrayRef<Operation *>(op) : ArrayRef<Operation *>(groups[it->second].ops);
}

/// Whether `op` would have to wait for a segment that is under way: it reads a
/// result, or something that is not emitted for that reason. Another segment
/// never waits here: its place in the order says when it is due.
bool BlockGrouper::waits(Operation *op, llvm::DenseSet<Operation *> &seen) {
  if (underWay.empty() || isa<tsr::SegmentOp>(op) || !seen.insert(op).second)
    return false;
  bool found = false;
  for (Operation *member : unitOf(op))
    member->walk([&](Operation *inner) {
      for (Value v : inner->getOperands()) {
        Operation *def = v.getDefiningOp();
        def = def ? block.findAncestorOpInBlock(*def) : nullptr;
        if (found || !def || isConstantOp(def))
          continue;
        auto it = groupOf.find(def);
        bool emitted = it == groupOf.end() ? emittedOps.contains(def) : emittedGroups.contains(it->second);
        found = underWay.contains(def) || (!emitted && waits(def, seen));
      }
    });
  return found;
}

/// `op` is emitted now: what it reads of a device has been waited for.
void BlockGrouper::noteEmitted(Operation *op) {
  if (auto segment = dyn_cast<tsr::SegmentOp>(op)) {
    underWay.insert(op);
    return;
  }
  if (underWay.empty())
    return;
  op->walk([&](Operation *inner) {
    for (Value v : inner->getOperands())
      if (auto read = dyn_cast_or_null<tsr::SegmentOp>(v.getDefiningOp()); read && underWay.contains(read)) {
        uint64_t device = read.getDevice(); // a fence waits for all of it
        for (Operation *other : SmallVector<Operation *>(underWay.begin(), underWay.end()))
          if (cast<tsr::SegmentOp>(other).getDevice() == device)
            underWay.erase(other);
      }
  });
}

void BlockGrouper::emitOp(Operation *op) {
  if (!op || op->getBlock() != &block || !position.contains(op))
    return;
  if (auto it = groupOf.find(op); it != groupOf.end())
    return emitGroup(it->second);
  if (isConstantOp(op) || !emittedOps.insert(op).second)
    return;
  emitSizes(op);
  auto need = [&](Value v) {
    if (Operation *def = v.getDefiningOp())
      emitOp(block.findAncestorOpInBlock(*def));
  };
  for (Value v : op->getOperands())
    need(v);
  for (Region &region : op->getRegions())
    region.walk([&](Operation *inner) {
      for (Value v : inner->getOperands())
        need(v);
    });
  if (!op->hasTrait<OpTrait::IsTerminator>())
    op->moveBefore(block.getTerminator());
  noteEmitted(op);
}

void BlockGrouper::emitGroup(int id) {
  if (!emittedGroups.insert(id).second)
    return;
  Group &g = groups[id];
  for (Operation *op : g.ops)
    emitSizes(op);
  for (Operation *op : g.ops)
    for (Value v : op->getOperands())
      if (Operation *def = v.getDefiningOp()) {
        auto it = groupOf.find(def);
        if (it == groupOf.end() || it->second != id)
          emitOp(block.findAncestorOpInBlock(*def));
      }
  for (Operation *op : g.ops)
    noteEmitted(op);
  build(g);
}

static bool embeds(const Group &g, Operation *user, OpOperand &operand) {
  ElementsAttr constant = onnx::getConstant(operand.get());
  if (!constant)
    return false;
  unsigned at = onnx::getOperandPosition(user, operand.getOperandNumber());
  if (user == g.root)
    return g.builder->embedsConstant(user, at);
  Type element = constant.getElementType();
  return constant.getNumElements() == 1 && (isa<FloatType>(element) || isa<IntegerType>(element));
}

void BlockGrouper::build(Group &g) {
  OpBuilder b(block.getTerminator());
  SmallVector<Value> inputs, results;
  llvm::SmallPtrSet<Operation *, 8> members(g.ops.begin(), g.ops.end());
  for (Operation *op : g.ops) {
    for (OpOperand &operand : op->getOpOperands()) {
      Operation *def = operand.get().getDefiningOp();
      if (def && (members.contains(def) || isa<tsr::UndefinedOp>(def)))
        continue;
      if (!embeds(g, op, operand) && !llvm::is_contained(inputs, operand.get()))
        inputs.push_back(operand.get());
    }
    for (Value v : op->getResults())
      if (llvm::any_of(v.getUsers(), [&](Operation *u) {
            return !members.contains(u) && (l.live.contains(u) || u->hasTrait<OpTrait::IsTerminator>());
          }) || (op == g.root && op->getNumResults() > 1))
        results.push_back(v);
  }
  if (results.empty()) // read by a size expression only
    for (Operation *op : g.ops)
      llvm::append_range(results, op->getResults());
  SmallVector<Location> locs;
  for (Operation *op : g.ops)
    locs.push_back(op->getLoc());
  Location loc = locs.size() == 1 ? locs[0] : FusedLoc::get(b.getContext(), locs);
  tsr::KernelClass kind = g.root ? g.builder->kernelClass(g.root) : tsr::KernelClass::Elementwise;
  SmallVector<Type> types(llvm::map_range(results, [](Value v) { return v.getType(); }));
  auto dispatch = tsr::DispatchOp::create(b, loc, types, inputs, kind, /*root=*/-1, /*symbols=*/0, ArrayAttr{},
                                          DenseI32ArrayAttr{});
  Block *body = b.createBlock(&dispatch.getBody());
  llvm::DenseMap<Value, Value> inside;
  for (Value v : inputs)
    inside[v] = body->addArgument(v.getType(), v.getLoc());
  llvm::DenseMap<Value, Value> embedded;
  int64_t count = 0, root = -1;
  for (Operation *op : g.ops) {
    for (OpOperand &operand : op->getOpOperands()) {
      Value v = operand.get();
      Operation *def = v.getDefiningOp();
      if (def && members.contains(def))
        continue;
      if (auto it = inside.find(v); it != inside.end()) {
        operand.set(it->second);
        continue;
      }
      Value &copy = embedded[v];
      if (!copy) {
        b.setInsertionPointToEnd(body);
        copy = b.clone(*def)->getResult(0);
        if (!isa<tsr::UndefinedOp>(def))
          l.shapes->setDims(copy, l.dims(v));
        ++count;
      }
      operand.set(copy);
    }
    if (op == g.root)
      root = count;
    op->moveBefore(body, body->end());
    ++count;
  }
  b.setInsertionPointToEnd(body);
  tsr::YieldOp::create(b, loc, results);
  dispatch.setRoot(root);
  for (auto [v, r] : llvm::zip(results, dispatch.getResults()))
    v.replaceUsesWithIf(r, [&](OpOperand &use) { return use.getOwner()->getBlock() != body; });
}

void BlockGrouper::emitAll() {
  SmallVector<Operation *> order, dead;
  for (Operation &op : block) {
    if (isa<tsr::UndefinedOp>(op))
      continue;
    (l.live.contains(&op) || op.hasTrait<OpTrait::IsTerminator>() || isConstantOp(&op) ? order : dead).push_back(&op);
  }
  // Dead operators stay (the analysis knows values by address) but read nothing.
  for (Operation *op : dead) {
    for (Region &region : op->getRegions()) {
      region.dropAllReferences();
      region.getBlocks().clear();
    }
    for (OpOperand &operand : op->getOpOperands())
      operand.set(undefined(operand.get().getType()));
  }
  for (Operation *op : dead)
    for (Value v : op->getResults())
      v.replaceAllUsesWith(undefined(v.getType()));
  // What reads a segment's result comes as late as something else allows, so
  // that the rest runs beside the device.
  SmallVector<Operation *> late;
  for (Operation *op : order)
    if (llvm::DenseSet<Operation *> seen; op->hasTrait<OpTrait::IsTerminator>() || waits(op, seen))
      late.push_back(op);
    else
      emitOp(op);
  for (Operation *op : late)
    emitOp(op);
  for (Operation *op : dead)
    op->moveBefore(block.getTerminator());
}

LogicalResult formGroups(Lowering &l) { return BlockGrouper(l, l.func.getBody().front()).run(); }

} // namespace tessera

#include "compiler/Report/Originals.h"
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace tessera {

std::string operatorName(Operation *op) {
  if (auto type = op->getAttrOfType<StringAttr>("op_type"); type && op->getName().stripDialect() == "Custom")
    return (op->getAttrOfType<StringAttr>("domain").getValue() + "." + type.getValue()).str();
  return op->getName().stripDialect().str();
}

bool isNode(Operation *op) {
  return !op->hasTrait<OpTrait::IsTerminator>() && !op->hasTrait<OpTrait::ConstantLike>() &&
         op->getName().getStringRef().starts_with("onnx.") && op->getName().stripDialect() != "NoValue" &&
         op->getName().stripDialect() != "Constant";
}

Originals::Originals(ModuleOp imported) {
  llvm::DenseMap<Operation *, unsigned> index;
  imported->walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (!isNode(op))
      return;
    index[op] = nodes.size();
    nodes.push_back({onnx::getNodeName(op).str(), operatorName(op), {}, {}, true});
  });
  imported->walk([&](Operation *op) {
    // What a body yields is read by the operator that owns the body.
    Operation *reader = op->hasTrait<OpTrait::IsTerminator>() ? op->getParentOp() : op;
    auto self = index.find(reader);
    if (self == index.end())
      return;
    for (Value v : op->getOperands()) {
      Operation *def = v.getDefiningOp();
      if (auto it = def ? index.find(def) : index.end(); it != index.end()) {
        nodes[self->second].producers.push_back(it->second);
        nodes[it->second].users.push_back(self->second);
      } else if (!def) {
        nodes[self->second].onlyConstants = false;
      }
    }
  });
  for (Node &node : nodes) {
    llvm::sort(node.users);
    node.users.erase(llvm::unique(node.users), node.users.end());
  }
}

/// Whether a vanished node's value was computed at compile time.
bool Originals::isFolded(unsigned index, const Survivors &survivors, std::vector<int> &known) const {
  if (known[index] >= 0)
    return known[index];
  known[index] = 0; // a cycle through a body is no constant
  const Node &node = nodes[index];
  bool shape = node.op == "Shape" || node.op == "Size"; // folded without its operand's data
  known[index] =
      !survivors.contains(node.name) && (shape || (node.onlyConstants && llvm::all_of(node.producers, [&](unsigned p) {
                                                     return p == index || isFolded(p, survivors, known);
                                                   })));
  return known[index];
}

static std::string list(ArrayRef<Operation *> ops) {
  std::vector<std::string> names;
  for (Operation *op : ops)
    if (std::string name = operatorName(op); !llvm::is_contained(names, name))
      names.push_back(name);
  std::string text;
  for (const std::string &name : names)
    text += (text.empty() ? "" : ", ") + name;
  return text;
}

Originals::Fate Originals::fateOf(unsigned index, const Survivors &survivors, std::vector<int> &folded) const {
  const Node &node = nodes[index];
  if (auto it = survivors.find(node.name); it != survivors.end()) {
    const std::vector<Operation *> &ops = it->second;
    bool same = ops.size() == 1 && operatorName(ops[0]) == node.op;
    return {same ? "" : "rewritten to " + list(ops), ops, false};
  }
  if (isFolded(index, survivors, folded))
    return {"folded to a constant", {}, false};
  static const llvm::StringSet<> passing{"Identity", "Dropout", "Cast", "CastLike"};
  if (passing.contains(node.op))
    return {"removed: it changes nothing", {}, false};
  // The nearest nodes that read it and are still there.
  std::vector<unsigned> queue = node.users;
  std::vector<bool> seen(nodes.size());
  std::vector<Operation *> into;
  for (size_t i = 0; i < queue.size(); ++i) {
    unsigned user = queue[i];
    if (seen[user])
      continue;
    seen[user] = true;
    if (auto it = survivors.find(nodes[user].name); it != survivors.end())
      into.insert(into.end(), it->second.begin(), it->second.end());
    else
      queue.insert(queue.end(), nodes[user].users.begin(), nodes[user].users.end());
  }
  if (into.empty())
    return {"removed: nothing reads it", {}, false};
  return {"merged into " + list(into) + " '" + onnx::getNodeName(into[0]).str() + "'", into, true};
}

std::vector<Originals::Fate> Originals::trace(ModuleOp canonical) const {
  Survivors survivors;
  canonical->walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (isNode(op))
      survivors[onnx::getNodeName(op)].push_back(op);
  });
  std::vector<int> folded(nodes.size(), -1);
  std::vector<Fate> fates;
  for (unsigned i = 0; i < nodes.size(); ++i)
    fates.push_back(fateOf(i, survivors, folded));
  return fates;
}

} // namespace tessera

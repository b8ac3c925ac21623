#include "targets/Isolate.h"
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallPtrSet.h"

using namespace mlir;

namespace tessera {

OwningOpRef<ModuleOp> isolate(llvm::ArrayRef<Operation *> ops, llvm::function_ref<bool(Value)> isResult,
                              llvm::SmallVectorImpl<Operation *> &copies) {
  Location loc = ops.front()->getLoc();
  llvm::SmallPtrSet<Operation *, 16> members(ops.begin(), ops.end());
  llvm::SetVector<Value> inputs, outputs;
  llvm::SetVector<Operation *> constants;
  for (Operation *op : ops) {
    for (Value v : op->getOperands()) {
      Operation *def = v.getDefiningOp();
      if (def && members.contains(def))
        continue;
      if (def && (onnx::getConstant(v) || isa<NoneType>(v.getType())))
        constants.insert(def);
      else
        inputs.insert(v);
    }
    for (Value r : op->getResults())
      if (isResult(r) && llvm::any_of(r.getUsers(), [&](Operation *user) { return !members.contains(user); }))
        outputs.insert(r);
  }
  auto typesOf = [](const llvm::SetVector<Value> &values) {
    return llvm::to_vector(ValueRange(values.getArrayRef()).getTypes());
  };
  OwningOpRef<ModuleOp> module = ModuleOp::create(loc);
  OpBuilder b = OpBuilder::atBlockEnd(module->getBody());
  auto func = func::FuncOp::create(b, loc, "main", b.getFunctionType(typesOf(inputs), typesOf(outputs)));
  Block *body = func.addEntryBlock();
  b.setInsertionPointToStart(body);
  IRMapping map;
  for (auto [from, to] : llvm::zip(inputs, body->getArguments()))
    map.map(from, to);
  for (Operation *op : constants)
    b.clone(*op, map);
  for (Operation *op : ops)
    copies.push_back(b.clone(*op, map));
  llvm::SmallVector<Value> results;
  for (Value v : outputs)
    results.push_back(map.lookup(v));
  func::ReturnOp::create(b, loc, results);
  return module;
}

} // namespace tessera

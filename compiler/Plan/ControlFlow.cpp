// If and Loop as branches over the flat command list.
//
// Values that leave a body are copied into buffers of the surrounding code;
// sizes that differ from path to path or from iteration to iteration get a
// register that every path assigns.
#include "compiler/Plan/PlanBuilderImpl.h"
#include "dialects/Onnx/IR/OnnxUtils.h"

using namespace mlir;
using tessera::onnx::Sym;
using tessera::onnx::SymKind;

namespace tessera {

static RankedTensorType tensorType(Value v) { return cast<RankedTensorType>(v.getType()); }

LogicalResult PlanBuilder::branch(Operation *op) {
  SmallVector<Value> results;
  for (Value v : op->getResults()) {
    if (!isa<RankedTensorType>(v.getType()))
      return op->emitError("result of type ") << onnx::getTypeName(v.getType()) << " of If is not supported";
    results.push_back(v);
  }
  // Sizes known before the branch need no join.
  SmallVector<std::pair<Sym, uint32_t>> joins;
  auto isJoined = [&](Sym d) { return !knownAtPrepare(d) && lookup(d) == kNone; };
  for (Value v : results)
    for (Sym d : l.dims(v))
      if (isJoined(d) && llvm::none_of(joins, [&](auto &j) { return j.first == d; }))
        joins.push_back({d, plan.registers++});
  auto joined = [&](Value v) {
    return llvm::any_of(l.dims(v), [&](Sym d) { return llvm::any_of(joins, [&](auto &j) { return j.first == d; }); });
  };
  SmallVector<uint32_t> targets;
  for (Value v : results) {
    if (joined(v)) { // allocated in each branch, once its size is known
      uint32_t id = newBuffer(BufferKind::Dynamic, onnx::getNodeName(op));
      plan.buffers[id].pool = 1;
      targets.push_back(id);
    } else {
      targets.push_back(newTemporary(sizeOf(l.dims(v), tensorType(v).getElementType()), onnx::getNodeName(op)));
    }
  }
  uint32_t cond = plan.registers++;
  emitScalar({.op = ScalarOp::LoadInt, .dst = cond, .a = use(bufferOf(op->getOperand(0))), .b = 9}, false);
  uint32_t test = command({.kind = CommandKind::BranchZero, .a = cond});

  // As the dialect defines them: then_branch before else_branch.
  Region *thenRegion = nullptr, *elseRegion = nullptr;
  if (op->getNumRegions() == 2) {
    thenRegion = &op->getRegion(0);
    elseRegion = &op->getRegion(1);
  }
  auto body = [&](Region &region) -> LogicalResult {
    scopes.emplace_back();
    label();
    Block &b = region.front();
    if (failed(block(b)))
      return failure();
    SmallVector<Value> yields(b.getTerminator()->getOperands());
    for (auto [v, result] : llvm::zip(yields, results))
      for (auto [d, r] : llvm::zip(l.dims(v), l.dims(result)))
        for (auto &[sym, phi] : joins)
          if (sym == r)
            assign(phi, reg(d));
    for (auto [v, result, target] : llvm::zip(yields, results, targets)) {
      uint32_t bytes = reg(sizeOf(l.dims(v), tensorType(v).getElementType()));
      uint32_t from = bufferOf(v);
      if (joined(result)) {
        plan.buffers[target].sizeRegister = bytes;
        use(target);
        command({.kind = CommandKind::Allocate, .a = target, .b = bytes});
      }
      copy(from, target, bytes);
    }
    scopes.pop_back();
    return success();
  };
  if (failed(body(*thenRegion)))
    return failure();
  uint32_t jump = command({.kind = CommandKind::Jump});
  plan.commands[test].b = label();
  if (failed(body(*elseRegion)))
    return failure();
  plan.commands[jump].a = label();
  for (auto &[sym, phi] : joins)
    scopes.back()[sym] = phi;
  for (auto [v, target] : llvm::zip(results, targets)) {
    buffers[v] = target;
    if (joined(v)) // one register for the size, whichever branch ran
      plan.buffers[target].sizeRegister = reg(sizeOf(l.dims(v), tensorType(v).getElementType()));
  }
  return success();
}

/// In iteration `i`: `extent` of the slices so far is that of this one too, `now`.
void PlanBuilder::agree(uint32_t extent, uint32_t now, uint32_t i, Operation *op, unsigned scan) {
  uint32_t same = plan.registers++, later = plan.registers++, good = plan.registers++;
  emitScalar({.op = ScalarOp::Equal, .dst = same, .a = extent, .b = now}, false);
  emitScalar({.op = ScalarOp::Less, .dst = later, .a = constantReg(0), .b = i}, false);
  emitScalar({.op = ScalarOp::Select, .dst = good, .a = later, .b = same, .c = constantReg(1)}, false);
  std::string text;
  llvm::raw_string_ostream(text) << "the slices of scan output " << scan << " of node '" << onnx::getNodeName(op)
                                 << "' must have equal sizes";
  command({.kind = CommandKind::Check, .a = good, .b = string(text)});
  assign(extent, now);
}

LogicalResult PlanBuilder::loop(Operation *op) {
  onnx::SymContext &ctx = l.shapes->context();
  Block &body = op->getRegion(0).front();
  Value tripValue = onnx::getOptionalOperand(op, 0), condValue = onnx::getOptionalOperand(op, 1);
  unsigned carried = body.getNumArguments() - 2;
  SmallVector<Value> init;
  for (unsigned k = 0; k < carried; ++k)
    init.push_back(onnx::getOptionalOperand(op, 2 + k));
  SmallVector<Value> yields(body.getTerminator()->getOperands());
  unsigned scans = yields.size() - 1 - carried;
  for (Value v : op->getResults())
    if (!isa<RankedTensorType>(v.getType()))
      return op->emitError("result of type ") << onnx::getTypeName(v.getType()) << " of Loop is not supported";

  scopes.emplace_back();
  uint32_t zero = constantReg(0), one = constantReg(1);
  // Registers: iteration number, limit, condition.
  uint32_t i = plan.registers++, limit = plan.registers++, cond = plan.registers++, go = plan.registers++;
  Sym tripSym = nullptr;
  if (tripValue) {
    if (auto contents = l.shapes->contents(tripValue); contents && contents->size() == 1 &&
        (knownAtPrepare((*contents)[0]) || lookup((*contents)[0]) != kNone))
      tripSym = (*contents)[0];
    uint32_t trip;
    if (tripSym) {
      trip = reg(tripSym);
    } else {
      trip = plan.registers++;
      emitScalar({.op = ScalarOp::LoadInt, .dst = trip, .a = use(bufferOf(tripValue)), .b = 7}, false);
    }
    assign(limit, trip);
  } else {
    assign(limit, constantReg(std::numeric_limits<int64_t>::max()));
  }
  if (condValue)
    emitScalar({.op = ScalarOp::LoadInt, .dst = cond, .a = use(bufferOf(condValue)), .b = 9}, false);
  else
    assign(cond, one);
  assign(i, zero);

  // Sizes of carried values that change from iteration to iteration.
  SmallVector<uint32_t> current(carried);
  llvm::DenseMap<Sym, uint32_t> phis;
  SmallVector<bool> varies(carried, false);
  for (unsigned k = 0; k < carried; ++k) {
    Value arg = body.getArgument(2 + k);
    for (auto [d, first] : llvm::zip(l.dims(arg), l.dims(init[k])))
      if (d->kind == SymKind::BlockDim && d->value == arg) {
        varies[k] = true;
        uint32_t phi = plan.registers++;
        phis[d] = phi;
        assign(phi, reg(first));
        scopes.back()[d] = phi;
      }
    // A value whose class of size differs between start and body is dynamic.
    if (l.dims(yields[1 + k]) != l.dims(arg))
      varies[k] = true;
  }
  for (unsigned k = 0; k < carried; ++k) {
    Value arg = body.getArgument(2 + k);
    Sym size = sizeOf(l.dims(init[k]), tensorType(arg).getElementType());
    uint32_t bytes = reg(size), from = bufferOf(init[k]);
    if (varies[k]) {
      current[k] = newBuffer(BufferKind::Dynamic, onnx::getNodeName(op));
      plan.buffers[current[k]].pool = 1;
      plan.buffers[current[k]].sizeRegister = bytes;
      command({.kind = CommandKind::Allocate, .a = current[k], .b = bytes});
    } else {
      current[k] = newTemporary(size, onnx::getNodeName(op));
    }
    copy(from, current[k], bytes);
    buffers[arg] = current[k];
  }
  uint32_t number = newTemporary(ctx.constant(8), "iteration");
  buffers[body.getArgument(0)] = number;
  uint32_t condBuffer = newTemporary(ctx.constant(1), "condition");
  buffers[body.getArgument(1)] = condBuffer;

  // Scan outputs grow a slice an iteration.
  SmallVector<uint32_t> scanBuffers(scans), scanOffsets(scans);
  SmallVector<bool> scanFixed(scans, false);
  // Extents of slices that only an iteration knows: all must agree.
  SmallVector<llvm::SmallDenseMap<unsigned, uint32_t>> sliceExtents(scans);
  for (unsigned s = 0; s < scans; ++s) {
    Value slice = yields[1 + carried + s];
    for (auto [axis, d] : llvm::enumerate(l.dims(slice)))
      if (!knownAtPrepare(d) && lookup(d) == kNone) {
        uint32_t extent = sliceExtents[s][axis] = plan.registers++;
        assign(extent, zero);
      }
    Sym size = sizeOf(l.dims(slice), tensorType(slice).getElementType());
    scanOffsets[s] = plan.registers++;
    assign(scanOffsets[s], zero);
    bool known = knownAtPrepare(size);
    if (tripSym && known && knownAtPrepare(tripSym)) {
      scanFixed[s] = true;
      Sym most = ctx.max(tripSym, ctx.constant(0));
      scanBuffers[s] = newTemporary(ctx.mul(most, size), onnx::getNodeName(op));
    } else {
      scanBuffers[s] = newBuffer(BufferKind::Dynamic, onnx::getNodeName(op));
      plan.buffers[scanBuffers[s]].pool = 1;
      plan.buffers[scanBuffers[s]].sizeRegister = scanOffsets[s];
      command({.kind = CommandKind::Allocate, .a = scanBuffers[s], .b = zero});
    }
  }

  // while (i < limit && cond)
  uint32_t head = label();
  emitScalar({.op = ScalarOp::Less, .dst = go, .a = i, .b = limit}, false);
  emitScalar({.op = ScalarOp::Select, .dst = go, .a = go, .b = cond, .c = zero}, false);
  uint32_t test = command({.kind = CommandKind::BranchZero, .a = go});
  scopes.emplace_back();
  use(number);
  command({.kind = CommandKind::StoreInt, .a = number, .b = i, .c = 0, .d = 7});
  use(condBuffer);
  command({.kind = CommandKind::StoreInt, .a = condBuffer, .b = cond, .c = 0, .d = 9});
  if (failed(block(body)))
    return failure();
  emitScalar({.op = ScalarOp::LoadInt, .dst = cond, .a = use(bufferOf(yields[0])), .b = 9}, false);
  for (unsigned s = 0; s < scans; ++s) {
    Value slice = yields[1 + carried + s];
    uint32_t bytes = reg(sizeOf(l.dims(slice), tensorType(slice).getElementType()));
    uint32_t from = bufferOf(slice);
    for (auto [axis, d] : llvm::enumerate(l.dims(slice)))
      if (auto it = sliceExtents[s].find(axis); it != sliceExtents[s].end())
        agree(it->second, reg(d), i, op, s);
    if (!scanFixed[s]) { // make room: a larger buffer takes over
      uint32_t total = plan.registers++;
      emitScalar({.op = ScalarOp::Add, .dst = total, .a = scanOffsets[s], .b = bytes}, false);
      uint32_t larger = newBuffer(BufferKind::Dynamic, "grown");
      plan.buffers[larger].pool = 1;
      plan.buffers[larger].sizeRegister = total;
      command({.kind = CommandKind::Allocate, .a = larger, .b = total});
      copy(scanBuffers[s], larger, scanOffsets[s]);
      use(larger);
      use(scanBuffers[s]);
      command({.kind = CommandKind::Bind, .a = scanBuffers[s], .b = larger});
    }
    copy(from, scanBuffers[s], bytes, scanOffsets[s]);
    emitScalar({.op = ScalarOp::Add, .dst = scanOffsets[s], .a = scanOffsets[s], .b = bytes}, false);
  }
  // New carried values may be read from the old ones of others: stage all that
  // are not fresh results of the body first.
  SmallVector<uint32_t> next(carried), nextBytes(carried);
  for (unsigned k = 0; k < carried; ++k) {
    Value v = yields[1 + k];
    nextBytes[k] = reg(sizeOf(l.dims(v), tensorType(v).getElementType()));
    next[k] = bufferOf(v);
    uint32_t root = rootOf(next[k]);
    bool old = llvm::any_of(current, [&](uint32_t c) { return rootOf(c) == root; }) && root != rootOf(current[k]);
    if (varies[k] || old) {
      uint32_t stage;
      if (varies[k]) {
        stage = newBuffer(BufferKind::Dynamic, "carried");
        plan.buffers[stage].pool = 1;
        plan.buffers[stage].sizeRegister = nextBytes[k];
        command({.kind = CommandKind::Allocate, .a = stage, .b = nextBytes[k]});
      } else {
        stage = newTemporary(sizeOf(l.dims(v), tensorType(v).getElementType()), "carried");
      }
      copy(next[k], stage, nextBytes[k]);
      next[k] = stage;
    }
  }
  SmallVector<std::pair<uint32_t, uint32_t>> updates;
  for (unsigned k = 0; k < carried; ++k)
    for (auto [d, after] : llvm::zip(l.dims(body.getArgument(2 + k)), l.dims(yields[1 + k])))
      if (auto it = phis.find(d); it != phis.end())
        updates.push_back({it->second, reg(after)});
  for (unsigned k = 0; k < carried; ++k) {
    if (next[k] == current[k])
      continue;
    if (varies[k]) {
      use(next[k]);
      use(current[k]);
      command({.kind = CommandKind::Bind, .a = current[k], .b = next[k]});
    } else {
      copy(next[k], current[k], nextBytes[k]);
    }
  }
  for (auto [phi, value] : updates)
    assign(phi, value);
  emitScalar({.op = ScalarOp::Add, .dst = i, .a = i, .b = one}, false);
  scopes.pop_back();
  command({.kind = CommandKind::Jump, .a = head});
  plan.commands[test].b = label();
  spans.push_back({head, static_cast<uint32_t>(plan.commands.size())});
  scopes.pop_back();

  // Results: carried values, then scans with as many slices as iterations ran.
  for (unsigned k = 0; k < carried; ++k) {
    Value result = op->getResult(k);
    buffers[result] = current[k];
    for (auto [d, at] : llvm::zip(l.dims(result), l.dims(body.getArgument(2 + k))))
      if (!knownAtPrepare(d) && lookup(d) == kNone) {
        auto it = phis.find(at);
        scopes.back()[d] = it != phis.end() ? it->second : reg(at);
      }
  }
  for (unsigned s = 0; s < scans; ++s) {
    Value result = op->getResult(carried + s);
    Value slice = yields[1 + carried + s];
    buffers[result] = scanBuffers[s];
    ArrayRef<Sym> dims = l.dims(result);
    if (!knownAtPrepare(dims[0]) && lookup(dims[0]) == kNone)
      scopes.back()[dims[0]] = i;
    for (auto [axis, d] : llvm::enumerate(dims.drop_front()))
      if (!knownAtPrepare(d) && lookup(d) == kNone) {
        auto it = sliceExtents[s].find(axis);
        scopes.back()[d] = it != sliceExtents[s].end() ? it->second : reg(l.dims(slice)[axis]);
      }
  }
  return success();
}

} // namespace tessera

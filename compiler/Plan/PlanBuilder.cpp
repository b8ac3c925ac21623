#include "compiler/Plan/PlanBuilder.h"
#include "compiler/Plan/PlanBuilderImpl.h"
#include "dialects/Onnx/IR/OnnxUtils.h"

using namespace mlir;
using tessera::onnx::Sym;
using tessera::onnx::SymKind;

namespace tessera {

// --- registers -----------------------------------------------------------------

bool PlanBuilder::knownAtPrepare(Sym s) {
  auto it = prepareKnown.find(s);
  if (it != prepareKnown.end())
    return it->second;
  bool known = s->kind != SymKind::Data && s->kind != SymKind::Extent && s->kind != SymKind::BlockDim &&
               llvm::all_of(s->operands, [&](Sym o) { return knownAtPrepare(o); });
  return prepareKnown[s] = known;
}

uint32_t PlanBuilder::lookup(Sym s) {
  if (auto it = prepareRegs.find(s); it != prepareRegs.end())
    return it->second;
  for (auto &scope : llvm::reverse(scopes))
    if (auto it = scope.find(s); it != scope.end())
      return it->second;
  return kNone;
}

static ScalarOp scalarOp(SymKind kind) {
  switch (kind) {
  case SymKind::Add: return ScalarOp::Add;
  case SymKind::Sub: return ScalarOp::Sub;
  case SymKind::Mul: return ScalarOp::Mul;
  case SymKind::FloorDiv: return ScalarOp::FloorDiv;
  case SymKind::CeilDiv: return ScalarOp::CeilDiv;
  case SymKind::TruncDiv: return ScalarOp::TruncDiv;
  case SymKind::Mod: return ScalarOp::Mod;
  case SymKind::Min: return ScalarOp::Min;
  case SymKind::Max: return ScalarOp::Max;
  case SymKind::Equal: return ScalarOp::Equal;
  case SymKind::Less: return ScalarOp::Less;
  case SymKind::Select: return ScalarOp::Select;
  case SymKind::Constant:
  case SymKind::InputDim:
  case SymKind::Data:
  case SymKind::Extent:
  case SymKind::BlockDim: break;
  }
  llvm_unreachable("a leaf is not an operation");
}

void PlanBuilder::emitScalar(const PlanScalar &s, bool prepare) {
  if (prepare) {
    prepareScalars.push_back(s);
    return;
  }
  if (device)
    rangeFault = "has a size that only a run knows";
  if (plan.commands.empty() || plan.commands.back().kind != CommandKind::Scalars || labelHere)
    command({.kind = CommandKind::Scalars, .a = static_cast<uint32_t>(runScalars.size()), .b = 0});
  ++plan.commands.back().b;
  runScalars.push_back(s);
}

uint32_t PlanBuilder::reg(Sym s) {
  if (uint32_t r = lookup(s); r != kNone)
    return r;
  bool prepare = knownAtPrepare(s);
  PlanScalar scalar;
  switch (s->kind) {
  case SymKind::Constant:
    scalar.op = ScalarOp::Constant;
    scalar.imm = s->imm;
    break;
  case SymKind::InputDim:
    scalar.op = ScalarOp::InputDim;
    scalar.a = cast<BlockArgument>(s->value).getArgNumber();
    scalar.b = s->imm;
    break;
  case SymKind::Data: {
    Value holder = l.resolve(s->value);
    scalar.op = ScalarOp::LoadInt;
    scalar.a = use(bufferOf(holder));
    scalar.b = onnxElementType(cast<RankedTensorType>(holder.getType()).getElementType());
    scalar.imm = s->imm;
    break;
  }
  case SymKind::Extent:
  case SymKind::BlockDim:
    if (unresolved.empty()) {
      llvm::raw_string_ostream os(unresolved);
      s->print(os);
    }
    return constantReg(0);
  default: {
    uint32_t regs[3] = {kNone, kNone, kNone};
    for (auto [i, o] : llvm::enumerate(s->operands))
      regs[i] = reg(o);
    scalar.op = scalarOp(s->kind);
    scalar.a = regs[0];
    scalar.b = regs[1];
    scalar.c = regs[2];
  }
  }
  scalar.dst = plan.registers++;
  emitScalar(scalar, prepare);
  (prepare ? prepareRegs : scopes.back())[s] = scalar.dst;
  return scalar.dst;
}

uint32_t PlanBuilder::constantReg(int64_t v) { return reg(l.shapes->context().constant(v)); }

/// `phi` takes the value of `source`: joins of branches and loops.
void PlanBuilder::assign(uint32_t phi, uint32_t source) {
  emitScalar({.op = ScalarOp::Add, .dst = phi, .a = source, .b = constantReg(0)}, false);
}

// --- buffers ---------------------------------------------------------------------

Sym PlanBuilder::sizeOf(ArrayRef<Sym> dims, Type element) {
  onnx::SymContext &ctx = l.shapes->context();
  Sym count = ctx.product(dims);
  unsigned bits = onnx::getStorageBits(element);
  if (bits % 8 == 0)
    return ctx.mul(count, ctx.constant(bits / 8));
  return ctx.ceilDiv(ctx.mul(count, ctx.constant(bits)), ctx.constant(8));
}

uint32_t PlanBuilder::newBuffer(BufferKind kind, StringRef name) {
  PlanBuffer buffer;
  buffer.kind = kind;
  buffer.name = name.str();
  buffer.firstCommand = buffer.lastCommand = plan.commands.size();
  plan.buffers.push_back(buffer);
  plan.constantOf.push_back(kNone);
  return plan.buffers.size() - 1;
}

/// A temporary of `size` bytes; placed at run time if only a run knows its size.
uint32_t PlanBuilder::newTemporary(Sym size, StringRef name) {
  uint32_t id;
  if (auto bytes = size->constant()) {
    id = newBuffer(BufferKind::Temporary, name);
    plan.buffers[id].sizeBytes = *bytes;
    if (device)
      plan.buffers[id].pool = poolOf(device, /*shared=*/false);
  } else if (knownAtPrepare(size)) {
    uint32_t r = reg(size);
    id = newBuffer(BufferKind::Temporary, name);
    plan.buffers[id].sizeRegister = r;
  } else {
    uint32_t r = reg(size);
    id = newBuffer(BufferKind::Dynamic, name);
    plan.buffers[id].sizeRegister = r;
    plan.buffers[id].pool = 1;
    command({.kind = CommandKind::Allocate, .a = id, .b = r});
  }
  return id;
}

uint32_t PlanBuilder::rootOf(uint32_t buffer) {
  while (plan.buffers[buffer].aliasOf != kNone)
    buffer = plan.buffers[buffer].aliasOf;
  return buffer;
}

/// Notes that the next command reads or writes `buffer`.
uint32_t PlanBuilder::use(uint32_t buffer) {
  settle(buffer);
  uint32_t now = plan.commands.size();
  for (uint32_t b = buffer;; b = plan.buffers[b].aliasOf) {
    plan.buffers[b].lastCommand = std::max(plan.buffers[b].lastCommand, now);
    if (plan.buffers[b].aliasOf == kNone)
      return buffer;
  }
}

uint32_t PlanBuilder::constantBuffer(ElementsAttr attr, std::optional<cpu::Packed> packed, StringRef name) {
  PlanConstant constant;
  auto owned = std::make_shared<SmallVector<char, 0>>();
  if (packed) {
    auto bytes = std::make_shared<std::vector<uint8_t>>(std::move(packed->bytes));
    constant.data = bytes->data();
    constant.size = bytes->size();
    constant.owner = bytes;
  } else {
    auto bytes = onnx::getRawBytes(attr, *owned);
    assert(bytes && "strings have no buffer form");
    constant.data = reinterpret_cast<const uint8_t *>(bytes->data());
    constant.size = bytes->size();
    constant.owner = owned;
  }
  uint32_t id = newBuffer(BufferKind::Constant, name);
  plan.buffers[id].sizeBytes = constant.size;
  plan.constantOf[id] = plan.constants.size();
  plan.constants.push_back(std::move(constant));
  return id;
}

/// The buffer of `v`, in whichever memory it lies.
uint32_t PlanBuilder::residence(Value v) {
  if (auto it = buffers.find(v); it != buffers.end())
    return it->second;
  ElementsAttr constant = onnx::getConstant(v);
  assert(constant && "a value is computed before it is used");
  return buffers[v] = constantBuffer(constant, std::nullopt, onnx::getNodeName(v.getDefiningOp()));
}

/// The buffer of `v` for a command that is built now.
uint32_t PlanBuilder::bufferOf(Value v) {
  uint32_t id = residence(v);
  if (device || !deviceOf(id))
    return id;
  return reachesCpu(id) && !hasMirror(id, 0) ? id : mirror(id, 0);
}

// --- commands ----------------------------------------------------------------------

uint32_t PlanBuilder::command(PlanCommand c) {
  if (c.kind == CommandKind::Jump || c.kind == CommandKind::BranchZero)
    fenceAll(); // no launch is under way on one path only
  labelHere = false;
  c.device = device;
  plan.commands.push_back(c);
  return plan.commands.size() - 1;
}

/// The next command is a jump target: nothing is appended to the one before.
uint32_t PlanBuilder::label() {
  labelHere = true;
  return plan.commands.size();
}

void PlanBuilder::copy(uint32_t from, uint32_t to, uint32_t bytesReg, uint32_t toOffset) {
  settle(from); // before either is noted: a fence is a command too
  settle(to);
  use(from);
  use(to);
  command({.kind = CommandKind::Copy, .a = from, .b = to, .c = bytesReg, .d = toOffset});
}

uint32_t PlanBuilder::string(const std::string &text) {
  auto it = llvm::find(plan.strings, text);
  if (it != plan.strings.end())
    return it - plan.strings.begin();
  plan.strings.push_back(text);
  return plan.strings.size() - 1;
}

void PlanBuilder::checks(Operation *op, bool atPrepare) {
  for (const auto &[i, r] : llvm::enumerate(l.shapes->requirements())) {
    bool early = knownAtPrepare(r.condition);
    if (early != atPrepare || (op ? r.op != op : !l.live.contains(r.op)) || r.condition->isConstant(1))
      continue;
    if (device) {
      rangeFault = "needs a check at run time: " + r.message;
      continue;
    }
    uint32_t condition = reg(r.condition);
    checked.insert(i);
    command({.kind = CommandKind::Check, .a = condition, .b = string(r.message)});
  }
}

/// A bundle that does not check what its analysis assumed would be wrong in silence.
LogicalResult PlanBuilder::verifyChecked() {
  LogicalResult result = success();
  for (const auto &[i, r] : llvm::enumerate(l.shapes->requirements()))
    if (l.live.contains(r.op) && !r.condition->isConstant(1) && !checked.contains(i))
      result = r.op->emitError("internal: the plan has no check for: ") << r.message;
  return result;
}

/// A small integer tensor whose elements are expressions.
void PlanBuilder::write(Value v) {
  auto type = cast<RankedTensorType>(v.getType());
  SmallVector<uint32_t> elements;
  for (Sym s : *l.shapes->contents(v))
    elements.push_back(reg(s));
  uint32_t id = newTemporary(sizeOf(l.dims(v), type.getElementType()), onnx::getNodeName(v.getDefiningOp()));
  buffers[v] = id;
  uint32_t element = onnxElementType(type.getElementType());
  for (auto [i, r] : llvm::enumerate(elements)) {
    use(id);
    command({.kind = CommandKind::StoreInt, .a = id, .b = r, .c = static_cast<uint32_t>(i), .d = element});
  }
}

LogicalResult PlanBuilder::block(Block &body) {
  auto known = mirrors; // copies that a body makes exist on its path only
  for (Operation &op : body) {
    if (auto d = dyn_cast<tsr::DispatchOp>(op)) {
      if (failed(dispatch(d)))
        return failure();
      continue;
    }
    if (!l.live.contains(&op) || op.hasTrait<OpTrait::IsTerminator>() || op.hasTrait<OpTrait::ConstantLike>())
      continue;
    if (l.isWritten(&op)) {
      checks(&op, false);
      write(op.getResult(0));
      continue;
    }
    if (isView(&op)) {
      checks(&op, false);
      uint32_t source = residence(op.getOperand(0));
      uint32_t id = newBuffer(plan.buffers[rootOf(source)].kind, onnx::getNodeName(&op));
      PlanBuffer &b = plan.buffers[id];
      b.aliasOf = source;
      b.sizeBytes = plan.buffers[source].sizeBytes;
      b.sizeRegister = plan.buffers[source].sizeRegister;
      b.pool = plan.buffers[source].pool;
      buffers[op.getResult(0)] = id;
      continue;
    }
    checks(&op, false);
    StringRef name = op.getName().getStringRef();
    if (isControlFlow(&op))
      fetchForBodies(&op);
    if (auto part = dyn_cast<tsr::SegmentOp>(op)) {
      if (failed(segment(part)))
        return failure();
    } else if (name == "onnx.If") {
      if (failed(branch(&op)))
        return failure();
    } else if (name == "onnx.Loop") {
      if (failed(loop(&op)))
        return failure();
    } else {
      return op.emitError("operator ") << name << " of node '" << onnx::getNodeName(&op) << "' has no plan";
    }
  }
  if (body.getParentOp() != l.func && !device)
    mirrors = std::move(known);
  return success();
}

// --- the function's borders ---------------------------------------------------------

void PlanBuilder::inputs() {
  for (BlockArgument arg : l.func.getArguments()) {
    unsigned i = arg.getArgNumber();
    auto type = cast<RankedTensorType>(arg.getType());
    PlanTensor t;
    if (auto name = l.func.getArgAttrOfType<StringAttr>(i, "onnx.name"))
      t.name = name.str();
    if (auto kind = l.func.getArgAttrOfType<IntegerAttr>(i, "onnx.kind"))
      t.kind = kind.getInt();
    t.elementType = onnxElementType(type.getElementType());
    auto names = l.func.getArgAttrOfType<ArrayAttr>(i, "onnx.dims");
    auto ranges = l.func.getArgAttrOfType<DenseI64ArrayAttr>(i, "onnx.ranges");
    for (auto [axis, d] : llvm::enumerate(l.dims(arg))) {
      PlanDim dim;
      if (auto c = d->constant()) {
        dim.value = *c;
      } else { // what the analysis took for granted, the loader holds callers to
        dim.reg = reg(d);
        dim.min = d->lower.value_or(0);
        dim.max = d->upper.value_or(std::numeric_limits<int32_t>::max());
        for (int64_t r = 0; ranges && r + 3 < ranges.size(); r += 4)
          if (ranges[r] == static_cast<int64_t>(axis))
            dim.multiple = ranges[r + 3];
      }
      if (names && axis < names.size())
        if (auto s = dyn_cast<StringAttr>(names[axis]))
          dim.name = s.str();
      t.dims.push_back(dim);
    }
    Sym size = sizeOf(l.dims(arg), type.getElementType());
    uint32_t id = newBuffer(BufferKind::Input, t.name);
    if (auto bytes = size->constant())
      plan.buffers[id].sizeBytes = *bytes;
    else
      plan.buffers[id].sizeRegister = reg(size);
    placeShared(arg, id);
    buffers[arg] = t.buffer = id;
    if (auto fallback = l.func.getArgAttrOfType<ElementsAttr>(i, "onnx.default"))
      t.defaultBuffer = constantBuffer(fallback, std::nullopt, t.name);
    plan.inputs.push_back(std::move(t));
  }
}

void PlanBuilder::outputs() {
  Operation *ret = l.func.getBody().front().getTerminator();
  llvm::DenseSet<uint32_t> taken;
  for (auto [i, v] : llvm::enumerate(ret->getOperands())) {
    auto type = cast<RankedTensorType>(v.getType());
    PlanTensor t;
    if (auto name = l.func.getResultAttrOfType<StringAttr>(i, "onnx.name"))
      t.name = name.str();
    if (auto kind = l.func.getResultAttrOfType<IntegerAttr>(i, "onnx.kind"))
      t.kind = kind.getInt();
    t.elementType = onnxElementType(type.getElementType());
    for (Sym d : l.dims(v)) {
      PlanDim dim;
      if (auto c = d->constant())
        dim.value = *c;
      else
        dim.reg = reg(d);
      t.dims.push_back(dim);
    }
    uint32_t id = bufferOf(v), root = rootOf(id);
    BufferKind kind = plan.buffers[root].kind;
    bool own = (kind == BufferKind::Temporary || kind == BufferKind::Dynamic) && taken.insert(root).second;
    if (!own) { // an input, a constant, or a value that is already another output
      Sym size = sizeOf(l.dims(v), type.getElementType());
      uint32_t fresh = newTemporary(size, t.name);
      copy(id, fresh, reg(size));
      id = root = fresh;
      taken.insert(root);
    }
    if (plan.buffers[root].kind == BufferKind::Temporary)
      plan.buffers[root].kind = BufferKind::Output;
    t.buffer = id;
    plan.outputs.push_back(std::move(t));
  }
  // Outputs live until the host has read them.
  for (const PlanTensor &t : plan.outputs)
    use(t.buffer);
}

/// Operands that a dispatch reads only at the position it stores to: whole
/// operands of an elementwise chain, or of a root's epilogue.
static SmallVector<unsigned> positionwise(tsr::DispatchOp op) {
  SmallVector<unsigned> found;
  Operation *root = op.getRootOp();
  unsigned numIn = op.getInputs().size();
  if (op.getOutputs().size() != 1)
    return found;
  for (unsigned i = 0; i < numIn; ++i) {
    Value arg = op.getBodyBlock()->getArgument(i);
    bool same = op.getDimsOf(i) == op.getDimsOf(numIn) && op.getLayoutOf(i) == op.getLayoutOf(numIn) &&
                onnx::getStorageBits(cast<RankedTensorType>(arg.getType()).getElementType()) ==
                    onnx::getStorageBits(cast<RankedTensorType>(op.getResult(0).getType()).getElementType());
    bool late = llvm::all_of(arg.getUsers(), [&](Operation *user) {
      return !root || (user != root && root->isBeforeInBlock(user));
    });
    if (same && late)
      found.push_back(i);
  }
  return found;
}

/// Lets a result take over the storage of an operand that ends with it.
void PlanBuilder::reuseInPlace() {
  // Lifetime of a storage: all aliases of a root together.
  for (uint32_t at = 0; at < plan.commands.size(); ++at) {
    const PlanCommand &c = plan.commands[at];
    // A GPU's invocations are in no order, and its kernels count on buffers apart.
    if (c.kind != CommandKind::Dispatch || sources[c.a].extents || isVulkan(c.device))
      continue;
    tsr::DispatchOp op = sources[c.a].op;
    SmallVector<unsigned> candidates = positionwise(op);
    if (candidates.empty())
      continue;
    uint32_t out = plan.operands[c.b + op.getInputs().size()];
    PlanBuffer &o = plan.buffers[out];
    if (o.aliasOf != kNone || (o.kind != BufferKind::Temporary && o.kind != BufferKind::Output))
      continue;
    for (unsigned i : candidates) {
      uint32_t in = plan.operands[c.b + i], root = rootOf(in);
      PlanBuffer &r = plan.buffers[root];
      if (root == out || r.pool != o.pool || r.kind != BufferKind::Temporary || r.lastCommand != at || r.firstCommand >= at)
        continue;
      bool twice = llvm::count_if(ArrayRef<uint32_t>(plan.operands).slice(c.b, c.c),
                                  [&](uint32_t b) { return rootOf(b) == root; }) > 1;
      bool equal = r.sizeRegister == o.sizeRegister && r.sizeBytes == o.sizeBytes;
      if (twice || !equal)
        continue;
      r.aliasOf = out;
      o.firstCommand = r.firstCommand;
      break;
    }
  }
}

/// Extends lifetimes over loops (what lives at the head and is read in the body
/// is read again) and joins the scalar programs.
void PlanBuilder::finish() {
  for (const auto &[begin, end] : spans)
    for (PlanBuffer &b : plan.buffers)
      if (b.firstCommand < begin && b.lastCommand >= begin && b.lastCommand < end)
        b.lastCommand = end;
  for (uint32_t id = 0; id < plan.buffers.size(); ++id) // aliases keep their storage alive
    if (plan.buffers[id].aliasOf != kNone) {
      PlanBuffer &root = plan.buffers[rootOf(id)];
      root.lastCommand = std::max(root.lastCommand, plan.buffers[id].lastCommand);
    }
  reuseInPlace();
  uint32_t shift = prepareScalars.size();
  for (PlanCommand &c : plan.commands)
    if (c.kind == CommandKind::Scalars)
      c.a += shift;
  plan.prepareEnd = shift;
  plan.scalars = std::move(prepareScalars);
  plan.scalars.insert(plan.scalars.end(), runScalars.begin(), runScalars.end());
  plan.pools = {{.name = "arena"}, {.name = "dynamic", .growing = true}};
  plan.pools.insert(plan.pools.end(), devicePools.begin(), devicePools.end());
  if (launches)
    sortRegisters(plan);
}

LogicalResult PlanBuilder::run() {
  scopes.emplace_back();
  findShared();
  inputs();
  checks(nullptr, true);
  if (failed(block(l.func.getBody().front())))
    return failure();
  outputs();
  fenceAll();
  if (!unresolved.empty())
    return l.func.emitError("size ") << unresolved << " is used before the operator that finds it has run";
  if (failed(verifyChecked()))
    return failure();
  finish();
  return success();
}

FailureOr<BuiltPlan> buildPlan(Lowering &l, cpu::Arch arch, const TargetDescription *target) {
  for (auto types : {l.func.getArgumentTypes(), l.func.getResultTypes()})
    for (Type t : types)
      if (!isa<RankedTensorType>(t) || !onnxElementType(cast<RankedTensorType>(t).getElementType()) ||
          !onnx::getStorageBits(cast<RankedTensorType>(t).getElementType()))
        return l.func.emitError("inputs and outputs of type ") << onnx::getTypeName(t) << " are not supported";
  PlanBuilder builder(l, arch, target);
  if (failed(builder.run()))
    return failure();
  return BuiltPlan{std::move(builder.plan), std::move(builder.sources)};
}

int32_t onnxElementType(Type element) {
  if (element.isF32()) return 1;
  if (auto i = dyn_cast<IntegerType>(element)) {
    bool u = i.isUnsigned();
    switch (i.getWidth()) {
    case 1: return 9;
    case 2: return u ? 25 : 26;
    case 4: return u ? 21 : 22;
    case 8: return u ? 2 : 3;
    case 16: return u ? 4 : 5;
    case 32: return u ? 12 : 6;
    case 64: return u ? 13 : 7;
    default: return 0;
    }
  }
  if (element.isF16()) return 10;
  if (element.isF64()) return 11;
  if (element.isBF16()) return 16;
  if (isa<Float8E4M3FNType>(element)) return 17;
  if (isa<Float8E4M3FNUZType>(element)) return 18;
  if (isa<Float8E5M2Type>(element)) return 19;
  if (isa<Float8E5M2FNUZType>(element)) return 20;
  if (isa<Float4E2M1FNType>(element)) return 23;
  if (isa<Float8E8M0FNUType>(element)) return 24;
  if (auto c = dyn_cast<ComplexType>(element)) return c.getElementType().isF32() ? 14 : 15;
  return 0;
}

} // namespace tessera

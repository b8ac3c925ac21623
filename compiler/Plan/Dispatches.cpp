// Dispatches: which kernel each runs, its operands and scratch, and what it has to
// find out first.
#include "compiler/Plan/PlanBuilderImpl.h"
#include "dialects/Onnx/IR/OnnxUtils.h"

using namespace mlir;
using tessera::onnx::Sym;
using tessera::onnx::SymKind;

namespace tessera {

uint32_t PlanBuilder::kernel(tsr::DispatchOp op, const cpu::KernelBuilder *builder, bool extents) {
  std::string key;
  llvm::raw_string_ostream os(key);
  os << (extents ? "extents " : "");
  for (unsigned i = 0; i < op.getInputs().size(); ++i)
    os << (onnx::getConstant(op.getInputs()[i]) ? (builder->packs(op, i, arch) ? 'p' : 'c') : '.');
  op->print(os, OpPrintingFlags().useLocalScope());
  auto [it, fresh] = kernelOf.try_emplace(key, plan.kernels.size());
  SmallVector<std::string> origin;
  for (Operation &inner : *op.getBodyBlock())
    if (StringRef name = onnx::getNodeName(&inner); !name.empty() && !inner.hasTrait<OpTrait::ConstantLike>())
      origin.push_back(name.str());
  if (fresh) {
    PlanKernel k;
    k.kernelClass = tsr::stringifyKernelClass(op.getKernelClass()).str();
    k.name = op.getRootOp() ? op.getRootOp()->getName().stripDialect().str() : "Elementwise";
    if (extents)
      k.name += ".extents";
    plan.kernels.push_back(k);
    sources.push_back({op, extents});
  }
  PlanKernel &k = plan.kernels[it->second];
  for (const std::string &name : origin)
    if (!llvm::is_contained(k.origin, name))
      k.origin.push_back(name);
  return it->second;
}

LogicalResult PlanBuilder::dispatch(tsr::DispatchOp op) {
  cpu::Reasons reasons;
  const cpu::KernelBuilder *builder = cpu::builderOf(op, reasons);
  if (!builder)
    return op.emitError("no kernel: ") << (reasons.all.empty() ? "" : reasons.all.front());
  for (Operation &inner : *op.getBodyBlock())
    checks(&inner, false);

  SmallVector<uint32_t> inputs;
  for (auto [i, in] : llvm::enumerate(op.getInputs())) {
    ElementsAttr constant = onnx::getConstant(in);
    if (constant && builder->packs(op, i, arch)) {
      auto packed = builder->pack(op, i, constant, arch);
      if (!packed)
        return op.emitError("operand ") << i << " cannot be packed";
      inputs.push_back(constantBuffer(constant, std::move(packed), onnx::getNodeName(in.getDefiningOp())));
    } else {
      inputs.push_back(bufferOf(in));
    }
  }
  Operation *root = op.getRootOp();
  // Only sizes that no expression gives are found by running a kernel.
  bool open =
      root && llvm::any_of(root->getResults(), [&](Value result) {
        return llvm::any_of(l.dims(result), [&](Sym d) { return d->kind == SymKind::Extent && d->value == result; });
      });
  if (unsigned count = open ? builder->extentCount(root) : 0)
    findExtents(op, builder, inputs, count);

  cpu::DispatchSizes sizes{l.shapes->context(), {}, {}, arch};
  for (Value v : op.getInputs())
    sizes.operands.emplace_back(l.dims(v));
  for (Value v : op.getOutputs())
    sizes.results.emplace_back(l.dims(v));

  SmallVector<uint32_t> operands(inputs);
  for (Value v : op.getOutputs()) {
    StringRef name;
    if (Operation *def =
            op.getBodyBlock()->getTerminator()->getOperand(cast<OpResult>(v).getResultNumber()).getDefiningOp())
      name = onnx::getNodeName(def);
    Sym size = sizeOf(l.dims(v), cast<RankedTensorType>(v.getType()).getElementType());
    uint32_t id = newTemporary(size, name);
    placeShared(v, id);
    buffers[v] = id;
    operands.push_back(id);
  }
  if (Sym bytes = builder->scratchBytes(op, sizes))
    operands.push_back(newTemporary(bytes, "scratch"));
  else
    operands.push_back(nullBuffer());
  Sym count = builder->workgroups(op, sizes);
  emitDispatch(kernel(op, builder, false), operands, op, count ? reg(count) : kNone,
               root && builder->flushesDenormals(root));
  return success();
}

/// A buffer of no bytes: stands for absent scratch.
uint32_t PlanBuilder::nullBuffer() {
  auto [it, fresh] = noBuffer.try_emplace(device, kNone);
  if (fresh) {
    it->second = newBuffer(BufferKind::Temporary, "none");
    if (device)
      plan.buffers[it->second].pool = poolOf(device, /*shared=*/false);
  }
  return it->second;
}

void PlanBuilder::emitDispatch(uint32_t kernelId, ArrayRef<uint32_t> operands, tsr::DispatchOp op, uint32_t workgroups,
                               bool flush) {
  SmallVector<uint32_t> scalars;
  for (Sym s : l.symbols[op])
    scalars.push_back(reg(s));
  scalars.push_back(workgroups == kNone ? constantReg(1) : workgroups);
  for (uint32_t b : operands)
    settle(b); // before any is noted: a fence is a command too
  for (uint32_t b : operands)
    use(b);
  PlanCommand c{.kind = CommandKind::Dispatch, .a = kernelId};
  c.b = plan.operands.size();
  c.c = operands.size();
  plan.operands.insert(plan.operands.end(), operands.begin(), operands.end());
  c.d = plan.operands.size();
  c.e = scalars.size();
  plan.operands.insert(plan.operands.end(), scalars.begin(), scalars.end());
  c.f = workgroups;
  c.flushDenormals = flush;
  command(c);
}

void PlanBuilder::findExtents(tsr::DispatchOp op, const cpu::KernelBuilder *builder, ArrayRef<uint32_t> inputs,
                              unsigned count) {
  uint32_t extents = newTemporary(l.shapes->context().constant(8 * count), "extents");
  SmallVector<uint32_t> operands(inputs);
  operands.push_back(extents);
  cpu::DispatchSizes sizes{l.shapes->context(), {}, {}, arch};
  for (Value v : op.getInputs())
    sizes.operands.emplace_back(l.dims(v));
  Sym scratch = builder->extentScratchBytes(op, sizes);
  operands.push_back(scratch ? newTemporary(scratch, "scratch") : nullBuffer());
  // The extents kernel takes its own sizes: none of the results', which it finds.
  SmallVector<Sym> saved = l.symbols[op];
  SmallVector<Sym> known;
  for (Sym s : saved)
    known.push_back(s->kind == SymKind::Extent ? l.shapes->context().constant(0) : s);
  l.symbols[op] = known;
  emitDispatch(kernel(op, builder, true), operands, op, kNone, false);
  l.symbols[op] = saved;
  unsigned k = 0;
  for (Value result : op.getRootOp()->getResults())
    for (Sym d : l.dims(result))
      if (d->kind == SymKind::Extent && d->value == result && k < count && lookup(d) == kNone) {
        PlanScalar load{.op = ScalarOp::LoadInt, .dst = plan.registers++, .a = use(extents), .b = 7, .imm = k++};
        emitScalar(load, false);
        scopes.back()[d] = load.dst;
      }
}

} // namespace tessera

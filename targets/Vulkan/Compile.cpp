#include "targets/Vulkan/Compile.h"
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "mlir/Dialect/SPIRV/IR/SPIRVOps.h"
#include "targets/Cpu/Kernels/Elementwise.h"
#include "targets/Vulkan/KernelBuilder.h"
#include "targets/Vulkan/KernelCache.h"
#include "targets/Vulkan/Lower.h"

#include <thread>

using namespace mlir;

namespace tessera::vulkan {

// --- registry
// --------------------------------------------------------------------------

static llvm::StringMap<EmitFn> &table() {
  static llvm::StringMap<EmitFn> builders;
  return builders;
}

Register::Register(std::initializer_list<StringRef> operations, EmitFn emit) {
  for (StringRef name : operations)
    table()[name] = emit;
}

EmitFn findBuilder(StringRef operation) { return table().lookup(operation); }

// --- checks
// --------------------------------------------------------------------------------

/// Whether the device can compute with `element`, and hold it in memory if it
/// is `stored`; adds what is missing.
static LogicalResult checkElement(Type element, bool stored,
                                  const Device &device, Reasons &reasons) {
  SmallVector<Feature> needed;
  if (element.isF32()) {
  } else if (element.isF16()) {
    needed = {Feature::Float16, Feature::Storage16};
  } else if (element.isBF16()) {
    needed = {Feature::Int16, Feature::Storage16};
  } else if (element.isF64()) {
    needed = {Feature::Float64};
  } else if (auto i = dyn_cast<IntegerType>(element)) {
    switch (i.getWidth()) {
    case 1:
      if (!stored) // a condition
        break;
      [[fallthrough]];
    case 8:
      needed = {Feature::Int8, Feature::Storage8};
      break;
    case 16:
      needed = {Feature::Int16, Feature::Storage16};
      break;
    case 32:
      break;
    case 64:
      needed = {Feature::Int64};
      break;
    default:
      return reasons.no() << "element type " << onnx::getTypeName(element)
                          << " has no form on the GPU";
    }
  } else {
    return reasons.no() << "element type " << onnx::getTypeName(element)
                        << " has no form on the GPU";
  }
  bool ok = true;
  for (Feature f : needed)
    if (!device.has(f) &&
        (stored || (f != Feature::Storage8 && f != Feature::Storage16))) {
      reasons.no() << "element type " << onnx::getTypeName(element)
                   << " needs the feature " << featureName(f)
                   << " that the GPU lacks";
      ok = false;
    }
  return success(ok);
}

/// What a shader has no way to report must not happen.
static LogicalResult checkNoFailure(tsr::DispatchOp dispatch, Operation *op,
                                    Reasons &reasons) {
  StringRef name = op->getName().getStringRef();
  Type element = cast<ShapedType>(op->getResult(0).getType()).getElementType();
  if ((name != "onnx.Div" && name != "onnx.Mod") || !isa<IntegerType>(element))
    return success();
  Value divisor = op->getOperand(1);
  if (auto arg = dyn_cast<BlockArgument>(divisor))
    divisor = dispatch.getInputs()[arg.getArgNumber()];
  auto divisors = onnx::getConstantInts(divisor);
  if (divisors && !llvm::is_contained(*divisors, 0))
    return success();
  return reasons.no() << "an integer division by a tensor that may hold zero";
}

static LogicalResult checkBody(tsr::DispatchOp op, const Device &device,
                               Reasons &reasons) {
  bool ok = true;
  Operation *root = op.getRootOp();
  Operation *yield = op.getBodyBlock()->getTerminator();
  for (Operation &inner : op.getBodyBlock()->without_terminator()) {
    if (&inner == root || onnx::getConstant(inner.getResult(0)) ||
        isa<tsr::UndefinedOp>(inner))
      continue;
    ok &= succeeded(cpu::matchElementwise(&inner, reasons)) &&
          succeeded(checkNoFailure(op, &inner, reasons));
    if (!llvm::is_contained(yield->getOperands(), inner.getResult(0)))
      ok &= succeeded(checkElement(
          cast<ShapedType>(inner.getResult(0).getType()).getElementType(),
          /*stored=*/false, device, reasons));
    if (root && inner.isBeforeInBlock(root)) {
      reasons.no() << "operator " << inner.getName().getStringRef()
                   << " ahead of the root";
      ok = false;
    }
  }
  return success(ok);
}

// --- operands
// ------------------------------------------------------------------------------

static std::unique_ptr<Buffer> makeBuffer(tsr::DispatchOp op, unsigned i,
                                          Type type, bool written) {
  auto t = std::make_unique<Buffer>();
  t->written = written;
  t->element = cast<RankedTensorType>(type).getElementType();
  ArrayRef<int64_t> dims = op.getDimsOf(i);
  t->dims.assign(dims.begin(), dims.end());
  t->strides.resize(dims.size());
  t->count = 1;
  for (unsigned axis :
       llvm::reverse(cpu::storageOrder(dims.size(), op.getLayoutOf(i)))) {
    t->strides[axis] = t->count;
    t->count *= dims[axis];
  }
  return t;
}

/// Whether a shader may read operand `i`; the compiler alone reads the double
/// parameters of a requantisation.
static bool isRead(tsr::DispatchOp op, unsigned i) {
  return llvm::any_of(op.getBodyBlock()->getArgument(i).getUses(),
                      [](OpOperand &use) {
                        return !isRequantise(use.getOwner()) ||
                               readsRequantiseOperand(use.getOperandNumber());
                      });
}

/// Describes operands and results; fails if one has no form on the device.
static LogicalResult bindOperands(tsr::DispatchOp op, Emitter &e) {
  bool ok = true;
  auto bind = [&](unsigned i, Type type, bool written) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    ArrayRef<int64_t> dims = op.getDimsOf(i);
    if (!tensor || llvm::any_of(dims, [](int64_t d) { return d < 0; })) {
      e.reasons.no() << "a tensor whose size only the run knows";
      ok = false;
      return;
    }
    if (written || isRead(op, i))
      ok &= succeeded(checkElement(tensor.getElementType(), /*stored=*/true,
                                   e.device, e.reasons));
    auto t = makeBuffer(op, i, type, written);
    uint64_t bytes =
        t->count * std::max(8u, onnx::getStorageBits(t->element)) / 8;
    ok &= succeeded(e.checkSize(bytes, "a tensor"));
    unsigned index = written ? i - op.getInputs().size() : i;
    t->binding = {
        written ? BindingKind::Output : BindingKind::Input, index, bytes, {}};
    (written ? e.out : e.in).push_back(std::move(t));
  };
  unsigned i = 0;
  for (Value v : op.getInputs())
    bind(i++, v.getType(), false);
  for (Value v : op.getOutputs())
    bind(i++, v.getType(), true);
  return success(ok);
}

// --- driver
// --------------------------------------------------------------------------------

/// Diagnostics of this thread become reasons.
class Capture {
public:
  Capture(MLIRContext *context, Reasons &reasons)
      : handler(context,
                [&reasons, id = std::this_thread::get_id()](Diagnostic &d) {
                  if (std::this_thread::get_id() != id)
                    return failure();
                  if (d.getSeverity() == DiagnosticSeverity::Error)
                    reasons.no() << d.str();
                  return success();
                }) {}

private:
  ScopedDiagnosticHandler handler;
};

static FailureOr<Kernel> compileAnew(tsr::DispatchOp op, const Device &device,
                                     Reasons &reasons) {
  MLIRContext *context = op.getContext();
  Capture capture(context, reasons);
  Kernel kernel;
  OwningOpRef<spirv::ModuleOp> module = makeModule(context);
  OpBuilder b(context);
  b.setInsertionPoint(mainOf(*module).getBody().front().getTerminator());
  Emitter e(b, module->getLoc(), device, kernel, reasons);
  bool ok = succeeded(bindOperands(op, e));
  ok &= succeeded(checkBody(op, device, reasons));
  EmitFn emit = emitElementwise;
  if (Operation *root = op.getRootOp()) {
    emit = findBuilder(root->getName().getStringRef());
    auto custom =
        root->getAttrOfType<StringAttr>("op_type"); // of another domain
    if (!emit)
      reasons.no() << "no GPU kernel for operator "
                   << (custom ? custom.getValue()
                              : root->getName().getStringRef());
  }
  if (!ok || !emit || !reasons.empty())
    return failure();
  if (llvm::all_of(e.out, [](auto &t) { return t->count == 0; }))
    return kernel; // nothing to compute
  if (failed(emit(op, e)) || !reasons.empty()) {
    if (reasons.empty())
      reasons.no() << "the GPU's kernel builder gave up";
    return failure();
  }
  if (kernel.bindings.size() > device.maxBindings) {
    reasons.no() << kernel.bindings.size() << " buffers exceed the GPU's "
                 << device.maxBindings << " a kernel";
    return failure();
  }
  for (unsigned axis = 0; axis < 3; ++axis)
    if (kernel.groups[axis] > device.maxGroups[axis] ||
        kernel.local[axis] > device.maxLocal[axis]) {
      reasons.no() << "a grid of " << kernel.groups[axis] << " x "
                   << kernel.local[axis]
                   << " invocations exceeds the GPU's limits";
      return failure();
    }
  if (failed(lowerAndSerialise(*module, device, kernel))) {
    if (reasons.empty())
      reasons.no() << "the kernel does not lower to SPIR-V for this GPU";
    return failure();
  }
  return kernel;
}

FailureOr<Kernel> compileDispatch(tsr::DispatchOp op, const Device &device,
                                  Reasons &reasons) {
  Fingerprint key = fingerprintOf(op, device);
  std::shared_ptr<const Answer> answer = findAnswer(key);
  if (!answer) {
    Reasons found;
    FailureOr<Kernel> kernel = compileAnew(op, device, found);
    Answer fresh;
    if (succeeded(kernel))
      fresh.kernel = std::move(*kernel);
    fresh.reasons.assign(found.all.begin(), found.all.end());
    answer = std::make_shared<const Answer>(std::move(fresh));
    keepAnswer(key, answer);
  }
  reasons.all.insert(reasons.all.end(), answer->reasons.begin(),
                     answer->reasons.end());
  if (!answer->kernel)
    return failure();
  return *answer->kernel;
}

} // namespace tessera::vulkan

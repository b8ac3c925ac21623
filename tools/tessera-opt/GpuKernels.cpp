#include "tools/tessera-opt/GpuKernels.h"
#include "compiler/Import/Import.h"
#include "compiler/Registration.h"
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "mlir/Pass/PassManager.h"
#include "passes/Canonicalise/Passes.h"
#include "passes/Codegen/Lowering.h"
#include "targets/Cpu/Compile.h"
#include "targets/Vulkan/Compile.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/SourceMgr.h"

#include <ctime>

using namespace mlir;
using namespace tessera;

namespace {

struct Arguments {
  std::string dir, model;
  vulkan::Device device;
  ImportOptions import;
};

/// Writes one model's kernels; values become buffers, views those of what they
/// show.
class Writer {
public:
  Writer(const Arguments &args, Lowering &l) : args(args), l(l) {}
  LogicalResult run();
  unsigned refused = 0;

private:
  FailureOr<int64_t> bufferOf(Value v);
  int64_t add(llvm::json::Object buffer, int64_t bytes);
  FailureOr<int64_t> addConstant(ArrayRef<char> bytes);
  FailureOr<int64_t> bytesOf(Value v);
  LogicalResult compile(tsr::DispatchOp op);
  LogicalResult writeFile(const llvm::Twine &name, const void *data,
                          size_t bytes);

  const Arguments &args;
  Lowering &l;
  llvm::json::Array buffers, kernels;
  llvm::DenseMap<Value, int64_t> ids;
};

} // namespace

static FailureOr<int64_t> refuse(Value v, const llvm::Twine &why) {
  emitError(v.getLoc()) << why;
  return failure();
}

LogicalResult Writer::writeFile(const llvm::Twine &name, const void *data,
                                size_t bytes) {
  std::error_code ec;
  llvm::raw_fd_ostream os((args.dir + "/" + name).str(), ec);
  os.write(static_cast<const char *>(data), bytes);
  os.close();
  if (ec || os.has_error()) {
    llvm::errs() << "cannot write to " << args.dir << "\n";
    return failure();
  }
  return success();
}

int64_t Writer::add(llvm::json::Object buffer, int64_t bytes) {
  buffer["bytes"] = bytes;
  buffers.push_back(std::move(buffer));
  return buffers.size() - 1;
}

FailureOr<int64_t> Writer::addConstant(ArrayRef<char> bytes) {
  std::string file = "b" + std::to_string(buffers.size()) + ".bin";
  if (failed(writeFile(file, bytes.data(), bytes.size())))
    return failure();
  return add(llvm::json::Object{{"kind", "constant"}, {"file", file}},
             bytes.size());
}

FailureOr<int64_t> Writer::bytesOf(Value v) {
  auto type = dyn_cast<RankedTensorType>(v.getType());
  int64_t elements = 1;
  if (type)
    for (tessera::onnx::Sym d : l.dims(v)) {
      auto c = d->constant();
      if (!c)
        return refuse(v, "a size is not static");
      elements *= *c;
    }
  auto bytes =
      type ? tessera::onnx::getStorageBytes(type.getElementType(), elements)
           : std::nullopt;
  if (!bytes)
    return refuse(v, "no tensor of bytes");
  return *bytes;
}

FailureOr<int64_t> Writer::bufferOf(Value v) {
  if (auto it = ids.find(v); it != ids.end())
    return it->second;
  Operation *def = v.getDefiningOp();
  FailureOr<int64_t> id = failure();
  SmallVector<char> storage;
  if (ElementsAttr constant = tessera::onnx::getConstant(v)) {
    auto bytes = tessera::onnx::getRawBytes(constant, storage);
    id = bytes ? addConstant(*bytes) : FailureOr<int64_t>(failure());
  } else if (def && l.isWritten(def)) {
    SmallVector<int64_t> ints;
    auto contents = l.shapes->contents(v);
    for (tessera::onnx::Sym s : *contents) {
      auto c = s->constant();
      if (!c)
        return refuse(v, "a shape that is not constant");
      ints.push_back(*c);
    }
    auto type = RankedTensorType::get(
        {static_cast<int64_t>(ints.size())},
        cast<RankedTensorType>(v.getType()).getElementType());
    id = addConstant(*tessera::onnx::getRawBytes(
        tessera::onnx::makeIntConstant(type, ints), storage));
  } else if (def && isView(def)) {
    id = bufferOf(def->getOperand(0));
  } else if (isa_and_nonnull<tsr::UndefinedOp>(def)) {
    id = add(llvm::json::Object{{"kind", "temporary"}}, 0);
  } else if (def) {
    return refuse(v,
                  "no buffer for a result of " + def->getName().getStringRef());
  } else {
    FailureOr<int64_t> bytes = bytesOf(v);
    if (failed(bytes))
      return failure();
    id = add(llvm::json::Object{{"kind", "input"},
                                {"index",
                                 static_cast<int64_t>(
                                     cast<BlockArgument>(v).getArgNumber())}},
             *bytes);
  }
  if (succeeded(id))
    ids[v] = *id;
  return id;
}

static double cpuMs() {
  return 1e3 * static_cast<double>(clock()) / CLOCKS_PER_SEC;
}

LogicalResult Writer::compile(tsr::DispatchOp op) {
  Operation *root = op.getRootOp();
  llvm::json::Object row{
      {"class", tsr::stringifyKernelClass(op.getKernelClass())},
      {"root", root ? root->getName().getStringRef() : "-"}};
  for (Value v : op.getInputs())
    if (failed(bufferOf(v)))
      return failure();
  for (Value v : op.getResults()) {
    FailureOr<int64_t> bytes = bytesOf(v);
    if (failed(bytes))
      return failure();
    ids[v] = add(llvm::json::Object{{"kind", "temporary"}}, *bytes);
  }
  vulkan::Reasons reasons;
  double start = cpuMs();
  FailureOr<vulkan::Kernel> kernel =
      vulkan::compileDispatch(op, args.device, reasons);
  row["ms"] = cpuMs() - start;
  if (failed(kernel)) {
    ++refused;
    row["refused"] = llvm::json::Array(reasons.all);
    kernels.push_back(std::move(row));
    return success();
  }
  if (kernel->words.empty())
    return success();
  std::string file = "k" + std::to_string(kernels.size()) + ".spv";
  if (failed(writeFile(file, kernel->words.data(), kernel->words.size() * 4)))
    return failure();
  llvm::json::Array bindings, features;
  for (const vulkan::Binding &b : kernel->bindings) {
    FailureOr<int64_t> id = failure();
    switch (b.kind) {
    case vulkan::BindingKind::Input:
      id = bufferOf(op.getInputs()[b.index]);
      break;
    case vulkan::BindingKind::Output:
      id = bufferOf(op.getResult(b.index));
      break;
    case vulkan::BindingKind::Packed:
      id = addConstant(
          {reinterpret_cast<const char *>(b.packed.data()), b.packed.size()});
    }
    if (failed(id))
      return failure();
    bindings.push_back(*id);
  }
  for (vulkan::Feature f : kernel->features)
    features.push_back(vulkan::featureName(f));
  row["file"] = file;
  row["entry"] = kernel->entry;
  row["bytes"] = static_cast<int64_t>(kernel->words.size() * 4);
  row["groups"] = llvm::json::Array(kernel->groups);
  row["local"] = llvm::json::Array(kernel->local);
  row["bindings"] = std::move(bindings);
  row["features"] = std::move(features);
  kernels.push_back(std::move(row));
  return success();
}

LogicalResult Writer::run() {
  for (Operation &op : l.func.getBody().front())
    if (auto dispatch = dyn_cast<tsr::DispatchOp>(op)) {
      if (failed(compile(dispatch)))
        return failure();
    } else if (isControlFlow(&op)) {
      return op.emitError("control flow does not run on a GPU");
    }
  llvm::json::Array outputs;
  for (Value v : l.func.getBody().front().getTerminator()->getOperands()) {
    FailureOr<int64_t> id = bufferOf(v);
    if (failed(id))
      return failure();
    outputs.push_back(*id);
  }
  std::string text;
  llvm::raw_string_ostream(text) << llvm::formatv(
      "{0:2}\n",
      llvm::json::Value(llvm::json::Object{{"buffers", std::move(buffers)},
                                           {"kernels", std::move(kernels)},
                                           {"outputs", std::move(outputs)}}));
  return writeFile("kernels.json", text.data(), text.size());
}

static bool parse(ArrayRef<StringRef> words, Arguments &args) {
  for (size_t i = 0; i < words.size(); ++i) {
    StringRef word = words[i];
    auto next = [&]() -> StringRef {
      return ++i < words.size() ? words[i] : StringRef();
    };
    if (word == "--features") {
      if (auto unknown = args.device.addFeatures(next())) {
        llvm::errs() << "unknown feature '" << *unknown << "'\n";
        return false;
      }
    } else if (word == "--dim") {
      std::string error;
      auto spec = parseDimSpec(next(), error);
      if (failed(spec)) {
        llvm::errs() << error << "\n";
        return false;
      }
      args.import.dims.push_back(*spec);
    } else if (word == "--workgroup") {
      if (next().getAsInteger(10, args.device.maxInvocations))
        return false;
    } else if (word == "--buffer") {
      if (next().getAsInteger(10, args.device.maxBufferRange))
        return false;
    } else if (args.dir.empty()) {
      args.dir = word.str();
    } else if (args.model.empty()) {
      args.model = word.str();
    } else {
      return false;
    }
  }
  return !args.model.empty();
}

int writeGpuKernels(ArrayRef<StringRef> words) {
  Arguments args;
  if (!parse(words, args)) {
    llvm::errs() << "usage: tessera-opt --gpu-kernels DIR [--features "
                    "WORD,...] [--dim NAME=VALUE]... [--workgroup N] "
                    "[--buffer BYTES] MODEL.onnx\n";
    return 2;
  }
  if (llvm::sys::fs::create_directories(args.dir))
    return 2;
  DialectRegistry registry;
  registerDialects(registry);
  cpu::registerCodegenDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.loadAllAvailableDialects();
  context.printOpOnDiagnostic(false);
  llvm::SourceMgr sources;
  SourceMgrDiagnosticHandler handler(sources, &context, llvm::errs());
  vulkan::loadDialects(&context);
  auto module = importOnnx(args.model, args.import, &context);
  if (failed(module))
    return 1;
  PassManager passes(&context, ModuleOp::getOperationName());
  tessera::onnx::buildCanonicalisePipeline(
      passes.nest<func::FuncOp>(), tessera::onnx::CanonicaliseOptions());
  if (failed(passes.run(**module)))
    return 1;
  func::FuncOp func;
  (*module)->walk([&](func::FuncOp f) { func = func ? func : f; });
  auto lowering = lowerToDispatches(func);
  if (failed(lowering))
    return 1;
  Writer writer(args, **lowering);
  return failed(writer.run()) || writer.refused ? 1 : 0;
}

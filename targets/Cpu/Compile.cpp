#include "targets/Cpu/Compile.h"
#include "lld/Common/Driver.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/BinaryFormat/ELF.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Triple.h"
#include "mlir/Conversion/Passes.h"
#include "mlir/IR/Threading.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/Passes.h"
#include "targets/Cpu/Kernels/Elementwise.h"

#include <mutex>

LLD_HAS_DRIVER(elf)

using namespace mlir;

namespace tessera::cpu {

const KernelBuilder *builderOf(tsr::DispatchOp op, Reasons &reasons) {
  if (Operation *root = op.getRootOp())
    return findKernel(root, reasons);
  return &elementwiseKernel();
}

void registerCodegenDialects(DialectRegistry &registry) {
  registry.insert<arith::ArithDialect, cf::ControlFlowDialect, func::FuncDialect, LLVM::LLVMDialect,
                  math::MathDialect, scf::SCFDialect, vector::VectorDialect>();
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
}

// --- kernel function ------------------------------------------------------------

/// The function around a builder's loops: operands, sizes, status.
class KernelFunction {
public:
  KernelFunction(const KernelSource &source, const KernelBuilder *builder, StringRef name, const Isa &isa,
                 ModuleOp module)
      : source(source), builder(builder), b(module.getContext()), loc(UnknownLoc::get(module.getContext())),
        e(b, loc, isa) {
    b.setInsertionPointToEnd(module.getBody());
    auto type = b.getFunctionType({e.ptrType(), e.ptrType(), e.i64()}, {e.i32()});
    func = func::FuncOp::create(b, loc, name, type);
    b.setInsertionPointToStart(func.addEntryBlock());
  }

  /// One function around the whole nest: mode switches are dear.
  void makeStreaming() {
    func->setAttr("arm_locally_streaming", b.getUnitAttr());
    func->setAttr("arm_new_za", b.getUnitAttr());
  }

  LogicalResult build() {
    tsr::DispatchOp op = source.op;
    setUp(op);
    LogicalResult result = source.extents ? builder->emitExtents(op, e) : builder->emit(op, e);
    func::ReturnOp::create(b, loc, ValueRange{e.rawLoad(e.i32(), e.status)});
    if (failed(result))
      op.emitError("no kernel of class ") << tsr::stringifyKernelClass(op.getKernelClass()) << " for variant "
                                          << e.isa.name;
    return result;
  }

private:
  void setUp(tsr::DispatchOp op) {
    Value buffers = func.getArgument(0), scalars = func.getArgument(1);
    e.workgroup = func.getArgument(2);
    e.status = LLVM::AllocaOp::create(b, loc, e.ptrType(), e.i32(), e.idx(1), 4);
    e.rawStore(e.intConst(e.i32(), TSR_KERNEL_OK), e.status);
    unsigned symbols = op.getSymbols();
    for (unsigned i = 0; i < symbols; ++i)
      e.symbols.push_back(e.rawLoad(e.i64(), e.gep(scalars, e.i64(), e.idx(i))));
    // Past the sizes: the workgroup count the dispatch was planned with.
    e.workgroups = e.rawLoad(e.i64(), e.gep(scalars, e.i64(), e.idx(symbols)));
    unsigned next = 0;
    auto pointer = [&] {
      return e.rawLoad(e.ptrType(), e.gep(buffers, e.i64(), e.idx(next++)), 8);
    };
    unsigned values = 0;
    for (Value in : op.getInputs())
      e.inputs.push_back(tensor(op, values++, in.getType(), pointer()));
    if (source.extents) {
      TensorRef t;
      t.ptr = pointer();
      t.element = e.i64();
      t.dims = {e.idx(1 << 20)};
      t.strides = {e.idx(1)};
      e.outputs.push_back(t);
    } else {
      for (Value out : op.getOutputs())
        e.outputs.push_back(tensor(op, values++, out.getType(), pointer()));
    }
    e.scratch = pointer();
  }

  TensorRef tensor(tsr::DispatchOp op, unsigned i, Type type, Value ptr) {
    TensorRef t;
    t.ptr = ptr;
    t.element = cast<RankedTensorType>(type).getElementType();
    t.layout = op.getLayoutOf(i);
    for (int64_t d : op.getDimsOf(i))
      t.dims.push_back(d >= 0 ? e.idx(d) : e.symbols[-(d + 1)]);
    t.strides.resize(t.dims.size());
    Value stride = e.idx(1);
    for (unsigned axis : llvm::reverse(storageOrder(t.rank(), t.layout))) {
      t.strides[axis] = stride;
      stride = e.mul(stride, t.dims[axis]);
    }
    return t;
  }

  const KernelSource &source;
  const KernelBuilder *builder;
  OpBuilder b;
  Location loc;
  KernelEmitter e;
  func::FuncOp func;
};

LogicalResult emitKernel(const KernelSource &source, StringRef name, const Isa &isa, ModuleOp module) {
  Reasons reasons;
  tsr::DispatchOp op = source.op;
  const KernelBuilder *builder = builderOf(op, reasons);
  if (!builder) {
    InFlightDiagnostic diag = op.emitError("cannot be compiled");
    for (const std::string &r : reasons.all)
      diag.attachNote() << r;
    return failure();
  }
  if (!isa.hasSme2 || source.extents || !builder->streams(op, isa))
    return KernelFunction(source, builder, name, isa, module).build();
  Isa streaming = isa;
  streaming.scalable = true;
  streaming.hasMaskedOps = true;
  KernelFunction function(source, builder, name, streaming, module);
  function.makeStreaming();
  return function.build();
}

// --- MLIR to machine code ---------------------------------------------------------

static LogicalResult lowerToLLVM(ModuleOp module, const Isa &isa) {
  PassManager pm(module.getContext());
#ifdef NDEBUG
  pm.enableVerifier(false);
#endif
  pm.addPass(createCSEPass());
  pm.addPass(createSCFToControlFlowPass());
  ConvertVectorToLLVMPassOptions vectorOptions;
  vectorOptions.armSVE = isa.scalable || isa.hasSme2;
  pm.addPass(createConvertVectorToLLVMPass(vectorOptions));
  pm.addPass(createConvertMathToLLVMPass());
  pm.addPass(createArithToLLVMConversionPass());
  pm.addPass(createConvertControlFlowToLLVMPass());
  pm.addPass(createConvertFuncToLLVMPass());
  pm.addPass(createReconcileUnrealizedCastsPass());
  return pm.run(module);
}

static void initialiseTargets() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
  });
}

static std::unique_ptr<llvm::TargetMachine> targetMachine(const Isa &isa, bool quick) {
  initialiseTargets();
  llvm::Triple triple(isa.triple);
  std::string error;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return nullptr;
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Standard; // only where the builder asked for it
  return std::unique_ptr<llvm::TargetMachine>(
      target->createTargetMachine(triple, isa.cpu, isa.attributes, options, llvm::Reloc::PIC_, std::nullopt,
                                  quick ? llvm::CodeGenOptLevel::Less : llvm::CodeGenOptLevel::Aggressive));
}

/// The lean pipeline: builders already tiled, vectorised and unrolled. The
/// library is declared empty, so that no loop turns into a call of memcpy.
static void optimise(llvm::Module &module, llvm::TargetMachine &tm, bool quick) {
  llvm::LoopAnalysisManager lam;
  llvm::FunctionAnalysisManager fam;
  llvm::CGSCCAnalysisManager cgam;
  llvm::ModuleAnalysisManager mam;
  llvm::PassBuilder pb(&tm);
  llvm::TargetLibraryInfoImpl library(tm.getTargetTriple());
  library.disableAllFunctions();
  fam.registerPass([&] { return llvm::TargetLibraryAnalysis(library); });
  pb.registerModuleAnalyses(mam);
  pb.registerCGSCCAnalyses(cgam);
  pb.registerFunctionAnalyses(fam);
  pb.registerLoopAnalyses(lam);
  pb.crossRegisterProxies(lam, fam, cgam, mam);
  llvm::ModulePassManager mpm;
  cantFail(pb.parsePassPipeline(
      mpm, quick ? "function(sroa,early-cse<memssa>)"
                 : "function(sroa,early-cse<memssa>,loop-mssa(loop-rotate,licm),instcombine<no-verify-fixpoint>,simplifycfg)"));
  mpm.run(module, mam);
}

/// Functions with a fresh ZA call this routine of the SME ABI when their caller
/// may have live ZA state. The loader's callers never have: an empty one serves.
static void addLazySaveStub(llvm::Module &module) {
  auto *type = llvm::FunctionType::get(llvm::Type::getVoidTy(module.getContext()), false);
  auto *stub = llvm::Function::Create(type, llvm::GlobalValue::WeakODRLinkage, "__arm_tpidr2_save", module);
  stub->setVisibility(llvm::GlobalValue::HiddenVisibility);
  llvm::ReturnInst::Create(module.getContext(), llvm::BasicBlock::Create(module.getContext(), "", stub));
}

static FailureOr<llvm::SmallVector<char, 0>> assemble(ModuleOp module, const Isa &isa, bool quick) {
  Location loc = module.getLoc();
  if (failed(lowerToLLVM(module, isa)))
    return failure();
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> code = translateModuleToLLVMIR(module, context, "kernels");
  if (!code)
    return failure();
  auto tm = targetMachine(isa, quick);
  if (!tm) {
    emitError(loc, "LLVM lacks the target of variant ") << isa.name;
    return failure();
  }
  code->setTargetTriple(tm->getTargetTriple());
  code->setDataLayout(tm->createDataLayout());
  for (llvm::Function &f : *code) {
    if (f.isDeclaration())
      continue;
    f.addFnAttr("target-cpu", isa.cpu);
    if (!isa.attributes.empty())
      f.addFnAttr("target-features", isa.attributes);
    f.addFnAttr("prefer-vector-width", std::to_string(isa.vectorBits));
    f.addFnAttr("no-builtins");
    f.addFnAttr(llvm::Attribute::NoUnwind);
    f.setUWTableKind(llvm::UWTableKind::None);
  }
  if (isa.hasSme2)
    addLazySaveStub(*code);
  optimise(*code, *tm, quick);
  llvm::SmallVector<char, 0> object;
  llvm::raw_svector_ostream os(object);
  llvm::legacy::PassManager pm;
  if (tm->addPassesToEmitFile(pm, os, nullptr, llvm::CodeGenFileType::ObjectFile)) {
    emitError(loc, "LLVM cannot write objects for ") << isa.name;
    return failure();
  }
  pm.run(*code);
  return object;
}

/// Links position-independent objects into one image without undefined symbols.
static FailureOr<std::vector<uint8_t>> link(ArrayRef<llvm::SmallVector<char, 0>> objects, Location loc) {
  llvm::SmallString<128> folder;
  if (llvm::sys::fs::createUniqueDirectory("tessera-link", folder)) {
    emitError(loc, "cannot create a temporary folder for linking");
    return failure();
  }
  struct Remove {
    StringRef path;
    ~Remove() { llvm::sys::fs::remove_directories(path); }
  } remove{folder};
  std::vector<std::string> words = {"ld.lld", "-shared", "-nostdlib", "--no-undefined", "--build-id=none",
                                    "--hash-style=sysv", "-Bsymbolic", "-z", "noexecstack", "-z", "norelro", "-z", "rodynamic",
                                    "-z", "max-page-size=65536", "--no-eh-frame-hdr", "-s", "--threads=1"};
  for (auto [i, object] : llvm::enumerate(objects)) {
    std::string path = (folder + "/" + llvm::Twine(i) + ".o").str();
    std::error_code ec;
    llvm::raw_fd_ostream os(path, ec);
    os.write(object.data(), object.size());
    os.close();
    if (ec || os.has_error()) {
      emitError(loc, "cannot write a temporary object: ") << (ec ? ec : os.error()).message();
      return failure();
    }
    words.push_back(path);
  }
  std::string out = (folder + "/image.so").str();
  words.insert(words.end(), {"-o", out});
  std::vector<const char *> args;
  for (auto &w : words)
    args.push_back(w.c_str());
  std::string output;
  llvm::raw_string_ostream log(output);
  static std::mutex lldIsNotReentrant;
  std::lock_guard<std::mutex> lock(lldIsNotReentrant);
  lld::Result result = lld::lldMain(args, log, log, {{lld::Gnu, &lld::elf::link}});
  if (result.retCode != 0) {
    emitError(loc, "linking kernels failed: ") << output;
    return failure();
  }
  auto buffer = llvm::MemoryBuffer::getFile(out, false, false);
  if (!buffer) {
    emitError(loc, "cannot read the linked image: ") << buffer.getError().message();
    return failure();
  }
  StringRef bytes = (*buffer)->getBuffer();
  return std::vector<uint8_t>(bytes.bytes_begin(), bytes.bytes_end());
}

static FailureOr<std::vector<uint64_t>> entryPoints(ArrayRef<uint8_t> image, unsigned count, Location loc) {
  StringRef bytes(reinterpret_cast<const char *>(image.data()), image.size());
  auto file = llvm::object::ELF64LEFile::create(bytes);
  std::vector<uint64_t> entries(count, 0);
  std::vector<bool> found(count, false);
  auto fail = [&](const llvm::Twine &why) {
    emitError(loc, "linked image: ") << why.str();
    return failure();
  };
  if (!file)
    return fail(toString(file.takeError()));
  auto sections = file->sections();
  if (!sections)
    return fail(toString(sections.takeError()));
  for (const auto &section : *sections) {
    if (section.sh_type != llvm::ELF::SHT_DYNSYM)
      continue;
    auto symbols = file->symbols(&section);
    auto strings = file->getStringTableForSymtab(section);
    if (!symbols || !strings)
      return fail("unreadable symbol table");
    for (const auto &symbol : *symbols) {
      auto name = symbol.getName(*strings);
      unsigned number;
      if (!name) {
        llvm::consumeError(name.takeError());
        continue;
      }
      if (name->consume_front("k") && !name->getAsInteger(10, number) && number < count) {
        entries[number] = symbol.st_value;
        found[number] = true;
      }
    }
  }
  for (unsigned i = 0; i < count; ++i)
    if (!found[i])
      return fail("kernel " + llvm::Twine(i) + " is missing");
  return entries;
}

/// A function so that there is something to link.
static void emitNothing(ModuleOp module) {
  OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
  auto func = func::FuncOp::create(b, module.getLoc(), "none", b.getFunctionType({}, {}));
  b.setInsertionPointToStart(func.addEntryBlock());
  func::ReturnOp::create(b, module.getLoc());
}

FailureOr<PlanVariant> compileVariant(ArrayRef<KernelSource> sources, const Isa &isa, MLIRContext *context,
                                      bool quick) {
  Location loc = UnknownLoc::get(context);
  // Chunks of fixed size: the image does not depend on how many threads work.
  constexpr unsigned chunk = 16;
  // A plan of views and copies alone has an image too, with nothing to call.
  unsigned chunks = std::max<size_t>(1, (sources.size() + chunk - 1) / chunk);
  std::vector<OwningOpRef<ModuleOp>> modules(chunks);
  for (unsigned c = 0; c < chunks; ++c) {
    modules[c] = ModuleOp::create(loc);
    if (sources.empty())
      emitNothing(*modules[c]);
    for (unsigned i = c * chunk; i < std::min<size_t>(sources.size(), (c + 1) * chunk); ++i)
      if (failed(emitKernel(sources[i], "k" + std::to_string(i), isa, *modules[c])))
        return failure();
  }
  // Running a pipeline loads the dialects its passes need, which changes the
  // context: once here, so that the threads only find them.
  OwningOpRef<ModuleOp> empty = ModuleOp::create(loc);
  if (failed(lowerToLLVM(*empty, isa)))
    return failure();
  std::vector<llvm::SmallVector<char, 0>> objects(chunks);
  if (failed(failableParallelForEachN(context, 0, chunks, [&](size_t c) -> LogicalResult {
        auto object = assemble(*modules[c], isa, quick);
        if (failed(object))
          return failure();
        objects[c] = std::move(*object);
        return success();
      })))
    return failure();
  FailureOr<std::vector<uint8_t>> image = link(objects, loc);
  if (failed(image))
    return failure();
  FailureOr<std::vector<uint64_t>> entries = entryPoints(*image, sources.size(), loc);
  if (failed(entries))
    return failure();
  PlanVariant variant;
  variant.name = isa.name.str();
  variant.machine = isa.arch == Arch::X86_64 ? llvm::ELF::EM_X86_64 : llvm::ELF::EM_AARCH64;
  for (StringRef f : isa.features)
    variant.features.push_back(f.str());
  variant.image = std::move(*image);
  variant.entries = std::move(*entries);
  return variant;
}

} // namespace tessera::cpu

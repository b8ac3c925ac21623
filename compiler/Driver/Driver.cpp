#include "compiler/Driver/Driver.h"
#include "compiler/Driver/Digest.h"
#include "compiler/Driver/PrecisionReport.h"
#include "compiler/Driver/QuantiseModel.h"
#include "compiler/Bundle/BundleWriter.h"
#include "compiler/Bundle/PendingFile.h"
#include "compiler/Import/FromMemory.h"
#include "compiler/Memory/PlanMemory.h"
#include "compiler/Plan/PlanBuilder.h"
#include "compiler/Registration.h"
#include "compiler/Report/PlacementReport.h"
#include "compiler/Report/PlanText.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "mlir/Pass/PassManager.h"
#include "passes/Canonicalise/Passes.h"
#include "passes/Codegen/Lowering.h"
#include "passes/FuseQuantised/FuseQuantised.h"
#include "passes/Partition/WrapSegment.h"
#include "targets/Placement.h"
#include "targets/Target.h"
#include "targets/Tosa/Segment.h"

using namespace mlir;

namespace tessera {

StringRef phaseName(Phase phase) {
  switch (phase) {
#define TESSERA_PHASE(id, word, text)                                                                                  \
  case Phase::id: return word;
#include "compiler/Phase.def"
#undef TESSERA_PHASE
  }
  llvm_unreachable("every phase has a name");
}

std::optional<Phase> parsePhase(StringRef word) {
#define TESSERA_PHASE(id, name, text)                                                                                  \
  if (word == name)                                                                                                    \
    return Phase::id;
#include "compiler/Phase.def"
#undef TESSERA_PHASE
  return std::nullopt;
}

std::unique_ptr<MLIRContext> makeContext() {
  DialectRegistry registry;
  registerDialects(registry);
  cpu::registerCodegenDialects(registry);
  auto context = std::make_unique<MLIRContext>(registry);
  context->loadAllAvailableDialects();
  context->printOpOnDiagnostic(false); // people read node names, not IR
  return context;
}

static void dump(const CompileOptions &options, Phase phase, Operation *op) {
  if (options.dumpAfter != phaseName(phase) || !options.dumpStream)
    return;
  OpPrintingFlags flags;
  flags.elideLargeElementsAttrs(16).elideLargeResourceString(64);
  op->print(*options.dumpStream, flags);
  *options.dumpStream << "\n";
}

static bool stopsAfter(const CompileOptions &options, Phase phase) {
  return options.compileTo && *options.compileTo == phase;
}

static void report(const CompileOptions &options, Phase phase) {
  if (options.progress)
    options.progress(phase);
}

static FailureOr<ImportOptions> importOptionsOf(const CompileOptions &options, MLIRContext *context) {
  ImportOptions import;
  for (const std::string &text : options.dims) {
    std::string error;
    FailureOr<DimSpec> spec = parseDimSpec(text, error);
    if (failed(spec))
      return emitError(UnknownLoc::get(context), "--dim ") << text << ": " << error;
    import.dims.push_back(*spec);
  }
  return import;
}

FailureOr<OwningOpRef<ModuleOp>> importQuantised(const CompileOptions &options, quantise::ModelProto model,
                                                 MLIRContext *context) {
  report(options, Phase::Import);
  auto import = importOptionsOf(options, context);
  if (failed(import))
    return failure();
  auto module = importFromMemory(std::move(model), options.model, *import, context);
  if (failed(module))
    return failure();
  dump(options, Phase::Import, **module);
  return module;
}

FailureOr<OwningOpRef<ModuleOp>> importModel(const CompileOptions &options, MLIRContext *context,
                                             std::vector<std::string> *inputs) {
  report(options, Phase::Import);
  auto import = importOptionsOf(options, context);
  if (failed(import))
    return failure();
  auto module = importOnnx(options.model, *import, context, inputs);
  if (failed(module))
    return failure();
  dump(options, Phase::Import, **module);
  return module;
}

/// Whether some unit computes in integers, which have signs there.
static bool wantsSigns(ArrayRef<TargetDescription> targets) {
  return llvm::any_of(targets, [](const TargetDescription &t) {
    return llvm::any_of(llvm::drop_begin(t.units), [](const Unit &u) { return llvm::any_of(u.precisions, isQuantised); });
  });
}

/// Products that no unit of the targets takes with a float result leave it the sums.
static void exposeSums(const CompileOptions &options, ModuleOp module, ArrayRef<TargetDescription> targets) {
  auto func = module.lookupSymbol<func::FuncOp>("main");
  auto isCpu = [](const TargetDescription &t) { return t.units.size() == 1; };
  if (!func || llvm::all_of(targets, isCpu) || !llvm::all_of(targets, hasOnlyIntegers))
    return;
  exposeIntegerSums(func, [&](Operation *op) {
    PlacementJudge judge(options.strict); // it remembers operators, of which not all stay
    for (const TargetDescription &t : targets)
      for (unsigned u = 1; u < t.units.size(); ++u)
        if (llvm::any_of(t.units[u].precisions, [&](Precision p) { return judge.faults(t, u, op, p).empty(); }))
          return true;
    return false;
  });
}

LogicalResult canonicalise(const CompileOptions &options, ModuleOp module, ArrayRef<TargetDescription> targets) {
  report(options, Phase::Canonicalise);
  PassManager pm(module.getContext());
  onnx::CanonicaliseOptions canonicalise;
  canonicalise.strict = options.strict;
  canonicalise.signedIntegers = !options.viaTosa.empty() || wantsSigns(targets);
  onnx::buildCanonicalisePipeline(pm.nest<func::FuncOp>(), canonicalise);
  if (failed(pm.run(module)))
    return failure();
  exposeSums(options, module, targets);
  dump(options, Phase::Canonicalise, module);
  return success();
}

/// The front end behind the import. `reported`: filled if there is to be a report
/// of the placement.
static FailureOr<OwningOpRef<ModuleOp>> finishFrontEnd(const CompileOptions &options,
                                                       FailureOr<OwningOpRef<ModuleOp>> module,
                                                       ArrayRef<TargetDescription> targets,
                                                       std::optional<PlacedModel> &reported) {
  if (failed(module) || stopsAfter(options, Phase::Import))
    return module;
  if (!options.reportFolder.empty())
    reported.emplace(options.model, **module);
  if (failed(canonicalise(options, **module, targets)))
    return failure();
  if (reported)
    reported->canonicalised(**module);
  return module;
}

FailureOr<OwningOpRef<ModuleOp>> frontEnd(const CompileOptions &options, MLIRContext *context,
                                          ArrayRef<TargetDescription> targets) {
  std::optional<PlacedModel> reported;
  return finishFrontEnd(options, importModel(options, context), targets, reported);
}

/// Makefile syntax, as Ninja reads it. Not yet under its name.
static llvm::Expected<std::unique_ptr<PendingFile>> writeDepfile(const CompileOptions &options, ArrayRef<std::string> inputs) {
  auto file = PendingFile::create(options.depfile);
  if (!file)
    return file.takeError();
  auto escape = [](StringRef path) {
    std::string out;
    for (char c : path) {
      if (c == ' ' || c == '#' || c == '\\')
        out += '\\';
      if (c == '$')
        out += '$';
      out += c;
    }
    return out;
  };
  llvm::raw_ostream &os = *(*file)->os;
  os << escape(options.output) << ":";
  for (const std::string &path : inputs)
    os << " \\\n  " << escape(path);
  os << "\n";
  if (llvm::Error error = (*file)->finish())
    return std::move(error);
  return file;
}

static std::string hashOfFile(StringRef path) {
  auto file = llvm::MemoryBuffer::getFile(path, /*IsText=*/false, /*RequiresNullTerminator=*/false);
  if (!file)
    return "";
  return blake3Of((*file)->getBuffer());
}

/// The phase `partition`; nothing for a target that has but a CPU.
/// `reported`: the model for the reports; null if none are wanted.
static LogicalResult partitionModel(const CompileOptions &options, const TargetDescription &target,
                                    const PlaceOptions &place, func::FuncOp func, const PlacedModel *reported,
                                    CompileResult &result) {
  if (target.units.size() < 2) {
    bool wanted = !options.reportFolder.empty() && !options.quantise; // else the folder has precision.json
    if (!options.pins.empty() || wanted)
      return func.emitError(options.pins.empty() ? "--report " + options.reportFolder : "--pin " + options.pins.front())
             << ": target " << target.name << " has no unit but '" << target.units.front().name
             << "', so nothing is placed";
    dump(options, Phase::Partition, func);
    return success();
  }
  report(options, Phase::Partition);
  auto placement = placeModel(func, target, place);
  if (failed(placement))
    return failure();
  result.placement = std::move(*placement);
  if (reported)
    if (llvm::Error error = writePlacement(*result.placement, *reported, options.reportFolder))
      return func.emitError(toString(std::move(error)));
  dump(options, Phase::Partition, func);
  return success();
}

/// What the plan holds in each of the target's memories, as far as it is known;
/// constants lie in the CPU's. Says which memory is too small, or nothing.
static std::string tooSmall(const Plan &plan, const TargetDescription &target) {
  std::vector<uint64_t> held(target.memories.size());
  for (const PlanConstant &c : plan.constants)
    held[target.units[0].memory] += c.size;
  for (const PlanPool &pool : plan.pools)
    if (auto unit = target.findUnit(plan.devices[pool.device].name)) // others are named by hand, for tests
      held[target.units[*unit].memory] += pool.staticBytes;
  for (auto [bytes, memory] : llvm::zip(held, target.memories))
    if (double(bytes) > memory.size.value * 1048576)
      return "the plan holds " + std::to_string(bytes) + " bytes in memory '" + memory.name + "' of target " +
             target.name + ", which has " + std::to_string(static_cast<uint64_t>(memory.size.value * 1048576)) +
             "; use a smaller --dim, or --pin nodes to another unit";
  return "";
}

/// An option about a phase that these options leave out; empty if there is none.
static std::string unreachable(const CompileOptions &options) {
  if (options.quantise && !options.segments.empty())
    return "--quantize: with --segment nothing is placed";
  bool placing = !options.pins.empty() || !options.reportFolder.empty();
  std::string placer = options.pins.empty() ? "--report" : "--pin";
  if (placing && !options.segments.empty())
    return placer + ": with --segment nothing is placed";
  if (placing && options.compileTo && *options.compileTo < Phase::Partition)
    return placer + ": --compile-to ends before the phase partition";
  if (!options.depfile.empty() && options.compileTo && *options.compileTo < Phase::Bundle)
    return "--depfile: --compile-to ends before there is a bundle";
  return "";
}

/// The model from its file, or as it was quantised; then `place` says what the
/// choice of precisions assumed.
static FailureOr<OwningOpRef<ModuleOp>> readModel(const CompileOptions &options, const TargetDescription &target,
                                                  PlaceOptions &place, MLIRContext *context, CompileResult &result) {
  if (!options.quantise)
    return importModel(options, context, &result.inputs);
  auto quantised = quantiseModel(options, target, place, context);
  if (failed(quantised))
    return failure();
  result.quantised = *quantised;
  result.inputs = (*quantised)->inputs;
  place.strict |= (*quantised)->withoutHalf;
  return importQuantised(options, (*quantised)->proto, context);
}

FailureOr<CompileResult> compile(const CompileOptions &options, MLIRContext *context) {
  Location loc = UnknownLoc::get(context);
  auto target = findTarget(options.target);
  if (!target)
    return emitError(loc, toString(target.takeError()));
  if (std::string fault = unreachable(options); !fault.empty())
    return emitError(loc, fault);
  for (const std::string &name : options.variants)
    if (!llvm::is_contained(target->cpuVariants, name))
      return emitError(loc, "--variant ") << name << ": target " << target->name << " has "
                                          << llvm::join(target->cpuVariants, ", ");
  SmallVector<const cpu::Isa *> isas;
  for (const std::string &name : target->cpuVariants)
    if (options.variants.empty() || llvm::is_contained(options.variants, name))
      isas.push_back(cpu::findIsa(name));

  CompileResult result;
  VendorTools vendors({"", options.vendorSeconds}, options.vendorFallback);
  PlaceOptions place{options.strict, options.pins, &vendors};
  place.measured = options.quantise && options.quantise->limit;
  std::optional<PlacedModel> reported;
  auto module = finishFrontEnd(options, readModel(options, *target, place, context, result), *target, reported);
  if (failed(module))
    return failure();
  result.inputs.insert(result.inputs.begin(), options.model);
  if (!target->file.empty())
    result.inputs.push_back(target->file);
  if (options.compileTo && *options.compileTo <= Phase::Canonicalise)
    return result;
  auto progress = [&](Phase p) {
    if (options.progress)
      options.progress(p);
  };
  auto func = (*module)->lookupSymbol<func::FuncOp>("main");
  assert(func && "the importer names the graph main");
  if (!options.viaTosa.empty()) {
    auto trip = tosa::parseRoundTrip(options.viaTosa);
    if (!trip)
      return emitError(loc, "--via-tosa: '") << options.viaTosa << "' is not PRECISION[,dump=DIR][,only=N][,minimum=N]";
    if (failed(tosa::roundTrip(func, *trip)))
      return failure();
  }

  if (failed(options.segments.empty() ? partitionModel(options, *target, place, func, reported ? &*reported : nullptr, result)
                                      : wrapNamedNodes(func, options.segments)))
    return failure();
  if (result.quantised && !options.reportFolder.empty())
    if (llvm::Error error =
            writePrecision(*result.quantised, result.placement, target->units[0].name, options.reportFolder))
      return emitError(loc, toString(std::move(error)));
  if (stopsAfter(options, Phase::Partition))
    return result;

  progress(Phase::Groups);
  auto lowering = lowerToDispatches(func);
  if (failed(lowering))
    return failure();
  dump(options, Phase::Groups, func);
  func.walk([&](tsr::DispatchOp) { ++result.dispatches; });
  if (stopsAfter(options, Phase::Groups))
    return result;

  progress(Phase::Plan);
  auto built = buildPlan(**lowering, isas.front()->arch, &*target);
  if (failed(built))
    return failure();
  Plan &plan = built->plan;
  plan.tool = "tessera " TESSERA_VERSION;
  plan.target = target->name;
  plan.modelHash = hashOfFile(options.model);
  for (const std::string &d : options.dims)
    plan.provenanceOptions.push_back("--dim " + d);
  if (options.strict) {
    plan.provenanceOptions.push_back("--fp-mode strict");
    for (PlanCommand &c : plan.commands)
      c.flushDenormals = false;
  }
  for (const std::string &s : options.segments)
    plan.provenanceOptions.push_back("--segment " + s);
  for (const std::string &pin : options.pins)
    plan.provenanceOptions.push_back("--pin " + pin);
  if (result.quantised)
    llvm::append_range(plan.provenanceOptions, result.quantised->provenance);
  if (options.vendorFallback)
    plan.provenanceOptions.push_back("--vendor-fault cpu");
  auto memory = planMemory(plan);
  if (!memory)
    return emitError(loc, toString(memory.takeError()));
  if (std::string fault = tooSmall(plan, *target); !fault.empty())
    return emitError(loc, fault);
  result.kernels = plan.kernels.size();
  result.arenaBytes = plan.pools[0].staticBytes;
  if (options.dumpAfter == phaseName(Phase::Plan) && options.dumpStream)
    printPlan(plan, *options.dumpStream);
  if (stopsAfter(options, Phase::Plan))
    return result;

  progress(Phase::Codegen);
  for (const cpu::Isa *isa : isas) {
    auto variant = cpu::compileVariant(built->sources, *isa, context, options.quick);
    if (failed(variant))
      return failure();
    result.codeBytes += variant->image.size();
    plan.variants.push_back(std::move(*variant));
  }
  if (stopsAfter(options, Phase::Codegen))
    return result;

  progress(Phase::Bundle);
  std::unique_ptr<PendingFile> depfile;
  if (!options.depfile.empty()) {
    auto written = writeDepfile(options, result.inputs);
    if (!written)
      return emitError(loc, "depfile: ") << toString(written.takeError());
    depfile = std::move(*written);
  }
  auto stats = writeBundle(plan, options.output, depfile.get());
  if (!stats)
    return emitError(loc, toString(stats.takeError()));
  result.bundleBytes = stats->fileBytes;
  result.constantBytes = stats->dataBytes;
  return result;
}

} // namespace tessera

// `tessera run`: a bundle is handed to tsr-run, which links no LLVM; a model is
// compiled first, for this machine's best variant, without seeing the inputs,
// unless the cache has it.
#include "targets/Target.h"
#include "tools/tessera/BundleCache.h"
#include "tools/tessera/Commands.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/TargetParser/Host.h"
#include <cstdio>
#include <fstream>
#include <sys/wait.h>
#include <unistd.h>

namespace tessera::tool {

static std::string tsrRun(const char *argv0) {
  std::string self = llvm::sys::fs::getMainExecutable(argv0, reinterpret_cast<void *>(&tsrRun));
  llvm::SmallString<256> path(llvm::sys::path::parent_path(self));
  llvm::sys::path::append(path, "tsr-run");
  return std::string(path);
}

/// Whether the file starts like a bundle; a model never does.
static bool isBundle(const std::string &path) {
  char magic[4] = {};
  std::ifstream(path, std::ios::binary).read(magic, 4);
  return std::string(magic, 4) == "TSR\x1a" || std::string(magic, 3) == "TSR" || llvm::StringRef(path).ends_with(".tsr");
}

std::string hostVariant() {
  auto features = llvm::sys::getHostCPUFeatures();
  auto all = [&](std::initializer_list<const char *> names) {
    return llvm::all_of(names, [&](const char *n) { return features.lookup(n); });
  };
  if (all({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx512vnni", "avx2", "fma"}))
    return "x86-64-v4";
  if (all({"avx2", "fma", "f16c", "bmi", "bmi2"}))
    return "x86-64-v3";
  return "x86-64-v2";
}

static int runProcess(const std::string &program, std::vector<std::string> words) {
  std::vector<char *> argv;
  words.insert(words.begin(), program);
  for (std::string &w : words)
    argv.push_back(w.data());
  argv.push_back(nullptr);
  pid_t child = fork();
  if (child == 0) {
    execv(program.c_str(), argv.data());
    fprintf(stderr, "error: cannot start %s: %s\n", program.c_str(), strerror(errno));
    _exit(exitInternal);
  }
  if (child < 0)
    return fail(std::string("cannot start a process: ") + strerror(errno), exitInternal);
  int state = 0;
  while (waitpid(child, &state, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(state)) {
    raise(WTERMSIG(state)); // the caller sees what happened to the run
    return exitInternal;
  }
  return WEXITSTATUS(state);
}

/// Compiles, unless the cache has the bundle, and runs it.
static int runModel(CompileOptions &options, const std::string &program, std::vector<std::string> words, bool cached) {
  auto run = [&](const std::string &bundle) {
    words.insert(words.begin(), bundle);
    return runProcess(program, words);
  };
  std::optional<BundleCache> cache = cached ? BundleCache::open(options) : std::nullopt;
  if (cache)
    if (auto bundle = cache->find())
      return run(*bundle);
  llvm::SmallString<128> folder;
  if (!cache && llvm::sys::fs::createUniqueDirectory("tessera-run", folder))
    return fail("cannot create a temporary folder", exitInternal);
  options.output = cache ? cache->pendingPath() : (folder + "/model.tsr").str();
  options.progress = progressOnTerminal();
  auto context = makeContext();
  printDiagnostics(*context);
  auto result = compile(options, context.get());
  endProgress();
  int status = mlir::failed(result) ? refused() : exitDone;
  if (mlir::succeeded(result)) {
    auto kept = cache ? cache->keep(options.output, result->inputs) : std::nullopt;
    status = run(kept.value_or(options.output));
  }
  llvm::sys::fs::remove(options.output); // gone already where the cache has it
  if (!cache)
    llvm::sys::fs::remove_directories(folder);
  return status;
}

void addRun(CLI::App &app, int &status, const char *argv0) {
  auto options = std::make_shared<CompileOptions>();
  auto words = std::make_shared<std::vector<std::string>>();
  auto pass = std::make_shared<std::vector<std::string>>();
  auto file = std::make_shared<std::string>();
  CLI::App *command = app.add_subcommand("run", "Run a bundle, or compile a model and run it");
  command->add_option("FILE", *file, "Bundle (.tsr) or ONNX model")->required();
  command->add_option("INPUT", *words, "Inputs in the model's order, FILE or NAME=FILE (.npy, or .pb TensorProto)");
  auto forward = [&](const char *name, const char *text) {
    command->add_option_function<std::string>(
        name, [pass, name](const std::string &v) { pass->insert(pass->end(), {name, v}); }, text);
  };
  forward("--inputs", "Folder with 0.npy, 1.npy, ... or input_0.pb, ...");
  forward("--output-dir", "Folder for output_0.npy, ...");
  forward("--output-format", "npy or pb");
  forward("--bench", "Time that many runs");
  forward("--threads", "Threads for workgroups");
  forward("--trace", "Write a trace of every dispatch (JSON)");
  forward("--variant", "Force an ISA variant");
  forward("--emulate", "npu: the processor plays an NPU that this machine lacks");
  forward("--gpu", "auto (default): a GPU does its part if one is there that can, else the processor; require: any\n"
                   "Vulkan device does it, software too, or the run is refused; off: the processor does it");
  forward("--gpu-memory", "shared (default): the device's memory, mapped; import: the host's, imported by the device");
  forward("--gpu-timeout", "Milliseconds after which a launch is lost (30000)");
  forward("--gpu-cache", "Keep the driver's compiled kernels in that file");
  command->add_flag_callback("--ns", [pass] { pass->push_back("--ns"); }, "One figure of nanoseconds a run per line");
  command->add_flag_callback("--poison", [pass] { pass->push_back("--poison"); }, "Fill all pools with NaNs before the run");
  command->add_option("--dim", options->dims, "As for compile (models only)");
  auto cached = std::make_shared<bool>(true);
  command->add_flag("!--no-cache", *cached, "Compile a model even if $XDG_CACHE_HOME/tessera has its bundle, and do not keep it");
  command->footer("Example:\n  tessera run model.tsr image.npy mask=mask.npy --output-dir out --output-format npy");
  command->callback([=, &status] {
    std::string program = tsrRun(argv0);
    std::vector<std::string> rest(*words);
    rest.insert(rest.end(), pass->begin(), pass->end());
    if (isBundle(*file)) {
      if (!options->dims.empty()) {
        status = fail("--dim: " + *file + " is a bundle, whose dimensions were decided when it was compiled", exitUsage);
        return;
      }
      rest.insert(rest.begin(), *file);
      status = runProcess(program, rest);
      return;
    }
    options->model = *file;
    options->variants = {hostVariant()};
    status = runModel(*options, program, rest, *cached);
  });
}

} // namespace tessera::tool

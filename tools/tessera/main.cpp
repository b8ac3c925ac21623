// tessera: audit, compile, run and inspect.
#include "tools/tessera/Commands.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/PrettyStackTrace.h"
#include <cstdio>
#include <exception>
#include <unistd.h>

using namespace mlir;

namespace tessera::tool {

static unsigned errors = 0;

int refused() {
  if (errors)
    return exitRefused;
  return fail("internal: the model was not compiled and no phase said why", exitInternal);
}

static void printOne(Diagnostic &d, const char *kind) {
  std::string text = d.str();
  fprintf(stderr, "%s: %s\n", kind, text.c_str());
}

void printDiagnostics(MLIRContext &context) {
  context.getDiagEngine().registerHandler([](Diagnostic &d) {
    endProgress();
    const char *kind = "error";
    switch (d.getSeverity()) {
    case DiagnosticSeverity::Error:
      kind = "error";
      ++errors;
      break;
    case DiagnosticSeverity::Warning: kind = "warning"; break;
    case DiagnosticSeverity::Note: kind = "note"; break;
    case DiagnosticSeverity::Remark: kind = "remark"; break;
    }
    printOne(d, kind);
    for (Diagnostic &note : d.getNotes())
      printOne(note, "note");
    return success();
  });
}

void addModelOptions(CLI::App &command, CompileOptions &options) {
  command.add_option("MODEL", options.model, "ONNX model (binary or text form)")->required();
  command.add_option("--target", options.target, "Built-in target name or a .yaml file (see `tessera targets list`)")
      ->capture_default_str();
  command.add_option("--dim", options.dims,
                     "Fix or bound a dynamic dimension: NAME=4, NAME=1..512, NAME=1..512:8; NAME is the\n"
                     "dimension's name in the model or INPUT.AXIS. Repeatable");
  command.add_option_function<std::string>(
             "--fp-mode", [&options](const std::string &mode) { options.strict = mode == "strict"; },
             "strict: only exact rewrites; fast: reassociation and approximation within the declared tolerance")
      ->check(CLI::IsMember({"strict", "fast"}))
      ->default_str("fast");
}

static bool progressShown = false;

std::function<void(Phase)> progressOnTerminal() {
  if (!isatty(2))
    return {};
  return [](Phase phase) {
    fprintf(stderr, "\r\033[K%s ...", phaseName(phase).str().c_str());
    fflush(stderr);
    progressShown = true;
  };
}

void endProgress() {
  if (progressShown)
    fprintf(stderr, "\r\033[K");
  progressShown = false;
}

int fail(const std::string &message, int status) {
  endProgress();
  fprintf(stderr, "error: %s\n", message.c_str());
  return status;
}

} // namespace tessera::tool

int main(int argc, char **argv) {
  using namespace tessera::tool;
  CLI::App app{"Ahead-of-time compiler and partitioner for ONNX models on edge chips.\n\n"
               "Example:\n"
               "  tessera compile model.onnx -o model.tsr --dim batch=1\n"
               "  tessera run model.tsr input.npy --output-dir out\n\n"
               "Exit codes: 0 done, 1 the model or its data is refused, 2 usage, 3 budget or baseline\n"
               "breached, 4 verification failed, 5 internal error."};
  app.set_version_flag("--version", "tessera " TESSERA_VERSION);
  app.require_subcommand(1);
  int status = exitDone;
  addAudit(app, status);
  addCompile(app, status);
  addRun(app, status, argv[0]);
  addInspect(app, status);
  addTargets(app, status);
  addPartition(app, status);
  addExplain(app, status);
  addQuantize(app, status);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success &e) {
    return app.exit(e);
  } catch (const CLI::ParseError &e) {
    app.exit(e);
    return exitUsage;
  } catch (const std::exception &e) {
    return fail(std::string("internal: ") + e.what(), exitInternal);
  }
  return status;
}

#include "compiler/Driver/PrecisionReport.h"
#include "compiler/Report/PlacementReport.h"
#include "tools/tessera/QuantiseOptions.h"
#include <cstdio>

namespace tessera::tool {

void addCompile(CLI::App &app, int &status) {
  auto options = std::make_shared<CompileOptions>();
  auto quiet = std::make_shared<bool>(false);
  auto words = std::make_shared<QuantiseWords>();
  auto to = std::make_shared<std::string>();
  CLI::App *command = app.add_subcommand("compile", "Compile a model into one checked bundle (.tsr)");
  addModelOptions(*command, *options);
  command->add_option("-o,--output", options->output, "Bundle to write (atomically)");
  command->add_option("--variant", options->variants, "Only these ISA variants of the target. Repeatable");
  command->add_option("--pin", options->pins, "Place a node's group: NODE=UNIT or NODE=UNIT:PRECISION, of the target; '*=UNIT' places\n"
                      "every group that the unit can take and no other pin names. Repeatable")
      ->allow_extra_args(false);
  command->add_option_function<std::string>(
             "--vendor-fault", [options](const std::string &word) { options->vendorFallback = word == "cpu"; },
             "error (default): a vendor's compiler that is missing, hangs or dies ends the\n"
             "compile; cpu: the processor runs what it would have got")
      ->check(CLI::IsMember({"error", "cpu"}));
  command->add_option("--vendor-timeout", options->vendorSeconds, "Seconds that a vendor's compiler has for one region (120)")
      ->check(CLI::Range(1, 86400));
  command->add_option("--report", options->reportFolder,
                      "Folder for plan.html (for a browser), plan.txt, plan.json, problem.json,\n"
                      "solution.json: what runs where and why, for a target with more than one unit;\n"
                      "with --quantize also precision.json and quantized.onnx, the model that is compiled");
  addQuantiseOptions(*command, *words);
  command->add_option("--depfile", options->depfile, "Write the files that were read, in Makefile syntax");
  command->add_option("--segment", options->segments, "UNIT=NODE,...: another device computes these nodes; for tests")
      ->group("");
  command->add_option("--dump-after", options->dumpAfter, "Print the IR after a phase to stdout");
  command->add_option("--compile-to", *to, "Stop after a phase");
  command->add_option("--via-tosa", options->viaTosa, "For tests: send what lowers through the TOSA file and back")
      ->group("");
  command->add_flag("-q,--quiet", *quiet, "No summary");
  std::string phases;
#define TESSERA_PHASE(id, word, text) phases += std::string("  ") + word + ": " + text + "\n";
#include "compiler/Phase.def"
#undef TESSERA_PHASE
  command->footer("Phases:\n" + phases +
                  "\nExample:\n  tessera compile mobilenet.onnx -o mobilenet.tsr --target host-x86-64 --dim batch=1\n"
                  "  tessera compile mobilenet.onnx -o mobilenet.tsr --target rk3588-sim --report plan \\\n"
                  "      --pin /features/0/Conv=cpu\n"
                  "  tessera compile mobilenet.onnx -o mobilenet.tsr --target rk3588-sim --quantize int8 \\\n"
                  "      --calib samples/ --accuracy-drop 1% --report plan");
  command->callback([=, &status] {
    if (!to->empty()) {
      options->compileTo = parsePhase(*to);
      if (!options->compileTo) {
        status = fail("--compile-to: no phase is called '" + *to + "'", exitUsage);
        return;
      }
    }
    if (!options->dumpAfter.empty() && !parsePhase(options->dumpAfter)) {
      status = fail("--dump-after: no phase is called '" + options->dumpAfter + "'", exitUsage);
      return;
    }
    bool writes = !options->compileTo || *options->compileTo == Phase::Bundle;
    if (writes && options->output.empty()) {
      status = fail("compile: -o OUT.tsr is missing", exitUsage);
      return;
    }
    words->quiet = *quiet;
    if (int wrong = readQuantiseOptions(*command, *words, *options)) {
      status = wrong;
      return;
    }
    options->dumpStream = &llvm::outs();
    options->progress = progressOnTerminal();
    auto context = makeContext();
    printDiagnostics(*context);
    auto result = compile(*options, context.get());
    endProgress();
    if (mlir::failed(result)) {
      status = options->quantise && options->quantise->breached ? int(exitBudget) : refused();
      return;
    }
    if (!*quiet && result->quantised)
      printPrecision(*result->quantised, llvm::errs());
    if (!*quiet && result->placement)
      printPlacement(*result->placement, llvm::errs());
    if (writes && !*quiet)
      fprintf(stderr, "%s: %.2f MB (constants %.2f MB, code %.0f KB), %u dispatches, %u kernels\n",
              options->output.c_str(), result->bundleBytes / 1e6, result->constantBytes / 1e6, result->codeBytes / 1e3,
              result->dispatches, result->kernels);
  });
}

} // namespace tessera::tool

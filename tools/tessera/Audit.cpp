#include "compiler/Report/Audit.h"
#include "tools/tessera/Commands.h"
#include "llvm/Support/FileSystem.h"

namespace tessera::tool {

void addAudit(CLI::App &app, int &status) {
  auto options = std::make_shared<CompileOptions>();
  auto format = std::make_shared<std::string>("text");
  CLI::App *command = app.add_subcommand("audit", "Say which operator can run where, and why not");
  auto targets = std::make_shared<std::vector<std::string>>();
  addModelOptions(*command, *options);
  command->remove_option(command->get_option("--target"));
  command
      ->add_option("--target", *targets,
                   "Built-in target name or a .yaml file (see `tessera targets "
                   "list`). Repeatable: several make a\n"
                   "matrix of operators against units")
      ->default_str(options->target);
  command->add_option("--format", *format, "text, json, or html: one page for a browser")
      ->check(CLI::IsMember({"text", "json", "html"}))
      ->capture_default_str();
  auto vendor = std::make_shared<std::string>("ask");
  command
      ->add_option("--vendor", *vendor,
                   "ask: the vendor's compiler of a unit is asked about every operator, as by a compile;\n"
                   "skip: it need not be installed, and the report says that it was not asked")
      ->check(CLI::IsMember({"ask", "skip"}))
      ->capture_default_str();
  CLI::Option *timeout = command
                             ->add_option("--vendor-timeout", options->vendorSeconds,
                                          "Seconds that a vendor's compiler has for one operator (120)")
                             ->check(CLI::Range(1, 86400));
  command->add_option("-o,--output", options->output, "Report file (default: stdout)");
  command->footer("A node runs as it is (yes), after a rewrite (yes-after), or not (no, "
                  "with every reason). Reasons\n"
                  "are ordered by the CPU's estimated time of the nodes they keep from a "
                  "unit.\n"
                  "Exit status 1 if an operator can run nowhere on some target, or if a vendor's compiler is\n"
                  "missing or breaks (--vendor skip does without it).\n\n"
                  "Example:\n  tessera audit model.onnx --target host-x86-64 --target "
                  "rk3588-sim --format html -o audit.html");
  command->callback([=, &status] {
    if (timeout->count() && *vendor == "skip") {
      status = fail("--vendor-timeout: with --vendor skip no vendor's compiler is asked", exitUsage);
      return;
    }
    options->progress = progressOnTerminal();
    auto context = makeContext();
    printDiagnostics(*context);
    auto report = audit(*options, *targets, *vendor == "ask", context.get());
    endProgress();
    if (mlir::failed(report)) {
      status = refused();
      return;
    }
    auto print = [&](llvm::raw_ostream &os) {
      if (*format == "json")
        printJson(*report, os);
      else if (*format == "html")
        printHtml(*report, os);
      else
        printText(*report, os);
    };
    if (options->output.empty()) {
      print(llvm::outs());
    } else if (llvm::Error error = llvm::writeToOutput(options->output, [&](llvm::raw_ostream &os) {
                 print(os);
                 return llvm::Error::success();
               })) {
      status = fail("cannot write " + options->output + ": " + llvm::toString(std::move(error)));
      return;
    }
    if (report->refused())
      status = exitRefused;
  });
}

} // namespace tessera::tool

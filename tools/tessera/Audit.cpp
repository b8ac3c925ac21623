#include "compiler/Report/Audit.h"
#include "llvm/Support/FileSystem.h"
#include "tools/tessera/Commands.h"

namespace tessera::tool {

void addAudit(CLI::App &app, int &status) {
  auto options = std::make_shared<CompileOptions>();
  auto format = std::make_shared<std::string>("text");
  CLI::App *command = app.add_subcommand("audit", "Say which operator can run where, and why not");
  addModelOptions(*command, *options);
  command->add_option("--format", *format, "text or json")->check(CLI::IsMember({"text", "json"}))->capture_default_str();
  command->add_option("-o,--output", options->output, "Report file (default: stdout)");
  command->footer("Exit status 1 if an operator can run nowhere.\n\n"
                  "Example:\n  tessera audit model.onnx --target host-x86-64 --format json -o audit.json");
  command->callback([=, &status] {
    options->progress = progressOnTerminal();
    auto context = makeContext();
    printDiagnostics(*context);
    auto report = audit(*options, context.get());
    endProgress();
    if (mlir::failed(report)) {
      status = refused();
      return;
    }
    auto print = [&](llvm::raw_ostream &os) { *format == "json" ? printJson(*report, os) : printText(*report, os); };
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

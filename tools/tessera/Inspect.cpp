#include "compiler/Report/Inspect.h"
#include "tools/tessera/Commands.h"

namespace tessera::tool {

void addInspect(CLI::App &app, int &status) {
  auto path = std::make_shared<std::string>();
  auto json = std::make_shared<std::string>("text");
  CLI::App *command = app.add_subcommand("inspect", "Show what a bundle holds");
  command->add_option("BUNDLE", *path, "Bundle (.tsr)")->required();
  command->add_option("--format", *json, "text or json")->check(CLI::IsMember({"text", "json"}))->capture_default_str();
  auto buffers = std::make_shared<bool>(false);
  command->add_flag("--buffers", *buffers, "List every buffer");
  command->footer("Example:\n  tessera inspect model.tsr --format json");
  command->callback([=, &status] {
    InspectOptions options;
    options.format = *json == "json" ? InspectFormat::Json : InspectFormat::Text;
    options.buffers = *buffers;
    auto report = inspectBundle(*path, options);
    if (!report) {
      status = fail(llvm::toString(report.takeError()));
      return;
    }
    llvm::outs() << *report;
  });
}

} // namespace tessera::tool

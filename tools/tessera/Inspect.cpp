#include "compiler/Report/Inspect.h"
#include "tools/tessera/Commands.h"

namespace tessera::tool {

void addInspect(CLI::App &app, int &status) {
  auto path = std::make_shared<std::string>();
  auto json = std::make_shared<std::string>("text");
  CLI::App *command = app.add_subcommand("inspect", "Show what a bundle holds");
  command->add_option("BUNDLE", *path, "Bundle (.tsr)")->required();
  command->add_option("--format", *json, "text or json")->check(CLI::IsMember({"text", "json"}))->capture_default_str();
  command->footer("Example:\n  tessera inspect model.tsr --format json");
  command->callback([=, &status] {
    if (llvm::Error error = inspectBundle(*path, *json == "json", llvm::outs()))
      status = fail(llvm::toString(std::move(error)));
  });
}

} // namespace tessera::tool

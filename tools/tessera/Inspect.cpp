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
  auto segment = std::make_shared<int>(-1);
  auto output = std::make_shared<std::string>();
  auto *extract = command->add_option("--extract-segment", *segment, "Write the bytes of this segment, checked, to -o")
                      ->check(CLI::NonNegativeNumber);
  auto *to = command->add_option("-o,--output", *output, "File for --extract-segment")->needs(extract);
  extract->needs(to);
  command->footer("Example:\n  tessera inspect model.tsr --format json\n"
                  "  tessera inspect model.tsr --extract-segment 3 -o npu.tosa");
  command->callback([=, &status] {
    if (*segment >= 0) {
      if (auto problem = extractSegment(*path, static_cast<uint32_t>(*segment), *output))
        status = fail(llvm::toString(std::move(problem)));
      return;
    }
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

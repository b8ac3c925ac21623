#include "targets/Target.h"
#include "tools/tessera/Commands.h"
#include <cstdio>

namespace tessera::tool {

void addTargets(CLI::App &app, int &status) {
  CLI::App *command = app.add_subcommand("targets", "List, show or check target descriptions");
  command->require_subcommand(1);
  command->footer("Example:\n  tessera targets show generic-arm64-sve2");
  command->add_subcommand("list", "Names of the built-in targets")->callback([] {
    for (const TargetDescription &t : builtinTargets())
      printf("%-20s %s\n", t.name.c_str(), t.summary.c_str());
  });
  auto name = std::make_shared<std::string>();
  auto load = [name, &status](bool print) {
    auto target = findTarget(*name);
    if (!target) {
      status = fail(toString(target.takeError()));
      return;
    }
    if (print)
      fputs(target->text.c_str(), stdout);
  };
  CLI::App *show = command->add_subcommand("show", "Print a description");
  show->add_option("TARGET", *name, "Name or .yaml file")->required();
  show->callback([load] { load(true); });
  CLI::App *check = command->add_subcommand("check", "Check a description");
  check->add_option("TARGET", *name, "Name or .yaml file")->required();
  check->callback([load] { load(false); });
}

} // namespace tessera::tool

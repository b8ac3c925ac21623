#include "targets/Target.h"
#include "tools/tessera/Commands.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <cstdio>

namespace tessera::tool {

/// Each fault of a description is an error of its own.
static int failEach(llvm::StringRef faults) {
  llvm::SmallVector<llvm::StringRef> lines;
  faults.split(lines, '\n');
  int status = exitRefused;
  for (llvm::StringRef line : lines)
    status = fail(line.str());
  return status;
}

static std::string summary(const Unit &unit) {
  return unit.name + " (" +
         llvm::join(llvm::map_range(unit.precisions, [](Precision p) { return precisionName(p).str(); }), ", ") + ")";
}

static void list() {
  for (const TargetDescription &t : builtinTargets())
    printf("%-20s %-36s %s\n", t.name.c_str(), llvm::join(llvm::map_range(t.units, summary), ", ").c_str(),
           t.summary.c_str());
}

static void confirm(const TargetDescription &t) {
  size_t rules = 0;
  for (const Unit &unit : t.units)
    rules += unit.ops.size();
  printf("%s: %zu units, %zu memories, %zu links, %zu rules\n", t.name.c_str(), t.units.size(), t.memories.size(),
         t.links.size(), rules);
}

void addTargets(CLI::App &app, int &status) {
  CLI::App *command = app.add_subcommand("targets", "List, show or check target descriptions");
  command->require_subcommand(1);
  command->footer("A description is YAML; every number in it has a unit and "
                  "says where it comes from.\n\n"
                  "Example:\n  tessera targets show rk3588-sim > mine.yaml\n  "
                  "tessera targets check mine.yaml");
  CLI::App *listed =
      command->add_subcommand("list", "The built-in targets: name, units with their precisions, summary");
  listed->callback([] { list(); });
  listed->footer("Example:\n  tessera targets list");
  auto name = std::make_shared<std::string>();
  auto load = [name, &status](auto print) {
    if (auto target = findTarget(*name))
      print(*target);
    else
      status = failEach(toString(target.takeError()));
  };
  CLI::App *show = command->add_subcommand("show", "Print a description as YAML");
  show->add_option("TARGET", *name, "Name or .yaml file")->required();
  show->footer("Example:\n  tessera targets show generic-arm64-sve2");
  show->callback([load] { load([](const TargetDescription &t) { fputs(t.text.c_str(), stdout); }); });
  CLI::App *check = command->add_subcommand("check", "Check a description and say what is in it");
  check->add_option("TARGET", *name, "Name or .yaml file")->required();
  check->footer("Each fault is one line, FILE:LINE:COLUMN: what. Exit status 1 "
                "if there is any.\n\n"
                "Example:\n  tessera targets check mine.yaml");
  check->callback([load] { load(confirm); });
}

} // namespace tessera::tool

#include "compiler/Report/PlacementReport.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "tools/tessera/Commands.h"

namespace tessera::tool {

static int explain(const CompileOptions &options, const std::string &node) {
  auto target = findTarget(options.target);
  if (!target)
    return fail(toString(target.takeError()));
  if (target->units.size() < 2)
    return fail("explain: target " + target->name + " has no unit but '" + target->units.front().name +
                "', so nothing is chosen");
  auto context = makeContext();
  printDiagnostics(*context);
  auto module = frontEnd(options, context.get(), *target);
  if (mlir::failed(module))
    return refused();
  auto func = (*module)->lookupSymbol<mlir::func::FuncOp>("main");
  VendorTools vendors({"", options.vendorSeconds}, options.vendorFallback);
  auto model = buildProblem(func, *target, {options.strict, options.pins, &vendors});
  if (mlir::failed(model))
    return refused();
  auto placement = choosePlacement(func, *target, *model, {options.strict, options.pins, &vendors});
  if (mlir::failed(placement))
    return refused();
  endProgress();
  if (llvm::Error error = explainNode(*model, *placement, node, llvm::outs()))
    return fail("explain: " + toString(std::move(error)));
  return exitDone;
}

void addExplain(CLI::App &app, int &status) {
  auto options = std::make_shared<CompileOptions>();
  auto node = std::make_shared<std::string>();
  CLI::App *command = app.add_subcommand("explain", "Say why a node runs where it does, and what else was possible");
  addModelOptions(*command, *options);
  command->add_option("--node", *node, "Name of the node")->required();
  command->add_option("--pin", options->pins, "As for compile: NODE=UNIT or '*=UNIT'. Repeatable")->allow_extra_args(false);
  command->footer("Costs are estimates by the target's cost model. The cost of another place is that of the\n"
                  "best whole plan with the node there.\n\n"
                  "Example:\n  tessera explain model.onnx --target rk3588-sim --node /layer1/conv1/Conv");
  command->callback([=, &status] {
    options->progress = progressOnTerminal();
    status = explain(*options, *node);
  });
}

} // namespace tessera::tool

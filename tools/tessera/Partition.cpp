#include "passes/Partition/Summary.h"
#include "passes/PartitionCheck/Check.h"
#include "tools/tessera/Commands.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"

namespace tessera::tool {

namespace {

struct PartitionArguments {
  std::string problem, solution, output;
  std::vector<std::string> pins;
  bool check = false, quiet = false;
  uint64_t work = partition::SolverOptions().work;
};

} // namespace

static int checkFiles(const PartitionArguments &arguments) {
  auto read = [](const std::string &path) { return llvm::MemoryBuffer::getFile(path); };
  auto problem = read(arguments.problem), solution = read(arguments.solution);
  if (!problem)
    return fail("cannot read " + arguments.problem + ": " + problem.getError().message());
  if (!solution)
    return fail("cannot read " + arguments.solution + ": " + solution.getError().message());
  partitioncheck::Verdict v = partitioncheck::check((*problem)->getBuffer(), (*solution)->getBuffer());
  switch (v.outcome) {
  case partitioncheck::Outcome::Unreadable: return fail(arguments.problem + ": " + v.reason);
  case partitioncheck::Outcome::Refused: return fail(arguments.solution + ": " + v.reason, exitVerify);
  case partitioncheck::Outcome::Accepted: break;
  }
  if (!arguments.quiet)
    llvm::outs() << "accepted: cost " << v.cost << ", " << v.segments << " segments, " << v.copies
                 << " copies, sensitivity " << v.sensitivity << "\n";
  return exitDone;
}

static int solveFile(const PartitionArguments &arguments) {
  auto problem = partition::readProblemFile(arguments.problem);
  if (!problem)
    return fail(toString(problem.takeError()));
  partition::Allowed allowed = partition::allowAll(*problem);
  for (const std::string &pin : arguments.pins)
    if (llvm::Error error = partition::pinOp(*problem, pin, allowed))
      return fail(toString(std::move(error)));
  partition::SolverOptions options;
  options.work = arguments.work;
  partition::SolverResult result = partition::solve(*problem, allowed, options);
  if (!result.solution)
    return fail(arguments.problem + (!result.proven    ? ": no legal placement was found; raise --work"
                                     : problem->budget ? ": no placement within the budget is legal"
                                                       : ": no placement is legal"));
  if (!arguments.output.empty()) {
    llvm::Error error = llvm::writeToOutput(arguments.output, [&](llvm::raw_ostream &os) {
      writeSolution(*result.solution, os);
      return llvm::Error::success();
    });
    if (error)
      return fail("cannot write " + arguments.output + ": " + toString(std::move(error)));
  }
  if (!arguments.quiet)
    printSummary(*problem, result, arguments.output == "-" ? llvm::errs() : llvm::outs());
  return exitDone;
}

void addPartition(CLI::App &app, int &status) {
  auto arguments = std::make_shared<PartitionArguments>();
  CLI::App *command = app.add_subcommand("partition", "Solve a placement problem, or check a solution of one");
  command->add_option("PROBLEM", arguments->problem, "Problem (JSON, tessera-partition-problem/1)")->required();
  auto *solution = command->add_option("SOLUTION", arguments->solution, "Solution to check (with --check)");
  auto *check = command->add_flag("--check", arguments->check,
                                  "Check SOLUTION from the definition alone; exit status 4 if it is refused");
  auto *output = command->add_option("-o,--output", arguments->output, "Solution to write (-: stdout)");
  auto *pins = command->add_option("--pin", arguments->pins,
                                   "Place an operator: NAME=DEVICE, or #INDEX=DEVICE. Repeatable")
                   ->allow_extra_args(false);
  auto *work = command->add_option("--work", arguments->work,
                                   "Limit of the search in steps (about 30 million a second); the answer\n"
                                   "depends on it, never on the machine's speed")
                   ->capture_default_str();
  command->add_flag("-q,--quiet", arguments->quiet, "No summary");
  check->needs(solution)->excludes(output)->excludes(pins)->excludes(work);
  solution->needs(check);
  command->footer("Devices, states, conversions, operators and their options are described in\n"
                  "passes/Partition/Rationale.md. The summary gives segments, copies, and the cost against\n"
                  "device 0 alone and two greedy placements.\n\n"
                  "Exit codes: 0 done, 1 the problem is refused or has no legal placement, 2 usage,\n"
                  "4 the solution is refused.\n\n"
                  "Example:\n"
                  "  tessera partition problem.json -o solution.json --pin conv1=npu\n"
                  "  tessera partition --check problem.json solution.json");
  command->callback([=, &status] { status = arguments->check ? checkFiles(*arguments) : solveFile(*arguments); });
}

} // namespace tessera::tool

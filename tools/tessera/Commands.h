// The subcommands of the tessera program; each registers itself on the parser
// and leaves its exit status in `status` when it was called.
#ifndef TESSERA_TOOLS_TESSERA_COMMANDS_H
#define TESSERA_TOOLS_TESSERA_COMMANDS_H

#include "compiler/Driver/Driver.h"
#include <CLI/CLI.hpp>

namespace tessera::tool {

/// Exit codes of every tool (design: the command line).
enum ExitCode { exitDone = 0, exitRefused = 1, exitUsage = 2, exitBudget = 3, exitVerify = 4, exitInternal = 5 };

void addCompile(CLI::App &app, int &status);
void addRun(CLI::App &app, int &status, const char *argv0);
void addAudit(CLI::App &app, int &status);
void addInspect(CLI::App &app, int &status);
void addTargets(CLI::App &app, int &status);
void addPartition(CLI::App &app, int &status);
void addExplain(CLI::App &app, int &status);
void addQuantize(CLI::App &app, int &status);

/// Prints diagnostics of `context` to stderr as "error: ...", "note: ...".
void printDiagnostics(mlir::MLIRContext &context);
/// Options that several commands share.
void addModelOptions(CLI::App &command, CompileOptions &options);
/// A progress line on a terminal, nothing in a pipe.
std::function<void(Phase)> progressOnTerminal();
void endProgress();
/// The best level of x86-64 this machine has, as a variant name.
std::string hostVariant();
int fail(const std::string &message, int status = exitRefused);
/// Exit status after a failed library call: refused if a diagnostic told why,
/// else our own fault.
int refused();

} // namespace tessera::tool
#endif

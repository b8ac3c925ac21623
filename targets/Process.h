// A child process with a socket to it, whose answers have deadlines: how the
// vendors' compilers are held.
#ifndef TESSERA_TARGETS_PROCESS_H
#define TESSERA_TARGETS_PROCESS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace tessera {

/// Runs in a process group of its own, which dies with this object.
class Process {
public:
  using Deadline = std::chrono::steady_clock::time_point;

  /// Starts a program found by `path`; its stderr goes nowhere.
  static llvm::Expected<std::unique_ptr<Process>>
  start(const std::string &path, const std::vector<std::string> &arguments);
  ~Process();
  Process(const Process &) = delete;

  /// Each fails with what happened: "no answer in time", "it ended with status
  /// 3", "it was killed by signal 11". After a failure the process is done for.
  /// Writes `request` as a line, then `bytes`; gives the line that answers.
  llvm::Expected<std::string> ask(const llvm::json::Value &request,
                                  llvm::ArrayRef<uint8_t> bytes,
                                  Deadline deadline);
  /// Up to a line feed, which is dropped; a line of more than 4 MiB fails.
  llvm::Expected<std::string> readLine(Deadline deadline);
  llvm::Expected<std::vector<uint8_t>> read(size_t size, Deadline deadline);

private:
  Process(int pid, int socket) : pid(pid), socket(socket) {}
  llvm::Error write(llvm::ArrayRef<uint8_t> bytes, Deadline deadline);
  llvm::Error wait(short events, Deadline deadline);
  llvm::Error fill(Deadline deadline); ///< some more bytes into `pending`
  llvm::Error ended();                 ///< why it has closed its end

  int pid, socket;
  std::vector<uint8_t> pending; ///< read and not yet asked for
};

} // namespace tessera
#endif

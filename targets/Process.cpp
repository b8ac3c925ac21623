#include "targets/Process.h"
#include "llvm/Support/FormatVariadic.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

namespace tessera {

constexpr size_t longestLine = 1 << 22; // an answer lists every operator

static llvm::Error failure(const std::string &text) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), text);
}

static llvm::Error systemFailure(const char *what) {
  return failure(std::string(what) + ": " + std::strerror(errno));
}

llvm::Expected<std::unique_ptr<Process>>
Process::start(const std::string &path,
               const std::vector<std::string> &arguments) {
  int ends[2]; // ours, and the child's stdin and stdout
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
    return systemFailure("no socket");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 0);
  posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  std::vector<char *> argv = {const_cast<char *>(path.c_str())};
  for (const std::string &argument : arguments)
    argv.push_back(const_cast<char *>(argument.c_str()));
  argv.push_back(nullptr);
  pid_t pid = 0;
  int status = posix_spawnp(&pid, path.c_str(), &actions, &attributes,
                            argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (status) {
    close(ends[0]);
    return failure("it cannot be started: " +
                   std::string(std::strerror(status)));
  }
  return std::unique_ptr<Process>(new Process(pid, ends[0]));
}

Process::~Process() {
  close(socket);
  kill(-pid, SIGKILL);
  waitpid(pid, nullptr, 0);
}

llvm::Error Process::wait(short events, Deadline deadline) {
  for (;;) {
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0)
      return failure("no answer in time");
    pollfd p{socket, events, 0};
    int ready = poll(&p, 1, int(std::min<int64_t>(left.count(), 1000)));
    if (ready > 0)
      return llvm::Error::success();
    if (ready < 0 && errno != EINTR)
      return systemFailure("poll");
  }
}

/// Its end is closed; mostly since it is dead, or about to be.
llvm::Error Process::ended() {
  for (int tries = 0; tries < 100; ++tries) {
    siginfo_t info{};
    // Not reaped here: the number stays ours until the destructor.
    if (waitid(P_PID, id_t(pid), &info, WEXITED | WNOWAIT | WNOHANG))
      return systemFailure("waitid");
    if (info.si_pid)
      return failure((info.si_code == CLD_EXITED ? "it ended with status "
                                                 : "it was killed by signal ") +
                     std::to_string(info.si_status));
    usleep(10000);
  }
  return failure("it closed its output");
}

llvm::Error Process::write(llvm::ArrayRef<uint8_t> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    if (llvm::Error error = wait(POLLOUT, deadline))
      return error;
    ssize_t n =
        send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n >= 0)
      bytes = bytes.drop_front(size_t(n));
    else if (errno == EPIPE || errno == ECONNRESET)
      return ended();
    else if (errno != EAGAIN && errno != EINTR)
      return systemFailure("write");
  }
  return llvm::Error::success();
}

llvm::Error Process::fill(Deadline deadline) {
  for (;;) {
    if (llvm::Error error = wait(POLLIN, deadline))
      return error;
    uint8_t chunk[1 << 16];
    ssize_t n = recv(socket, chunk, sizeof(chunk), MSG_DONTWAIT);
    if (n > 0) {
      pending.insert(pending.end(), chunk, chunk + n);
      return llvm::Error::success();
    }
    if (n == 0 || (n < 0 && errno == ECONNRESET))
      return ended();
    if (errno != EAGAIN && errno != EINTR)
      return systemFailure("read");
  }
}

llvm::Expected<std::string> Process::ask(const llvm::json::Value &request,
                                         llvm::ArrayRef<uint8_t> bytes,
                                         Deadline deadline) {
  std::string line = llvm::formatv("{0}\n", request).str();
  if (llvm::Error error =
          write({reinterpret_cast<const uint8_t *>(line.data()), line.size()},
                deadline))
    return error;
  if (llvm::Error error = write(bytes, deadline))
    return error;
  return readLine(deadline);
}

llvm::Expected<std::string> Process::readLine(Deadline deadline) {
  size_t seen = 0;
  for (;;) {
    auto end =
        std::find(pending.begin() + std::ptrdiff_t(seen), pending.end(), '\n');
    if (end != pending.end()) {
      std::string line(pending.begin(), end);
      pending.erase(pending.begin(), end + 1);
      return line;
    }
    seen = pending.size();
    if (seen > longestLine)
      return failure("its answer is a line of more than " +
                     std::to_string(longestLine) + " bytes");
    if (llvm::Error error = fill(deadline))
      return error;
  }
}

llvm::Expected<std::vector<uint8_t>> Process::read(size_t size,
                                                   Deadline deadline) {
  while (pending.size() < size)
    if (llvm::Error error = fill(deadline))
      return error;
  std::vector<uint8_t> bytes(pending.begin(),
                             pending.begin() + std::ptrdiff_t(size));
  pending.erase(pending.begin(), pending.begin() + std::ptrdiff_t(size));
  return bytes;
}

} // namespace tessera

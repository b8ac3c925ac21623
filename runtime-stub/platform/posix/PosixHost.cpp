#include "runtime-stub/platform/posix/PosixHost.h"

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <fcntl.h>
#include <mutex>
#include <sys/mman.h>
#include <sys/stat.h>
#include <thread>
#include <time.h>
#include <unistd.h>
#include <vector>

namespace tsr::posix {

uint64_t nowNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return uint64_t(now.tv_sec) * 1000000000u + uint64_t(now.tv_nsec);
}

uint32_t pageSize() { return uint32_t(sysconf(_SC_PAGESIZE)); }

bool Pages::resize(uint64_t wanted) {
  uint64_t page = pageSize();
  wanted = (wanted + page - 1) / page * page;
  if (wanted <= bytes)
    return true;
  // Aligned to 64 KiB, so that any code image fits; large ones to 2 MiB, for
  // huge pages.
  uint64_t align = wanted >= (4u << 20) ? 2u << 20 : 64u << 10;
  void *fresh = mmap(nullptr, wanted + align, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (fresh == MAP_FAILED)
    return false;
  uint64_t start = reinterpret_cast<uint64_t>(fresh);
  uint64_t aligned = (start + align - 1) / align * align;
  if (aligned > start)
    munmap(fresh, aligned - start);
  uint64_t tail = start + wanted + align - (aligned + wanted);
  if (tail)
    munmap(reinterpret_cast<void *>(aligned + wanted), tail);
  fresh = reinterpret_cast<void *>(aligned);
#ifdef MADV_HUGEPAGE
  if (wanted >= (4u << 20))
    madvise(fresh, wanted, MADV_HUGEPAGE);
#endif
  if (memory)
    std::memcpy(fresh, memory, bytes);
  reset();
  memory = fresh;
  bytes = wanted;
  return true;
}

void Pages::reset() {
  if (memory)
    munmap(memory, bytes);
  memory = nullptr;
  bytes = 0;
}

MappedFile::~MappedFile() {
  if (memory)
    munmap(memory, bytes);
}

std::string MappedFile::open(const std::string &path) {
  int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0)
    return std::strerror(errno);
  struct stat info;
  std::string problem;
  if (fstat(fd, &info) != 0) {
    problem = std::strerror(errno);
  } else if (!S_ISREG(info.st_mode)) {
    problem = "not a regular file";
  } else if (info.st_size == 0) {
    problem = "the file is empty";
  } else {
    void *at =
        mmap(nullptr, size_t(info.st_size), PROT_READ, MAP_PRIVATE, fd, 0);
    if (at == MAP_FAILED) {
      problem = std::strerror(errno);
    } else {
      memory = at;
      bytes = uint64_t(info.st_size);
    }
  }
  ::close(fd);
  return problem;
}

struct ThreadPool::State {
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::condition_variable wake, done;
  uint64_t generation = 0;
  bool stop = false;
  unsigned busy = 0;
  // The running job.
  void (*work)(void *, uint64_t) = nullptr;
  void *argument = nullptr;
  uint64_t count = 0;
  std::atomic<uint64_t> next{0};
  std::atomic<uint64_t> announced{0};

  void help() {
    for (uint64_t i;
         (i = next.fetch_add(1, std::memory_order_relaxed)) < count;)
      work(argument, i);
  }
  void serve() {
    uint64_t seen = 0;
    for (;;) {
      // The next dispatch usually follows within microseconds.
      for (int spin = 0;
           spin < 2000 && announced.load(std::memory_order_acquire) == seen;
           ++spin)
        std::atomic_signal_fence(std::memory_order_seq_cst);
      std::unique_lock<std::mutex> lock(mutex);
      wake.wait(lock, [&] { return stop || generation != seen; });
      if (stop)
        return;
      seen = generation;
      lock.unlock();
      help();
      lock.lock();
      if (--busy == 0)
        done.notify_one();
    }
  }
};

ThreadPool::ThreadPool(unsigned threads) : state(std::make_unique<State>()) {
  for (unsigned i = 1; i < threads; ++i)
    state->threads.emplace_back([s = state.get()] { s->serve(); });
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard<std::mutex> lock(state->mutex);
    state->stop = true;
  }
  state->wake.notify_all();
  for (std::thread &thread : state->threads)
    thread.join();
}

void ThreadPool::run(uint64_t count, void (*work)(void *, uint64_t),
                     void *argument) {
  State &s = *state;
  {
    std::lock_guard<std::mutex> lock(s.mutex);
    s.work = work;
    s.argument = argument;
    s.count = count;
    s.next.store(0, std::memory_order_relaxed);
    s.busy = unsigned(s.threads.size());
    s.announced.store(++s.generation, std::memory_order_release);
  }
  s.wake.notify_all();
  s.help();
  std::unique_lock<std::mutex> lock(s.mutex);
  s.done.wait(lock, [&] { return s.busy == 0; });
}

namespace {

int protectPages(void *, void *pages, uint64_t bytes,
                 tsr_protection_t protection) {
  int flags = protection == TSR_PROTECT_READ_EXECUTE ? PROT_READ | PROT_EXEC
                                                     : PROT_READ;
  return mprotect(pages, bytes, flags);
}

int submitRange(void *c, uint32_t device, void (*work)(void *),
                void *argument) {
  auto &context = *static_cast<HostContext *>(c);
  if (context.aroundRange)
    context.aroundRange(device, [&] {
      if (!context.queues)
        return work(argument);
      context.queues->submit(device, work, argument);
      context.queues->wait(device);
    });
  else
    context.queues->submit(device, work, argument);
  return 0;
}

} // namespace

tsr_host_t makeHost(const std::string &features, HostContext &context) {
  tsr_host_t host = {};
  host.version = TSR_RUNTIME_VERSION;
  host.page_size = pageSize();
  host.features = features.c_str();
  host.device_kinds = context.emulates ? "*" : context.deviceKinds.c_str();
  host.context = &context;
  host.protect = protectPages;
  host.now_ns = [](void *) { return nowNs(); };
  if (context.pool)
    host.parallel = [](void *c, uint64_t count, void (*work)(void *, uint64_t),
                       void *argument) {
      static_cast<HostContext *>(c)->pool->run(count, work, argument);
    };
  if (context.onTrace)
    host.trace = [](void *c, const tsr_trace_event_t *event) {
      static_cast<HostContext *>(c)->onTrace(*event);
    };
  if (context.drive)
    host.drive = [](void *c, tsr_instance_t *instance, uint32_t launch) {
      return static_cast<HostContext *>(c)->drive(instance, launch);
    };
  if (context.queues || context.aroundRange) {
    host.submit = submitRange;
    host.wait = [](void *c, uint32_t device) {
      if (auto *queues = static_cast<HostContext *>(c)->queues)
        queues->wait(device);
      return 0;
    };
  }
  return host;
}

} // namespace tsr::posix

#include "runtime-stub/platform/posix/PosixHost.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

namespace tsr::posix {

struct DeviceQueues::Queue {
  std::mutex mutex;
  std::condition_variable wake, idle;
  std::deque<std::pair<void (*)(void *), void *>> waiting;
  bool busy = false, stop = false;
  std::thread thread; // started by the first submission
  std::function<void()> begin;

  void serve() {
    if (begin)
      begin();
    std::unique_lock<std::mutex> lock(mutex);
    for (;;) {
      wake.wait(lock, [&] { return stop || !waiting.empty(); });
      if (waiting.empty())
        return; // what was submitted is done first
      auto [work, argument] = waiting.front();
      waiting.pop_front();
      busy = true;
      lock.unlock();
      work(argument);
      lock.lock();
      busy = false;
      if (waiting.empty())
        idle.notify_all();
    }
  }
};

DeviceQueues::DeviceQueues(std::function<void()> begin) {
  for (auto &queue : queues) {
    queue = std::make_unique<Queue>();
    queue->begin = begin;
  }
}

DeviceQueues::~DeviceQueues() {
  for (auto &queue : queues) {
    {
      std::lock_guard<std::mutex> lock(queue->mutex);
      queue->stop = true;
    }
    queue->wake.notify_all();
    if (queue->thread.joinable())
      queue->thread.join();
  }
}

void DeviceQueues::submit(uint32_t device, void (*work)(void *),
                          void *argument) {
  Queue &queue = *queues[device];
  {
    std::lock_guard<std::mutex> lock(queue.mutex);
    if (!queue.thread.joinable())
      queue.thread = std::thread([&queue] { queue.serve(); });
    queue.waiting.push_back({work, argument});
  }
  queue.wake.notify_one();
}

void DeviceQueues::wait(uint32_t device) {
  Queue &queue = *queues[device];
  std::unique_lock<std::mutex> lock(queue.mutex);
  queue.idle.wait(lock, [&] { return queue.waiting.empty() && !queue.busy; });
}

} // namespace tsr::posix

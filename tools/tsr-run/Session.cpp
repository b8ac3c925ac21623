#include "tools/tsr-run/Session.h"

#include <algorithm>
#include <cstring>
#include <tuple>

namespace runner {
namespace {

void check(tsr_status_t status, const tsr_error_t &error) {
  if (status == TSR_OK)
    return;
  switch (error.code) {
  case TSR_ERROR_NOT_BUNDLE:
  case TSR_ERROR_SIZE:
  case TSR_ERROR_HASH:
  case TSR_ERROR_STRUCTURE:
  case TSR_ERROR_CODE:
    throw VerificationFailed(error.text);
  }
  throw Refused(error.text);
}

void allocate(tsr::posix::Pages &pages, uint64_t bytes, const char *what) {
  if (bytes && !pages.resize(bytes))
    throw Refused(std::string("no memory for ") + what + ": " +
                  std::to_string(bytes) + " bytes needed");
}

} // namespace

Session::Session(const std::string &path, const Settings &chosen)
    : settings(chosen) {
  features = tsr::posix::detectFeatures();
  if (std::string problem = file.open(path); !problem.empty())
    throw Refused("cannot open bundle '" + path + "': " + problem);
  if (settings.threads > 1) {
    threads = std::make_unique<tsr::posix::ThreadPool>(settings.threads);
    context.pool = threads.get();
  }
  if (settings.trace)
    context.onTrace = [this](const tsr_trace_event_t &event) {
      std::lock_guard<std::mutex> lock(tracing);
      trace.push_back({event.kernel, event.kernel_class, event.command,
                       event.workgroups, event.begin_ns, event.end_ns,
                       event.bytes, event.device});
    };
  if (settings.deviceThreads) {
    queues = std::make_unique<tsr::posix::DeviceQueues>();
    context.queues = queues.get();
  }
  if (settings.poison)
    context.aroundRange = [this](uint32_t, const std::function<void()> &work) {
      runPoisoned(work);
    };
  context.emulates = settings.emulate;
  tsr_host_t host = tsr::posix::makeHost(features, context);
  tsr_error_t error = {};
  allocate(bundleState, tsr_bundle_state_bytes(), "the bundle state");
  check(tsr_open(file.data(), file.size(), &host,
                 settings.variant.empty() ? nullptr : settings.variant.c_str(),
                 settings.checkOnly, bundleState.data(), &handle, &error),
        error);
  if (settings.checkOnly)
    return;
  tsr_bundle_needs(handle, &needs);
  allocate(code, needs.code_bytes, "code");
  check(tsr_load_code(handle, code.data(), code.size(), &error), error);
  allocate(instanceState, needs.instance_bytes, "the instance");
  check(tsr_instance_create(handle, nullptr, instanceState.data(),
                            instanceState.size(), &instance, &error),
        error);
}

tsr_tensor_info_t Session::inputInfo(uint32_t index) const {
  tsr_tensor_info_t info = {};
  tsr_input_info(handle, index, &info);
  return info;
}

tsr_tensor_info_t Session::outputInfo(uint32_t index) const {
  tsr_tensor_info_t info = {};
  tsr_output_info(handle, index, &info);
  return info;
}

std::vector<int64_t> Session::inputDims(uint32_t index) const {
  std::vector<int64_t> dims(inputInfo(index).rank);
  for (uint32_t axis = 0; axis < dims.size(); ++axis) {
    tsr_dim_t dim = {};
    tsr_input_dim(handle, index, axis, &dim);
    dims[axis] = dim.value;
  }
  return dims;
}

std::string Session::variantName() const {
  tsr_variant_info_t info = {};
  for (uint32_t i = 0; i < tsr_variant_count(handle); ++i)
    if (tsr_variant_query(handle, i, &info) == TSR_OK && info.chosen)
      return info.name;
  return "none";
}

std::vector<std::pair<std::string, uint64_t>> Session::memoryBytes() const {
  std::vector<std::pair<std::string, uint64_t>> rows = {
      {"instance", needs.instance_bytes}, {"code", needs.code_bytes}};
  for (uint32_t pool = 0; pool < needs.pool_count; ++pool)
    rows.push_back({needs.pools[pool].name, tsr_pool_bytes(instance, pool)});
  return rows;
}

void Session::checkInput(uint32_t index, const Tensor &tensor) const {
  tsr_tensor_info_t info = inputInfo(index);
  bool sameWidth = bitsOf(tensor.elementType) == bitsOf(info.element_type);
  if (tensor.elementType != info.element_type && !(tensor.opaque && sameWidth))
    throw Refused("input '" + std::string(info.name) + "': type " +
                  typeName(tensor.elementType) + ", needed: " +
                  typeName(info.element_type) + "; convert the data");
}

void Session::prepare(const std::vector<std::optional<Tensor>> &inputs) {
  static const int64_t kScalar = 0; // a non-null shape of rank 0
  std::vector<tsr_shape_t> shapes(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i])
      continue;
    checkInput(uint32_t(i), *inputs[i]);
    shapes[i].rank = uint32_t(inputs[i]->dims.size());
    shapes[i].dims =
        inputs[i]->dims.empty() ? &kScalar : inputs[i]->dims.data();
  }
  tsr_error_t error = {};
  static const tsr_shape_t kNoInputs = {};
  check(tsr_prepare(instance, shapes.empty() ? &kNoInputs : shapes.data(),
                    uint32_t(shapes.size()), &error),
        error);
  for (uint32_t pool = 0; pool < needs.pool_count; ++pool) {
    allocate(pools[pool], tsr_pool_bytes(instance, pool),
             needs.pools[pool].name);
    check(tsr_set_pool(instance, pool, pools[pool].data(), pools[pool].size(),
                       &error),
          error);
  }
}

void Session::poison(uint32_t pool, uint64_t from) {
  if (settings.poison && pools[pool].size() > from)
    std::memset(static_cast<char *>(pools[pool].data()) + from, 0xff,
                pools[pool].size() - from);
}

/// A device has only its own memory: what lies in the processor's is gone while
/// it works.
void Session::runPoisoned(const std::function<void()> &work) {
  std::vector<std::vector<char>> kept(needs.pool_count);
  for (uint32_t pool = 0; pool < needs.pool_count; ++pool) {
    if (needs.pools[pool].device != 0)
      continue;
    auto *bytes = static_cast<const char *>(pools[pool].data());
    kept[pool].assign(bytes, bytes + pools[pool].size());
    poison(pool, 0);
  }
  work();
  for (uint32_t pool = 0; pool < needs.pool_count; ++pool)
    if (!kept[pool].empty())
      std::memcpy(pools[pool].data(), kept[pool].data(), kept[pool].size());
}

void Session::grow() {
  uint32_t pool = 0;
  uint64_t bytes = 0;
  tsr_memory_request(instance, &pool, &bytes);
  uint64_t before = pools[pool].size();
  // Half as much again, so that a loop that appends suspends rarely.
  if (!pools[pool].resize(bytes + bytes / 2))
    allocate(pools[pool], bytes, "data whose size the run decides");
  poison(pool, before);
  tsr_error_t error = {};
  check(tsr_set_pool(instance, pool, pools[pool].data(), pools[pool].size(),
                     &error),
        error);
}

uint64_t Session::run(const std::vector<std::optional<Tensor>> &inputs) {
  tsr_error_t error = {};
  for (uint32_t pool = 0; pool < needs.pool_count; ++pool)
    poison(pool, 0);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i])
      continue;
    tsr_tensor_t tensor = {};
    check(tsr_input(instance, uint32_t(i), &tensor, &error), error);
    if (tensor.bytes)
      std::memcpy(tensor.data, inputs[i]->data.data(), tensor.bytes);
  }
  trace.clear();
  uint64_t begin = tsr::posix::nowNs();
  tsr_status_t status;
  while ((status = tsr_run(instance, &error)) == TSR_NEED_MEMORY)
    grow();
  uint64_t end = tsr::posix::nowNs();
  check(status, error);
  std::sort(trace.begin(), trace.end(), [](auto &a, auto &b) {
    return std::tie(a.beginNs, a.command) < std::tie(b.beginNs, b.command);
  });
  return end - begin;
}

tsr_tensor_t Session::output(uint32_t index) {
  tsr_tensor_t tensor = {};
  tsr_error_t error = {};
  check(tsr_output(instance, index, &tensor, &error), error);
  return tensor;
}

} // namespace runner

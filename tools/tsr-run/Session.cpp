#include "tools/tsr-run/Session.h"

#include "runtime-stub/format/Vulkan.h"

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
    if (settings.emulate && settings.threads <= 1)
      cores = Cores::divide();
    queues = std::make_unique<tsr::posix::DeviceQueues>([this] {
      if (cores)
        cores->useOthers();
    });
    context.queues = queues.get();
  }
  if (settings.poison)
    context.aroundRange = [this](uint32_t, const std::function<void()> &work) {
      runPoisoned(work);
    };
  context.emulates = settings.emulate;
  // Driven, or played by the processor: the bundle has its commands for both.
  context.deviceKinds = tessera::format::vulkan::kDeviceKind;
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
  attachGpu(host);
  check(tsr_instance_create(handle, &host, instanceState.data(),
                            instanceState.size(), &instance, &error),
        error);
  if (cores) // after the driver has made its threads
    cores->holdOwn();
}

void Session::attachGpu(tsr_host_t &host) {
  std::string why;
  gpu = Gpu::open(handle, settings.gpu, why);
  if (!gpu && !why.empty()) {
    dropGpu(why);
    return;
  }
  if (!gpu)
    return;
  context.drive = [this](tsr_instance_t *running, uint32_t launch) {
    if (!gpu)
      return int(TSR_DRIVEN_NOT);
    int how = gpu->drive(running, launch);
    tsr_launch_t what;
    if (how == TSR_DRIVEN_NOT && !undriven &&
        settings.gpu.use == GpuSettings::Use::Required &&
        tsr_launch_query(handle, launch, &what) == TSR_OK)
      undriven = std::strcmp(tsr_device_kind(handle, what.device),
                             tessera::format::vulkan::kDeviceKind) == 0;
    return how;
  };
  host = tsr::posix::makeHost(features, context);
}

/// From now on the processor does what the Vulkan device was to do.
void Session::dropGpu(const std::string &why) {
  if (settings.gpu.use == GpuSettings::Use::Required)
    throw Refused("the bundle's Vulkan device: " + why);
  notes.push_back("the processor does the part of the Vulkan device: " + why);
  closeGpu();
}

/// A lost device may still write to the pages that it imported.
void Session::closeGpu() {
  if (gpu && !gpu->loss().empty() && settings.gpu.importMemory)
    for (uint32_t pool = 0; pool < needs.pool_count; ++pool)
      if (isOnGpu(pool))
        pages[pool].abandon();
  gpu.reset();
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
  providePools();
  if (!gpu)
    return;
  if (std::string why = gpu->prepare(instance); !why.empty()) {
    dropGpu(why);
    providePools();
  }
}

bool Session::isOnGpu(uint32_t pool) const {
  return gpu && std::strcmp(tsr_device_kind(handle, needs.pools[pool].device),
                            tessera::format::vulkan::kDeviceKind) == 0;
}

/// Gives each pool memory: the host's, or what the Vulkan device sees too.
void Session::providePools() {
  for (uint32_t pool = 0; pool < needs.pool_count; ++pool) {
    uint64_t bytes = tsr_pool_bytes(instance, pool);
    bool import = settings.gpu.importMemory;
    if (isOnGpu(pool) && !import) {
      pools[pool] = {gpu->poolMemory(pool, bytes), bytes};
      if (!pools[pool].memory) {
        dropGpu("no memory for " + std::to_string(bytes) + " bytes of '" +
                needs.pools[pool].name + "'");
        return providePools();
      }
    } else {
      allocate(pages[pool], std::max<uint64_t>(bytes, isOnGpu(pool)),
               needs.pools[pool].name);
      pools[pool] = {pages[pool].data(), pages[pool].size()};
    }
    if (isOnGpu(pool) && import)
      if (std::string why = gpu->importPool(pool, pools[pool].memory, pools[pool].bytes);
          !why.empty()) {
        dropGpu(why);
        return providePools();
      }
    tsr_error_t error = {};
    check(tsr_set_pool(instance, pool, pools[pool].memory, pools[pool].bytes,
                       &error),
          error);
  }
}

void Session::poison(uint32_t pool, uint64_t from) {
  if (settings.poison && pools[pool].bytes > from)
    std::memset(static_cast<char *>(pools[pool].memory) + from, 0xff,
                pools[pool].bytes - from);
}

/// A device has only its own memory: what lies in the processor's is gone while
/// it works.
void Session::runPoisoned(const std::function<void()> &work) {
  std::vector<std::vector<char>> kept(needs.pool_count);
  for (uint32_t pool = 0; pool < needs.pool_count; ++pool) {
    if (needs.pools[pool].device != 0)
      continue;
    auto *bytes = static_cast<const char *>(pools[pool].memory);
    kept[pool].assign(bytes, bytes + pools[pool].bytes);
    poison(pool, 0);
  }
  work();
  for (uint32_t pool = 0; pool < needs.pool_count; ++pool)
    if (!kept[pool].empty())
      std::memcpy(pools[pool].memory, kept[pool].data(), kept[pool].size());
}

void Session::grow() {
  uint32_t pool = 0;
  uint64_t bytes = 0;
  tsr_memory_request(instance, &pool, &bytes);
  uint64_t before = pages[pool].size();
  // Half as much again, so that a loop that appends suspends rarely.
  if (!pages[pool].resize(bytes + bytes / 2))
    allocate(pages[pool], bytes, "data whose size the run decides");
  pools[pool] = {pages[pool].data(), pages[pool].size()};
  poison(pool, before);
  tsr_error_t error = {};
  check(tsr_set_pool(instance, pool, pools[pool].memory, pools[pool].bytes,
                     &error),
        error);
}

void Session::fillInputs(const std::vector<std::optional<Tensor>> &inputs) {
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
}

tsr_status_t Session::runOnce(tsr_error_t &error) {
  trace.clear();
  tsr_status_t status;
  while ((status = tsr_run(instance, &error)) == TSR_NEED_MEMORY)
    grow();
  return status;
}

uint64_t Session::run(const std::vector<std::optional<Tensor>> &inputs) {
  tsr_error_t error = {};
  fillInputs(inputs);
  uint64_t begin = tsr::posix::nowNs();
  tsr_status_t status = runOnce(error);
  if (status == TSR_REFUSED && error.code == TSR_ERROR_DEVICE && gpu) {
    // States are what earlier runs left; without any, this run can be repeated.
    if (needs.has_states)
      check(status, error);
    dropGpu(gpu->loss());
    prepare(inputs);
    fillInputs(inputs);
    status = runOnce(error);
  }
  uint64_t end = tsr::posix::nowNs();
  check(status, error);
  if (undriven)
    throw Refused("the bundle's Vulkan device: a launch was left to the "
                  "processor, since the device does not see its buffers");
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

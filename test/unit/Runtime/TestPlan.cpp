#include "test/unit/Runtime/TestPlan.h"

#include "runtime-stub/format/Header.h"

#include <blake2.h>
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <unistd.h>

#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/MemoryBuffer.h"

namespace tessera::test {

PlanMaker::PlanMaker() {
  plan.pools.push_back({"arena", 0, 0, 64, false});
  plan.pools.push_back({"dynamic", 0, 0, 64, true});
  plan.tool = "unit test";
  PlanVariant variant;
  variant.name = "baseline";
#if defined(__x86_64__)
  variant.machine = 62;
#else
  variant.machine = 183;
#endif
  variant.image = kernelImage();
  plan.variants.push_back(std::move(variant));
}

uint32_t PlanMaker::constant(const void *data, uint64_t size) {
  auto copy = std::make_shared<std::vector<uint8_t>>(
      static_cast<const uint8_t *>(data),
      static_cast<const uint8_t *>(data) + size);
  uint32_t id = buffer(BufferKind::Constant, size);
  plan.constantOf[id] = plan.constants.size();
  plan.constants.push_back({copy->data(), size, copy});
  return id;
}

uint32_t PlanMaker::buffer(BufferKind kind, uint64_t size,
                           uint32_t sizeRegister) {
  PlanBuffer buffer;
  buffer.kind = kind;
  buffer.sizeBytes = size;
  buffer.sizeRegister = sizeRegister;
  plan.buffers.push_back(buffer);
  plan.constantOf.push_back(kNone);
  return plan.buffers.size() - 1;
}

uint32_t PlanMaker::dynamic(BufferKind kind) {
  uint32_t id = buffer(kind, 0);
  plan.buffers[id].pool = 1;
  return id;
}

uint32_t PlanMaker::alias(uint32_t of, uint64_t offset, uint64_t size,
                          uint32_t sizeRegister) {
  uint32_t id = buffer(BufferKind::Temporary, size, sizeRegister);
  plan.buffers[id].aliasOf = of;
  plan.buffers[id].aliasOffset = offset;
  plan.buffers[id].pool = plan.buffers[of].pool;
  return id;
}

uint32_t PlanMaker::prepare(ScalarOp op, uint32_t a, uint32_t b, int64_t imm) {
  plan.scalars.push_back({op, plan.registers, a, b, kNone, imm});
  plan.prepareEnd = plan.scalars.size();
  return plan.registers++;
}

uint32_t PlanMaker::scalar(ScalarOp op, uint32_t a, uint32_t b, int64_t imm,
                           uint32_t dst, uint32_t c) {
  if (dst == kNone)
    dst = plan.registers++;
  plan.scalars.push_back({op, dst, a, b, c, imm});
  command({.kind = CommandKind::Scalars,
           .a = uint32_t(plan.scalars.size()) - 1,
           .b = 1});
  return dst;
}

uint32_t PlanMaker::command(PlanCommand c) {
  plan.commands.push_back(c);
  return plan.commands.size() - 1;
}

uint32_t PlanMaker::dispatch(const std::string &kernel,
                             std::vector<uint32_t> buffers,
                             std::vector<uint32_t> scalars, uint32_t workgroups,
                             bool flush) {
  auto [it, isNew] = kernels.try_emplace(kernel, plan.kernels.size());
  if (isNew) {
    plan.kernels.push_back({kernel, "loops", {"node_" + kernel}, 1});
    plan.variants[0].entries.push_back(kernelAddresses().at(kernel));
  }
  PlanCommand c{.kind = CommandKind::Dispatch, .a = it->second};
  c.b = plan.operands.size();
  c.c = buffers.size();
  plan.operands.insert(plan.operands.end(), buffers.begin(), buffers.end());
  c.d = plan.operands.size();
  c.e = scalars.size();
  plan.operands.insert(plan.operands.end(), scalars.begin(), scalars.end());
  c.f = workgroups;
  c.flushDenormals = flush;
  return command(c);
}

void PlanMaker::input(const std::string &name, int32_t type,
                      std::vector<PlanDim> dims, uint32_t buffer) {
  PlanTensor tensor;
  tensor.name = name;
  tensor.elementType = type;
  tensor.dims = std::move(dims);
  tensor.buffer = buffer;
  plan.inputs.push_back(tensor);
}

void PlanMaker::output(const std::string &name, int32_t type,
                       std::vector<PlanDim> dims, uint32_t buffer) {
  PlanTensor tensor;
  tensor.name = name;
  tensor.elementType = type;
  tensor.dims = std::move(dims);
  tensor.buffer = buffer;
  plan.outputs.push_back(tensor);
}

std::string PlanMaker::bundle() {
  auto report = planMemory(plan);
  if (!report)
    FAIL(llvm::toString(report.takeError()));
  return writeToString(plan);
}

PlanDim fixed(int64_t value) {
  PlanDim dim;
  dim.value = value;
  return dim;
}

PlanDim open(uint32_t reg, const std::string &name, int64_t min, int64_t max,
             int64_t multiple) {
  PlanDim dim;
  dim.reg = reg;
  dim.name = name;
  dim.min = min;
  dim.max = max;
  dim.multiple = multiple;
  return dim;
}

const std::vector<uint8_t> &kernelImage() {
  static const std::vector<uint8_t> image = [] {
    std::string bytes = slurp(TESSERA_BINARY_DIR "/test/unit/test-kernels.so");
    return std::vector<uint8_t>(bytes.begin(), bytes.end());
  }();
  return image;
}

const std::map<std::string, uint64_t> &kernelAddresses() {
  static const std::map<std::string, uint64_t> addresses = [] {
    std::map<std::string, uint64_t> result;
    llvm::StringRef bytes(reinterpret_cast<const char *>(kernelImage().data()),
                          kernelImage().size());
    auto object = llvm::cantFail(llvm::object::ObjectFile::createELFObjectFile(
        llvm::MemoryBufferRef(bytes, "kernels")));
    for (auto symbol : llvm::cast<llvm::object::ELFObjectFileBase>(*object)
                           .getDynamicSymbolIterators())
      result[llvm::cantFail(symbol.getName()).str()] =
          llvm::cantFail(symbol.getAddress());
    return result;
  }();
  return addresses;
}

std::string slurp(const std::string &path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << in.rdbuf();
  return bytes.str();
}

std::string scratchPath(const std::string &name) {
  struct Folder {
    std::filesystem::path path = std::filesystem::temp_directory_path() /
                                 ("tessera-unit-" + std::to_string(getpid()));
    Folder() { std::filesystem::create_directories(path); }
    ~Folder() {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
  };
  static Folder folder;
  return (folder.path / name).string();
}

std::string writeToString(const Plan &plan) {
  std::string path = scratchPath("bundle.tsr");
  auto stats = writeBundle(plan, path);
  if (!stats)
    FAIL(llvm::toString(stats.takeError()));
  std::string bytes = slurp(path);
  CHECK(bytes.size() == stats->fileBytes);
  return bytes;
}

void seal(std::string &bytes) {
  using namespace format;
  std::fill_n(bytes.begin() + kHashAt, kHashBytes, 0);
  uint64_t size;
  std::memcpy(&size, bytes.data() + kManifestBytesAt, 8);
  size = std::min<uint64_t>(size, bytes.size() - kHeaderBytes);
  uint8_t digest[kHashBytes];
  blake2b(digest, bytes.data(), nullptr, kHashBytes, kHeaderBytes + size, 0);
  std::memcpy(bytes.data() + kHashAt, digest, kHashBytes);
}

uint32_t versionOf(const std::string &bytes) {
  uint32_t version;
  std::memcpy(&version, bytes.data() + format::kVersionAt, 4);
  return version;
}

Run::Run(const std::string &bytes, const std::string &features,
         tsr::posix::ThreadPool *pool)
    : imageBytes(bytes.size()), features(features) {
  context.pool = pool;
  image.resize(bytes.size() + 1);
  std::memcpy(image.data(), bytes.data(), bytes.size());
}

tsr_status_t Run::open(bool checkOnly) {
  host = tsr::posix::makeHost(features, context);
  host.device_kinds = deviceKinds;
  state.resize(tsr_bundle_state_bytes());
  return tsr_open(image.data(), imageBytes, &host, nullptr, checkOnly,
                  state.data(), &bundle, &error);
}

tsr_status_t Run::load(const tsr_host_t *own) {
  tsr_bundle_needs(bundle, &needs);
  code.resize(needs.code_bytes);
  memory.resize(needs.instance_bytes);
  if (tsr_load_code(bundle, code.data(), code.size(), &error) != TSR_OK)
    return TSR_REFUSED;
  return tsr_instance_create(bundle, own, memory.data(), memory.size(),
                             &instance, &error);
}

tsr_status_t Run::prepare(const std::vector<std::vector<int64_t>> &shapes) {
  static const int64_t scalar = 0;
  std::vector<tsr_shape_t> all;
  for (const auto &shape : shapes)
    all.push_back(
        {shape.empty() ? &scalar : shape.data(), uint32_t(shape.size())});
  if (tsr_prepare(instance, all.empty() ? nullptr : all.data(), all.size(),
                  &error) != TSR_OK)
    return TSR_REFUSED;
  for (uint32_t p = 0; p < needs.pool_count; ++p) {
    pools[p].resize(tsr_pool_bytes(instance, p));
    if (pools[p].size())
      std::memset(pools[p].data(), 0xff, pools[p].size());
    if (tsr_set_pool(instance, p, pools[p].data(), pools[p].size(), &error) !=
        TSR_OK)
      return TSR_REFUSED;
  }
  return TSR_OK;
}

tsr_status_t Run::run() {
  tsr_status_t status;
  while ((status = tsr_run(instance, &error)) == TSR_NEED_MEMORY) {
    ++suspensions;
    uint32_t pool = 0;
    uint64_t bytes = 0;
    tsr_memory_request(instance, &pool, &bytes);
    if (!pools[pool].resize(bytes) ||
        tsr_set_pool(instance, pool, pools[pool].data(), pools[pool].size(),
                     &error) != TSR_OK)
      return TSR_REFUSED;
  }
  return status;
}

} // namespace tessera::test

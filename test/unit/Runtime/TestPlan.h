// Plans made by hand, and a way to run them through file, loader and back.
#ifndef TESSERA_TEST_UNIT_RUNTIME_TESTPLAN_H
#define TESSERA_TEST_UNIT_RUNTIME_TESTPLAN_H

#include "compiler/Bundle/BundleWriter.h"
#include "compiler/Bundle/Plan.h"
#include "compiler/Memory/PlanMemory.h"
#include "runtime-stub/include/tessera/runtime.h"
#include "runtime-stub/platform/posix/PosixHost.h"

#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace tessera::test {

/// Builds a plan step by step; kernels are those of Kernels.c.
class PlanMaker {
public:
  PlanMaker();
  uint32_t constant(const void *data, uint64_t size);
  template <typename T> uint32_t constant(const std::vector<T> &values) {
    return constant(values.data(), values.size() * sizeof(T));
  }
  uint32_t buffer(BufferKind kind, uint64_t size,
                  uint32_t sizeRegister = kNone);
  uint32_t dynamic(BufferKind kind = BufferKind::Dynamic);
  uint32_t alias(uint32_t of, uint64_t offset, uint64_t size,
                 uint32_t sizeRegister = kNone);
  /// Registers; prepare instructions must come before run-time ones.
  uint32_t prepare(ScalarOp op, uint32_t a = kNone, uint32_t b = kNone,
                   int64_t imm = 0);
  /// Appends a run-time instruction as a command of its own.
  uint32_t scalar(ScalarOp op, uint32_t a = kNone, uint32_t b = kNone,
                  int64_t imm = 0, uint32_t dst = kNone, uint32_t c = kNone);
  uint32_t command(PlanCommand command);
  uint32_t dispatch(const std::string &kernel, std::vector<uint32_t> buffers,
                    std::vector<uint32_t> scalars, uint32_t workgroups = kNone,
                    bool flush = false);
  void input(const std::string &name, int32_t type, std::vector<PlanDim> dims,
             uint32_t buffer);
  void output(const std::string &name, int32_t type, std::vector<PlanDim> dims,
              uint32_t buffer);
  /// Lifetimes and offsets, then the file's bytes.
  std::string bundle();
  Plan plan;

private:
  std::map<std::string, uint32_t> kernels;
};

PlanDim fixed(int64_t value);
PlanDim open(uint32_t reg, const std::string &name = "", int64_t min = 0,
             int64_t max = INT64_MAX, int64_t multiple = 1);

/// The image that Kernels.c was built to, and its function addresses.
const std::vector<uint8_t> &kernelImage();
const std::map<std::string, uint64_t> &kernelAddresses();

/// Reads a file whole.
std::string slurp(const std::string &path);
/// A path in a folder of this process that is removed at exit.
std::string scratchPath(const std::string &name);
std::string writeToString(const Plan &plan);
/// Makes the hash of header and manifest right again after a change.
void seal(std::string &bytes);
/// The format version in the header.
uint32_t versionOf(const std::string &bytes);

/// A bundle in memory at an aligned address, through all steps of the loader.
class Run {
public:
  explicit Run(const std::string &bytes, const std::string &features = "",
               tsr::posix::ThreadPool *pool = nullptr);
  /// Each returns the status; the refusal's text is in `error.text`.
  tsr_status_t open(bool checkOnly = false);
  tsr_status_t load(const tsr_host_t *own = nullptr);
  tsr_status_t prepare(const std::vector<std::vector<int64_t>> &shapes);
  tsr_status_t start(const std::vector<std::vector<int64_t>> &shapes) {
    if (tsr_status_t s = open(); s != TSR_OK)
      return s;
    if (tsr_status_t s = load(); s != TSR_OK)
      return s;
    return prepare(shapes);
  }
  template <typename T>
  void fill(uint32_t input, const std::vector<T> &values) {
    tsr_tensor_t tensor = {};
    if (tsr_input(instance, input, &tensor, &error) == TSR_OK &&
        tensor.bytes == values.size() * sizeof(T) && tensor.bytes)
      std::memcpy(tensor.data, values.data(), tensor.bytes);
  }
  /// Grows pools as asked.
  tsr_status_t run();
  template <typename T> std::vector<T> output(uint32_t index) {
    tsr_tensor_t tensor = {};
    if (tsr_output(instance, index, &tensor, &error) != TSR_OK)
      return {};
    shape.assign(tensor.dims, tensor.dims + tensor.rank);
    std::vector<T> values(tensor.bytes / sizeof(T));
    if (tensor.bytes)
      std::memcpy(values.data(), tensor.data, tensor.bytes);
    return values;
  }

  tsr_error_t error = {};
  tsr_needs_t needs = {};
  tsr_bundle_t *bundle = nullptr;
  tsr_instance_t *instance = nullptr;
  std::vector<int64_t> shape;
  unsigned suspensions = 0;
  tsr::posix::HostContext context;
  const char *deviceKinds = ""; ///< that the host drives
  tsr::posix::Pages image;
  uint64_t imageBytes;

private:
  std::string features;
  tsr_host_t host;
  tsr::posix::Pages state, code, memory;
  tsr::posix::Pages pools[TSR_MAX_POOLS];
};

} // namespace tessera::test
#endif

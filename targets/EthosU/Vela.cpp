#include "targets/EthosU/Vela.h"
#include "targets/Process.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"

#include <cstdlib>

namespace tessera::ethosu {

extern const char *const velaWorkerText; // written by CMake from VelaWorker.py

namespace {

constexpr uint64_t mostBytes = uint64_t(1)
                               << 32; // of a command stream, or of weights
using Kind = VelaError::Kind;
using llvm::json::Object;

llvm::Error velaError(Kind kind, std::string text) {
  return llvm::make_error<VelaError>(kind, std::move(text));
}

std::string pythonOf(const VelaOptions &options) {
  if (!options.python.empty())
    return options.python;
  if (const char *set = std::getenv("TESSERA_VELA_PYTHON"); set && *set)
    return set;
  auto vela = llvm::sys::findProgramByName("vela");
  if (!vela)
    return "";
  llvm::SmallString<128> python(llvm::sys::path::parent_path(*vela));
  llvm::sys::path::append(python, "python3");
  return std::string(python);
}

/// Reads a number that must be there and in range; notes the first that is not.
class Reader {
public:
  explicit Reader(const Object &answer) : answer(answer) {}
  uint64_t number(llvm::StringRef name, uint64_t most) {
    auto v = answer.getInteger(name);
    if (!v || *v < 0 || uint64_t(*v) > most) {
      if (fault.empty())
        fault =
            "'" + name.str() + "' is " + (v ? std::to_string(*v) : "missing");
      return 0;
    }
    return uint64_t(*v);
  }
  std::vector<VelaTensor> tensors(llvm::StringRef name) {
    std::vector<VelaTensor> result;
    auto *list = answer.getArray(name);
    if (!list && fault.empty())
      fault = "'" + name.str() + "' is missing";
    for (const llvm::json::Value &v : list ? *list : llvm::json::Array()) {
      static const Object none;
      Reader one(v.getAsObject() ? *v.getAsObject() : none);
      VelaTensor t;
      t.address = one.number("address", INT64_MAX);
      t.size = one.number("size", INT64_MAX);
      t.region = uint32_t(one.number("region", 7));
      t.elementSize = uint32_t(one.number("element_size", 16));
      if (fault.empty())
        fault = one.fault;
      result.push_back(t);
    }
    return result;
  }
  std::string fault;

private:
  const Object &answer;
};

} // namespace

struct Vela::Child {
  std::unique_ptr<Process> process;
};

Vela::Vela(VelaOptions options) : options(std::move(options)) {}
Vela::~Vela() = default;

llvm::Error Vela::start() {
  if (child)
    return llvm::Error::success();
  std::string python = pythonOf(options);
  const std::string remedy =
      "; install ethos-u-vela==" + std::string(velaVersion) +
      " and have `vela` on the path, or name its interpreter in "
      "TESSERA_VELA_PYTHON";
  if (python.empty())
    return velaError(Kind::Broken, "there is no vela on the path" + remedy);
  auto broken = [&](const std::string &why) {
    return velaError(Kind::Broken, "the interpreter '" + python +
                                       "' does not serve Vela: " + why +
                                       remedy);
  };
  auto process = Process::start(python, {"-I", "-c", velaWorkerText});
  if (!process)
    return broken(llvm::toString(process.takeError()));
  auto line = (*process)->readLine(std::chrono::steady_clock::now() +
                                   std::chrono::seconds(options.seconds));
  if (!line)
    return broken(llvm::toString(line.takeError()));
  auto hello = llvm::json::parse(*line);
  const Object *object = hello ? hello->getAsObject() : nullptr;
  if (!hello)
    llvm::consumeError(hello.takeError());
  if (!object)
    return broken("it says nonsense");
  if (auto error = object->getString("error"))
    return broken(error->str());
  llvm::StringRef version = object->getString("version").value_or("none");
  if (version != velaVersion)
    return broken("its version is " + version.str() + ", " + velaVersion +
                  " is needed");
  child = std::make_unique<Child>(Child{std::move(*process)});
  return llvm::Error::success();
}

/// An answer's line as a result; the bytes come behind it.
static llvm::Expected<VelaResult>
resultOf(const Object &answer, Process &process, Process::Deadline deadline) {
  Reader r(answer);
  VelaResult v;
  uint64_t commands = r.number("commands", mostBytes),
           weights = r.number("weights", mostBytes);
  v.weightsRegion = uint32_t(r.number("weights_region", 7));
  v.scratch = r.number("scratch", INT64_MAX);
  v.scratchRegion = uint32_t(r.number("scratch_region", 7));
  v.scratchFast = r.number("scratch_fast", INT64_MAX);
  v.scratchFastRegion = uint32_t(r.number("scratch_fast_region", 7));
  v.inputs = r.tensors("inputs");
  v.outputs = r.tensors("outputs");
  v.cycles = int64_t(r.number("cycles", INT64_MAX));
  v.macs = int64_t(r.number("macs", INT64_MAX));
  v.npuOps = int64_t(r.number("npu_ops", INT64_MAX));
  uint64_t cpuOps = r.number("cpu_ops", INT64_MAX);
  v.clock = answer.getNumber("clock_hz").value_or(0);
  if (r.fault.empty() && !(v.clock >= 1e3 && v.clock <= 1e12))
    r.fault = "'clock_hz' is " + std::to_string(v.clock);
  if (!r.fault.empty())
    return velaError(Kind::Broken, "Vela's answer makes no sense: " + r.fault);
  auto bytes = process.read(commands, deadline);
  if (!bytes)
    return velaError(Kind::Died, "Vela's command stream does not arrive: " +
                                     llvm::toString(bytes.takeError()));
  v.commands = std::move(*bytes);
  bytes = process.read(weights, deadline);
  if (!bytes)
    return velaError(Kind::Died, "Vela's weights do not arrive: " +
                                     llvm::toString(bytes.takeError()));
  v.weights = std::move(*bytes);
  if (cpuOps)
    return velaError(Kind::Refused, "Vela leaves " + std::to_string(cpuOps) +
                                        " operators to the CPU");
  if (answer.getInteger("variables").value_or(0))
    return velaError(Kind::Refused, "Vela keeps variables between runs");
  return v;
}

llvm::Expected<VelaResult> Vela::compile(llvm::ArrayRef<uint8_t> tosa,
                                         const VelaConfig &config) {
  if (llvm::Error error = start())
    return error;
  auto deadline =
      std::chrono::steady_clock::now() + std::chrono::seconds(options.seconds);
  std::unique_ptr<Child> mine =
      std::move(child); // dies with this call, unless all goes well
  llvm::json::Value request = Object{{"accelerator", config.accelerator},
                                     {"system_config", config.systemConfig},
                                     {"memory_mode", config.memoryMode},
                                     {"bytes", int64_t(tosa.size())}};
  auto line = mine->process->ask(request, tosa, deadline);
  if (!line)
    return velaError(Kind::Died,
                     "Vela fails on it: " + llvm::toString(line.takeError()));
  auto answer = llvm::json::parse(*line);
  const Object *object = answer ? answer->getAsObject() : nullptr;
  if (!answer)
    llvm::consumeError(answer.takeError());
  if (!object)
    return velaError(Kind::Broken, "Vela's answer makes no sense: a line of " +
                                       std::to_string(line->size()) +
                                       " bytes that is no JSON object");
  if (auto why = object->getString("refused")) {
    child = std::move(mine);
    return velaError(Kind::Refused, "Vela refuses it: " + why->str());
  }
  auto result = resultOf(*object, *mine->process, deadline);
  bool well = bool(result);
  if (!well) { // a refusal comes after all bytes of the answer
    llvm::Error error = llvm::handleErrors(
        result.takeError(), [&](std::unique_ptr<VelaError> e) -> llvm::Error {
          well = e->kind == Kind::Refused;
          return llvm::Error(std::move(e));
        });
    if (well)
      child = std::move(mine);
    return error;
  }
  child = std::move(mine);
  return result;
}

} // namespace tessera::ethosu

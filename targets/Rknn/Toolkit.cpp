#include "targets/Rknn/Toolkit.h"
#include "targets/Process.h"
#include "llvm/Support/JSON.h"

#include <cstdlib>

namespace tessera::rknn {

extern const char *const rknnWorkerText; // written by CMake from RknnWorker.py

namespace {

constexpr int64_t mostBytes = int64_t(1) << 32; // of a blob
constexpr const char *variable = "TESSERA_RKNN_PYTHON";
using Kind = VendorError::Kind;
using llvm::json::Object;

llvm::Error failure(Kind kind, std::string text) {
  return llvm::make_error<VendorError>(kind, std::move(text));
}

/// A line as an object; an error if it is none.
llvm::Expected<Object> objectOf(const std::string &line) {
  auto parsed = llvm::json::parse(line);
  if (!parsed) {
    llvm::consumeError(parsed.takeError());
    return failure(Kind::Broken,
                   "the RKNN toolkit's answer makes no sense: a line of " +
                       std::to_string(line.size()) + " bytes that is no JSON");
  }
  if (Object *object = parsed->getAsObject())
    return std::move(*object);
  return failure(
      Kind::Broken,
      "the RKNN toolkit's answer makes no sense: it is no JSON object");
}

/// The operators that it would run elsewhere than on the NPU, from its own
/// table; an error if there is no table.
llvm::Expected<std::string> leftToCpu(const Object &answer) {
  const llvm::json::Array *rows = answer.getArray("ops");
  if (!rows || rows->empty())
    return failure(Kind::Broken,
                   "the RKNN toolkit does not say where it places operators");
  std::string left;
  for (const llvm::json::Value &v : *rows) {
    const llvm::json::Array *row = v.getAsArray();
    auto text = [&](size_t i) {
      return row && row->size() == 3
                 ? (*row)[i].getAsString().value_or("").str()
                 : std::string();
    };
    std::string op = text(0), where = text(2);
    if (op.empty() || (where != "NPU" && where != "CPU" && where != "GPU"))
      return failure(
          Kind::Broken,
          "the RKNN toolkit's answer makes no sense: a row of its table");
    if (where != "NPU")
      left += (left.empty() ? "" : ", ") + op + " on the " + where;
  }
  return left;
}

} // namespace

struct Toolkit::Child {
  std::unique_ptr<Process> process;
  std::string version;
};

Toolkit::Toolkit(unsigned seconds) : seconds(seconds) {}
Toolkit::~Toolkit() = default;

static std::string interpreter() {
  const char *set = std::getenv(variable);
  return set ? set : "";
}

bool Toolkit::isNamed() { return !interpreter().empty(); }

llvm::Error Toolkit::start() {
  if (child)
    return llvm::Error::success();
  std::string python = interpreter();
  if (python.empty())
    return failure(Kind::Missing,
                   std::string(variable) +
                       " names no interpreter that has rknn-toolkit2");
  auto broken = [&](const std::string &why) {
    return failure(Kind::Broken,
                   "the interpreter '" + python +
                       "' does not serve the RKNN toolkit: " + why +
                       "; install rknn-toolkit2 in its environment, or unset " +
                       variable);
  };
  auto process = Process::start(python, {"-I", "-c", rknnWorkerText});
  if (!process)
    return broken(llvm::toString(process.takeError()));
  auto line = (*process)->readLine(std::chrono::steady_clock::now() +
                                   std::chrono::seconds(seconds));
  if (!line)
    return broken(llvm::toString(line.takeError()));
  auto hello = objectOf(*line);
  if (!hello)
    return broken(llvm::toString(hello.takeError()));
  if (auto error = hello->getString("error"))
    return broken(error->str());
  std::string version = hello->getString("version").value_or("").str();
  if (version.empty() || version.size() > 32)
    return broken("it does not say its version");
  child = std::make_unique<Child>(Child{std::move(*process), version});
  return llvm::Error::success();
}

llvm::Expected<Blob> Toolkit::compile(llvm::ArrayRef<uint8_t> onnx,
                                      const std::string &platform) {
  if (llvm::Error error = start())
    return error;
  auto deadline =
      std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  std::unique_ptr<Child> mine =
      std::move(child); // dies with this call, unless all goes well
  auto died = [&](llvm::Error why) {
    return failure(Kind::Died, "the RKNN toolkit fails on it: " +
                                   llvm::toString(std::move(why)));
  };
  llvm::json::Value request =
      Object{{"platform", platform}, {"bytes", int64_t(onnx.size())}};
  auto line = mine->process->ask(request, onnx, deadline);
  if (!line)
    return died(line.takeError());
  auto answer = objectOf(*line);
  if (!answer)
    return answer.takeError();
  int64_t size = answer->getInteger("blob").value_or(-1);
  if (size < 0 || size > mostBytes)
    return failure(Kind::Broken,
                   "the RKNN toolkit's answer makes no sense: 'blob' is " +
                       std::to_string(size));
  auto bytes = mine->process->read(size_t(size), deadline);
  if (!bytes)
    return died(bytes.takeError());
  if (auto why = answer->getString("refused")) {
    child = std::move(mine);
    return failure(Kind::Refused, "the RKNN toolkit refuses it: " + why->str());
  }
  if (llvm::StringRef(reinterpret_cast<const char *>(bytes->data()),
                      bytes->size())
          .substr(0, 4) != "RKNN")
    return failure(Kind::Broken, "the RKNN toolkit's blob of " +
                                     std::to_string(size) +
                                     " bytes does not begin with RKNN");
  auto left = leftToCpu(*answer);
  if (!left)
    return left.takeError();
  Blob blob{mine->version, std::move(*bytes)};
  child = std::move(mine);
  if (!left->empty())
    return failure(Kind::Refused, "the RKNN toolkit places " + *left);
  return blob;
}

} // namespace tessera::rknn

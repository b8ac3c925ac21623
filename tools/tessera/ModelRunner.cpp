#include "tools/tessera/ModelRunner.h"

#include "tools/tessera/Commands.h"
#include "tools/tsr-run/Session.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/FileSystem.h"

#include <algorithm>
#include <fstream>
#include <thread>

namespace tessera::tool {
namespace {

using quantise::Tensor;

/// All cores; results do not depend on their number.
runner::Session::Settings settings() {
  runner::Session::Settings s;
  s.threads = std::clamp(std::thread::hardware_concurrency(), 1u, 16u);
  return s;
}

class SessionRunner : public quantise::Runner {
public:
  explicit SessionRunner(const std::string &bundle)
      : session(bundle, settings()),
        inputs(session.inputCount()) {
    for (uint32_t i = 0; i < session.inputCount(); ++i)
      places[session.inputInfo(i).name] = i;
  }

  void set(const std::string &name, const Tensor &value) override {
    auto it = places.find(name);
    if (it == places.end())
      return; // nothing in this model reads it
    std::optional<runner::Tensor> &t = inputs[it->second];
    if (!t)
      t.emplace();
    prepared &= t->dims == value.dims && t->elementType == value.type;
    t->elementType = value.type;
    t->dims = value.dims;
    t->data = value.data;
  }

  std::vector<quantise::View> run() override {
    try {
      if (!prepared)
        session.prepare(inputs);
      prepared = true;
      session.run(inputs);
    } catch (const runner::Refused &e) {
      throw quantise::Refusal(
          std::string("the compiled model cannot run on a sample: ") +
          e.what());
    }
    std::vector<quantise::View> views;
    for (uint32_t i = 0; i < tsr_output_count(session.bundle()); ++i) {
      tsr_tensor_t t = session.output(i);
      views.push_back({t.element_type, {t.dims, t.dims + t.rank}, t.data});
    }
    return views;
  }

private:
  runner::Session session;
  std::vector<std::optional<runner::Tensor>> inputs;
  std::map<std::string, uint32_t> places;
  bool prepared = false;
};

} // namespace

quantise::CompileFunction makeCompileFunction(std::vector<std::string> dims,
                                              std::string variant) {
  if (variant.empty())
    variant = hostVariant();
  return [dims, variant](const quantise::ModelProto &model,
                const std::string &what) -> std::unique_ptr<quantise::Runner> {
    llvm::SmallString<128> folder;
    if (llvm::sys::fs::createUniqueDirectory("tessera-quantize", folder))
      throw quantise::Refusal("cannot create a temporary folder");
    llvm::scope_exit cleanUp(
        [&] { llvm::sys::fs::remove_directories(folder); });
    CompileOptions options;
    options.model = (folder + "/model.onnx").str();
    options.output = (folder + "/model.tsr").str();
    options.dims = dims;
    options.variants = {variant};
    options.quick = true;
    std::ofstream(options.model, std::ios::binary) << model.SerializeAsString();
    auto context = makeContext();
    printDiagnostics(*context);
    if (mlir::failed(compile(options, context.get())))
      throw quantise::Refusal("the compiler refuses " + what +
                              "; its reason stands above");
    try {
      return std::make_unique<SessionRunner>(
          options.output); // maps the file: it may be deleted
    } catch (const runner::Refused &e) {
      throw quantise::Refusal("cannot open " + what + ": " + e.what());
    }
  };
}

} // namespace tessera::tool

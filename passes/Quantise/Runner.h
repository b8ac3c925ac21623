// How quantisation runs models: through a function that compiles one, so that
// the library knows neither the driver nor the loader. The program gives it our
// own compiler and runtime (tools/tessera/ModelRunner.cpp).
#ifndef TESSERA_PASSES_QUANTISE_RUNNER_H
#define TESSERA_PASSES_QUANTISE_RUNNER_H

#include "passes/Quantise/Graph.h"

#include <functional>
#include <memory>

namespace tessera::quantise {

/// A tensor in memory: element type by ONNX number, packed bytes.
struct Tensor {
  int32_t type = TensorProto::FLOAT;
  std::vector<int64_t> dims;
  std::vector<uint8_t> data;

  int64_t count() const { return elementsOf(dims); }
  float *floats() { return reinterpret_cast<float *>(data.data()); }
  const float *floats() const {
    return reinterpret_cast<const float *>(data.data());
  }
};
Tensor makeTensor(const std::vector<int64_t> &dims,
                  const std::vector<float> &values);

/// Inputs of one run by name.
using Sample = std::map<std::string, Tensor>;

/// A result; valid until the next run.
struct View {
  int32_t type = 0;
  std::vector<int64_t> dims;
  const void *data = nullptr;
  int64_t count() const { return elementsOf(dims); }
  const float *floats() const { return static_cast<const float *>(data); }
};

class Runner {
public:
  virtual ~Runner() = default;
  /// Sets an input for all runs from now on.
  virtual void set(const std::string &input, const Tensor &value) = 0;
  /// Outputs in the model's order.
  virtual std::vector<View> run() = 0;
};

/// Compiles for this machine; throws Refusal.
using CompileFunction = std::function<std::unique_ptr<Runner>(
    const ModelProto &, const std::string &what)>;
/// What is being done, and how much of it, for a terminal.
using Progress =
    std::function<void(const std::string &what, size_t done, size_t all)>;

} // namespace tessera::quantise
#endif

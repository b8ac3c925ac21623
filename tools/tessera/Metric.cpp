#include "tools/tessera/Metric.h"

#include "passes/Quantise/Switches.h"
#include "tools/tsr-run/Tensor.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <sys/wait.h>

namespace tessera::tool {
namespace {

using quantise::Refusal;
using quantise::Runner;
using quantise::View;

std::vector<float> floatsOf(const View &v) {
  return {v.floats(), v.floats() + v.count()};
}

/// Shares of rows along the last axis whose largest elements are at one place.
double agreement(const View &a, const View &b) {
  if (a.dims != b.dims || a.dims.empty() || !a.count())
    return 0;
  int64_t width = a.dims.back(), rows = a.count() / width, same = 0;
  for (int64_t r = 0; r < rows; ++r) {
    const float *x = a.floats() + r * width, *y = b.floats() + r * width;
    same += std::max_element(x, x + width) - x ==
            std::max_element(y, y + width) - y;
  }
  return double(same) / double(rows);
}

void saveOutputs(const std::vector<View> &views, const std::string &folder) {
  if (llvm::sys::fs::create_directories(folder))
    throw Refusal("cannot make folder '" + folder + "' for --metric");
  for (size_t k = 0; k < views.size(); ++k) {
    const View &v = views[k];
    if (!runner::npyKnows(v.type))
      continue;
    uint64_t size = runner::byteCount(v.type, v.count());
    runner::writeFile(folder + "/output_" + std::to_string(k) + ".npy",
                      runner::formatNpy(v.type, v.dims, v.data, size));
  }
}

std::string quotedForShell(const std::string &text) {
  std::string out = "'";
  for (char c : text)
    out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

double runCommand(const std::string &command, const std::string &folder) {
  std::string line = command + " " + quotedForShell(folder + "/float") + " " +
                     quotedForShell(folder + "/quantised");
  FILE *pipe = popen(line.c_str(), "r");
  if (!pipe)
    throw Refusal("cannot run the command of --metric");
  std::string said;
  char buffer[4096];
  for (size_t n; (n = fread(buffer, 1, sizeof(buffer), pipe)) > 0;)
    said.append(buffer, n);
  int status = pclose(pipe);
  if (status != 0)
    throw Refusal("the command of --metric ended with " +
                  (WIFEXITED(status)
                       ? "status " + std::to_string(WEXITSTATUS(status))
                       : "signal " + std::to_string(WTERMSIG(status))));
  llvm::StringRef last = llvm::StringRef(said).rtrim();
  last = last.substr(last.find_last_of(" \t\r\n") + 1);
  double value = 0;
  if (!llvm::to_float(last, value) || !std::isfinite(value))
    throw Refusal("the command of --metric must print a number last, not '" +
                  last.str() + "'");
  return value;
}

} // namespace

double measureMetric(const std::string &metric,
                     const quantise::ModelProto &before,
                     const quantise::ModelProto &after,
                     const quantise::SampleSource &samples,
                     const quantise::CompileFunction &compile) {
  auto a = compile(before, "the float model"),
       b = compile(after, "the quantised model");
  bool own = metric == "snr" || metric == "top1";
  llvm::SmallString<128> folder;
  if (!own && llvm::sys::fs::createUniqueDirectory("tessera-metric", folder))
    throw Refusal("cannot create a temporary folder");
  llvm::scope_exit cleanUp([&] {
    if (!own)
      llvm::sys::fs::remove_directories(folder);
  });
  std::vector<std::vector<double>> each; // by output, then by sample
  for (size_t s = 0; s < samples.count; ++s) {
    for (auto &[name, value] : samples.get(s)) {
      a->set(name, value);
      b->set(name, value);
    }
    std::vector<View> want = a->run(), got = b->run();
    each.resize(want.size());
    for (size_t k = 0; k < want.size() && own; ++k)
      if (want[k].type == quantise::TensorProto::FLOAT)
        each[k].push_back(
            metric == "snr"
                ? quantise::signalToNoise(floatsOf(want[k]), floatsOf(got[k]))
                : agreement(want[k], got[k]));
    if (own)
      continue;
    char number[16];
    std::snprintf(number, sizeof(number), "/%05zu", s);
    saveOutputs(want, (folder + "/float" + number).str());
    saveOutputs(got, (folder + "/quantised" + number).str());
  }
  if (!own)
    return runCommand(metric, folder.str().str());
  if (metric == "top1") {
    if (each.empty() || each[0].empty())
      throw Refusal("--metric top1 needs a first output of type float");
    double sum = 0;
    for (double v : each[0])
      sum += v;
    return sum / double(each[0].size());
  }
  std::optional<double> worst;
  for (auto &v : each)
    if (!v.empty())
      worst = std::min(worst.value_or(200), quantise::median(v));
  if (!worst)
    throw Refusal("--metric snr needs an output of type float");
  return *worst;
}

} // namespace tessera::tool

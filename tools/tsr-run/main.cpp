// tsr-run: runs a bundle on a POSIX system. Links the loader and nothing else
// of the project.
#include "tools/tsr-run/Options.h"
#include "tools/tsr-run/Session.h"
#include "tools/tsr-run/Values.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace runner {
namespace {

namespace fs = std::filesystem;

bool fileExists(const fs::path &path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

/// The numbered files of a folder, in order.
std::vector<std::string> filesOf(const std::string &dir) {
  if (!fileExists(dir))
    throw Refused("cannot read folder '" + dir + "'");
  std::vector<std::string> files;
  for (size_t i = 0;; ++i) {
    std::string number = std::to_string(i), found;
    for (const std::string &name : {number + ".npy", "input_" + number + ".pb",
                                    "input_" + number + ".npy", number + ".pb"})
      if (found.empty() && fileExists(fs::path(dir) / name))
        found = (fs::path(dir) / name).string();
    if (found.empty())
      return files;
    files.push_back(found);
  }
}

/// Assigns files to inputs; a value of several tensors is one file.
std::vector<std::optional<Tensor>> gatherInputs(const Session &session,
                                                const Options &options) {
  auto info = [&](uint32_t i) { return session.inputInfo(i); };
  std::vector<Group> groups = groupsOf(session.inputCount(), info);
  size_t count = groups.size();
  auto nameOf = [&](size_t k) { // the value's own name, not that of `present`
    return std::string(info(groups[k].first + groups[k].optional).name);
  };
  std::vector<std::optional<std::string>> files(count);
  std::vector<std::string> positional;
  if (!options.inputDir.empty())
    positional = filesOf(options.inputDir);
  for (const std::string &word : options.inputs) {
    size_t named = count;
    size_t nameSize = 0; // names may contain '='
    for (size_t k = 0; k < count; ++k) {
      std::string name = nameOf(k);
      if (word.size() > name.size() &&
          word.compare(0, name.size(), name) == 0 && word[name.size()] == '=' &&
          name.size() >= nameSize) {
        named = k;
        nameSize = name.size();
      }
    }
    if (named == count) {
      size_t equals = word.find('=');
      if (equals != std::string::npos && !fileExists(word))
        throw Refused("the model has no input '" + word.substr(0, equals) +
                      "'");
      positional.push_back(word);
      continue;
    }
    if (files[named])
      throw Usage("input '" + word.substr(0, nameSize) + "' is given twice");
    files[named] = word.substr(nameSize + 1);
  }
  size_t open = 0, required = 0;
  for (size_t k = 0; k < count; ++k)
    if (!files[k]) {
      ++open;
      required += !info(groups[k].first).optional;
    }
  if (positional.size() != required && positional.size() != open)
    throw Refused(
        std::to_string(positional.size()) +
        " input files, needed: " + std::to_string(required) +
        (open != required ? " or " + std::to_string(open) : std::string()));
  bool all = positional.size() == open;
  size_t next = 0;
  for (size_t k = 0; k < count; ++k)
    if (!files[k] && (all || !info(groups[k].first).optional))
      files[k] = positional[next++];
  std::vector<std::optional<Tensor>> tensors(session.inputCount());
  for (size_t k = 0; k < count; ++k) {
    if (!files[k])
      continue;
    std::vector<Tensor> parts = readGroup(
        groups[k], *files[k], info,
        [&](uint32_t i) { return session.inputDims(i); });
    for (size_t i = 0; i < parts.size(); ++i)
      tensors[groups[k].first + i] = std::move(parts[i]);
  }
  return tensors;
}

double halfToDouble(uint16_t bits) {
  int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  double value = exponent == 31  ? (mantissa ? NAN : INFINITY)
                 : exponent == 0 ? std::ldexp(mantissa, -24)
                                 : std::ldexp(1024 + mantissa, exponent - 25);
  return bits >> 15 ? -value : value;
}

std::string elementText(const tsr_tensor_t &tensor, size_t i) {
  auto *bytes = static_cast<const uint8_t *>(tensor.data);
  auto get = [&](auto zero) {
    std::memcpy(&zero, bytes + i * sizeof(zero), sizeof(zero));
    return zero;
  };
  char text[40] = "?";
  switch (tensor.element_type) {
  case kFloat:
    std::snprintf(text, sizeof(text), "%.7g", double(get(float())));
    break;
  case kDouble:
    std::snprintf(text, sizeof(text), "%.15g", get(double()));
    break;
  case kFloat16:
    std::snprintf(text, sizeof(text), "%.5g", halfToDouble(get(uint16_t())));
    break;
  case kBfloat16: {
    uint32_t bits = uint32_t(get(uint16_t())) << 16;
    float value;
    std::memcpy(&value, &bits, 4);
    std::snprintf(text, sizeof(text), "%.4g", double(value));
    break;
  }
  case kBool:
    return bytes[i] ? "true" : "false";
  case kUint8:
    return std::to_string(bytes[i]);
  case kInt8:
    return std::to_string(get(int8_t()));
  case kUint16:
    return std::to_string(get(uint16_t()));
  case kInt16:
    return std::to_string(get(int16_t()));
  case kInt32:
    return std::to_string(get(int32_t()));
  case kUint32:
    return std::to_string(get(uint32_t()));
  case kInt64:
    return std::to_string(get(int64_t()));
  case kUint64:
    return std::to_string(get(uint64_t()));
  }
  return text;
}

/// One line: name, type, shape, the first elements.
void printSummary(const std::string &name, const tsr_tensor_t &tensor) {
  std::vector<int64_t> dims(tensor.dims, tensor.dims + tensor.rank);
  std::printf("%s: %s%s", name.c_str(), typeName(tensor.element_type),
              shapeText(dims).c_str());
  int64_t count = elementCount(dims, name);
  for (int64_t i = 0; i < std::min<int64_t>(count, 8); ++i)
    std::printf(" %s", elementText(tensor, size_t(i)).c_str());
  std::printf("%s\n", count > 8 ? " ..." : "");
}

void deliverOutputs(Session &session, const Options &options) {
  if (!options.outputDir.empty()) {
    std::error_code problem;
    fs::create_directories(options.outputDir, problem);
    if (problem)
      throw Refused("cannot make folder '" + options.outputDir +
                    "': " + problem.message());
  }
  std::vector<Group> groups =
      groupsOf(tsr_output_count(session.bundle()),
               [&](uint32_t i) { return session.outputInfo(i); });
  for (size_t number = 0; number < groups.size(); ++number) {
    const Group &group = groups[number];
    std::vector<tsr_tensor_t> parts;
    for (uint32_t i = 0; i < group.count; ++i)
      parts.push_back(session.output(group.first + i));
    const tsr_tensor_t &tensor = parts[0];
    if (options.outputDir.empty()) {
      for (uint32_t i = 0; i < group.count && !options.bench; ++i)
        printSummary(session.outputInfo(group.first + i).name, parts[i]);
      continue;
    }
    std::string name = session.outputInfo(group.first + group.optional).name;
    std::vector<int64_t> dims(tensor.dims, tensor.dims + tensor.rank);
    std::string base =
        (fs::path(options.outputDir) / ("output_" + std::to_string(number)))
            .string();
    if (options.outputPb)
      writeFile(base + ".pb", formatGroup(group, parts, name));
    else if (group.strings)
      writeFile(base + ".npy", formatStringsNpy(tensor));
    else
      writeFile(base + ".npy", formatNpy(tensor.element_type, dims, tensor.data,
                                         tensor.bytes));
  }
}

std::string jsonText(const std::string &text) {
  std::string out;
  for (char c : text) {
    if (c == '"' || c == '\\')
      out += '\\';
    if (uint8_t(c) < 0x20) {
      char code[8];
      std::snprintf(code, sizeof(code), "\\u%04x", unsigned(uint8_t(c)));
      out += code;
    } else {
      out += c;
    }
  }
  return out;
}

void writeTrace(const Session &session, const std::string &path) {
  std::string json = "{\"traceEvents\": [\n";
  uint64_t start = session.trace.empty() ? 0 : session.trace.front().beginNs;
  for (size_t i = 0; i < session.trace.size(); ++i) {
    const TraceRecord &r = session.trace[i];
    char numbers[320];
    std::snprintf(
        numbers, sizeof(numbers),
        "\"ph\": \"X\", \"pid\": 1, \"tid\": %u, \"ts\": %.3f, \"dur\": %.3f, "
        "\"args\": {\"ns\": %llu, \"command\": %u, \"workgroups\": %u, "
        "\"bytes\": %llu, \"device\": \"",
        r.device + 1, double(r.beginNs - start) / 1000,
        double(r.endNs - r.beginNs) / 1000,
        (unsigned long long)(r.endNs - r.beginNs), r.command, r.workgroups,
        (unsigned long long)r.bytes);
    json += "{\"name\": \"" + jsonText(r.kernel) + "\", \"cat\": \"" +
            jsonText(r.kernelClass) + "\", " + numbers +
            jsonText(session.deviceName(r.device)) + "\"}}" +
            (i + 1 < session.trace.size() ? ",\n" : "\n");
  }
  // What ran, and in how much memory, for the exact shapes of this call.
  json += "], \"displayTimeUnit\": \"ns\", \"otherData\": {\"variant\": \"" +
          jsonText(session.variantName()) + "\"";
  if (std::string gpu = session.gpuName(); !gpu.empty())
    json += ", \"vulkan_device\": \"" + jsonText(gpu) + "\"";
  for (const auto &[name, bytes] : session.memoryBytes())
    json += ", \"" + jsonText(name) + "_bytes\": " + std::to_string(bytes);
  writeFile(path, json + "}}\n");
}

void bench(Session &session, const std::vector<std::optional<Tensor>> &inputs,
           const Options &options) {
  std::vector<uint64_t> times;
  session.run(inputs); // warm-up: pages, caches, the growing pool
  for (unsigned long i = 0; i < options.bench; ++i)
    times.push_back(session.run(inputs));
  if (options.ns) {
    for (uint64_t time : times)
      std::printf("%llu\n", (unsigned long long)time);
    return;
  }
  std::sort(times.begin(), times.end());
  double sum = 0;
  for (uint64_t time : times)
    sum += double(time);
  std::printf(
      "runs %zu  min %.3f us  median %.3f us  mean %.3f us  max %.3f us\n",
      times.size(), double(times.front()) / 1000,
      double(times[times.size() / 2]) / 1000, sum / double(times.size()) / 1000,
      double(times.back()) / 1000);
}

/// Whether every output has a .npy form.
void checkNpyOutputs(const Session &session) {
  auto info = [&](uint32_t i) { return session.outputInfo(i); };
  for (const Group &group :
       groupsOf(tsr_output_count(session.bundle()), info)) {
    tsr_tensor_info_t value = info(group.first + group.optional);
    if (group.sequence || group.optional)
      throw Refused("output '" + std::string(value.name) + "': a " +
                    (group.optional ? "optional" : "sequence") +
                    " has no .npy form; use --output-format pb");
    if (!npyKnows(value.element_type))
      throw Refused("output '" + std::string(value.name) + "': type " +
                    typeName(value.element_type) +
                    " has no .npy form; use --output-format pb");
  }
}

int run(const Options &options) {
  Session::Settings settings;
  settings.variant = options.variant;
  settings.threads = options.threads;
  settings.poison = options.poison;
  settings.deviceThreads = !options.inlineDevices;
  settings.emulate = options.emulateNpu;
  settings.trace = !options.trace.empty();
  settings.checkOnly = options.check;
  settings.gpu = options.gpu;
  Session session(options.bundle, settings);
  if (options.check) {
    std::fprintf(stderr, "%s: all checks passed\n", options.bundle.c_str());
    return 0;
  }
  std::vector<std::optional<Tensor>> inputs = gatherInputs(session, options);
  // Types are settled before a run that may take long.
  if (!options.outputDir.empty() && !options.outputPb)
    checkNpyOutputs(session);
  session.prepare(inputs);
  if (options.bench)
    bench(session, inputs, options);
  else
    session.run(inputs);
  for (const std::string &note : session.notes)
    std::fprintf(stderr, "note: %s\n", note.c_str());
  deliverOutputs(session, options);
  if (!options.trace.empty())
    writeTrace(session, options.trace);
  if (std::fflush(stdout) != 0)
    throw Refused("cannot write to standard output");
  return 0;
}

int complain(const std::exception &problem, int code) {
  std::fflush(stdout);
  std::fprintf(stderr, "error: %s\n", problem.what());
  return code;
}

} // namespace
} // namespace runner

static int statusOf(int argc, char **argv) {
  using namespace runner;
  bool check = false;
  try {
    Options options = parseOptions(argc, argv);
    if (options.help) {
      std::fputs(helpText(), stdout);
      return 0;
    }
    check = options.check;
    return run(options);
  } catch (const Usage &problem) {
    return complain(problem, 2);
  } catch (const VerificationFailed &problem) {
    return complain(problem, check ? 4 : 1);
  } catch (const Refused &problem) {
    return complain(problem, 1);
  } catch (const std::bad_alloc &) {
    return complain(Refused("out of memory"), 1);
  } catch (const std::exception &problem) {
    return complain(problem, 5);
  }
}

int main(int argc, char **argv) {
  int status = statusOf(argc, argv);
  std::fflush(nullptr);
  if (runner::Gpu::anyLost())
    std::_Exit(status);
  return status;
}

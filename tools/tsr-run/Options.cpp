#include "tools/tsr-run/Options.h"

#include "tools/tsr-run/Tensor.h"

#include <cstdlib>

namespace runner {

const char *helpText() {
  return R"(usage: tsr-run BUNDLE.tsr [FILE | NAME=FILE ...] [options]

Checks a bundle, loads it and runs it once. Inputs are .npy or TensorProto .pb
files in the order of the model's inputs; inputs that have a default value count
only when files for all inputs are given. NAME=FILE always works. Without files,
inputs may come from --inputs; a model without inputs needs none.

  --inputs DIR         0.npy, 1.npy, ... or input_0.pb, input_1.pb, ...
  --output-dir DIR     write output_0.npy, ...; without it a summary is printed
  --output-format F    npy (default) or pb; types that .npy lacks need pb
  --bench N            run N times after a warm-up and print the times
  --ns                 with --bench: nanoseconds of each run, one per line
  --threads N          threads for kernels that can be split (default 1)
  --trace FILE         write every kernel's time as Chrome trace JSON (last run)
  --variant NAME       use this ISA variant, or refuse
  --check              verify the bundle and stop
  --poison             fill the memory with 0xff before every run, and that of
                       the processor while another device works
  --devices HOW        threads (default): each device but the processor has a
                       thread; inline: they work when they are given work
  --emulate npu        a device that this machine lacks is played by the
                       processor, from what its segments mean, without
                       --threads on other cores than the model; refused else
  --gpu HOW            what is made for a Vulkan device: auto (default): a GPU
                       does it if one is there that can, else the processor;
                       require: any Vulkan device does it, software too, or the
                       bundle is refused; off: the processor does it
  --gpu-memory HOW     shared (default): the device's memory, mapped; import: the
                       host's, imported by the device
  --gpu-timeout MS     a launch that takes longer is lost (default 30000)
  --gpu-cache FILE     keep the driver's compiled kernels there
  --help

exit codes: 0 done, 1 the model or its data is refused, 2 usage,
            4 verification failed (--check), 5 internal error

examples:
  tsr-run model.tsr image.npy --output-dir out
  tsr-run model.tsr mask=m.npy ids=i.npy --output-format pb --output-dir out
  tsr-run model.tsr --inputs data --bench 100 --ns
)";
}

namespace {

unsigned long number(const std::string &option, const std::string &text,
                     unsigned long max) {
  char *end = nullptr;
  unsigned long value = std::strtoul(text.c_str(), &end, 10);
  if (text.empty() || *end || text[0] == '-' || value < 1 || value > max)
    throw Usage(option + " needs a number from 1 to " + std::to_string(max) +
                ", not '" + text + "'");
  return value;
}

} // namespace

Options parseOptions(int argc, char **argv) {
  Options options;
  bool noMoreOptions = false;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    if (noMoreOptions || word.size() < 2 || word[0] != '-') {
      if (options.bundle.empty())
        options.bundle = word;
      else
        options.inputs.push_back(word);
      continue;
    }
    if (word == "--") {
      noMoreOptions = true;
      continue;
    }
    std::string value;
    bool attached = false;
    if (size_t equals = word.find('='); equals != std::string::npos) {
      value = word.substr(equals + 1);
      word.resize(equals);
      attached = true;
    }
    auto argument = [&]() -> const std::string & {
      if (attached)
        return value;
      if (i + 1 >= argc)
        throw Usage(word + " needs a value");
      return value = argv[++i];
    };
    auto flag = [&] {
      if (attached)
        throw Usage(word + " takes no value");
      return true;
    };
    if (word == "--inputs")
      options.inputDir = argument();
    else if (word == "--output-dir")
      options.outputDir = argument();
    else if (word == "--output-format") {
      const std::string &format = argument();
      if (format != "npy" && format != "pb")
        throw Usage("--output-format is npy or pb, not '" + format + "'");
      options.outputPb = format == "pb";
    } else if (word == "--bench")
      options.bench = number(word, argument(), 1000000000);
    else if (word == "--ns")
      options.ns = flag();
    else if (word == "--threads")
      options.threads = unsigned(number(word, argument(), 1024));
    else if (word == "--trace")
      options.trace = argument();
    else if (word == "--variant")
      options.variant = argument();
    else if (word == "--poison")
      options.poison = flag();
    else if (word == "--devices") {
      const std::string &how = argument();
      if (how != "threads" && how != "inline")
        throw Usage("--devices is threads or inline, not '" + how + "'");
      options.inlineDevices = how == "inline";
    } else if (word == "--emulate") {
      const std::string &what = argument();
      if (what != "npu")
        throw Usage("--emulate knows npu, not '" + what + "'");
      options.emulateNpu = true;
    } else if (word == "--gpu") {
      const std::string &how = argument();
      if (how != "auto" && how != "require" && how != "off")
        throw Usage("--gpu is auto, require or off, not '" + how + "'");
      options.gpu.use = how == "auto"      ? GpuSettings::Use::Auto
                        : how == "require" ? GpuSettings::Use::Required
                                           : GpuSettings::Use::Off;
    } else if (word == "--gpu-memory") {
      const std::string &how = argument();
      if (how != "shared" && how != "import")
        throw Usage("--gpu-memory is shared or import, not '" + how + "'");
      options.gpu.importMemory = how == "import";
    } else if (word == "--gpu-timeout")
      options.gpu.timeoutMs = number(word, argument(), 86400000);
    else if (word == "--gpu-cache")
      options.gpu.cacheFile = argument();
    else if (word == "--check")
      options.check = flag();
    else if (word == "--help" || word == "-h")
      options.help = flag();
    else
      throw Usage("unknown option " + word + " (see --help)");
  }
  if (options.help)
    return options;
  if (options.bundle.empty())
    throw Usage("no bundle given (see --help)");
  if (options.ns && !options.bench)
    throw Usage("--ns belongs to --bench");
  if (!options.inputDir.empty() && !options.inputs.empty())
    for (const std::string &input : options.inputs)
      if (input.find('=') == std::string::npos)
        throw Usage("give files or --inputs, not both");
  return options;
}

} // namespace runner

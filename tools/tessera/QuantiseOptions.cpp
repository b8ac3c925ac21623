#include "tools/tessera/QuantiseOptions.h"
#include "tools/tessera/ModelRunner.h"
#include "tools/tessera/Samples.h"

#include <cstdio>
#include <unistd.h>

namespace tessera::tool {

std::vector<std::string> schemeWords() {
  return {"8x8", "16x8", "w4", "w8", "f16", "bf16"};
}

int32_t typeOfActivations(llvm::StringRef scheme, llvm::StringRef activations) {
  return scheme == "16x8"         ? quantise::TensorProto::INT16
         : activations == "uint8" ? quantise::TensorProto::UINT8
                                  : quantise::TensorProto::INT8;
}

void addQuantiseOptions(CLI::App &command, QuantiseWords &words) {
  std::vector<std::string> schemes = schemeWords();
  schemes.push_back("int8");
  command
      .add_option(
          "--quantize", words.scheme,
          "Quantise the model first, as `tessera quantize` does: "
          "activations x weights 8x8\n"
          "(int8), 16x8; weights alone: w4, w8, f16, bf16. Needs --calib")
      ->check(CLI::IsMember(schemes));
  command.add_option("--calib", words.calib,
                     "Calibration samples, as for `tessera quantize`");
  command.add_option("--samples", words.samples,
                     "Use at most that many samples (0: all)");
  command
      .add_option("--activations", words.activations,
                  "Type of 8-bit activations (int8)")
      ->check(CLI::IsMember({"int8", "uint8"}));
  command.add_option("--recipe", words.recipe,
                     "YAML rules, as for `tessera quantize`");
  command.add_option(
      "--accuracy-drop", words.limit,
      "Most noise on calibration samples, of the worst output: 1% of its "
      "power, or 20dB\n"
      "signal to noise. With 8x8 and 16x8 precision and device of each "
      "operator are then chosen\n"
      "together, for the least estimated time; exit status 3 if no plan keeps "
      "the limit");
}

/// The level that results do not depend on: what nearly every machine has.
static std::string calibrationVariant() {
  std::string best = hostVariant();
  return best == "x86-64-v4" ? "x86-64-v3" : best;
}

quantise::Progress quantiseProgress() {
  if (!isatty(2))
    return {};
  return [](const std::string &what, size_t done, size_t all) {
    fprintf(stderr, "\r\033[K%s %zu/%zu", what.c_str(), done, all);
    if (done + 1 >= all)
      fprintf(stderr, "\r\033[K");
    fflush(stderr);
  };
}

void endQuantiseProgress() {
  if (isatty(2))
    fprintf(stderr, "\r\033[K");
}

void printHazards(const std::vector<quantise::Hazard> &hazards) {
  constexpr size_t shown = 4;
  endQuantiseProgress();
  for (const quantise::Hazard &h : hazards) {
    std::string nodes;
    for (size_t i = 0; i < h.nodes.size() && i < shown; ++i)
      nodes += (i ? ", " : ": ") + h.nodes[i];
    if (h.nodes.size() > shown)
      nodes += " and " + std::to_string(h.nodes.size() - shown) + " more";
    fprintf(stderr, "warning: %s%s: %s; %s\n", h.kind.c_str(), nodes.c_str(),
            h.text.c_str(), h.remedy.c_str());
  }
}

/// Options that say nothing without another, or against it.
static int checkTogether(const CLI::App &command, const QuantiseWords &words) {
  for (const char *option :
       {"--calib", "--samples", "--activations", "--recipe", "--accuracy-drop"})
    if (words.scheme.empty() && command.count(option))
      return fail(std::string(option) +
                      ": without --quantize nothing is quantised",
                  exitUsage);
  if (words.scheme.empty())
    return exitDone;
  if (words.calib.empty())
    return fail("--quantize " + words.scheme + ": --calib is missing",
                exitUsage);
  if (command.count("--activations") && words.scheme != "int8" &&
      words.scheme != "8x8")
    return fail("--activations is of the scheme 8x8, not of " + words.scheme,
                exitUsage);
  for (const char *option : {"--segment", "--via-tosa"})
    if (command.count(option))
      return fail(std::string("--quantize: not together with ") + option,
                  exitUsage);
  return exitDone;
}

int readQuantiseOptions(const CLI::App &command, const QuantiseWords &words,
                        CompileOptions &options) {
  if (int status = checkTogether(command, words);
      status || words.scheme.empty())
    return status;
  auto request = std::make_shared<QuantiseRequest>();
  request->scheme = words.scheme == "int8" ? "8x8" : words.scheme;
  request->recipe = words.recipe;
  if (!words.limit.empty()) {
    request->limit = parseAccuracyLimit(words.limit);
    if (!request->limit)
      return fail("--accuracy-drop needs a share such as 1% (of the signal's "
                  "power) or a ratio such as 25dB, not '" +
                      words.limit + "'",
                  exitUsage);
  }
  quantise::QuantiseOptions &o = request->options;
  o.activations = typeOfActivations(request->scheme, words.activations);
  o.progress = o.calibration.progress = o.islands.progress = quantiseProgress();
  request->weights.form = quantise::parseWeightForm(request->scheme)
                              .value_or(quantise::WeightForm::Int8);
  request->weights.calibration.progress = o.progress;
  request->compile = makeCompileFunction(options.dims, calibrationVariant());
  request->openSamples = [words](const quantise::ModelProto &model) {
    CalibrationData data;
    data.samples =
        openSamples(words.calib, model, words.samples, data.hash, &data.files);
    return data;
  };
  if (!words.quiet)
    request->lint = printHazards;
  options.quantise = std::move(request);
  return exitDone;
}

} // namespace tessera::tool

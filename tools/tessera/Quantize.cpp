// `tessera quantize`: a float model and calibration samples in, the same model
// with QuantizeLinear and DequantizeLinear out.
#include "compiler/Driver/Digest.h"
#include "passes/Quantise/Prepare.h"
#include "passes/Quantise/Quantise.h"
#include "passes/Quantise/Report.h"
#include "passes/Quantise/WeightOnly.h"
#include "tools/tessera/Commands.h"
#include "tools/tessera/Metric.h"
#include "tools/tessera/ModelRunner.h"
#include "tools/tessera/QuantiseOptions.h"
#include "tools/tessera/Samples.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"

#include <cstdio>
#include <fstream>

namespace tessera::tool {
namespace {

using namespace quantise;
using quantise::Unit; // not the target's

struct Arguments {
  std::string model, calib, output,
      scheme = "8x8", ranges = "auto", islands = "auto", coverage = "auto",
      activations = "int8", cache, floatMacs = "5%", recipe, report, metric,
      target;
  std::vector<std::string> dims;
  double percentile = 99.99;
  size_t samples = 0;
  int64_t block = 32;
  double atLeast = 0;
  bool quiet = false, asymmetric = false, nearest = false, rotate = true,
       biasCorrection = false, hasBias = false, hasFloor = false,
       hasRanges = false, hasPercentile = false;
};

void printSummary(const Arguments &a, const QuantiseResult &r) {
  endQuantiseProgress();
  size_t quantised = 0, floating = 0;
  for (const Unit &u : r.decisions.units)
    (u.quantised ? quantised : floating)++;
  for (const IslandStep &s : r.islands.steps)
    fprintf(stderr, "float island: %s (worst part %.1f dB with it)\n",
            r.decisions.units[s.unit].name.c_str(), s.worst);
  for (const Rotation &rotation : r.rotations)
    fprintf(stderr, "rotated in blocks of %lld before it is read: %s\n",
            static_cast<long long>(rotation.block), rotation.value.c_str());
  for (size_t k = 0; k < r.parts.size(); ++k)
    fprintf(stderr, "%s: %.1f dB on calibration samples\n",
            r.parts[k].name.c_str(), r.verified[k]);
  if (r.corrected)
    fprintf(stderr, "bias correction: worst part %.1f -> %.1f dB, %s\n",
            r.corrected->first, r.corrected->second,
            r.corrected->second > r.corrected->first ? "kept" : "left out");
  fprintf(stderr,
          "%s: %zu units quantised, %zu float (%zu islands), %.1f %% of "
          "multiply-accumulates in integers, ranges by %s\n",
          a.output.c_str(), quantised, floating, r.islands.steps.size(),
          r.macs > 0 ? 100 * r.integerMacs / r.macs : 0,
          rangeMethodName(r.ranges));
}

bool parsePercent(const std::string &text, double &share) {
  char *end = nullptr;
  double v = std::strtod(text.c_str(), &end);
  bool percent = *end == '%';
  if (end == text.c_str() || (percent ? end[1] : end[0]) || !(v >= 0) ||
      v > (percent ? 100 : 1))
    return false;
  share = percent ? v / 100 : v;
  return true;
}

/// Options that some schemes do not read, and those that do.
struct Applies {
  const char *option;
  std::vector<std::string> schemes;
};
const Applies kApplies[] = {
    {"--activations", {"8x8"}},
    {"--ranges", {"8x8", "16x8"}},
    {"--percentile", {"8x8", "16x8"}},
    {"--coverage", {"8x8", "16x8"}},
    {"--islands", {"8x8", "16x8"}},
    {"--float-macs", {"8x8", "16x8"}},
    {"--cache", {"8x8", "16x8"}},
    {"--bias-correction", {"8x8", "16x8"}},
    {"--no-rotate", {"8x8"}},
    {"--target", {"8x8", "16x8"}},
    {"--block", {"w4", "w8"}},
    {"--asymmetric", {"w4", "w8"}},
    {"--nearest", {"8x8", "16x8", "w4", "w8"}},
};

/// Refuses options that were given and would change nothing.
int checkUseful(const CLI::App &command, const Arguments &a) {
  for (const Applies &row : kApplies)
    if (command.count(row.option) && !llvm::is_contained(row.schemes, a.scheme))
      return fail(std::string(row.option) + " is of the scheme" +
                      (row.schemes.size() > 1 ? "s " : " ") +
                      llvm::join(row.schemes, ", ") + ", not of " + a.scheme,
                  exitUsage);
  if (command.count("--float-macs") && a.islands == "0")
    return fail("--float-macs bounds float islands, and --islands 0 asks for "
                "none",
                exitUsage);
  if (command.count("--target") && !command.count("--report"))
    return fail("--target prices islands for the plot of --report, which is "
                "not asked for",
                exitUsage);
  if (command.count("--at-least") && !command.count("--metric"))
    return fail("--at-least is of --metric, which is not asked for", exitUsage);
  return exitDone;
}

/// The same for options that a recipe may overrule.
int checkRanges(const Arguments &a, const Recipe &recipe,
                std::optional<RangeMethod> ranges) {
  if (a.hasRanges && recipe.ranges)
    return fail("--ranges: '" + recipe.origin + "' says 'ranges', which wins",
                exitUsage);
  if (recipe.ranges)
    ranges = recipe.ranges;
  auto isPercentile = [](const RecipeRule &r) {
    return r.ranges == RangeMethod::Percentile;
  };
  if (a.hasPercentile && ranges && *ranges != RangeMethod::Percentile &&
      llvm::none_of(recipe.rules, isPercentile))
    return fail("--percentile is of --ranges percentile and auto, not of " +
                    std::string(rangeMethodName(*ranges)),
                exitUsage);
  return exitDone;
}

/// What the partition says that a model costs on the target, in ns.
double latencyOn(const Arguments &a, const ModelProto &model) {
  llvm::SmallString<128> file;
  if (llvm::sys::fs::createTemporaryFile("tessera-quantize", "onnx", file))
    throw Refusal("cannot create a temporary file");
  llvm::FileRemover remover(file);
  std::ofstream(file.c_str(), std::ios::binary) << model.SerializeAsString();
  CompileOptions options;
  options.model = file.str().str();
  options.target = a.target;
  options.dims = a.dims;
  options.vendorFallback = true;
  options.compileTo = Phase::Partition;
  auto context = makeContext();
  printDiagnostics(*context);
  auto result = compile(options, context.get());
  if (failed(result))
    throw Refusal("the quantised model cannot be priced on target '" +
                  a.target + "'; the reason stands above");
  if (!result->placement)
    throw Refusal("target '" + a.target + "' has one unit and no cost model",
                  {"tessera targets lists those with more"});
  return double(result->placement->result.solution->cost);
}

/// Options from words; a usage error or 0.
int readOptions(const Arguments &a, QuantiseOptions &o) {
  o.activations = typeOfActivations(a.scheme, a.activations);
  o.coverage = a.coverage == "all"        ? Coverage::All
               : a.coverage == "products" ? Coverage::Products
                                          : Coverage::Auto;
  if (a.ranges != "auto")
    o.ranges = parseRangeMethod(a.ranges);
  o.percentile = a.percentile;
  o.feedback = !a.nearest;
  o.rotate = a.rotate;
  if (a.hasBias)
    o.biasCorrection = a.biasCorrection;
  o.layerErrors = !a.report.empty();
  if (!a.target.empty())
    o.latency = [&a](const ModelProto &m) { return latencyOn(a, m); };
  o.progress = o.calibration.progress = o.islands.progress = quantiseProgress();
  o.calibration.cacheFile = a.cache;
  if (a.islands != "auto") {
    char *end = nullptr;
    long n = std::strtol(a.islands.c_str(), &end, 10);
    if (*end || a.islands.empty() || n < 0 || n > 100000)
      return fail("--islands needs a number or auto, not '" + a.islands + "'",
                  exitUsage);
    o.islands.most = int(n);
  }
  if (!parsePercent(a.floatMacs, o.islands.floatMacs))
    return fail("--float-macs needs a share such as 5% or 0.05, not '" +
                    a.floatMacs + "'",
                exitUsage);
  return 0;
}

int writeFile(const std::string &path, const std::string &bytes) {
  llvm::Error error = llvm::writeToOutput(path, [&](llvm::raw_ostream &os) {
    os << bytes;
    return llvm::Error::success();
  });
  return error ? fail("cannot write '" + path +
                      "': " + toString(std::move(error)))
               : exitDone;
}

int writeModel(const ModelProto &model, const std::string &path) {
  std::string bytes;
  if (!model.SerializeToString(&bytes))
    return fail(
        "the quantised model is of 2 GB or more and has no single-file form");
  return writeFile(path, bytes);
}

int writeReport(const QuantiseResult &r, const std::string &folder) {
  if (auto error = llvm::sys::fs::create_directories(folder))
    return fail("cannot make folder '" + folder + "': " + error.message());
  for (auto &[name, text] :
       {std::pair<const char *, std::string>{"report.json", reportJson(r)},
        {"layers.csv", layersCsv(r)},
        {"layers.txt", layersText(r)},
        {"layers.svg", layersSvg(r)}})
    if (int status = writeFile(folder + "/" + name, text))
      return status;
  return r.frontier.empty()
             ? exitDone
             : writeFile(folder + "/frontier.svg", frontierSvg(r));
}

/// Measures the end metric, if one is asked for; a model below the floor is not
/// written.
int checkMetric(const Arguments &a, const ModelProto &before,
                const ModelProto &after, const SampleSource &samples) {
  if (a.metric.empty())
    return exitDone;
  double value = measureMetric(a.metric, before, after, samples,
                               makeCompileFunction(a.dims));
  endQuantiseProgress();
  if (!a.quiet)
    fprintf(stderr, "metric: %g on calibration samples\n", value);
  if (!a.hasFloor || value >= a.atLeast)
    return exitDone;
  char text[96];
  snprintf(text, sizeof(text), "the metric is %g, at least %g is asked for",
           value, a.atLeast);
  return fail(text, exitVerify);
}

int runWeightOnly(const Arguments &a, const Recipe &recipe,
                  const ModelProto &model, const SampleSource &samples) {
  WeightOnlyOptions options;
  options.form = *parseWeightForm(a.scheme);
  options.recipe = recipe;
  options.layerErrors = !a.report.empty();
  options.block = a.block;
  options.symmetric = !a.asymmetric;
  options.feedback = !a.nearest;
  options.calibration.progress = quantiseProgress();
  WeightOnlyResult r =
      quantiseWeightsOnly(model, samples, makeCompileFunction(a.dims), options);
  int status = checkMetric(a, model, r.model, samples);
  if (!status)
    status = writeModel(r.model, a.output);
  if (!status && !a.report.empty())
    status = writeReport(forReport(r), a.report);
  if (status || a.quiet)
    return status;
  endQuantiseProgress();
  for (size_t k = 0; k < r.parts.size(); ++k)
    fprintf(stderr, "%s: %.1f dB on calibration samples\n",
            r.parts[k].name.c_str(), r.verified[k]);
  fprintf(
      stderr, "%s: %d weights replaced, in %.1f %% of multiply-accumulates\n",
      a.output.c_str(), r.weights, r.macs > 0 ? 100 * r.covered / r.macs : 0);
  return status;
}

int run(const Arguments &a) {
  QuantiseOptions options;
  if (int status = readOptions(a, options))
    return status;
  try {
    if (!a.recipe.empty())
      options.recipe = readRecipe(a.recipe);
    if (int status = checkRanges(a, options.recipe, options.ranges))
      return status;
    ModelProto model = loadOriginal(a.model);
    std::string dataHash;
    SampleSource samples = openSamples(a.calib, model, a.samples, dataHash);
    if (parseWeightForm(a.scheme))
      return runWeightOnly(a, options.recipe, model, samples);
    options.calibration.key = blake3Of(model.SerializeAsString() + dataHash +
                                       std::to_string(samples.count));
    QuantiseResult result =
        quantise::quantise(model, samples, makeCompileFunction(a.dims), options,
                           [&](const std::vector<Hazard> &hazards) {
                             if (!a.quiet)
                               printHazards(hazards);
                           });
    int status = checkMetric(a, model, result.emitted.model, samples);
    if (!status)
      status = writeModel(result.emitted.model, a.output);
    if (!status && !a.report.empty())
      status = writeReport(result, a.report);
    if (!status && !a.quiet)
      printSummary(a, result);
    return status;
  } catch (const Refusal &e) {
    int status = fail(e.what());
    for (auto &note : e.notes)
      fprintf(stderr, "note: %s\n", note.c_str());
    return status;
  }
}

} // namespace

void addQuantize(CLI::App &app, int &status) {
  auto a = std::make_shared<Arguments>();
  CLI::App *command = app.add_subcommand(
      "quantize", "Quantise a float model with calibration samples: standard "
                  "QDQ in the original model");
  command->add_option("MODEL", a->model, "ONNX model (binary or text form)")
      ->required();
  command
      ->add_option("--calib", a->calib,
                   "Samples: a folder of sub-folders (NAME.npy or 0.npy, ...), "
                   "of .npz files, or for one input of\n"
                   ".npy or .pb files; or one .npz with arrays calib/NAME "
                   "stacked along the first axis")
      ->required();
  command->add_option("-o,--output", a->output, "Model to write")->required();
  command
      ->add_option("--scheme", a->scheme,
                   "Activations x weights: 8x8, 16x8; weights alone: w4, w8 "
                   "(blocks), f16, bf16")
      ->check(CLI::IsMember(schemeWords()))
      ->capture_default_str();
  command
      ->add_option("--block", a->block,
                   "Weights that share a scale, for w4 and w8")
      ->check(CLI::IsMember({16, 32, 64, 128, 256}))
      ->capture_default_str();
  command->add_flag("--asymmetric", a->asymmetric,
                    "Blocks of w4 and w8 get a zero point");
  command->add_flag("--nearest", a->nearest,
                    "Round each weight of matrix products by itself: no error "
                    "feedback from the samples");
  command
      ->add_option("--activations", a->activations, "Type of 8-bit activations")
      ->check(CLI::IsMember({"int8", "uint8"}))
      ->capture_default_str();
  command
      ->add_option("--ranges", a->ranges,
                   "How ranges are taken; auto tries all but entropy on the "
                   "samples")
      ->check(CLI::IsMember(
          {"auto", "minmax", "percentile", "entropy", "mse", "between"}))
      ->capture_default_str();
  command
      ->add_option("--percentile", a->percentile,
                   "Share of values inside the range, for percentile")
      ->check(CLI::Range(90.0, 100.0))
      ->capture_default_str();
  command
      ->add_option("--coverage", a->coverage,
                   "products: only Conv, MatMul, Gemm and their kind; all: "
                   "what lies between them as well;\n"
                   "auto: products for transformers, else all")
      ->check(CLI::IsMember({"auto", "products", "all"}))
      ->capture_default_str();
  command
      ->add_option("--islands", a->islands,
                   "Units that stay float where they cost the most accuracy: a "
                   "number, or auto")
      ->capture_default_str();
  command
      ->add_option("--float-macs", a->floatMacs,
                   "Share of multiply-accumulates that islands may take")
      ->capture_default_str();
  command->add_option("--samples", a->samples,
                      "Use at most that many samples (0: all)");
  command->add_option(
      "--recipe", a->recipe,
      "YAML file of rules: operator: Conv and/or name: /head/*, then keep: "
      "float|integer,\n"
      "scheme: 8x8|u8x8|16x8 (w4|w8|f16|bf16 where --scheme is one of "
      "these),\n"
      "ranges: minmax|percentile|entropy|mse|between; the last that matches "
      "wins");
  command->add_option("--report", a->report,
                      "Folder for report.json and layers.csv, .txt and .svg: "
                      "hazards, scales, error of each layer alone,\n"
                      "isolated and accumulated");
  command->add_option("--target", a->target,
                      "With --report: frontier.svg, accuracy against the "
                      "target's latency with each more island");
  command->add_flag(
      "--bias-correction,!--no-bias-correction", a->biasCorrection,
      "Add to biases what quantisation loses on average, if that helps on "
      "other samples; without\n"
      "the option it is tried where it costs little time");
  command->add_flag(
      "!--no-rotate", a->rotate,
      "Add no products that rotate what gates make, silu(g) * u, before a "
      "product reads it");
  command->add_option(
      "--metric", a->metric,
      "Measure on the samples: snr, top1, or a shell command that is given two "
      "folders,\n"
      "of the float and of the quantised model (each "
      "FOLDER/00000/output_0.npy, "
      "...), and\n"
      "prints a number last");
  CLI::Option *floor = command->add_option(
      "--at-least", a->atLeast,
      "Exit with status 4 and write nothing if the metric is lower");
  command->add_option("--cache", a->cache,
                      "File that keeps measured ranges; an interrupted "
                      "calibration resumes from it");
  command->add_option("--dim", a->dims, "As for compile");
  command->add_flag("-q,--quiet", a->quiet, "No lint and no summary");
  command->footer("Example:\n  tessera quantize mobilenet.onnx --calib "
                  "samples/ -o mobilenet_int8.onnx\n"
                  "  tessera quantize detector.onnx --calib samples -o "
                  "detector_int8.onnx --islands 4 --float-macs 2%\n"
                  "  tessera quantize detector.onnx --calib samples -o "
                  "detector_int8.onnx --metric 'python3 map.py' --at-least "
                  "0.9");
  command->callback([=, &status] {
    a->hasFloor = floor->count() != 0;
    a->hasBias = command->count("--bias-correction");
    a->hasRanges = command->count("--ranges") != 0;
    a->hasPercentile = command->count("--percentile") != 0;
    status = checkUseful(*command, *a);
    if (status == exitDone)
      status = run(*a);
  });
}

} // namespace tessera::tool

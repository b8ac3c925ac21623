#include "compiler/Driver/QuantiseModel.h"
#include "compiler/Driver/Digest.h"
#include "passes/Precision/HalfRounding.h"
#include "passes/Quantise/Prepare.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace mlir;

namespace tessera {

static std::string digestOfFile(const std::string &path) {
  auto file = llvm::MemoryBuffer::getFile(path, /*IsText=*/false,
                                          /*RequiresNullTerminator=*/false);
  if (!file)
    throw quantise::Refusal("cannot read '" + path +
                            "': " + file.getError().message());
  return blake3Of((*file)->getBuffer());
}

namespace {

class Quantiser {
public:
  Quantiser(const CompileOptions &options, const TargetDescription &target,
            const PlaceOptions &place, MLIRContext *context)
      : options(options), request(*options.quantise), target(target),
        place(place), context(context),
        made(std::make_shared<QuantisedModel>()) {}

  std::shared_ptr<QuantisedModel> run() {
    quantise::ModelProto original =
        quantise::loadOriginal(options.model, &made->inputs);
    CalibrationData data = request.openSamples(original);
    made->scheme = request.scheme;
    made->provenance = {"--quantize " + request.scheme,
                        "--calib blake3:" + data.hash,
                        "--samples " + std::to_string(data.samples.count)};
    llvm::append_range(made->inputs, data.files);
    if (request.options.activations == quantise::TensorProto::UINT8)
      made->provenance.push_back("--activations uint8");
    if (request.limit)
      made->provenance.push_back("--accuracy-drop " + request.limit->text);
    quantise::Recipe recipe = readRecipe();
    if (request.weightsAlone())
      weightsAlone(std::move(original), data, std::move(recipe));
    else
      integers(std::move(original), data, std::move(recipe));
    checkLimit();
    return made;
  }

private:
  quantise::Recipe readRecipe() {
    if (request.recipe.empty())
      return {};
    made->inputs.push_back(request.recipe);
    made->provenance.push_back("--recipe blake3:" +
                               digestOfFile(request.recipe));
    return quantise::readRecipe(request.recipe);
  }

  void weightsAlone(quantise::ModelProto original, const CalibrationData &data,
                    quantise::Recipe recipe) {
    quantise::WeightOnlyOptions o = request.weights;
    o.recipe = std::move(recipe);
    // Where the model will be placed is not known yet: all in float16, or none.
    if (request.limit && computesInHalf(target, place))
      o.onDevices = roundAllToHalf;
    quantise::WeightOnlyResult r = quantise::quantiseWeightsOnly(
        std::move(original), data.samples, request.compile, o);
    made->withoutHalf =
        o.onDevices && !request.limit->keptBy(worstShare(r.onDevices));
    made->proto = std::move(r.model);
    made->parts = r.parts;
    made->verified = r.verified;
  }

  void integers(quantise::ModelProto original, const CalibrationData &data,
                quantise::Recipe recipe) {
    quantise::QuantiseOptions o = request.options;
    o.recipe = std::move(recipe);
    ChooseOptions choose = chooseOptions();
    o.exits = request.limit &&
              llvm::any_of(llvm::drop_begin(target.units), [](const Unit &u) {
                return u.supports(Precision::Int8);
              });
    if (request.limit)
      o.choose = [&](quantise::ChoiceContext &model) {
        return choosePrecision(model, choose, made->choice.emplace());
      };
    auto lint = request.lint ? request.lint
                             : [](const std::vector<quantise::Hazard> &) {};
    quantise::QuantiseResult r = quantise::quantise(
        std::move(original), data.samples, request.compile, o, lint);
    made->proto = std::move(r.emitted.model);
    made->parts = r.parts;
    made->verified = r.verified;
    made->result = std::move(r);
    made->withoutHalf = made->choice && made->choice->plan().withoutHalf;
  }

  ChooseOptions chooseOptions() const {
    ChooseOptions choose;
    choose.target = &target;
    choose.place = place;
    choose.context = context;
    choose.progress = request.options.progress;
    if (request.limit)
      choose.limit = *request.limit;
    CompileOptions quiet = options;
    quiet.dumpAfter.clear();
    quiet.progress = {};
    quiet.compileTo.reset();
    choose.frontEnd =
        [quiet, context = context, &target = target](
            quantise::ModelProto model) -> FailureOr<OwningOpRef<ModuleOp>> {
      auto module = importQuantised(quiet, std::move(model), context);
      if (succeeded(module) && failed(canonicalise(quiet, **module, target)))
        return failure();
      return module;
    };
    return choose;
  }

  /// The last word: of the model that is compiled. What float16 devices add was
  /// in the choice's own verification, or they are left out.
  void checkLimit() const {
    if (!request.limit)
      return;
    double noise = worstShare(made->verified);
    if (made->choice)
      noise = std::max(noise, *made->choice->plan().verified);
    if (request.limit->keptBy(noise))
      return;
    char text[160];
    snprintf(text, sizeof(text),
             "%.3g%% (%.1f dB) of the worst output's power, the limit is "
             "%.3g%% (%.1f dB)",
             noise * 100, decibelOfShare(noise), request.limit->noise * 100,
             request.limit->decibel());
    throw LimitBreached("--accuracy-drop " + request.limit->text +
                            " is not kept: the noise is " + text,
                        {"give a weaker limit, or a scheme of more bits"});
  }

  const CompileOptions &options;
  const QuantiseRequest &request;
  const TargetDescription &target;
  PlaceOptions place;
  MLIRContext *context;
  std::shared_ptr<QuantisedModel> made;
};

} // namespace

FailureOr<std::shared_ptr<QuantisedModel>>
quantiseModel(const CompileOptions &options, const TargetDescription &target,
              const PlaceOptions &place, MLIRContext *context) {
  auto refuse = [&](const quantise::Refusal &e) -> LogicalResult {
    InFlightDiagnostic error = emitError(UnknownLoc::get(context), e.what());
    for (const std::string &note : e.notes)
      error.attachNote(UnknownLoc::get(context)) << note;
    return error;
  };
  try {
    return Quantiser(options, target, place, context).run();
  } catch (const LimitBreached &e) {
    options.quantise->breached = true;
    return refuse(e);
  } catch (const quantise::Refusal &e) {
    return refuse(e);
  }
}

} // namespace tessera

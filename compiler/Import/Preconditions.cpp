// What must hold before one of ONNX's inference functions runs. They are
// written for models that somebody exported: a few take an attribute or a size
// on trust, and then loop for ever, read beyond a list, or build a list as long
// as a number in the model says. Two guards, wrapped around the functions of
// every schema:
//   * a table of checks by operator, which see what the function will see: the
//     attributes, the types of the inputs, and their values where known;
//   * data propagation copies values element by element; what is longer than
//   any
//     shape, list of axes or of indices is kept from it.
#include "compiler/Import/Preconditions.h"
#include "compiler/Import/Model.h"
#include "llvm/ADT/StringExtras.h"

#include <mutex>
#include <unordered_map>

namespace tessera::onnx_import {

namespace {

using ::onnx::DataPropagationContext;
using ::onnx::InferenceContext;
using ::onnx::OpSchema;
using ::onnx::TensorShapeProto;

// Integers that stay in the protobuf have no more elements (see Load.cpp). ONNX
// takes any vector for a shape of unknown dimensions, also one of floats.
constexpr int64_t kMaxIntegers = 8192, kMaxOthers = 1024;

// Text of a model in a message: whatever is no letter of ASCII as \xx.
std::string quoted(llvm::StringRef text) {
  std::string result = "'";
  for (char c : text.take_front(80)) {
    if (llvm::isPrint(c) && c != '\\')
      result += c;
    else
      result += "\\" + llvm::toHex(llvm::StringRef(&c, 1));
  }
  return result + (text.size() > 80 ? "...'" : "'");
}

[[noreturn]] void refuse(const std::string &attribute, llvm::StringRef value,
                         const std::string &why) {
  throw ImportError("attribute '" + attribute + "' is " + quoted(value) + ": " + why);
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

// One term of an equation: letters, and at most one ellipsis.
void checkTerm(llvm::StringRef equation, llvm::StringRef term) {
  auto [before, after] = term.split("...");
  for (char c : (before + after).str())
    if (!llvm::isAlpha(c))
      refuse("equation", equation,
             "character " + quoted(llvm::StringRef(&c, 1)) + " in term " + quoted(term) +
                 "; a term has letters and at most one '...'");
}

void checkEinsum(InferenceContext &ctx) {
  const AttributeProto *a = ctx.getAttribute("equation");
  if (!a)
    return;
  llvm::StringRef equation = a->s();
  std::string text = equation.str();
  llvm::erase(text, ' ');
  auto [left, right] = llvm::StringRef(text).split("->");
  llvm::SmallVector<llvm::StringRef> terms;
  left.split(terms, ',');
  if (terms.size() != ctx.getNumInputs())
    refuse("equation", equation,
           std::to_string(terms.size()) + " terms for " + std::to_string(ctx.getNumInputs()) +
               " inputs");
  for (llvm::StringRef term : terms)
    checkTerm(equation, term);
  checkTerm(equation, right);
}

// The number of parts sizes a list, which is then read once for each output.
void checkSplit(InferenceContext &ctx) {
  const AttributeProto *parts = ctx.getAttribute("num_outputs");
  if (parts && parts->i() != (int64_t)ctx.getNumOutputs())
    refuse("num_outputs", std::to_string(parts->i()),
           "the node has " + std::to_string(ctx.getNumOutputs()) + " outputs");
}

// Dimensions of the data are read from here on.
void checkGatherNd(InferenceContext &ctx) {
  const AttributeProto *batch = ctx.getAttribute("batch_dims");
  if (batch && batch->i() < 0)
    refuse("batch_dims", std::to_string(batch->i()), "a count is not negative");
}

void checkMaxRoiPool(InferenceContext &ctx) {
  const AttributeProto *shape = ctx.getAttribute("pooled_shape");
  if (shape && shape->ints_size() != 2)
    refuse("pooled_shape", std::to_string(shape->ints_size()) + " values",
           "height and width are expected");
}

// Before version 13 a list as long as the vector of the shape is made, known or not.
void checkExpand(InferenceContext &ctx) {
  const TypeProto *shape = ctx.getNumInputs() > 1 ? ctx.getInputType(1) : nullptr;
  if (!shape || shape->tensor_type().shape().dim_size() != 1)
    return;
  int64_t rank = shape->tensor_type().shape().dim(0).dim_value();
  if (rank > ::onnx::kMaxMaterializedRank)
    throw ImportError("input 1 gives the result " + std::to_string(rank) + " dimensions");
}

// The type of the first input is read, known or not.
void checkTyped(InferenceContext &ctx) {
  if (ctx.getNumInputs() && !ctx.getInputType(0))
    throw ImportError("the type of input 0 is not known");
}

using Check = void (*)(InferenceContext &);
struct Entry {
  llvm::StringRef domain, op;
  Check check;
};
constexpr Entry kChecks[] = {
    {"", "Einsum", checkEinsum},
    {"", "Expand", checkExpand},
    {"", "EyeLike", checkTyped},
    {"", "GatherND", checkGatherNd},
    {"", "MaxRoiPool", checkMaxRoiPool},
    {"", "RegexFullMatch", checkTyped},
    {"", "Split", checkSplit},
    {"ai.onnx.ml", "CastMap", checkTyped},
    {"ai.onnx.ml", "DictVectorizer", checkTyped},
    {"ai.onnx.ml", "LabelEncoder", checkTyped},
    {"ai.onnx.ml", "TreeEnsemble", checkTyped},
};

// Axes and the like are narrowed to 32 bits before they are compared with a rank.
constexpr const char *kNarrow[] = {"axis",     "axes",      "batch_axis",      "batch_dims",
                                   "new_axis", "time_axis", "scan_input_axes", "scan_output_axes",
                                   "perm",     "group",     "num_scan_inputs"};

void checkNarrow(InferenceContext &ctx) {
  for (const char *name : kNarrow) {
    const AttributeProto *a = ctx.getAttribute(name);
    if (!a)
      continue;
    auto check = [&](int64_t value) {
      if (value != (int32_t)value)
        refuse(name, std::to_string(value), "beyond 32 bits");
    };
    check(a->i());
    llvm::for_each(a->ints(), check);
  }
}

//===----------------------------------------------------------------------===//
// Guards
//===----------------------------------------------------------------------===//

/// What data propagation sees: nothing of values that are too long.
class ShortValues : public DataPropagationContext {
public:
  ShortValues(DataPropagationContext &inner, bool isSlice) : inner(inner), isSlice(isSlice) {}
  const AttributeProto *getAttribute(const std::string &name) const override {
    return inner.getAttribute(name);
  }
  size_t getNumInputs() const override { return inner.getNumInputs(); }
  const TypeProto *getInputType(size_t i) const override { return inner.getInputType(i); }
  size_t getNumOutputs() const override { return inner.getNumOutputs(); }
  const TypeProto *getOutputType(size_t i) const override { return inner.getOutputType(i); }
  const TensorShapeProto *getInputData(size_t i) override {
    if (const TypeProto *type = inner.getInputType(i)) {
      auto &tensor = type->tensor_type();
      bool integers =
          tensor.elem_type() == TensorProto::INT64 || tensor.elem_type() == TensorProto::INT32;
      if (tensor.shape().dim_size() == 1 &&
          tensor.shape().dim(0).dim_value() > (integers ? kMaxIntegers : kMaxOthers))
        return nullptr;
    }
    const TensorShapeProto *value = inner.getInputData(i);
    total += value ? value->dim_size() : 0;
    if (total > kMaxIntegers)
      return nullptr;
    // Slice counts with 32 bits: a longer step than any value has wraps.
    if (value && i == kSteps && isSlice)
      for (auto &step : value->dim())
        if (std::abs(step.dim_value() / 2) > kMaxIntegers)
          return nullptr;
    return value;
  }
  void addOutputData(size_t i, TensorShapeProto &&value) override {
    inner.addOutputData(i, std::move(value));
  }

private:
  static constexpr size_t kSteps = 4;
  DataPropagationContext &inner;
  bool isSlice;
  int64_t total = 0; // elements of all inputs
};

std::unique_ptr<OpSchema> guard(const OpSchema &schema) {
  auto guarded = std::make_unique<OpSchema>(schema);
  Check check = nullptr;
  for (const Entry &entry : kChecks)
    if (entry.domain == schema.domain() && entry.op == schema.Name())
      check = entry.check;
  if (schema.has_type_and_shape_inference_function())
    guarded->TypeAndShapeInferenceFunction(
        [check, infer = schema.GetTypeAndShapeInferenceFunction()](InferenceContext &ctx) {
          checkNarrow(ctx);
          if (check)
            check(ctx);
          infer(ctx);
        });
  if (schema.has_data_propagation_function())
    guarded->PartialDataPropagationFunction(
        [isSlice = schema.Name() == "Slice",
         propagate = schema.GetDataPropagationFunction()](DataPropagationContext &ctx) {
          ShortValues values(ctx, isSlice);
          propagate(values);
        });
  return guarded;
}

} // namespace

const OpSchema *CheckedSchemas::GetSchema(const std::string &op, const int maxInclusiveVersion,
                                          const std::string &domain) const {
  static std::mutex mutex;
  static std::unordered_map<const OpSchema *, std::unique_ptr<OpSchema>> guarded;
  const OpSchema *schema =
      ::onnx::OpSchemaRegistry::Instance()->GetSchema(op, maxInclusiveVersion, domain);
  if (!schema)
    return nullptr;
  std::lock_guard lock(mutex);
  std::unique_ptr<OpSchema> &result = guarded[schema];
  if (!result)
    result = guard(*schema);
  return result.get();
}

} // namespace tessera::onnx_import

// A recipe: rules, by operator and by name, over what the policy decides.
//
//   ranges: percentile        # for all values; minmax, percentile, entropy,
//   mse rules:                    # a later rule wins over an earlier one
//     - operator: Conv        # of any node of a unit
//       name: /head/*         # of a node; * stands for any characters
//       keep: float           # or integer: also against the policy
//       scheme: 16x8          # activations that the unit reads: 8x8, u8x8,
//       16x8 ranges: mse           # of the values that the unit reads
#ifndef TESSERA_PASSES_QUANTISE_RECIPE_H
#define TESSERA_PASSES_QUANTISE_RECIPE_H

#include "passes/Quantise/Decisions.h"

namespace tessera::quantise {

/// Forms of weights where activations stay float.
enum class WeightForm { Int4, Int8, Half, Bfloat };
/// w4, w8, f16, bf16.
std::optional<WeightForm> parseWeightForm(const std::string &word);

struct RecipeRule {
  unsigned line = 0;
  std::string op, name;
  std::optional<bool> floating;
  std::optional<int32_t> type; ///< of activations
  std::string weights;         ///< w4, w8, f16, bf16; or empty
  std::optional<RangeMethod> ranges;
};

struct Recipe {
  std::string origin;
  std::optional<RangeMethod> ranges;
  std::vector<RecipeRule> rules;
};

/// Throws Refusal with every fault, each at its line and column.
Recipe parseRecipe(const std::string &text, const std::string &origin);
Recipe readRecipe(const std::string &path);

/// Applies the rules; `methods` receives range methods by value. A rule that
/// matches no unit is refused: it is most likely a misspelt name.
void applyRecipe(const Recipe &recipe, const Graph &graph,
                 std::vector<Unit> &units,
                 std::map<std::string, RangeMethod> &methods);

/// The same where only weights are quantised: what becomes of each unit's.
/// Rules about activations and ranges are refused.
void applyWeightRecipe(const Recipe &recipe, const Graph &graph,
                       const std::vector<Unit> &units,
                       std::vector<std::optional<WeightForm>> &forms);

} // namespace tessera::quantise
#endif

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

struct RecipeRule {
  unsigned line = 0;
  std::string op, name;
  std::optional<bool> floating;
  std::optional<int32_t> type;
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

} // namespace tessera::quantise
#endif

#include "passes/Quantise/Recipe.h"
#include "targets/YamlTree.h"
#include "llvm/Support/MemoryBuffer.h"

#include <algorithm>

namespace tessera::quantise {
namespace {

/// Whether a name matches a pattern in which * stands for any characters.
bool matches(llvm::StringRef pattern, llvm::StringRef name) {
  size_t star = pattern.find('*');
  if (star == llvm::StringRef::npos)
    return pattern == name;
  if (!name.consume_front(pattern.take_front(star)))
    return false;
  pattern = pattern.drop_front(star + 1);
  for (size_t i = 0; i <= name.size(); ++i)
    if (matches(pattern, name.drop_front(i)))
      return true;
  return false;
}

class RecipeReader {
public:
  explicit RecipeReader(yaml::Faults &faults) : faults(faults) {}

  void read(const yaml::Node &root, Recipe &out) {
    yaml::MappingReader reader(root, "recipe", faults);
    out.ranges = ranges(reader.optional("ranges"));
    for (const yaml::Node &item : reader.items("rules", /*isRequired=*/false))
      out.rules.push_back(rule(item));
  }

private:
  std::optional<RangeMethod> ranges(const yaml::Node *node) {
    if (!node)
      return std::nullopt;
    auto method = parseRangeMethod(node->text);
    if (!method)
      faults.add(node->at,
                 "ranges: '" + node->text +
                     "' is none of minmax, percentile, entropy, mse, between");
    return method;
  }

  RecipeRule rule(const yaml::Node &node) {
    RecipeRule r;
    r.line = node.at.line;
    yaml::MappingReader reader(node, "rule", faults);
    r.op = reader.text("operator", false);
    r.name = reader.text("name", false);
    if (node.kind == yaml::Node::Mapping && r.op.empty() && r.name.empty())
      faults.add(node.at, "rule: needs an operator, a name or both");
    const yaml::Node *keep = reader.optional("keep"),
                     *scheme = reader.optional("scheme");
    if (keep) {
      if (keep->text != "float" && keep->text != "integer")
        faults.add(keep->at,
                   "keep: '" + keep->text + "' is neither float nor integer");
      r.floating = keep->text == "float";
    }
    if (scheme) {
      static const std::map<std::string, int32_t> schemes = {
          {"8x8", TensorProto::INT8},
          {"u8x8", TensorProto::UINT8},
          {"16x8", TensorProto::INT16}};
      auto it = schemes.find(scheme->text);
      if (it != schemes.end())
        r.type = it->second;
      else if (parseWeightForm(scheme->text))
        r.weights = scheme->text;
      else
        faults.add(scheme->at,
                   "scheme: '" + scheme->text +
                       "' is none of 8x8, u8x8, 16x8, w4, w8, f16, bf16");
    }
    const yaml::Node *method = reader.optional("ranges");
    r.ranges = ranges(method);
    if (node.kind == yaml::Node::Mapping && !keep && !scheme && !method)
      faults.add(node.at,
                 "rule: says nothing; it needs keep, scheme or ranges");
    if (r.floating.value_or(false) && (scheme || method))
      faults.add(node.at, "rule: keep: float leaves nothing for scheme and "
                          "ranges to be about");
    return r;
  }

  yaml::Faults &faults;
};

} // namespace

Recipe parseRecipe(const std::string &text, const std::string &origin) {
  yaml::Faults faults(origin);
  Recipe recipe;
  recipe.origin = origin;
  yaml::Node root = yaml::parse(text, faults);
  if (faults.empty())
    RecipeReader(faults).read(root, recipe);
  if (!faults.empty()) {
    std::string all = faults.print();
    while (!all.empty() && all.back() == '\n')
      all.pop_back();
    throw Refusal("the recipe is not understood\n" + all);
  }
  return recipe;
}

Recipe readRecipe(const std::string &path) {
  auto file = llvm::MemoryBuffer::getFile(path);
  if (!file)
    throw Refusal("cannot read recipe '" + path +
                  "': " + file.getError().message());
  return parseRecipe((*file)->getBuffer().str(), path);
}

std::optional<WeightForm> parseWeightForm(const std::string &word) {
  static const std::map<std::string, WeightForm> forms = {
      {"w4", WeightForm::Int4},
      {"w8", WeightForm::Int8},
      {"f16", WeightForm::Half},
      {"bf16", WeightForm::Bfloat}};
  auto it = forms.find(word);
  return it == forms.end() ? std::nullopt : std::optional(it->second);
}

namespace {

bool appliesTo(const RecipeRule &r, const Graph &g, const Unit &u) {
  return std::any_of(u.nodes.begin(), u.nodes.end(), [&](int node) {
    return (r.op.empty() || g.node(node).op_type() == r.op) &&
           (r.name.empty() || matches(r.name, g.nameOf(node)));
  });
}

std::string placeOf(const Recipe &recipe, const RecipeRule &r) {
  return recipe.origin + ":" + std::to_string(r.line) + ": ";
}

void refuseUnmatched(const Recipe &recipe, const RecipeRule &r) {
  throw Refusal(placeOf(recipe, r) +
                    "rule matches no node that could be quantised" +
                    (r.op.empty() ? "" : "; operator '" + r.op + "'") +
                    (r.name.empty() ? "" : "; name '" + r.name + "'"),
                {"names are those of --report's layers.csv"});
}

/// Scheme and ranges of nodes that all stay float would change nothing.
void refuseIdle(const Recipe &recipe, const Graph &g,
                const std::vector<Unit> &units) {
  for (const RecipeRule &r : recipe.rules) {
    bool used = std::any_of(units.begin(), units.end(), [&](const Unit &u) {
      return u.quantised && appliesTo(r, g, u);
    });
    if ((r.type || r.ranges) && !used)
      throw Refusal(placeOf(recipe, r) +
                        "scheme and ranges are of integers, and every node "
                        "that the rule matches stays float",
                    {"keep: integer overrules what the policy decides"});
  }
}

} // namespace

void applyRecipe(const Recipe &recipe, const Graph &g, std::vector<Unit> &units,
                 std::map<std::string, RangeMethod> &methods) {
  for (const RecipeRule &r : recipe.rules) {
    if (!r.weights.empty())
      throw Refusal(placeOf(recipe, r) + "scheme '" + r.weights +
                    "' is of weights alone: give it where --scheme is w4, w8, "
                    "f16 or bf16");
    bool any = false;
    for (Unit &u : units) {
      if (!appliesTo(r, g, u))
        continue;
      any = true;
      if (r.floating) {
        u.quantised = !*r.floating;
        u.reason = u.quantised ? "" : "recipe, line " + std::to_string(r.line);
        u.pinned = true;
      }
      if (r.type)
        u.type = *r.type;
      for (const Use &use : u.activations)
        if (r.ranges)
          methods[g.node(use.node).input(use.input)] = *r.ranges;
    }
    if (!any)
      refuseUnmatched(recipe, r);
  }
  refuseIdle(recipe, g, units);
}

void applyWeightRecipe(const Recipe &recipe, const Graph &g,
                       const std::vector<Unit> &units,
                       std::vector<std::optional<WeightForm>> &forms) {
  if (recipe.ranges)
    throw Refusal(recipe.origin + ": 'ranges' is about activations, and "
                                  "--scheme leaves them float");
  std::vector<std::optional<WeightForm>> asked = forms;
  for (const RecipeRule &r : recipe.rules) {
    if (r.type || r.ranges)
      throw Refusal(placeOf(recipe, r) + (r.type ? "scheme" : "ranges") +
                        " of activations, and --scheme leaves them float",
                    {"schemes of weights alone are w4, w8, f16, bf16"});
    bool any = false;
    for (size_t i = 0; i < units.size(); ++i) {
      if (units[i].weights.empty() || !appliesTo(r, g, units[i]))
        continue;
      any = true;
      if (!r.weights.empty())
        asked[i] = parseWeightForm(r.weights);
      if (r.floating && !*r.floating && asked[i] != WeightForm::Int4 &&
          asked[i] != WeightForm::Int8)
        throw Refusal(
            placeOf(recipe, r) +
                "keep: integer, but the weights of "
                "'" +
                units[i].name + "' are to be of type " +
                (asked[i] == WeightForm::Half ? "float16" : "bfloat16"),
            {"scheme: w4 or w8 makes them integers"});
      if (r.floating && *r.floating)
        forms[i] = std::nullopt;
      else if (r.floating || !r.weights.empty())
        forms[i] = asked[i];
    }
    if (!any)
      refuseUnmatched(recipe, r);
  }
}

} // namespace tessera::quantise

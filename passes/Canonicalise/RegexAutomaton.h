// A regular expression as a deterministic automaton over classes of code points.
//
// Served of RE2's syntax: literals, '.', classes with ranges, \d \w \s and their
// opposites, escapes of punctuation and \n \t \r \f \v, groups (capturing or
// not), '|', '*', '+', '?', counts, and the anchors '^' and '$' where they change
// nothing. Greediness does not matter to a full match.
#ifndef TESSERA_PASSES_CANONICALISE_REGEXAUTOMATON_H
#define TESSERA_PASSES_CANONICALISE_REGEXAUTOMATON_H

#include <cstdint>
#include <optional>
#include <vector>

namespace tessera::onnx {

struct RegexAutomaton {
  /// Class of code point c: how many of these are <= c.
  std::vector<int32_t> bounds;
  /// next[state * (bounds + 1) + class]; state 0 is the start.
  std::vector<int32_t> next;
  std::vector<bool> accepts;
};

/// None where the pattern is wrong or uses something else, or takes more than
/// 4096 states.
std::optional<RegexAutomaton> compileRegex(const std::vector<int32_t> &pattern);

} // namespace tessera::onnx
#endif

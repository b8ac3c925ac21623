#include "passes/Canonicalise/RegexAutomaton.h"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <regex>
#include <string>

using namespace tessera::onnx;

static std::optional<RegexAutomaton> compile(const std::string &pattern) {
  return compileRegex({pattern.begin(), pattern.end()});
}

static bool matches(const RegexAutomaton &a, const std::string &text) {
  int state = 0;
  for (unsigned char c : text) {
    size_t number = std::upper_bound(a.bounds.begin(), a.bounds.end(), int32_t(c)) - a.bounds.begin();
    state = a.next[state * (a.bounds.size() + 1) + number];
  }
  return a.accepts[state];
}

TEST_CASE("the automaton agrees with std::regex", "[regex]") {
  const char *patterns[] = {"a*", "(a|b)*abb", "[a-c]+x?", "a{2,3}b", "a{2,}", "(ab){0,2}c", "\\d+\\.\\d*", "[^a]b|", "a.c", "(?:ab|cd)+",
                            "\\w+@\\w+[.]com", "a+?b", "[-a]+", "[a\\]b]+", "((a|b)c*){1,2}", "(\\W|^)a+(\\W|$)", "a\\b.*", "\\b[ab]\\b.?c?", "a\\B.", "^a|b$", "a^b"};
  std::vector<std::string> texts = {""};
  const std::string letters = "abcx1.-]@";
  for (size_t begin = 0, round = 0; round < 3; ++round) { // all of up to three letters
    size_t end = texts.size();
    for (size_t i = begin; i < end; ++i)
      for (char c : letters)
        texts.push_back(texts[i] + c);
    begin = end;
  }
  for (const char *more : {"abababb", "aabb", "abcdab", "user@mail.com", "ababc", "12.50", "acccbcc"})
    texts.push_back(more);
  for (const char *pattern : patterns) {
    auto automaton = compile(pattern);
    REQUIRE(automaton);
    std::regex oracle(pattern);
    for (const std::string &text : texts) {
      INFO(pattern << " on '" << text << "'");
      CHECK(matches(*automaton, text) == std::regex_match(text, oracle));
    }
  }
}

TEST_CASE("what is not served is no automaton", "[regex]") {
  for (const char *pattern : {"(a", "a)", "[a", "a**", "\\1", "(?i)a", "[[:alpha:]]", "*a", "a{3,2}", "(?=a)", "\\pL", "(a{1000}){1000}"}) {
    INFO(pattern);
    CHECK(!compile(pattern));
  }
}

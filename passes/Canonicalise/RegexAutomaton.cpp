#include "passes/Canonicalise/RegexAutomaton.h"

#include <algorithm>
#include <map>
#include <set>

namespace tessera::onnx {

namespace {

constexpr int32_t kLast = 0x10ffff;
constexpr size_t kMostNodes = 20000, kMostStates = 4096;

/// Inclusive ranges of code points.
using Set = std::vector<std::pair<int32_t, int32_t>>;

Set complement(Set s) {
  std::sort(s.begin(), s.end());
  Set out;
  int32_t next = 0;
  for (auto [lo, hi] : s) {
    if (lo > next)
      out.push_back({next, lo - 1});
    next = std::max(next, hi + 1);
  }
  if (next <= kLast)
    out.push_back({next, kLast});
  return out;
}

/// What is not served ends the compilation.
struct Unserved {};

/// What must hold at a place for a node's empty moves.
enum class Assertion { None, Begin, End, Word, NotWord };
/// What is before or after a place.
enum class Beside { Nothing, Word, Other };

const Set &wordSet() {
  static const Set words = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
  return words;
}
bool contains(const Set &s, int32_t c) {
  return std::any_of(s.begin(), s.end(), [&](auto &r) { return r.first <= c && c <= r.second; });
}
Beside besideOf(int32_t c) { return contains(wordSet(), c) ? Beside::Word : Beside::Other; }

bool holds(Assertion a, Beside before, Beside after) {
  bool boundary = (before == Beside::Word) != (after == Beside::Word);
  switch (a) {
  case Assertion::None: return true;
  case Assertion::Begin: return before == Beside::Nothing;
  case Assertion::End: return after == Beside::Nothing;
  case Assertion::Word: return boundary;
  case Assertion::NotWord: return !boundary;
  }
  return false;
}

/// Thompson's construction: each node has a set and one successor, or up to two
/// empty moves.
class Nfa {
public:
  struct Node {
    Assertion assertion = Assertion::None;
    Set set;
    int to = -1;
    int empty[2] = {-1, -1};
  };
  struct Part {
    int begin, end;
  };
  std::vector<Node> nodes;

  int node() {
    if (nodes.size() >= kMostNodes)
      throw Unserved();
    nodes.emplace_back();
    return nodes.size() - 1;
  }
  void link(int from, int to) {
    int *slots = nodes[from].empty;
    slots[slots[0] < 0 ? 0 : 1] = to;
  }
  Part nothing() {
    int n = node();
    return {n, n};
  }
  Part one(Set set) {
    int a = node(), b = node();
    nodes[a].set = std::move(set);
    nodes[a].to = b;
    return {a, b};
  }
  Part where(Assertion assertion) {
    int a = node(), b = node();
    nodes[a].assertion = assertion;
    link(a, b);
    return {a, b};
  }
  Part then(Part a, Part b) {
    link(a.end, b.begin);
    return {a.begin, b.end};
  }
  Part either(Part a, Part b) {
    int begin = node(), end = node();
    link(begin, a.begin);
    link(begin, b.begin);
    link(a.end, end);
    link(b.end, end);
    return {begin, end};
  }
  /// `again`: back from the end; `skip`: around it.
  Part loop(Part a, bool again, bool skip) {
    int begin = node(), tail = node(), end = node();
    link(begin, a.begin);
    if (skip)
      link(begin, end);
    link(a.end, tail);
    if (again)
      link(tail, a.begin);
    link(tail, end);
    return {begin, end};
  }
};

class Parser {
public:
  Parser(const std::vector<int32_t> &text, Nfa &nfa) : text(text), nfa(nfa) {}

  Nfa::Part all() {
    Nfa::Part p = alternatives();
    if (at != text.size())
      throw Unserved();
    return p;
  }

private:
  int32_t peek(size_t ahead = 0) const { return at + ahead < text.size() ? text[at + ahead] : -1; }
  int32_t take() {
    if (at == text.size())
      throw Unserved();
    return text[at++];
  }

  Nfa::Part alternatives() {
    Nfa::Part p = sequence();
    while (peek() == '|') {
      ++at;
      p = nfa.either(p, sequence());
    }
    return p;
  }

  Nfa::Part sequence() {
    Nfa::Part p = nfa.nothing();
    while (at < text.size() && peek() != '|' && peek() != ')')
      p = nfa.then(p, repeated());
    return p;
  }

  Nfa::Part repeated() {
    size_t begin = at;
    Nfa::Part p = atom();
    size_t end = at;
    bool any = false;
    auto [least, most] = count(any);
    if (!any)
      return p;
    if (peek() == '?') // not greedy: the same language
      ++at;
    size_t after = at;
    if (int32_t c = peek(); c == '*' || c == '+' || c == '?')
      throw Unserved();
    // Copies are parsed anew from the same text.
    auto copy = [&] {
      at = begin;
      Nfa::Part again = atom();
      if (at != end)
        throw Unserved();
      return again;
    };
    Nfa::Part out = nfa.nothing();
    for (int i = 0; i < least; ++i)
      out = nfa.then(out, i == 0 ? p : copy());
    if (most < 0)
      out = nfa.then(out, nfa.loop(least == 0 ? p : copy(), true, true));
    for (int i = least; i < most; ++i)
      out = nfa.then(out, nfa.loop(i == 0 ? p : copy(), false, true));
    at = after;
    return out;
  }

  /// The repetition that follows: least and most, -1 for without end.
  std::pair<int, int> count(bool &any) {
    any = true;
    switch (peek()) {
    case '*':
      ++at;
      return {0, -1};
    case '+':
      ++at;
      return {1, -1};
    case '?':
      ++at;
      return {0, 1};
    case '{':
      break;
    default:
      any = false;
      return {1, 1};
    }
    ++at;
    int least = number(), most = least;
    if (peek() == ',') {
      ++at;
      most = peek() == '}' ? -1 : number();
    }
    if (take() != '}' || (most >= 0 && most < least))
      throw Unserved();
    return {least, most};
  }
  int number() {
    int n = 0, digits = 0;
    while (peek() >= '0' && peek() <= '9' && ++digits < 4)
      n = n * 10 + (take() - '0');
    if (digits == 0 || n > 1000)
      throw Unserved();
    return n;
  }

  Nfa::Part atom() {
    int32_t c = take();
    switch (c) {
    case '(': {
      if (peek() == '?') {
        if (peek(1) != ':')
          throw Unserved();
        at += 2;
      }
      Nfa::Part p = alternatives();
      if (take() != ')')
        throw Unserved();
      return p;
    }
    case '[':
      return nfa.one(characterClass());
    case '.':
      return nfa.one(complement({{'\n', '\n'}}));
    case '\\':
      if (peek() == 'b' || peek() == 'B')
        return nfa.where(take() == 'b' ? Assertion::Word : Assertion::NotWord);
      return nfa.one(escape());
    case '^':
      return nfa.where(Assertion::Begin);
    case '$':
      return nfa.where(Assertion::End);
    case '*': case '+': case '?': case '{': case '}': case ')':
      throw Unserved();
    default:
      return nfa.one({{c, c}});
    }
  }

  Set escape() {
    int32_t c = take();
    Set digits = {{'0', '9'}}, words = wordSet(), spaces = {{'\t', '\n'}, {'\f', '\r'}, {' ', ' '}};
    switch (c) {
    case 'd': return digits;
    case 'D': return complement(digits);
    case 'w': return words;
    case 'W': return complement(words);
    case 's': return spaces;
    case 'S': return complement(spaces);
    case 'n': return {{'\n', '\n'}};
    case 't': return {{'\t', '\t'}};
    case 'r': return {{'\r', '\r'}};
    case 'f': return {{'\f', '\f'}};
    case 'v': return {{'\v', '\v'}};
    default:
      break;
    }
    bool letter = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c >= 0x80;
    if (letter)
      throw Unserved();
    return {{c, c}};
  }

  Set characterClass() {
    bool negated = peek() == '^';
    at += negated;
    Set out;
    for (bool first = true; first || peek() != ']'; first = false) {
      int32_t c = take();
      if (c == '[' && peek() == ':') // [:alpha:]
        throw Unserved();
      Set here = c == '\\' ? escape() : Set{{c, c}};
      bool single = here.size() == 1 && here[0].first == here[0].second;
      if (single && peek() == '-' && peek(1) != ']' && peek(1) >= 0) {
        ++at;
        int32_t d = take();
        Set last = d == '\\' ? escape() : Set{{d, d}};
        if (last.size() != 1 || last[0].first != last[0].second || last[0].first < here[0].first)
          throw Unserved();
        here[0].second = last[0].first;
      }
      out.insert(out.end(), here.begin(), here.end());
    }
    ++at;
    return negated ? complement(out) : out;
  }

  const std::vector<int32_t> &text;
  Nfa &nfa;
  size_t at = 0;
};

/// All nodes that are reached by empty moves at a place.
std::vector<int> closure(const Nfa &nfa, std::vector<int> from, Beside before, Beside after) {
  std::set<int> seen(from.begin(), from.end());
  while (!from.empty()) {
    int n = from.back();
    from.pop_back();
    if (!holds(nfa.nodes[n].assertion, before, after))
      continue;
    for (int m : nfa.nodes[n].empty)
      if (m >= 0 && seen.insert(m).second)
        from.push_back(m);
  }
  return {seen.begin(), seen.end()};
}

/// Where the classes of code points begin.
std::vector<int32_t> classBounds(const Nfa &nfa) {
  std::set<int32_t> bounds;
  auto add = [&](const Set &set) {
    for (auto [lo, hi] : set) {
      bounds.insert(lo);
      bounds.insert(hi + 1);
    }
  };
  for (const Nfa::Node &n : nfa.nodes) {
    add(n.set);
    if (n.assertion == Assertion::Word || n.assertion == Assertion::NotWord)
      add(wordSet());
  }
  bounds.erase(0);
  return {bounds.begin(), bounds.end()};
}

/// A state is the nodes that the last code point led to, and what it was: the
/// empty moves from there wait for the next one, which assertions may look at.
RegexAutomaton determinise(const Nfa &nfa, Nfa::Part whole) {
  RegexAutomaton out;
  out.bounds = classBounds(nfa);
  using State = std::pair<std::vector<int>, Beside>;
  std::map<State, int> numbers;
  std::vector<State> states;
  auto number = [&](State s) {
    auto [it, fresh] = numbers.try_emplace(s, states.size());
    if (fresh)
      states.push_back(std::move(s));
    if (states.size() > kMostStates)
      throw Unserved();
    return it->second;
  };
  number({{whole.begin}, Beside::Nothing});
  for (size_t s = 0; s < states.size(); ++s) {
    auto [nodes, before] = states[s];
    std::vector<int> last = closure(nfa, nodes, before, Beside::Nothing);
    out.accepts.push_back(std::find(last.begin(), last.end(), whole.end) != last.end());
    for (size_t k = 0; k <= out.bounds.size(); ++k) {
      int32_t c = k == 0 ? 0 : out.bounds[k - 1];
      Beside beside = besideOf(c);
      std::set<int> to;
      for (int n : closure(nfa, nodes, before, beside))
        if (contains(nfa.nodes[n].set, c))
          to.insert(nfa.nodes[n].to);
      out.next.push_back(number({{to.begin(), to.end()}, beside}));
    }
  }
  return out;
}

} // namespace

std::optional<RegexAutomaton> compileRegex(const std::vector<int32_t> &pattern) {
  try {
    Nfa nfa;
    Nfa::Part whole = Parser(pattern, nfa).all();
    return determinise(nfa, whole);
  } catch (const Unserved &) {
    return std::nullopt;
  }
}

} // namespace tessera::onnx

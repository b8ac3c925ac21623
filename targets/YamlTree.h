// A YAML document as a tree with positions, and a mapping reader that knows
// which keys it was asked for. YAMLTraits would be shorter, but it names no
// position for what is missing, wrong in unit or out of range.
#ifndef TESSERA_TARGETS_YAMLTREE_H
#define TESSERA_TARGETS_YAMLTREE_H

#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/Twine.h"

#include <set>
#include <string>
#include <vector>

namespace tessera::yaml {

struct Position {
  unsigned line = 1, column = 1;
  auto operator<=>(const Position &) const = default;
};

struct Node {
  enum Kind { Null, Scalar, Sequence, Mapping } kind = Null;
  Position at;
  std::string text;              ///< of a scalar
  std::vector<std::string> keys; ///< of a mapping, in order
  std::vector<Position> keyAt;
  std::vector<Node> children; ///< items or values
};
llvm::StringRef kindName(Node::Kind kind);

/// Faults of one document, printed in the order of positions.
class Faults {
public:
  explicit Faults(llvm::StringRef origin) : origin(origin) {}
  void add(Position at, const llvm::Twine &text) { all.insert({at, text.str()}); }
  bool empty() const { return all.empty(); }
  std::string print() const;

private:
  std::string origin;
  std::set<std::pair<Position, std::string>> all;
};

/// The only document of `text`; syntax errors, aliases, tags and keys given
/// twice are faults.
Node parse(llvm::StringRef text, Faults &faults);

/// `over` where it says something, else `base`: mappings by key, sequences of
/// mappings with names by these, all else whole; so is a mapping with a `value`,
/// whose other keys speak of that. A key without value is none. What is of `base`
/// has the position `at`.
Node overlay(const Node &base, const Node &over, Position at);

/// Reads one mapping. At its end every key nobody asked for is a fault.
class MappingReader {
public:
  /// `what` names the mapping in messages: "unit", "link".
  MappingReader(const Node &node, llvm::StringRef what, Faults &faults);
  ~MappingReader();
  MappingReader(const MappingReader &) = delete;

  const Node *optional(llvm::StringRef key);
  /// A missing key is a fault.
  const Node *required(llvm::StringRef key);
  std::string text(llvm::StringRef key, bool isRequired = true);
  /// Items of a sequence, or the scalar itself as the only item.
  std::vector<Node> items(llvm::StringRef key, bool isRequired);
  Position at() const { return node.at; }
  /// What the mapping is cannot be said: its other keys are no faults.
  void abandon() { abandoned = true; }

private:
  const Node &node;
  std::string what;
  Faults &faults;
  std::vector<std::string> asked;
  bool abandoned = false;
};

} // namespace tessera::yaml
#endif

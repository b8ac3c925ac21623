#include "targets/YamlTree.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/YAMLParser.h"

using namespace llvm;

namespace tessera::yaml {

StringRef kindName(Node::Kind kind) {
  static constexpr const char *names[] = {"nothing", "a scalar", "a list", "a mapping"};
  return names[kind];
}

std::string Faults::print() const {
  std::string out;
  for (const auto &[at, text] : all)
    out += (out.empty() ? "" : "\n") + origin + ":" + std::to_string(at.line) + ":" + std::to_string(at.column) + ": " +
           text;
  return out;
}

namespace {
/// LLVM's nodes are read once and in order; this copies them.
class Converter {
public:
  Converter(SourceMgr &sources, Faults &faults) : sources(sources), faults(faults) {}

  Node convert(llvm::yaml::Node *from, Position fallback) {
    Node to;
    to.at = from && from->getSourceRange().Start.isValid() ? position(from) : fallback;
    if (!from || isa<llvm::yaml::NullNode>(from))
      return to;
    if (!from->getRawTag().empty())
      faults.add(to.at, "tags are not used in target descriptions");
    if (auto *scalar = dyn_cast<llvm::yaml::ScalarNode>(from)) {
      SmallString<64> storage;
      to.kind = Node::Scalar;
      to.text = scalar->getValue(storage).str();
    } else if (auto *block = dyn_cast<llvm::yaml::BlockScalarNode>(from)) {
      to.kind = Node::Scalar;
      to.text = block->getValue().str();
    } else if (auto *sequence = dyn_cast<llvm::yaml::SequenceNode>(from)) {
      to.kind = Node::Sequence;
      for (llvm::yaml::Node &item : *sequence)
        to.children.push_back(convert(&item, to.at));
    } else if (auto *mapping = dyn_cast<llvm::yaml::MappingNode>(from)) {
      to.kind = Node::Mapping;
      for (llvm::yaml::KeyValueNode &entry : *mapping)
        convertEntry(entry, to);
    } else {
      faults.add(to.at, "aliases are not used in target descriptions");
    }
    return to;
  }

private:
  void convertEntry(llvm::yaml::KeyValueNode &entry, Node &to) {
    Node key = convert(entry.getKey(), to.at);
    Node value = convert(entry.getValue(), key.at);
    if (key.kind != Node::Scalar) {
      faults.add(key.at, "a key is a word, not " + Twine(kindName(key.kind)));
      return;
    }
    if (is_contained(to.keys, key.text))
      faults.add(key.at, "key '" + key.text + "' is given twice");
    to.keys.push_back(key.text);
    to.keyAt.push_back(key.at);
    to.children.push_back(std::move(value));
  }

  Position position(llvm::yaml::Node *node) {
    auto [line, column] = sources.getLineAndColumn(node->getSourceRange().Start);
    return {line, column};
  }

  SourceMgr &sources;
  Faults &faults;
};
} // namespace

/// LLVM's parser recurses into nested collections. A level takes a bracket, or a
/// column of a line; both are bounded here, so that its stack is.
static bool isTooDeep(StringRef text, Faults &faults) {
  constexpr size_t maxLine = 4096;
  constexpr int maxOpen = 64;
  int open = 0;
  unsigned line = 0;
  while (!text.empty()) {
    StringRef one;
    std::tie(one, text) = text.split('\n');
    ++line;
    if (one.size() > maxLine) {
      faults.add({line, maxLine + 1}, "line of " + Twine(one.size()) + " characters; at most " + Twine(maxLine));
      return true;
    }
    for (auto [column, c] : enumerate(one)) {
      open += c == '[' || c == '{' ? 1 : (c == ']' || c == '}') && open ? -1 : 0;
      if (open > maxOpen) {
        faults.add({line, unsigned(column + 1)}, "more than " + Twine(maxOpen) + " brackets are open");
        return true;
      }
    }
  }
  return false;
}

Node parse(StringRef text, Faults &faults) {
  if (isTooDeep(text, faults))
    return {};
  SourceMgr sources;
  sources.setDiagHandler(
      [](const SMDiagnostic &d, void *out) {
        unsigned line = std::max(1, d.getLineNo()), column = std::max(0, d.getColumnNo()) + 1;
        static_cast<Faults *>(out)->add({line, column}, d.getMessage());
      },
      &faults);
  llvm::yaml::Stream stream(text, sources, /*ShowColors=*/false);
  Node root;
  unsigned documents = 0;
  for (llvm::yaml::Document &document : stream) {
    Node node = Converter(sources, faults).convert(document.getRoot(), {});
    if (++documents == 1)
      root = std::move(node);
    else
      faults.add(node.at, "a description is one YAML document; here begins another");
  }
  return root;
}

static const Node *find(const Node &mapping, StringRef key) {
  for (auto [k, child] : zip(mapping.keys, mapping.children))
    if (mapping.kind == Node::Mapping && k == key)
      return &child;
  return nullptr;
}

static bool areNamed(const Node &sequence) {
  return sequence.kind == Node::Sequence && !sequence.children.empty() &&
         all_of(sequence.children, [](const Node &item) { return find(item, "name") != nullptr; });
}

static Node placed(Node node, Position at) {
  node.at = at;
  for (Position &p : node.keyAt)
    p = at;
  for (Node &child : node.children)
    child = placed(std::move(child), at);
  return node;
}

static Node overlayKeys(const Node &base, const Node &over, Position at) {
  Node result = over;
  result.keys.clear();
  result.keyAt.clear();
  result.children.clear();
  auto add = [&](StringRef key, Position keyAt, Node child) {
    if (child.kind == Node::Null)
      return;
    result.keys.push_back(key.str());
    result.keyAt.push_back(keyAt);
    result.children.push_back(std::move(child));
  };
  for (auto [key, child] : zip(base.keys, base.children)) {
    const Node *mine = find(over, key);
    add(key, mine ? mine->at : at, mine ? overlay(child, *mine, at) : placed(child, at));
  }
  for (auto [key, keyAt, child] : zip(over.keys, over.keyAt, over.children))
    if (!find(base, key))
      add(key, keyAt, child);
  return result;
}

static Node overlayItems(const Node &base, const Node &over, Position at) {
  Node result = over;
  result.children.clear();
  auto named = [](const Node &sequence, const Node &item) {
    return find_if(sequence.children,
                   [&](const Node &other) { return find(other, "name")->text == find(item, "name")->text; });
  };
  for (const Node &item : base.children) {
    auto mine = named(over, item);
    result.children.push_back(mine == over.children.end() ? placed(item, at) : overlay(item, *mine, at));
  }
  for (const Node &item : over.children)
    if (named(base, item) == base.children.end())
      result.children.push_back(item);
  return result;
}

Node overlay(const Node &base, const Node &over, Position at) {
  if (base.kind == Node::Mapping && over.kind == Node::Mapping && !find(over, "value"))
    return overlayKeys(base, over, at);
  if (areNamed(base) && areNamed(over))
    return overlayItems(base, over, at);
  return over;
}

MappingReader::MappingReader(const Node &node, StringRef what, Faults &faults)
    : node(node), what(what), faults(faults) {
  if (node.kind != Node::Mapping)
    faults.add(node.at, Twine(this->what) + " is a mapping, not " + kindName(node.kind));
}

MappingReader::~MappingReader() {
  if (abandoned)
    return;
  for (auto [key, at] : zip(node.keys, node.keyAt)) {
    if (is_contained(asked, key))
      continue;
    std::string known = join(asked, ", ");
    faults.add(at, "unknown key '" + key + "' of " + what + "; known are " + known);
  }
}

const Node *MappingReader::optional(StringRef key) {
  if (!is_contained(asked, key))
    asked.push_back(key.str());
  for (auto [k, child] : zip(node.keys, node.children))
    if (k == key)
      return &child;
  return nullptr;
}

const Node *MappingReader::required(StringRef key) {
  const Node *found = optional(key);
  if (!found && node.kind == Node::Mapping)
    faults.add(node.at, Twine(what) + " lacks '" + key + "'");
  return found;
}

std::string MappingReader::text(StringRef key, bool isRequired) {
  const Node *found = isRequired ? required(key) : optional(key);
  if (!found)
    return "";
  if (found->kind != Node::Scalar || found->text.empty()) {
    faults.add(found->at, "'" + Twine(key) + "' of " + what + " is a word or text, not " +
                              (found->kind == Node::Scalar ? StringRef("empty") : kindName(found->kind)));
    return "";
  }
  return found->text;
}

std::vector<Node> MappingReader::items(StringRef key, bool isRequired) {
  const Node *found = isRequired ? required(key) : optional(key);
  if (!found)
    return {};
  if (found->kind == Node::Sequence)
    return found->children;
  if (found->kind == Node::Scalar)
    return {*found};
  faults.add(found->at, "'" + Twine(key) + "' of " + what + " is a list, not " + kindName(found->kind));
  return {};
}

} // namespace tessera::yaml

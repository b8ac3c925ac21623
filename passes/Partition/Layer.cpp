#include "passes/Partition/Frontier.h"

#include <algorithm>
#include <cstring>

namespace tessera::partition {

void Layer::reset(size_t count) {
  entryCount = count;
  keys.clear();
  nodes.clear();
  scratch.resize(count);
  table.assign(1 << 10, -1);
}

uint64_t Layer::hash(const uint64_t *key) const {
  uint64_t h = 0x243f6a8885a308d3;
  for (size_t k = 0; k < entryCount; ++k) {
    h = (h ^ key[k]) * 0x9e3779b97f4a7c15;
    h ^= h >> 31;
  }
  return h;
}

/// The slot of the table that holds this frontier, or is free for it.
int32_t &Layer::find(const uint64_t *key) {
  size_t mask = table.size() - 1, at = hash(key) & mask;
  while (table[at] >= 0 && memcmp(words(size_t(table[at])), key, entryCount * sizeof(uint64_t)) != 0)
    at = (at + 1) & mask;
  return table[at];
}

void Layer::grow() {
  table.assign(table.size() * 4, -1);
  for (size_t i = 0; i < nodes.size(); ++i)
    if (int32_t &slot = find(words(i)); slot < 0)
      slot = int32_t(i); // heads come before the rest of their chains
}

void Layer::add(llvm::ArrayRef<Entry> entries, const Node &node, Cost lambda) {
  std::transform(entries.begin(), entries.end(), scratch.begin(), [](const Entry &e) { return e.pack(); });
  int32_t &head = find(scratch.data());
  if (head >= 0) {
    if (pareto)
      addPareto(head, scratch.data(), node, lambda);
    else
      replaceSingle(nodes[head], node);
  } else {
    head = int32_t(nodes.size());
    nodes.push_back(node);
    keys.insert(keys.end(), scratch.begin(), scratch.end());
  }
  if (nodes.size() * 2 > table.size())
    grow();
}

/// Keeps the cheaper past. Both have the same future, so the larger of the two
/// bounds of it (and the excesses it comes from) holds for whichever stays.
void Layer::replaceSingle(Node &old, const Node &node) {
  Node best = node.paid < old.paid ? node : old;
  const Node &bound = node.future > old.future ? node : old;
  best.future = bound.future;
  best.excess = bound.excess;
  old = best;
}

void Layer::addPareto(int32_t head, const uint64_t *key, const Node &node, Cost lambda) {
  auto cost = [&](const Node &n) { return n.paid - lambda * n.sensitivity; };
  int32_t vacant = -1;
  for (int32_t k = head; k >= 0; k = nodes[k].next) {
    const Node &other = nodes[k];
    if (other.paid >= impossible)
      vacant = k;
    else if (cost(other) <= cost(node) && other.sensitivity <= node.sensitivity)
      return;
  }
  for (int32_t k = head; k >= 0; k = nodes[k].next)
    if (Node &other = nodes[k];
        other.paid < impossible && cost(node) <= cost(other) && node.sensitivity <= other.sensitivity) {
      other.paid = impossible;
      other.future = 0;
      vacant = k;
    }
  Node fresh = node;
  if (vacant >= 0) {
    fresh.next = nodes[vacant].next;
    nodes[vacant] = fresh;
    return;
  }
  fresh.next = nodes[head].next;
  nodes[head].next = int32_t(nodes.size());
  keys.insert(keys.end(), key, key + entryCount);
  nodes.push_back(fresh);
}

Cost Layer::prune(Cost upper, size_t width) {
  std::vector<int32_t> stay;
  for (size_t i = 0; i < nodes.size(); ++i)
    if (nodes[i].bound() < upper)
      stay.push_back(int32_t(i));
  Cost dropped = impossible;
  if (stay.size() > width) {
    auto better = [&](int32_t a, int32_t b) {
      return nodes[a].bound() != nodes[b].bound() ? nodes[a].bound() < nodes[b].bound() : a < b;
    };
    std::nth_element(stay.begin(), stay.begin() + long(width), stay.end(), better);
    for (size_t k = width; k < stay.size(); ++k)
      dropped = std::min(dropped, nodes[stay[k]].bound());
    stay.resize(width);
    std::sort(stay.begin(), stay.end());
  }
  for (size_t k = 0; k < stay.size(); ++k) {
    nodes[k] = nodes[stay[k]];
    std::copy_n(words(size_t(stay[k])), entryCount, keys.begin() + long(k * entryCount));
  }
  nodes.resize(stay.size());
  keys.resize(stay.size() * entryCount);
  return dropped;
}

} // namespace tessera::partition

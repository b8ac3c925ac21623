// Orders of processing. The search carries one entry for each tensor that is
// written and not yet read for the last time, so an order with few of these is
// what makes it fast. Two candidates are compared: the given numbering, and a
// greedy one that takes the ready operator whose entries grow least.
#include "passes/Partition/Graph.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tessera::partition {

Graph::Graph(const Problem &p) : problem(p) {
  producer.assign(p.elements.size(), -1);
  consumers.resize(p.elements.size());
  inputs.resize(size());
  slots.resize(size());
  outputs.resize(size());
  for (size_t j = 0; j < size(); ++j)
    for (int t : p.ops[j].outputs)
      producer[t] = int(j);
  for (size_t j = 0; j < size(); ++j) {
    std::vector<int> read = p.ops[j].inputs;
    std::sort(read.begin(), read.end());
    read.erase(std::unique(read.begin(), read.end()), read.end());
    for (int t : read)
      if (producer[t] >= 0) {
        inputs[j].push_back(t);
        consumers[t].push_back(int(j));
      }
  }
  for (size_t j = 0; j < size(); ++j)
    for (int t : p.ops[j].outputs)
      if (!consumers[t].empty())
        outputs[j].push_back(t);
  chooseOrder();
  for (size_t j = 0; j < size(); ++j)
    for (int t : inputs[j])
      slots[j].push_back(int(std::find(consumers[t].begin(), consumers[t].end(), int(j)) - consumers[t].begin()));
}

Cost Graph::copyCost(int tensor, int from, int to) const {
  if (from == to)
    return 0;
  const std::optional<Conversion> &c = problem.conversions[from][to];
  return c ? c->fixed + (problem.elements[tensor] * c->psPerElement + 999) / 1000 : impossible;
}

void Graph::chooseOrder() {
  std::vector<int> narrow = delaySources(sortBySmallestFrontier());
  std::vector<int> given = delaySources(sortByIndex());
  order = frontierWidth(narrow) <= frontierWidth(given) ? narrow : given;
  position.resize(size());
  for (size_t i = 0; i < order.size(); ++i)
    position[order[i]] = int(i);
  for (std::vector<int> &readers : consumers)
    std::sort(readers.begin(), readers.end(), [&](int a, int b) { return position[a] < position[b]; });
}

/// Bits that an entry of this tensor may carry.
static double entryBits(const Graph &g, int tensor) {
  return std::log2(1.0 + double(g.options(g.producer[tensor]).size()));
}

std::vector<int> Graph::sortBySmallestFrontier() const {
  std::vector<int> missing(size()), unread(producer.size()), ready, sorted;
  for (size_t t = 0; t < producer.size(); ++t)
    unread[t] = int(consumers[t].size());
  for (size_t j = 0; j < size(); ++j)
    if ((missing[j] = int(inputs[j].size())) == 0)
      ready.push_back(int(j));
  auto growth = [&](int j) {
    double bits = inputs[j].empty() ? 1e6 + j : 0; // sources come when nothing else can
    for (int t : outputs[j])
      bits += entryBits(*this, t);
    for (int t : inputs[j])
      if (unread[t] == 1)
        bits -= entryBits(*this, t);
    return bits;
  };
  while (!ready.empty()) {
    size_t best = 0;
    double least = growth(ready[0]);
    for (size_t q = 1; q < ready.size(); ++q)
      if (double bits = growth(ready[q]); bits <= least) { // of equals the latest: depth first
        least = bits;
        best = q;
      }
    int j = ready[best];
    ready.erase(ready.begin() + long(best));
    sorted.push_back(j);
    for (int t : inputs[j])
      --unread[t];
    for (int t : outputs[j])
      for (int k : consumers[t])
        if (--missing[k] == 0)
          ready.push_back(k);
  }
  return sorted;
}

std::vector<int> Graph::sortByIndex() const {
  std::vector<int> missing(size()), heap, sorted;
  auto later = std::greater<int>();
  for (size_t j = 0; j < size(); ++j)
    if ((missing[j] = int(inputs[j].size())) == 0)
      heap.push_back(int(j));
  std::make_heap(heap.begin(), heap.end(), later);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    int j = heap.back();
    heap.pop_back();
    sorted.push_back(j);
    for (int t : outputs[j])
      for (int k : consumers[t])
        if (--missing[k] == 0) {
          heap.push_back(k);
          std::push_heap(heap.begin(), heap.end(), later);
        }
  }
  return sorted;
}

/// Moves operators without inputs to right before their first reader.
std::vector<int> Graph::delaySources(const std::vector<int> &sorted) const {
  std::vector<int> result;
  std::vector<char> placed(size(), 0);
  auto place = [&](int j) {
    if (!placed[j])
      result.push_back(j);
    placed[j] = 1;
  };
  for (int j : sorted) {
    if (inputs[j].empty() && !outputs[j].empty())
      continue;
    for (int t : inputs[j])
      if (inputs[producer[t]].empty())
        place(producer[t]);
    place(j);
  }
  return result;
}

double Graph::frontierWidth(const std::vector<int> &sorted) const {
  std::vector<int> unread(producer.size());
  for (size_t t = 0; t < producer.size(); ++t)
    unread[t] = int(consumers[t].size());
  double bits = 0, most = 0;
  for (int j : sorted) {
    for (int t : inputs[j])
      if (--unread[t] == 0)
        bits -= entryBits(*this, t);
    for (int t : outputs[j])
      bits += entryBits(*this, t);
    most = std::max(most, bits);
  }
  return most;
}

} // namespace tessera::partition

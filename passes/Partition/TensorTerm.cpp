// The term of one tensor: the least sum of its readers' shares and of the copies
// that they need. A copy serves every reader of its state, so the sets of copies
// are enumerated (few states), with closed forms for few readers. With many
// readers each pays an even part of a copy: less than the truth, never more.
#include "passes/Partition/DualBound.h"

#include <algorithm>
#include <array>
#include <bit>
#include <map>

namespace tessera::partition {

/// More readers than this share copies evenly.
constexpr size_t mostEnumeratedReaders = 16;

struct DualBound::Copying {
  std::array<Cost, maxStates> price; ///< 0 when present; `impossible` when unreachable or of no use
  uint32_t present = 0;
};

Cost DualBound::launchTerm(int tensor, size_t slot, int from, int to) const {
  const Device &d = g.problem.devices[to];
  return from == to && d.segments && launchCover.edges[tensor][slot] ? -d.launch * weightScale : 0;
}

uint32_t DualBound::wanted(int tensor, size_t first) const {
  uint32_t states = 0;
  for (size_t k = first; k < g.consumers[tensor].size(); ++k) {
    int j = g.consumers[tensor][k];
    for (size_t x = 0; x < g.options(j).size(); ++x)
      if (isAlive[j][x])
        states |= 1u << g.options(j)[x].input;
  }
  return states;
}

void DualBound::tabulate(int tensor, int device, size_t first) const {
  const std::vector<int> &readers = g.consumers[tensor];
  size_t states = g.stateCount();
  reading.assign(readers.size() * states, impossible);
  for (size_t k = first; k < readers.size(); ++k) {
    const std::vector<Option> &options = g.options(readers[k]);
    const std::vector<char> &live = isAlive[readers[k]];
    const std::vector<Cost> &share = shares[tensor][k + 1];
    for (size_t x = 0; x < options.size(); ++x)
      if (live[x]) {
        Cost &least = reading[k * states + options[x].input];
        least = std::min(least, share[x] + launchTerm(tensor, k, device, options[x].device));
      }
  }
}

DualBound::Copying DualBound::pricesOf(int tensor, int state, uint32_t present, size_t first, size_t skip) const {
  size_t states = g.stateCount(), readers = g.consumers[tensor].size();
  Copying c;
  c.present = present | 1u << state;
  for (size_t s = 0; s < states; ++s) {
    bool useful = skip < readers;
    for (size_t k = first; k < readers && !useful; ++k)
      useful = reading[k * states + s] < impossible;
    c.price[s] = impossible;
    if (c.present >> s & 1)
      c.price[s] = 0;
    else if (Cost price = useful ? g.copyCost(tensor, state, int(s)) : impossible; price < impossible)
      c.price[s] = price * weightScale;
  }
  return c;
}

/// The least over all sets of copies. `given[s]`, if asked for: the least when
/// state s is among those present or paid for. Reader `skip` is left out.
Cost DualBound::minimise(int tensor, int state, uint32_t present, size_t first, size_t skip, Cost *given) const {
  size_t states = g.stateCount(), readers = g.consumers[tensor].size();
  Copying copying = pricesOf(tensor, state, present, first, skip);
  size_t count = readers - first - (skip < readers ? 1 : 0);
  if (given)
    std::fill(given, given + states, impossible);
  if (count == 0) {
    if (given)
      std::copy(copying.price.begin(), copying.price.begin() + long(states), given);
    return 0;
  }
  if (count == 1)
    return minimiseOne(&reading[(first == skip ? first + 1 : first) * states], copying, given);
  if (count == 2 && !given)
    return minimiseTwo(&reading[first * states], &reading[(first + 1) * states], copying);
  if (count > mostEnumeratedReaders)
    return minimiseSplit(tensor, first, skip, copying, given);
  return minimiseSubsets(tensor, first, skip, copying, given);
}

Cost DualBound::minimiseOne(const Cost *reader, const Copying &copying, Cost *given) const {
  Cost least = impossible;
  for (size_t s = 0; s < g.stateCount(); ++s)
    if (reader[s] < impossible && copying.price[s] < impossible)
      least = std::min(least, reader[s] + copying.price[s]);
  for (size_t s = 0; given && s < g.stateCount(); ++s)
    if (Cost price = copying.price[s]; price < impossible) {
      if (least < impossible)
        given[s] = price + least;
      if (reader[s] < impossible)
        given[s] = std::min(given[s], price + reader[s]);
    }
  return least;
}

Cost DualBound::minimiseTwo(const Cost *a, const Cost *b, const Copying &copying) const {
  Cost least = impossible;
  for (size_t s = 0; s < g.stateCount(); ++s) {
    if (a[s] >= impossible || copying.price[s] >= impossible)
      continue;
    for (size_t r = 0; r < g.stateCount(); ++r)
      if (b[r] < impossible && copying.price[r] < impossible)
        least = std::min(least, a[s] + b[r] + copying.price[s] + (r == s ? 0 : copying.price[r]));
  }
  return least;
}

Cost DualBound::minimiseSubsets(int tensor, size_t first, size_t skip, const Copying &copying, Cost *given) const {
  size_t states = g.stateCount(), readers = g.consumers[tensor].size();
  uint32_t buyable = 0;
  for (size_t s = 0; s < states; ++s)
    if (!(copying.present >> s & 1) && copying.price[s] < impossible)
      buyable |= 1u << s;
  Cost least = impossible;
  for (uint32_t bought = buyable;; bought = (bought - 1) & buyable) {
    uint32_t have = bought | copying.present;
    Cost sum = 0;
    for (uint32_t rest = bought; rest; rest &= rest - 1)
      sum += copying.price[std::countr_zero(rest)];
    for (size_t k = first; k < readers && sum < impossible; ++k) {
      if (k == skip)
        continue;
      Cost best = impossible;
      for (uint32_t rest = have; rest; rest &= rest - 1)
        best = std::min(best, reading[k * states + std::countr_zero(rest)]);
      sum = best >= impossible ? impossible : sum + best;
    }
    if (sum < impossible) {
      least = std::min(least, sum);
      for (uint32_t rest = given ? have : 0; rest; rest &= rest - 1)
        given[std::countr_zero(rest)] = std::min(given[std::countr_zero(rest)], sum);
    }
    if (!bought)
      return least;
  }
}

Cost DualBound::minimiseSplit(int tensor, size_t first, size_t skip, const Copying &copying, Cost *given) const {
  size_t states = g.stateCount(), readers = g.consumers[tensor].size();
  Cost parts = Cost(readers), sum = 0;
  for (size_t k = first; k < readers; ++k) {
    if (k == skip)
      continue;
    Cost best = impossible;
    for (size_t s = 0; s < states; ++s)
      if (reading[k * states + s] < impossible && copying.price[s] < impossible)
        best = std::min(best, reading[k * states + s] + copying.price[s] / parts);
    if (best >= impossible)
      return impossible;
    sum += best;
  }
  for (size_t s = 0; given && s < states; ++s)
    if (copying.price[s] < impossible)
      given[s] = sum + copying.price[s] / parts;
  return sum;
}

Cost DualBound::toGo(int tensor, int device, int state, uint32_t present, size_t first) const {
  if (first >= g.consumers[tensor].size())
    return 0;
  tabulate(tensor, device, first);
  return minimise(tensor, state, present, first, g.consumers[tensor].size(), nullptr);
}

/// Per option of the writer: the least of the term.
std::vector<Cost> DualBound::producerMarginals(int tensor) const {
  int writer = g.producer[tensor];
  const std::vector<Option> &options = g.options(writer);
  std::vector<Cost> result(options.size(), impossible);
  std::vector<Cost> known(maxDevices * maxStates, -1);
  std::vector<char> isKnown(maxDevices * maxStates, 0);
  for (size_t x = 0; x < options.size(); ++x) {
    if (!isAlive[writer][x])
      continue;
    size_t at = size_t(options[x].device) * maxStates + size_t(options[x].output);
    if (!isKnown[at]) {
      known[at] = toGo(tensor, options[x].device, options[x].output, 0, 0);
      isKnown[at] = 1;
    }
    result[x] = known[at] >= impossible ? impossible : known[at] + shares[tensor][0][x];
  }
  return result;
}

/// Per option of one reader: the least of the term.
std::vector<Cost> DualBound::consumerMarginals(int tensor, size_t slot) const {
  int writer = g.producer[tensor], reader = g.consumers[tensor][slot];
  const std::vector<Option> &from = g.options(writer), &to = g.options(reader);
  std::vector<Cost> result(to.size(), impossible), given(g.stateCount());
  std::map<std::pair<int, int>, Cost> written; // device and state -> least share of the writer
  for (size_t x = 0; x < from.size(); ++x)
    if (isAlive[writer][x]) {
      auto [it, fresh] = written.try_emplace({from[x].device, from[x].output}, shares[tensor][0][x]);
      if (!fresh)
        it->second = std::min(it->second, shares[tensor][0][x]);
    }
  int tabulated = -1;
  for (auto [place, share] : written) {
    auto [device, state] = place;
    if (device != tabulated)
      tabulate(tensor, device, 0);
    tabulated = device;
    minimise(tensor, state, 0, 0, slot, given.data());
    for (size_t y = 0; y < to.size(); ++y)
      if (isAlive[reader][y] && given[to[y].input] < impossible)
        result[y] = std::min(result[y], share + given[to[y].input] + shares[tensor][slot + 1][y] +
                                            launchTerm(tensor, slot, device, to[y].device));
  }
  return result;
}

Cost DualBound::leastTerm(int tensor) const {
  std::vector<Cost> marginals = producerMarginals(tensor);
  return *std::min_element(marginals.begin(), marginals.end());
}

} // namespace tessera::partition

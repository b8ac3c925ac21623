#include "passes/Partition/StartingAnswers.h"

#include <algorithm>

namespace tessera::partition {

static Allowed nothing(const Allowed &like) {
  Allowed none = like;
  for (std::vector<char> &options : none)
    std::fill(options.begin(), options.end(), 0);
  return none;
}

std::optional<Allowed> hostOnly(const Graph &g, const Allowed &allowed) {
  if (!g.problem.hostFirst())
    return std::nullopt;
  Allowed host = allowed;
  for (size_t j = 0; j < g.size(); ++j) {
    for (size_t x = 0; x < host[j].size(); ++x)
      host[j][x] &= g.options(int(j))[x].device == 0;
    if (!llvm::is_contained(host[j], 1))
      return std::nullopt;
  }
  return host;
}

Allowed lastDeviceFirst(const Graph &g, const Allowed &allowed) {
  Allowed picked = nothing(allowed);
  for (size_t j = 0; j < g.size(); ++j) {
    const std::vector<Option> &options = g.options(int(j));
    int best = -1;
    for (size_t x = 0; x < options.size(); ++x) {
      if (!allowed[j][x])
        continue;
      if (best < 0 || options[x].device > options[best].device ||
          (options[x].device == options[best].device && options[x].cost < options[best].cost))
        best = int(x);
    }
    if (best >= 0)
      picked[j][best] = 1;
  }
  return picked;
}

Allowed cheapestInOrder(const Graph &g, const Allowed &allowed) {
  Allowed picked = nothing(allowed);
  std::vector<int> choice(g.size(), 0);
  std::vector<uint32_t> present(g.producer.size(), 0);
  auto price = [&](int j, const Option &o) {
    Cost sum = o.cost;
    bool neighbour = false;
    for (int t : g.inputs[j]) {
      const Option &from = g.options(g.producer[t])[choice[g.producer[t]]];
      Cost copy = present[t] >> o.input & 1 ? 0 : g.copyCost(t, from.output, o.input);
      if (copy >= impossible)
        return impossible;
      sum += copy;
      neighbour |= from.device == o.device;
    }
    return sum + (g.deviceOf(o).segments && !neighbour ? g.deviceOf(o).launch : 0);
  };
  for (int j : g.order) {
    Cost least = impossible;
    int best = -1;
    for (size_t x = 0; x < g.options(j).size(); ++x) {
      if (!allowed[j][x])
        continue;
      Cost c = price(j, g.options(j)[x]);
      if (best < 0 || c < least) {
        least = c;
        best = int(x);
      }
    }
    if (best < 0)
      return picked;
    choice[j] = best;
    picked[j][best] = 1;
    for (int t : g.inputs[j])
      present[t] |= 1u << g.options(j)[best].input;
  }
  return picked;
}

} // namespace tessera::partition

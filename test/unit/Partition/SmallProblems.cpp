// The enumeration goes by the definition: every option of every operator, then
// every division of the operators on devices with segments into blocks, each
// tried for connectedness and for cycles. It is cut short only where the sum so
// far is no better than the best.
#include "SmallProblems.h"

#include <algorithm>
#include <array>

namespace tessera::partition::test {

static std::vector<int> pickInputs(Dice &dice, int tensors, int span, int most) {
  std::vector<int> inputs;
  int first = std::max(0, tensors - span);
  int count = tensors ? dice.between(dice.chance(25) ? 0 : 1, most) : 0;
  for (int k = 0; k < count; ++k)
    if (int t = dice.between(first, tensors - 1); std::find(inputs.begin(), inputs.end(), t) == inputs.end())
      inputs.push_back(t);
  return inputs;
}

static std::vector<Option> makeOptions(Dice &dice, const std::vector<std::vector<int>> &statesOf) {
  std::vector<Option> options;
  bool onAccelerator = false;
  for (int d = 0; d < int(statesOf.size()); ++d) {
    if (d && dice.chance(25))
      continue;
    auto state = [&] { return statesOf[d][dice.upTo(int(statesOf[d].size()) - 1)]; };
    for (int k = dice.chance(60) ? 1 : 2; k > 0; --k) {
      int input = state(), output = state();
      options.push_back({d, input, output, dice.between(1, 100) / (d ? 3 : 1), d || dice.chance(20) ? dice.upTo(20) : 0});
    }
    onAccelerator |= d > 0;
  }
  if (onAccelerator && dice.chance(20))
    std::erase_if(options, [](const Option &o) { return o.device == 0; });
  return options;
}

Problem smallProblem(uint32_t seed, bool budget) {
  Dice dice(seed);
  Problem p;
  int ops = dice.between(3, 9), devices = dice.chance(34) ? 2 : 3, states = devices + dice.upTo(2);
  constexpr std::array<int, 5> launches{0, 5, 20, 60, 150};
  std::vector<std::vector<int>> statesOf(static_cast<size_t>(devices));
  for (int d = 0; d < devices; ++d)
    p.devices.push_back({"d" + std::to_string(d), d ? launches[dice.upTo(4)] : 0, d > 0});
  for (int s = 0; s < states; ++s) {
    p.states.push_back("s" + std::to_string(s));
    statesOf[s < devices ? s : dice.upTo(devices - 1)].push_back(s);
  }
  int fixed = dice.chance(33) ? 2 : dice.chance(50) ? 10 : 40;
  for (int a = 0; a < states; ++a) {
    p.conversions.emplace_back();
    for (int b = 0; b < states; ++b)
      if (a != b && dice.chance(4))
        p.conversions.back().push_back(std::nullopt);
      else
        p.conversions.back().push_back(a == b ? Conversion{} : Conversion{dice.upTo(fixed), dice.upTo(3000)});
  }
  int span = dice.chance(33) ? 2 : dice.chance(50) ? 3 : 10, fan = dice.between(1, 3);
  for (int j = 0; j < ops; ++j) {
    Op op;
    op.name = "o" + std::to_string(j);
    op.inputs = pickInputs(dice, int(p.elements.size()), span, fan);
    for (int k = dice.chance(85) ? 1 : 2; k > 0; --k) {
      op.outputs.push_back(int(p.elements.size()));
      p.elements.push_back(dice.chance(50) ? 1 : dice.between(1, 10));
    }
    op.options = makeOptions(dice, statesOf);
    p.ops.push_back(op);
  }
  if (budget)
    p.budget = dice.upTo(8 * ops);
  return p;
}

namespace {

class Enumeration {
public:
  explicit Enumeration(const Problem &p) : p(p), count(int(p.ops.size())), writer(p.elements.size(), -1) {
    for (int j = 0; j < count; ++j)
      for (int t : p.ops[j].outputs)
        writer[t] = j;
    choice.resize(p.ops.size());
    block.assign(p.ops.size(), -1);
    present.assign(p.elements.size(), 0);
  }

  std::optional<Cost> run() {
    choose(0, 0, 0);
    return best;
  }

private:
  const Option &chosen(int j) const { return p.ops[j].options[choice[j]]; }
  bool worse(Cost c) const { return best && c >= *best; }

  /// Operator `j` and those after it. Operators are in topological order.
  void choose(int j, Cost sum, Cost sensitivity) {
    if (worse(sum) || (p.budget && sensitivity > *p.budget))
      return;
    if (j == count)
      return divide(0, 0, sum);
    for (size_t x = 0; x < p.ops[j].options.size(); ++x) {
      choice[j] = int(x);
      std::vector<uint32_t> before = present;
      if (std::optional<Cost> copies = copyInputs(j))
        choose(j + 1, sum + chosen(j).cost + *copies, sensitivity + chosen(j).sensitivity);
      present = before;
    }
  }

  std::optional<Cost> copyInputs(int j) {
    Cost sum = 0;
    int to = chosen(j).input;
    for (int t : p.ops[j].inputs) {
      if (writer[t] < 0)
        continue;
      int from = chosen(writer[t]).output;
      if (from == to || (present[t] >> to & 1))
        continue;
      const auto &c = p.conversions[from][to];
      if (!c)
        return std::nullopt;
      sum += c->fixed + (p.elements[t] * c->psPerElement + 999) / 1000;
      present[t] |= 1u << to;
    }
    for (int t : p.ops[j].outputs)
      present[t] = 0;
    return sum;
  }

  /// Puts operator `j` into each block of its device, or a new one.
  void divide(int j, int blocks, Cost sum) {
    if (worse(sum))
      return;
    if (j == count) {
      if (legal(blocks))
        best = sum;
      return;
    }
    const Device &d = p.devices[chosen(j).device];
    if (!d.segments) {
      block[j] = -1;
      return divide(j + 1, blocks, sum);
    }
    for (int b = 0; b < blocks; ++b)
      if (deviceOfBlock[b] == chosen(j).device) {
        block[j] = b;
        divide(j + 1, blocks, sum);
      }
    deviceOfBlock[blocks] = chosen(j).device;
    block[j] = blocks;
    divide(j + 1, blocks + 1, sum + d.launch);
  }

  bool legal(int blocks) const {
    // Units: blocks, then single operators. after[u]: units that follow u.
    std::array<uint32_t, 32> after{};
    std::array<uint32_t, 16> near{};
    auto unit = [&](int j) { return block[j] >= 0 ? block[j] : 16 + j; };
    for (int j = 0; j < count; ++j)
      for (int t : p.ops[j].inputs) {
        int i = writer[t];
        if (i < 0)
          continue;
        if (unit(i) != unit(j)) {
          after[unit(i)] |= 1u << unit(j);
          continue;
        }
        near[i] |= 1u << j;
        near[j] |= 1u << i;
      }
    for (int k = 0; k < 32; ++k)
      for (uint32_t &set : after)
        if (set >> k & 1)
          set |= after[k];
    for (int u = 0; u < 32; ++u)
      if (after[u] >> u & 1)
        return false;
    for (int b = 0; b < blocks; ++b)
      if (!connected(b, near))
        return false;
    return true;
  }

  bool connected(int b, const std::array<uint32_t, 16> &near) const {
    uint32_t members = 0;
    for (int j = 0; j < count; ++j)
      if (block[j] == b)
        members |= 1u << j;
    uint32_t met = members & -members, last = 0;
    while (met != last) {
      last = met;
      for (int j = 0; j < count; ++j)
        if (met >> j & 1)
          met |= near[j];
    }
    return met == members;
  }

  const Problem &p;
  int count;
  std::vector<int> writer, choice, block;
  std::array<int, 16> deviceOfBlock{};
  std::vector<uint32_t> present;
  std::optional<Cost> best;
};

} // namespace

std::optional<Cost> enumerateOptimum(const Problem &problem) { return Enumeration(problem).run(); }

std::string textOf(const Problem &problem) {
  std::string text;
  llvm::raw_string_ostream os(text);
  writeProblem(problem, os);
  return text;
}

std::string textOf(const Solution &solution) {
  std::string text;
  llvm::raw_string_ostream os(text);
  writeSolution(solution, os);
  return text;
}

} // namespace tessera::partition::test

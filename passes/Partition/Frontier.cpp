// The rule of joining: an operator may join a set M of open segments that it
// reads from, if no member of M reaches another member or an input outside M.
// Otherwise contracting the joined segment would close a cycle. That no legal
// answer is lost is argued in Rationale.md.
#include "passes/Partition/Frontier.h"

#include <algorithm>
#include <bit>

namespace tessera::partition {

void ToGo::pass(int tensor, size_t firstReader) {
  PerTensor &t = tensors[tensor];
  t.first = firstReader;
  t.known.clear();
  t.wanted = bound.wanted(tensor, firstReader);
  t.devices = 0;
  for (size_t k = firstReader; k < g.consumers[tensor].size(); ++k) {
    int j = g.consumers[tensor][k];
    for (size_t x = 0; x < g.options(j).size(); ++x)
      if (bound.alive(j, int(x)))
        t.devices |= 1u << g.options(j)[x].device;
  }
}

Cost ToGo::get(int tensor, const Entry &e) {
  PerTensor &t = tensors[tensor];
  uint32_t key = uint32_t(e.device) << 24 | uint32_t(e.state) << 16 | e.copies;
  auto [it, fresh] = t.known.try_emplace(key, 0);
  if (fresh)
    it->second = bound.toGo(tensor, e.device, e.state, e.copies, t.first);
  return it->second;
}

void Parent::read(const uint64_t *words, size_t count, const Excess &from) {
  entries.resize(count);
  excess = from;
  open = 0;
  for (size_t k = 0; k < count; ++k) {
    entries[k] = Entry::unpack(words[k]);
    if (int s = entries[k].segment; s >= 0) {
      reach[s] = entries[k].reach;
      open = std::max(open, s + 1);
    }
  }
}

Cost Stepper::copies(const Step &step, const Parent &p, const Option &option) const {
  Cost sum = 0;
  for (size_t q = 0; q < step.inputAt.size(); ++q) {
    const Entry &e = p.entries[step.inputAt[q]];
    if (e.state == option.input || (e.copies >> option.input & 1))
      continue;
    Cost c = g.copyCost(g.inputs[step.op][q], e.state, option.input);
    if (c >= impossible)
      return impossible;
    sum += c * weightScale;
  }
  return sum;
}

uint16_t Stepper::joinable(const Step &step, const Parent &p, const Option &option) const {
  uint16_t set = 0;
  if (!g.deviceOf(option).segments)
    return set;
  for (int at : step.inputAt)
    if (const Entry &e = p.entries[at]; e.segment >= 0 && e.device == option.device)
      set |= uint16_t(1u << e.segment);
  return set;
}

bool Stepper::legal(const Step &step, const Parent &p, uint16_t joined) const {
  for (uint32_t rest = joined; rest; rest &= rest - 1)
    if (p.reach[std::countr_zero(rest)] & joined)
      return false;
  for (int at : step.inputAt) {
    const Entry &e = p.entries[at];
    bool member = e.segment >= 0 && (joined >> e.segment & 1);
    if (!member && (e.reach & joined))
      return false;
  }
  return true;
}

/// Open segments that reach the operator's segment once it has joined.
uint16_t Stepper::reachedFrom(const Step &step, const Parent &p, uint16_t joined) const {
  uint32_t set = 0;
  for (uint32_t rest = joined; rest; rest &= rest - 1)
    set |= p.reach[std::countr_zero(rest)];
  for (int at : step.inputAt) {
    const Entry &e = p.entries[at];
    if (e.segment >= 0 && (joined >> e.segment & 1))
      continue;
    set |= e.reach | (e.segment >= 0 ? 1u << e.segment : 0);
  }
  return uint16_t(set & ~uint32_t(joined));
}

int16_t Stepper::excessOf(const Step &step, const Parent &p, uint16_t joined) const {
  int sum = bound.cover().ops[step.op];
  for (uint32_t rest = joined; rest; rest &= rest - 1)
    sum += p.excess[std::countr_zero(rest)];
  for (size_t q = 0; q < step.inputAt.size(); ++q) {
    int s = p.entries[step.inputAt[q]].segment;
    if (s >= 0 && (joined >> s & 1))
      sum -= bound.cover().edges[g.inputs[step.op][q]][g.slots[step.op][q]];
  }
  return int16_t(std::max(sum, -30000));
}

void Stepper::apply(const Step &step, const Parent &p, const Option &option, uint16_t joined, Child &child) const {
  uint16_t reached = reachedFrom(step, p, joined);
  // What the joined segments reach, the operator's segment reaches now, and
  // whatever reaches that one does too.
  auto follow = [&](uint16_t set) -> uint16_t {
    return set & joined ? uint16_t((set & ~joined) | 1u << ownSegment | reached) : set;
  };
  PerSegment<uint16_t> reach{};
  Excess excess = p.excess;
  for (int m = 0; m < p.open; ++m)
    reach[m] = follow(p.reach[m]);
  reach[ownSegment] = reached;
  excess[ownSegment] = excessOf(step, p, joined);
  child.entries.resize(step.live.size());
  for (size_t k = 0; k < step.live.size(); ++k) {
    Entry &e = child.entries[k];
    if (k >= step.keptAt.size()) {
      bool segments = g.deviceOf(option).segments;
      e = {0, reached, uint8_t(option.device), uint8_t(option.output), int8_t(segments ? ownSegment : -1)};
      continue;
    }
    e = p.entries[step.keptAt[k]];
    e.reach = follow(e.reach);
    if (e.segment >= 0 && (joined >> e.segment & 1))
      e.segment = ownSegment;
    if (step.keptInput[k])
      e.copies |= uint16_t(1u << option.input);
  }
  renumber(step, reach, excess, child);
}

/// Seals segments that no later operator can join, numbers the others in order
/// of their first tensor, and drops what nobody will want.
void Stepper::renumber(const Step &step, const PerSegment<uint16_t> &reach, const Excess &excess,
                       Child &child) const {
  uint32_t open = 0;
  for (size_t k = 0; k < step.live.size(); ++k)
    if (const Entry &e = child.entries[k]; e.segment >= 0 && (toGo.devices(step.live[k]) >> e.device & 1))
      open |= 1u << e.segment;
  child.number.fill(-1);
  child.credit = 0;
  child.overflow = false;
  int count = 0;
  for (Entry &e : child.entries) {
    int s = e.segment;
    if (s < 0)
      continue;
    e.reach = reach[s];
    if (!(open >> s & 1)) {
      e.segment = -1;
      continue;
    }
    if (child.number[s] < 0) {
      child.credit += (1 - excess[s]) * g.problem.devices[e.device].launch * weightScale;
      if (count == maxOpen) {
        child.overflow = true; // only the bound of this state is still read
        e.segment = -1;
        continue;
      }
      child.number[s] = int8_t(count);
      child.excess[count++] = excess[s];
    }
    e.segment = child.number[s];
  }
  for (size_t k = 0; k < step.live.size(); ++k) {
    Entry &e = child.entries[k];
    uint32_t numbered = 0;
    for (uint32_t rest = e.reach; rest; rest &= rest - 1)
      if (int n = child.number[std::countr_zero(rest)]; n >= 0)
        numbered |= 1u << n;
    e.reach = uint16_t(numbered);
    e.copies &= uint16_t(toGo.wanted(step.live[k]) & ~(1u << e.state));
  }
}

Cost Stepper::future(const Step &step, const Child &child) const {
  Cost sum = step.rest - child.credit;
  for (size_t k = 0; k < step.live.size(); ++k) {
    Cost c = toGo.get(step.live[k], child.entries[k]);
    if (c >= impossible)
      return impossible;
    sum += c;
  }
  return sum;
}

} // namespace tessera::partition

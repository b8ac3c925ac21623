#include "targets/Cpu/Kernels/Lanes.h"

using namespace mlir;

namespace tessera::cpu {

LaneFold::LaneFold(KernelEmitter &e, unsigned elementBits, unsigned unroll, ArrayRef<Value> initial)
    : e(e), unroll(unroll), lanes(e.isa.lanes(std::max(8u, elementBits))),
      scalarTail(!e.isa.hasMaskedOps), initial(initial) {
  if (lanes.isScalar())
    this->unroll = 0, scalarTail = true;
}

SmallVector<Value> LaneFold::start() {
  SmallVector<Value> flat;
  for (unsigned u = 0; u < unroll; ++u)
    for (Value v : initial)
      flat.push_back(e.splat(v, lanes));
  if (scalarTail)
    flat.append(initial);
  return flat;
}

SmallVector<Value> LaneFold::run(Value n, ArrayRef<Value> flatIn, Step step) {
  SmallVector<Value> flat(flatIn);
  unsigned size = initial.size();
  auto set = [&](ArrayRef<Value> list, unsigned u) { return list.slice(u * size, size); };
  auto put = [&](SmallVectorImpl<Value> &list, unsigned u, const Accs &accs) {
    for (unsigned i = 0; i < size; ++i)
      list[u * size + i] = accs[i];
  };
  Value done = e.idx(0);
  if (unroll) {
    Value width = e.laneCount(lanes);
    auto vectors = [&](Value to, unsigned count) {
      Value stride = e.mul(width, count);
      Value end = e.mul(e.divU(to, stride), stride);
      flat = e.forLoop(done, end, stride, flat, [&](Value i, ValueRange carried) {
        SmallVector<Value> next(carried);
        for (unsigned u = 0; u < count; ++u)
          put(next, u, step(set(next, u), e.add(i, e.mul(width, u)), lanes, {}));
        return next;
      });
      done = end;
    };
    if (unroll > 1)
      vectors(n, unroll);
    vectors(n, 1);
  }
  if (scalarTail) {
    flat = e.forLoop(done, n, e.idx(1), flat, [&](Value i, ValueRange carried) {
      SmallVector<Value> next(carried);
      put(next, unroll, step(set(next, unroll), i, e.scalarLanes(), {}));
      return next;
    });
    return flat;
  }
  Value rest = e.lt(done, n);
  if (e.constantOf(rest) == 0)
    return flat;
  SmallVector<Type> types;
  for (Value v : set(flat, 0))
    types.push_back(v.getType());
  SmallVector<Value> before(set(flat, 0));
  SmallVector<Value> after = e.ifElse(
      rest, types,
      [&] {
        Value mask = e.laneMask(done, n, lanes);
        Accs next = step(before, done, lanes, mask);
        for (unsigned i = 0; i < size; ++i)
          next[i] = arith::SelectOp::create(e.b, e.loc, mask, next[i], before[i]);
        return SmallVector<Value>(next);
      },
      [&] { return before; });
  put(flat, 0, after);
  return flat;
}

Accs LaneFold::finish(ArrayRef<Value> flat,
                      function_ref<Accs(ArrayRef<Value>, ArrayRef<Value>)> join,
                      function_ref<Accs(ArrayRef<Value>)> across) {
  unsigned size = initial.size();
  if (!unroll)
    return Accs(flat);
  SmallVector<Accs> sets;
  for (unsigned u = 0; u < unroll; ++u)
    sets.emplace_back(flat.slice(u * size, size));
  while (sets.size() > 1) {
    SmallVector<Accs> next;
    for (unsigned i = 0; i + 1 < sets.size(); i += 2)
      next.push_back(join(sets[i], sets[i + 1]));
    if (sets.size() % 2)
      next.push_back(sets.back());
    sets = next;
  }
  Accs result = across(sets[0]);
  if (scalarTail)
    result = join(result, flat.slice(unroll * size, size));
  return result;
}

void laneGroups(KernelEmitter &e, Value n, Lanes lanes, unsigned group,
                function_ref<void(Value, unsigned, Lanes, Value)> body) {
  if (lanes.isScalar()) {
    e.forLoop(n, [&](Value i) { body(i, 1, lanes, {}); });
    return;
  }
  Value width = e.laneCount(lanes), done = e.idx(0);
  for (unsigned g = group; g >= 1; g = g > 1 ? 1 : 0) {
    Value stride = e.mul(width, g);
    Value end = e.add(done, e.mul(e.divU(e.sub(n, done), stride), stride));
    e.forLoop(done, end, stride, [&](Value i) { body(i, g, lanes, {}); });
    done = end;
  }
  if (e.isa.hasMaskedOps) {
    e.ifThen(e.lt(done, n), [&] { body(done, 1, lanes, e.laneMask(done, n, lanes)); });
    return;
  }
  e.forLoop(done, n, e.idx(1), [&](Value i) { body(i, 1, e.scalarLanes(), {}); });
}

} // namespace tessera::cpu

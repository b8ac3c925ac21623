#include "targets/Cpu/Kernels/TreeScores.h"
#include "targets/Cpu/Math.h"

using namespace mlir;

namespace tessera::cpu {

using P = arith::CmpFPredicate;

Value TreeScores::best() {
  return e.forLoop(e.idx(1), count, e.idx(1), ValueRange{e.idx(0), get(e.idx(0))}, [&](Value k, ValueRange c) -> SmallVector<Value> {
    Value s = get(k), more = e.cmpF(P::OGT, s, c[1]);
    return {e.select(more, k, c[0]), e.select(more, s, c[1])};
  })[0];
}

Value TreeScores::splitBinary(PostTransform post, bool positive) {
  Value s = e.addF(get(e.idx(0)), get(e.idx(1)));
  auto setBoth = [&](Value first, Value second) {
    set(e.idx(0), first);
    set(e.idx(1), second);
  };
  if (positive && post == PostTransform::None) {
    setBoth(e.subF(d(1), s), s);
  } else {
    setBoth(e.subF(d(0), s), s);
    transform(post);
  }
  return e.select(e.cmpF(P::OGT, s, d(positive ? 0.5 : 0)), e.idx(1), e.idx(0));
}

void TreeScores::transform(PostTransform post) {
  switch (post) {
  case PostTransform::None:
    return;
  case PostTransform::Softmax:
  case PostTransform::SoftmaxZero:
    return softmax(post == PostTransform::SoftmaxZero);
  case PostTransform::Logistic:
    return e.forLoop(count, [&](Value k) { set(k, math::sigmoid(e, get(k))); });
  case PostTransform::Probit:
    return e.forLoop(count, [&](Value k) { set(k, probit(get(k))); });
  }
}

Value TreeScores::probit(Value x) {
  // sqrt(2) * erfinv(2 x - 1), Winitzki's approximation as in the reference.
  Value y = e.subF(e.mulF(x, d(2)), d(1));
  Value sign = e.select(e.cmpF(P::OLT, y, d(0)), d(-1), d(1));
  Value rest = e.mulF(e.subF(d(1), y), e.addF(d(1), y));
  Value log = math::log(e, rest);
  Value a = e.addF(d(2 / (3.14159265358979323846 * 0.147)), e.mulF(d(0.5), log));
  Value inner = math::sqrt(e, e.subF(e.mulF(a, a), e.mulF(d(1 / 0.147), log)));
  Value root = math::sqrt(e, e.subF(inner, a));
  Value result = e.select(e.cmpF(P::OEQ, rest, d(0)), d(0), e.mulF(sign, root));
  return e.mulF(d(1.41421356), result);
}

void TreeScores::softmax(bool keepsZeros) {
  Value most = e.forLoop(e.idx(0), count, e.idx(1), ValueRange{d(-INFINITY)}, [&](Value k, ValueRange c) -> SmallVector<Value> {
    return {e.maxF(c[0], get(k))};
  })[0];
  Value sum = e.forLoop(e.idx(0), count, e.idx(1), ValueRange{d(0)}, [&](Value k, ValueRange c) -> SmallVector<Value> {
    Value s = get(k), t = math::exp(e, e.subF(s, most));
    if (keepsZeros) { // scores of zero stay small
      Value tiny = e.cmpF(P::OLE, math::abs(e, s), d(1e-7f));
      t = e.select(tiny, e.mulF(s, math::exp(e, e.subF(d(0), most))), t);
    }
    set(k, t);
    return {e.addF(c[0], t)};
  })[0];
  Value none = e.cmpF(P::OEQ, sum, d(0));
  e.forLoop(count, [&](Value k) { set(k, e.select(none, d(0.5), e.divF(get(k), e.select(none, d(1), sum)))); });
}

} // namespace tessera::cpu

// LSTM, GRU, RNN: a workgroup goes through one sequence in one direction, its
// invocations share the units. The states are in shared memory, with a barrier
// where one unit reads another's.
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "targets/Cpu/Math.h"
#include "targets/Vulkan/Kernels/Boxes.h"

using namespace mlir;

namespace tessera::vulkan {
namespace {

class Recurrent {
public:
  Recurrent(tsr::DispatchOp op, Emitter &e)
      : op(op), e(e), root(op.getRootOp()),
        kind(root->getName().stripDialect()) {}
  LogicalResult emit();

private:
  LogicalResult readOperands();
  LogicalResult readAttributes();
  void setGrid();
  void run();
  void step(Index at);
  void forUnits(llvm::function_ref<void(Index)> body);
  SmallVector<Value> gateSums(ArrayRef<unsigned> gates, Index unit,
                              Value recurrentState, bool inputToo);
  Value bias(unsigned gate, Index unit, bool recurrent);
  Value activation(unsigned which, Value v);
  Value gate(unsigned which, Value v);
  Value stateOf(Buffer *t, Index unit);
  void newLstm(Index unit);
  void newGru(Index unit);
  void putOut(Index unit, Value h);
  Index place(Buffer &t, Index unit);

  tsr::DispatchOp op;
  Emitter &e;
  Operation *root;
  StringRef kind;
  Buffer *x, *w, *r, *b, *lengths, *h0, *c0, *peepholes, *y, *yh, *yc;
  unsigned gates = 1, directions = 1;
  bool reverse = false, batchFirst = false, linearBeforeReset = false,
       inputForget = false;
  double clip = 0;
  SmallVector<std::string> activations; ///< of one direction
  int64_t sequence, batch, inputs, hidden, threads = 1;
  Value h, next, c, rh; ///< shared
  Index image = 0, direction = 0, stepAt = 0, time = 0;
  Value active; ///< the sequence has this step; null: always
};

LogicalResult Recurrent::readOperands() {
  Buffer **all[] = {&x, &w, &r, &b, &lengths, &h0, &c0, &peepholes};
  for (auto [i, t] : llvm::enumerate(all)) {
    *t = rootBuffer(op, e, i);
    bool given = static_cast<bool>(onnx::getOptionalOperand(root, i));
    if (given != (*t != nullptr))
      return e.reasons.no() << "a recurrent operator with an embedded operand";
    if (*t && *t != lengths && !(*t)->element.isF32() &&
        !(*t)->element.isF16() && !(*t)->element.isBF16())
      return e.reasons.no()
             << kind << " of " << onnx::getTypeName((*t)->element);
  }
  y = rootResult(op, e, 0), yh = rootResult(op, e, 1),
  yc = rootResult(op, e, 2);
  return requireAlone(op, e);
}

LogicalResult Recurrent::readAttributes() {
  gates = kind == "LSTM" ? 4 : kind == "GRU" ? 3 : 1;
  StringRef way = onnx::getString(root, "direction", "forward");
  directions = way == "bidirectional" ? 2 : 1;
  reverse = way == "reverse";
  batchFirst = onnx::getInt(root, "layout", 0) != 0;
  linearBeforeReset = onnx::getInt(root, "linear_before_reset", 0) != 0;
  inputForget = onnx::getInt(root, "input_forget", 0) != 0;
  clip = onnx::getFloat(root, "clip", 0);
  SmallVector<StringRef> names = onnx::getStrings(root, "activations");
  SmallVector<StringRef> usual =
      kind == "LSTM"  ? SmallVector<StringRef>{"sigmoid", "tanh", "tanh"}
      : kind == "GRU" ? SmallVector<StringRef>{"sigmoid", "tanh"}
                      : SmallVector<StringRef>{"tanh"};
  for (unsigned i = 0; i < usual.size() * directions; ++i) {
    std::string name =
        i < names.size() ? names[i].lower() : usual[i % usual.size()].str();
    if (name != "sigmoid" && name != "tanh" && name != "relu")
      return e.reasons.no() << "activation " << name;
    if (i < usual.size())
      activations.push_back(name);
    else if (activations[i - usual.size()] != name)
      return e.reasons.no() << "activations that differ with the direction";
  }
  sequence = x->dims[batchFirst ? 1 : 0], batch = x->dims[batchFirst ? 0 : 1];
  inputs = x->dims[2], hidden = r->dims[2];
  auto fits = [&](Buffer *t, std::initializer_list<int64_t> dims) {
    return !t || ArrayRef<int64_t>(t->dims) == ArrayRef<int64_t>(dims);
  };
  int64_t first = batchFirst ? batch : directions,
          second = batchFirst ? directions : batch;
  if (!fits(w, {directions, gates * hidden, inputs}) ||
      !fits(r, {directions, gates * hidden, hidden}) ||
      !fits(b, {directions, 2 * gates * hidden}) || !fits(lengths, {batch}) ||
      !fits(h0, {first, second, hidden}) ||
      !fits(c0, {first, second, hidden}) ||
      !fits(peepholes, {directions, 3 * hidden}))
    return e.reasons.no() << "parameters whose sizes do not belong together";
  return success();
}

void Recurrent::setGrid() {
  int64_t most = std::min<int64_t>(
      {e.device.maxInvocations, e.device.maxLocal[0], int64_t(256)});
  while (threads < hidden && threads * 2 <= most)
    threads *= 2;
  e.kernel.local = {static_cast<uint32_t>(threads), 1, 1};
  e.kernel.groups = {static_cast<uint32_t>(batch), directions, 1};
  image = e.groupId(0);
  direction = e.groupId(1);
}

void Recurrent::forUnits(llvm::function_ref<void(Index)> body) {
  int64_t rounds = (hidden + threads - 1) / threads;
  e.loop(0, rounds, 1, {}, [&](Index i, ValueRange) {
    Index unit = e.add(e.mul(i, threads), e.localId(0));
    e.when(hidden % threads ? e.lt(unit, hidden) : Value(),
           [&] { body(unit); });
    return SmallVector<Value>{};
  });
}

Index Recurrent::place(Buffer &t, Index unit) {
  unsigned d = batchFirst ? 1 : 0;
  return e.add(
      e.add(e.mul(direction, t.strides[d]), e.mul(image, t.strides[1 - d])),
      e.mul(unit, t.strides[2]));
}

Value Recurrent::stateOf(Buffer *t, Index unit) {
  return t ? e.load(*t, place(*t, unit)) : e.floatConst(e.f32(), 0);
}

Value Recurrent::bias(unsigned gate, Index unit, bool recurrent) {
  int64_t row = (gate + (recurrent ? gates : 0)) * hidden;
  return e.load(*b, e.add(e.mul(direction, b->strides[0]), e.add(unit, row)));
}

/// For each gate: product and bias of what `state` holds (null: of nothing),
/// and, if `inputToo`, those of the input.
SmallVector<Value> Recurrent::gateSums(ArrayRef<unsigned> which, Index unit,
                                       Value state, bool inputToo) {
  SmallVector<Value> sums;
  for (unsigned g : which) {
    Value v = e.floatConst(e.f32(), 0);
    if (b && inputToo)
      v = bias(g, unit, false);
    if (b && state)
      v = e.addF(v, bias(g, unit, true));
    sums.push_back(v);
  }
  auto accumulate = [&](Buffer &matrix, int64_t steps,
                        llvm::function_ref<Value(Index)> operand) {
    sums = e.loop(0, steps, 1, sums, [&](Index k, ValueRange carried) {
      Value a = operand(k);
      SmallVector<Value> more;
      for (auto [g, sum] : llvm::zip(which, carried)) {
        Index row = e.add(unit, static_cast<int64_t>(g) * hidden);
        Index from = e.add(e.add(e.mul(direction, matrix.strides[0]),
                                 e.mul(row, matrix.strides[1])),
                           e.mul(k, matrix.strides[2]));
        more.push_back(e.fma(a, e.load(matrix, from), sum));
      }
      return more;
    });
  };
  if (inputToo) {
    Index row = e.add(e.mul(time, x->strides[batchFirst ? 1 : 0]),
                      e.mul(image, x->strides[batchFirst ? 0 : 1]));
    accumulate(*w, inputs, [&](Index k) {
      return e.load(*x, e.add(row, e.mul(k, x->strides[2])));
    });
  }
  if (state)
    accumulate(*r, hidden, [&](Index k) { return e.loadShared(state, k); });
  return sums;
}

Value Recurrent::activation(unsigned which, Value v) {
  const std::string &name = activations[which];
  if (name == "sigmoid")
    return cpu::math::sigmoid(e, v);
  return name == "tanh" ? cpu::math::tanh(e, v)
                        : e.maxF(v, e.floatConst(e.f32(), 0));
}

/// Of a gate, which `clip` bounds.
Value Recurrent::gate(unsigned which, Value v) {
  if (clip > 0)
    v = e.minF(e.maxF(v, e.floatConst(e.f32(), -clip)),
               e.floatConst(e.f32(), clip));
  return activation(which, v);
}

/// Gates i, o, f, c; peepholes i, o, f.
void Recurrent::newLstm(Index unit) {
  SmallVector<Value> sums = gateSums({0, 1, 2, 3}, unit, h, true);
  Value old = e.loadShared(c, unit);
  auto peephole = [&](unsigned which, Value sum, Value cell) {
    if (!peepholes)
      return sum;
    Index from = e.add(e.mul(direction, peepholes->strides[0]),
                       e.add(unit, static_cast<int64_t>(which) * hidden));
    return e.fma(e.load(*peepholes, from), cell, sum);
  };
  Value one = e.floatConst(e.f32(), 1);
  Value in = gate(0, peephole(0, sums[0], old));
  Value forget =
      inputForget ? e.subF(one, in) : gate(0, peephole(2, sums[2], old));
  Value fresh = gate(1, sums[3]);
  Value cell = e.addF(e.mulF(forget, old), e.mulF(in, fresh));
  Value out = gate(0, peephole(1, sums[1], cell));
  Value result = e.mulF(out, activation(2, cell));
  e.storeShared(c, unit, active ? e.pick(active, cell, old) : cell);
  putOut(unit, result);
}

/// Gates z, r, h. Without linear_before_reset `rh` has what the reset left.
void Recurrent::newGru(Index unit) {
  Value old = e.loadShared(h, unit), z, fresh;
  if (linearBeforeReset) {
    SmallVector<Value> sums = gateSums({0, 1}, unit, h, true);
    z = gate(0, sums[0]);
    Value reset = gate(0, sums[1]);
    Value recurrent = gateSums({2}, unit, h, false)[0];
    Value input = gateSums({2}, unit, {}, true)[0];
    fresh = e.fma(reset, recurrent, input);
  } else {
    z = gate(0, gateSums({0}, unit, h, true)[0]);
    fresh = gateSums({2}, unit, rh, true)[0];
  }
  fresh = gate(1, fresh);
  Value take = e.mulF(e.subF(e.floatConst(e.f32(), 1), z), fresh);
  putOut(unit, e.addF(take, e.mulF(z, old)));
}

/// The unit's new state, and its result: zero where the sequence has ended.
void Recurrent::putOut(Index unit, Value v) {
  Value kept = active ? e.pick(active, v, e.loadShared(h, unit)) : v;
  e.storeShared(next, unit, kept);
  if (!y)
    return;
  unsigned t = batchFirst ? 1 : 0, d = batchFirst ? 2 : 1,
           n = batchFirst ? 0 : 2;
  Index at = time;
  Value result = v;
  if (active) {
    result = e.pick(active, v, e.floatConst(e.f32(), 0));
    at = Index(e.pick(active, e.value(time), e.value(stepAt)));
  }
  Index to =
      e.add(e.add(e.mul(at, y->strides[t]), e.mul(direction, y->strides[d])),
            e.add(e.mul(image, y->strides[n]), e.mul(unit, y->strides[3])));
  e.store(*y, to, e.round(result, y->element));
}

void Recurrent::step(Index at) {
  stepAt = at;
  Index length = sequence;
  active = {};
  if (lengths) {
    Value n = e.load(*lengths, image);
    if (!n.getType().isInteger(32))
      n = arith::TruncIOp::create(e.b, e.loc, e.i32(), n);
    length = e.min(e.max(Index(n), 0), sequence);
    active = e.lt(at, length);
  }
  Index back = e.max(e.sub(e.sub(length, 1), at), 0);
  time = at;
  if (reverse)
    time = back;
  else if (directions == 2)
    time = Index(e.pick(e.lt(direction, 1), e.value(at), e.value(back)));
  if (kind == "GRU" && !linearBeforeReset) {
    forUnits([&](Index unit) {
      Value reset = gate(0, gateSums({1}, unit, h, true)[0]);
      e.storeShared(rh, unit, e.mulF(reset, e.loadShared(h, unit)));
    });
    e.barrier();
  }
  forUnits([&](Index unit) {
    if (kind == "LSTM")
      newLstm(unit);
    else if (kind == "GRU")
      newGru(unit);
    else
      putOut(unit, gate(0, gateSums({0}, unit, h, true)[0]));
  });
  e.barrier();
  forUnits(
      [&](Index unit) { e.storeShared(h, unit, e.loadShared(next, unit)); });
  e.barrier();
}

void Recurrent::run() {
  h = e.shared(hidden, e.f32());
  next = e.shared(hidden, e.f32());
  if (kind == "LSTM")
    c = e.shared(hidden, e.f32());
  if (kind == "GRU")
    rh = e.shared(hidden, e.f32());
  forUnits([&](Index unit) {
    e.storeShared(h, unit, stateOf(h0, unit));
    if (c)
      e.storeShared(c, unit, stateOf(c0, unit));
  });
  e.barrier();
  e.loop(0, sequence, 1, {}, [&](Index at, ValueRange) {
    step(at);
    return SmallVector<Value>{};
  });
  forUnits([&](Index unit) {
    if (yh)
      e.store(*yh, place(*yh, unit),
              e.round(e.loadShared(h, unit), yh->element));
    if (yc)
      e.store(*yc, place(*yc, unit),
              e.round(e.loadShared(c, unit), yc->element));
  });
}

LogicalResult Recurrent::emit() {
  if (failed(readOperands()) || failed(readAttributes()))
    return failure();
  if (sequence == 0 || hidden == 0)
    return e.reasons.no() << "an empty sequence";
  uint64_t shared = 4 * hidden * (kind == "RNN" ? 2 : 3);
  if (shared > e.device.sharedBytes)
    return e.reasons.no() << "states of " << shared
                          << " bytes exceed the GPU's " << e.device.sharedBytes
                          << " of shared memory";
  setGrid();
  run();
  return success();
}

LogicalResult emitRecurrent(tsr::DispatchOp op, Emitter &e) {
  return Recurrent(op, e).emit();
}
Register recurrent({"onnx.LSTM", "onnx.GRU", "onnx.RNN"}, emitRecurrent);

} // namespace
} // namespace tessera::vulkan

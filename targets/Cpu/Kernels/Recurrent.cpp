// LSTM, GRU and RNN.
//
// Per direction: X W^T + bias for the whole sequence first (one product with
// many rows), then per step the product of the state with R^T and the gates in
// vectors. Weights are panels of 16 columns, made at compile time if constant,
// else in scratch. All arithmetic in f32 (f64 for double).
//
// Scratch, in elements of the arithmetic type:
//   input   [sequence * batch][Nw]   Nw: gate columns, rounded up to a panel
//   state   [batch][Nr]              state products
//   h, c, rh [batch][H]
//   biasW [Nw], biasR [Nr], panels of W and R
#include "targets/Cpu/Kernels/Combine.h"
#include "targets/Cpu/Kernels/RegisterTile.h"
#include "targets/Cpu/Kernels/RootView.h"
#include "targets/Cpu/Kernels/StridedCopy.h"
#include "targets/Cpu/Math.h"

using namespace mlir;
using tessera::onnx::Sym;

namespace tessera::cpu {
namespace {

enum class CellKind : uint8_t { Lstm, Gru, Rnn };

struct Activation {
  std::string name;
  double alpha = 0, beta = 0;
};

struct Shape {
  CellKind cell;
  unsigned gates;
  unsigned directions = 1;
  bool reverse = false, batchFirst = false, linearBeforeReset = false, inputForget = false;
  double clip = 0;
  SmallVector<Activation> activations; ///< of all directions

  unsigned perDirection() const { return cell == CellKind::Lstm ? 3 : cell == CellKind::Gru ? 2 : 1; }
  /// R's gates in groups that are multiplied at one time.
  SmallVector<unsigned, 2> groups() const {
    return cell == CellKind::Gru && !linearBeforeReset ? SmallVector<unsigned, 2>{2, 1}
                                                    : SmallVector<unsigned, 2>{gates};
  }
};

std::string lower(StringRef s) { return s.lower(); }

/// Parameters are taken in order by the functions that have them.
SmallVector<Activation> activationsOf(Operation *root, const Shape &s, Reasons *reasons) {
  SmallVector<StringRef> names = onnx::getStrings(root, "activations");
  unsigned total = s.perDirection() * s.directions;
  static const StringRef lstm[] = {"sigmoid", "tanh", "tanh"}, gru[] = {"sigmoid", "tanh"}, rnn[] = {"tanh"};
  ArrayRef<StringRef> defaults = s.cell == CellKind::Lstm ? ArrayRef<StringRef>(lstm)
                                 : s.cell == CellKind::Gru ? ArrayRef<StringRef>(gru)
                                                        : ArrayRef<StringRef>(rnn);
  SmallVector<float> alphas = onnx::getFloats(root, "activation_alpha"), betas = onnx::getFloats(root, "activation_beta");
  unsigned a = 0, b = 0;
  SmallVector<Activation> list;
  for (unsigned i = 0; i < total; ++i) {
    Activation f;
    f.name = i < names.size() ? lower(names[i]) : defaults[i % defaults.size()].str();
    auto alpha = [&](double fallback) { f.alpha = a < alphas.size() ? alphas[a++] : fallback; };
    auto beta = [&](double fallback) { f.beta = b < betas.size() ? betas[b++] : fallback; };
    if (f.name == "affine")
      alpha(1), beta(0);
    else if (f.name == "leakyrelu")
      alpha(0.01);
    else if (f.name == "thresholdedrelu")
      alpha(1);
    else if (f.name == "scaledtanh")
      alpha(1), beta(1);
    else if (f.name == "hardsigmoid")
      alpha(0.2), beta(0.5);
    else if (f.name == "elu")
      alpha(1);
    else if (!llvm::is_contained({"relu", "tanh", "sigmoid", "softsign", "softplus"}, f.name) && reasons)
      reasons->no() << "activation " << f.name << " is not known";
    list.push_back(f);
  }
  return list;
}

Shape shapeOf(Operation *root, Reasons *reasons = nullptr) {
  Shape s;
  StringRef name = root->getName().getStringRef();
  s.cell = name == "onnx.LSTM" ? CellKind::Lstm : name == "onnx.GRU" ? CellKind::Gru : CellKind::Rnn;
  s.gates = s.cell == CellKind::Lstm ? 4 : s.cell == CellKind::Gru ? 3 : 1;
  StringRef direction = onnx::getString(root, "direction", "forward");
  s.directions = direction == "bidirectional" ? 2 : 1;
  s.reverse = direction == "reverse";
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional" && reasons)
    reasons->no() << "direction " << direction << " is not known";
  s.batchFirst = onnx::getInt(root, "layout", 0);
  s.linearBeforeReset = onnx::getInt(root, "linear_before_reset", 0);
  s.inputForget = onnx::getInt(root, "input_forget", 0);
  s.clip = onnx::getFloat(root, "clip", 0);
  s.activations = activationsOf(root, s, reasons);
  return s;
}

/// Sizes of the scratch regions over any kind of integer.
template <typename V, typename Math> struct Regions {
  V input, state, h, c, rh, biasW, biasR, panelsW, panelsR, nw, nr;

  Regions(const Math &m, const Shape &s, V sequence, V batch, V inputs, V hidden, bool makeW, bool makeR) {
    nw = m.roundUp(m.mul(m.constant(s.gates), hidden));
    nr = m.constant(0);
    for (unsigned gates : s.groups())
      nr = m.add(nr, m.roundUp(m.mul(m.constant(gates), hidden)));
    input = m.mul(m.mul(sequence, batch), nw);
    state = m.mul(batch, nr);
    h = c = rh = m.roundUp(m.mul(batch, hidden));
    biasW = nw, biasR = nr;
    panelsW = makeW ? m.mul(nw, inputs) : m.constant(0);
    panelsR = makeR ? m.mul(nr, hidden) : m.constant(0);
  }
  SmallVector<V> all() const { return {input, state, h, c, rh, biasW, biasR, panelsW, panelsR}; }
};
struct SymMath {
  onnx::SymContext &c;
  Sym constant(int64_t v) const { return c.constant(v); }
  Sym add(Sym a, Sym b) const { return c.add(a, b); }
  Sym mul(Sym a, Sym b) const { return c.mul(a, b); }
  Sym roundUp(Sym a) const { return c.mul(c.ceilDiv(a, c.constant(kPanel)), c.constant(kPanel)); }
};
struct EmitMath {
  KernelEmitter &e;
  Value constant(int64_t v) const { return e.idx(v); }
  Value add(Value a, Value b) const { return e.add(a, b); }
  Value mul(Value a, Value b) const { return e.mul(a, b); }
  Value roundUp(Value a) const { return e.mul(e.divU(e.add(a, kPanel - 1), e.idx(kPanel)), kPanel); }
};

/// Whether dispatch operand of root position `pos` is replaced by panels.
bool isPacked(tsr::DispatchOp op, unsigned pos) {
  int operand = dispatchOperand(op, pos);
  if (operand < 0 || !dispatchConstant(op, operand))
    return false;
  auto type = operandType(op.getRootOp(), pos);
  return type && type.hasStaticShape() &&
         llvm::hasSingleElement(op.getBodyBlock()->getArgument(operand).getUses());
}

class RecurrentKernel final : public KernelBuilder {
public:
  tsr::KernelClass kernelClass(Operation *) const override { return tsr::KernelClass::Recurrent; }
  bool flushesDenormals(Operation *) const override { return true; }
  LogicalResult match(Operation *root, Reasons &reasons) const override {
    if (!requireNumeric(root, reasons))
      return failure();
    Type element = operandElement(root, 0);
    if (!isa<FloatType>(element) || KernelEmitter::storageBits(element) < 16)
      reasons.no() << "element type " << onnx::getTypeName(element);
    shapeOf(root, &reasons);
    for (unsigned pos : {0u, 1u, 2u})
      if (!operandType(root, pos) || operandType(root, pos).getRank() != 3)
        reasons.no() << onnx::getOperandName(root, pos) << " is not of rank 3";
    return success(reasons.empty());
  }
  bool packs(tsr::DispatchOp op, unsigned operand, Arch) const override {
    for (unsigned pos : {1u, 2u})
      if (dispatchOperand(op, pos) == static_cast<int>(operand))
        return isPacked(op, pos);
    return false;
  }
  std::optional<Packed> pack(tsr::DispatchOp op, unsigned operand, ElementsAttr value, Arch arch) const override {
    if (!packs(op, operand, arch))
      return std::nullopt;
    Shape s = shapeOf(op.getRootOp());
    ArrayRef<int64_t> dims = value.getShapedType().getShape();
    int64_t rows = dims[1], steps = dims[2];
    if (dispatchOperand(op, 1) == static_cast<int>(operand))
      return packPanels(value, dims[0], steps, rows,
                        [&](int64_t g, int64_t k, int64_t n) { return (g * rows + n) * steps + k; });
    Packed all;
    int64_t first = 0;
    for (unsigned gates : s.groups()) {
      int64_t columns = gates * steps;
      Packed part = packPanels(value, dims[0], steps, columns,
                               [&](int64_t g, int64_t k, int64_t n) { return (g * rows + first + n) * steps + k; });
      all.bytes.insert(all.bytes.end(), part.bytes.begin(), part.bytes.end());
      first += columns;
    }
    return all;
  }
  Sym scratchBytes(tsr::DispatchOp op, const DispatchSizes &sizes) const override {
    Operation *root = op.getRootOp();
    Shape s = shapeOf(root);
    int x = dispatchOperand(op, 0), w = dispatchOperand(op, 1), r = dispatchOperand(op, 2);
    if (x < 0 || w < 0 || r < 0)
      return nullptr;
    auto &c = sizes.ctx;
    SymMath m{c};
    const auto &dims = sizes.operands[x];
    Regions<Sym, SymMath> regions(m, s, dims[s.batchFirst ? 1 : 0], dims[s.batchFirst ? 0 : 1], dims[2],
                                  sizes.operands[r][2], !isPacked(op, 1), !isPacked(op, 2));
    Sym total = c.constant(1024);
    for (Sym region : regions.all())
      total = c.add(total, region);
    unsigned bytes = operandElement(root, 0).isF64() ? 8 : 4;
    return c.mul(total, c.constant(bytes));
  }
  LogicalResult emit(tsr::DispatchOp op, KernelEmitter &e) const override;
};
TESSERA_KERNEL(RecurrentKernel, "onnx.LSTM", "onnx.GRU", "onnx.RNN");

class Emitter {
public:
  Emitter(RootView &v, const Shape &s) : v(v), e(v.e), s(s) {}
  LogicalResult run();

private:
  Value splatLike(double x, Value shape) { return e.floatConst(shape.getType(), x); }
  Value at(Value base, Value offset) { return e.gep(base, type, offset); }
  Value activate(const Activation &f, Value x);
  void product(Value rows, Value columns, Value steps, Value a, Type aElement, Value aRow, Value aStep,
               Value panels, Value bias, Value c, Value cRow);
  void direction(unsigned d);
  void gates(unsigned d, Value b, Value in, Value state);
  void gruReset(unsigned d, Value b, Value in, Value state);
  Value lanesAt(Value base, Value offset, Lanes l, Value mask) {
    return e.loadLanes(TensorRef{base, type, {}, {}}, offset, l, mask);
  }
  void putLanes(Value base, Value offset, Value x, Value mask) {
    e.storeLanes(TensorRef{base, type, {}, {}}, offset, x, mask);
  }
  const Activation &activation(unsigned d, unsigned i) { return s.activations[d * s.perDirection() + i]; }

  RootView &v;
  KernelEmitter &e;
  const Shape &s;
  Type type; ///< of the arithmetic
  unsigned bits;
  const TensorRef *x, *w, *r, *bias, *lens, *h0, *c0, *peep, *y, *yh, *yc;
  bool packedW, packedR;
  Value sequence, batch, inputs, hidden, nw, nr;
  Value inputAt, stateAt, hAt, cAt, rhAt, biasWAt, biasRAt, panelsWAt, panelsRAt;
};

Value Emitter::activate(const Activation &f, Value x) {
  using P = arith::CmpFPredicate;
  auto c = [&](double k) { return splatLike(k, x); };
  auto pick = [&](P p, Value a, Value b, Value yes, Value no) {
    return Value(arith::SelectOp::create(e.b, e.loc, e.cmpF(p, a, b), yes, no));
  };
  if (f.name == "sigmoid")
    return math::sigmoid(e, x);
  if (f.name == "tanh")
    return math::tanh(e, x);
  if (f.name == "relu")
    return e.maxF(x, c(0));
  if (f.name == "affine")
    return e.addF(e.mulF(c(f.alpha), x), c(f.beta));
  if (f.name == "leakyrelu")
    return pick(P::OLT, x, c(0), e.mulF(c(f.alpha), x), x);
  if (f.name == "thresholdedrelu")
    return pick(P::OGE, x, c(f.alpha), x, c(0));
  if (f.name == "scaledtanh")
    return e.mulF(c(f.alpha), math::tanh(e, e.mulF(c(f.beta), x)));
  if (f.name == "hardsigmoid")
    return e.minF(e.maxF(e.addF(e.mulF(c(f.alpha), x), c(f.beta)), c(0)), c(1));
  if (f.name == "elu")
    return pick(P::OLT, x, c(0), e.mulF(c(f.alpha), math::expm1(e, x)), x);
  if (f.name == "softsign")
    return e.divF(x, e.addF(c(1), math::abs(e, x)));
  // softplus: max(x, 0) + log1p(exp(-|x|))
  Value t = math::exp(e, e.subF(c(0), math::abs(e, x)));
  return e.addF(e.maxF(x, c(0)), math::log1p(e, t));
}

// c[m][n] = bias[n] + sum over k of a[m][k] * b[k][n]; columns are whole panels.
void Emitter::product(Value rows, Value columns, Value steps, Value a, Type aElement, Value aRow, Value aStep,
                      Value panels, Value bias, Value c, Value cRow) {
  TileSpace space{rows, columns, type, tileLanes(e.isa, type)};
  space.singleRowVariant = true;
  forTiles(e, space, [&](const Tile &tile) {
    TileRows tileRows{{}, aElement, aStep, {}};
    Value last = e.sub(rows, 1);
    for (unsigned i = 0; i < tile.rows; ++i) {
      Value row = e.add(tile.row, i);
      if (tile.rowLimit && i)
        row = e.minS(row, last);
      tileRows.ptr.push_back(e.gep(a, aElement, e.mul(row, aRow)));
    }
    TileColumns tileColumns = panelColumns(e, tile, panels, type, steps);
    SmallVector<Value> sums;
    for (unsigned i = 0; i < tile.rows; ++i)
      for (unsigned j = 0; j < tile.vectors; ++j) {
        Value column = tile.columnOf(e, j);
        sums.push_back(bias ? lanesAt(bias, column, tile.lanes, tile.mask[j])
                            : zeroOf(e, KernelEmitter::withLanes(type, tile.lanes)));
      }
    sums = accumulate(e, sums, tileRows, tileColumns, steps);
    for (unsigned i = 0; i < tile.rows; ++i) {
      Value row = e.add(tile.row, i);
      auto put = [&] {
        for (unsigned j = 0; j < tile.vectors; ++j) {
          Value to = e.add(e.mul(row, cRow), tile.columnOf(e, j));
          putLanes(c, to, sums[i * tile.vectors + j], tile.mask[j]);
        }
      };
      if (tile.rowLimit && i)
        e.ifThen(e.lt(row, tile.rowLimit), put);
      else
        put();
    }
  });
}

LogicalResult Emitter::run() {
  x = v.in(0), w = v.in(1), r = v.in(2), bias = v.in(3), lens = v.in(4), h0 = v.in(5);
  c0 = s.cell == CellKind::Lstm ? v.in(6) : nullptr;
  peep = s.cell == CellKind::Lstm ? v.in(7) : nullptr;
  y = v.out(0), yh = v.out(1), yc = s.cell == CellKind::Lstm ? v.out(2) : nullptr;
  for (unsigned pos = 0; pos < 8; ++pos)
    if (v.has(pos) && !v.in(pos))
      return failure();
  if (!x || !w || !r || !e.scratch)
    return failure();
  packedW = isPacked(v.op, 1), packedR = isPacked(v.op, 2);
  type = KernelEmitter::valueType(x->element);
  bits = type.getIntOrFloatBitWidth();
  sequence = x->dims[s.batchFirst ? 1 : 0], batch = x->dims[s.batchFirst ? 0 : 1];
  inputs = packedW ? e.idx(v.inType(1).getDimSize(2)) : w->dims[2];
  hidden = packedR ? e.idx(v.inType(2).getDimSize(2)) : r->dims[2];

  // The sizes of the parameters must belong together, whatever the data says.
  Value fits = e.eq(x->dims[2], inputs);
  auto need = [&](const TensorRef *t, ArrayRef<Value> dims) {
    for (unsigned k = 0; t && k < dims.size(); ++k)
      fits = e.logicalAnd(fits, e.eq(t->dims[k], dims[k]));
  };
  Value directions = e.idx(s.directions), columns = e.mul(hidden, s.gates);
  if (!packedW)
    need(w, {directions, columns});
  if (!packedR)
    need(r, {directions, columns});
  need(bias, {directions, e.mul(columns, 2)});
  need(lens, {batch});
  need(h0, s.batchFirst ? ArrayRef<Value>{batch, directions, hidden} : ArrayRef<Value>{directions, batch, hidden});
  need(c0, s.batchFirst ? ArrayRef<Value>{batch, directions, hidden} : ArrayRef<Value>{directions, batch, hidden});
  need(peep, {directions, e.mul(hidden, 3)});
  if (packedW && v.inType(1).getDimSize(1) != s.gates * v.inType(2).getDimSize(2))
    return failure();
  e.failIf(e.logicalNot(fits), TSR_KERNEL_BAD_VALUE);

  EmitMath m{e};
  Regions<Value, EmitMath> regions(m, s, sequence, batch, inputs, hidden, !packedW, !packedR);
  nw = regions.nw, nr = regions.nr;
  Value next = e.idx(0);
  SmallVector<Value> places;
  for (Value size : regions.all()) {
    places.push_back(at(e.scratch, next));
    next = e.add(next, size);
  }
  inputAt = places[0], stateAt = places[1], hAt = places[2], cAt = places[3], rhAt = places[4];
  biasWAt = places[5], biasRAt = places[6], panelsWAt = places[7], panelsRAt = places[8];
  e.ifThen(fits, [&] {
    for (unsigned d = 0; d < s.directions; ++d)
      direction(d);
  });
  return success();
}

void Emitter::direction(unsigned d) {
  bool reverse = s.reverse || d == 1;
  Value zero = e.floatConst(type, 0), columns = e.mul(hidden, s.gates);
  // Biases. GRU's recurrent bias of the new gate stays apart if it is reset.
  bool apart = s.cell == CellKind::Gru && s.linearBeforeReset;
  for (auto [place, size] : {std::pair{biasWAt, nw}, {biasRAt, nr}})
    fillRow(e, bits, place, size, e.intConst(e.b.getIntegerType(bits), 0));
  if (bias) {
    Value first = e.mul(bias->strides[0], d);
    e.vectorLoop(columns, bits, 1, [&](Value n, Lanes l, Value mask) {
      putLanes(biasWAt, n, e.loadLanes(*bias, e.add(first, n), l, mask), mask);
    });
    Value joined = apart ? e.mul(hidden, 2) : columns;
    e.vectorLoop(joined, bits, 1, [&](Value n, Lanes l, Value mask) {
      Value more = e.loadLanes(*bias, e.add(first, e.add(columns, n)), l, mask);
      putLanes(biasWAt, n, e.addF(lanesAt(biasWAt, n, l, mask), more), mask);
    });
    if (apart)
      e.vectorLoop(hidden, bits, 1, [&](Value n, Lanes l, Value mask) {
        Value from = e.add(e.mul(hidden, 2), n);
        putLanes(biasRAt, from, e.loadLanes(*bias, e.add(first, e.add(columns, from)), l, mask), mask);
      });
  }
  // Panels.
  Value panelsW = packedW ? e.gep(w->ptr, type, e.mul(e.mul(nw, inputs), d)) : panelsWAt;
  if (!packedW) {
    TensorRef source = *w;
    source.ptr = e.gep(w->ptr, w->element, e.mul(w->strides[0], d));
    emitPackPanels(e, source, panelsWAt, inputs, columns,
                   [&](Value k, Value n) { return e.add(e.mul(n, w->strides[1]), e.mul(k, w->strides[2])); });
  }
  SmallVector<Value> panelsR, groupColumns, groupFirst;
  Value base = e.idx(0), first = e.idx(0), column = e.idx(0);
  for (unsigned gates : s.groups()) {
    Value count = e.mul(hidden, gates), padded = EmitMath{e}.roundUp(count);
    groupColumns.push_back(padded);
    groupFirst.push_back(column);
    if (packedR) {
      Value size = e.mul(padded, hidden);
      panelsR.push_back(e.gep(r->ptr, type, e.add(base, e.mul(size, d))));
      base = e.add(base, e.mul(size, s.directions));
    } else {
      Value place = at(panelsRAt, base);
      TensorRef source = *r;
      source.ptr = e.gep(r->ptr, r->element, e.add(e.mul(r->strides[0], d), e.mul(r->strides[1], first)));
      emitPackPanels(e, source, place, hidden, count,
                     [&](Value k, Value n) { return e.add(e.mul(n, r->strides[1]), e.mul(k, r->strides[2])); });
      panelsR.push_back(place);
      base = e.add(base, e.mul(padded, hidden));
    }
    first = e.add(first, count);
    column = e.add(column, padded);
  }
  // X W^T: row (t, b) at (t * batch + b).
  if (!s.batchFirst) {
    product(e.mul(sequence, batch), nw, inputs, x->ptr, x->element, x->strides[1], x->strides[2], panelsW, biasWAt,
            inputAt, nw);
  } else {
    e.forLoop(batch, [&](Value b) {
      product(sequence, nw, inputs, e.gep(x->ptr, x->element, e.mul(b, x->strides[0])), x->element, x->strides[1],
              x->strides[2], panelsW, biasWAt, at(inputAt, e.mul(b, nw)), e.mul(batch, nw));
    });
  }
  // Initial state.
  unsigned db = s.batchFirst ? 1 : 0, bb = s.batchFirst ? 0 : 1;
  auto init = [&](const TensorRef *from, Value to) {
    e.forLoop(batch, [&](Value b) {
      Value row = e.mul(b, hidden);
      e.vectorLoop(hidden, bits, 1, [&](Value n, Lanes l, Value mask) {
        Value value = e.splat(zero, l);
        if (from)
          value = e.loadLanes(*from, e.add(n, e.add(e.mul(from->strides[db], d), e.mul(b, from->strides[bb]))), l, mask);
        putLanes(to, e.add(row, n), value, mask);
      });
    });
  };
  init(h0, hAt);
  if (s.cell == CellKind::Lstm)
    init(c0, cAt);

  auto lengthOf = [&](Value b) -> Value {
    if (!lens)
      return sequence;
    Value n = toIndex(e, e.load(*lens, {b}));
    Value bad = e.logicalOr(e.lt(n, e.idx(0)), e.lt(sequence, n));
    e.failIf(bad, TSR_KERNEL_BAD_VALUE);
    return e.select(bad, e.idx(0), n);
  };
  // Calls body(b, row of the input products, t) for the rows that are in step `t`.
  auto forActive = [&](Value step, function_ref<void(Value, Value, Value)> body, function_ref<void(Value)> rest) {
    e.forLoop(batch, [&](Value b) {
      Value n = lengthOf(b);
      Value t = reverse ? e.sub(e.sub(n, 1), step) : step;
      auto run = [&] { body(b, at(inputAt, e.mul(e.add(e.mul(t, batch), b), nw)), t); };
      if (!lens)
        return run();
      e.ifElse(
          e.lt(step, n), TypeRange(), [&] { run(); return SmallVector<Value>(); },
          [&] { rest(b); return SmallVector<Value>(); });
    });
  };
  auto yOffset = [&](Value t, Value b) {
    if (s.batchFirst)
      return e.add(e.add(e.mul(b, y->strides[0]), e.mul(t, y->strides[1])), e.mul(y->strides[2], d));
    return e.add(e.add(e.mul(t, y->strides[0]), e.mul(y->strides[1], d)), e.mul(b, y->strides[2]));
  };
  auto emitY = [&](Value b, Value t) {
    if (!y)
      return;
    Value to = yOffset(t, b), from = e.mul(b, hidden);
    e.vectorLoop(hidden, bits, 1, [&](Value n, Lanes l, Value mask) {
      e.storeLanes(*y, e.add(to, n), e.round(lanesAt(hAt, e.add(from, n), l, mask), y->element), mask);
    });
  };
  auto clearY = [&](Value b, Value t) {
    if (y)
      e.vectorLoop(hidden, bits, 1, [&](Value n, Lanes l, Value mask) {
        e.storeLanes(*y, e.add(yOffset(t, b), n), e.splat(zero, l), mask);
      });
  };
  auto recur = [&](unsigned group, Value from) {
    product(batch, groupColumns[group], hidden, from, type, hidden, e.idx(1), panelsR[group],
            at(biasRAt, groupFirst[group]), at(stateAt, groupFirst[group]), nr);
  };
  e.forLoop(sequence, [&](Value step) {
    recur(0, hAt);
    if (s.groups().size() == 2) {
      forActive(step, [&](Value b, Value in, Value) { gruReset(d, b, in, at(stateAt, e.mul(b, nr))); }, [](Value) {});
      recur(1, rhAt);
    }
    forActive(
        step,
        [&](Value b, Value in, Value t) {
          gates(d, b, in, at(stateAt, e.mul(b, nr)));
          emitY(b, t);
        },
        [&](Value b) { clearY(b, step); });
  });
  auto finish = [&](const TensorRef *to, Value from) {
    if (!to)
      return;
    e.forLoop(batch, [&](Value b) {
      Value place = e.add(e.mul(to->strides[db], d), e.mul(b, to->strides[bb])), row = e.mul(b, hidden);
      e.vectorLoop(hidden, bits, 1, [&](Value n, Lanes l, Value mask) {
        e.storeLanes(*to, e.add(place, n), e.round(lanesAt(from, e.add(row, n), l, mask), to->element), mask);
      });
    });
  };
  finish(yh, hAt);
  finish(yc, cAt);
}

// rh = sigmoid(reset gate) * h; the update gate is left in its place.
void Emitter::gruReset(unsigned d, Value b, Value in, Value state) {
  Value row = e.mul(b, hidden);
  e.vectorLoop(hidden, bits, 1, [&](Value n, Lanes l, Value mask) {
    Value place = e.add(hidden, n);
    Value gate = e.addF(lanesAt(in, place, l, mask), lanesAt(state, place, l, mask));
    if (s.clip > 0)
      gate = e.minF(e.maxF(gate, splatLike(-s.clip, gate)), splatLike(s.clip, gate));
    Value reset = activate(activation(d, 0), gate);
    putLanes(rhAt, e.add(row, n), e.mulF(reset, lanesAt(hAt, e.add(row, n), l, mask)), mask);
  });
}

void Emitter::gates(unsigned d, Value b, Value in, Value state) {
  Value row = e.mul(b, hidden);
  e.vectorLoop(hidden, bits, 1, [&](Value n, Lanes l, Value mask) {
    auto gateAt = [&](unsigned g) { return e.add(e.mul(hidden, g), n); };
    auto sum = [&](unsigned g) {
      return e.addF(lanesAt(in, gateAt(g), l, mask), lanesAt(state, gateAt(g), l, mask));
    };
    auto clip = [&](Value g) {
      return s.clip > 0 ? e.minF(e.maxF(g, splatLike(-s.clip, g)), splatLike(s.clip, g)) : g;
    };
    Value place = e.add(row, n);
    if (s.cell == CellKind::Rnn)
      return putLanes(hAt, place, activate(activation(d, 0), clip(sum(0))), mask);
    Value h = lanesAt(hAt, place, l, mask);
    if (s.cell == CellKind::Gru) {
      Value z = activate(activation(d, 0), clip(sum(0))), fresh;
      if (s.linearBeforeReset) {
        Value reset = activate(activation(d, 0), clip(sum(1)));
        fresh = e.fma(reset, lanesAt(state, gateAt(2), l, mask), lanesAt(in, gateAt(2), l, mask));
      } else {
        Value second = e.add(EmitMath{e}.roundUp(e.mul(hidden, 2)), n);
        fresh = e.addF(lanesAt(in, gateAt(2), l, mask), lanesAt(state, second, l, mask));
      }
      fresh = activate(activation(d, 1), clip(fresh));
      Value keep = e.mulF(z, h), take = e.mulF(e.subF(splatLike(1, z), z), fresh);
      return putLanes(hAt, place, e.addF(take, keep), mask);
    }
    // Gates i, o, f, c; peepholes i, o, f.
    Value c = lanesAt(cAt, place, l, mask);
    auto peephole = [&](unsigned which, Value g, Value cell) {
      if (!peep)
        return g;
      Value from = e.add(e.mul(peep->strides[0], d), gateAt(which));
      return e.fma(e.loadLanes(*peep, from, l, mask), cell, g);
    };
    Value i = activate(activation(d, 0), clip(peephole(0, sum(0), c)));
    Value f = s.inputForget ? e.subF(splatLike(1, i), i)
                            : activate(activation(d, 0), clip(peephole(2, sum(2), c)));
    Value g = activate(activation(d, 1), clip(sum(3)));
    Value cell = e.addF(e.mulF(f, c), e.mulF(i, g));
    Value o = activate(activation(d, 0), clip(peephole(1, sum(1), cell)));
    putLanes(cAt, place, cell, mask);
    putLanes(hAt, place, e.mulF(o, activate(activation(d, 2), cell)), mask);
  });
}

LogicalResult RecurrentKernel::emit(tsr::DispatchOp op, KernelEmitter &e) const {
  RootView v(op, e);
  Shape s = shapeOf(v.root);
  return Emitter(v, s).run();
}

} // namespace
} // namespace tessera::cpu

#include "targets/Cpu/Kernels/Window.h"
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

#include <limits>

using namespace mlir;

namespace tessera::cpu {

LogicalResult readWindow(Operation *root, ArrayRef<int64_t> kernel, Window &w, Reasons &reasons) {
  unsigned axes = kernel.size();
  if (axes < 1 || axes > 3) {
    (void)(reasons.no() << axes << " spatial axes (1 to 3 are possible)");
    return failure();
  }
  SmallVector<int64_t> shape = onnx::getInts(root, "kernel_shape");
  w.kernel.assign(kernel.begin(), kernel.end());
  if (!shape.empty() && shape.size() != axes) {
    (void)(reasons.no() << "kernel_shape of " << shape.size() << " numbers for " << axes << " spatial axes");
    return failure();
  }
  for (unsigned i = 0; i < axes; ++i) {
    if (!shape.empty() && w.kernel[i] >= 0 && w.kernel[i] != shape[i])
      (void)(reasons.no() << "kernel_shape " << shape[i] << " for a weight of extent " << w.kernel[i]);
    if (!shape.empty())
      w.kernel[i] = shape[i];
    if (w.kernel[i] < 1)
      (void)(reasons.no() << "kernel extent unknown or not positive on spatial axis " << i);
  }
  auto read = [&](StringRef name, SmallVector<int64_t> &to, unsigned count, int64_t otherwise, int64_t least) {
    to = onnx::getInts(root, name);
    if (to.empty())
      to.assign(count, otherwise);
    if (to.size() != count)
      (void)(reasons.no() << name << " has " << to.size() << " numbers instead of " << count);
    for (int64_t v : to)
      if (v < least)
        (void)(reasons.no() << name << " " << v << " is below " << least);
    to.resize(count, otherwise);
  };
  SmallVector<int64_t> pads;
  read("strides", w.strides, axes, 1, 1);
  read("dilations", w.dilations, axes, 1, 1);
  read("pads", pads, 2 * axes, 0, 0);
  w.autoPad = onnx::getString(root, "auto_pad", "NOTSET");
  if (w.autoPad.empty())
    w.autoPad = "NOTSET";
  if (w.autoPad != "NOTSET" && w.autoPad != "SAME_UPPER" && w.autoPad != "SAME_LOWER" && w.autoPad != "VALID")
    (void)(reasons.no() << "auto_pad " << w.autoPad);
  if (w.autoPad != "NOTSET")
    pads.assign(2 * axes, 0);
  w.padBegin.assign(pads.begin(), pads.begin() + axes);
  w.padEnd.assign(pads.begin() + axes, pads.end());
  w.ceil = onnx::getInt(root, "ceil_mode", 0) != 0;
  return success(reasons.empty());
}

Placement place(KernelEmitter &e, const Window &w, const TensorRef &in, const TensorRef &out) {
  Placement p;
  bool same = w.autoPad.starts_with("SAME");
  for (unsigned i = 0; i < w.axes(); ++i) {
    Value size = in.dims[i + 2], count = out.dims[i + 2];
    p.in.push_back(size);
    p.out.push_back(count);
    if (!same) {
      p.padBegin.push_back(e.idx(w.padBegin[i]));
      p.padded.push_back(w.padBegin[i] || w.padEnd[i] || w.ceil);
      continue;
    }
    Value needed = e.add(e.mul(e.sub(count, 1), w.strides[i]), w.reach(i));
    Value total = e.maxS(e.sub(needed, size), e.idx(0));
    Value half = e.divU(total, e.idx(2));
    p.padBegin.push_back(w.autoPad == "SAME_UPPER" ? half : e.sub(total, half));
    p.padded.push_back(KernelEmitter::constantOf(total) != 0);
  }
  return p;
}

std::pair<Value, Value> tapRange(KernelEmitter &e, const Window &w, unsigned axis, Value start, Value size) {
  Value d = e.idx(w.dilations[axis]);
  // First tap at or after 0: ceil(-start / d); end: ceil((size - start) / d).
  Value low = e.ceilDivU(e.maxS(e.sub(e.idx(0), start), e.idx(0)), d);
  Value high = e.ceilDivU(e.maxS(e.sub(size, start), e.idx(0)), d);
  high = e.minS(high, e.idx(w.kernel[axis]));
  return {e.minS(low, high), high};
}

SmallVector<Value> unflatten(KernelEmitter &e, Value index, ArrayRef<Value> dims) {
  SmallVector<Value> out(dims.size());
  for (int i = static_cast<int>(dims.size()) - 1; i > 0; --i) {
    out[i] = e.remU(index, dims[i]);
    index = e.divU(index, dims[i]);
  }
  if (!out.empty())
    out[0] = index;
  return out;
}

Value lowestOf(KernelEmitter &e, Type type, bool isUnsigned) {
  Type scalar = KernelEmitter::scalarType(type);
  if (isa<FloatType>(scalar))
    return e.floatConst(type, -std::numeric_limits<double>::infinity());
  if (isUnsigned)
    return e.intConst(type, 0);
  unsigned bits = scalar.getIntOrFloatBitWidth();
  return e.intConst(type, bits >= 64 ? std::numeric_limits<int64_t>::min() : -(int64_t(1) << (bits - 1)));
}

// --- windows that keep channels apart ------------------------------------------------

namespace {

class ChannelNest {
public:
  ChannelNest(KernelEmitter &e, tsr::DispatchOp op, Fusion &fusion, const Window &w, const ChannelWindows &s)
      : e(e), op(op), fusion(fusion), w(w), s(s), in(*s.in), out(e.outputs[0]), p(place(e, w, in, out)),
        last(w.axes() - 1) {}

  LogicalResult run() {
    chooseOutputs();
    makePadVector();
    Value channels = out.dims[1];
    SmallVector<Value> outer(p.out.begin(), p.out.end() - 1);
    auto [begin, end] = workgroupShare(e, e.mul(out.dims[0], e.product(outer)));
    SmallVector<Value> rowDims{out.dims[0]};
    rowDims.append(outer.begin(), outer.end());
    unsigned n = s.lanes.n;
    Value whole = e.mul(e.divU(channels, e.idx(n)), n);
    e.forLoop(begin, end, e.idx(1), [&](Value row) {
      index = unflatten(e, row, rowDims);
      starts.clear();
      ranges.clear();
      for (unsigned axis = 0; axis < last; ++axis) {
        starts.push_back(e.sub(e.mul(index[axis + 1], w.strides[axis]), p.padBegin[axis]));
        if (p.padded[axis])
          ranges.push_back(tapRange(e, w, axis, starts[axis], p.in[axis]));
        else
          ranges.push_back({e.idx(0), e.idx(w.kernel[axis])});
      }
      e.forLoop(e.idx(0), whole, e.idx(n), [&](Value c) { outputsOfRow(c, {}); });
      auto size = KernelEmitter::constantOf(channels);
      if (!size || *size % n)
        e.ifThen(e.lt(whole, channels), [&] { outputsOfRow(whole, e.laneMask(whole, channels, s.lanes)); });
    });
    return failure(failed);
  }

private:
  /// Outputs of a tile: few enough for the registers, little waste at the end.
  void chooseOutputs() {
    unroll = w.kernel[last] <= 16;
    if (!unroll) {
      outputs = 1;
      return;
    }
    int64_t weights = s.perTapData ? w.kernel[last] : 0;
    int64_t limit = std::clamp<int64_t>(e.isa.vectorRegisters - weights - 2, 1, 8);
    auto size = KernelEmitter::constantOf(p.out[last]);
    outputs = std::min<int64_t>(limit, 6);
    if (!size)
      return;
    double best = 1e300;
    for (int64_t t = 1; t <= limit; ++t) {
      double cost = static_cast<double>((*size + t - 1) / t) * (static_cast<double>(t) + 1.0);
      if (cost <= best)
        best = cost, outputs = t;
    }
  }

  void makePadVector() {
    Type type = KernelEmitter::valueType(in.element);
    unsigned bytes = KernelEmitter::storageBits(in.element) / 8;
    TensorRef pad{e.allocaBytes(static_cast<uint64_t>(bytes) * s.lanes.n), in.element, {}, {}};
    Value v = s.padElement ? s.padElement
              : s.lowest ? lowestOf(e, type, KernelEmitter::isUnsigned(in.element))
              : isa<FloatType>(type) ? e.floatConst(type, s.padValue)
                                     : e.intConst(type, static_cast<int64_t>(s.padValue));
    e.storeLanes(pad, e.idx(0), e.splat(v, s.lanes));
    padPtr = pad.ptr;
  }

  /// A vector of channels at `ptr`; `valid` (may be null) is false for padding,
  /// which is one vector in memory whatever the channels' stride is.
  Value load(Value ptr, Value mask, Value valid = {}) {
    Value stride = in.strides[1];
    if (valid && KernelEmitter::constantOf(stride) != 1)
      stride = e.select(valid, stride, e.idx(0));
    TensorRef t{ptr, in.element, {in.dims[1]}, {stride}};
    Point at;
    at.index = {e.idx(0)};
    at.dims = {in.dims[1]};
    at.laneAxis = 0, at.lanes = s.lanes, at.mask = mask;
    if (KernelEmitter::constantOf(in.strides[1]) == 1)
      return e.loadLanes(t, e.idx(0), s.lanes, mask);
    return e.loadAt(t, at);
  }

  /// All outputs of one row for one vector of channels.
  void outputsOfRow(Value c, Value mask) {
    Value count = p.out[last];
    auto size = KernelEmitter::constantOf(count), width = KernelEmitter::constantOf(p.in[last]);
    auto pad = KernelEmitter::constantOf(p.padBegin[last]);
    if (size && width && pad && unroll) {
      int64_t tiles = (*size + outputs - 1) / outputs;
      auto inside = [&](int64_t tile) {
        int64_t first = tile * outputs * w.strides[last] - *pad;
        return first >= 0 && tile * outputs + outputs <= *size &&
               first + (outputs - 1) * w.strides[last] + w.reach(last) <= *width;
      };
      int64_t low = 0, high = tiles;
      while (low < tiles && !inside(low))
        ++low;
      while (high > low && !inside(high - 1))
        --high;
      bool solid = true;
      for (int64_t t = low; t < high; ++t)
        solid &= inside(t);
      if (solid && low + (tiles - high) <= 3) {
        for (int64_t t = 0; t < low; ++t)
          tile(e.idx(t * outputs), c, mask);
        e.forLoop(e.idx(low * outputs), e.idx(high * outputs), e.idx(outputs),
                  [&](Value o) { tile(o, c, mask, /*inside=*/true); });
        for (int64_t t = high; t < tiles; ++t)
          tile(e.idx(t * outputs), c, mask);
        return;
      }
    }
    e.forLoop(e.idx(0), count, e.idx(outputs), [&](Value o) { tile(o, c, mask); });
  }

  void tile(Value o, Value c, Value mask, bool inside = false) {
    int64_t stride = w.strides[last], dilation = w.dilations[last];
    Value start = e.sub(e.mul(o, stride), p.padBegin[last]);
    Value first = s.init(c, mask);
    SmallVector<Value> acc(outputs, first);
    Value base = e.add(e.mul(index[0], in.strides[0]), e.mul(c, in.strides[1]));
    auto at = KernelEmitter::constantOf(o), size = KernelEmitter::constantOf(p.out[last]);
    bool wholeTile = inside || (size && *size % outputs == 0) || (at && size && *at + outputs <= *size);

    if (!unroll) {
      std::pair<Value, Value> range{e.idx(0), e.idx(w.kernel[last])};
      if (p.padded[last])
        range = tapRange(e, w, last, start, p.in[last]);
      acc = overOuterTaps(acc, base, [&](SmallVector<Value> a, Value row, Value tapBase) {
        return e.forLoop(range.first, range.second, e.idx(1), a, [&](Value k, ValueRange carried) {
          Value x = e.add(start, e.mul(k, dilation));
          Value v = load(e.gep(row, in.element, e.mul(x, in.strides[last + 2])), mask);
          Value data = s.perTapData ? s.tapData(c, e.add(tapBase, k)) : Value{};
          return SmallVector<Value>{s.combine(carried[0], v, data)};
        });
      });
    } else {
      // Input columns that the tile needs, each with the (output, tap) it serves.
      std::map<int64_t, SmallVector<std::pair<unsigned, int64_t>>> uses;
      for (unsigned t = 0; t < outputs; ++t)
        for (int64_t k = 0; k < w.kernel[last]; ++k)
          uses[t * stride + k * dilation].push_back({t, k});
      auto taps = [&](SmallVector<Value> a, Value row, Value tapBase, bool check) {
        SmallVector<Value> data(w.kernel[last]);
        for (int64_t k = 0; s.perTapData && k < w.kernel[last]; ++k)
          data[k] = s.tapData(c, e.add(tapBase, k));
        for (auto &[offset, users] : uses) {
          Value x = e.add(start, offset);
          Value ptr = e.gep(row, in.element, e.mul(x, in.strides[last + 2])), valid;
          if (check) {
            valid = e.cmp(arith::CmpIPredicate::ult, x, p.in[last]);
            if (KernelEmitter::constantOf(valid) == 0)
              continue;
            ptr = e.select(valid, ptr, padPtr);
          }
          Value v = load(ptr, mask, valid);
          for (auto [t, k] : users)
            a[t] = s.combine(a[t], v, data[k]);
        }
        return a;
      };
      bool mayLeave = !inside && (p.padded[last] || !wholeTile);
      auto run = [&](bool check) {
        return overOuterTaps(acc, base,
                             [&](SmallVector<Value> a, Value row, Value tapBase) { return taps(a, row, tapBase, check); });
      };
      if (!mayLeave) {
        acc = run(false);
      } else if (at && size && KernelEmitter::constantOf(start) && KernelEmitter::constantOf(p.in[last])) {
        acc = run(true);
      } else {
        Value reach = e.idx((outputs - 1) * stride + w.reach(last));
        Value fits = e.logicalAnd(e.cmp(arith::CmpIPredicate::sge, start, e.idx(0)),
                                  e.cmp(arith::CmpIPredicate::sle, e.add(start, reach), p.in[last]));
        SmallVector<Type> types(outputs, acc[0].getType());
        acc = e.ifElse(fits, types, [&] { return run(false); }, [&] { return run(true); });
      }
    }
    Tile t{outputs, 1, o, wholeTile ? Value{} : p.out[last], c, s.lanes, {mask}, {}};
    unsigned live = outputs;
    if (at && size) { // a last tile known at compile time: store just what exists
      live = std::min<int64_t>(outputs, *size - *at);
      t.rows = live, t.rowLimit = {};
    }
    failed |= mlir::failed(storeTile(
        e, op, fusion, t, ValueRange(acc).take_front(live),
        [&](Value ow, Value channel) {
          Point q;
          q.index = {index[0], channel};
          q.index.append(index.begin() + 1, index.end());
          q.index.push_back(ow);
          q.dims = out.dims;
          q.laneAxis = 1;
          return q;
        },
        s.finish));
  }

  /// Loops over the taps of all axes but the last; `body` gets the accumulators,
  /// a pointer to the input row and the number of the row's first tap.
  SmallVector<Value> overOuterTaps(SmallVector<Value> acc, Value base,
                                   llvm::function_ref<SmallVector<Value>(SmallVector<Value>, Value, Value)> body) {
    std::function<SmallVector<Value>(unsigned, SmallVector<Value>, Value, Value)> nest =
        [&](unsigned axis, SmallVector<Value> a, Value offset, Value tap) -> SmallVector<Value> {
      if (axis == last)
        return body(a, e.gep(in.ptr, in.element, offset), e.mul(tap, w.kernel[last]));
      auto [low, high] = ranges[axis];
      return e.forLoop(low, high, e.idx(1), a, [&](Value k, ValueRange carried) {
        Value y = e.add(starts[axis], e.mul(k, w.dilations[axis]));
        Value next = e.add(offset, e.mul(y, in.strides[axis + 2]));
        return nest(axis + 1, SmallVector<Value>(carried), next, e.add(e.mul(tap, w.kernel[axis]), k));
      });
    };
    return nest(0, acc, base, e.idx(0));
  }

  KernelEmitter &e;
  tsr::DispatchOp op;
  Fusion &fusion;
  const Window &w;
  const ChannelWindows &s;
  const TensorRef &in, &out;
  Placement p;
  unsigned last; ///< number of the last spatial axis
  unsigned outputs = 1;
  bool unroll = true;
  bool failed = false;
  Value padPtr;
  SmallVector<Value> index; ///< batch and outer spatial index of the row
  SmallVector<Value> starts;
  SmallVector<std::pair<Value, Value>> ranges;
};

} // namespace

LogicalResult emitChannelWindows(KernelEmitter &e, tsr::DispatchOp op, Fusion &fusion, const Window &window,
                                 const ChannelWindows &spec) {
  return ChannelNest(e, op, fusion, window, spec).run();
}

} // namespace tessera::cpu

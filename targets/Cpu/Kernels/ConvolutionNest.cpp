// The nests of Conv and ConvInteger.
//
// The output pixels of one image are counted as rows of a matrix product whose
// columns are the output channels; the reduction runs over taps and input
// channels. A row is a pointer: for every tap it moves to the pixel under the
// tap, or to a vector of padding values when that pixel is outside. Tiles whose
// windows all lie inside need no such choice, and where a row of taps is
// contiguous in memory (channels last, no dilation) they run through
// kernel width x channels in one loop.
//
// One input channel a group (depthwise) is the nest of Window.h instead.
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "targets/Cpu/Kernels/Convolution.h"
#include "targets/Cpu/Kernels/IntegerPairs.h"

using namespace mlir;

namespace tessera::cpu::convolution {
namespace {

class ConvolutionNest {
public:
  ConvolutionNest(tsr::DispatchOp op, KernelEmitter &e, const Window &w, Filters f)
      : op(op), e(e), w(w), f(f), root(op.getRootOp()), fusion(op, e), out(e.outputs[0]), axes(w.axes()) {}

  LogicalResult run() {
    x = fusion.plainOperand(0);
    const TensorRef *weight = fusion.plainOperand(1);
    if (!x || !weight)
      return root->emitError("operand is not an operand of the kernel");
    integer = isInteger(root);
    if (!integer) {
      if (onnx::getOptionalOperand(root, 2) && !(bias = fusion.plainOperand(2)))
        return root->emitError("bias is not an operand of the kernel");
    } else {
      for (auto [position, zero] : {std::pair{2u, &inZero}, {3u, &weightZero}})
        if (onnx::getOptionalOperand(root, position) && !(*zero = fusion.plainOperand(position)))
          return root->emitError("zero point is not an operand of the kernel");
    }
    int operand = dispatchOperand(op, 1);
    bool packed = dispatchConstant(op, operand) &&
                  llvm::hasSingleElement(op.getBodyBlock()->getArgument(operand).getUses());
    acc = integer ? e.i32() : accumulatorOf(x->element);
    panelType = panelElement(weight->element);
    p = place(e, w, *x, out);
    if (!packed) {
      if (!e.scratch)
        return root->emitError("kernel has no scratch memory for its panels");
      packHere(*weight);
      panels = e.scratch;
    } else {
      panels = weight->ptr;
    }
    if (f.depthwise() && !integer)
      return depthwise();
    if (integer && inZero)
      zero = e.loadElement(*inZero, e.idx(0));
    if (isDepthwiseInteger(op, f))
      return depthwiseInteger();
    pairs = usesPairs(op);
    bool copied = packed && !pairs && p.anyPadded() && copiesPadded(op, f, e.isa.arch);
    if ((pairs || copied) && !e.scratch)
      return root->emitError("kernel has no scratch memory for its copy of the input");
    byColumns = sharesColumns(op, f);
    if (pairs)
      shareCopy();
    if (copied)
      describeCopy(x->element, f.in);
    else if (!pairs && p.anyPadded())
      makePadding();
    flat = axesFlatten(op, axes + 2, 2, axes + 1);
    flatTo = flatAxis(op, 2, axes + 1);
    e.forLoop(out.dims[0], [&](Value n) {
      if (pairs)
        fillWords(n);
      if (copied)
        fillCopy(n);
      e.forLoop(e.idx(f.groups), [&](Value g) { image(pairs || copied ? e.idx(0) : n, n, g); });
    });
    return failure(failed);
  }

private:
  /// From here on the input is the workgroup's copy of it, and the output, but for
  /// shares of the columns, its share of the rows.
  void shareCopy() {
    if (byColumns) {
      describeCopy(e.i32(), (f.in + 1) / 2);
      copy.ptr = e.gep(copy.ptr, copy.element, e.mul(e.workgroup, copy.strides[0]));
      return;
    }
    auto [begin, end] = workgroupShare(e, p.out[0]);
    firstRow = begin;
    p.out[0] = e.sub(end, begin);
    p.padBegin[0] = e.sub(p.padBegin[0], e.mul(begin, w.strides[0]));
    describeCopy(e.i32(), (f.in + 1) / 2);
    // Behind the rows of the workgroups before it, and what those share with their next.
    Value before = e.mul(begin, w.strides[0]);
    if (KernelEmitter::constantOf(begin) != 0)
      before = e.add(before, e.mul(e.workgroup, std::max<int64_t>(0, w.reach(0) - w.strides[0])));
    copy.ptr = e.gep(copy.ptr, copy.element, e.mul(before, copy.strides[2]));
  }

  void packHere(const TensorRef &weight) {
    auto at = [&](Value n, Value c, Value tap) {
      SmallVector<Value> dims, index{n, c};
      for (int64_t k : w.kernel)
        dims.push_back(e.idx(k));
      index.append(unflatten(e, tap, dims));
      return e.offsetOf(weight, index);
    };
    if (f.depthwise() && !integer) {
      emitPackPanels(e, weight, e.scratch, e.idx(f.taps), e.idx(f.groups),
                     [&](Value k, Value c) { return at(c, e.idx(0), k); });
      return;
    }
    e.forLoop(e.idx(f.groups), [&](Value g) {
      Value base = e.gep(e.scratch, panelType, e.mul(g, f.panels() * f.steps() * kPanel));
      emitPackPanels(e, weight, base, e.idx(f.steps()), e.idx(f.out), [&](Value k, Value n) {
        return at(e.add(e.mul(g, f.out), n), e.remU(k, e.idx(f.in)), e.divU(k, e.idx(f.in)));
      });
    });
  }

  LogicalResult depthwise() {
    ChannelWindows s;
    s.in = x;
    s.accumulator = acc;
    s.lanes = tileLanes(e.isa, acc);
    s.perTapData = true;
    s.init = [&](Value c, Value mask) -> Value {
      return bias ? e.loadLanes(*bias, c, s.lanes, mask) : zeroOf(e, KernelEmitter::withLanes(acc, s.lanes));
    };
    s.tapData = [&](Value c, Value tap) {
      Value panel = e.divU(c, e.idx(kPanel)), within = e.remU(c, e.idx(kPanel));
      Value at = e.add(e.mul(e.add(e.mul(panel, f.taps), tap), kPanel), within);
      return e.loadLanes({panels, panelType, {}, {}}, at, s.lanes);
    };
    s.combine = [&](Value a, Value v, Value weight) { return e.fma(v, weight, a); };
    s.finish = [&](Value v, const Point &) -> FailureOr<Value> { return e.round(v, x->element); };
    return emitChannelWindows(e, op, fusion, w, s);
  }

  /// Inputs are words less their zero point; of a weight's word the upper half is 0.
  LogicalResult depthwiseInteger() {
    ChannelWindows s;
    s.in = x;
    s.accumulator = acc;
    s.lanes = tileLanes(e.isa, acc);
    s.perTapData = true;
    s.padElement = zero ? zero : e.intConst(e.i8(), 0);
    bool words = e.isa.arch == Arch::X86_64;
    Value wideZero = zero ? e.splat(extend(zero, x->element), s.lanes) : Value{};
    s.init = [&](Value, Value) { return zeroOf(e, KernelEmitter::withLanes(acc, s.lanes)); };
    s.tapData = [&](Value c, Value tap) {
      Value panel = e.divU(c, e.idx(kPanel)), within = e.remU(c, e.idx(kPanel));
      Value at = e.add(e.mul(e.add(e.mul(panel, f.taps), tap), kPanel), within);
      Value word = e.loadLanes({panels, acc, {}, {}}, at, s.lanes);
      return words ? word : lowHalf(e, word);
    };
    s.combine = [&](Value a, Value v, Value weight) {
      Value wide = extend(v, x->element);
      if (wideZero)
        wide = arith::SubIOp::create(e.b, e.loc, wide, wideZero);
      return words ? multiplyPairs(e, wide, weight, a) : multiplyAdd(e, wide, weight, a);
    };
    s.finish = [&](Value v, const Point &) -> FailureOr<Value> { return v; };
    return emitChannelWindows(e, op, fusion, w, s);
  }

  /// An integer in the accumulator's type.
  Value extend(Value v, Type from) {
    Type to = KernelEmitter::sameShape(v, acc);
    if (KernelEmitter::isUnsigned(from))
      return arith::ExtUIOp::create(e.b, e.loc, to, v);
    return arith::ExtSIOp::create(e.b, e.loc, to, v);
  }

  /// A pixel's channels as they are read outside the input.
  void makePadding() {
    unsigned bytes = KernelEmitter::storageBits(x->element) / 8;
    padding = e.allocaBytes(static_cast<uint64_t>(f.in) * bytes);
    TensorRef to{padding, x->element, {}, {}};
    Value v = zero ? zero : zeroOf(e, KernelEmitter::valueType(x->element));
    e.forLoop(e.idx(f.in), [&](Value c) { e.storeElement(to, c, v); });
  }

  /// From here on the input is the padded copy in scratch memory, with `perGroup`
  /// elements a pixel and group.
  void describeCopy(Type element, int64_t perGroup) {
    source = x;
    sourcePlace = p;
    SmallVector<Value> covered = coveredSizes<Value>(
        w, p.out, [&](Value a, int64_t v) { return e.add(a, v); }, [&](Value a, int64_t v) { return e.mul(a, v); });
    f.in = perGroup;
    copy.ptr = e.scratch;
    copy.element = element;
    copy.dims = {e.idx(1), e.idx(f.groups * f.in)};
    copy.dims.append(covered);
    copy.strides.assign(axes + 2, e.idx(1));
    Value stride = copy.dims[1];
    for (int a = static_cast<int>(axes) - 1; a >= 0; --a) {
      copy.strides[a + 2] = stride;
      stride = e.mul(stride, covered[a]);
    }
    copy.strides[0] = stride;
    x = &copy;
    if (pairs)
      panelType = element;
    for (unsigned a = 0; a < axes; ++a) {
      p.padBegin[a] = e.idx(0);
      p.in[a] = covered[a];
      p.padded[a] = false;
    }
  }

  /// Channels of all pixels as they are; zeros around them.
  void fillCopy(Value n) {
    e.vectorLoop(copy.strides[0], 32, 4, [&](Value i, Lanes lanes, Value mask) {
      e.storeLanes(copy, i, e.floatConst(KernelEmitter::withLanes(e.f32(), lanes), 0), mask);
    });
    SmallVector<Value> sizes;
    for (unsigned a = 0; a < axes; ++a) // input positions that some window covers
      sizes.push_back(e.maxS(e.idx(0), e.minS(source->dims[a + 2], e.sub(p.in[a], sourcePlace.padBegin[a]))));
    bool run = f.in == 1 && KernelEmitter::constantOf(source->strides.back()) == 1;
    e.forAll(ArrayRef<Value>(sizes).drop_back(1), [&](ArrayRef<Value> at) {
      Value from = e.mul(n, source->strides[0]), to = e.mul(sourcePlace.padBegin.back(), copy.strides.back());
      for (unsigned a = 0; a + 1 < axes; ++a) {
        from = e.add(from, e.mul(at[a], source->strides[a + 2]));
        to = e.add(to, e.mul(e.add(at[a], sourcePlace.padBegin[a]), copy.strides[a + 2]));
      }
      if (run) {
        e.vectorLoop(sizes.back(), 32, 1, [&](Value i, Lanes lanes, Value mask) {
          e.storeLanes(copy, e.add(to, i), e.loadLanes(*source, e.add(from, i), lanes, mask), mask);
        });
        return;
      }
      e.forLoop(sizes.back(), [&](Value i) {
        for (int64_t c = 0; c < f.in; ++c)
          e.storeElement(copy, e.add(to, e.add(e.mul(i, copy.strides.back()), c)),
                         e.loadElement(*source, e.add(from, e.add(e.mul(i, source->strides.back()), e.mul(source->strides[1], c)))));
      });
    });
  }

  void fillWords(Value n) {
    Value zero16 = zero ? widenTo16(e, zero, source->element) : Value{};
    emitClear16(e, copy.ptr, e.mul(copy.strides[0], 2));
    int64_t channels = tensorType(root, 1).getDimSize(1);
    // Input positions that some window covers. Rows before a workgroup's share have negative places.
    SmallVector<Value> sizes, index(axes + 2, n);
    Value low = e.maxS(e.idx(0), e.sub(e.idx(0), sourcePlace.padBegin[0]));
    for (unsigned a = 0; a < axes; ++a) {
      Value end = e.minS(source->dims[a + 2], e.sub(p.in[a], sourcePlace.padBegin[a]));
      sizes.push_back(e.maxS(e.idx(0), a ? end : e.sub(end, low)));
    }
    bool whole = f.groups == 1 && channels % 2 == 0 && KernelEmitter::constantOf(source->strides[1]) == 1;
    unsigned loops = whole ? axes - 1 : axes;
    e.forAll(ArrayRef<Value>(sizes).take_front(loops), [&](ArrayRef<Value> at) {
      Value from = e.mul(n, source->strides[0]), to = e.idx(0);
      for (unsigned a = 0; a < axes; ++a) {
        Value i = a < loops ? at[a] : e.idx(0);
        if (a == 0)
          i = e.add(i, low);
        from = e.add(from, e.mul(i, source->strides[a + 2]));
        to = e.add(to, e.mul(e.add(i, sourcePlace.padBegin[a]), copy.strides[a + 2]));
      }
      to = e.mul(to, 2);
      if (whole) { // a row of pixels is contiguous
        emitWiden(e, *source, from, e.idx(1), e.mul(sizes.back(), channels), zero16, copy.ptr, to);
        return;
      }
      e.forLoop(e.idx(f.groups), [&](Value g) {
        Value channel = e.mul(g, channels);
        emitWiden(e, *source, e.add(from, e.mul(channel, source->strides[1])), source->strides[1], e.idx(channels),
                  zero16, copy.ptr, e.add(to, e.mul(g, f.in * 2)));
      });
    });
  }

  void image(Value inImage, Value n, Value g) {
    Value pixels = e.product(p.out);
    TileSpace space{pixels, e.idx(f.out), acc, columnLanes(e.isa, acc)};
    auto count = KernelEmitter::constantOf(pixels);
    space.separateProduct = pairs;
    if (byColumns)
      space.split = Split::Columns;
    else if (!pairs)
      space.split = count && *count <= 64 && f.out >= 128 ? Split::Columns : Split::Rows;
    // Going through all channels for a chunk of pixels pays while the chunk's
    // inputs and outputs and the weights stay in the second-level cache.
    int64_t perPixel = f.in;
    for (int64_t s : w.strides)
      perPixel *= s;
    perPixel = (perPixel + f.out) * 4;
    if (f.out > 32 && f.steps() * f.out * 4 <= 512 * 1024)
      space.rowChunk = std::max<int64_t>(96, 512 * 1024 / perPixel);
    Value inBase = e.gep(x->ptr, x->element,
                         e.add(e.mul(inImage, x->strides[0]), e.mul(e.mul(g, f.in), x->strides[1])));
    Value weights = e.gep(panels, panelType, e.mul(g, f.panels() * f.steps() * kPanel));
    Value firstChannel = e.mul(g, f.out);

    auto pointOf = [&](Value row, Value column) {
      Point q;
      q.index = {n, e.add(firstChannel, column)};
      if (flat) {
        q.index.resize(axes + 2, e.idx(0));
        q.index[flatTo] = firstRow ? e.add(row, e.mul(firstRow, e.product(ArrayRef<Value>(p.out).drop_front(1)))) : row;
      } else {
        q.index.append(unflatten(e, row, p.out));
        if (firstRow)
          q.index[2] = e.add(q.index[2], firstRow);
      }
      q.dims = out.dims;
      q.laneAxis = 1;
      return q;
    };
    if (isStreaming(e.isa))
      return streamImage(space, weights, inBase, pointOf);

    forTiles(e, space, [&](const Tile &tile) {
      Value last = tile.rowLimit ? e.sub(pixels, 1) : Value{};
      starts.assign(tile.rows, {});
      positions.assign(tile.rows, {});
      for (unsigned i = 0; i < tile.rows; ++i) {
        positions[i] = i ? nextPixel(positions[i - 1], last ? e.lt(e.add(tile.row, i), pixels) : Value{})
                         : unflatten(e, tile.row, p.out);
        for (unsigned a = 0; a < axes; ++a)
          starts[i].push_back(e.sub(e.mul(positions[i][a], w.strides[a]), p.padBegin[a]));
      }
      SmallVector<Value> sums;
      for (unsigned j = 0; j < tile.vectors; ++j) {
        Type type = KernelEmitter::withLanes(acc, tile.lanes);
        if (bias)
          sums.push_back(e.loadLanes(
              *bias, e.add(firstChannel, tile.columnOf(e, j)),
              tile.lanes, tile.mask[j]));
        else
          sums.push_back(zeroOf(e, type));
      }
      for (unsigned i = 1; i < tile.rows; ++i)
        for (unsigned j = 0; j < tile.vectors; ++j)
          sums.push_back(Value(sums[j])); // a copy: the vector may move
      TileColumns columns =
          panelColumns(e, tile, weights, panelType, e.idx(f.steps()));
      rowConvert = nullptr;
      if (pairs)
        columns.multiply = multiplyPairs;
      else if (integer)
        convertIntegers(columns, tile, firstChannel);

      if (!p.anyPadded()) {
        sums = insideTile(sums, inBase, columns);
      } else {
        SmallVector<Type> types(sums.size(), sums[0].getType());
        sums = e.ifElse(liesInside(), types, [&] { return insideTile(sums, inBase, columns); },
                        [&] { return borderTile(sums, inBase, columns); });
      }
      failed |= mlir::failed(storeTile(e, op, fusion, tile, sums, pointOf, [&](Value v, const Point &) -> FailureOr<Value> {
        return integer ? v : e.round(v, x->element);
      }));
    });
  }

  /// The image in streaming mode, by outer products.
  void streamImage(const TileSpace &space, Value weights, Value inBase,
                   llvm::function_ref<Point(Value row, Value column)> pointOf) {
    WindowRows windows{w, p, *x, f.in, inBase, padding, {}};
    windows.scratch = e.gep(e.scratch, acc, e.mul(e.workgroup, windowRowsFloats(f.taps, f.in)));
    OuterSpace outer{space.rows, space.columns, e.idx(f.steps()), weights, {}, windows.scratch, space.split};
    auto finish = [&](Value v, const Point &at) -> FailureOr<Value> {
      return bias ? e.addF(v, e.loadLanes(*bias, at.index[1], at.lanes, at.mask)) : v;
    };
    auto pack = [&](Value first, Value rows) { packWindows(e, windows, first, rows); };
    failed |= mlir::failed(outerProducts(e, op, fusion, outer, pack, pointOf, finish));
  }

  /// The pixel after `at` in memory order; stays at `at` where `exists` is false.
  SmallVector<Value> nextPixel(ArrayRef<Value> at, Value exists) {
    SmallVector<Value> next(at);
    Value carry = exists;
    for (int a = static_cast<int>(axes) - 1; a >= 0; --a) {
      Value plus = e.add(at[a], 1);
      Value wraps = a ? e.eq(plus, p.out[a]) : Value{};
      Value value = wraps ? e.select(wraps, e.idx(0), plus) : plus;
      next[a] = carry ? e.select(carry, value, at[a]) : value;
      if (wraps)
        carry = carry ? e.logicalAnd(carry, wraps) : wraps;
    }
    return next;
  }

  /// Whether no window of the tile leaves the input.
  Value liesInside() {
    Value all;
    auto require = [&](Value c) { all = all ? e.logicalAnd(all, c) : c; };
    ArrayRef<Value> first = starts.front(), end = starts.back();
    bool sameRow = false; // demanded already
    for (unsigned a = 0; a < axes; ++a) {
      if (!p.padded[a])
        continue;
      bool inner = a + 1 == axes;
      // Pixels between the first and the last have positions between theirs on
      // this axis only when the outer ones do not change.
      if (a > 0 && !sameRow) {
        for (unsigned o = 0; o < a; ++o)
          require(e.eq(first[o], end[o]));
        sameRow = inner;
      }
      require(e.cmp(arith::CmpIPredicate::sge, first[a], e.idx(0)));
      require(e.cmp(arith::CmpIPredicate::sle, e.add(end[a], w.reach(a)), p.in[a]));
    }
    return all;
  }

  Value offsetOfStart(unsigned row) {
    Value offset = e.idx(0);
    for (unsigned a = 0; a < axes; ++a)
      offset = e.add(offset, e.mul(starts[row][a], x->strides[a + 2]));
    return offset;
  }

  TileColumns atTap(const TileColumns &columns, Value tap) {
    TileColumns moved = columns;
    for (Value &ptr : moved.ptr)
      ptr = e.gep(ptr, panelType, e.mul(tap, f.in * kPanel));
    return moved;
  }

  /// Loops over the axes [0, count) of the kernel: `body(acc, tap indices)`.
  SmallVector<Value> overTaps(SmallVector<Value> sums, unsigned count,
                              llvm::function_ref<SmallVector<Value>(SmallVector<Value>, ArrayRef<Value>)> body) {
    SmallVector<Value> taps;
    std::function<SmallVector<Value>(SmallVector<Value>)> nest = [&](SmallVector<Value> s) -> SmallVector<Value> {
      if (taps.size() == count)
        return body(s, taps);
      return e.forLoop(e.idx(0), e.idx(w.kernel[taps.size()]), e.idx(1), s, [&](Value k, ValueRange carried) {
        taps.push_back(k);
        SmallVector<Value> next = nest(SmallVector<Value>(carried));
        taps.pop_back();
        return next;
      });
    };
    return nest(sums);
  }

  SmallVector<Value> insideTile(SmallVector<Value> sums, Value inBase, const TileColumns &columns) {
    unsigned last = axes - 1;
    Value channelStride = x->strides[1], columnStride = x->strides[last + 2];
    // Whether a row of taps is one run: its step, or none.
    Value step;
    if (w.kernel[last] > 1) {
      if (f.in == 1)
        step = e.mul(columnStride, w.dilations[last]);
      else if (KernelEmitter::constantOf(channelStride) == 1 && w.dilations[last] == 1 &&
               KernelEmitter::constantOf(columnStride) == f.in)
        step = channelStride;
    }
    SmallVector<Value> rowStart;
    for (unsigned i = 0; i < starts.size(); ++i)
      rowStart.push_back(e.gep(inBase, x->element, offsetOfStart(i)));
    return overTaps(sums, step ? last : axes, [&](SmallVector<Value> s, ArrayRef<Value> taps) {
      Value offset = e.idx(0), tap = e.idx(0);
      for (unsigned a = 0; a < axes; ++a) {
        tap = e.mul(tap, w.kernel[a]);
        if (a >= taps.size())
          continue;
        tap = e.add(tap, taps[a]);
        offset = e.add(offset, e.mul(e.mul(taps[a], w.dilations[a]), x->strides[a + 2]));
      }
      TileRows rows{{}, x->element, step ? step : channelStride, rowConvert};
      for (Value start : rowStart)
        rows.ptr.push_back(e.gep(start, x->element, offset));
      return accumulate(e, s, rows, atTap(columns, tap), e.idx(step ? w.kernel[last] * f.in : f.in));
    });
  }

  SmallVector<Value> borderTile(SmallVector<Value> sums, Value inBase, const TileColumns &columns) {
    SmallVector<Value> rowStart;
    for (unsigned i = 0; i < starts.size(); ++i)
      rowStart.push_back(e.gep(inBase, x->element, offsetOfStart(i)));
    return overTaps(sums, axes, [&](SmallVector<Value> s, ArrayRef<Value> taps) {
      Value offset = e.idx(0), tap = e.idx(0);
      SmallVector<Value> moved;
      for (unsigned a = 0; a < axes; ++a) {
        tap = e.add(e.mul(tap, w.kernel[a]), taps[a]);
        moved.push_back(e.mul(taps[a], w.dilations[a]));
        offset = e.add(offset, e.mul(moved[a], x->strides[a + 2]));
      }
      // The padding pixel is read with the input's channel stride if that is 1;
      // else it is one element read again and again.
      bool dense = KernelEmitter::constantOf(x->strides[1]) == 1;
      TileRows rows{{}, x->element, x->strides[1], rowConvert};
      if (!dense)
        return borderStep(s, rowStart, offset, moved, atTap(columns, tap));
      for (unsigned i = 0; i < starts.size(); ++i)
        rows.ptr.push_back(e.select(insideInput(i, moved), e.gep(rowStart[i], x->element, offset), padding));
      return accumulate(e, s, rows, atTap(columns, tap), e.idx(f.in));
    });
  }

  /// A tap of a border tile when channels are not contiguous: the choice is
  /// made per channel.
  SmallVector<Value> borderStep(SmallVector<Value> s, ArrayRef<Value> rowStart, Value offset, ArrayRef<Value> moved,
                                const TileColumns &columns) {
    SmallVector<Value> inside;
    for (unsigned i = 0; i < starts.size(); ++i)
      inside.push_back(insideInput(i, moved));
    return e.forLoop(e.idx(0), e.idx(f.in), e.idx(1), s, [&](Value c, ValueRange carried) {
      TileRows rows{{}, x->element, e.idx(0), rowConvert};
      for (unsigned i = 0; i < starts.size(); ++i) {
        Value ptr = e.gep(rowStart[i], x->element, e.add(offset, e.mul(c, x->strides[1])));
        rows.ptr.push_back(e.select(inside[i], ptr, padding));
      }
      TileColumns at = columns;
      for (Value &ptr : at.ptr)
        ptr = e.gep(ptr, panelType, e.mul(c, kPanel));
      return accumulate(e, carried, rows, at, e.idx(1));
    });
  }

  Value insideInput(unsigned row, ArrayRef<Value> moved) {
    Value all;
    for (unsigned a = 0; a < axes; ++a) {
      if (!p.padded[a])
        continue;
      Value c = e.cmp(arith::CmpIPredicate::ult, e.add(starts[row][a], moved[a]), p.in[a]);
      all = all ? e.logicalAnd(all, c) : c;
    }
    return all;
  }

  void convertIntegers(TileColumns &columns, const Tile &tile, Value firstChannel) {
    auto widen = [this](Value v, Type from) { return extend(v, from); };
    Value inputZero = zero ? widen(zero, x->element) : Value{};
    rowConvert = [=, this](Value v, unsigned) -> Value {
      Value wide = widen(v, x->element);
      return inputZero ? Value(arith::SubIOp::create(e.b, e.loc, wide, inputZero)) : wide;
    };
    SmallVector<Value> zeros;
    for (unsigned j = 0; weightZero && j < tile.vectors; ++j) {
      Point at;
      at.index.push_back(e.add(firstChannel, tile.columnOf(e, j)));
      at.laneAxis = 0, at.lanes = tile.lanes, at.mask = tile.mask[j];
      zeros.push_back(widen(e.loadAt(*weightZero, at), weightZero->element));
    }
    Type element = panelType;
    columns.convert = [=, this](Value v, unsigned j) -> Value {
      Value wide = widen(v, element);
      return zeros.empty() ? wide : Value(arith::SubIOp::create(e.b, e.loc, wide, e.splat(zeros[j], columns.lanes)));
    };
  }

  tsr::DispatchOp op;
  KernelEmitter &e;
  const Window &w;
  Filters f;
  Operation *root;
  Fusion fusion;
  const TensorRef &out;
  const unsigned axes;
  const TensorRef *x = nullptr, *bias = nullptr, *inZero = nullptr, *weightZero = nullptr;
  const TensorRef *source = nullptr; ///< the input when `x` is its copy in words
  TensorRef copy; ///< of one image, padded
  Placement sourcePlace;
  bool integer = false, pairs = false, byColumns = false, flat = false, failed = false;
  unsigned flatTo = 0;
  Type acc, panelType;
  Value panels, padding, zero;
  Value firstRow; ///< of the workgroup's share; null where rows are not shared out before the copy
  Placement p;
  Convert rowConvert;
  SmallVector<SmallVector<Value>> positions, starts; ///< per row of the tile, per axis
};

} // namespace

LogicalResult emitNest(tsr::DispatchOp op, KernelEmitter &e, const Window &w, const Filters &f) {
  return ConvolutionNest(op, e, w, f).run();
}

} // namespace tessera::cpu::convolution

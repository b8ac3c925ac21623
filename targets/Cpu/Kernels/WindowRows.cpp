#include "targets/Cpu/Kernels/WindowRows.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "targets/Cpu/Kernels/Sme.h"

using namespace mlir;

namespace tessera::cpu {

/// Packed rows of a block in floats.
static int64_t packedFloats(int64_t steps) { return (steps + 3) / 4 * 4 * kOuterRows; }

int64_t windowRowsFloats(int64_t taps, int64_t channels) {
  int64_t steps = taps * channels;
  return packedFloats(steps) + (channels % 4 && taps > 1 ? (steps + 15) / 16 * 16 * kOuterRows : 0);
}

onnx::Sym windowRowsBytes(onnx::SymContext &ctx, int64_t taps, int64_t channels) {
  return ctx.constant(windowRowsFloats(taps, channels) * 4);
}

namespace {

class WindowPacker {
public:
  WindowPacker(KernelEmitter &e, const WindowRows &r)
      : e(e), r(r), w(r.window), axes(w.axes()), packer(e, r.scratch) {
    for (int64_t k : w.kernel)
      taps *= k;
    // Per row of a block: offset of the window's first pixel, its positions.
    table = e.allocaBytes(static_cast<uint64_t>(kOuterRows) * (axes + 1) * 8);
  }

  void run(Value first, Value rows) {
    fillTable(first, rows);
    if (taps == 1 || r.channels % 4 == 0)
      return byTap(rows);
    assemble(rows);
    Value buffer = e.gep(r.scratch, e.f32(), e.idx(packedFloats(taps * r.channels)));
    packer.packRuns(rows, e.idx(0), e.idx(taps * r.channels),
                    [&](Value row) { return e.gep(buffer, e.f32(), e.mul(row, taps * r.channels)); });
  }

private:
  Value entry(Value row, unsigned which) {
    return e.gep(table, e.i64(), e.add(e.mul(row, axes + 1), which));
  }

  void fillTable(Value first, Value rows) {
    e.forLoop(rows, [&](Value row) {
      SmallVector<Value> at = unflatten(e, e.add(first, row), r.place.out);
      Value offset = e.idx(0);
      for (unsigned a = 0; a < axes; ++a) {
        Value start = e.sub(e.mul(at[a], w.strides[a]), r.place.padBegin[a]);
        offset = e.add(offset, e.mul(start, r.input.strides[a + 2]));
        if (r.place.padded[a])
          e.rawStore(start, entry(row, a + 1));
      }
      e.rawStore(offset, entry(row, 0));
    });
  }

  /// Loops over the axes [0, count) of the kernel: body(tap indices).
  void overTaps(unsigned count, llvm::function_ref<void(ArrayRef<Value>)> body) {
    SmallVector<Value> dims;
    for (unsigned a = 0; a < count; ++a)
      dims.push_back(e.idx(w.kernel[a]));
    e.forAll(dims, body);
  }

  /// A run of channels for every tap and row.
  void byTap(Value rows) {
    overTaps(axes, [&](ArrayRef<Value> tap) {
      Value number = e.idx(0), offset = e.idx(0);
      SmallVector<Value> moved;
      for (unsigned a = 0; a < axes; ++a) {
        number = e.add(e.mul(number, w.kernel[a]), tap[a]);
        moved.push_back(e.mul(tap[a], w.dilations[a]));
        offset = e.add(offset, e.mul(moved[a], r.input.strides[a + 2]));
      }
      Value base = e.gep(r.base, e.f32(), offset);
      packer.packRuns(rows, e.mul(number, r.channels), e.idx(r.channels), [&](Value row) -> Value {
        Value from = e.gep(base, e.f32(), e.rawLoad(e.i64(), entry(row, 0)));
        Value inside;
        for (unsigned a = 0; a < axes; ++a)
          if (r.place.padded[a])
            inside = both(inside, isInside(row, a, moved[a]));
        return inside ? e.select(inside, from, r.padding) : from;
      });
    });
  }

  Value both(Value a, Value c) { return a ? e.logicalAnd(a, c) : c; }

  Value isInside(Value row, unsigned axis, Value moved) {
    Value at = e.add(e.rawLoad(e.i64(), entry(row, axis + 1)), moved);
    return e.cmp(arith::CmpIPredicate::ult, at, r.place.in[axis]);
  }

  /// Rows of all taps and channels one after the other, behind the packed ones.
  void assemble(Value rows) {
    int64_t steps = taps * r.channels;
    Value buffer = e.gep(r.scratch, e.f32(), e.idx(packedFloats(steps)));
    if (r.place.anyPadded()) // what no window's pixel overwrites
      copy({}, buffer, e.mul(rows, steps));
    unsigned last = axes - 1;
    bool runs = w.dilations[last] == 1 && KernelEmitter::constantOf(r.input.strides[last + 2]) == r.channels;
    e.forLoop(rows, [&](Value row) {
      Value origin = e.gep(r.base, e.f32(), e.rawLoad(e.i64(), entry(row, 0)));
      Value to = e.gep(buffer, e.f32(), e.mul(row, steps));
      overTaps(runs ? last : axes, [&](ArrayRef<Value> tap) {
        Value number = e.idx(0), offset = e.idx(0), inside;
        for (unsigned a = 0; a < tap.size(); ++a) {
          Value moved = e.mul(tap[a], w.dilations[a]);
          number = e.add(e.mul(number, w.kernel[a]), tap[a]);
          offset = e.add(offset, e.mul(moved, r.input.strides[a + 2]));
          if (r.place.padded[a])
            inside = both(inside, isInside(row, a, moved));
        }
        auto copyRun = [&] {
          Value begin = e.idx(0), count = e.idx(1);
          if (runs) {
            number = e.mul(number, w.kernel[last]);
            count = e.idx(w.kernel[last]);
            if (r.place.padded[last]) {
              auto [b, t] = tapRange(e, w, last, e.rawLoad(e.i64(), entry(row, last + 1)), r.place.in[last]);
              begin = b, count = e.sub(t, b);
            }
          }
          Value skipped = e.mul(begin, r.channels);
          copy(e.gep(origin, e.f32(), e.add(offset, skipped)),
               e.gep(to, e.f32(), e.add(e.mul(number, r.channels), skipped)), e.mul(count, r.channels));
        };
        if (inside)
          e.ifThen(inside, copyRun);
        else
          copyRun();
      });
    });
  }

  /// `count` floats from `from`, or zeros where that is null.
  void copy(Value from, Value to, Value count) {
    Type type = sme::vectorType(e);
    e.forLoop(e.idx(0), count, e.laneCount(sme::lanes), [&](Value i) {
      Value mask = e.laneMask(i, count, sme::lanes), zero = e.floatConst(type, 0);
      Value v = from ? e.maskedLoad(type, e.gep(from, e.f32(), i), mask, zero) : zero;
      e.maskedStore(v, e.gep(to, e.f32(), i), mask);
    });
  }

  KernelEmitter &e;
  const WindowRows &r;
  const Window &w;
  unsigned axes;
  RowPacker packer;
  int64_t taps = 1;
  Value table;
};

} // namespace

void packWindows(KernelEmitter &e, const WindowRows &r, Value first, Value rows) {
  WindowPacker(e, r).run(first, rows);
}

} // namespace tessera::cpu

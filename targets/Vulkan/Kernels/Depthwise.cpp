#include "targets/Vulkan/Kernels/Depthwise.h"

#include <map>

using namespace mlir;

namespace tessera::vulkan {

bool hasChannelQuads(const Buffer &t) {
  return t.count % 4 == 0 && t.strides[1] == 1 &&
         llvm::all_of(llvm::enumerate(t.strides), [](auto a) {
           return a.index() == 1 || a.value() % 4 == 0;
         });
}

namespace {

/// One invocation.
class Depthwise {
public:
  Depthwise(Emitter &e, const Windows &s, const Buffer &x,
            const DepthwiseMath &math, int64_t wide)
      : e(e), s(s), math(math), wide(wide), last(s.w.axes() - 1),
        channels(x.dims[1] / 4) {
    for (int64_t stride : ArrayRef(x.strides).drop_front(2))
      strides.push_back(stride / 4);
  }
  /// Sums of `wide` pixels from `at` on; their channels' image is at `base`.
  SmallVector<Value> sums(ArrayRef<Index> at, Index base, Index quad);

private:
  /// Where a coordinate reads along `axis`; adds to `inside` what it takes.
  Index checked(unsigned axis, Index p, Value &inside);
  SmallVector<Value> rowOfTaps(ArrayRef<Index> tap, Index base, Index quad,
                               ValueRange carried);

  Emitter &e;
  const Windows &s;
  const DepthwiseMath &math;
  int64_t wide;
  unsigned last;
  int64_t channels; ///< quads of them
  SmallVector<int64_t> strides;
  SmallVector<Index> starts;
};

} // namespace

Index Depthwise::checked(unsigned axis, Index p, Value &inside) {
  Value here = arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::ult,
                                     e.value(p), e.value(s.in[axis]));
  inside = e.both(inside, here);
  return Index(e.pick(here, e.value(p), e.value(0)));
}

/// The taps of the last axis.
SmallVector<Value> Depthwise::rowOfTaps(ArrayRef<Index> tap, Index base,
                                        Index quad, ValueRange carried) {
  SmallVector<Value> sums(carried.begin(), carried.end());
  Value insideRow;
  Index row = base, flat = 0;
  for (unsigned a = 0; a < tap.size(); ++a) {
    Index p = e.add(starts[a], e.mul(tap[a], s.w.dilations[a]));
    if (s.padded[a] && s.w.dilations[a] != 1)
      p = checked(a, p, insideRow);
    row = e.add(row, e.mul(p, strides[a]));
    flat = e.add(e.mul(flat, s.w.kernel[a]), tap[a]);
  }
  std::map<int64_t, Value> loaded; // by distance from the first window's start
  auto load = [&](int64_t distance) {
    Value &v = loaded[distance];
    if (v)
      return v;
    Index p = e.add(starts[last], distance);
    Value inside = insideRow;
    if (s.leaves(last, wide, distance))
      p = checked(last, p, inside);
    v = math.input(e.add(row, e.mul(p, strides[last])));
    if (inside)
      v = e.pick(inside, v, math.zero);
    return v;
  };
  for (int64_t k = 0; k < s.w.kernel[last]; ++k) {
    Value weight = math.weight(
        e.add(e.mul(e.add(e.mul(flat, s.w.kernel[last]), k), channels), quad));
    for (int64_t i = 0; i < wide; ++i)
      sums[i] = math.add(load(i * s.w.strides[last] + k * s.w.dilations[last]),
                         weight, sums[i]);
  }
  return sums;
}

SmallVector<Value> Depthwise::sums(ArrayRef<Index> at, Index base, Index quad) {
  starts = s.starts(e, at);
  SmallVector<Value> begin(wide, math.begin(quad));
  return forTaps(
      e, ArrayRef(s.w.kernel).drop_back(), begin,
      [&](ArrayRef<Index> tap, ValueRange carried) {
        return rowOfTaps(tap, base, quad, carried);
      },
      [&](unsigned axis) { return s.reach(e, starts[axis], axis); });
}

LogicalResult emitDepthwise(Emitter &e, const Fusion &fusion, const Windows &s,
                            const Buffer &x, const DepthwiseMath &math) {
  unsigned last = s.w.axes() - 1;
  int64_t wide = std::min<int64_t>(s.out[last], 4);
  SmallVector<int64_t> sizes{fusion.dims()[0]};
  sizes.append(s.out.begin(), s.out.end());
  sizes.back() = s.strips(last, wide);
  sizes.push_back(x.dims[1] / 4);
  int64_t threads = 1;
  for (int64_t d : sizes)
    threads *= d;
  LogicalResult result = success();
  e.grid(threads, [&](Index id) {
    SmallVector<Index> digits = e.digits(id, sizes);
    Index quad = digits.back(), image = digits.front();
    SmallVector<Index> at(digits.begin() + 1, digits.end() - 1);
    Index start = e.mul(at[last], wide); // by the grid
    at[last] = s.stripStart(e, last, wide, at[last]);
    Depthwise kernel(e, s, x, math, wide);
    SmallVector<Value> sums =
        kernel.sums(at, e.add(e.mul(image, x.strides[0] / 4), quad), quad);
    if (math.finish)
      math.finish(sums, quad);
    for (int64_t i = 0; i < wide; ++i) {
      Index column = e.add(at[last], i);
      e.when(s.out[last] % wide ? e.ge(column, start) : Value{}, [&] {
        Point p{{image, quad}, 1};
        p.at.append(at.begin(), at.end());
        p.at.back() = column;
        if (failed(math.store(sums[i], p)))
          result = failure();
      });
    }
  });
  return result;
}

} // namespace tessera::vulkan

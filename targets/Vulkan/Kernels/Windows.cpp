#include "targets/Vulkan/Kernels/Windows.h"

using namespace mlir;

namespace tessera::vulkan {

FailureOr<Windows> Windows::read(Operation *root, ArrayRef<int64_t> kernel,
                                 const Buffer &in, ArrayRef<int64_t> outDims,
                                 Reasons &reasons) {
  Windows s;
  if (failed(cpu::readWindow(root, kernel, s.w, reasons)))
    return failure();
  bool same = s.w.autoPad.starts_with("SAME");
  for (unsigned i = 0; i < s.w.axes(); ++i) {
    int64_t size = in.dims[i + 2], count = outDims[i + 2];
    int64_t covered = (count - 1) * s.w.strides[i] + s.w.reach(i);
    int64_t begin = s.w.padBegin[i];
    if (same) {
      int64_t total = std::max<int64_t>(covered - size, 0);
      begin = s.w.autoPad == "SAME_UPPER" ? total / 2 : total - total / 2;
    }
    s.in.push_back(size);
    s.out.push_back(count);
    s.padBegin.push_back(begin);
    s.padded.push_back(begin > 0 || covered - begin > size);
  }
  return s;
}

SmallVector<Index> Windows::starts(Emitter &e, ArrayRef<Index> at) const {
  SmallVector<Index> starts;
  for (unsigned i = 0; i < w.axes(); ++i)
    starts.push_back(e.sub(e.mul(at[i], w.strides[i]), padBegin[i]));
  return starts;
}

Value Windows::inside(Emitter &e, ArrayRef<Index> starts,
                      ArrayRef<Index> tap) const {
  Value all;
  for (unsigned i = 0; i < w.axes(); ++i) {
    if (!padded[i])
      continue;
    Index p = e.add(starts[i], e.mul(tap[i], w.dilations[i]));
    // One unsigned comparison: what is below 0 is great.
    Value here = arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::ult,
                                       e.value(p), e.value(in[i]));
    all = e.both(all, here);
  }
  return all;
}

std::optional<std::pair<Index, Index>> Windows::reach(Emitter &e, Index start,
                                                      unsigned axis) const {
  Index kernel = w.kernel[axis];
  if (!padded[axis])
    return std::pair<Index, Index>{0, kernel};
  if (w.dilations[axis] != 1)
    return std::nullopt;
  return std::pair{e.max(e.sub(0, start), 0),
                   e.min(e.sub(in[axis], start), kernel)};
}

Index Windows::stripStart(Emitter &e, unsigned axis, int64_t wide,
                          Index strip) const {
  Index start = e.mul(strip, wide);
  return out[axis] % wide ? e.min(start, out[axis] - wide) : start;
}

bool Windows::leaves(unsigned axis, int64_t wide, int64_t distance) const {
  for (int64_t strip = 0; strip < strips(axis, wide); ++strip) {
    int64_t first = std::min(strip * wide, out[axis] - wide);
    int64_t p = first * w.strides[axis] - padBegin[axis] + distance;
    if (p < 0 || p >= in[axis])
      return true;
  }
  return false;
}

SmallVector<Value> forTaps(Emitter &e, ArrayRef<int64_t> kernel,
                           ValueRange init, TapBody body, TapBounds bounds) {
  SmallVector<Index> tap;
  std::function<SmallVector<Value>(ValueRange)> nest = [&](ValueRange carried) {
    unsigned axis = tap.size();
    if (axis == kernel.size())
      return body(tap, carried);
    std::pair<Index, Index> all{0, kernel[axis]};
    auto [first, end] = bounds ? bounds(axis).value_or(all) : all;
    return e.loopBetween(first, end, kernel[axis], carried,
                         [&](Index k, ValueRange values) {
                           tap.push_back(k);
                           SmallVector<Value> results = nest(values);
                           tap.pop_back();
                           return results;
                         });
  };
  return nest(init);
}

} // namespace tessera::vulkan

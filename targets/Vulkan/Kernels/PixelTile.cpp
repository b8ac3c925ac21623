#include "targets/Vulkan/Kernels/PixelTile.h"

using namespace mlir;

namespace tessera::vulkan {

PixelTile::PixelTile(Emitter &e, Fusion &fusion, const Windows &s,
                     const Buffer &x, int64_t columns, bool skips,
                     int64_t quads)
    : e(e), s(s), strides(ArrayRef(x.strides).drop_front(2)), skips(skips) {
  for (int64_t d : s.out)
    pixels *= d;
  t = RowTile::choose(pixels, columns, quads);
  if (isLinear(fusion) && fusion.joinAxes(2)) {
    form = Form::Linear;
  } else if (makesStrips()) {
    form = Form::Strip;
    t = RowTile::choose(pixels / s.out[last()] * strips() * t.rows, columns,
                        quads);
    if (!makesStrips()) { // more rows made for another tile
      form = Form::Flat;
      t = RowTile::choose(pixels, columns, quads);
    }
  }
}

/// Whether output pixel i reads input pixel i and nothing else.
bool PixelTile::isLinear(const Fusion &fusion) const {
  for (unsigned a = 0; a < s.w.axes(); ++a)
    if (s.w.kernel[a] != 1 || s.w.strides[a] != 1 || s.padded[a] ||
        s.in[a] != s.out[a] ||
        (a > 0 && s.out[a - 1] != 1 && strides[a - 1] != strides[a] * s.in[a]))
      return false;
  return true;
}

/// Whether strips leave few pixels to be computed twice, and their bounds are
/// easily told.
bool PixelTile::makesStrips() const {
  for (unsigned a = 0; a + 1 < s.w.axes(); ++a)
    if (skips && s.padded[a] && s.w.dilations[a] != 1)
      return false;
  int64_t width = s.out[last()];
  return width >= t.rows && strips() * t.rows * 100 <= width * 115;
}

void PixelTile::begin(int64_t depth, int64_t unit,
                      llvm::function_ref<Index()> base) {
  this->unit = unit;
  int64_t count =
      form == Form::Strip ? pixels / s.out[last()] * strips() * t.rows : pixels;
  t.setGrid(e, count, depth);
  firstQuad = t.firstQuad(e);
  Index image = base();
  if (form == Form::Strip) {
    findStrip();
  } else {
    rows.emplace(e, t, pixels);
    for (int64_t i = 0; i < t.rows; ++i)
      at.push_back(form == Form::Linear ? SmallVector<Index>{rows->at(e, i)}
                                        : e.digits(rows->at(e, i), s.out));
  }
  for (int64_t i = 0; i < t.rows; ++i) {
    if (form == Form::Linear) {
      bases.push_back(e.add(image, e.mul(at[i][0], strides[last()] / unit)));
      continue;
    }
    starts.push_back(s.starts(e, at[i]));
    Index from = image;
    for (auto [start, stride] : llvm::zip(starts[i], strides))
      from = e.add(from, e.mul(start, stride / unit));
    bases.push_back(from);
  }
}

void PixelTile::findStrip() {
  int64_t count = pixels / s.out[last()] * strips();
  Index number = e.globalId(1);
  if (e.kernel.groups[1] * t.localY != count) {
    stripInside = e.lt(number, count);
    number = e.min(number, count - 1);
  }
  SmallVector<int64_t> sizes(s.out);
  sizes.back() = strips();
  SmallVector<Index> first = e.digits(number, sizes);
  stripStart = e.mul(first.back(), t.rows);
  first.back() = s.stripStart(e, last(), t.rows, first.back());
  for (int64_t i = 0; i < t.rows; ++i) {
    at.push_back(first);
    at.back().back() = e.add(first.back(), i);
  }
}

/// Whether some tap of row i of some strip is outside along the last axis.
bool PixelTile::leaves(int64_t i) const {
  unsigned a = last();
  for (int64_t k = 0; k < s.w.kernel[a]; ++k)
    if (s.leaves(a, t.rows, i * s.w.strides[a] + k * s.w.dilations[a]))
      return true;
  return false;
}

Value PixelTile::insideOf(int64_t i, ArrayRef<Index> tap) {
  if (form == Form::Linear)
    return {};
  if (form == Form::Flat)
    return s.inside(e, starts[i], tap);
  Value all;
  for (unsigned a = 0; a < s.w.axes(); ++a) {
    if (a == last() ? !leaves(i) : skips || !s.padded[a])
      continue;
    Index p = e.add(starts[i][a], e.mul(tap[a], s.w.dilations[a]));
    Value here = arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::ult,
                                       e.value(p), e.value(s.in[a]));
    all = e.both(all, here);
  }
  return all;
}

SmallVector<Value> PixelTile::atTap(ArrayRef<Index> tap, ValueRange carried,
                                    Body body) {
  Index moved = 0, flat = 0;
  for (unsigned a = 0; a < tap.size(); ++a) {
    moved = e.add(moved, e.mul(tap[a], s.w.dilations[a] * strides[a] / unit));
    flat = e.add(e.mul(flat, s.w.kernel[a]), tap[a]);
  }
  SmallVector<Value> inside;
  SmallVector<Index> from;
  for (int64_t i = 0; i < t.rows; ++i) {
    inside.push_back(insideOf(i, tap));
    from.push_back(e.add(bases[i], moved));
    if (inside.back())
      from.back() =
          Index(e.pick(inside.back(), e.value(from.back()), e.value(0)));
  }
  return body(flat, from, inside, carried);
}

SmallVector<Value> PixelTile::forTaps(ValueRange init, Body body) {
  auto bounds = [&](unsigned axis) -> std::optional<std::pair<Index, Index>> {
    if (form == Form::Strip && skips && axis != last())
      return s.reach(e, starts[0][axis], axis);
    return std::nullopt;
  };
  return vulkan::forTaps(
      e, s.w.kernel, init,
      [&](ArrayRef<Index> tap, ValueRange carried) {
        return atTap(tap, carried, body);
      },
      bounds);
}

LogicalResult PixelTile::store(
    int64_t columns,
    llvm::function_ref<LogicalResult(int64_t, int64_t, Index, ArrayRef<Index>)>
        store) {
  auto one = [&](int64_t i, int64_t j) {
    return store(i, j, e.add(firstQuad, j), at[i]);
  };
  if (form != Form::Strip)
    return storeTile(e, t, *rows, firstQuad, columns, one);
  bool even = s.out[last()] % t.rows == 0;
  auto rowInside = [&](int64_t i) {
    return even ? Value{} : e.ge(at[i].back(), stripStart);
  };
  return storeTile(e, t, stripInside, rowInside, firstQuad, columns, one);
}

} // namespace tessera::vulkan

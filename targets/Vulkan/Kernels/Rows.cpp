#include "targets/Vulkan/Kernels/Rows.h"

using namespace mlir;

namespace tessera::vulkan {

Rows::Rows(Emitter &e, Buffer &t, ArrayRef<int64_t> reduced) : e(e), t(t) {
  for (unsigned axis = 0; axis < t.rank(); ++axis) {
    RowAxis a{t.dims[axis], t.strides[axis], axis};
    bool inRow = llvm::is_contained(reduced, static_cast<int64_t>(axis));
    (inRow ? row : kept).push_back(a);
    (inRow ? length : count) *= a.size;
  }
  auto bySlowest = [](const RowAxis &a, const RowAxis &b) {
    return a.stride > b.stride;
  };
  llvm::stable_sort(row, bySlowest);
  llvm::stable_sort(kept, bySlowest);
}

static bool quadAlong(const Buffer &t, ArrayRef<int64_t> strides,
                      ArrayRef<int64_t> dims, unsigned axis) {
  if (t.count % 4 || dims[axis] % 4 || strides[axis] != 1)
    return false;
  for (unsigned i = 0; i < strides.size(); ++i)
    if (i != axis && dims[i] > 1 && strides[i] % 4)
      return false;
  return true;
}

void Rows::choose() {
  constexpr int64_t longRow = 64;
  auto along = [&](const RowAxis &a) {
    return quadAlong(t, t.strides, t.dims, a.axis);
  };
  if (allowQuads)
    for (const RowAxis &a : kept)
      if (along(a))
        quadAxis = a.axis;
  if (quadAxis >= 0 &&
      (length < longRow || count >= 1024 || !along(row.back()))) {
    mode = RowMode::Quad;
  } else {
    quadAxis = -1;
    mode = length >= longRow ? RowMode::Group : RowMode::Single;
    for (const RowAxis &a : row)
      if (along(a) && &a == &row.back())
        wideRow = true;
  }
  if (quads())
    t.useVectors();
  threads =
      mode == RowMode::Group
          ? (length >= 2048 ? std::min<int64_t>(e.device.maxInvocations, 128)
                            : 64)
          : 1;
  while (threads & (threads - 1))
    threads &= threads - 1; // a power of two
}

bool Rows::fitsQuads(const Buffer &other, ArrayRef<int64_t> strides) const {
  unsigned axis = mode == RowMode::Quad ? quadAxis : row.back().axis;
  return quads() && quadAlong(other, strides, t.dims, axis);
}

void Rows::forRows(llvm::function_ref<void()> body) {
  choose();
  SmallVector<int64_t> sizes;
  for (const RowAxis &a : kept)
    sizes.push_back(static_cast<int>(a.axis) == quadAxis ? a.size / 4 : a.size);
  int64_t total = quadAxis >= 0 ? count / 4 : count;
  auto run = [&](Index id) {
    at.assign(t.rank(), Index(0));
    for (auto [a, i] : llvm::zip(kept, e.digits(id, sizes)))
      at[a.axis] = i;
    body();
  };
  if (mode != RowMode::Group)
    return e.grid(total, run);
  int64_t limit = e.device.maxGroups[0], columns = std::min(total, limit),
          lines = (total + columns - 1) / columns;
  e.kernel.local = {static_cast<uint32_t>(threads), 1, 1};
  e.kernel.groups = {static_cast<uint32_t>(columns),
                     static_cast<uint32_t>(lines), 1};
  Index id = e.add(e.mul(e.groupId(1), columns), e.groupId(0));
  run(columns * lines == total
          ? id
          : e.min(id, total - 1)); // barriers: nobody leaves
}

Index Rows::offsetOf(ArrayRef<int64_t> strides, Index i, bool inQuads) {
  SmallVector<int64_t> sizes;
  for (const RowAxis &a : row)
    sizes.push_back(a.size);
  if (wideRow)
    sizes.back() /= 4;
  SmallVector<Index> where(at);
  for (auto [a, digit] : llvm::zip(row, e.digits(i, sizes)))
    where[a.axis] = digit;
  int quadAlongAxis = wideRow ? static_cast<int>(row.back().axis) : quadAxis;
  SmallVector<int64_t> scaled(strides);
  for (int axis = 0; axis < static_cast<int>(scaled.size()); ++axis) {
    if (axis == quadAlongAxis)
      scaled[axis] = inQuads ? scaled[axis] : scaled[axis] * 4;
    else if (inQuads)
      scaled[axis] /= 4;
  }
  return e.offset(where, scaled);
}

Value Rows::load(Index i) {
  Index from = offsetOf(t.strides, i, quads());
  return quads() ? e.loadQuad(t, from) : e.load(t, from);
}

Value Rows::acrossGroup(Value v, Combine combine) {
  Value array = e.shared(threads, v.getType());
  Index id = e.localId(0);
  e.storeShared(array, id, v);
  e.barrier();
  for (int64_t half = threads / 2; half; half /= 2) {
    e.when(e.lt(id, half), [&] {
      e.storeShared(array, id,
                    combine(e.loadShared(array, id),
                            e.loadShared(array, e.add(id, half))));
    });
    e.barrier();
  }
  return e.loadShared(array, 0);
}

Value Rows::reduce(Value init, Map map, Combine combine) {
  Value first = quads() ? e.quadSplat(init) : init;
  int64_t end = wideRow ? length / 4 : length;
  Index start = mode == RowMode::Group ? e.localId(0) : Index(0);
  SmallVector<Value> sum =
      e.loop(start, end, threads, first, [&](Index i, ValueRange carried) {
        return SmallVector<Value>{combine(carried[0], map(load(i), i))};
      });
  Value v = sum[0];
  if (wideRow)
    v = e.across(v, combine);
  return mode == RowMode::Group ? acrossGroup(v, combine) : v;
}

void Rows::each(llvm::function_ref<void(Value, Index)> body) {
  int64_t end = wideRow ? length / 4 : length;
  Index start = mode == RowMode::Group ? e.localId(0) : Index(0);
  e.loop(start, end, threads, {}, [&](Index i, ValueRange) {
    body(load(i), i);
    return SmallVector<Value>{};
  });
}

Value Rows::isFirst() {
  if (mode != RowMode::Group)
    return {};
  return arith::CmpIOp::create(e.b, e.loc, arith::CmpIPredicate::eq,
                               e.value(e.localId(0)), e.value(0));
}

} // namespace tessera::vulkan

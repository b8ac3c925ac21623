// Data movement over constants: what only rearranges, selects or repeats.
#include "passes/Canonicalise/Evaluate.h"

#include "dialects/Onnx/IR/OnnxUtils.h"

#include <cmath>
#include <cstring>
#include <numeric>

using namespace mlir;

namespace tessera::onnx {

namespace {

using Dims = SmallVector<int64_t>;

std::optional<Dims> normaliseAxes(ArrayRef<int64_t> axes, int64_t rank) {
  Dims out;
  for (int64_t a : axes) {
    auto n = normaliseAxis(a, rank);
    if (!n || llvm::is_contained(out, *n))
      return std::nullopt;
    out.push_back(*n);
  }
  return out;
}

RegisterEvaluator registerIdentity(
    {"Identity"}, [](Operation *, const ConstantOperands &in) { return single(*in[0]); });

RegisterEvaluator registerReshape(
    {"Reshape"}, [](Operation *op, const ConstantOperands &in) -> EvaluatedResults {
      const HostTensor &x = *in[0];
      Dims shape = in[1]->integers();
      int64_t known = 1, open = -1;
      for (size_t i = 0; i < shape.size(); ++i) {
        if (shape[i] == 0 && !getInt(op, "allowzero", 0)) {
          if ((int64_t)i >= x.rank())
            return std::nullopt;
          shape[i] = x.shape()[i];
        }
        if (shape[i] == -1) {
          if (open >= 0)
            return std::nullopt;
          open = i;
        } else {
          known *= shape[i];
        }
      }
      if (open >= 0) {
        if (known == 0)
          return std::nullopt;
        shape[open] = x.size() / known;
      }
      if (elementCount(shape) != x.size())
        return std::nullopt;
      return single(x.reshaped(shape));
    });

RegisterEvaluator registerFlatten(
    {"Flatten"}, [](Operation *op, const ConstantOperands &in) -> EvaluatedResults {
      const HostTensor &x = *in[0];
      int64_t axis = getInt(op, "axis", 1);
      if (axis < 0)
        axis += x.rank();
      if (axis < 0 || axis > x.rank())
        return std::nullopt;
      return single(x.reshaped({elementCount(x.shape().take_front(axis)),
                                elementCount(x.shape().drop_front(axis))}));
    });

RegisterEvaluator registerSqueeze(
    {"Squeeze"}, [](Operation *, const ConstantOperands &in) -> EvaluatedResults {
      const HostTensor &x = *in[0];
      Dims out;
      std::optional<Dims> axes;
      if (in[1] && !(axes = normaliseAxes(in[1]->integers(), x.rank())))
        return std::nullopt;
      for (int64_t i = 0; i < x.rank(); ++i) {
        bool drop = axes ? llvm::is_contained(*axes, i) : x.shape()[i] == 1;
        if (drop && x.shape()[i] != 1)
          return std::nullopt;
        if (!drop)
          out.push_back(x.shape()[i]);
      }
      return single(x.reshaped(out));
    });

RegisterEvaluator registerUnsqueeze(
    {"Unsqueeze"}, [](Operation *, const ConstantOperands &in) -> EvaluatedResults {
      const HostTensor &x = *in[0];
      Dims axes = in[1]->integers();
      auto where = normaliseAxes(axes, x.rank() + axes.size());
      if (!where)
        return std::nullopt;
      Dims out;
      for (int64_t i = 0, from = 0, n = x.rank() + axes.size(); i < n; ++i)
        out.push_back(llvm::is_contained(*where, i) ? 1 : x.shape()[from++]);
      return single(x.reshaped(out));
    });

RegisterEvaluator registerTranspose(
    {"Transpose"}, [](Operation *op, const ConstantOperands &in) -> EvaluatedResults {
      const HostTensor &x = *in[0];
      Dims perm = getInts(op, "perm");
      if (perm.empty()) {
        perm.resize(x.rank());
        std::iota(perm.rbegin(), perm.rend(), 0);
      }
      if ((int64_t)perm.size() != x.rank())
        return std::nullopt;
      Dims own = rowMajorStrides(x.shape()), shape, strides;
      for (int64_t p : perm) {
        if (p < 0 || p >= x.rank())
          return std::nullopt;
        shape.push_back(x.shape()[p]);
        strides.push_back(own[p]);
      }
      if (!in.fits(x.element(), shape))
        return std::nullopt;
      return single(x.strided(shape, 0, strides));
    });

EvaluatedResults expand(const HostTensor &x, ArrayRef<int64_t> target,
                        const ConstantOperands &in) {
  auto shape = broadcastShapes(x.shape(), target);
  if (!shape || !in.fits(x.element(), *shape))
    return std::nullopt;
  Dims own = rowMajorStrides(x.shape()), strides(shape->size(), 0);
  for (int64_t i = 0, n = x.rank(); i < n; ++i)
    if (x.shape()[n - 1 - i] != 1)
      strides[shape->size() - 1 - i] = own[n - 1 - i];
  return single(x.strided(*shape, 0, strides));
}

RegisterEvaluator registerExpand({"Expand"}, [](Operation *, const ConstantOperands &in) {
  return expand(*in[0], in[1]->integers(), in);
});

RegisterEvaluator registerTile(
    {"Tile"}, [](Operation *, const ConstantOperands &in) -> EvaluatedResults {
      // [a, b] tiled (r, s) is [1, a, 1, b] expanded to [r, a, s, b], reshaped.
      const HostTensor &x = *in[0];
      Dims repeats = in[1]->integers();
      if ((int64_t)repeats.size() != x.rank())
        return std::nullopt;
      Dims split, wide, shape;
      for (int64_t i = 0; i < x.rank(); ++i) {
        split.append({1, x.shape()[i]});
        wide.append({repeats[i], x.shape()[i]});
        shape.push_back(repeats[i] * x.shape()[i]);
      }
      if (llvm::any_of(repeats, [](int64_t r) { return r < 0; }) || !in.fits(x.element(), wide))
        return std::nullopt;
      Dims own = rowMajorStrides(x.shape()), strides;
      for (int64_t i = 0; i < x.rank(); ++i)
        strides.append({0, own[i]});
      return single(x.strided(wide, 0, strides).reshaped(shape));
    });

RegisterEvaluator registerConcat(
    {"Concat"}, [](Operation *op, const ConstantOperands &in) -> EvaluatedResults {
      auto axis = normaliseAxis(getInt(op, "axis"), in[0]->rank());
      if (!axis)
        return std::nullopt;
      Dims shape(in[0]->shape());
      shape[*axis] = 0;
      for (unsigned i = 0; i < in.size(); ++i) {
        Dims other(in[i]->shape());
        if ((int64_t)other.size() != in[0]->rank())
          return std::nullopt;
        shape[*axis] += other[*axis];
        other[*axis] = in[0]->shape()[*axis];
        if (ArrayRef<int64_t>(other) != in[0]->shape())
          return std::nullopt;
      }
      if (!in.fits(in[0]->element(), shape))
        return std::nullopt;
      HostTensor out(in[0]->element(), shape);
      char *dst = out.mutableData();
      size_t w = out.elementBytes();
      int64_t outer = elementCount(ArrayRef<int64_t>(shape).take_front(*axis));
      for (int64_t o = 0; o < outer; ++o)
        for (unsigned i = 0; i < in.size(); ++i) {
          size_t chunk = elementCount(in[i]->shape().drop_front(*axis)) * w;
          std::memcpy(dst, in[i]->data() + o * chunk, chunk);
          dst += chunk;
        }
      return single(std::move(out));
    });

// Start and length of a slice as the specification clamps them.
std::pair<int64_t, int64_t> sliceRange(int64_t dim, int64_t start, int64_t end, int64_t step) {
  auto wrap = [&](int64_t v) { return v < 0 ? v + dim : v; };
  if (dim == 0)
    return {0, 0};
  if (step > 0) {
    start = std::clamp<int64_t>(wrap(start), 0, dim);
    end = std::clamp<int64_t>(wrap(end), 0, dim);
    return {start, end > start ? (end - start - 1) / step + 1 : 0};
  }
  start = std::clamp<int64_t>(wrap(start), 0, dim - 1);
  end = std::clamp<int64_t>(wrap(end), -1, dim - 1);
  // The step may be the least integer: divide the distance by its negative only when safe.
  int64_t distance = start - end;
  if (distance <= 0)
    return {start, 0};
  return {start, step == INT64_MIN ? 1 : (distance - 1) / -step + 1};
}

RegisterEvaluator registerSlice(
    {"Slice"}, [](Operation *, const ConstantOperands &in) -> EvaluatedResults {
      const HostTensor &x = *in[0];
      Dims starts = in[1]->integers(), ends = in[2]->integers(), axes, steps;
      if (in[3]) {
        axes = in[3]->integers();
      } else {
        axes.resize(starts.size());
        std::iota(axes.begin(), axes.end(), 0);
      }
      steps = in[4] ? in[4]->integers() : Dims(starts.size(), 1);
      auto where = normaliseAxes(axes, x.rank());
      if (!where || starts.size() != ends.size() || starts.size() != where->size() ||
          starts.size() != steps.size())
        return std::nullopt;
      Dims shape(x.shape()), strides = rowMajorStrides(x.shape());
      int64_t offset = 0;
      for (size_t i = 0; i < starts.size(); ++i) {
        int64_t a = (*where)[i], step = steps[i];
        if (step == 0)
          return std::nullopt;
        auto [start, length] = sliceRange(x.shape()[a], starts[i], ends[i], step);
        shape[a] = length;
        if (length) {
          offset += start * strides[a];
          strides[a] = length == 1 ? 0 : strides[a] * step;
        }
      }
      if (!in.fits(x.element(), shape))
        return std::nullopt;
      return single(x.strided(shape, offset, strides));
    });

RegisterEvaluator registerGather(
    {"Gather"}, [](Operation *op, const ConstantOperands &in) -> EvaluatedResults {
      const HostTensor &x = *in[0], &indices = *in[1];
      auto axis = normaliseAxis(getInt(op, "axis", 0), x.rank());
      if (!axis)
        return std::nullopt;
      Dims shape(x.shape().take_front(*axis));
      shape.append(indices.shape().begin(), indices.shape().end());
      shape.append(x.shape().begin() + *axis + 1, x.shape().end());
      if (!in.fits(x.element(), shape))
        return std::nullopt;
      HostTensor out(x.element(), shape);
      char *dst = out.mutableData();
      int64_t outer = elementCount(x.shape().take_front(*axis)), extent = x.shape()[*axis];
      size_t chunk = elementCount(x.shape().drop_front(*axis + 1)) * x.elementBytes();
      for (int64_t o = 0; o < outer; ++o)
        for (int64_t i = 0; i < indices.size(); ++i, dst += chunk) {
          int64_t k = indices.integer(i);
          if (k < 0)
            k += extent;
          if (k < 0 || k >= extent)
            return std::nullopt; // the runtime refuses
          std::memcpy(dst, x.data() + (o * extent + k) * chunk, chunk);
        }
      return single(std::move(out));
    });

RegisterEvaluator registerSplit(
    {"Split"}, [](Operation *op, const ConstantOperands &in) -> EvaluatedResults {
      const HostTensor &x = *in[0];
      auto axis = normaliseAxis(getInt(op, "axis", 0), x.rank());
      if (!axis || !in.fits(x.element(), x.shape()))
        return std::nullopt;
      int64_t n = op->getNumResults(), extent = x.shape()[*axis];
      Dims sizes;
      if (in[1]) {
        sizes = in[1]->integers();
      } else {
        int64_t each = llvm::divideCeil(extent, n);
        for (int64_t i = 0, left = extent; i < n; ++i, left -= sizes.back())
          sizes.push_back(std::min(each, left));
      }
      if ((int64_t)sizes.size() != n || std::accumulate(sizes.begin(), sizes.end(), 0l) != extent)
        return std::nullopt;
      SmallVector<HostTensor, 1> outs;
      Dims strides = rowMajorStrides(x.shape());
      int64_t start = 0;
      for (int64_t size : sizes) {
        if (size < 0)
          return std::nullopt;
        Dims shape(x.shape());
        shape[*axis] = size;
        outs.push_back(x.strided(shape, start * strides[*axis], strides));
        start += size;
      }
      return outs;
    });

RegisterEvaluator registerPad(
    {"Pad"}, [](Operation *op, const ConstantOperands &in) -> EvaluatedResults {
      const HostTensor &x = *in[0];
      if (getString(op, "mode", "constant") != "constant")
        return std::nullopt;
      Dims pads = in[1]->integers(), axes(x.rank());
      std::iota(axes.begin(), axes.end(), 0);
      if (in[3])
        axes = in[3]->integers();
      auto where = normaliseAxes(axes, x.rank());
      if (!where || pads.size() != 2 * where->size())
        return std::nullopt;
      Dims before(x.rank(), 0), shape(x.shape());
      for (size_t i = 0; i < where->size(); ++i) {
        before[(*where)[i]] = pads[i];
        shape[(*where)[i]] += pads[i] + pads[i + where->size()];
      }
      if (!in.fits(x.element(), shape))
        return std::nullopt;
      HostTensor out(x.element(), shape);
      Dims own = rowMajorStrides(x.shape()), index(x.rank(), 0);
      size_t w = x.elementBytes();
      char *dst = out.mutableData();
      for (int64_t i = 0; i < out.size(); ++i, dst += w) {
        bool inside = true;
        int64_t at = 0;
        for (int64_t a = 0; a < x.rank(); ++a) {
          int64_t k = index[a] - before[a];
          inside &= k >= 0 && k < x.shape()[a];
          at += k * own[a];
        }
        if (inside)
          std::memcpy(dst, x.data() + at * w, w);
        else if (in[2])
          std::memcpy(dst, in[2]->data(), w);
        for (int64_t a = x.rank() - 1; a >= 0 && ++index[a] == shape[a]; --a)
          index[a] = 0;
      }
      return single(std::move(out));
    });

RegisterEvaluator registerConstantOfShape(
    {"ConstantOfShape"}, [](Operation *op, const ConstantOperands &in) -> EvaluatedResults {
      Type element = cast<ShapedType>(op->getResult(0).getType()).getElementType();
      Dims shape = in[0]->integers();
      if (!in.fits(element, shape))
        return std::nullopt;
      if (auto attr = op->getAttrOfType<ElementsAttr>("value")) {
        auto value = HostTensor::read(attr);
        if (!value || value->size() != 1 || value->element() != element)
          return std::nullopt;
        return expand(value->reshaped({}), shape, in);
      }
      return single(HostTensor(element, shape));
    });

RegisterEvaluator registerRange(
    {"Range"}, [](Operation *op, const ConstantOperands &in) -> EvaluatedResults {
      const HostTensor &s = *in[0], &l = *in[1], &d = *in[2];
      if (s.size() != 1 || l.size() != 1 || d.size() != 1 || s.element() != l.element() ||
          s.element() != d.element())
        return std::nullopt;
      double start = s.real(0), limit = l.real(0), delta = d.real(0);
      // Whole numbers only: others depend on the order of roundings.
      double top = s.element().isF64() ? 0x1p52 : s.element().isF32() ? 0x1p23
                   : s.isInteger()     ? 0x1p52
                                       : 0x1p7;
      if (delta == 0 || start != std::trunc(start) || delta != std::trunc(delta) ||
          !(std::fabs(start) < top) || !(std::fabs(limit) < top) || !(std::fabs(delta) < top))
        return std::nullopt;
      int64_t n = std::max(0.0, std::ceil((limit - start) / delta));
      if (!in.fits(s.element(), {n}))
        return std::nullopt;
      HostTensor out(s.element(), {n});
      for (int64_t i = 0; i < n; ++i)
        if (s.isFloat())
          out.setReal(i, start + (double)i * delta);
        else
          out.setInteger(i, s.integer(0) + i * d.integer(0));
      return single(std::move(out));
    });

RegisterEvaluator registerTrilu(
    {"Trilu"}, [](Operation *op, const ConstantOperands &in) -> EvaluatedResults {
      const HostTensor &x = *in[0];
      if (x.rank() < 2 || !in.fits(x.element(), x.shape()))
        return std::nullopt;
      int64_t k = in[1] ? in[1]->integer(0) : 0;
      bool upper = getInt(op, "upper", 1) != 0;
      int64_t rows = x.shape()[x.rank() - 2], columns = x.shape()[x.rank() - 1];
      HostTensor out(x.element(), x.shape());
      char *dst = out.mutableData();
      size_t w = x.elementBytes();
      for (int64_t i = 0; i < x.size(); ++i) {
        int64_t r = i / columns % rows, c = i % columns;
        if (upper ? c - r >= k : c - r <= k)
          std::memcpy(dst + i * w, x.data() + i * w, w);
      }
      return single(std::move(out));
    });

RegisterEvaluator registerNonZero(
    {"NonZero"}, [](Operation *op, const ConstantOperands &in) -> EvaluatedResults {
      const HostTensor &x = *in[0];
      if (isa<ComplexType>(x.element()) || x.rank() == 0)
        return std::nullopt;
      Dims hits, strides = rowMajorStrides(x.shape());
      for (int64_t i = 0; i < x.size(); ++i)
        if (x.isFloat() ? x.real(i) != 0 : x.integer(i) != 0)
          hits.push_back(i);
      Type i64 = IntegerType::get(op->getContext(), 64);
      Dims shape = {x.rank(), (int64_t)hits.size()};
      if (!in.fits(i64, shape))
        return std::nullopt;
      HostTensor out(i64, shape);
      for (int64_t a = 0; a < x.rank(); ++a)
        for (size_t i = 0; i < hits.size(); ++i)
          out.setInteger(a * hits.size() + i, hits[i] / strides[a] % x.shape()[a]);
      return single(std::move(out));
    });

RegisterEvaluator registerScatterNd(
    {"ScatterND"}, [](Operation *op, const ConstantOperands &in) -> EvaluatedResults {
      const HostTensor &x = *in[0], &indices = *in[1], &updates = *in[2];
      if (getString(op, "reduction", "none") != "none" || indices.rank() < 1 ||
          !in.fits(x.element(), x.shape()))
        return std::nullopt;
      int64_t k = indices.shape().back();
      if (k > x.rank() || k <= 0)
        return std::nullopt;
      HostTensor out = x;
      char *dst = out.mutableData();
      Dims strides = rowMajorStrides(x.shape());
      int64_t chunk = elementCount(x.shape().drop_front(k)), n = indices.size() / k;
      if (updates.size() != n * chunk)
        return std::nullopt;
      size_t w = x.elementBytes();
      for (int64_t i = 0; i < n; ++i) {
        int64_t at = 0;
        for (int64_t j = 0; j < k; ++j) {
          int64_t v = indices.integer(i * k + j), extent = x.shape()[j];
          if (v < 0)
            v += extent;
          if (v < 0 || v >= extent)
            return std::nullopt;
          at += v * strides[j];
        }
        std::memcpy(dst + at * w, updates.data() + i * chunk * w, chunk * w);
      }
      return single(std::move(out));
    });

} // namespace

} // namespace tessera::onnx

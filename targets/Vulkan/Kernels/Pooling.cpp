// MaxPool, AveragePool and LpPool over windows: one invocation a result, or a
// quad of results where channels are contiguous.
#include "dialects/Onnx/IR/OnnxUtils.h"
#include "targets/Cpu/Kernels/Window.h"
#include "targets/Cpu/Math.h"
#include "targets/Vulkan/Kernels/Windows.h"

using namespace mlir;

namespace tessera::vulkan {
namespace {

/// How many taps of the window at `at` count, as a `type`: a product over the
/// axes.
Value divisor(Emitter &e, Type type, const Windows &s, ArrayRef<Index> at,
              bool includePad) {
  Index count = 1;
  for (unsigned a = 0; a < s.w.axes(); ++a) {
    if (!s.padded[a]) {
      count = e.mul(count, s.w.kernel[a]);
      continue;
    }
    int64_t size = s.in[a], dilation = s.w.dilations[a], shift = s.padBegin[a];
    if (includePad) { // what a rounded-up window adds beyond the padding does
                      // not count
      int64_t end = s.w.padEnd[a];
      if (s.w.autoPad.starts_with("SAME"))
        end = std::max<int64_t>(
                  (s.out[a] - 1) * s.w.strides[a] + s.w.reach(a) - size, 0) -
              shift;
      size += shift + end;
      shift = 0;
    }
    Index start = e.sub(e.mul(at[a], s.w.strides[a]), shift);
    Index low = e.div(e.add(e.max(e.sub(0, start), 0), dilation - 1), dilation);
    Index high =
        e.div(e.add(e.max(e.sub(size, start), 0), dilation - 1), dilation);
    high = e.min(high, s.w.kernel[a]);
    count = e.mul(count, e.sub(high, e.min(low, high)));
  }
  if (count.known())
    return e.floatConst(type, static_cast<double>(count.c));
  return arith::SIToFPOp::create(e.b, e.loc, type, e.value(count));
}

/// The greatest of each window and its number within the whole operand; in
/// column-major numbers the spatial axes count in the other order.
LogicalResult emitWithIndices(tsr::DispatchOp op, Emitter &e, Buffer &x,
                              Buffer &indices) {
  Operation *root = op.getRootOp();
  Buffer *values = rootResult(op, e, 0);
  auto windows = Windows::read(root, onnx::getInts(root, "kernel_shape"), x,
                               indices.dims, e.reasons);
  if (failed(windows))
    return failure();
  const Windows &s = *windows;
  bool columnMajor = onnx::getInt(root, "storage_order") != 0;
  bool isFloat = isa<FloatType>(x.element),
       isUnsigned = cpu::KernelEmitter::isUnsigned(x.element);
  Type type = cpu::KernelEmitter::valueType(x.element);
  SmallVector<int64_t> numbering(x.rank(), 1); // row-major strides, or not
  int64_t stride = 1;
  for (unsigned n = 0, axes = s.w.axes(); n < axes; ++n) {
    unsigned a = columnMajor ? n : axes - 1 - n;
    numbering[a + 2] = stride;
    stride *= s.in[a];
  }
  numbering[1] = stride;
  numbering[0] = stride * x.dims[1];
  e.gridLike(indices, indices.dims, [&](Index, SmallVector<Index> at) {
    SmallVector<Index> spatial(at.begin() + 2, at.end()),
        starts = s.starts(e, spatial);
    SmallVector<Value> init{cpu::lowestOf(e, type, isUnsigned), e.value(-1)};
    SmallVector<Value> best = forTaps(
        e, s.w.kernel, init, [&](ArrayRef<Index> tap, ValueRange carried) {
          Value inside = s.inside(e, starts, tap);
          SmallVector<Index> where{at[0], at[1]};
          for (unsigned a = 0; a < tap.size(); ++a) {
            Index i = e.add(starts[a], e.mul(tap[a], s.w.dilations[a]));
            where.push_back(e.min(e.max(i, 0), s.in[a] - 1));
          }
          Value v = e.load(x, e.offset(where, x.strides)), better;
          if (isFloat) { // a NaN wins and stays
            using P = arith::CmpFPredicate;
            better =
                arith::OrIOp::create(e.b, e.loc, e.cmpF(P::OGT, v, carried[0]),
                                     e.cmpF(P::UNO, v, v));
            better = e.both(better, e.cmpF(P::ORD, carried[0], carried[0]));
          } else {
            better =
                arith::CmpIOp::create(e.b, e.loc,
                                      isUnsigned ? arith::CmpIPredicate::ugt
                                                 : arith::CmpIPredicate::sgt,
                                      v, carried[0]);
          }
          Value none = e.lt(Index(carried[1]), 0);
          better = arith::OrIOp::create(e.b, e.loc, none, better);
          better = e.both(better, inside);
          return SmallVector<Value>{
              e.pick(better, v, carried[0]),
              e.pick(better, e.value(e.offset(where, numbering)), carried[1])};
        });
    if (values)
      e.store(*values, e.offset(at, values->strides), best[0]);
    e.store(indices, e.offset(at, indices.strides),
            arith::ExtSIOp::create(e.b, e.loc, e.i64(), best[1]));
  });
  return success();
}

/// |x|^p of what LpPool adds up, and the root of the sum.
Value power(Emitter &e, Value x, int64_t p) {
  Value a = cpu::math::abs(e, x), y = a;
  for (int64_t i = 1; i < p; ++i)
    y = e.mulF(y, a);
  return y;
}
Value rootOf(Emitter &e, Value sum, int64_t p) {
  if (p == 1)
    return sum;
  if (p == 2)
    return cpu::math::sqrt(e, sum);
  Value part = e.floatConst(sum.getType(), 1.0 / static_cast<double>(p));
  return cpu::math::exp(e, e.mulF(cpu::math::log(e, sum), part));
}

LogicalResult emitPool(tsr::DispatchOp op, Emitter &e) {
  Operation *root = op.getRootOp();
  Buffer *x = rootBuffer(op, e, 0);
  if (!x || x->count == 0)
    return e.reasons.no() << "a pool of an embedded or empty operand";
  if (Buffer *indices = rootResult(op, e, 1))
    return emitWithIndices(op, e, *x, *indices);
  StringRef kind = root->getName().stripDialect();
  bool isMax = kind == "MaxPool", isLp = kind == "LpPool";
  int64_t exponent = onnx::getInt(root, "p", 2);
  if (isLp && (exponent < 1 || exponent > 16))
    return e.reasons.no() << "a norm of p " << exponent;
  bool isFloat = isa<FloatType>(x->element),
       isUnsigned = cpu::KernelEmitter::isUnsigned(x->element);
  if (!isFloat && !isMax)
    return e.reasons.no() << "an average of " << onnx::getTypeName(x->element);
  Fusion fusion(op, e);
  auto windows = Windows::read(root, onnx::getInts(root, "kernel_shape"), *x,
                               fusion.dims(), e.reasons);
  if (failed(windows))
    return failure();
  const Windows &s = *windows;
  int lanes = fusion.laneAxis();
  if (lanes != 1 || x->strides[1] != 1 || x->count % 4 ||
      llvm::any_of(llvm::enumerate(x->strides),
                   [](auto a) { return a.index() != 1 && a.value() % 4; }))
    lanes = -1;
  if (lanes == 1)
    x->useVectors();
  fusion.useVectors(lanes);
  int64_t unit = lanes == 1 ? 4 : 1;
  SmallVector<int64_t> sizes(fusion.dims());
  sizes[1] /= unit;
  Type scalar = cpu::KernelEmitter::valueType(x->element);
  Type type = lanes == 1 ? e.quadOf(scalar) : scalar;
  LogicalResult result = success();
  e.gridLike(*e.out[0], sizes, [&](Index, SmallVector<Index> at) {
    SmallVector<Index> spatial(at.begin() + 2, at.end()),
        starts = s.starts(e, spatial);
    Index base = e.add(e.mul(at[0], x->strides[0] / unit),
                       e.mul(at[1], lanes == 1 ? 1 : x->strides[1]));
    Value init =
        isMax ? cpu::lowestOf(e, type, isUnsigned) : e.floatConst(type, 0);
    SmallVector<Value> acc = forTaps(
        e, s.w.kernel, init, [&](ArrayRef<Index> tap, ValueRange carried) {
          Value inside = s.inside(e, starts, tap);
          Index from = base;
          for (unsigned a = 0; a < tap.size(); ++a)
            from = e.add(
                from, e.mul(e.add(starts[a], e.mul(tap[a], s.w.dilations[a])),
                            x->strides[a + 2] / unit));
          if (inside)
            from = Index(e.pick(inside, e.value(from), e.value(0)));
          Value v = lanes == 1 ? e.loadQuad(*x, from) : e.load(*x, from);
          if (inside)
            v = e.pick(inside, v, init);
          if (isLp)
            v = power(e, v, exponent);
          Value next;
          if (!isMax)
            next = e.addF(carried[0], v);
          else if (isFloat)
            next = e.maxF(carried[0], v);
          else if (isUnsigned)
            next = arith::MaxUIOp::create(e.b, e.loc, carried[0], v);
          else
            next = arith::MaxSIOp::create(e.b, e.loc, carried[0], v);
          return SmallVector<Value>{next};
        });
    Value v = acc[0];
    if (isLp) {
      v = rootOf(e, v, exponent);
    } else if (!isMax) {
      Value count = divisor(e, scalar, s, spatial,
                            onnx::getInt(root, "count_include_pad", 0) != 0);
      v = e.divF(v, lanes == 1 ? e.quadSplat(count) : count);
    }
    result = fusion.store(isFloat ? e.round(v, x->element) : v, {at, lanes});
  });
  return result;
}
Register pool({"onnx.MaxPool", "onnx.AveragePool", "onnx.LpPool"}, emitPool);

} // namespace
} // namespace tessera::vulkan

// Pools over images and lines.
#include "targets/Tosa/Lower/Quantised.h"

using namespace mlir;

namespace tessera::tosa {
namespace {

SmallVector<int64_t> withLine(ArrayRef<int64_t> v, int64_t fill) {
  SmallVector<int64_t> r(v.size() == 1 ? 1 : 0, fill);
  r.append(v.begin(), v.end());
  return r;
}

SmallVector<NamedAttribute> attributes(Lowerer &l, const Window &w) {
  SmallVector<int64_t> pad(w.axes.size() == 1 ? 2 : 0, 0);
  for (const WindowAxis &a : w.axes)
    pad.append({a.before, a.after});
  return {l.ints("kernel", withLine(w.kernel, 1)), l.ints("stride", withLine(w.stride, 1)), l.ints("pad", pad)};
}

LogicalResult check(Operation *op, Lowerer &l, const Window &w) {
  size_t before = l.reasons.all.size();
  for (size_t i = 0; i < w.axes.size(); ++i) {
    if (w.dilation[i] != 1)
      l.no() << "dilation is " << w.dilation[i] << ", only 1 is served";
    if (w.axes[i].before >= w.kernel[i] || w.axes[i].after >= w.kernel[i])
      l.no() << "padding " << w.axes[i].before << ", " << w.axes[i].after << " is not less than the kernel, "
             << w.kernel[i];
  }
  if (op->getNumResults() > 1)
    l.no() << "output 'Indices' is wanted";
  return success(l.reasons.all.size() == before);
}

/// The pool's result in ONNX's sizes, channels last.
RankedTensorType poolType(Operation *op, Value x) {
  ArrayRef<int64_t> out = Lowerer::shapeOf(op->getResult(0)), in = Lowerer::shapeOf(x);
  SmallVector<int64_t> dims{in[0]};
  llvm::append_range(dims, withLine(out.drop_front(2), 1));
  dims.push_back(in.back());
  return Lowerer::typeOf(x).clone(dims);
}

LogicalResult checkRank(Operation *op, Lowerer &l) {
  int64_t rank = Lowerer::rankOf(op->getOperand(0));
  if (rank != 3 && rank != 4)
    return l.no() << "input has rank " << rank << ", 3 and 4 are served";
  return success();
}

/// The greatest integer means the greatest number only if what is still to be
/// applied to it keeps the order.
LogicalResult checkOrder(Operation *op, Lowerer &l) {
  auto it = l.scaled.find(op->getOperand(0));
  if (it == l.scaled.end() || it->second.pending.empty())
    return success();
  if (bitsOf(l, op->getOperand(0)) != 8)
    return l.no() << "of " << it->second.pending.back()->getName().stripDialect() << " of a value that has not 8 bits";
  auto meanings = meaningsOf(l, it->second);
  if (!meanings)
    return failure();
  for (int64_t i = 1; i < meanings->size(); ++i)
    if (meanings->real(i) < meanings->real(i - 1))
      return l.no() << "of " << it->second.pending.back()->getName().stripDialect()
                    << ", which does not keep the order of integers; quantise its result first";
  return success();
}

LogicalResult lowerMaxPool(Operation *op, Lowerer &l) {
  if (failed(checkRank(op, l)) || failed(checkOrder(op, l)))
    return failure();
  auto w = readWindow(op, l, onnx::getInts(op, "kernel_shape"));
  if (!w || failed(check(op, l, *w)))
    return failure();
  int64_t rank = Lowerer::rankOf(op->getOperand(0));
  Value x = asImage(l, cutToWindow(l, l.get(op->getOperand(0), channelsLast(rank)), *w));
  if (Lowerer::typeOf(x).getElementType().isInteger(32))
    return l.no() << "of int32";
  Value y = l.op("max_pool2d", x, poolType(op, x), attributes(l, *w));
  l.set(op->getResult(0), fromImage(l, y, rank), channelsLast(rank));
  return success();
}

Value averagePool(Operation *op, Lowerer &l, Value x, ArrayRef<NamedAttribute> window) {
  SmallVector<NamedAttribute> attrs(window);
  attrs.push_back(l.attr("acc_type", TypeAttr::get(l.b.getF32Type())));
  Value zero = l.zeroPoint(Lowerer::typeOf(x).getElementType());
  return l.op("avg_pool2d", {x, zero, zero}, poolType(op, x), attrs);
}

/// TOSA divides by the taps inside the picture. Where ONNX counts padding, the
/// padding is made part of the picture.
LogicalResult lowerAveragePool(Operation *op, Lowerer &l) {
  if (failed(checkRank(op, l)))
    return failure();
  auto w = readWindow(op, l, onnx::getInts(op, "kernel_shape"));
  if (!w)
    return failure();
  int64_t rank = Lowerer::rankOf(op->getOperand(0));
  Value x = cutToWindow(l, l.get(op->getOperand(0), channelsLast(rank)), *w);
  if (onnx::getInt(op, "count_include_pad", 0)) {
    SmallVector<int64_t> before(rank, 0), after(rank, 0), declared = onnx::getInts(op, "pads");
    if (StringRef mode = onnx::getString(op, "auto_pad", "NOTSET"); mode != "NOTSET" && mode != "VALID")
      return l.no() << "count_include_pad with auto_pad '" << mode << "'";
    declared.resize(2 * w->axes.size(), 0);
    for (auto [i, a] : llvm::enumerate(w->axes)) {
      before[i + 1] = a.before;
      after[i + 1] = std::min(a.after, declared[w->axes.size() + i]); // what overhangs counts nowhere
      a = {a.size + a.before + after[i + 1], 0, a.after - after[i + 1]};
    }
    x = l.pad(x, before, after, 0);
  }
  if (failed(check(op, l, *w)))
    return failure();
  Value y = averagePool(op, l, asImage(l, x), attributes(l, *w));
  l.set(op->getResult(0), fromImage(l, y, rank), channelsLast(rank));
  return success();
}

LogicalResult lowerGlobalPool(Operation *op, Lowerer &l) {
  if (failed(checkRank(op, l)))
    return failure();
  int64_t rank = Lowerer::rankOf(op->getOperand(0));
  Value x = asImage(l, l.get(op->getOperand(0), channelsLast(rank)));
  ArrayRef<int64_t> s = Lowerer::shapeOf(x);
  NamedAttribute window[] = {l.ints("kernel", {s[1], s[2]}), l.ints("stride", {1, 1}), l.ints("pad", {0, 0, 0, 0})};
  constexpr int64_t maxKernel = 8192; // of TOSA's level 8K
  if (s[1] > maxKernel || s[2] > maxKernel)
    return l.no() << "a window of " << s[1] << " x " << s[2] << ", TOSA has at most " << maxKernel;
  bool average = op->getName().stripDialect() == "GlobalAveragePool";
  Value y = average ? averagePool(op, l, x, window) : l.op("max_pool2d", x, poolType(op, x), window);
  l.set(op->getResult(0), fromImage(l, y, rank), channelsLast(rank));
  return success();
}

RegisterLowering maxPool({"MaxPool"}, Domain::Both, Elements::FloatOrInt,
                         {"auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "storage_order", "strides"},
                         lowerMaxPool);
RegisterLowering averagePools({"AveragePool"}, Domain::Float, Elements::Float,
                              {"auto_pad", "ceil_mode", "count_include_pad", "dilations", "kernel_shape", "pads",
                               "strides"},
                              lowerAveragePool);
RegisterLowering globalPools({"GlobalAveragePool", "GlobalMaxPool"}, Domain::Float, Elements::Float, {},
                             lowerGlobalPool);

} // namespace
} // namespace tessera::tosa

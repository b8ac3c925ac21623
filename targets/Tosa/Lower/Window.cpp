// Sliding windows. TOSA demands that windows fill the padded input exactly, so
// the padding behind is what the result's size needs, and what no window
// touches is cut off first. The result's size already holds ceil_mode and
// auto_pad, whose padding in front is all that is left to find.
#include "targets/Tosa/Lower/Lowerer.h"

using namespace mlir;

namespace tessera::tosa {

/// Padding in front on each axis; none if the mode is unknown.
static std::optional<SmallVector<int64_t>> frontPads(Operation *op, Lowerer &l, const Window &w,
                                                     ArrayRef<int64_t> in, ArrayRef<int64_t> out) {
  StringRef mode = onnx::getString(op, "auto_pad", "NOTSET");
  size_t n = w.kernel.size();
  SmallVector<int64_t> pads = onnx::getInts(op, "pads");
  pads.resize(2 * n, 0);
  if (mode == "NOTSET" || mode.empty())
    return SmallVector<int64_t>(ArrayRef<int64_t>(pads).take_front(n));
  if (mode == "VALID")
    return SmallVector<int64_t>(n, 0);
  if (mode != "SAME_UPPER" && mode != "SAME_LOWER") {
    l.no() << "auto_pad is '" << mode << "'";
    return std::nullopt;
  }
  SmallVector<int64_t> front;
  for (size_t i = 0; i < n; ++i) {
    int64_t total = std::max<int64_t>(0, (out[i] - 1) * w.stride[i] + (w.kernel[i] - 1) * w.dilation[i] + 1 - in[i]);
    front.push_back(mode == "SAME_LOWER" ? (total + 1) / 2 : total / 2);
  }
  return front;
}

std::optional<Window> readWindow(Operation *op, Lowerer &l, ArrayRef<int64_t> kernel) {
  Window w;
  size_t n = kernel.size();
  w.kernel = SmallVector<int64_t>(kernel);
  w.stride = onnx::getInts(op, "strides", SmallVector<int64_t>(n, 1));
  w.dilation = onnx::getInts(op, "dilations", SmallVector<int64_t>(n, 1));
  w.stride.resize(n, 1);
  w.dilation.resize(n, 1);
  ArrayRef<int64_t> in = Lowerer::shapeOf(op->getOperand(0)).drop_front(2);
  ArrayRef<int64_t> out = Lowerer::shapeOf(op->getResult(0)).drop_front(2);
  if (in.size() != n || out.size() != n) {
    l.no() << "kernel has " << n << " axes, input has " << in.size() << " of space";
    return std::nullopt;
  }
  auto front = frontPads(op, l, w, in, out);
  if (!front)
    return std::nullopt;
  for (size_t i = 0; i < n; ++i) {
    int64_t reach = (out[i] - 1) * w.stride[i] + (kernel[i] - 1) * w.dilation[i] + 1;
    int64_t behind = reach - in[i] - (*front)[i];
    w.axes.push_back({in[i] + std::min<int64_t>(behind, 0), (*front)[i], std::max<int64_t>(behind, 0)});
    if ((*front)[i] < 0 || w.axes.back().size <= 0) {
      l.no() << "padding " << (*front)[i] << " on axis " << i + 2 << " of size " << in[i];
      return std::nullopt;
    }
  }
  return w;
}

Value cutToWindow(Lowerer &l, Value x, const Window &w) {
  SmallVector<int64_t> size(Lowerer::shapeOf(x));
  for (size_t i = 0; i < w.axes.size(); ++i)
    size[i + 1] = w.axes[i].size;
  return l.slice(x, SmallVector<int64_t>(size.size(), 0), size);
}

Value asImage(Lowerer &l, Value x) {
  ArrayRef<int64_t> s = Lowerer::shapeOf(x);
  return s.size() == 3 ? l.reshape(x, {s[0], 1, s[1], s[2]}) : x;
}

Value fromImage(Lowerer &l, Value x, int64_t rank) {
  ArrayRef<int64_t> s = Lowerer::shapeOf(x);
  return rank == 3 ? l.reshape(x, {s[0], s[2], s[3]}) : x;
}

} // namespace tessera::tosa

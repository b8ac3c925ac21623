// RESIZE. U85 has an operation for it. U55 and U65 repeat rows and columns by 2
// (three times for 8), so Vela takes what such repetitions make.
#include "mlir/Dialect/Tosa/IR/TosaOps.h"
#include "targets/EthosU/Limits/Check.h"

using namespace mlir;

namespace tessera::ethosu {
namespace {

SmallVector<int64_t> shapeConstant(Value v) {
  SmallVector<int64_t> values;
  if (auto constant = v.getDefiningOp<mlir::tosa::ConstShapeOp>())
    for (const APInt &x : constant.getValues().getValues<APInt>())
      values.push_back(x.getSExtValue());
  return values;
}

enum class Form { Copy, Corners, HalfPixel, Other };

/// What happens along one axis, where results stand at (i * d + offset) / n.
Form formOf(int64_t n, int64_t d, int64_t offset, int64_t border) {
  if (n == d && offset == 0 && border == 0)
    return Form::Copy;
  if (d == 1 && offset == 0 && border == 0)
    return Form::Corners;
  if (d == 2 && n % 2 == 0 && offset == 1 - n / 2 && border == n / 2 - 1)
    return Form::HalfPixel;
  return Form::Other;
}

/// What TOSA forbids and the dialect's verifier lets pass.
void checkAxis(Check &c, StringRef axis, int64_t n, int64_t d, int64_t offset,
               int64_t border) {
  if (n < 1 || d < 1 || n > 2048 || d >= 16 * n || n > maxScale * d)
    c.no("scale " + Twine(n) + "/" + Twine(d) + " of the " + axis);
  if (offset < -n || offset >= 16 * d)
    c.no("offset " + Twine(offset) + " of the " + axis + " at scale " +
         Twine(n) + "/" + Twine(d));
  if (border < -16 * d || border >= n)
    c.no("border " + Twine(border) + " of the " + axis + " at scale " +
         Twine(n) + "/" + Twine(d));
}

} // namespace

void checkResize(Check &c) {
  SmallVector<int64_t> scale = shapeConstant(c.op->getOperand(1)),
                       offset = shapeConstant(c.op->getOperand(2)),
                       border = shapeConstant(c.op->getOperand(3));
  if (scale.size() != 4 || offset.size() != 2 || border.size() != 2)
    return c.no("scale, offset and border are not constant");
  for (int i = 0; i < 2; ++i)
    checkAxis(c, i ? "width" : "height", scale[2 * i], scale[2 * i + 1],
              offset[i], border[i]);
  if (c.isU85())
    return;
  Form form[2];
  int64_t factor[2];
  for (int i = 0; i < 2; ++i) {
    form[i] = formOf(scale[2 * i], scale[2 * i + 1], offset[i], border[i]);
    factor[i] = scale[2 * i] / scale[2 * i + 1];
  }
  bool wide = c.elementOf(c.op->getOperand(0)).isInteger(16);
  auto mode =
      c.op->getAttrOfType<mlir::tosa::ResizeModeAttr>("mode").getValue();
  bool bilinear = mode == mlir::tosa::ResizeMode::BILINEAR;
  if (form[0] == Form::Copy && form[1] == Form::Copy && !(bilinear && wide))
    return;
  ArrayRef<int64_t> input = c.operandShape(0); // NHWC
  if (!bilinear && input[1] == 1 && input[2] == 1)
    return; // copies of one position
  if (bilinear)
    return c.no("bilinear mode");
  c.atMost("batch", input[0], 1);
  for (auto [i, what] : {std::pair(0, "height"), std::pair(1, "width")}) {
    std::string parameters =
        ("scale " + Twine(scale[2 * i]) + "/" + Twine(scale[2 * i + 1]) +
         ", offset " + Twine(offset[i]) + ", border " + Twine(border[i]) +
         " of the " + what)
            .str();
    if (form[i] == Form::Other || form[i] != form[0])
      c.no(Twine(parameters) +
           ": neither f/1, 0, 0 nor 2f/2, 1 - f, f - 1 in both directions");
    else if (factor[i] != 2 && factor[i] != 4 && factor[i] != 8)
      c.no(Twine(parameters) + ": the factor is none of 2, 4, 8");
  }
}

} // namespace tessera::ethosu

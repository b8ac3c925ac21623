// Pools. On its TOSA path Vela checks padded averages only; heights above 256
// and more than 65,536 taps overflow the registers.
#include "mlir/IR/Operation.h"
#include "targets/EthosU/Limits/Check.h"

using namespace mlir;

namespace tessera::ethosu {

void checkPool(Check &c) {
  SmallVector<int64_t> kernel = c.ints("kernel"), stride = c.ints("stride"),
                       pad = c.ints("pad");
  bool padded = llvm::any_of(pad, [](int64_t p) { return p != 0; });
  bool average = c.op->getName().stripDialect() == "avg_pool2d";
  c.atMost("kernel height", kernel[0], 256);
  if (kernel[0] * kernel[1] > 65536)
    c.no("kernel of " + Twine(kernel[0]) + "x" + Twine(kernel[1]) + " has " +
         Twine(kernel[0] * kernel[1]) + " taps, more than 65536");
  c.atMost("kernel width", kernel[1], maxKernel);
  c.atMost("stride", std::max(stride[0], stride[1]), maxStride);
  c.atMost("channels", c.operandShape(0).back(), maxAxis);
  if (c.isU85() || !padded)
    return; // without padding, larger strides are split
  for (int i = 0; i < 2; ++i)
    if (c.resultShape()[1 + i] > 1) // otherwise no step is taken
      c.atMost("stride of a padded pool", stride[i], 3);
  if (average)
    c.atMost("kernel of a padded average", std::max(kernel[0], kernel[1]), 8);
}

} // namespace tessera::ethosu

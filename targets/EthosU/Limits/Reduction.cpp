// Reductions and MATMUL, which reduces a product.
#include "mlir/IR/Operation.h"
#include "targets/EthosU/Limits/Check.h"

using namespace mlir;

namespace tessera::ethosu {

static int64_t product(ArrayRef<int64_t> v) {
  int64_t p = 1;
  for (int64_t d : v)
    p *= d;
  return p;
}

/// U55 and U65 have none: Vela puts the position into the low bits of 16-bit
/// numbers and takes their maximum, hence 127 and the innermost axis.
void checkArgmax(Check &c) {
  if (c.isU85())
    return;
  ArrayRef<int64_t> shape = c.operandShape(0);
  int64_t last = (int64_t)shape.size() - 1;
  if (c.axis() != last)
    c.no("axis " + Twine(c.axis()) + " is not the innermost, " + Twine(last));
  c.atMost("extent of the innermost axis,", shape.back(), 127);
  if (shape.size() > 3)
    c.atMost("product of the axes before the last three,",
             product(shape.drop_back(3)), 1);
  if (shape.size() >= 3)
    c.atMost("positions in a plane,", shape[last - 2] * shape[last - 1],
             maxAxis);
}

/// Sums are native along the innermost axis; others are transposed before.
void checkReduceSum(Check &c) {
  ArrayRef<int64_t> shape = c.operandShape(0);
  size_t axis = c.axis();
  if (c.isU85() || axis + 1 == shape.size())
    return;
  c.atMost("product of the axes before the summed one,",
           product(shape.take_front(axis)), maxAxis);
  c.atMost("extent of the summed axis,", shape[axis], maxAxis);
  c.atMost("product of the axes behind the summed one,",
           product(shape.drop_front(axis + 1)), maxAxis);
}

void checkMatmul(Check &c) {
  if (c.isU85())
    return;
  ArrayRef<int64_t> right = c.operandShape(1); // N, C, W
  c.atMost("summed axis", right[1], maxAxis);
  c.atMost("columns", right[2], maxAxis);
}

} // namespace tessera::ethosu

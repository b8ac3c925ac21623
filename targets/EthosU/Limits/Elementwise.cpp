// Shifts and RESCALE; other elementwise operators are limited by their types
// only.
#include "mlir/Dialect/Tosa/IR/TosaOps.h"
#include "targets/EthosU/Limits/Check.h"

using namespace mlir;

namespace tessera::ethosu {

void checkShift(Check &c) {
  auto round = c.op->getAttrOfType<BoolAttr>("round");
  if (!c.isU85() && round && !round.getValue())
    c.no("a shift without rounding");
}

/// What TOSA forbids and the dialect's verifier lets pass.
void checkRescale(Check &c) {
  auto flag = [&](StringRef name) {
    return c.op->getAttrOfType<BoolAttr>(name).getValue();
  };
  auto mode = c.op->getAttrOfType<mlir::tosa::RoundingModeAttr>("rounding_mode")
                  .getValue();
  Type input = c.elementOf(c.op->getOperand(0)),
       output = c.elementOf(c.op->getResult(0));
  if (mode == mlir::tosa::RoundingMode::DOUBLE_ROUND && !flag("scale32"))
    c.no("double rounding with 16-bit multipliers");
  if (input.isInteger(48) && flag("scale32"))
    c.no("32-bit multipliers on an input of type i48");
  auto sized = [](Type t) { return t.isInteger(8) || t.isInteger(16); };
  if (flag("input_unsigned") && (!sized(input) || output.isInteger(32)))
    c.no("an unsigned input from or to 32 bits");
  if (flag("output_unsigned") && (!sized(output) || !sized(input)))
    c.no("an unsigned output from or to 32 bits");
}

} // namespace tessera::ethosu

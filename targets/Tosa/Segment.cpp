#include "targets/Tosa/Segment.h"
#include "targets/Tosa/Serialise.h"

using namespace mlir;

namespace tessera::tosa {

FailureOr<Segment> buildSegment(ArrayRef<Operation *> ops, Precision precision, Reasons &reasons) {
  Segment s;
  s.border = findBorder(ops);
  auto module = lowerToTosa(ops, s.border, precision, reasons);
  if (failed(module))
    return failure();
  auto bytes = writeTosa(**module);
  if (failed(bytes))
    return LogicalResult(reasons.no() << "the TOSA file cannot be written");
  s.file = std::move(*bytes);
  auto back = readTosa(s.file, (*module)->getContext());
  if (failed(back))
    return LogicalResult(reasons.no() << "the TOSA file cannot be read back");
  s.readBack = std::move(*back);
  return s;
}

} // namespace tessera::tosa

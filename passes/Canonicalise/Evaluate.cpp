#include "passes/Canonicalise/Evaluate.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace tessera::onnx {

static llvm::StringMap<Evaluator> &evaluators() {
  static llvm::StringMap<Evaluator> map;
  return map;
}

RegisterEvaluator::RegisterEvaluator(std::initializer_list<StringRef> names, Evaluator evaluator) {
  for (StringRef name : names)
    evaluators()[name] = evaluator;
}

Evaluator findEvaluator(Operation *op) {
  StringRef name = op->getName().getStringRef();
  if (!name.consume_front("onnx."))
    return nullptr;
  return evaluators().lookup(name);
}

bool ConstantOperands::fits(Type element, ArrayRef<int64_t> shape) const {
  if (!HostTensor::supported(element))
    return false;
  int64_t bytes = HostTensor(element, {0}).elementBytes();
  for (int64_t d : shape)
    if (d < 0 || llvm::MulOverflow(bytes, d, bytes))
      return false;
  return bytes <= byteLimit;
}

std::optional<int64_t> normaliseAxis(int64_t axis, int64_t rank) {
  if (axis < 0)
    axis += rank;
  if (axis < 0 || axis >= rank)
    return std::nullopt;
  return axis;
}

} // namespace tessera::onnx
